"""Tasks in SQLite: queueing, claiming, ending; and the timers that start what waits."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.location import text
from tenuto.store.connection import Connection
from tenuto.store.endings import cancelled_task
from tenuto.store.port import ClaimedTask, TaskEnd
from tenuto.store.sqlite_mail import listed, tell_end, wake
from tenuto.store.sqlite_runs import ready

__all__ = [
    "cancel_begun",
    "cancel_tasks",
    "claim_tasks",
    "end_task",
    "fire_timers",
    "lease_tasks",
    "queue_task",
    "retry_task",
]


def queue_task(connection: Connection, task: EnqueueTask, run_id: str | None) -> str:
    """The id of the execution: its own, or the open one that has its key, which the run then follows."""
    operation = text(task.location)
    connection.run(
        "insert_task",
        {
            "id": task.id,
            "target": task.target,
            "queue": task.queue,
            "priority": task.priority,
            "delay": task.delay_ms,
            "status": "scheduled" if task.delay_ms > 0 else "pending",
            "args": task.input,
            "parent": run_id,
            "parent_op": operation,
            "max_attempts": task.max_attempts,
            "backoff_ms": task.backoff_ms,
            "backoff_max_ms": task.backoff_max_ms,
            "timeout_ms": task.timeout_ms,
            "heartbeat_ms": task.heartbeat_ms,
            "key": task.key,
            "partition": task.partition,
        },
    )
    if connection.changed():
        if task.delay_ms > 0:
            connection.run("insert_start", {"id": task.id, "fire_at": connection.now + task.delay_ms})
        return task.id
    keyed = connection.one("keyed", {"queue": task.queue, "key": task.key}) if task.key is not None else None
    if keyed is None or keyed[0] == task.id:
        return task.id  # queued before: the same operation again
    if run_id is not None:
        watcher = {"target": keyed[0], "run": run_id, "op": operation, "task": task.id}
        connection.run("insert_watcher", watcher)
    return str(keyed[0])


def cancel_tasks(connection: Connection, task_ids: Sequence[str]) -> None:
    """Ends tasks that nobody has begun, flags the others, and stops following those of other runs."""
    ids = {"ids": listed(task_ids)}
    connection.run("delete_following", ids)
    for task_id, target, operation, attempts in connection.all("cancel_waiting_tasks", ids):
        connection.run("delete_timers", {"id": task_id})
        tell_end(connection, task_id, None, cancelled_task(target, operation or "", attempts), attempts)
    connection.run("flag_running_tasks", ids)


def claim_tasks(
    connection: Connection, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
) -> list[ClaimedTask]:
    return lease_tasks(connection, worker_id, ready(connection, "task", listed(known), queues, limit))


def lease_tasks(connection: Connection, worker_id: str, picked: Sequence[str]) -> list[ClaimedTask]:
    """A claimed attempt counts at once."""
    if not picked:
        return []
    leased = connection.all("lease_tasks", {"worker": worker_id, "ids": listed(picked)})
    claimed = {row[0]: ClaimedTask(*row) for row in leased}
    return [claimed[task_id] for task_id in picked]


def end_task(connection: Connection, end: TaskEnd) -> bool:
    """The end of an attempt, if its worker still has the task (P5)."""
    owned = connection.one("owned_task", {"id": end.id, "epoch": end.epoch})
    if owned is None:
        return False
    if end.retry_at is not None and not owned[4]:
        retry_task(connection, end.id, end.error, end.retry_at)
        return True
    if end.retry_at is not None or end.cancelled:
        cancel_begun(connection, end.id, owned[2], owned[1] or "", end.attempts)
        return True
    status = "failed" if end.error is not None else "completed"
    connection.run("end_task", {"id": end.id, "status": status, "output": end.output, "error": end.error})
    tell_end(connection, end.id, end.output, end.error, end.attempts)
    return True


def cancel_begun(connection: Connection, task_id: str, target: str, operation: str, attempts: int) -> None:
    """Ends a task that was asked to stop, between or in the middle of its attempts."""
    error = cancelled_task(target, operation, attempts)
    connection.run("end_task", {"id": task_id, "status": "cancelled", "output": None, "error": error})
    tell_end(connection, task_id, None, error, attempts)


def retry_task(connection: Connection, task_id: str, error: bytes | None, at: int) -> None:
    connection.run("retry_task", {"id": task_id, "error": error, "at": at})
    connection.run("insert_start", {"id": task_id, "fire_at": at})


def fire_timers(connection: Connection, limit: int) -> int | None:
    """Removes what is due and acts on it, in one transaction (P4); the next deadline."""
    due = connection.all("due_timers", {"limit": limit})
    if due:
        connection.run("delete_timer_ids", {"ids": listed(timer for timer, _, _ in due)})
        starts = [execution for _, execution, sort in due if sort == "start"]
        if starts:
            connection.run("make_ready", {"ids": listed(starts)})
        # Each run once: two timers of one run are one wake-up (V2).
        wake(connection, (run for _, run, sort in due if sort != "start"))
    following = connection.one("next_deadline")
    return None if following is None else following[0]
