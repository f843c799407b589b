-- The first schema.
--
-- executions holds runs, tasks and resumes. A resume (target builtin.resume_workflow) is a wake-up: at most one is
-- pending per run (V2). Everything else hangs on an execution and goes with it; only the rows of a run's context have
-- no foreign key, because every step writes one, so whoever deletes a run deletes them too.
-- Times are milliseconds since 1970 UTC by the store's clock.

CREATE TABLE executions (
    id                 TEXT PRIMARY KEY,
    type               TEXT NOT NULL,               -- workflow, task
    target_name        TEXT NOT NULL,
    queue              TEXT NOT NULL DEFAULT 'default',
    priority           INTEGER NOT NULL DEFAULT 0,
    ready_at           INTEGER NOT NULL,
    status             TEXT NOT NULL,
    args               BLOB,
    output             BLOB,
    error              BLOB,
    parent_workflow_id TEXT REFERENCES executions (id) ON DELETE CASCADE,
    parent_op          TEXT,
    started_by         TEXT,                        -- run that started it, also where it is not told about the end
    started_op         TEXT,
    definition         TEXT NOT NULL DEFAULT '',
    run_no             INTEGER NOT NULL DEFAULT 1,
    epoch              INTEGER NOT NULL DEFAULT 0,
    lease_owner        TEXT,
    reclaims           INTEGER NOT NULL DEFAULT 0,  -- workers lost with it since it last committed anything
    strikes            INTEGER NOT NULL DEFAULT 0,  -- those that had nothing else; means nothing where reclaims is 0
    leased_at          INTEGER,                     -- since when its worker has it; only where reclaims is not 0
    survived_ms        INTEGER,                     -- how long the last worker lost with it lived after claiming it
    place              TEXT,                        -- of a suspect: the location its worker was about to perform
    reason             TEXT,
    parked_by          TEXT,
    inbox_seq          INTEGER NOT NULL DEFAULT 0,
    inbox_seen         INTEGER NOT NULL DEFAULT 0,
    timer_count        INTEGER NOT NULL DEFAULT 0,
    alarm              INTEGER,                     -- earliest deadline, as the run's last turn said
    attempt            INTEGER NOT NULL DEFAULT 0,
    max_attempts       INTEGER NOT NULL DEFAULT 1,
    backoff_ms         REAL NOT NULL DEFAULT 0,
    backoff_max_ms     REAL NOT NULL DEFAULT 0,
    timeout_ms         INTEGER,
    heartbeat_ms       INTEGER,
    dedup_key          TEXT,
    partition_key      TEXT,
    holds_slot         INTEGER NOT NULL DEFAULT 0,
    pause_requested    INTEGER NOT NULL DEFAULT 0,
    cancel_requested   INTEGER NOT NULL DEFAULT 0,
    attributes         TEXT,
    created_at         INTEGER NOT NULL,
    started_at         INTEGER,
    completed_at       INTEGER
) STRICT;

CREATE UNIQUE INDEX executions_one_pending_resume ON executions (parent_workflow_id)
    WHERE target_name = 'builtin.resume_workflow' AND status = 'pending';
-- Resumes have an index of their own, and the rest one with the type: resumes, runs and tasks are claimed apart, and
-- who looks for one must not wade through the others.
CREATE INDEX executions_resumes ON executions (priority DESC, ready_at, id)
    WHERE target_name = 'builtin.resume_workflow' AND status = 'pending';
-- Partition last: claims of a limited queue pass over items of partitions without looking them up.
CREATE INDEX executions_ready ON executions (queue, type, priority DESC, ready_at, id, partition_key)
    WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow';
CREATE INDEX executions_partition ON executions (queue, partition_key, priority DESC, ready_at, id)
    WHERE status = 'pending' AND partition_key IS NOT NULL;
CREATE INDEX executions_leased ON executions (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX executions_parent ON executions (parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE UNIQUE INDEX executions_dedup ON executions (queue, dedup_key)
    WHERE dedup_key IS NOT NULL
      AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked');
CREATE INDEX executions_slots ON executions (queue, partition_key) WHERE holds_slot;
CREATE INDEX executions_closed ON executions (completed_at) WHERE completed_at IS NOT NULL;
-- Ascending, and read backwards: so the newest of one millisecond come first, too. Only runs are listed.
CREATE INDEX executions_recent ON executions (type, created_at) WHERE type = 'workflow';
CREATE INDEX executions_parked ON executions (target_name) WHERE status = 'parked';
-- Suspects nobody has, the last claimed first.
CREATE INDEX executions_suspects ON executions (leased_at DESC, id)
    WHERE reclaims >= 2 AND lease_owner IS NULL AND completed_at IS NULL;
-- What the sweep compares with the timer rows that are there (P4).
CREATE INDEX executions_timed ON executions (id) WHERE status = 'suspended' AND timer_count > 0;

CREATE TABLE workflow_execution_context (
    workflow_id TEXT NOT NULL,
    key         BLOB NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (workflow_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_inbox (
    workflow_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,                   -- below 0: only an answer, no mail
    kind        TEXT NOT NULL,                      -- update, cancel, result
    message_id  TEXT,
    name        TEXT NOT NULL,
    data        BLOB NOT NULL,
    at          INTEGER NOT NULL,
    answer      BLOB,                               -- of a rejected update; then it is no mail any more
    PRIMARY KEY (workflow_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX workflow_inbox_message ON workflow_inbox (workflow_id, kind, message_id);
CREATE INDEX workflow_inbox_answers ON workflow_inbox (at) WHERE answer IS NOT NULL;

CREATE TABLE workflow_signals (
    workflow_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    signal_id   TEXT NOT NULL,
    PRIMARY KEY (workflow_id, signal_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE watchers (
    target_id   TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    workflow_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    op          TEXT NOT NULL,
    task_id     TEXT,                               -- what the watcher would have queued itself
    PRIMARY KEY (target_id, workflow_id, op)
) STRICT, WITHOUT ROWID;
CREATE INDEX watchers_workflow ON watchers (workflow_id);
CREATE INDEX watchers_task ON watchers (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE step_details (
    key         TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL,
    details     BLOB NOT NULL,
    at          INTEGER NOT NULL
) STRICT;
CREATE INDEX step_details_workflow ON step_details (workflow_id);

CREATE TABLE timer_tasks (
    id          TEXT PRIMARY KEY,
    fire_at     INTEGER NOT NULL,
    workflow_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    timer_type  TEXT NOT NULL,                      -- delay, timeout, retry, start
    metadata    TEXT,                               -- the location of the run's own timers; null for the store's
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_timer_tasks_fire_at ON timer_tasks (fire_at);
CREATE INDEX idx_timer_tasks_workflow_id ON timer_tasks (workflow_id);

CREATE TABLE workers (
    id          TEXT PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    beat_due    INTEGER NOT NULL,                   -- when the next renewal comes if it lives
    started_at  INTEGER NOT NULL,
    host        TEXT NOT NULL DEFAULT '',
    machine     TEXT NOT NULL DEFAULT '',           -- boot and pid namespace; empty where the system does not tell
    pid         INTEGER NOT NULL DEFAULT 0,
    pid_began   INTEGER NOT NULL DEFAULT 0,         -- tells processes apart that had one pid after another
    crowded     INTEGER NOT NULL DEFAULT 0,         -- lost with more than one lease
    release     TEXT NOT NULL DEFAULT '',
    queues      TEXT,
    capability  TEXT NOT NULL,
    draining    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE queues (
    name                  TEXT PRIMARY KEY,
    concurrency           INTEGER,
    worker_concurrency    INTEGER,
    partition_concurrency INTEGER,
    rate_limit            INTEGER,
    rate_period           INTEGER,
    paused                INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE queue_starts (queue TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE INDEX queue_starts_at ON queue_starts (queue, at);

CREATE TABLE schedules (
    name       TEXT PRIMARY KEY,
    target     TEXT NOT NULL,
    args       BLOB NOT NULL,
    queue      TEXT NOT NULL DEFAULT 'default',
    cron       TEXT,
    every      INTEGER,
    tz         TEXT NOT NULL DEFAULT 'UTC',
    overlap    TEXT NOT NULL DEFAULT 'skip',
    catch_up   TEXT NOT NULL DEFAULT 'one',
    start_at   INTEGER,
    end_at     INTEGER,
    anchor     INTEGER NOT NULL,                    -- every counts from here
    next_at    INTEGER,                             -- null: it has ended
    waiting_at INTEGER,                             -- nominal time of the run that begins when the last one ends
    last_id    TEXT,
    paused     INTEGER NOT NULL DEFAULT 0,
    revision   INTEGER NOT NULL DEFAULT 0           -- grows with every change: who saw an older one fires nothing
) STRICT;
CREATE INDEX schedules_next_at ON schedules (next_at);
CREATE INDEX schedules_waiting ON schedules (name) WHERE waiting_at IS NOT NULL;

CREATE TABLE background_leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT;

CREATE TABLE definitions (
    id   TEXT NOT NULL,
    hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (id, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE programs (hash TEXT PRIMARY KEY, source TEXT NOT NULL) STRICT;

CREATE TABLE hooks (
    token_hash  TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    key         TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX hooks_workflow ON hooks (workflow_id);

-- One row. oldest_release: the lowest schema_version whose code may still use this schema.
-- store_id: what encrypted values are bound to. digest: of what made these tables, and of what the database says it has.
CREATE TABLE tenuto_meta (
    schema_version INTEGER NOT NULL,
    oldest_release INTEGER NOT NULL,
    store_id       TEXT NOT NULL,
    digest         TEXT NOT NULL
) STRICT;
INSERT INTO tenuto_meta VALUES (1, 1, lower(hex(tenuto_token(16))), '');
