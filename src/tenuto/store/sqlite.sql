-- Every statement the SQLite store executes.
--
-- One writer thread per process, every write transaction begun IMMEDIATE: between its first read and its commit nobody
-- else writes, so no statement here locks rows, and a check in one statement holds in the next. Lists of ids come as one
-- JSON parameter. tenuto_now() is the store's clock, standing still for the length of one request.
-- A plus before a column keeps the planner from using an index on it: without statistics it would take any.
-- Mail numbers, wake-ups and status changes are in the transaction of their cause (V1, V4, V5).

-- wal: readers never wait for the writer, and a commit is one sync of one file.
PRAGMA journal_mode = WAL

-- sync_full: an acknowledged write survives power loss (P1).
PRAGMA synchronous = FULL

-- sync_normal: asked for with ?sync=normal; the last commits may be lost with the power.
PRAGMA synchronous = NORMAL

-- fullfsync: on macOS a plain sync stops at the drive's cache (P1). No effect elsewhere.
PRAGMA fullfsync = ON

-- foreign_keys: SQLite checks none unless told.
PRAGMA foreign_keys = ON

-- journal_size_limit: a WAL blown up by one long reader is cut back to 64 MiB.
PRAGMA journal_size_limit = 67108864

-- read_sync: what the setting became.
PRAGMA synchronous

-- read_foreign_keys: what the setting became.
PRAGMA foreign_keys

-- first_look: reads the first page, and the log if there is one.
PRAGMA schema_version

-- unused: bytes of the file that nothing is in. SQLite fills them again and gives none back by itself.
SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size

-- data_version: changes when another connection has committed, and not by commits of this one.
PRAGMA data_version

-- checkpoint: moves the log into the file, as far as that goes without waiting for anybody.
PRAGMA wal_checkpoint(PASSIVE)

-- begin: takes the write lock at once. Deferred, two writers could both read, and one would fail in the middle.
BEGIN IMMEDIATE

-- begin_exclusive: for migrations: others that would migrate wait here, and find it done.
BEGIN EXCLUSIVE

-- begin_read: several reads of one snapshot.
BEGIN

-- commit: the one sync of everything in the group.
COMMIT

-- rollback: as if nothing had been.
ROLLBACK

-- savepoint: one request of a group; its failure must not spoil the others (P5).
SAVEPOINT request

-- release: the request is part of the group's commit.
RELEASE request

-- rollback_request: what the failed request wrote. Followed by release.
ROLLBACK TO request

-- savepoint_mail: one message of a turn to another run, which may refuse it.
SAVEPOINT mail

-- rollback_mail: the refused message. Followed by release_mail.
ROLLBACK TO mail

-- release_mail: the message is part of the commit.
RELEASE mail

-- has_meta: whether the schema is there at all.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tenuto_meta'

-- read_meta: the schema's version, and the oldest code that may use it.
SELECT schema_version, oldest_release FROM tenuto_meta

-- read_digest: how the tables were when they were made; nothing where the version that made them did not note it.
SELECT digest FROM tenuto_meta

-- has_digest: whether that is there to be read.
SELECT count(*) FROM pragma_table_info('tenuto_meta') WHERE name = 'digest'

-- set_digest: after a migration.
UPDATE tenuto_meta SET digest = :digest

-- catalog: what the file has of what we make.
SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(:names))

-- set_meta: after a migration.
UPDATE tenuto_meta SET schema_version = :version

-- insert_run: a new run; nothing if its id is taken, or its key is taken by an open item of its queue.
-- The parent is looked up because it may be gone: then nobody is told, and the child is as good as detached.
INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, parent_workflow_id, parent_op,
                        started_by, started_op, definition, dedup_key, partition_key, attributes, created_at)
VALUES (?1, 'workflow', ?2, ?3, ?4, ?5, ?6, (SELECT id FROM executions WHERE id = ?7), ?8, ?9, ?10, ?11, ?12, ?13,
        ?14, ?15)
ON CONFLICT DO NOTHING

-- adopt_run: a run of another store, as it was there; nothing if its id is taken. It is nobody's, and nothing wakes it:
-- one that waits for its start is paused when that comes.
INSERT INTO executions (id, type, target_name, queue, ready_at, status, reason, definition, run_no, inbox_seq, inbox_seen,
                        attributes, created_at, started_at, completed_at, alarm, timer_count, pause_requested)
VALUES (:id, 'workflow', :target, :queue, coalesce(:starts_at, tenuto_now()), :status, :reason, :definition, :run_no,
        :inbox_seq, :inbox_seq, :attributes, :created_at, :started_at, :completed_at, :alarm, :timers,
        :status = 'scheduled')
ON CONFLICT DO NOTHING

-- begin_run: a new run that its worker has begun with; stored together with its first turn, as that leaves it. Not in a
-- queue that was told anything: there it must wait to be claimed, from the commit on that told it.
INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, definition, dedup_key, partition_key,
                        attributes, created_at, started_at, epoch, lease_owner, alarm, timer_count)
SELECT ?1, 'workflow', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?14, ?14, 1, ?11, ?12, ?13
 WHERE NOT EXISTS (SELECT 1 FROM queues WHERE name = ?3)
ON CONFLICT DO NOTHING

-- insert_task: a task, of a run or by itself; nothing if its id or key is taken.
INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, args, parent_workflow_id, parent_op,
                        max_attempts, backoff_ms, backoff_max_ms, timeout_ms, heartbeat_ms, dedup_key, partition_key,
                        created_at)
VALUES (:id, 'task', :target, :queue, :priority, tenuto_now() + :delay, :status, :args, :parent, :parent_op,
        :max_attempts, :backoff_ms, :backoff_max_ms, :timeout_ms, :heartbeat_ms, :key, :partition, tenuto_now())
ON CONFLICT DO NOTHING

-- insert_start: a delayed start or a task's retry. Waiting items are timers, so they cost claimers nothing.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
VALUES ('start:' || :id, :fire_at, :id, 'start', tenuto_now())
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at

-- keyed: the open item with a key in a queue.
SELECT id FROM executions
 WHERE queue = :queue AND dedup_key = :key
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')

-- get_run: one run by its id.
SELECT id, target_name, status, epoch, alarm, reason, started_by, started_op, parent_workflow_id, definition, queue,
       run_no, created_at, started_at, completed_at, attributes
  FROM executions WHERE id = :id AND type = 'workflow'

-- leased_runs: the runs a worker has the lease of.
SELECT id, target_name, status, epoch, alarm, reason, started_by, started_op, parent_workflow_id, definition, queue,
       run_no, created_at, started_at, completed_at, attributes
  FROM executions WHERE lease_owner = :worker AND +type = 'workflow' ORDER BY id

-- all_runs: every run, oldest first.
SELECT id, target_name, status, epoch, alarm, reason, started_by, started_op, parent_workflow_id, definition, queue,
       run_no, created_at, started_at, completed_at, attributes
  FROM executions WHERE type = 'workflow' ORDER BY created_at, rowid

-- find_runs: newest first, behind a cursor; a filter that is null lets everything pass. What ends in a name has it as the
-- last part of its id. Stuck: the reason, which the store itself gave, has that code.
-- Attributes: none that was asked for may be missing or different.
SELECT id, target_name, status, epoch, alarm, reason, started_by, started_op, parent_workflow_id, definition, queue,
       run_no, created_at, started_at, completed_at, attributes, rowid
  FROM executions e
 WHERE type = 'workflow'
   AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
   AND (NOT :stuck OR instr(coalesce(reason, ''), 'TN110') > 0)
   AND (:target IS NULL OR target_name = :target)
   AND (:name IS NULL OR target_name = :name
        OR (instr(target_name, '//') > 0 AND substr(target_name, -1 - length(:name)) = '/' || :name))
   AND (:since IS NULL OR created_at >= :since)
   AND NOT EXISTS (SELECT 1 FROM json_each(:attributes) a
                    WHERE NOT EXISTS (SELECT 1 FROM json_each(e.attributes) b
                                       WHERE b.key = a.key AND b.atom = a.atom))
   AND created_at <= coalesce(:after_at, 9223372036854775807)
   AND (:after_at IS NULL OR created_at < :after_at OR rowid < :after_no)
 ORDER BY created_at DESC, rowid DESC LIMIT :limit

-- count_runs: how many fit, by status.
SELECT status, count(*) FROM executions e
 WHERE type = 'workflow'
   AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
   AND (NOT :stuck OR instr(coalesce(reason, ''), 'TN110') > 0)
   AND (:target IS NULL OR target_name = :target)
   AND (:name IS NULL OR target_name = :name
        OR (instr(target_name, '//') > 0 AND substr(target_name, -1 - length(:name)) = '/' || :name))
   AND (:since IS NULL OR created_at >= :since)
   AND NOT EXISTS (SELECT 1 FROM json_each(:attributes) a
                    WHERE NOT EXISTS (SELECT 1 FROM json_each(e.attributes) b
                                       WHERE b.key = a.key AND b.atom = a.atom))
 GROUP BY status

-- rows_at: the row under one key of several runs.
SELECT c.workflow_id, c.value
  FROM json_each(:ids) r CROSS JOIN workflow_execution_context c ON c.workflow_id = r.value AND c.key = :key

-- all_rows: everything of a run, in byte order.
SELECT key, value FROM workflow_execution_context WHERE workflow_id = :id ORDER BY key

-- rows_of_runs: everything of several runs. Found in the order of the keys, but not sorted: SQLite would do that again.
SELECT c.workflow_id, c.key, c.value
  FROM json_each(:ids) r CROSS JOIN workflow_execution_context c ON c.workflow_id = r.value

-- range_rows: a half-open range of a run's keys, in byte order.
SELECT key, value FROM workflow_execution_context
 WHERE workflow_id = :id AND key >= :first AND key < :last ORDER BY key

-- put_rows: the hot path: one statement per row, nothing else is touched. Columns by place, for speed.
INSERT INTO workflow_execution_context (workflow_id, key, value) VALUES (?1, ?2, ?3)
ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value

-- put_sixteen_rows: the same for many rows. An execution has its price, whatever it writes, and takes the place of another
-- statement among those that are kept prepared.
INSERT INTO workflow_execution_context (workflow_id, key, value)
VALUES (?1, ?2, ?3), (?4, ?5, ?6), (?7, ?8, ?9), (?10, ?11, ?12),
       (?13, ?14, ?15), (?16, ?17, ?18), (?19, ?20, ?21), (?22, ?23, ?24),
       (?25, ?26, ?27), (?28, ?29, ?30), (?31, ?32, ?33), (?34, ?35, ?36),
       (?37, ?38, ?39), (?40, ?41, ?42), (?43, ?44, ?45), (?46, ?47, ?48)
ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value

-- commit_row: one row of a run that goes on as it is, as a transaction of its own, and its fence with it (P5). Nothing is
-- written where the run is another's or its own row has to change.
INSERT INTO workflow_execution_context (workflow_id, key, value)
SELECT id, ?2, ?3 FROM executions
 WHERE id = ?1 AND epoch = ?4 AND status = 'running' AND reclaims = 0 AND inbox_seen >= ?5 AND alarm IS ?6
ON CONFLICT (workflow_id, key) DO UPDATE SET value = excluded.value

-- delete_rows: single rows of a run.
DELETE FROM workflow_execution_context WHERE workflow_id = ?1 AND key = ?2

-- delete_range: a half-open range of a run's rows.
DELETE FROM workflow_execution_context WHERE workflow_id = ?1 AND key >= ?2 AND key < ?3

-- number_mail: the next number in a run's inbox; no row: unknown or closed (Q6).
UPDATE executions SET inbox_seq = inbox_seq + 1
 WHERE id = :run AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
RETURNING inbox_seq, status

-- note_signal: the same signal id is stored once (P3). Not for a run that takes no mail.
INSERT INTO workflow_signals (workflow_id, signal_id)
SELECT id, :signal FROM executions
 WHERE id = :run AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
ON CONFLICT DO NOTHING

-- has_signal: whether that signal id was stored before.
SELECT 1 FROM workflow_signals WHERE workflow_id = :run AND signal_id = :signal

-- insert_mail: updates, cancels and results. Nothing if that message is there and undecided.
INSERT INTO workflow_inbox (workflow_id, seq, kind, message_id, name, data, at)
VALUES (:run, :seq, :kind, :message, :name, :data, tenuto_now())

-- has_mail: whether a message is in the inbox, undecided.
SELECT 1 FROM workflow_inbox
 WHERE workflow_id = :run AND kind = :kind AND message_id = :message AND answer IS NULL

-- buffered: how much mail waits in the inbox that clients sent. Signals are counted among the rows.
SELECT count(*) FROM workflow_inbox WHERE workflow_id = :run AND kind = 'update' AND answer IS NULL

-- buffered_signals: the signals nobody has taken.
SELECT count(*) FROM workflow_execution_context WHERE workflow_id = :run AND key >= :first AND key < :last

-- read_inbox: undecided mail, in number order.
SELECT seq, data FROM workflow_inbox
 WHERE workflow_id = :run AND seq > :above AND seq > 0 AND answer IS NULL ORDER BY seq

-- inboxes: undecided mail of several runs, each above its own number. Runs come with that number, and with the key a
-- signal of the next would have.
SELECT i.workflow_id, i.seq, i.data
  FROM json_each(:above) r CROSS JOIN workflow_inbox i ON i.workflow_id = r.key
 WHERE i.seq > r.value ->> 0 AND i.seq > 0 AND i.answer IS NULL

-- signals_of: the signals among their rows.
SELECT c.workflow_id, c.key, c.value
  FROM json_each(:above) r CROSS JOIN workflow_execution_context c
    ON c.workflow_id = r.key AND c.key >= unhex(r.value ->> 1) AND c.key < :last

-- delete_mail: mail that a turn decided. A rejected update stays, as its answer.
DELETE FROM workflow_inbox
 WHERE workflow_id = :run AND seq IN (SELECT value FROM json_each(:numbers)) AND answer IS NULL

-- set_answer: a rejection. Where the update's row is gone, one below all numbers takes it.
INSERT INTO workflow_inbox (workflow_id, seq, kind, message_id, name, data, at, answer)
VALUES (:run, (SELECT min(coalesce(min(seq), 0), 0) - 1 FROM workflow_inbox WHERE workflow_id = :run),
        'update', :message, '', x'', tenuto_now(), :answer)
ON CONFLICT (workflow_id, kind, message_id) DO UPDATE SET answer = excluded.answer, at = excluded.at

-- get_answer: a rejection, while it is kept.
SELECT answer FROM workflow_inbox
 WHERE workflow_id = :run AND kind = 'update' AND message_id = :message AND answer IS NOT NULL
   AND at > tenuto_now() - :kept

-- delete_answer: the same update was sent again. Only its new message takes the answer away (P8).
DELETE FROM workflow_inbox
 WHERE workflow_id = :run AND kind = 'update' AND message_id = :message AND answer IS NOT NULL

-- delete_old_answers: nobody came for them.
DELETE FROM workflow_inbox WHERE answer IS NOT NULL AND at <= tenuto_now() - :kept

-- belongings: which of these runs have anything that goes when they close, or anybody to tell. Most have not.
SELECT r.value FROM json_each(?1) r
 WHERE EXISTS (SELECT 1 FROM timer_tasks t WHERE t.workflow_id = r.value)
    OR EXISTS (SELECT 1 FROM workflow_inbox i WHERE i.workflow_id = r.value)
    OR EXISTS (SELECT 1 FROM executions e
                WHERE e.parent_workflow_id = r.value AND e.target_name = 'builtin.resume_workflow' AND e.status = 'pending')
    OR EXISTS (SELECT 1 FROM hooks h WHERE h.workflow_id = r.value)
    OR EXISTS (SELECT 1 FROM watchers w WHERE w.target_id = r.value)

-- answer_open_updates: these runs ended first (P8).
UPDATE workflow_inbox SET answer = :answer, at = tenuto_now()
 WHERE workflow_id IN (SELECT value FROM json_each(:runs)) AND kind = 'update' AND answer IS NULL

-- empty_inboxes: closed runs read no mail (V4).
DELETE FROM workflow_inbox WHERE workflow_id IN (SELECT value FROM json_each(:runs)) AND answer IS NULL

-- wake: at most one pending resume per run (Q4). The no-op update is what a store with row locks needs; here it only
-- keeps the statement the same. Ids begin with the time: those of one moment are on the same few pages. Runs come as an
-- object, each with its arguments; SQLite takes ON for a join without the WHERE.
INSERT INTO executions (id, type, target_name, queue, priority, ready_at, status, args, parent_workflow_id, created_at)
SELECT format('%012x', tenuto_now()) || lower(hex(tenuto_token(10))), 'task', 'builtin.resume_workflow', 'system', 10,
       tenuto_now(), 'pending', unhex(r.value), r.key, tenuto_now()
  FROM json_each(?1) r WHERE true
ON CONFLICT (parent_workflow_id) WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
DO UPDATE SET priority = executions.priority

-- unpause_for_cancel: a cancel lets a paused run go on.
UPDATE executions SET status = 'suspended' WHERE id = :run AND status = 'paused'

-- pick_resumes: wake-ups this worker can act on, and those of runs that nobody needs to wake (Q2). Suspects are claimed
-- apart.
SELECT r.id, w.id, w.status
  FROM executions r JOIN executions w ON w.id = r.parent_workflow_id
 WHERE r.queue = 'system' AND r.type = 'task' AND r.status = 'pending' AND r.target_name = 'builtin.resume_workflow'
   AND w.lease_owner IS NULL
   AND (w.status <> 'suspended' OR (w.reclaims < 2 AND w.target_name IN (SELECT value FROM json_each(:known))))
 ORDER BY r.priority DESC, r.ready_at, r.id LIMIT :limit

-- delete_executions: with everything that hangs on them.
DELETE FROM executions WHERE id IN (SELECT value FROM json_each(:ids))

-- lease_runs: resumes or first starts become the lease (V3).
UPDATE executions
   SET status = 'running', lease_owner = :worker, epoch = epoch + 1, started_at = coalesce(started_at, tenuto_now()),
       leased_at = CASE WHEN reclaims > 0 THEN tenuto_now() END, place = NULL
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, target_name, status, epoch, alarm, reason, started_by, started_op, parent_workflow_id, definition, queue,
          run_no, created_at, started_at, completed_at, attributes

-- ready_queues: the queues that have something to claim and no limits: a skip scan, one probe of executions_ready each.
-- Whether a queue has limits is read here and not remembered, so that a new one holds from its commit on.
WITH RECURSIVE waiting (queue) AS (
    SELECT (SELECT queue FROM executions
             WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT e.queue FROM executions e
             WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue > waiting.queue
             ORDER BY e.queue LIMIT 1)
      FROM waiting WHERE waiting.queue IS NOT NULL)
SELECT queue FROM waiting
 WHERE queue IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM queues q
                    WHERE q.name = waiting.queue
                      AND (q.paused OR coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency,
                                                q.rate_limit) IS NOT NULL))

-- pick_ready: what is ready in one queue and known here, in the order of executions_ready (Q3). Suspects are claimed
-- apart, but for those of queues with limits.
SELECT id, priority, ready_at FROM executions
 WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' AND queue = :queue AND type = :type
   AND target_name IN (SELECT value FROM json_each(:known)) AND (reclaims < 2 OR :suspects)
 ORDER BY priority DESC, ready_at, id LIMIT :limit

-- lease_tasks: a claimed attempt counts at once, so a worker that dies in it cannot make it endless (P2).
UPDATE executions
   SET status = 'running', lease_owner = :worker, epoch = epoch + 1, attempt = attempt + 1, started_at = tenuto_now(),
       leased_at = CASE WHEN reclaims > 0 THEN tenuto_now() END
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, target_name, args, epoch, attempt, max_attempts, backoff_ms, backoff_max_ms, timeout_ms, heartbeat_ms,
          parent_workflow_id, coalesce(parent_op, ''), queue

-- raise_epoch: a lease on one run by id; every older one can no longer write.
UPDATE executions SET epoch = epoch + 1 WHERE id = :run AND type = 'workflow' RETURNING epoch

-- reopen_run: a run that goes back is open again, and nobody's; its key may have been given to another meanwhile. Whoever
-- claims it reads all the mail there is, so none counts as news: its end may have deleted some.
UPDATE executions
   SET status = 'suspended', epoch = epoch + 1, lease_owner = NULL, completed_at = NULL, reason = NULL,
       parked_by = NULL, pause_requested = 0, reclaims = 0, dedup_key = NULL, alarm = NULL, timer_count = 0,
       inbox_seen = inbox_seq
 WHERE id = :run AND type = 'workflow' AND epoch = :epoch RETURNING id

-- pending_resumes: whether there is anything to absorb; a read, so that the usual case costs no commit.
SELECT parent_workflow_id FROM executions
 WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
   AND parent_workflow_id IN (SELECT w.id FROM executions w
                               WHERE w.id IN (SELECT value FROM json_each(:runs)) AND +w.lease_owner = :worker)

-- absorb: the owner of live runs takes their wake-ups, before it reads their mail (Q5). Only of runs whose lease it has:
-- a worker that was stopped past its lease still believes in runs that were swept, and would take the wake-up that the
-- sweep gave them, or that their new owner is to find (I9).
DELETE FROM executions
 WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'
   AND parent_workflow_id IN (SELECT w.id FROM executions w
                               WHERE w.id IN (SELECT value FROM json_each(:runs)) AND +w.lease_owner = :worker)
RETURNING parent_workflow_id

-- turn_run: what a turn's commit is held against (Q7). Columns by place, for speed.
SELECT epoch, status, inbox_seq, inbox_seen, reclaims, alarm, timer_count
  FROM executions WHERE id = ?1 AND type = 'workflow'

-- running_turns: the same for several runs, where they are as usual.
SELECT e.id, e.epoch, e.inbox_seq, e.inbox_seen, e.alarm
  FROM json_each(?1) r CROSS JOIN executions e ON e.id = r.value
 WHERE e.status = 'running' AND e.reclaims = 0

-- cancel_above: an acknowledged cancel that the turn was not given (V7).
SELECT 1 FROM workflow_inbox WHERE workflow_id = :run AND kind = 'cancel' AND seq > :seen LIMIT 1

-- turn_note: a run that stays as it is. Touches no indexed column, so only one page is written.
UPDATE executions SET inbox_seen = ?2, alarm = ?3, reclaims = ?4 WHERE id = ?1

-- turn_suspend: a run that waits. A pause that was asked for comes now; mail that came meanwhile keeps it running (V1).
-- Mail below `inbox_seen` was given to a turn before: a run just loaded has been given what is left of it.
UPDATE executions
   SET status = CASE WHEN pause_requested THEN 'paused' WHEN inbox_seq > max(inbox_seen, :seen) THEN 'running' ELSE 'suspended' END,
       lease_owner = CASE WHEN NOT pause_requested AND inbox_seq > max(inbox_seen, :seen) THEN lease_owner END,
       holds_slot = CASE WHEN pause_requested THEN 0 ELSE holds_slot END, pause_requested = 0, inbox_seen = max(inbox_seen, :seen), alarm = :alarm, reason = NULL, parked_by = NULL,
       reclaims = CASE WHEN :progress THEN 0 ELSE reclaims END,
       run_no = run_no + :continued, definition = coalesce(:definition, definition),
       timer_count = CASE WHEN :timed
                          THEN (SELECT count(*) FROM timer_tasks WHERE workflow_id = :run AND metadata IS NOT NULL)
                          ELSE 0 END
 WHERE id = :run RETURNING status

-- turn_run_on: a run with work under way, or the next of its chain.
UPDATE executions
   SET status = 'running', inbox_seen = max(inbox_seen, :seen), alarm = :alarm, reason = NULL, parked_by = NULL,
       reclaims = CASE WHEN :progress THEN 0 ELSE reclaims END,
       run_no = run_no + :continued, definition = coalesce(:definition, definition)
 WHERE id = :run

-- turn_close: an outcome; the lease goes with it (V7).
UPDATE executions
   SET status = ?2, lease_owner = NULL, completed_at = ?5, inbox_seen = max(inbox_seen, ?3), alarm = NULL,
       timer_count = 0, reclaims = 0, reason = NULL, pause_requested = 0, holds_slot = 0,
       definition = coalesce(?4, definition)
 WHERE id = ?1

-- turn_park: the engine cannot go on with it; nothing else changes (P6).
UPDATE executions
   SET status = 'parked', lease_owner = NULL, reason = :reason, parked_by = :parked_by, holds_slot = 0
 WHERE id = :run

-- stop_timers: timers that a turn withdrew.
DELETE FROM timer_tasks WHERE id = ?1

-- start_timers: timers a turn asked for; the same place again is the same timer with a new deadline.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, metadata, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at, timer_type = excluded.timer_type

-- start_alarm: the run's earliest deadline has a row, whatever made it: a cancel's time limit has no timer of its own.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
SELECT 'alarm:' || :run, :alarm, :run, 'timeout', tenuto_now()
 WHERE NOT EXISTS (SELECT 1 FROM timer_tasks WHERE workflow_id = :run AND fire_at <= :alarm)
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at

-- timers_of: the locations of a run's own timers that are there; one deleted by hand is not (P4).
SELECT metadata FROM timer_tasks WHERE workflow_id = :run AND metadata IS NOT NULL ORDER BY fire_at, id

-- delete_timers: all of one execution.
DELETE FROM timer_tasks WHERE workflow_id = :id

-- empty_timers: all of these runs.
DELETE FROM timer_tasks WHERE workflow_id IN (SELECT value FROM json_each(:runs))

-- delete_resumes: closed runs need no wake-up (V7).
DELETE FROM executions
 WHERE parent_workflow_id IN (SELECT value FROM json_each(:runs))
   AND target_name = 'builtin.resume_workflow' AND status = 'pending'

-- delete_hooks: tokens of closed runs lead nowhere.
DELETE FROM hooks WHERE workflow_id IN (SELECT value FROM json_each(:runs))

-- hook_owner: the run that has a token. Closing a run deletes its hooks, so it is an open one.
SELECT workflow_id FROM hooks WHERE token_hash = :token

-- delete_hook: of the same hook, which is opened again.
DELETE FROM hooks WHERE key = :key OR token_hash = :token

-- close_hook: its run takes no more of it; the token is free again.
DELETE FROM hooks WHERE token_hash = :token AND workflow_id = :run

-- insert_hook: only an open run has hooks.
INSERT INTO hooks (token_hash, workflow_id, key)
SELECT :token, id, :key FROM executions
 WHERE id = :run AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')

-- open_children: what a closed parent leaves behind.
SELECT id FROM executions
 WHERE parent_workflow_id = :run AND +type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')

-- child_origin: whose child an id is.
SELECT started_by, started_op, target_name, status FROM executions WHERE id = :id

-- end_of: whom to tell about the end of an execution.
SELECT parent_workflow_id, parent_op FROM executions WHERE id = :id AND parent_workflow_id IS NOT NULL

-- followed: which of these executions anybody follows without having started them.
SELECT DISTINCT target_id FROM watchers WHERE target_id IN (SELECT value FROM json_each(:ids))

-- watchers_of: who follows an execution without having started it.
SELECT workflow_id, op FROM watchers WHERE target_id = :id ORDER BY workflow_id, op

-- put_details: the last heartbeat of a step; a worker writes at most one a second.
INSERT INTO step_details (key, workflow_id, details, at) VALUES (:key, :run, :details, tenuto_now())
ON CONFLICT (key) DO UPDATE SET details = excluded.details, at = excluded.at

-- get_details: for the next attempt. They go with their run.
SELECT details FROM step_details WHERE key = :key

-- note_under_way: inline steps that have been under way for a while, for those who look. They go with their run.
INSERT INTO step_details (key, workflow_id, details, at)
SELECT s.value ->> 0, s.value ->> 1, CAST(s.value ->> 2 AS BLOB), tenuto_now() FROM json_each(:steps) s
 WHERE EXISTS (SELECT 1 FROM executions WHERE id = s.value ->> 1)
ON CONFLICT (key) DO UPDATE SET details = excluded.details, at = excluded.at

-- forget_under_way: those that have ended.
DELETE FROM step_details WHERE key IN (SELECT value FROM json_each(:keys))

-- steps_under_way: what was noted of a run's steps, and not its heartbeats.
SELECT details FROM step_details WHERE workflow_id = :run AND substr(key, 1, length(:prefix)) = :prefix ORDER BY key

-- holder: who has the lease of a run.
SELECT lease_owner FROM executions WHERE id = :run AND type = 'workflow'

-- insert_watcher: a task whose key is taken, or a run that attaches, follows the execution that is there.
INSERT INTO watchers (target_id, workflow_id, op, task_id) VALUES (:target, :run, :op, :task) ON CONFLICT DO NOTHING

-- delete_watchers: all that follow an execution; they have been told.
DELETE FROM watchers WHERE target_id = :id

-- delete_following: a task that was withdrawn, where it only followed another.
DELETE FROM watchers WHERE task_id IN (SELECT value FROM json_each(:ids))

-- cancel_waiting_tasks: tasks nobody has begun end at once.
UPDATE executions SET status = 'cancelled', completed_at = tenuto_now(), epoch = epoch + 1
 WHERE id IN (SELECT value FROM json_each(:ids)) AND +type = 'task' AND status IN ('scheduled', 'pending')
RETURNING id, target_name, parent_op, attempt

-- flag_running_tasks: tasks under way see it at their next heartbeat.
UPDATE executions SET cancel_requested = 1
 WHERE id IN (SELECT value FROM json_each(:ids)) AND +type = 'task' AND status = 'running'

-- open_tasks: of a run that is terminated.
SELECT id FROM executions
 WHERE parent_workflow_id = :run AND +type = 'task' AND target_name <> 'builtin.resume_workflow'
   AND status IN ('scheduled', 'pending', 'running')

-- tasks_of: the open tasks of a run, for those who ask why it waits.
SELECT id, target_name, queue, status, attempt, max_attempts, ready_at, coalesce(parent_op, ''), lease_owner,
       CASE WHEN status = 'running' THEN started_at END
  FROM executions
 WHERE parent_workflow_id = :run AND +type = 'task' AND target_name <> 'builtin.resume_workflow'
   AND status IN ('scheduled', 'pending', 'running')
 ORDER BY created_at, id

-- live_workers: those whose lease is not over.
SELECT id, host, pid, release, queues, started_at, lease_until, machine, pid_began
  FROM workers WHERE lease_until >= tenuto_now() ORDER BY started_at, id

-- owned_task: an attempt that its worker still has (Q8).
SELECT parent_workflow_id, parent_op, target_name, attempt, cancel_requested FROM executions
 WHERE id = :id AND epoch = :epoch AND status = 'running' AND type = 'task'

-- end_task: the final outcome.
UPDATE executions
   SET status = :status, lease_owner = NULL, holds_slot = 0, completed_at = tenuto_now(), output = :output, error = :error
 WHERE id = :id

-- retry_task: tried again later; its start is a timer. Its worker has survived it.
UPDATE executions
   SET status = 'scheduled', lease_owner = NULL, holds_slot = 0, error = :error, ready_at = :at, reclaims = 0
 WHERE id = :id

-- get_task: a task as its client sees it.
SELECT status, output, error, attempt, target_name, queue, coalesce(parent_op, '') FROM executions
 WHERE id = :id AND type = 'task' AND target_name <> 'builtin.resume_workflow'

-- due_timers: what is due, of runs (Q9) and of items that wait for their start (Q10).
SELECT id, workflow_id, timer_type FROM timer_tasks WHERE fire_at <= tenuto_now() ORDER BY fire_at LIMIT :limit

-- delete_timer_ids: what is due, in the transaction that acts on it (P4).
DELETE FROM timer_tasks WHERE id IN (SELECT value FROM json_each(:ids))

-- make_ready: delayed starts become claimable; one that was paused meanwhile stays so.
UPDATE executions
   SET status = CASE WHEN pause_requested THEN 'paused' ELSE 'pending' END, pause_requested = 0, ready_at = tenuto_now()
 WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'scheduled'

-- next_deadline: when the timer loop has to look again.
SELECT min(fire_at) FROM timer_tasks

-- insert_worker: makes a worker known.
INSERT INTO workers (id, lease_until, beat_due, started_at, host, machine, pid, pid_began, release, queues, capability)
VALUES (:id, tenuto_now() + :lease, tenuto_now() + :lease / 3, tenuto_now(), :host, :machine, :pid, :pid_began, :release,
        :queues, :capability)
ON CONFLICT (id) DO UPDATE
   SET lease_until = excluded.lease_until, beat_due = excluded.beat_due, capability = excluded.capability, crowded = 0

-- insert_definition: what workers have, so that clients can name it.
INSERT INTO definitions (id, hash, kind) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING

-- release_parked: a worker with other capabilities may be the deploy that parked runs wait for.
UPDATE executions SET status = 'suspended', reason = NULL, parked_by = NULL, reclaims = 0
 WHERE status = 'parked' AND target_name IN (SELECT value FROM json_each(:known)) AND parked_by IS NOT :capability
RETURNING id

-- heartbeat: renews all leases of a worker by one row; a late one revives nothing (Q1).
UPDATE workers SET lease_until = tenuto_now() + :lease, beat_due = tenuto_now() + :lease / 3
 WHERE id = :id AND lease_until >= tenuto_now() RETURNING id

-- give_back_runs: a worker that leaves in good order; not counted as reclaim.
UPDATE executions SET status = 'suspended', lease_owner = NULL, epoch = epoch + 1
 WHERE lease_owner = :worker AND +type = 'workflow' RETURNING id

-- give_back_tasks: claimable again at once, but for those the worker still has; the attempt does not count.
UPDATE executions
   SET status = 'pending', lease_owner = NULL, epoch = epoch + 1, attempt = max(attempt - 1, 0), ready_at = tenuto_now(),
       holds_slot = 0
 WHERE lease_owner = :worker AND +type = 'task' AND id NOT IN (SELECT value FROM json_each(:kept))

-- begun_tasks: those of a worker that leaves whose step it had begun.
SELECT id, target_name, parent_op, attempt, max_attempts, backoff_ms, backoff_max_ms, cancel_requested, reclaims,
       survived_ms
  FROM executions
 WHERE lease_owner = :worker AND +type = 'task' AND id IN (SELECT value FROM json_each(:begun)) ORDER BY +id

-- delete_worker: it has left in good order.
DELETE FROM workers WHERE id = :id

-- mark_crowded: lost workers that had several leases, before these are taken one by one: nothing was alone with them.
UPDATE workers SET crowded = 1
 WHERE lease_until < tenuto_now() AND NOT crowded
   AND (SELECT count(*) FROM executions e WHERE e.lease_owner = workers.id) > 1

-- lost_runs: leases of runs whose worker is gone (Q11). How long it lived with a run is known to the next renewal that
-- did not come.
SELECT e.id, coalesce(k.capability, (SELECT capability FROM workers ORDER BY started_at DESC LIMIT 1)),
       e.pause_requested, e.reclaims, e.strikes, k.id IS NOT NULL AND NOT k.crowded, e.place,
       max(min(coalesce(k.beat_due, tenuto_now()), tenuto_now()) - coalesce(e.leased_at, tenuto_now()), 0)
  FROM executions e LEFT JOIN workers k ON k.id = e.lease_owner
 WHERE e.lease_owner IS NOT NULL AND +e.type = 'workflow' AND (k.id IS NULL OR k.lease_until < tenuto_now())
 ORDER BY +e.id LIMIT :limit

-- lost_tasks: the same for tasks.
SELECT e.id, e.target_name, e.parent_op, e.attempt, e.max_attempts, e.backoff_ms, e.backoff_max_ms, e.cancel_requested,
       e.reclaims + 1,
       max(min(coalesce(k.beat_due, tenuto_now()), tenuto_now()) - coalesce(e.leased_at, tenuto_now()), 0)
  FROM executions e LEFT JOIN workers k ON k.id = e.lease_owner
 WHERE e.lease_owner IS NOT NULL AND +e.type = 'task' AND (k.id IS NULL OR k.lease_until < tenuto_now())
 ORDER BY +e.id LIMIT :limit

-- declare_lost: workers whose processes are gone; as if their time were over.
UPDATE workers SET lease_until = min(lease_until, tenuto_now() - 1) WHERE id IN (SELECT value FROM json_each(:ids))

-- drop_lost_background: their background leases, so that another begins at once.
DELETE FROM background_leases WHERE owner IN (SELECT value FROM json_each(:ids))

-- suspects: those that have been ready for so long, the last claimed first. What was lost again and again is claimed
-- apart.
SELECT e.id, e.reclaims, coalesce(e.survived_ms, 0), e.type = 'workflow'
  FROM executions e
 WHERE e.reclaims >= 2 AND e.lease_owner IS NULL AND e.completed_at IS NULL
   AND CASE e.type
       WHEN 'workflow' THEN
           e.status = 'suspended' AND (:runs IS NULL OR e.target_name IN (SELECT value FROM json_each(:runs)))
           AND EXISTS (SELECT 1 FROM executions r
                        WHERE r.parent_workflow_id = e.id AND r.target_name = 'builtin.resume_workflow'
                          AND r.status = 'pending' AND r.ready_at <= tenuto_now() - :waited)
       ELSE
           e.status = 'pending' AND (:steps IS NULL OR e.target_name IN (SELECT value FROM json_each(:steps)))
           AND e.ready_at <= tenuto_now() - :waited
           AND (:queues IS NULL OR e.queue IN (SELECT value FROM json_each(:queues)))
           AND NOT EXISTS (SELECT 1 FROM queues q
                            WHERE q.name = e.queue
                              AND (q.paused OR coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency,
                                                        q.rate_limit) IS NOT NULL))
       END
 ORDER BY e.leased_at DESC, e.id LIMIT :limit

-- still_suspect: what a worker has of them.
SELECT id FROM executions WHERE lease_owner = :worker AND +reclaims >= 2

-- note_place: what the worker of a suspect is about to perform.
UPDATE executions SET place = :location WHERE id = :run AND epoch = :epoch

-- delete_lost_workers: with their leases swept, nothing needs their rows.
DELETE FROM workers
 WHERE lease_until < tenuto_now() AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.lease_owner = workers.id)

-- sweep_run: taken from its worker, which can no longer write (V3).
UPDATE executions
   SET status = :status, lease_owner = NULL, epoch = epoch + 1, reclaims = reclaims + 1, strikes = :strikes,
       survived_ms = :survived, reason = :reason, parked_by = :parked_by,
       pause_requested = 0, holds_slot = CASE :status WHEN 'suspended' THEN holds_slot ELSE 0 END
 WHERE id = :id

-- sweep_task: taken from its worker; what becomes of it is decided in the same transaction.
UPDATE executions
   SET lease_owner = NULL, epoch = epoch + 1, reclaims = :reclaims, survived_ms = :survived
 WHERE id = :id

-- start_reclaim: a run that lost its workers again is tried later and later.
INSERT INTO timer_tasks (id, fire_at, workflow_id, timer_type, created_at)
VALUES ('reclaim:' || :run, tenuto_now() + :delay, :run, 'retry', tenuto_now())
ON CONFLICT (id) DO UPDATE SET fire_at = excluded.fire_at

-- timed_slice: the next suspended runs with timers, by id; the sweep goes through all of them slice by slice, so that
-- its cost does not grow with what sleeps.
SELECT id, timer_count > (SELECT count(*) FROM timer_tasks t WHERE t.workflow_id = e.id AND t.metadata IS NOT NULL)
  FROM executions e
 WHERE status = 'suspended' AND timer_count > 0 AND id > :after
 ORDER BY id LIMIT :limit

-- pause_now: a run nobody works on. One that waits for its start is paused when that comes.
UPDATE executions
   SET status = CASE WHEN status IN ('suspended', 'pending') AND lease_owner IS NULL THEN 'paused' ELSE status END,
       pause_requested = CASE WHEN status IN ('running', 'scheduled') OR lease_owner IS NOT NULL THEN 1 ELSE 0 END,
       holds_slot = CASE WHEN status IN ('suspended', 'pending') AND lease_owner IS NULL THEN 0 ELSE holds_slot END
 WHERE id = :run AND type = 'workflow' AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused')
RETURNING status

-- unpause: lets a paused or parked run go on, or forgets a pause that has not come yet.
UPDATE executions
   SET status = CASE WHEN status IN ('paused', 'parked') THEN 'suspended' ELSE status END,
       pause_requested = 0, reclaims = 0, reason = NULL, parked_by = NULL
 WHERE id = :run AND type = 'workflow' AND (status IN ('paused', 'parked') OR pause_requested)
RETURNING status

-- terminate: closed at once; the epoch shuts out whoever has it (V3).
UPDATE executions
   SET status = 'terminated', epoch = epoch + 1, lease_owner = NULL, completed_at = tenuto_now(), reason = :reason,
       alarm = NULL, timer_count = 0, pause_requested = 0, holds_slot = 0
 WHERE id = :run AND type = 'workflow'
   AND status IN ('scheduled', 'pending', 'running', 'suspended', 'paused', 'parked')
RETURNING id

-- cancel_unstarted: a run that has not begun ends without a worker.
UPDATE executions
   SET status = 'cancelled', epoch = epoch + 1, completed_at = tenuto_now(), alarm = NULL, timer_count = 0,
       pause_requested = 0
 WHERE id = :run AND status IN ('scheduled', 'pending')
RETURNING id

-- unlink_children: child runs outlive the deletion of their parent; its tasks and resumes do not.
UPDATE executions SET parent_workflow_id = NULL
 WHERE +type = 'workflow' AND parent_workflow_id IN (SELECT value FROM json_each(:ids))

-- delete_context: has no foreign key, so it is deleted by hand.
DELETE FROM workflow_execution_context WHERE workflow_id IN (SELECT value FROM json_each(:ids))

-- delete_details: heartbeat details of steps that will not report any more.
DELETE FROM step_details WHERE workflow_id IN (SELECT value FROM json_each(:ids))

-- Schedules, background leases, retention.

-- put_schedule: the same rule again keeps its times; another one is armed anew, and what waited for the old is dropped.
INSERT INTO schedules (name, target, args, queue, cron, every, tz, overlap, catch_up, start_at, end_at, anchor, next_at)
VALUES (:name, :target, :args, :queue, :cron, :every, :tz, :overlap, :catch_up, :start_at, :end_at, :anchor, :next_at)
ON CONFLICT (name) DO UPDATE
   SET target = excluded.target, args = excluded.args, queue = excluded.queue, overlap = excluded.overlap,
       catch_up = excluded.catch_up, cron = excluded.cron, every = excluded.every, tz = excluded.tz,
       start_at = excluded.start_at, end_at = excluded.end_at, revision = schedules.revision + 1,
       anchor = CASE WHEN (schedules.cron, schedules.every, schedules.tz, schedules.start_at, schedules.end_at)
                          IS (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                     THEN schedules.anchor ELSE excluded.anchor END,
       next_at = CASE WHEN (schedules.cron, schedules.every, schedules.tz, schedules.start_at, schedules.end_at)
                           IS (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                      THEN schedules.next_at ELSE excluded.next_at END,
       waiting_at = CASE WHEN (schedules.cron, schedules.every, schedules.tz, schedules.start_at, schedules.end_at)
                              IS (excluded.cron, excluded.every, excluded.tz, excluded.start_at, excluded.end_at)
                         THEN schedules.waiting_at END

-- all_schedules: every one there is, by name.
SELECT name, target, args, queue, cron, every, tz, overlap, catch_up, start_at, end_at, anchor, next_at, waiting_at,
       last_id, paused, revision
  FROM schedules ORDER BY name

-- get_schedule: one of them, by its name.
SELECT name, target, args, queue, cron, every, tz, overlap, catch_up, start_at, end_at, anchor, next_at, waiting_at,
       last_id, paused, revision
  FROM schedules WHERE name = :name

-- set_schedule: paused or armed anew, if it is still the one that was seen.
UPDATE schedules SET paused = :paused, next_at = :next_at, revision = revision + 1
 WHERE name = :name AND revision = :revision RETURNING name

-- delete_schedule: nothing more is started; its runs stay.
DELETE FROM schedules WHERE name = :name RETURNING name

-- due_schedules: what has something to do, and whether the run before is still open. Two lookups by index, so that
-- its cost does not grow with the schedules there are. Page by page in the order of names: a schedule that cannot be
-- fired here does not stand in the way of those behind it.
SELECT s.name, s.target, s.args, s.queue, s.cron, s.every, s.tz, s.overlap, s.catch_up, s.start_at, s.end_at, s.anchor,
       s.next_at, s.waiting_at, s.last_id, s.paused, s.revision, coalesce(e.completed_at IS NULL AND e.id IS NOT NULL, 0)
  FROM schedules s LEFT JOIN executions e ON e.id = s.last_id
 WHERE NOT s.paused AND s.name > :after
   AND s.name IN (SELECT name FROM schedules WHERE next_at <= tenuto_now()
                  UNION ALL
                  SELECT w.name FROM schedules w LEFT JOIN executions l ON l.id = w.last_id
                   WHERE w.waiting_at IS NOT NULL AND (l.id IS NULL OR l.completed_at IS NOT NULL))
 ORDER BY s.name LIMIT :limit

-- next_schedule: when the loop has to look again.
SELECT min(next_at) FROM schedules WHERE next_at > tenuto_now() AND NOT paused

-- fire_schedule: the schedule moves on, if nobody was faster; its runs are in the same transaction (R049, R050).
UPDATE schedules
   SET next_at = :next_at, waiting_at = :waiting_at, revision = revision + 1
 WHERE name = :name AND revision = :revision AND NOT paused RETURNING name

-- note_last_run: the latest run that a schedule started itself.
UPDATE schedules SET last_id = :last_id WHERE name = :name

-- take_background: taken or renewed; no row: somebody else has it (Q12).
INSERT INTO background_leases AS b (name, owner, until) VALUES (:name, :owner, tenuto_now() + :ttl)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
 WHERE b.owner = excluded.owner OR b.until < tenuto_now() RETURNING owner

-- drop_background: a worker that leaves in good order lets another begin at once.
DELETE FROM background_leases WHERE owner = :worker

-- expired: closed longer than retention: runs without an open child, and tasks that belong to no run. A run's own tasks
-- go with it.
SELECT id FROM executions e
 WHERE completed_at <= tenuto_now() - :retention
   AND CASE type WHEN 'task' THEN parent_workflow_id IS NULL
                 ELSE NOT EXISTS (SELECT 1 FROM executions c
                                   WHERE c.parent_workflow_id = e.id AND +c.type = 'workflow' AND c.completed_at IS NULL)
       END
 ORDER BY completed_at LIMIT :limit

-- identity: what tells this store from every other one.
SELECT store_id FROM tenuto_meta

-- defined: what workers have registered, for clients that name it.
SELECT DISTINCT id FROM definitions ORDER BY id

-- Queues: limits, what they let begin, tasks by themselves, and pages of runs.

-- set_queue: what a queue was told, in place of what it was told before.
INSERT INTO queues (name, concurrency, worker_concurrency, partition_concurrency, rate_limit, rate_period, paused)
VALUES (:name, :concurrency, :worker_concurrency, :partition_concurrency, :rate_limit, :rate_period, :paused)
ON CONFLICT (name) DO UPDATE
   SET concurrency = excluded.concurrency, worker_concurrency = excluded.worker_concurrency,
       partition_concurrency = excluded.partition_concurrency, rate_limit = excluded.rate_limit,
       rate_period = excluded.rate_period, paused = excluded.paused

-- limited_queues: the few that claims have to be careful with.
SELECT name FROM queues
 WHERE paused OR coalesce(concurrency, worker_concurrency, partition_concurrency, rate_limit) IS NOT NULL

-- list_queues: those that were told something and those that have work; waiting, running, slots taken. Running ones are
-- found by their leases, the others by the indexes that claims use.
WITH waiting (name, items) AS (
    SELECT queue, count(*) FROM executions
     WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' AND queue <> 'system' GROUP BY queue),
running (name, items) AS (
    SELECT queue, count(*) FROM executions WHERE lease_owner IS NOT NULL AND +status = 'running' GROUP BY queue),
slots (name, items) AS (
    SELECT queue, count(*) FROM executions WHERE holds_slot GROUP BY queue),
names (name) AS (
    SELECT name FROM queues UNION SELECT name FROM waiting UNION SELECT name FROM running UNION SELECT name FROM slots)
SELECT n.name, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period,
       coalesce(q.paused, 0), coalesce(w.items, 0), coalesce(r.items, 0), coalesce(s.items, 0)
  FROM names n LEFT JOIN queues q ON q.name = n.name LEFT JOIN waiting w ON w.name = n.name
  LEFT JOIN running r ON r.name = n.name LEFT JOIN slots s ON s.name = n.name
 ORDER BY n.name

-- queue_states: how far queues with limits are used up, as far as they have something to begin. The rate counts what
-- began in the window that ends now.
SELECT q.name, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period, q.paused,
       (SELECT count(*) FROM executions e WHERE e.holds_slot AND e.queue = q.name),
       (SELECT count(*) FROM queue_starts t WHERE t.queue = q.name AND t.at > tenuto_now() - q.rate_period),
       (SELECT min(at) FROM queue_starts t WHERE t.queue = q.name AND t.at > tenuto_now() - q.rate_period)
  FROM queues q
 WHERE NOT q.paused AND coalesce(q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit) IS NOT NULL
   AND (:queues IS NULL OR q.name IN (SELECT value FROM json_each(:queues)))
   AND EXISTS (SELECT 1 FROM executions e
                WHERE e.status = 'pending' AND e.target_name <> 'builtin.resume_workflow' AND e.queue = q.name)
 ORDER BY q.name

-- waiting_partitions: the partitions of a queue that have something to begin, and the slots each has taken: a skip scan,
-- one probe of executions_partition each, so that a full partition with a thousand items costs as much as one with two.
WITH RECURSIVE waiting (partition) AS (
    SELECT (SELECT partition_key FROM executions
             WHERE status = 'pending' AND partition_key IS NOT NULL AND queue = :queue ORDER BY partition_key LIMIT 1)
    UNION ALL
    SELECT (SELECT e.partition_key FROM executions e
             WHERE e.status = 'pending' AND e.partition_key IS NOT NULL AND e.queue = :queue
               AND e.partition_key > waiting.partition ORDER BY e.partition_key LIMIT 1)
      FROM waiting WHERE waiting.partition IS NOT NULL)
SELECT partition,
       (SELECT count(*) FROM executions s WHERE s.holds_slot AND s.queue = :queue AND s.partition_key = partition)
  FROM waiting WHERE partition IS NOT NULL

-- pick_partition: what is ready in one partition, in the order of executions_partition.
SELECT id, priority, ready_at, type = 'workflow' FROM executions
 WHERE status = 'pending' AND partition_key IS NOT NULL AND queue = :queue AND partition_key = :partition
   AND target_name IN (SELECT value FROM json_each(:known))
 ORDER BY priority DESC, ready_at, id LIMIT :limit

-- pick_keyless: what is ready in a queue with partitions and belongs to none. The key is the last column of
-- executions_ready, so that those that have one are passed over without being looked up.
SELECT id, priority, ready_at FROM executions
 WHERE status = 'pending' AND target_name <> 'builtin.resume_workflow' AND queue = :queue AND type = :type
   AND partition_key IS NULL
   AND target_name IN (SELECT value FROM json_each(:known))
 ORDER BY priority DESC, ready_at, id LIMIT :limit

-- take_slots: in the transaction that leases them.
UPDATE executions SET holds_slot = 1 WHERE id IN (SELECT value FROM json_each(:ids))

-- note_start: one start of a queue with a rate.
INSERT INTO queue_starts (queue, at) VALUES (?1, tenuto_now())

-- forget_starts: those that have left the window.
DELETE FROM queue_starts WHERE queue = :queue AND at <= tenuto_now() - :period

-- queue_place: where an item that has not begun stands, and how far its queue is used up.
SELECT e.queue, q.concurrency, q.worker_concurrency, q.partition_concurrency, q.rate_limit, q.rate_period,
       coalesce(q.paused, 0),
       (SELECT count(*) FROM executions s WHERE s.holds_slot AND s.queue = e.queue),
       (SELECT count(*) FROM queue_starts t WHERE t.queue = e.queue AND t.at > tenuto_now() - q.rate_period),
       (SELECT min(at) FROM queue_starts t WHERE t.queue = e.queue AND t.at > tenuto_now() - q.rate_period),
       e.status, e.partition_key,
       (SELECT count(*) FROM executions s
         WHERE s.holds_slot AND s.queue = e.queue AND s.partition_key = e.partition_key),
       (SELECT count(*) FROM executions b
         WHERE b.status = 'pending' AND b.target_name <> 'builtin.resume_workflow' AND b.queue = e.queue
           AND (-b.priority, b.ready_at, b.id) < (-e.priority, e.ready_at, e.id)),
       e.ready_at
  FROM executions e LEFT JOIN queues q ON q.name = e.queue
 WHERE e.id = :id AND e.status IN ('pending', 'scheduled') AND e.target_name <> 'builtin.resume_workflow'

-- flagged_tasks: what a worker is to stop.
SELECT id FROM executions WHERE lease_owner = :worker AND +type = 'task' AND cancel_requested ORDER BY id

-- page_runs: a page of the runs that fit a filter, by id: the order does not change while they do.
SELECT id, status FROM executions e
 WHERE +type = 'workflow' AND id > :after AND created_at <= :until
   AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
   AND (NOT :stuck OR instr(coalesce(reason, ''), 'TN110') > 0)
   AND (:target IS NULL OR target_name = :target)
   AND (:name IS NULL OR target_name = :name
        OR (instr(target_name, '//') > 0 AND substr(target_name, -1 - length(:name)) = '/' || :name))
   AND (:since IS NULL OR created_at >= :since)
   AND NOT EXISTS (SELECT 1 FROM json_each(:attributes) a
                    WHERE NOT EXISTS (SELECT 1 FROM json_each(e.attributes) b
                                       WHERE b.key = a.key AND b.atom = a.atom))
 ORDER BY id LIMIT :limit

-- insert_program: kept for ever; the same hash is the same text.
INSERT INTO programs (hash, source) VALUES (:hash, :source) ON CONFLICT DO NOTHING

-- program: the text under a hash.
SELECT source FROM programs WHERE hash = :hash

-- programs_of: what programs define, for workers that can run them.
SELECT id, hash FROM definitions WHERE hash IN (SELECT hash FROM programs) ORDER BY id, hash
