"""Tasks in memory, and the timers that start what waits."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.location import text
from tenuto.store.endings import cancelled_task, result
from tenuto.store.memory_mail import deliver, tell_end
from tenuto.store.memory_state import Shelf, Watcher
from tenuto.store.port import ClaimedTask, OpenTask, Outgoing, TaskEnd
from tenuto.store.quarantine import SUSPECT
from tenuto.store.queues import TaskState

__all__ = [
    "cancel_begun",
    "cancel_tasks",
    "claim_tasks",
    "close_task",
    "end_task",
    "fire_timers",
    "lease_task",
    "open_tasks",
    "queue_task",
]


def queue_task(shelf: Shelf, task: EnqueueTask, run_id: str) -> str:
    """The id of the execution: its own, or the open one that has its key, which the run then follows."""
    if task.id in shelf.tasks or task.id in shelf.ended:
        return task.id  # queued before: the same operation again
    keyed = shelf.keyed(task.queue, task.key)
    if keyed is None:
        shelf.tasks[task.id] = (run_id, task)
        shelf.attempt(task.id)
        return task.id
    if run_id:
        watchers = shelf.watchers.setdefault(keyed, [])
        watcher = Watcher(run_id, text(task.location), task.id)
        if watcher[:2] not in [known[:2] for known in watchers]:
            watchers.append(watcher)
    return keyed


def cancel_tasks(shelf: Shelf, task_ids: Sequence[str]) -> None:
    """Ends tasks that nobody has begun, flags the others, and stops following those of other runs."""
    for watchers in shelf.watchers.values() if task_ids else ():
        watchers[:] = [watcher for watcher in watchers if watcher.task_id not in task_ids]
    for task_id in task_ids:
        if task_id not in shelf.tasks:
            continue
        attempts = shelf.attempt(task_id)
        if attempts.status == "running":
            attempts.cancel_requested = True
            continue
        _, task = shelf.tasks[task_id]
        close_task(
            shelf, task_id, "cancelled", None, cancelled_task(task.target, text(task.location), attempts.attempt)
        )


def close_task(shelf: Shelf, task_id: str, status: str, output: bytes | None, error: bytes | None) -> list[str]:
    """Ends a task and tells whoever waits for it: these runs."""
    told = [watcher.run_id for watcher in shelf.watchers.get(task_id, [])]
    run_id, task = shelf.tasks.pop(task_id)
    attempts = shelf.attempts.pop(task_id).attempt
    shelf.details.pop(task_id, None)
    ended = TaskState(status, output, error, attempts, task.target, task.queue, text(task.location))
    shelf.ended[task_id] = ended
    shelf.ended_at[task_id] = (shelf.clock(), run_id)
    if run_id:
        mail = result(text(task.location), output, error, attempts, shelf.clock())
        deliver(shelf, Outgoing(run_id, mail, f"end:{task_id}:{text(task.location)}"))
    tell_end(shelf, task_id, output, error, attempts)
    return [run_id, *told] if run_id else told


def claim_tasks(
    shelf: Shelf, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
) -> list[ClaimedTask]:
    limited = shelf.limited()
    ready = [
        (-task.priority, shelf.attempt(task_id).ready_at, task_id)
        for task_id, (_, task) in shelf.tasks.items()
        if shelf.attempt(task_id).status == "pending"
        and task.target in known
        and task.queue not in limited
        and shelf.attempt(task_id).losses.reclaims < SUSPECT
        and (queues is None or task.queue in queues)
    ]
    return [lease_task(shelf, worker_id, task_id) for _, _, task_id in sorted(ready)[:limit]]


def lease_task(shelf: Shelf, worker_id: str, task_id: str) -> ClaimedTask:
    """A claimed attempt counts at once."""
    run_id, task = shelf.tasks[task_id]
    attempts = shelf.attempt(task_id)
    attempts.status, attempts.lease_owner = "running", worker_id
    attempts.losses.lease(shelf.clock())
    attempts.epoch += 1
    attempts.attempt += 1
    attempts.started_at = shelf.clock()
    return ClaimedTask(
        task_id,
        task.target,
        task.input,
        attempts.epoch,
        attempts.attempt,
        task.max_attempts,
        task.backoff_ms,
        task.backoff_max_ms,
        task.timeout_ms,
        task.heartbeat_ms,
        run_id or None,
        text(task.location),
        task.queue,
    )


def end_task(shelf: Shelf, end: TaskEnd) -> bool:
    """The end of an attempt, if its worker still has the task (P5)."""
    if end.id not in shelf.tasks:
        return False
    attempts = shelf.attempt(end.id)
    if attempts.status != "running" or attempts.epoch != end.epoch:
        return False
    if end.retry_at is not None and not attempts.cancel_requested:
        attempts.status, attempts.lease_owner, attempts.ready_at = "scheduled", None, end.retry_at
        attempts.losses.reclaims = 0
        attempts.holds_slot = False
        return True
    attempts.attempt = end.attempts
    if end.retry_at is not None or end.cancelled:
        cancel_begun(shelf, end.id)
        return True
    close_task(shelf, end.id, "failed" if end.error is not None else "completed", end.output, end.error)
    return True


def cancel_begun(shelf: Shelf, task_id: str) -> None:
    """Ends a task that was asked to stop, between or in the middle of its attempts."""
    _, task = shelf.tasks[task_id]
    error = cancelled_task(task.target, text(task.location), shelf.attempt(task_id).attempt)
    close_task(shelf, task_id, "cancelled", None, error)


def fire_timers(shelf: Shelf, limit: int) -> int | None:
    """Removes what is due and acts on it (P4); the next deadline."""
    now = shelf.clock()
    due = [deadline for deadline in _deadlines(shelf) if deadline <= now]
    until = sorted(due)[limit - 1] if len(due) > limit else now  # those that share the last deadline go together
    for run in shelf.runs.values():
        if run.alarms.get("start", until + 1) <= until and run.status == "scheduled":
            run.status = "paused" if run.pause_requested else "pending"
            run.pause_requested = False
            run.ready_at = now
            del run.alarms["start"]
            shelf.news += 1
        fired = [timers for timers in (run.timers, run.alarms) if any(at <= until for at in timers.values())]
        for timers in fired:
            for name in [name for name, at in timers.items() if at <= until]:
                del timers[name]
        if fired:
            shelf.wake(run)
    for attempts in shelf.attempts.values():
        if attempts.status == "scheduled" and attempts.ready_at <= until:
            attempts.status, attempts.ready_at = "pending", now
            shelf.news += 1
    return min(_deadlines(shelf), default=None)


def _deadlines(shelf: Shelf) -> list[int]:
    runs = [at for run in shelf.runs.values() for at in (*run.timers.values(), *run.alarms.values())]
    return runs + [attempts.ready_at for attempts in shelf.attempts.values() if attempts.status == "scheduled"]


def open_tasks(shelf: Shelf, run_id: str) -> list[OpenTask]:
    """What a run has queued that has not ended."""
    found: list[OpenTask] = []
    for task_id, (owner, task) in shelf.tasks.items():
        if owner == run_id:
            at = shelf.attempt(task_id)
            place = (task.max_attempts, at.ready_at, text(task.location), at.lease_owner)
            started_at = at.started_at if at.status == "running" else None
            found.append(OpenTask(task_id, task.target, task.queue, at.status, at.attempt, *place, started_at))
    return found
