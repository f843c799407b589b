-- Every statement the Postgres store executes. READ COMMITTED, so each statement sees what was committed before it.
--
-- Lock order, everywhere: rows of runs by id, rows of tasks by id, timers, resumes by run id. Whoever touches several
-- runs locks all of them first (lock_runs, Q7); whoever adds mail to a run locks its row by numbering it (Q6). Claims
-- use SKIP LOCKED and never wait: what is skipped stays pending and is found again.
-- A wake-up is a row, made by a locking upsert in the transaction of its cause (Q4, V1). One notification per
-- transaction at most: equal ones are merged by the server.
-- Plans may be older than the size of the tables. One made for a table that was empty would read an index of it to its
-- end, because that gives an order, and compare each row. What cannot be put in order has only its own index to go by:
-- x = ANY (ARRAY[y]) in place of x = y in joins, = ANY (ARRAY(...)), a subquery per row, || '' after what is ordered by.
-- Lists come as arrays. tenuto_now() is the store's clock; tenuto_ms and tenuto_time translate to milliseconds.

-- begin: a transaction of several statements.
BEGIN

-- commit: durable when it is answered (P1: synchronous_commit is on).
COMMIT

-- rollback: as if nothing had been.
ROLLBACK

-- set_up: the session's settings. Weaker durability in the server's configuration must not reach us (P1). Statements
-- are few, prepared, and all meant for indexes: a plan made once for all values, that never reads a whole table which
-- was small when it was made, is the right one for each.
SELECT set_config('synchronous_commit', 'on', false), set_config('default_transaction_isolation', 'read committed', false),
       set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),
       set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false),
       set_config('jit', 'off', false), set_config('tenuto.fake_now', '', false),
       set_config('search_path', coalesce(%(path)s::text, current_setting('search_path')), false)

-- own_path: where our names are looked for from then on: the schema that has our tables, or in which they will be made.
-- What others make in a schema before it, or as temporary, must not stand in for it.
SELECT quote_ident(coalesce((SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                              WHERE c.oid = to_regclass('tenuto_meta')), current_schema())) || ', pg_temp'

-- mark_session: a setting by which a session can be told.
SELECT set_config('tenuto.session', %(mark)s, false)

-- read_mark: whose session it is.
SELECT current_setting('tenuto.session', true)

-- only_read: for those who only look; the server refuses everything else.
SELECT set_config('default_transaction_read_only', 'on', false)

-- read_settings: what the promises rest on, read back.
SELECT current_setting('synchronous_commit'), current_setting('server_version_num')::integer,
       current_setting('fsync'), current_setting('transaction_read_only')

-- set_clock: only tests have another clock than the server's.
SELECT set_config('tenuto.fake_now', tenuto_time(%(now)s)::text, false)

-- clock: the store's time.
SELECT tenuto_ms(tenuto_now())

-- listen: one connection hears for the whole process.
LISTEN tenuto

-- notify: something became claimable, a run closed, or an update was answered.
SELECT pg_notify('tenuto', '')::text

-- snapshot: changes with every transaction that wrote anything: the net under lost notifications.
SELECT pg_current_snapshot()::text

-- lock_migrations: of two processes that find an old schema one migrates and the other waits and finds it done. Held
-- by the session, and taken before the transaction begins: one that has begun may not see the tables made meanwhile.
SELECT pg_advisory_lock(746579234)

-- has_meta: whether the schema is there at all.
SELECT to_regclass('tenuto_meta') IS NOT NULL

-- read_meta: the schema's version, and the oldest code that may use it.
SELECT schema_version, oldest_release FROM tenuto_meta

-- read_digest: how the tables were when they were made; null where the version that made them did not note it.
SELECT to_jsonb(m) ->> 'digest' FROM tenuto_meta m

-- set_digest: after a migration.
UPDATE tenuto_meta SET digest = %(digest)s

-- catalog: what the schema has of what we make: nothing in it is the server's own wording, which changes with its version.
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname = ANY (%(names)s::text[])
UNION ALL
SELECT 'index', i.relname, t.relname,
       array_to_string(ARRAY(SELECT a.attname FROM unnest(x.indkey) WITH ORDINALITY AS k (number, place)
                               JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
                              ORDER BY k.place), ',')
       || CASE WHEN x.indpred IS NULL THEN '' ELSE ' partial' END, x.indisunique
  FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
 WHERE i.relnamespace = current_schema()::regnamespace AND i.relname = ANY (%(names)s::text[]) AND x.indisvalid
UNION ALL
SELECT 'function', p.proname, p.provolatile::text, p.prosrc, p.proretset
  FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY (%(names)s::text[])

-- set_meta: after a migration.
UPDATE tenuto_meta SET schema_version = %(version)s

-- insert_run: a new run with its first rows; nothing if its id is taken, or its key is taken by an open item of its
-- queue. The parent is looked up because it may be gone: then nobody is told, and the child is as good as detached.
WITH made AS (
    INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, parent_workflow_id, parent_op,
                            started_by, started_op, definition, dedup_key, partition_key, attributes, created_at)
    VALUES (%(id)s, 'workflow', %(target)s, %(queue)s, %(priority)s,
            tenuto_now() + %(delay)s * interval '1 millisecond', %(status)s,
            (SELECT id FROM executions WHERE id = %(parent)s), %(parent_op)s, %(started_by)s, %(started_op)s,
            %(definition)s, %(key)s, %(partition)s, %(attributes)s::jsonb, tenuto_now())
    ON CONFLICT DO NOTHING
    RETURNING id, status, ready_at),
filled AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT made.id, r.key, r.value FROM made, unnest(%(keys)s::bytea[], %(values)s::bytea[]) AS r (key, value)
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value),
delayed AS (
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
    SELECT 'start:' || id, ready_at, id, 'start', tenuto_now() FROM made WHERE status = 'scheduled'
    ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at)
SELECT id, CASE WHEN status = 'pending' THEN pg_notify('tenuto', '')::text END FROM made

-- begin_runs: new runs with their first rows and timers; those that a worker has begun with as their first turns leave
-- them, under its lease. In id order, so that two who start the same runs do not wait for each other. All of them or
-- none: one whose id or key is taken makes it an error (a division by zero), and each is looked at by itself; so does one
-- that was begun with in a queue that was told anything, where it must wait to be claimed.
WITH clock AS MATERIALIZED (SELECT tenuto_now() AS at),  -- asked once, not for every row
made AS (
    INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, definition, dedup_key,
                            partition_key, attributes, created_at, started_at, epoch, lease_owner, alarm, timer_count)
    SELECT n.id, 'workflow', n.target, n.queue, n.priority, clock.at, n.status, n.definition, n.key, n.partition,
           n.attributes::jsonb, coalesce(tenuto_time(n.begun), clock.at),
           CASE WHEN n.status <> 'pending' THEN coalesce(tenuto_time(n.begun), clock.at) END,
           CASE WHEN n.status <> 'pending' THEN 1 ELSE 0 END, n.worker, tenuto_time(n.alarm), n.timers
      FROM clock, unnest(%(ids)s::text[], %(targets)s::text[], %(queues)s::text[], %(priorities)s::bigint[],
                  %(statuses)s::text[], %(definitions)s::text[], %(keys)s::text[], %(partitions)s::text[],
                  %(attributes)s::text[], %(workers)s::text[], %(alarms)s::bigint[], %(timers)s::bigint[],
                  %(begun)s::bigint[])
           AS n (id, target, queue, priority, status, definition, key, partition, attributes, worker, alarm, timers,
                 begun)
     WHERE n.status = 'pending' OR NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = n.queue)
     ORDER BY n.id
    ON CONFLICT DO NOTHING
    RETURNING id),
filled AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT run, key, value
      FROM unnest(%(row_runs)s::text[], %(row_keys)s::bytea[], %(row_values)s::bytea[]) AS p (run, key, value)
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value),
timed AS (
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, metadata, created_at)
    SELECT t.id, tenuto_time(t.deadline), t.run, t.sort, t.location, clock.at
      FROM clock, unnest(%(timer_ids)s::text[], %(deadlines)s::bigint[], %(timer_runs)s::text[], %(sorts)s::text[],
                  %(locations)s::text[]) AS t (id, deadline, run, sort, location))
SELECT tenuto_ms(tenuto_now()), 1 / CASE WHEN count(*) = cardinality(%(ids)s::text[]) THEN 1 ELSE 0 END,
       CASE WHEN 'pending' = ANY (%(statuses)s::text[]) THEN pg_notify('tenuto', '')::text END
  FROM made

-- begin_run: one new run that a worker has begun with, running under its lease, without its rows; where its id or key is
-- taken there is no answer.
INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, definition, dedup_key, partition_key,
                        attributes, created_at, started_at, epoch, lease_owner)
SELECT %(id)s, 'workflow', %(target)s, %(queue)s, %(priority)s, tenuto_now(), 'running', %(definition)s, %(key)s,
       %(partition)s, %(attributes)s::jsonb, coalesce(tenuto_time(%(begun)s::bigint), tenuto_now()),
       coalesce(tenuto_time(%(begun)s::bigint), tenuto_now()), 1, %(worker)s
 WHERE NOT EXISTS (SELECT 1 FROM queues WHERE name = %(queue)s)
ON CONFLICT DO NOTHING
RETURNING id

-- insert_tasks: tasks, of runs or by themselves; those whose id or key is taken are left out of the answer.
WITH made AS (
    INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, args, parent_workflow_id,
                            parent_op, max_attempts, backoff_ms, backoff_max_ms, timeout_ms, heartbeat_ms, dedup_key,
                            partition_key, created_at)
    SELECT t.id, 'task', t.target, t.queue, t.priority, tenuto_now() + t.delay * interval '1 millisecond',
           CASE WHEN t.delay > 0 THEN 'scheduled' ELSE 'pending' END, t.args, t.parent, t.op, t.max_attempts,
           t.backoff_ms, t.backoff_max_ms, t.timeout_ms, t.heartbeat_ms, t.key, t.partition, tenuto_now()
      FROM unnest(%(ids)s::text[], %(targets)s::text[], %(queues)s::text[], %(priorities)s::bigint[],
                  %(delays)s::bigint[], %(args)s::bytea[], %(parents)s::text[], %(ops)s::text[],
                  %(max_attempts)s::bigint[], %(backoffs)s::float8[], %(backoff_maxima)s::float8[],
                  %(timeouts)s::bigint[], %(heartbeats)s::bigint[], %(keys)s::text[], %(partitions)s::text[])
           AS t (id, target, queue, priority, delay, args, parent, op, max_attempts, backoff_ms, backoff_max_ms,
                 timeout_ms, heartbeat_ms, key, partition)
    ON CONFLICT DO NOTHING
    RETURNING id, status, ready_at),
delayed AS (
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
    SELECT 'start:' || id, ready_at, id, 'start', tenuto_now() FROM made WHERE status = 'scheduled'
    ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at)
SELECT id, CASE WHEN status = 'pending' THEN pg_notify('tenuto', '')::text END FROM made

-- keyed: the open item with a key in a queue, locked: it must not end before it knows who follows it.
SELECT id FROM executions
 WHERE queue = %(queue)s AND dedup_key = %(key)s
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
   FOR NO KEY UPDATE

-- get_run: one run.
SELECT id, target_name, status, epoch, tenuto_ms(alarm), reason, started_by, started_op, parent_workflow_id, definition,
       queue, run_no, tenuto_ms(created_at), tenuto_ms(started_at), tenuto_ms(completed_at), attributes
  FROM executions WHERE id = %(id)s AND type = 'workflow'

-- get_runs: several runs, for many who ask at the same moment.
SELECT id, target_name, status, epoch, tenuto_ms(alarm), reason, started_by, started_op, parent_workflow_id, definition,
       queue, run_no, tenuto_ms(created_at), tenuto_ms(started_at), tenuto_ms(completed_at), attributes
  FROM executions WHERE id = ANY (%(ids)s::text[]) AND type = 'workflow'

-- leased_runs: the runs a worker has the lease of.
SELECT id, target_name, status, epoch, tenuto_ms(alarm), reason, started_by, started_op, parent_workflow_id, definition,
       queue, run_no, tenuto_ms(created_at), tenuto_ms(started_at), tenuto_ms(completed_at), attributes
  FROM executions WHERE lease_owner = %(worker)s AND type = 'workflow' ORDER BY id || ''

-- all_runs: every run, oldest first.
SELECT id, target_name, status, epoch, tenuto_ms(alarm), reason, started_by, started_op, parent_workflow_id, definition,
       queue, run_no, tenuto_ms(created_at), tenuto_ms(started_at), tenuto_ms(completed_at), attributes
  FROM executions WHERE type = 'workflow' ORDER BY created_at, created_no

-- find_runs: newest first, behind a cursor; a filter that is null lets everything pass. What ends in a name has it as the
-- last part of its id. Stuck: the reason, which the store itself gave, has that code. Cursors are in microseconds.
SELECT id, target_name, status, epoch, tenuto_ms(alarm), reason, started_by, started_op, parent_workflow_id, definition,
       queue, run_no, tenuto_ms(created_at), tenuto_ms(started_at), tenuto_ms(completed_at), attributes,
       (extract(epoch FROM created_at) * 1000000)::bigint, created_no
  FROM executions
 WHERE type = 'workflow'
   AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[]))
   AND (NOT %(stuck)s::boolean OR strpos(coalesce(reason, ''), 'TN110') > 0)
   AND (%(target)s::text IS NULL OR target_name = %(target)s)
   AND (%(name)s::text IS NULL OR target_name = %(name)s
        OR (strpos(target_name, '//') > 0 AND right(target_name, length(%(name)s) + 1) = '/' || %(name)s))
   AND (%(since)s::bigint IS NULL OR created_at >= tenuto_time(%(since)s))
   AND (%(attributes)s::jsonb = '{}' OR attributes @> %(attributes)s::jsonb)
   AND (%(after_at)s::bigint IS NULL
        OR (created_at, created_no) < (timestamptz 'epoch' + %(after_at)s * interval '1 microsecond', %(after_no)s::bigint))
 ORDER BY created_at DESC, created_no DESC LIMIT %(limit)s

-- count_runs: how many fit, by status.
SELECT status, count(*) FROM executions
 WHERE type = 'workflow'
   AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[]))
   AND (NOT %(stuck)s::boolean OR strpos(coalesce(reason, ''), 'TN110') > 0)
   AND (%(target)s::text IS NULL OR target_name = %(target)s)
   AND (%(name)s::text IS NULL OR target_name = %(name)s
        OR (strpos(target_name, '//') > 0 AND right(target_name, length(%(name)s) + 1) = '/' || %(name)s))
   AND (%(since)s::bigint IS NULL OR created_at >= tenuto_time(%(since)s))
   AND (%(attributes)s::jsonb = '{}' OR attributes @> %(attributes)s::jsonb)
 GROUP BY status

-- rows_at: the row under one key of several runs.
SELECT workflow_id, value FROM workflow_execution_context
 WHERE workflow_id = ANY (%(ids)s::text[]) AND key = %(key)s

-- all_rows: everything of a run, in byte order.
SELECT key, value FROM workflow_execution_context WHERE workflow_id = %(id)s ORDER BY key

-- rows_of_runs: everything of several runs, each in byte order.
SELECT r.run, c.key, c.value
  FROM unnest(%(ids)s::text[]) AS r (run) CROSS JOIN LATERAL (
       SELECT key, value FROM workflow_execution_context WHERE workflow_id = r.run ORDER BY key) c

-- ranges_of_runs: half-open ranges of several runs' keys, by number, each in byte order.
SELECT r.number, c.key, c.value
  FROM unnest(%(runs)s::text[], %(firsts)s::bytea[], %(lasts)s::bytea[])
       WITH ORDINALITY AS r (run, first, last, number) CROSS JOIN LATERAL (
       SELECT key, value FROM workflow_execution_context
        WHERE workflow_id = r.run AND key >= r.first AND key < r.last ORDER BY key) c

-- range_rows: a half-open range of a run's keys, in byte order.
SELECT key, value FROM workflow_execution_context
 WHERE workflow_id = %(id)s AND key >= %(first)s AND key < %(last)s ORDER BY key

-- commit_row: the hot path: one row of a run that goes on, in one round trip that is its own transaction. The lock is
-- the fence (P5): whoever claimed the run meanwhile has raised the epoch, and then nothing is found and written.
-- Nothing is found either where the turn changes what the run's row says; that takes the longer way.
WITH run AS MATERIALIZED (
    SELECT id FROM executions
     WHERE id = %(run)s AND epoch = %(epoch)s AND status = 'running' AND reclaims = 0
       AND alarm IS NOT DISTINCT FROM tenuto_time(%(alarm)s) AND inbox_seen >= %(seen)s
       FOR NO KEY UPDATE),
put AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value) SELECT id, %(key)s, %(value)s FROM run
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value)
SELECT tenuto_ms(tenuto_now()) FROM run

-- commit_rows: the same for several turns and rows. Rows in id order: that is the lock order. All of them or none: if
-- a fence refuses one it is an error (a division by zero), and each is looked at the longer way.
WITH run AS MATERIALIZED (
    SELECT e.id
      FROM unnest(%(runs)s::text[], %(epochs)s::bigint[], %(alarms)s::bigint[], %(seen)s::bigint[])
           AS t (run, epoch, alarm, seen)
      JOIN executions e ON e.id = ANY (ARRAY[t.run])
     WHERE e.epoch = t.epoch AND e.status = 'running' AND e.reclaims = 0
       AND e.alarm IS NOT DISTINCT FROM tenuto_time(t.alarm) AND e.inbox_seen >= t.seen
     ORDER BY e.id || '' FOR NO KEY UPDATE OF e),
put AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT p.run, p.key, p.value
      FROM unnest(%(row_runs)s::text[], %(row_keys)s::bytea[], %(row_values)s::bytea[]) AS p (run, key, value)
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value)
SELECT tenuto_ms(tenuto_now()), 1 / CASE WHEN count(*) = cardinality(%(runs)s::text[]) THEN 1 ELSE 0 END FROM run

-- commit_turns: turns of several runs, each of which touches nothing but its own run, in one round trip that is its own
-- transaction. As above it is an error if one of them is not running under its epoch (P5), or ends although it has mail
-- that it was not given (V7) or has not decided (P8), or is followed by somebody. Parts of one statement do not see each other, so timers that go
-- are left out where timers are looked for. What goes on unchanged is locked and not written. The answer says which of
-- those that would wait were kept running by mail that came meanwhile (V1).
WITH clock AS MATERIALIZED (SELECT tenuto_now() AS at),
run AS MATERIALIZED (
    SELECT e.id
      FROM unnest(%(runs)s::text[], %(epochs)s::bigint[], %(statuses)s::text[], %(seen)s::bigint[])
           AS t (run, epoch, status, seen)
      JOIN executions e ON e.id = ANY (ARRAY[t.run])
     WHERE e.epoch = t.epoch AND e.status = 'running'
       AND (t.status IN ('running', 'suspended')
            OR (e.inbox_seq <= greatest(e.inbox_seen, t.seen)
                AND (SELECT 1 FROM workflow_inbox i WHERE i.workflow_id = e.id AND i.answer IS NULL LIMIT 1) IS NULL))
     ORDER BY e.id || '' FOR NO KEY UPDATE OF e),
put AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT p.run, p.key, p.value
      FROM unnest(%(row_runs)s::text[], %(row_keys)s::bytea[], %(row_values)s::bytea[]) AS p (run, key, value)
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value),
cut AS (
    DELETE FROM workflow_execution_context c
     USING unnest(%(cut_runs)s::text[], %(cut_keys)s::bytea[]) AS d (run, key)
     WHERE c.workflow_id = ANY (ARRAY[d.run]) AND c.key = d.key),
decided AS (
    DELETE FROM workflow_inbox i USING unnest(%(mail_runs)s::text[], %(mail)s::bigint[]) AS d (run, number)
     WHERE i.workflow_id = ANY (ARRAY[d.run]) AND i.seq = d.number AND i.answer IS NULL),
stopped AS (DELETE FROM timer_tasks WHERE id = ANY (%(stopped)s::text[])),
started AS (
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, metadata, created_at)
    SELECT t.id, tenuto_time(t.deadline), t.run, t.sort, t.location, clock.at
      FROM clock, unnest(%(timer_ids)s::text[], %(deadlines)s::bigint[], %(timer_runs)s::text[], %(sorts)s::text[],
                  %(locations)s::text[]) AS t (id, deadline, run, sort, location)
    ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at, timer_type = excluded.timer_type),
alarmed AS (
    INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
    SELECT 'alarm:' || t.run, tenuto_time(t.alarm), t.run, 'timeout', tenuto_now()
      FROM unnest(%(alarm_runs)s::text[], %(alarm_times)s::bigint[]) AS t (run, alarm)
     WHERE (SELECT bool_or(k.fire_at <= tenuto_time(t.alarm)) FROM timer_tasks k
             WHERE k.workflow_id = t.run AND NOT k.id = ANY (%(stopped)s::text[] || %(timer_ids)s::text[])) IS NOT TRUE
    ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at),
moved AS (
    UPDATE executions e
       SET status = CASE WHEN t.status <> 'suspended' THEN t.status WHEN e.pause_requested THEN 'paused'
                         WHEN e.inbox_seq > greatest(e.inbox_seen, t.seen) THEN 'running' ELSE 'suspended' END,
           lease_owner = CASE WHEN t.status = 'running'
                                OR (t.status = 'suspended' AND NOT e.pause_requested AND e.inbox_seq > greatest(e.inbox_seen, t.seen))
                              THEN e.lease_owner END,
           holds_slot = e.holds_slot AND (t.status = 'running' OR (t.status = 'suspended' AND NOT e.pause_requested)),
           pause_requested = e.pause_requested AND t.status = 'running',
           inbox_seen = greatest(e.inbox_seen, t.seen), alarm = tenuto_time(t.alarm),
           reclaims = CASE WHEN t.progress THEN 0 ELSE e.reclaims END,
           reason = CASE WHEN t.status = 'running' THEN e.reason END,
           parked_by = CASE WHEN t.status = 'running' THEN e.parked_by END,
           definition = coalesce(t.definition, e.definition),
           timer_count = CASE WHEN t.status = 'running' THEN e.timer_count
                              WHEN t.status <> 'suspended' OR t.alarm IS NULL THEN 0
                              ELSE t.started + (SELECT count(*) FROM timer_tasks k
                                                 WHERE k.workflow_id = t.run AND k.metadata IS NOT NULL
                                                   AND NOT k.id = ANY (%(stopped)s::text[] || %(timer_ids)s::text[]))
                         END,
           completed_at = CASE WHEN t.status NOT IN ('running', 'suspended') THEN clock.at END
      FROM clock, unnest(%(runs)s::text[], %(statuses)s::text[], %(seen)s::bigint[], %(alarms)s::bigint[],
                  %(progress)s::boolean[], %(definitions)s::text[], %(started)s::bigint[])
           AS t (run, status, seen, alarm, progress, definition, started)
     WHERE e.id = ANY (ARRAY[t.run])
       AND (t.status <> 'running' OR e.inbox_seen < t.seen OR e.alarm IS DISTINCT FROM tenuto_time(t.alarm)
            OR (t.progress AND e.reclaims > 0) OR t.definition IS NOT NULL)
    RETURNING e.id, e.status),
timers AS (DELETE FROM timer_tasks WHERE workflow_id = ANY (%(ended)s::text[])),
resumes AS (  -- the status so that only executions_parent fits: a plan made while few items waited would read all that wait
    DELETE FROM executions WHERE parent_workflow_id = ANY (%(ended)s::text[])
       AND target_name = 'builtin.resume_workflow' AND status || '' = 'pending'),
tokens AS (DELETE FROM hooks WHERE workflow_id = ANY (%(ended)s::text[]))
SELECT tenuto_ms(tenuto_now()), (SELECT array_agg(id) FROM moved WHERE status = 'running'),
       1 / CASE WHEN count(*) = cardinality(%(runs)s::text[]) AND NOT tenuto_watched(%(ended)s::text[])
                THEN 1 ELSE 0 END,
       CASE WHEN %(notify)s THEN pg_notify('tenuto', '')::text END
  FROM run

-- end_runs: the same for groups in which some turns only write rows and end their runs, as most runs end, and the others
-- are those of commit_rows: half the parts, and only for those that end.
WITH clock AS MATERIALIZED (SELECT tenuto_now() AS at),
run AS MATERIALIZED (
    SELECT e.id
      FROM unnest(%(runs)s::text[], %(epochs)s::bigint[], %(alarms)s::bigint[], %(seen)s::bigint[], %(ends)s::boolean[])
           AS t (run, epoch, alarm, seen, ends)
      JOIN executions e ON e.id = ANY (ARRAY[t.run])
     WHERE e.epoch = t.epoch AND e.status = 'running'
       AND CASE WHEN t.ends
                THEN e.inbox_seq <= greatest(e.inbox_seen, t.seen)
                 AND (SELECT 1 FROM workflow_inbox i WHERE i.workflow_id = e.id AND i.answer IS NULL LIMIT 1) IS NULL
                ELSE e.reclaims = 0 AND e.alarm IS NOT DISTINCT FROM tenuto_time(t.alarm) AND e.inbox_seen >= t.seen END
     ORDER BY e.id || '' FOR NO KEY UPDATE OF e),
put AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT p.run, p.key, p.value
      FROM unnest(%(row_runs)s::text[], %(row_keys)s::bytea[], %(row_values)s::bytea[]) AS p (run, key, value)
    ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value),
moved AS (
    UPDATE executions e
       SET status = t.status, lease_owner = NULL, holds_slot = false, pause_requested = false,
           inbox_seen = greatest(e.inbox_seen, t.seen), alarm = NULL, timer_count = 0, reclaims = 0, reason = NULL,
           parked_by = NULL, definition = coalesce(t.definition, e.definition), completed_at = clock.at
      FROM clock, unnest(%(ended)s::text[], %(statuses)s::text[], %(ended_seen)s::bigint[], %(definitions)s::text[])
           AS t (run, status, seen, definition)
     WHERE e.id = ANY (ARRAY[t.run])),
timers AS (DELETE FROM timer_tasks WHERE workflow_id = ANY (%(ended)s::text[])),
resumes AS (  -- the status so that only executions_parent fits: a plan made while few items waited would read all that wait
    DELETE FROM executions WHERE parent_workflow_id = ANY (%(ended)s::text[])
       AND target_name = 'builtin.resume_workflow' AND status || '' = 'pending'),
tokens AS (DELETE FROM hooks WHERE workflow_id = ANY (%(ended)s::text[]))
SELECT tenuto_ms(tenuto_now()),
       1 / CASE WHEN count(*) = cardinality(%(runs)s::text[]) AND NOT tenuto_watched(%(ended)s::text[]) THEN 1 ELSE 0 END,
       pg_notify('tenuto', '')::text
  FROM run

-- lock_runs: the first statement of whatever touches several runs (Q7): those named, the children of those that are
-- terminated, and whoever is told about what ends. In id order, so two of us cannot wait for each other.
SELECT id, epoch, status, inbox_seq, inbox_seen, reclaims, tenuto_ms(alarm) FROM executions
 WHERE id = ANY (ARRAY(SELECT unnest(%(ids)s::text[])
                 UNION ALL SELECT id FROM executions WHERE parent_workflow_id = ANY (%(closing)s::text[])
                                                       AND type = 'workflow'
                 UNION ALL SELECT parent_workflow_id FROM executions WHERE id = ANY (%(ending)s::text[])
                 UNION ALL SELECT workflow_id FROM watchers WHERE target_id = ANY (%(ending)s::text[])))
   AND type = 'workflow'
 ORDER BY id FOR NO KEY UPDATE

-- cancels_above: acknowledged cancels that the turns were not given (V7).
SELECT t.run
  FROM unnest(%(runs)s::text[], %(seen)s::bigint[]) AS t (run, seen)
 WHERE (SELECT 1 FROM workflow_inbox i WHERE i.workflow_id = t.run AND i.kind = 'cancel' AND i.seq > t.seen LIMIT 1) = 1

-- put_rows: rows of several runs.
INSERT INTO workflow_execution_context (workflow_id, key, value)
SELECT run, key, value
  FROM unnest(%(row_runs)s::text[], %(row_keys)s::bytea[], %(row_values)s::bytea[]) AS p (run, key, value)
ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value

-- delete_rows: single rows of several runs.
DELETE FROM workflow_execution_context c
 USING unnest(%(runs)s::text[], %(keys)s::bytea[]) AS d (run, key)
 WHERE c.workflow_id = ANY (ARRAY[d.run]) AND c.key = d.key

-- delete_ranges: half-open ranges of several runs' rows.
DELETE FROM workflow_execution_context c
 USING unnest(%(runs)s::text[], %(firsts)s::bytea[], %(lasts)s::bytea[]) AS d (run, first, last)
 WHERE c.workflow_id = ANY (ARRAY[d.run]) AND c.key >= d.first AND c.key < d.last

-- send_signal: a signal for an open run with its number (Q6), its row and the wake-up (Q4). One statement, so that
-- senders need no transaction: the first part locks the run, everything else follows from what it finds. The id is
-- noted only where there is room, and the number is given only where the id is new (P3). A suspended run may become a
-- worker's at once, in place of the wake-up.
WITH run AS MATERIALIZED (
    SELECT id, inbox_seq, status FROM executions
     WHERE id = %(run)s AND type = 'workflow'
       AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
       FOR NO KEY UPDATE),
roomy AS MATERIALIZED (
    SELECT id FROM run
     WHERE inbox_seq < %(limit)s
        OR (SELECT count(*) FROM workflow_inbox WHERE workflow_id = %(run)s AND kind = 'update' AND answer IS NULL)
         + (SELECT count(*) FROM workflow_execution_context
             WHERE workflow_id = %(run)s AND key >= %(first)s AND key < %(last)s) < %(limit)s),
noted AS (
    INSERT INTO workflow_signals (workflow_id, signal_id)
    SELECT id, %(signal)s FROM roomy WHERE %(signal)s::text IS NOT NULL
    ON CONFLICT DO NOTHING RETURNING workflow_id),
numbered AS (
    UPDATE executions e
       SET inbox_seq = e.inbox_seq + 1,
           status = CASE WHEN e.status = 'suspended' AND %(worker)s::text IS NOT NULL THEN 'running' ELSE e.status END,
           lease_owner = CASE WHEN e.status = 'suspended' THEN %(worker)s::text ELSE e.lease_owner END,
           epoch = e.epoch + CASE WHEN e.status = 'suspended' AND %(worker)s::text IS NOT NULL THEN 1 ELSE 0 END,
           leased_at = CASE WHEN e.reclaims > 0 THEN tenuto_now() END, place = NULL
      FROM run JOIN roomy USING (id)
     WHERE e.id = %(run)s AND (%(signal)s::text IS NULL OR EXISTS (SELECT 1 FROM noted))
    RETURNING e.id, e.inbox_seq, e.status, run.status = 'suspended' AND %(worker)s::text IS NOT NULL AS claimed,
              e.target_name, e.epoch, e.alarm, e.reason, e.started_by, e.started_op, e.parent_workflow_id,
              e.definition, e.queue, e.run_no, e.created_at, e.started_at, e.completed_at, e.attributes),
stored AS (
    INSERT INTO workflow_execution_context (workflow_id, key, value)
    SELECT id, tenuto_mail_key(inbox_seq), %(data)s FROM numbered),
woken AS (
    INSERT INTO executions (id, type, target_name, queue, status, args, priority, ready_at, created_at,
                            parent_workflow_id)
    SELECT tenuto_resume_id(), 'task', 'builtin.resume_workflow', 'system', 'pending', tenuto_resume_args(id), 10,
           tenuto_now(), tenuto_now(), id
      FROM numbered WHERE status IN ('running', 'suspended') AND NOT claimed
    ON CONFLICT (parent_workflow_id) WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
    DO UPDATE SET priority = executions.priority
    RETURNING parent_workflow_id)
SELECT (SELECT inbox_seq FROM numbered), EXISTS (SELECT 1 FROM roomy), EXISTS (SELECT 1 FROM run),
       (SELECT pg_notify('tenuto', '')::text FROM woken), tenuto_ms(tenuto_now()), c.id, c.target_name, c.status,
       c.epoch, tenuto_ms(c.alarm), c.reason, c.started_by, c.started_op, c.parent_workflow_id, c.definition, c.queue,
       c.run_no, tenuto_ms(c.created_at), tenuto_ms(c.started_at), tenuto_ms(c.completed_at), c.attributes
  FROM (SELECT 1) one LEFT JOIN numbered c ON c.claimed

-- has_signal: whether that signal id was stored before.
SELECT 1 FROM workflow_signals WHERE workflow_id = %(run)s AND signal_id = %(signal)s

-- number_mail: the next number in a run's inbox (Q6). No row where that message is there undecided, where its update
-- was decided, and where the run is unknown or closed. The run is locked before, by lock_runs.
UPDATE executions SET inbox_seq = inbox_seq + 1
 WHERE id = %(run)s AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
   AND (%(message)s::text IS NULL
        OR NOT EXISTS (SELECT 1 FROM workflow_inbox
                        WHERE workflow_id = %(run)s AND kind = %(kind)s AND message_id = %(message)s
                          AND answer IS NULL))
   AND (%(update_key)s::bytea IS NULL
        OR NOT EXISTS (SELECT 1 FROM workflow_execution_context
                        WHERE workflow_id = %(run)s AND key = %(update_key)s))
RETURNING inbox_seq, status

-- has_message: whether a message is there undecided, or its update was decided.
SELECT 1 FROM workflow_inbox
 WHERE workflow_id = %(run)s AND kind = %(kind)s AND message_id = %(message)s AND answer IS NULL
UNION ALL
SELECT 1 FROM workflow_execution_context WHERE workflow_id = %(run)s AND key = %(update_key)s

-- insert_mail: updates, cancels and results.
INSERT INTO workflow_inbox (workflow_id, seq, kind, message_id, name, data, at)
VALUES (%(run)s, %(seq)s, %(kind)s, %(message)s, %(name)s, %(data)s, tenuto_now())

-- buffered: how much mail waits that clients and other runs sent.
SELECT (SELECT count(*) FROM workflow_inbox WHERE workflow_id = %(run)s AND kind = 'update' AND answer IS NULL)
     + (SELECT count(*) FROM workflow_execution_context
         WHERE workflow_id = %(run)s AND key >= %(first)s AND key < %(last)s)

-- read_mail: undecided mail above a number, signals and the rest, in one snapshot. The number of a signal is in its key,
-- and is not read here: a key that has none would fail the whole statement.
SELECT seq, NULL::bytea, data FROM workflow_inbox
 WHERE workflow_id = %(run)s AND seq > %(above)s AND seq > 0 AND answer IS NULL
UNION ALL
SELECT NULL, key, value FROM workflow_execution_context
 WHERE workflow_id = %(run)s AND key >= %(first)s AND key < %(last)s

-- mail_of_runs: the same of several runs, each above its own number.
SELECT r.run, m.number, m.key, m.data
  FROM unnest(%(runs)s::text[], %(above)s::bigint[]) AS r (run, above) CROSS JOIN LATERAL (
       SELECT seq, NULL::bytea, data FROM workflow_inbox
        WHERE workflow_id = r.run AND seq > r.above AND seq > 0 AND answer IS NULL
       UNION ALL
       SELECT NULL, key, value FROM workflow_execution_context
        WHERE workflow_id = r.run AND key >= tenuto_mail_key(r.above + 1) AND key < %(last)s
       OFFSET 0) AS m (number, key, data)

-- delete_mail: mail that turns decided. A rejected update stays, as its answer.
DELETE FROM workflow_inbox i
 USING unnest(%(runs)s::text[], %(numbers)s::bigint[]) AS d (run, number)
 WHERE i.workflow_id = ANY (ARRAY[d.run]) AND i.seq = d.number AND i.answer IS NULL

-- set_answer: a rejection. Where the update's row is gone, one below all numbers takes it.
INSERT INTO workflow_inbox (workflow_id, seq, kind, message_id, name, data, at, answer)
VALUES (%(run)s, (SELECT least(coalesce(min(seq), 0), 0) - 1 FROM workflow_inbox WHERE workflow_id = %(run)s),
        'update', %(message)s, '', '', tenuto_now(), %(answer)s)
ON CONFLICT (workflow_id, kind, message_id) DO UPDATE SET answer = excluded.answer, at = excluded.at

-- get_answer: a rejection, while it is kept.
SELECT answer FROM workflow_inbox
 WHERE workflow_id = %(run)s AND kind = 'update' AND message_id = %(message)s AND answer IS NOT NULL
   AND at > tenuto_now() - %(kept)s * interval '1 millisecond'

-- delete_answer: the same update was sent again. Only its new message takes the answer away (P8).
DELETE FROM workflow_inbox
 WHERE workflow_id = %(run)s AND kind = 'update' AND message_id = %(message)s AND answer IS NOT NULL

-- delete_old_answers: nobody came for them.
DELETE FROM workflow_inbox WHERE answer IS NOT NULL AND at <= tenuto_now() - %(kept)s * interval '1 millisecond'

-- wake: a pending resume for each of these runs, at most one (Q4). The no-op update is the point: it locks the pending
-- row until the cause commits, so no claimer acts on the wake-up before the cause is visible (R012).
WITH woken AS (
    INSERT INTO executions (id, type, target_name, queue, status, args, priority, ready_at, created_at,
                            parent_workflow_id)
    SELECT tenuto_resume_id(), 'task', 'builtin.resume_workflow', 'system', 'pending', tenuto_resume_args(run), 10,
           tenuto_now(), tenuto_now(), run
      FROM (SELECT DISTINCT run FROM unnest(%(runs)s::text[]) AS u (run)) x ORDER BY run
    ON CONFLICT (parent_workflow_id) WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
    DO UPDATE SET priority = executions.priority
    RETURNING parent_workflow_id)
SELECT pg_notify('tenuto', '')::text FROM (SELECT 1 FROM woken LIMIT 1) any_woken

-- unpause_for_cancel: a cancel lets a paused run go on.
UPDATE executions SET status = 'suspended' WHERE id = %(run)s AND status = 'paused'

-- claim_runs: wake-ups become leases (Q2, V3); those of runs that are not suspended mean nothing and go, which the answer
-- counts. Suspects are claimed apart. Then, in the room they leave, runs that have not begun (Q3), over all queues without limits: a skip scan, one
-- probe of executions_ready each. Whether a queue has limits is read here and not remembered: a new one holds from its
-- commit on. The time comes along: no later look at our estimate of the clock may be before what made a run claimable (P4).
WITH RECURSIVE woken AS MATERIALIZED (
    SELECT r.id AS resume_id, w.id, w.status, r.priority, r.ready_at
      FROM executions r JOIN executions w ON w.id = ANY (ARRAY[coalesce(r.parent_workflow_id, '')])
     WHERE r.queue = 'system' AND r.status = 'pending' AND r.target_name = 'builtin.resume_workflow'
       AND w.lease_owner IS NULL
       AND (w.status <> 'suspended' OR (w.reclaims < 2 AND w.target_name = ANY (%(known)s::text[])))
     ORDER BY r.priority DESC, r.ready_at, r.id LIMIT %(limit)s FOR UPDATE OF r, w SKIP LOCKED),
gone AS (DELETE FROM executions WHERE id = ANY (ARRAY(SELECT resume_id FROM woken))),
waiting (queue) AS (
    SELECT (SELECT queue FROM executions
             WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT e.queue FROM executions e
             WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue > waiting.queue
             ORDER BY e.queue LIMIT 1)
      FROM waiting WHERE waiting.queue IS NOT NULL),
new AS MATERIALIZED (
    SELECT ready.id, ready.priority, ready.ready_at
      FROM waiting CROSS JOIN LATERAL (
           SELECT e.id, e.priority, e.ready_at FROM executions e
            WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue = waiting.queue
              AND e.type = 'workflow' AND e.target_name = ANY (%(known)s::text[])
              AND (%(queues)s::text[] IS NULL OR waiting.queue = ANY (%(queues)s::text[]))
              AND NOT EXISTS (SELECT 1 FROM queues q
                               WHERE q.name = waiting.queue
                                 AND (q.paused OR coalesce(q.concurrency, q.worker_concurrency,
                                                           q.partition_concurrency, q.rate_limit) IS NOT NULL))
            ORDER BY e.priority DESC, e.ready_at, e.id LIMIT (SELECT %(limit)s - count(*) FROM woken)
              FOR UPDATE OF e SKIP LOCKED) ready
     ORDER BY ready.priority DESC, ready.ready_at, ready.id LIMIT (SELECT %(limit)s - count(*) FROM woken)),
claimed AS MATERIALIZED (  -- and not in the UPDATE itself: for a row that has changed since the statement began, Postgres
    SELECT id, priority, ready_at, 1 AS place FROM woken WHERE status = 'suspended'  -- would ask both parts again, find
    UNION ALL SELECT id, priority, ready_at, 2 FROM new),  -- the wake-up gone, and leave the run without it
leased AS (
    UPDATE executions w
       SET status = 'running', lease_owner = %(worker)s, epoch = w.epoch + 1,
           started_at = coalesce(w.started_at, tenuto_now()),
           leased_at = CASE WHEN w.reclaims > 0 THEN tenuto_now() END, place = NULL
      FROM claimed p WHERE w.id = ANY (ARRAY[p.id])
    RETURNING w.id, w.target_name, w.status, w.epoch, tenuto_ms(w.alarm), w.reason, w.started_by, w.started_op,
              w.parent_workflow_id, w.definition, w.queue, w.run_no, tenuto_ms(w.created_at), tenuto_ms(w.started_at),
              tenuto_ms(w.completed_at), w.attributes, p.place, p.priority, p.ready_at)
SELECT tenuto_ms(tenuto_now()), (SELECT count(*) FROM woken WHERE status <> 'suspended'), leased.*
  FROM (SELECT 1) one LEFT JOIN leased ON true
 ORDER BY leased.place, leased.priority DESC, leased.ready_at, leased.id

-- claim_tasks: tasks of these queues, or of all (Q3). A claimed attempt counts at once, so a worker that dies in it
-- cannot make it endless (P2).
WITH RECURSIVE waiting (queue) AS (
    SELECT (SELECT queue FROM executions
             WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT e.queue FROM executions e
             WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue > waiting.queue
             ORDER BY e.queue LIMIT 1)
      FROM waiting WHERE waiting.queue IS NOT NULL),
picked AS MATERIALIZED (
    SELECT ready.id, ready.priority, ready.ready_at
      FROM waiting CROSS JOIN LATERAL (
           SELECT e.id, e.priority, e.ready_at FROM executions e
            WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue = waiting.queue
              AND e.type = 'task' AND e.target_name = ANY (%(known)s::text[]) AND e.reclaims < 2
              AND (%(queues)s::text[] IS NULL OR waiting.queue = ANY (%(queues)s::text[]))
              AND NOT EXISTS (SELECT 1 FROM queues q
                               WHERE q.name = waiting.queue
                                 AND (q.paused OR coalesce(q.concurrency, q.worker_concurrency,
                                                           q.partition_concurrency, q.rate_limit) IS NOT NULL))
            ORDER BY e.priority DESC, e.ready_at, e.id LIMIT %(limit)s FOR UPDATE OF e SKIP LOCKED) ready
     ORDER BY ready.priority DESC, ready.ready_at, ready.id LIMIT %(limit)s),
leased AS (
    UPDATE executions e
       SET status = 'running', lease_owner = %(worker)s, epoch = e.epoch + 1, attempt = e.attempt + 1,
           started_at = tenuto_now(), leased_at = CASE WHEN e.reclaims > 0 THEN tenuto_now() END
     WHERE e.id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING e.id, e.target_name, e.args, e.epoch, e.attempt, e.max_attempts, e.backoff_ms, e.backoff_max_ms,
              e.timeout_ms, e.heartbeat_ms, e.parent_workflow_id, coalesce(e.parent_op, ''), e.queue, e.priority,
              e.ready_at)
SELECT leased.* FROM leased ORDER BY leased.priority DESC, leased.ready_at, leased.id

-- raise_epoch: a lease on one run by id; every older one can no longer write.
UPDATE executions SET epoch = epoch + 1 WHERE id = %(run)s AND type = 'workflow' RETURNING epoch

-- reopen_run: a run that goes back is open again, and nobody's; its key may have been given to another meanwhile. Whoever
-- claims it reads all the mail there is, so none counts as news: its end may have deleted some.
UPDATE executions
   SET status = 'suspended', epoch = epoch + 1, lease_owner = NULL, completed_at = NULL, reason = NULL,
       parked_by = NULL, pause_requested = false, reclaims = 0, dedup_key = NULL, alarm = NULL, timer_count = 0,
       inbox_seen = inbox_seq
 WHERE id = %(run)s

-- absorb: the owner of live runs takes their wake-ups, before it reads their mail (Q5). One whose cause is not
-- committed yet is locked, skipped, and found again. Only of runs whose lease it has: a worker that was stopped past its
-- lease still believes in runs that were swept, and would take the wake-up that the sweep gave them, or that their new
-- owner is to find (I9). The run is locked for that, so that the answer is not older than the wake-up.
WITH picked AS MATERIALIZED (
    SELECT r.id FROM executions r JOIN executions w ON w.id = ANY (ARRAY[r.parent_workflow_id])
     WHERE r.target_name = 'builtin.resume_workflow' AND r.status = 'pending'
       AND r.parent_workflow_id = ANY (%(runs)s::text[]) AND coalesce(w.lease_owner, '') = %(worker)s
       FOR UPDATE OF r SKIP LOCKED FOR SHARE OF w SKIP LOCKED)
DELETE FROM executions WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING parent_workflow_id

-- note_turns: runs that stay as they are, with another place in their mail or another alarm.
UPDATE executions e
   SET inbox_seen = greatest(e.inbox_seen, t.seen), alarm = tenuto_time(t.alarm),
       reclaims = CASE WHEN t.progress THEN 0 ELSE e.reclaims END
  FROM unnest(%(runs)s::text[], %(seen)s::bigint[], %(alarms)s::bigint[], %(progress)s::boolean[])
       AS t (run, seen, alarm, progress)
 WHERE e.id = ANY (ARRAY[t.run])
   AND (e.inbox_seen < t.seen OR e.alarm IS DISTINCT FROM tenuto_time(t.alarm) OR (t.progress AND e.reclaims > 0))

-- suspend_turns: runs that wait. A pause that was asked for comes now; mail that came meanwhile keeps one running (V1).
-- Mail below `inbox_seen` was given to a turn before: a run just loaded has been given what is left of it.
UPDATE executions e
   SET status = CASE WHEN e.pause_requested THEN 'paused' WHEN e.inbox_seq > greatest(e.inbox_seen, t.seen) THEN 'running'
                     ELSE 'suspended' END,
       lease_owner = CASE WHEN NOT e.pause_requested AND e.inbox_seq > greatest(e.inbox_seen, t.seen) THEN e.lease_owner END,
       holds_slot = e.holds_slot AND NOT e.pause_requested, pause_requested = false, inbox_seen = greatest(e.inbox_seen, t.seen), alarm = tenuto_time(t.alarm),
       reclaims = CASE WHEN t.progress THEN 0 ELSE e.reclaims END, reason = NULL, parked_by = NULL,
       run_no = e.run_no + t.continued, definition = coalesce(t.definition, e.definition),
       timer_count = CASE WHEN t.alarm IS NULL THEN 0
                          ELSE (SELECT count(*) FROM timer_tasks WHERE workflow_id = t.run AND metadata IS NOT NULL)
                      END
  FROM unnest(%(runs)s::text[], %(seen)s::bigint[], %(alarms)s::bigint[], %(progress)s::boolean[],
              %(continued)s::bigint[], %(definitions)s::text[])
       AS t (run, seen, alarm, progress, continued, definition)
 WHERE e.id = ANY (ARRAY[t.run]) RETURNING e.id, e.status

-- run_on_turns: runs with work under way that were not running, have a new definition, or begin the next of the chain.
UPDATE executions e
   SET status = 'running', inbox_seen = greatest(e.inbox_seen, t.seen), alarm = tenuto_time(t.alarm),
       reclaims = CASE WHEN t.progress THEN 0 ELSE e.reclaims END, reason = NULL, parked_by = NULL,
       run_no = e.run_no + t.continued, definition = coalesce(t.definition, e.definition)
  FROM unnest(%(runs)s::text[], %(seen)s::bigint[], %(alarms)s::bigint[], %(progress)s::boolean[],
              %(continued)s::bigint[], %(definitions)s::text[])
       AS t (run, seen, alarm, progress, continued, definition)
 WHERE e.id = ANY (ARRAY[t.run])

-- close_turns: outcomes; the lease goes with them (V7).
UPDATE executions e
   SET status = t.status, lease_owner = NULL, completed_at = tenuto_now(), inbox_seen = greatest(e.inbox_seen, t.seen),
       alarm = NULL, timer_count = 0, reclaims = 0, reason = NULL, pause_requested = false, holds_slot = false,
       definition = coalesce(t.definition, e.definition)
  FROM unnest(%(runs)s::text[], %(statuses)s::text[], %(seen)s::bigint[], %(definitions)s::text[])
       AS t (run, status, seen, definition)
 WHERE e.id = ANY (ARRAY[t.run])

-- empty_closed: what closed runs no longer need goes; updates nobody decided are answered (P8, V4, V7). Whoever waits
-- for their end is notified; the answer says which runs follow them without having started them, at least one row.
WITH timers AS (DELETE FROM timer_tasks WHERE workflow_id = ANY (%(runs)s::text[])),
resumes AS (  -- the status so that only executions_parent fits: a plan made while few items waited would read all that wait
    DELETE FROM executions WHERE parent_workflow_id = ANY (%(runs)s::text[])
       AND target_name = 'builtin.resume_workflow' AND status || '' = 'pending'),
tokens AS (DELETE FROM hooks WHERE workflow_id = ANY (%(runs)s::text[])),
answered AS (
    UPDATE workflow_inbox SET answer = %(answer)s, at = tenuto_now()
     WHERE workflow_id = ANY (%(runs)s::text[]) AND kind = 'update' AND answer IS NULL),
emptied AS (
    DELETE FROM workflow_inbox WHERE workflow_id = ANY (%(runs)s::text[]) AND kind <> 'update' AND answer IS NULL)
SELECT w.target_id, w.workflow_id, w.op, notified.nothing
  FROM (SELECT pg_notify('tenuto', '')::text AS nothing) notified
  LEFT JOIN watchers w ON w.target_id = ANY (%(runs)s::text[])
 ORDER BY w.target_id, w.workflow_id, w.op

-- open_children: what a terminated parent leaves behind.
SELECT id FROM executions
 WHERE parent_workflow_id = %(run)s AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
 ORDER BY id

-- park_turn: the engine cannot go on with it; nothing else changes (P6).
UPDATE executions
   SET status = 'parked', lease_owner = NULL, reason = %(reason)s, parked_by = %(parked_by)s, holds_slot = false
 WHERE id = %(run)s

-- stop_timers: timers that turns withdrew.
DELETE FROM timer_tasks WHERE id = ANY (%(ids)s::text[])

-- start_timers: timers that turns asked for; the same place again is the same timer with a new deadline.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, metadata, created_at)
SELECT t.id, tenuto_time(t.deadline), t.run, t.sort, t.location, tenuto_now()
  FROM unnest(%(ids)s::text[], %(deadlines)s::bigint[], %(runs)s::text[], %(sorts)s::text[], %(locations)s::text[])
       AS t (id, deadline, run, sort, location)
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at, timer_type = excluded.timer_type

-- start_alarms: a run's earliest deadline has a row, whatever made it: a cancel's time limit has no timer of its own.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
SELECT 'alarm:' || t.run, tenuto_time(t.alarm), t.run, 'timeout', tenuto_now()
  FROM unnest(%(runs)s::text[], %(alarms)s::bigint[]) AS t (run, alarm)
 WHERE (SELECT bool_or(k.fire_at <= tenuto_time(t.alarm)) FROM timer_tasks k WHERE k.workflow_id = t.run) IS NOT TRUE
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at

-- timers_of: the locations of a run's own timers that are there; one deleted by hand is not (P4). OFFSET 0: by the index
-- of runs, and not by the one that has all timers in this order.
SELECT metadata FROM (SELECT * FROM timer_tasks WHERE workflow_id = %(run)s AND metadata IS NOT NULL OFFSET 0) t
 ORDER BY fire_at, id

-- delete_timers: all of these executions.
DELETE FROM timer_tasks WHERE workflow_id = ANY (%(ids)s::text[])

-- open_hook: gives a token to a run; no row: another run has it, or this one is closed. Closing a run deletes its hooks.
INSERT INTO hooks AS h (token_hash, workflow_id, key)
SELECT %(token)s, id, %(key)s FROM executions
 WHERE id = %(run)s AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
ON CONFLICT (token_hash) DO UPDATE SET key = excluded.key WHERE h.workflow_id = excluded.workflow_id
RETURNING h.token_hash

-- drop_hook: the token a hook had before, where a new one was minted because the first did not reach the run.
DELETE FROM hooks WHERE key = %(key)s AND workflow_id = %(run)s AND token_hash <> %(token)s

-- close_hooks: their runs take no more of them; the tokens are free again.
DELETE FROM hooks h USING unnest(%(tokens)s::text[], %(runs)s::text[]) AS c(token, run)
 WHERE h.token_hash = ANY (ARRAY[c.token]) AND h.workflow_id = ANY (ARRAY[c.run])

-- hook_owner: the open run that has a token.
SELECT h.workflow_id FROM hooks h
 WHERE h.token_hash = %(token)s
   AND (SELECT e.status FROM executions e WHERE e.id = h.workflow_id)
       IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')

-- child_origin: whose child an id is.
SELECT started_by, started_op, target_name, status FROM executions WHERE id = %(id)s

-- told_of: whom to tell about the end of an execution: its parent, then who follows it without having started it.
-- coalesce, so that executions_parent does not fit: it has all there are in the order that is asked for.
SELECT parent_workflow_id, parent_op, 0 FROM executions WHERE id = %(id)s AND coalesce(parent_workflow_id, '') <> ''
UNION ALL
SELECT workflow_id, op, 1 FROM watchers WHERE target_id = %(id)s
 ORDER BY 3, 1, 2

-- put_details: the last heartbeat of a step; a worker writes at most one a second.
INSERT INTO step_details (key, workflow_id, details, at) VALUES (%(key)s, %(run)s, %(details)s, tenuto_now())
ON CONFLICT (key) DO UPDATE SET details = excluded.details, at = excluded.at

-- get_details: for the next attempt. They go with their run.
SELECT details FROM step_details WHERE key = %(key)s

-- note_under_way: inline steps that have been under way for a while, for those who look. They go with their run.
INSERT INTO step_details (key, workflow_id, details, at)
SELECT s.key, s.run, s.details, tenuto_now()
  FROM unnest(%(keys)s::text[], %(runs)s::text[], %(details)s::bytea[]) AS s (key, run, details)
 WHERE EXISTS (SELECT 1 FROM executions WHERE id = s.run) ORDER BY s.key
ON CONFLICT (key) DO UPDATE SET details = excluded.details, at = excluded.at

-- forget_under_way: those that have ended.
DELETE FROM step_details WHERE key = ANY (%(keys)s::text[])

-- steps_under_way: what was noted of a run's steps, and not its heartbeats.
SELECT details FROM step_details
 WHERE workflow_id = %(run)s AND starts_with(key, %(prefix)s::text) ORDER BY key

-- holder: who has the lease of a run.
SELECT lease_owner FROM executions WHERE id = %(run)s AND type = 'workflow'

-- lock_followed: a run that is to be followed. The lock waits for one that is just closing: it has read its followers.
SELECT status, parent_workflow_id, parent_op FROM executions WHERE id = %(id)s FOR NO KEY UPDATE

-- insert_watcher: a task whose key is taken, or a run that attaches, follows the execution that is there.
INSERT INTO watchers (target_id, workflow_id, op, task_id) VALUES (%(target)s, %(run)s, %(op)s, %(task)s)
ON CONFLICT DO NOTHING

-- delete_watchers: all that follow these executions; they have been told.
DELETE FROM watchers WHERE target_id = ANY (%(ids)s::text[])

-- delete_following: tasks that were withdrawn, where they only followed others.
DELETE FROM watchers WHERE task_id = ANY (%(ids)s::text[])

-- cancel_waiting_tasks: tasks nobody has begun end at once. Locked in id order.
WITH picked AS MATERIALIZED (
    SELECT id FROM executions WHERE id = ANY (%(ids)s::text[]) AND type = 'task'
       AND status IN ('scheduled', 'pending') ORDER BY id FOR NO KEY UPDATE)
UPDATE executions e SET status = 'cancelled', completed_at = tenuto_now(), epoch = e.epoch + 1
 WHERE e.id = ANY (ARRAY(SELECT id FROM picked))
RETURNING e.id, e.target_name, e.parent_op, e.attempt

-- flag_running_tasks: tasks under way see it at their next heartbeat.
UPDATE executions SET cancel_requested = true
 WHERE id = ANY (%(ids)s::text[]) AND type = 'task' AND status = 'running'

-- open_tasks: of a run that is terminated.
SELECT id FROM executions
 WHERE parent_workflow_id = %(run)s AND type = 'task' AND target_name <> 'builtin.resume_workflow'
   AND status IN ('scheduled', 'pending', 'running')

-- end_task: the final outcome, if its worker still has the task (Q8, P5); no row: it does not. Where no run is woken,
-- whoever waits for the task is notified here.
UPDATE executions
   SET status = %(status)s, lease_owner = NULL, holds_slot = false, completed_at = tenuto_now(), output = %(output)s,
       error = %(error)s
 WHERE id = %(id)s AND epoch = %(epoch)s AND status = 'running' AND type = 'task'
RETURNING id, CASE WHEN parent_workflow_id IS NULL THEN pg_notify('tenuto', '')::text END

-- retry_task: tried again later; its start is a timer. Not one that was asked to stop.
WITH kept AS (
    UPDATE executions
       SET status = 'scheduled', lease_owner = NULL, holds_slot = false, error = %(error)s, ready_at = tenuto_time(%(at)s),
           reclaims = 0
     WHERE id = %(id)s AND epoch = %(epoch)s AND status = 'running' AND type = 'task' AND NOT cancel_requested
    RETURNING id)
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
SELECT 'start:' || id, tenuto_time(%(at)s), id, 'start', tenuto_now() FROM kept
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at RETURNING workflow_id

-- tasks_of: the open tasks of a run, for those who ask why it waits.
SELECT id, target_name, queue, status, attempt, max_attempts, tenuto_ms(ready_at), coalesce(parent_op, ''), lease_owner,
       CASE WHEN status = 'running' THEN tenuto_ms(started_at) END
  FROM executions
 WHERE parent_workflow_id = %(run)s AND type = 'task' AND target_name <> 'builtin.resume_workflow'
   AND status IN ('scheduled', 'pending', 'running')
 ORDER BY created_at, id

-- live_workers: those whose lease is not over.
SELECT id, host, pid, release, queues, tenuto_ms(started_at), tenuto_ms(lease_until), machine, pid_began
  FROM workers WHERE lease_until >= tenuto_now() ORDER BY started_at, id

-- get_task: a task as its client sees it.
SELECT status, output, error, attempt, target_name, queue, coalesce(parent_op, '') FROM executions
 WHERE id = %(id)s AND type = 'task' AND target_name <> 'builtin.resume_workflow'

-- fire_timers: removes what is due and wakes each run once, in one statement (Q9, P4).
-- DISTINCT: two timers of one run would touch the same resume row twice, which is an error.
WITH due AS MATERIALIZED (
    SELECT id FROM timer_tasks WHERE fire_at <= tenuto_now() AND timer_type <> 'start'
     ORDER BY fire_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED),
fired AS (DELETE FROM timer_tasks WHERE id = ANY (ARRAY(SELECT id FROM due)) RETURNING workflow_id),
woken AS (
    INSERT INTO executions (id, type, target_name, queue, status, args, priority, ready_at, created_at,
                            parent_workflow_id)
    SELECT tenuto_resume_id(), 'task', 'builtin.resume_workflow', 'system', 'pending',
           tenuto_resume_args(d.workflow_id), 10, tenuto_now(), tenuto_now(), d.workflow_id
      FROM (SELECT DISTINCT workflow_id FROM fired) d ORDER BY d.workflow_id
    ON CONFLICT (parent_workflow_id) WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
    DO UPDATE SET priority = executions.priority
    RETURNING parent_workflow_id)
SELECT pg_notify('tenuto', '')::text FROM (SELECT 1 FROM woken LIMIT 1) any_woken

-- fire_starts: delayed starts and retries become claimable (Q10); one that was paused meanwhile stays so.
WITH due AS MATERIALIZED (
    SELECT t.id, e.id AS execution FROM timer_tasks t JOIN executions e ON e.id = ANY (ARRAY[t.workflow_id])
     WHERE t.timer_type = 'start' AND t.fire_at <= tenuto_now()
     ORDER BY t.fire_at LIMIT %(limit)s FOR UPDATE OF t, e SKIP LOCKED),
gone AS (DELETE FROM timer_tasks WHERE id = ANY (ARRAY(SELECT id FROM due))),
ready AS (
    UPDATE executions e
       SET status = CASE WHEN e.pause_requested THEN 'paused' ELSE 'pending' END, pause_requested = false,
           ready_at = tenuto_now()
     WHERE e.id = ANY (ARRAY(SELECT execution FROM due)) AND e.status = 'scheduled' RETURNING e.id)
SELECT pg_notify('tenuto', '')::text FROM (SELECT 1 FROM ready LIMIT 1) any_ready

-- next_deadline: when the timer loop has to look again.
SELECT tenuto_ms(min(fire_at)), tenuto_ms(tenuto_now()) FROM timer_tasks

-- insert_worker: makes a worker known.
INSERT INTO workers (id, lease_until, beat_due, started_at, host, machine, pid, pid_began, release, queues, capability)
VALUES (%(id)s, tenuto_now() + %(lease)s * interval '1 millisecond',
        tenuto_now() + %(lease)s / 3 * interval '1 millisecond', tenuto_now(), %(host)s, %(machine)s, %(pid)s,
        %(pid_began)s, %(release)s, %(queues)s, %(capability)s)
ON CONFLICT (id) DO UPDATE
   SET lease_until = excluded.lease_until, beat_due = excluded.beat_due, capability = excluded.capability,
       crowded = false

-- insert_definitions: what workers have, so that clients can name it. Ordered: two workers that start together must
-- not wait for each other.
INSERT INTO definitions (id, hash, kind)
SELECT id, hash, kind FROM unnest(%(ids)s::text[], %(hashes)s::text[], %(kinds)s::text[]) AS d (id, hash, kind)
 ORDER BY id, hash
ON CONFLICT DO NOTHING

-- release_parked: a worker with other capabilities may be the deploy that parked runs wait for. Locked in id order.
WITH picked AS MATERIALIZED (
    SELECT id FROM executions
     WHERE status = 'parked' AND target_name = ANY (%(known)s::text[])
       AND parked_by IS DISTINCT FROM %(capability)s::text
     ORDER BY id FOR NO KEY UPDATE)
UPDATE executions e SET status = 'suspended', reason = NULL, parked_by = NULL, reclaims = 0
 WHERE e.id = ANY (ARRAY(SELECT id FROM picked)) RETURNING e.id

-- heartbeat: renews all leases of a worker by one row; a late one revives nothing (Q1).
UPDATE workers
   SET lease_until = tenuto_now() + %(lease)s * interval '1 millisecond',
       beat_due = tenuto_now() + %(lease)s / 3 * interval '1 millisecond'
 WHERE id = %(id)s AND lease_until >= tenuto_now() RETURNING id

-- give_back_runs: a worker that leaves in good order; not counted as reclaim. Locked in id order.
WITH picked AS MATERIALIZED (
    SELECT id FROM executions WHERE lease_owner = %(worker)s AND type = 'workflow' ORDER BY id FOR NO KEY UPDATE)
UPDATE executions e SET status = 'suspended', lease_owner = NULL, epoch = e.epoch + 1
 WHERE e.id = ANY (ARRAY(SELECT id FROM picked)) RETURNING e.id

-- give_back_tasks: claimable again at once, but for those the worker still has; the attempt does not count. Locked in
-- id order.
WITH picked AS MATERIALIZED (
    SELECT id FROM executions
     WHERE lease_owner = %(worker)s AND type = 'task' AND id <> ALL (%(kept)s::text[])
     ORDER BY id FOR NO KEY UPDATE),
back AS (
    UPDATE executions e
       SET status = 'pending', lease_owner = NULL, epoch = e.epoch + 1, attempt = greatest(e.attempt - 1, 0),
           ready_at = tenuto_now(), holds_slot = false
     WHERE e.id = ANY (ARRAY(SELECT id FROM picked)) RETURNING e.id)
SELECT pg_notify('tenuto', '')::text FROM (SELECT 1 FROM back LIMIT 1) any_back

-- delete_worker: gone.
DELETE FROM workers WHERE id = %(id)s

-- mark_crowded: lost workers that had several leases, before these are taken one by one: nothing was alone with them.
UPDATE workers w SET crowded = true
 WHERE w.lease_until < tenuto_now() AND NOT w.crowded
   AND (SELECT count(*) FROM executions e WHERE e.lease_owner = w.id) > 1

-- lost_runs: leases of runs whose worker is gone (Q11). How long it lived with a run is known to the next renewal that
-- did not come.
SELECT e.id, coalesce(k.capability, (SELECT capability FROM workers ORDER BY started_at DESC LIMIT 1)),
       e.pause_requested, e.reclaims, e.strikes, k.id IS NOT NULL AND NOT k.crowded, e.place,
       greatest(tenuto_ms(least(k.beat_due, tenuto_now())) - tenuto_ms(coalesce(e.leased_at, tenuto_now())), 0)
  FROM executions e LEFT JOIN workers k ON k.id = e.lease_owner
 WHERE e.lease_owner IS NOT NULL AND e.type = 'workflow' AND (k.id IS NULL OR k.lease_until < tenuto_now())
 ORDER BY e.id || '' LIMIT %(limit)s FOR NO KEY UPDATE OF e SKIP LOCKED

-- lost_tasks: the same for tasks, not locked: their parents come first, so each is looked at again (Q11, section 8).
SELECT e.id, e.epoch, e.target_name, coalesce(e.parent_op, ''), e.attempt, e.max_attempts, e.backoff_ms,
       e.backoff_max_ms, e.cancel_requested, tenuto_ms(tenuto_now()), e.reclaims + 1,
       greatest(tenuto_ms(least(k.beat_due, tenuto_now())) - tenuto_ms(coalesce(e.leased_at, tenuto_now())), 0)
  FROM executions e LEFT JOIN workers k ON k.id = e.lease_owner
 WHERE e.lease_owner IS NOT NULL AND e.type = 'task' AND (k.id IS NULL OR k.lease_until < tenuto_now())
 ORDER BY e.id || '' LIMIT %(limit)s

-- begun_tasks: those of a worker that leaves whose step it had begun, as `lost_tasks` gives them.
SELECT id, epoch, target_name, coalesce(parent_op, ''), attempt, max_attempts, backoff_ms, backoff_max_ms,
       cancel_requested, tenuto_ms(tenuto_now()), reclaims, coalesce(survived_ms, 0)
  FROM executions WHERE lease_owner = %(worker)s AND type = 'task' AND id = ANY (%(begun)s::text[]) ORDER BY id || ''

-- delete_lost_workers: with their leases swept, nothing needs their rows.
DELETE FROM workers w
 WHERE w.lease_until < tenuto_now() AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.lease_owner = w.id)

-- sweep_run: taken from its worker, which can no longer write (V3).
UPDATE executions
   SET status = %(status)s, lease_owner = NULL, epoch = epoch + 1, reclaims = reclaims + 1, strikes = %(strikes)s,
       survived_ms = %(survived)s, reason = %(reason)s, parked_by = %(parked_by)s,
       pause_requested = false, holds_slot = holds_slot AND %(status)s::text = 'suspended'
 WHERE id = %(id)s

-- take_task: from its worker, which can no longer end it.
UPDATE executions SET epoch = epoch + 1, reclaims = %(reclaims)s, survived_ms = %(survived)s WHERE id = %(id)s

-- declare_lost: workers whose processes are gone; as if their time were over. Another begins at once with what they did
-- for all.
WITH background AS (DELETE FROM background_leases WHERE owner = ANY (%(ids)s::text[]))
UPDATE workers SET lease_until = least(lease_until, tenuto_now() - interval '1 millisecond')
 WHERE id = ANY (%(ids)s::text[])

-- has_suspects: whether any have been ready for so long. A look, before anything is written.
SELECT 1 FROM executions e
 WHERE e.reclaims >= 2 AND e.lease_owner IS NULL AND e.completed_at IS NULL
   AND CASE e.type WHEN 'task'
       THEN e.status = 'pending' AND e.ready_at <= tenuto_now() - %(waited)s * interval '1 millisecond'
       ELSE e.status = 'suspended'
        AND (SELECT r.ready_at FROM executions r
              WHERE r.parent_workflow_id = e.id AND r.target_name = 'builtin.resume_workflow' AND r.status = 'pending')
            <= tenuto_now() - %(waited)s * interval '1 millisecond' END
 LIMIT 1

-- suspect_runs: runs that were lost again and again are claimed apart, the last claimed first. As for all claims, what
-- somebody has locked is skipped and found again.
SELECT e.id, e.reclaims, coalesce(e.survived_ms, 0), e.leased_at, r.id
  FROM executions e JOIN executions r ON r.parent_workflow_id = e.id
 WHERE e.reclaims >= 2 AND e.lease_owner IS NULL AND e.completed_at IS NULL
   AND e.type = 'workflow' AND e.status = 'suspended' AND e.target_name = ANY (%(known)s::text[])
   AND r.target_name = 'builtin.resume_workflow' AND r.status = 'pending'
   AND r.ready_at <= tenuto_now() - %(waited)s * interval '1 millisecond'
 ORDER BY e.leased_at DESC, e.id LIMIT %(limit)s FOR NO KEY UPDATE OF e SKIP LOCKED FOR UPDATE OF r SKIP LOCKED

-- suspect_tasks: the same for tasks of queues without limits.
SELECT e.id, e.reclaims, coalesce(e.survived_ms, 0), e.leased_at
  FROM executions e
 WHERE e.reclaims >= 2 AND e.lease_owner IS NULL AND e.completed_at IS NULL
   AND e.type = 'task' AND e.status = 'pending' AND e.target_name = ANY (%(known)s::text[])
   AND e.ready_at <= tenuto_now() - %(waited)s * interval '1 millisecond'
   AND (%(queues)s::text[] IS NULL OR e.queue = ANY (%(queues)s::text[]))
   AND NOT EXISTS (SELECT 1 FROM queues q
                    WHERE q.name = e.queue
                      AND (q.paused OR coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency,
                                                q.rate_limit) IS NOT NULL))
 ORDER BY e.leased_at DESC, e.id LIMIT %(limit)s FOR UPDATE OF e SKIP LOCKED

-- lease_suspects: runs that were picked become leases (V3), and their wake-ups go.
WITH gone AS (DELETE FROM executions WHERE id = ANY (%(resumes)s::text[]))
UPDATE executions w
   SET status = 'running', lease_owner = %(worker)s, epoch = w.epoch + 1, leased_at = tenuto_now(), place = NULL
 WHERE w.id = ANY (%(ids)s::text[])
RETURNING tenuto_ms(tenuto_now()), 0, w.id, w.target_name, w.status, w.epoch, tenuto_ms(w.alarm), w.reason, w.started_by,
          w.started_op, w.parent_workflow_id, w.definition, w.queue, w.run_no, tenuto_ms(w.created_at),
          tenuto_ms(w.started_at), tenuto_ms(w.completed_at), w.attributes

-- still_suspect: what a worker has of them.
SELECT id FROM executions WHERE lease_owner = %(worker)s AND reclaims >= 2

-- note_place: what the worker of a suspect is about to perform.
UPDATE executions SET place = %(location)s WHERE id = %(run)s AND epoch = %(epoch)s

-- start_reclaim: a run that lost its workers again is tried later and later.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
VALUES ('reclaim:' || %(run)s::text, tenuto_now() + %(delay)s * interval '1 millisecond', %(run)s, 'retry', tenuto_now())
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at

-- timed_slice: the next suspended runs with timers, by id, and whether one of them is missing; the sweep goes through
-- all of them slice by slice, so that its cost does not grow with what sleeps.
SELECT id, timer_count > (SELECT count(*) FROM timer_tasks t WHERE t.workflow_id = e.id AND t.metadata IS NOT NULL)
  FROM executions e
 WHERE status = 'suspended' AND timer_count > 0 AND id > %(after)s
 ORDER BY id LIMIT %(limit)s

-- pause_now: a run nobody works on. One that waits for its start is paused when that comes.
UPDATE executions
   SET status = CASE WHEN status IN ('suspended', 'pending') AND lease_owner IS NULL THEN 'paused' ELSE status END,
       pause_requested = (status IN ('running', 'scheduled') OR lease_owner IS NOT NULL),
       holds_slot = holds_slot AND NOT (status IN ('suspended', 'pending') AND lease_owner IS NULL)
 WHERE id = %(run)s AND type = 'workflow' AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused')
RETURNING status

-- unpause: lets a paused or parked run go on, or forgets a pause that has not come yet.
UPDATE executions
   SET status = CASE WHEN status IN ('paused', 'parked') THEN 'suspended' ELSE status END,
       pause_requested = false, reclaims = 0, reason = NULL, parked_by = NULL
 WHERE id = %(run)s AND type = 'workflow' AND (status IN ('paused', 'parked') OR pause_requested)
RETURNING status

-- terminate: closed at once; the epoch shuts out whoever has it (V3).
UPDATE executions
   SET status = 'terminated', epoch = epoch + 1, lease_owner = NULL, completed_at = tenuto_now(), reason = %(reason)s,
       alarm = NULL, timer_count = 0, pause_requested = false, holds_slot = false
 WHERE id = %(run)s AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
RETURNING id

-- cancel_unstarted: a run that has not begun ends without a worker.
UPDATE executions
   SET status = 'cancelled', epoch = epoch + 1, completed_at = tenuto_now(), alarm = NULL, timer_count = 0,
       pause_requested = false
 WHERE id = %(run)s AND status IN ('scheduled', 'pending')
RETURNING id

-- unlink_children: child runs outlive the deletion of their parent; its tasks and resumes do not.
UPDATE executions SET parent_workflow_id = NULL
 WHERE type = 'workflow' AND parent_workflow_id = ANY (%(ids)s::text[])

-- delete_belongings: what belongs to runs and has no foreign key.
WITH rows AS (DELETE FROM workflow_execution_context WHERE workflow_id = ANY (%(ids)s::text[])),
inbox AS (DELETE FROM workflow_inbox WHERE workflow_id = ANY (%(ids)s::text[])),
signals AS (DELETE FROM workflow_signals WHERE workflow_id = ANY (%(ids)s::text[])),
following AS (DELETE FROM watchers WHERE workflow_id = ANY (%(ids)s::text[])),
tokens AS (DELETE FROM hooks WHERE workflow_id = ANY (%(ids)s::text[])),
details AS (DELETE FROM step_details WHERE workflow_id = ANY (%(ids)s::text[]))
DELETE FROM watchers WHERE target_id = ANY (%(ids)s::text[]
    || ARRAY(SELECT id FROM executions WHERE parent_workflow_id = ANY (%(ids)s::text[])))

-- delete_executions: by id; tasks, resumes and timers go with them.
DELETE FROM executions WHERE id = ANY (%(ids)s::text[])

-- Schedules, background leases, retention.

-- put_schedule: the same rule again keeps its times; another one is armed anew, and what waited for the old is dropped.
INSERT INTO schedules AS s (name, target, args, queue, cron, every, tz, overlap, catch_up, start_at, end_at, anchor,
                            next_at)
VALUES (%(name)s, %(target)s, %(args)s, %(queue)s, %(cron)s, %(every)s, %(tz)s, %(overlap)s, %(catch_up)s,
        tenuto_time(%(start_at)s), tenuto_time(%(end_at)s), tenuto_time(%(anchor)s), tenuto_time(%(next_at)s))
ON CONFLICT (name) DO UPDATE
   SET target = excluded.target, args = excluded.args, queue = excluded.queue, overlap = excluded.overlap,
       catch_up = excluded.catch_up, cron = excluded.cron, every = excluded.every, tz = excluded.tz,
       start_at = excluded.start_at, end_at = excluded.end_at, revision = s.revision + 1,
       anchor = CASE WHEN (s.cron, s.every, s.tz, s.start_at, s.end_at) IS NOT DISTINCT FROM
                          (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                     THEN s.anchor ELSE excluded.anchor END,
       next_at = CASE WHEN (s.cron, s.every, s.tz, s.start_at, s.end_at) IS NOT DISTINCT FROM
                           (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                      THEN s.next_at ELSE excluded.next_at END,
       waiting_at = CASE WHEN (s.cron, s.every, s.tz, s.start_at, s.end_at) IS NOT DISTINCT FROM
                              (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                         THEN s.waiting_at END
RETURNING s.name

-- all_schedules: every one there is, by name.
SELECT name, target, args, queue, cron, every, tz, overlap, catch_up, tenuto_ms(start_at), tenuto_ms(end_at),
       tenuto_ms(anchor), tenuto_ms(next_at), tenuto_ms(waiting_at), last_id, paused, revision
  FROM schedules ORDER BY name

-- get_schedule: one of them, by its name.
SELECT name, target, args, queue, cron, every, tz, overlap, catch_up, tenuto_ms(start_at), tenuto_ms(end_at),
       tenuto_ms(anchor), tenuto_ms(next_at), tenuto_ms(waiting_at), last_id, paused, revision
  FROM schedules WHERE name = %(name)s

-- set_schedule: paused or armed anew, if it is still the one that was seen.
UPDATE schedules SET paused = %(paused)s, next_at = tenuto_time(%(next_at)s), revision = revision + 1
 WHERE name = %(name)s AND revision = %(revision)s RETURNING name

-- delete_schedule: nothing more is started; its runs stay.
DELETE FROM schedules WHERE name = %(name)s RETURNING name

-- due_schedules: what has something to do, and whether the run before is still open. Two lookups by index, so that
-- its cost does not grow with the schedules there are. Page by page in the order of names: a schedule that cannot be
-- fired here does not stand in the way of those behind it.
SELECT s.name, s.target, s.args, s.queue, s.cron, s.every, s.tz, s.overlap, s.catch_up, tenuto_ms(s.start_at),
       tenuto_ms(s.end_at), tenuto_ms(s.anchor), tenuto_ms(s.next_at), tenuto_ms(s.waiting_at), s.last_id, s.paused,
       s.revision, e.id IS NOT NULL AND e.completed_at IS NULL
  FROM schedules s LEFT JOIN executions e ON e.id = ANY (ARRAY[s.last_id])
 WHERE NOT s.paused AND s.name > %(after)s
   AND s.name IN (SELECT name FROM schedules WHERE next_at <= tenuto_now()
                  UNION ALL
                  SELECT w.name FROM schedules w LEFT JOIN executions l ON l.id = ANY (ARRAY[w.last_id])
                   WHERE w.waiting_at IS NOT NULL AND (l.id IS NULL OR l.completed_at IS NOT NULL))
 ORDER BY s.name LIMIT %(limit)s

-- next_schedule: when the loop has to look again, and the time it is.
SELECT tenuto_ms((SELECT min(next_at) FROM schedules WHERE next_at > tenuto_now() AND NOT paused)),
       tenuto_ms(tenuto_now())

-- lock_schedules: the schedules that this loop fires. One that another loop is firing is not waited for: that loop
-- fires what we saw (R050).
SELECT s.name, s.last_id FROM schedules s JOIN unnest(%(names)s::text[], %(revisions)s::bigint[]) AS seen (name, revision)
    ON s.name = seen.name AND s.revision = seen.revision
 WHERE NOT s.paused ORDER BY s.name FOR UPDATE OF s SKIP LOCKED

-- move_schedule: with its runs, in one transaction (R049).
UPDATE schedules
   SET next_at = tenuto_time(%(next_at)s), waiting_at = tenuto_time(%(waiting_at)s), last_id = %(last_id)s,
       revision = revision + 1
 WHERE name = %(name)s

-- take_background: taken or renewed; no row: somebody else has it (Q12). In the order of names, that nobody waits in a
-- circle.
INSERT INTO background_leases AS b (name, owner, until)
SELECT n.name, %(owner)s, tenuto_now() + %(ttl)s * interval '1 millisecond'
  FROM unnest(%(names)s::text[]) AS n (name) ORDER BY n.name
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
 WHERE b.owner = excluded.owner OR b.until < tenuto_now() RETURNING b.name

-- drop_background: a worker that leaves in good order lets another begin at once.
DELETE FROM background_leases WHERE owner = %(worker)s

-- expired: closed longer than retention: runs without an open child, and tasks that belong to no run. A run's own tasks
-- go with it.
SELECT id FROM executions e
 WHERE completed_at <= tenuto_now() - %(retention)s * interval '1 millisecond'
   AND CASE type WHEN 'task' THEN parent_workflow_id IS NULL
                 ELSE NOT EXISTS (SELECT 1 FROM executions c
                                   WHERE c.parent_workflow_id = e.id AND c.type = 'workflow' AND c.completed_at IS NULL)
       END
 ORDER BY completed_at LIMIT %(limit)s

-- outgrown: those of our tables that have become much larger than the planner was told, and whether we may tell it. A
-- plan is kept by its connection until somebody analyzes the table, so one that was made for an empty table reads all of
-- it for as long as autovacuum takes to notice. What counts: rows, which may have come into pages that others left; and
-- pages, also of each index, because what waits is a small part of a large table.
SELECT t.name, pg_has_role(c.relowner, 'USAGE')
  FROM unnest(ARRAY['executions', 'hooks', 'queue_starts', 'schedules', 'step_details', 'timer_tasks', 'watchers',
                    'workflow_execution_context', 'workflow_inbox', 'workflow_signals']) AS t (name)
  JOIN pg_class c ON c.oid = to_regclass(t.name)
 WHERE pg_stat_get_live_tuples(c.oid) > 2 * greatest(c.reltuples, 0) + 200
    OR EXISTS (SELECT 1 FROM pg_class f
                WHERE f.oid = ANY (c.oid || ARRAY(SELECT indexrelid FROM pg_index WHERE indrelid = c.oid))
                  AND pg_relation_size(f.oid) / current_setting('block_size')::integer > 2 * greatest(f.relpages, 0) + 8)
 ORDER BY t.name

-- analyze_executions: everybody makes plans anew. SKIP_LOCKED: who waits for autovacuum stops it.
ANALYZE (SKIP_LOCKED) executions

-- analyze_hooks: the same.
ANALYZE (SKIP_LOCKED) hooks

-- analyze_queue_starts: the same.
ANALYZE (SKIP_LOCKED) queue_starts

-- analyze_schedules: the same.
ANALYZE (SKIP_LOCKED) schedules

-- analyze_step_details: the same.
ANALYZE (SKIP_LOCKED) step_details

-- analyze_timer_tasks: the same.
ANALYZE (SKIP_LOCKED) timer_tasks

-- analyze_watchers: the same.
ANALYZE (SKIP_LOCKED) watchers

-- analyze_workflow_execution_context: the same.
ANALYZE (SKIP_LOCKED) workflow_execution_context

-- analyze_workflow_inbox: the same.
ANALYZE (SKIP_LOCKED) workflow_inbox

-- analyze_workflow_signals: the same.
ANALYZE (SKIP_LOCKED) workflow_signals

-- identity: what tells this store from every other one.
SELECT store_id FROM tenuto_meta

-- defined: what workers have registered, for clients that name it.
SELECT DISTINCT id FROM definitions ORDER BY id

-- Queues: limits, what they let begin, tasks by themselves, and pages of runs.

-- set_queue: what a queue was told, in place of what it was told before.
INSERT INTO queues (name, concurrency, worker_concurrency, partition_concurrency, rate_limit, rate_period, paused)
VALUES (%(name)s, %(concurrency)s, %(worker_concurrency)s, %(partition_concurrency)s, %(rate_limit)s, %(rate_period)s,
        %(paused)s)
ON CONFLICT (name) DO UPDATE
   SET concurrency = excluded.concurrency, worker_concurrency = excluded.worker_concurrency,
       partition_concurrency = excluded.partition_concurrency, rate_limit = excluded.rate_limit,
       rate_period = excluded.rate_period, paused = excluded.paused
RETURNING pg_notify('tenuto', '')::text

-- limited_queues: the few that claims have to be careful with.
SELECT name FROM queues
 WHERE paused OR coalesce(concurrency, worker_concurrency, partition_concurrency, rate_limit) IS NOT NULL

-- list_queues: those that were told something and those that have work; waiting, running, slots taken. Running ones are
-- found by their leases, the others by the indexes that claims use.
WITH waiting (name, items) AS (
    SELECT queue, count(*) FROM executions
     WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' AND queue <> 'system' GROUP BY queue),
running (name, items) AS (
    SELECT queue, count(*) FROM executions WHERE lease_owner IS NOT NULL AND status = 'running' GROUP BY queue),
slots (name, items) AS (
    SELECT queue, count(*) FROM executions WHERE holds_slot GROUP BY queue),
names (name) AS (
    SELECT name FROM queues UNION SELECT name FROM waiting UNION SELECT name FROM running UNION SELECT name FROM slots)
SELECT n.name, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period,
       coalesce(q.paused, false), coalesce(w.items, 0), coalesce(r.items, 0), coalesce(s.items, 0)
  FROM names n LEFT JOIN queues q ON q.name = n.name LEFT JOIN waiting w ON w.name = n.name
  LEFT JOIN running r ON r.name = n.name LEFT JOIN slots s ON s.name = n.name
 ORDER BY n.name

-- lock_queues: one claimer at a time counts and takes slots of a queue; another skips it and comes again. What follows
-- in the transaction sees what was committed before the lock was had.
SELECT q.name FROM queues q
 WHERE NOT q.paused AND coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit) IS NOT NULL
   AND (%(queues)s::text[] IS NULL OR q.name = ANY (%(queues)s::text[]))
   AND EXISTS (SELECT 1 FROM executions e
                WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue = q.name)
 ORDER BY q.name FOR NO KEY UPDATE SKIP LOCKED

-- queue_states: how far queues with limits are used up, as far as they have something to begin. The rate counts what
-- began in the window that ends now.
SELECT q.name, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period, q.paused,
       (SELECT count(*) FROM executions e WHERE e.holds_slot AND e.queue = q.name),
       (SELECT count(*) FROM queue_starts t
         WHERE t.queue = q.name AND t.at > tenuto_now() - q.rate_period * interval '1 millisecond'),
       (SELECT tenuto_ms(min(t.at)) FROM queue_starts t
         WHERE t.queue = q.name AND t.at > tenuto_now() - q.rate_period * interval '1 millisecond')
  FROM queues q
 WHERE NOT q.paused AND coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit) IS NOT NULL
   AND (%(queues)s::text[] IS NULL OR q.name = ANY (%(queues)s::text[]))
   AND EXISTS (SELECT 1 FROM executions e
                WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue = q.name)
 ORDER BY q.name

-- pick_limited: what is ready in a queue without partitions and known here, of both types.
SELECT e.id, e.priority, e.ready_at, e.type = 'workflow'
  FROM (VALUES ('workflow'), ('task')) AS sort (type) CROSS JOIN LATERAL (
       SELECT * FROM executions x
        WHERE x.status = 'pending' AND x.target_name <> 'builtin.resume_workflow' AND x.queue = %(queue)s
          AND x.type = sort.type AND x.target_name = ANY (%(known)s::text[])
        ORDER BY x.priority DESC, x.ready_at, x.id LIMIT %(limit)s FOR UPDATE OF x SKIP LOCKED) e

-- pick_keyless: the same in a queue with partitions, for items that belong to none. The key is the last column of
-- executions_ready, so that those that have one are passed over without being looked up.
SELECT e.id, e.priority, e.ready_at, e.type = 'workflow'
  FROM (VALUES ('workflow'), ('task')) AS sort (type) CROSS JOIN LATERAL (
       SELECT * FROM executions x
        WHERE x.status = 'pending' AND x.target_name <> 'builtin.resume_workflow' AND x.queue = %(queue)s
          AND x.type = sort.type AND x.partition_key IS NULL AND x.target_name = ANY (%(known)s::text[])
        ORDER BY x.priority DESC, x.ready_at, x.id LIMIT %(limit)s FOR UPDATE OF x SKIP LOCKED) e

-- pick_partitioned: of each partition that has room as much as it has room for: a skip scan, one probe of
-- executions_partition each, so that a full partition with a thousand items costs as much as one with two.
WITH RECURSIVE waiting (partition) AS (
    SELECT (SELECT partition_key FROM executions
             WHERE status = 'pending' AND partition_key IS NOT NULL AND queue = %(queue)s
             ORDER BY partition_key LIMIT 1)
    UNION ALL
    SELECT (SELECT e.partition_key FROM executions e
             WHERE e.status = 'pending' AND e.partition_key IS NOT NULL AND e.queue = %(queue)s
               AND e.partition_key > waiting.partition ORDER BY e.partition_key LIMIT 1)
      FROM waiting WHERE waiting.partition IS NOT NULL),
roomy AS MATERIALIZED (
    SELECT w.partition, %(partition_concurrency)s -
           (SELECT count(*) FROM executions s
             WHERE s.holds_slot AND s.queue = %(queue)s AND s.partition_key = w.partition) AS room
      FROM waiting w WHERE w.partition IS NOT NULL)
SELECT e.id, e.priority, e.ready_at, e.type = 'workflow'
  FROM roomy CROSS JOIN LATERAL (
       SELECT * FROM executions x
        WHERE x.status = 'pending' AND x.partition_key IS NOT NULL AND x.queue = %(queue)s
          AND x.partition_key = roomy.partition AND x.target_name = ANY (%(known)s::text[])
        ORDER BY x.priority DESC, x.ready_at, x.id LIMIT greatest(least(roomy.room, %(limit)s), 0)
          FOR UPDATE OF x SKIP LOCKED) e

-- lease_starts: first starts that were picked become leases (V3), each with a slot.
WITH leased AS (
    UPDATE executions w
       SET status = 'running', lease_owner = %(worker)s, epoch = w.epoch + 1, holds_slot = true,
           started_at = coalesce(w.started_at, tenuto_now())
     WHERE w.id = ANY (%(ids)s::text[]) AND w.status = 'pending'
    RETURNING w.id, w.target_name, w.status, w.epoch, tenuto_ms(w.alarm), w.reason, w.started_by, w.started_op,
              w.parent_workflow_id, w.definition, w.queue, w.run_no, tenuto_ms(w.created_at), tenuto_ms(w.started_at),
              tenuto_ms(w.completed_at), w.attributes, w.priority, w.ready_at)
SELECT tenuto_ms(tenuto_now()), 0, leased.* FROM leased ORDER BY leased.priority DESC, leased.ready_at, leased.id

-- lease_tasks: the same for tasks, and for suspects among tasks, which have no slots; a claimed attempt counts at once (P2).
WITH leased AS (
    UPDATE executions e
       SET status = 'running', lease_owner = %(worker)s, epoch = e.epoch + 1, attempt = e.attempt + 1,
           holds_slot = %(slots)s, started_at = tenuto_now(),
           leased_at = CASE WHEN e.reclaims > 0 THEN tenuto_now() END
     WHERE e.id = ANY (%(ids)s::text[]) AND e.status = 'pending'
    RETURNING e.id, e.target_name, e.args, e.epoch, e.attempt, e.max_attempts, e.backoff_ms, e.backoff_max_ms,
              e.timeout_ms, e.heartbeat_ms, e.parent_workflow_id, coalesce(e.parent_op, ''), e.queue, e.priority,
              e.ready_at)
SELECT leased.* FROM leased ORDER BY leased.priority DESC, leased.ready_at, leased.id

-- note_starts: so many starts of a queue with a rate; those that have left the window go.
WITH gone AS (
    DELETE FROM queue_starts WHERE queue = %(queue)s AND at <= tenuto_now() - %(period)s * interval '1 millisecond')
INSERT INTO queue_starts (queue, at) SELECT %(queue)s, tenuto_now() FROM generate_series(1, %(starts)s)

-- queue_place: where an item that has not begun stands, and how far its queue is used up.
SELECT e.queue, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period,
       coalesce(q.paused, false),
       (SELECT count(*) FROM executions s WHERE s.holds_slot AND s.queue = e.queue),
       (SELECT count(*) FROM queue_starts t
         WHERE t.queue = e.queue AND t.at > tenuto_now() - q.rate_period * interval '1 millisecond'),
       (SELECT tenuto_ms(min(t.at)) FROM queue_starts t
         WHERE t.queue = e.queue AND t.at > tenuto_now() - q.rate_period * interval '1 millisecond'),
       e.status, e.partition_key,
       (SELECT count(*) FROM executions s
         WHERE s.holds_slot AND s.queue = e.queue AND s.partition_key = e.partition_key),
       (SELECT count(*) FROM executions b
         WHERE b.status = 'pending' AND b.target_name <> 'builtin.resume_workflow' AND b.queue = e.queue
           AND (-b.priority, b.ready_at, b.id) < (-e.priority, e.ready_at, e.id)),
       tenuto_ms(e.ready_at)
  FROM executions e LEFT JOIN queues q ON q.name = e.queue
 WHERE e.id = %(id)s AND e.status IN ('pending', 'scheduled') AND e.target_name <> 'builtin.resume_workflow'

-- find_keyed: the open item with a key in a queue, for those who only look.
SELECT id FROM executions
 WHERE queue = %(queue)s AND dedup_key = %(key)s
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')

-- flagged_tasks: what a worker is to stop.
SELECT id FROM executions WHERE lease_owner = %(worker)s AND type = 'task' AND cancel_requested ORDER BY id || ''

-- page_runs: a page of the runs that fit a filter, by id: the order does not change while they do.
SELECT id, status FROM executions
 WHERE type = 'workflow' AND id > %(after)s AND created_at < tenuto_time(%(until)s + 1)
   AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[]))
   AND (NOT %(stuck)s::boolean OR strpos(coalesce(reason, ''), 'TN110') > 0)
   AND (%(target)s::text IS NULL OR target_name = %(target)s)
   AND (%(name)s::text IS NULL OR target_name = %(name)s
        OR (strpos(target_name, '//') > 0 AND right(target_name, length(%(name)s) + 1) = '/' || %(name)s))
   AND (%(since)s::bigint IS NULL OR created_at >= tenuto_time(%(since)s))
   AND (%(attributes)s::jsonb = '{}' OR attributes @> %(attributes)s::jsonb)
 ORDER BY id LIMIT %(limit)s

-- insert_program: kept for ever; the same hash is the same text.
INSERT INTO programs (hash, source) VALUES (%(hash)s, %(source)s) ON CONFLICT DO NOTHING

-- program: the text under a hash.
SELECT source FROM programs WHERE hash = %(hash)s

-- programs_of: what programs define, for workers that can run them.
SELECT id, hash FROM definitions WHERE hash IN (SELECT hash FROM programs) ORDER BY id, hash
