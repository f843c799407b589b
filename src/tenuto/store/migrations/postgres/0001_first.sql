-- The first schema, as the SQLite one: same tables, same columns, same numbering of steps.
--
-- executions holds runs, tasks and resumes. A resume (target builtin.resume_workflow) is a wake-up: at most one is
-- pending per run (V2). Everything else hangs on an execution and goes with it; only the rows of a run's context have
-- no foreign key, because every step writes one, so whoever deletes a run deletes them too.
-- Here inbox, signal ids, watchers and hooks have none either: every resume that is claimed is a deleted execution, and
-- each foreign key on executions would look for its children.

-- Time is one function, so that tests can set it for their session. STABLE: a volatile one would disable the indexes.
CREATE FUNCTION tenuto_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('tenuto.fake_now', true), '')::timestamptz, statement_timestamp())
$$;

-- Milliseconds since 1970 UTC, as the port has them. Rounded down: a time is never said to be later than it is (P4).
CREATE FUNCTION tenuto_ms(t timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT floor(extract(epoch FROM t) * 1000)::bigint
$$;

-- The reverse.
CREATE FUNCTION tenuto_time(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_timestamp(ms / 1000.0::float8)
$$;

-- Where a signal of this number is stored: the packed tuple (3, number as 16 hex digits). STABLE, as what it calls is:
-- then it becomes part of the statement, in place of a call for every row. So is the next one.
CREATE FUNCTION tenuto_mail_key(number bigint) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT decode('150302', 'hex') || convert_to(lpad(to_hex(number), 16, '0'), 'UTF8') || decode('00', 'hex')
$$;

-- The encoded arguments [run id] of a resume; ids have at most 255 bytes.
CREATE FUNCTION tenuto_resume_args(run text) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(run) < 24 THEN decode('81' || lpad(to_hex(96 + octet_length(run)), 2, '0'), 'hex')
                ELSE decode('8178' || lpad(to_hex(octet_length(run)), 2, '0'), 'hex') END || convert_to(run, 'UTF8')
$$;

-- The id of a resume. It may be guessed: gen_random_uuid() asks the system, which takes ten times as long.
CREATE FUNCTION tenuto_resume_id() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT 'resume:' || to_hex((random() * (1::bigint << 52))::bigint) || to_hex((random() * (1::bigint << 52))::bigint)
$$;

CREATE TABLE executions (
    id                 text COLLATE "C" PRIMARY KEY,
    type               text NOT NULL,               -- workflow, task
    target_name        text NOT NULL,
    queue              text COLLATE "C" NOT NULL DEFAULT 'default',
    priority           bigint NOT NULL DEFAULT 0,
    ready_at           timestamptz NOT NULL,
    status             text NOT NULL,
    args               bytea,
    output             bytea,
    error              bytea,
    parent_workflow_id text COLLATE "C" REFERENCES executions (id) ON DELETE CASCADE,
    parent_op          text,
    started_by         text,                        -- run that started it, also where it is not told about the end
    started_op         text,
    definition         text NOT NULL DEFAULT '',
    run_no             integer NOT NULL DEFAULT 1,
    epoch              bigint NOT NULL DEFAULT 0,
    lease_owner        text COLLATE "C",
    reclaims           integer NOT NULL DEFAULT 0,  -- workers lost with it since it last committed anything
    strikes            integer NOT NULL DEFAULT 0,  -- those that had nothing else; means nothing where reclaims is 0
    leased_at          timestamptz,                 -- since when its worker has it; only where reclaims is not 0
    survived_ms        bigint,                      -- how long the last worker lost with it lived after claiming it
    place              text,                        -- of a suspect: the location its worker was about to perform
    reason             text,
    parked_by          text,
    inbox_seq          bigint NOT NULL DEFAULT 0,
    inbox_seen         bigint NOT NULL DEFAULT 0,
    timer_count        integer NOT NULL DEFAULT 0,
    alarm              timestamptz,                 -- earliest deadline, as the run's last turn said
    attempt            integer NOT NULL DEFAULT 0,
    max_attempts       integer NOT NULL DEFAULT 1,
    backoff_ms         double precision NOT NULL DEFAULT 0,
    backoff_max_ms     double precision NOT NULL DEFAULT 0,
    timeout_ms         bigint,
    heartbeat_ms       bigint,
    dedup_key          text COLLATE "C",
    partition_key      text COLLATE "C",
    holds_slot         boolean NOT NULL DEFAULT false,
    pause_requested    boolean NOT NULL DEFAULT false,
    cancel_requested   boolean NOT NULL DEFAULT false,
    attributes         jsonb,
    created_at         timestamptz NOT NULL,
    created_no         bigint GENERATED ALWAYS AS IDENTITY,  -- order within one instant
    started_at         timestamptz,
    completed_at       timestamptz
) WITH (fillfactor = 70);  -- room on the page: most updates touch no indexed column, and stay beside the old row

CREATE UNIQUE INDEX executions_one_pending_resume ON executions (parent_workflow_id)
    WHERE target_name = 'builtin.resume_workflow' AND status = 'pending';
-- With the type, and without resumes: what is claimed apart must not wade through the rest, of which there may be
-- thousands. Partition last: claims of a limited queue pass over items of partitions without looking them up.
CREATE INDEX executions_ready ON executions (queue, type, priority DESC, ready_at, id, partition_key)
    WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow';
-- The queue twice: who looks for the resumes of certain runs must not find this index, but the one above.
CREATE INDEX executions_resumes ON executions (queue, priority DESC, ready_at, id)
    WHERE status = 'pending' AND target_name = 'builtin.resume_workflow' AND queue = 'system';
CREATE INDEX executions_partition ON executions (queue, partition_key, priority DESC, ready_at, id)
    WHERE status = 'pending' AND partition_key IS NOT NULL;
CREATE INDEX executions_leased ON executions (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX executions_parent ON executions (parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE UNIQUE INDEX executions_dedup ON executions (queue, dedup_key)
    WHERE dedup_key IS NOT NULL
      AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked');
CREATE INDEX executions_slots ON executions (queue, partition_key) WHERE holds_slot;
CREATE INDEX executions_closed ON executions (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX executions_recent ON executions (type, created_at, created_no);
CREATE INDEX executions_parked ON executions (target_name) WHERE status = 'parked';
-- Suspects nobody has, the last claimed first.
CREATE INDEX executions_suspects ON executions (leased_at DESC, id)
    WHERE reclaims >= 2 AND lease_owner IS NULL AND completed_at IS NULL;
-- What the sweep compares with the timer rows that are there (P4).
CREATE INDEX executions_timed ON executions (id) WHERE status = 'suspended' AND timer_count > 0;

CREATE TABLE workflow_execution_context (
    workflow_id text COLLATE "C" NOT NULL,
    key         bytea NOT NULL,
    value       bytea NOT NULL,
    PRIMARY KEY (workflow_id, key)
);

CREATE TABLE workflow_inbox (
    workflow_id text COLLATE "C" NOT NULL,
    seq         bigint NOT NULL,                    -- below 0: only an answer, no mail
    kind        text NOT NULL,                      -- update, cancel, result
    message_id  text COLLATE "C",
    name        text NOT NULL,
    data        bytea NOT NULL,
    at          timestamptz NOT NULL,
    answer      bytea,                              -- of a rejected update; then it is no mail any more
    PRIMARY KEY (workflow_id, seq)
);
CREATE UNIQUE INDEX workflow_inbox_message ON workflow_inbox (workflow_id, kind, message_id);
CREATE INDEX workflow_inbox_answers ON workflow_inbox (at) WHERE answer IS NOT NULL;

CREATE TABLE workflow_signals (
    workflow_id text COLLATE "C" NOT NULL,
    signal_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (workflow_id, signal_id)
);

CREATE TABLE watchers (
    target_id   text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    op          text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C",                   -- what the watcher would have queued itself
    PRIMARY KEY (target_id, workflow_id, op)
);
-- Whether anybody follows one of these. A volatile function looks with its own eyes: it sees a follower that was
-- committed after the statement had begun, while that waited for the row the follower had locked.
CREATE FUNCTION tenuto_watched(targets text[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN RETURN EXISTS (SELECT 1 FROM watchers WHERE target_id = ANY (targets)); END
$$;
CREATE INDEX watchers_workflow ON watchers (workflow_id);
CREATE INDEX watchers_task ON watchers (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE step_details (
    key         text COLLATE "C" PRIMARY KEY,
    workflow_id text COLLATE "C" NOT NULL,
    details     bytea NOT NULL,
    at          timestamptz NOT NULL
);
CREATE INDEX step_details_workflow ON step_details (workflow_id);

CREATE TABLE timer_tasks (
    id          text COLLATE "C" PRIMARY KEY,
    fire_at     timestamptz NOT NULL,
    workflow_id text COLLATE "C" NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    timer_type  text NOT NULL,                      -- delay, timeout, retry, start
    metadata    text,                               -- the location of the run's own timers; null for the store's
    created_at  timestamptz NOT NULL
);
CREATE INDEX idx_timer_tasks_fire_at ON timer_tasks (fire_at);
CREATE INDEX idx_timer_tasks_workflow_id ON timer_tasks (workflow_id);

CREATE TABLE workers (
    id          text COLLATE "C" PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    beat_due    timestamptz NOT NULL,               -- when the next renewal comes if it lives
    started_at  timestamptz NOT NULL,
    host        text NOT NULL DEFAULT '',
    machine     text NOT NULL DEFAULT '',           -- boot and pid namespace; empty where the system does not tell
    pid         bigint NOT NULL DEFAULT 0,
    pid_began   bigint NOT NULL DEFAULT 0,          -- tells processes apart that had one pid after another
    crowded     boolean NOT NULL DEFAULT false,     -- lost with more than one lease
    release     text NOT NULL DEFAULT '',
    queues      text,
    capability  text NOT NULL,
    draining    boolean NOT NULL DEFAULT false
);

CREATE TABLE queues (
    name                  text COLLATE "C" PRIMARY KEY,
    concurrency           bigint,
    worker_concurrency    bigint,
    partition_concurrency bigint,
    rate_limit            bigint,
    rate_period           bigint,
    paused                boolean NOT NULL DEFAULT false
);

CREATE TABLE queue_starts (queue text COLLATE "C" NOT NULL, at timestamptz NOT NULL);
CREATE INDEX queue_starts_at ON queue_starts (queue, at);

CREATE TABLE schedules (
    name       text COLLATE "C" PRIMARY KEY,
    target     text NOT NULL,
    args       bytea NOT NULL,
    queue      text NOT NULL DEFAULT 'default',
    cron       text,
    every      bigint,
    tz         text NOT NULL DEFAULT 'UTC',
    overlap    text NOT NULL DEFAULT 'skip',
    catch_up   text NOT NULL DEFAULT 'one',
    start_at   timestamptz,
    end_at     timestamptz,
    anchor     timestamptz NOT NULL,                -- every counts from here
    next_at    timestamptz,                         -- null: it has ended
    waiting_at timestamptz,                         -- nominal time of the run that begins when the last one ends
    last_id    text COLLATE "C",
    paused     boolean NOT NULL DEFAULT false,
    revision   bigint NOT NULL DEFAULT 0            -- grows with every change: who saw an older one fires nothing
);
CREATE INDEX schedules_next_at ON schedules (next_at);
CREATE INDEX schedules_waiting ON schedules (name) WHERE waiting_at IS NOT NULL;

CREATE TABLE background_leases (
    name  text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);

CREATE TABLE definitions (
    id   text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (id, hash)
);

CREATE TABLE programs (hash text PRIMARY KEY, source text NOT NULL);

CREATE TABLE hooks (
    token_hash  text PRIMARY KEY,
    workflow_id text COLLATE "C" NOT NULL,
    key         text NOT NULL UNIQUE
);
CREATE INDEX hooks_workflow ON hooks (workflow_id);

-- One row. oldest_release: the lowest schema_version whose code may still use this schema.
-- store_id: what encrypted values are bound to.
CREATE TABLE tenuto_meta (
    schema_version integer NOT NULL,
    oldest_release integer NOT NULL,
    store_id       text NOT NULL,
    digest         text NOT NULL
);
INSERT INTO tenuto_meta VALUES (1, 1, replace(gen_random_uuid()::text, '-', ''), '');
