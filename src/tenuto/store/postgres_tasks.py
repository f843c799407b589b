"""Tasks in Postgres: queueing, claiming, ending; and the timers that start what waits."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.location import text
from tenuto.store.endings import cancelled_task
from tenuto.store.port import ClaimedTask, TaskEnd
from tenuto.store.postgres_connection import Database, Transaction
from tenuto.store.postgres_mail import lock, tell_end

__all__ = ["cancel_tasks", "claim_tasks", "end_task", "fire_timers", "queue_tasks"]


async def queue_tasks(transaction: Transaction, tasks: Sequence[tuple[EnqueueTask, str | None]]) -> list[str]:
    """The ids of the executions: their own, or the open ones that have their keys, which the runs then follow."""
    made = await _insert(transaction, tasks)
    ids: list[str] = []
    for task, run_id in tasks:
        if task.id in made or task.key is None:
            ids.append(task.id)
        else:
            ids.append(await _follow(transaction, task, run_id))
    return ids


async def _insert(transaction: Transaction, tasks: Sequence[tuple[EnqueueTask, str | None]]) -> set[str]:
    values = {
        "ids": [task.id for task, _ in tasks],
        "targets": [task.target for task, _ in tasks],
        "queues": [task.queue for task, _ in tasks],
        "priorities": [task.priority for task, _ in tasks],
        "delays": [task.delay_ms for task, _ in tasks],
        "args": [task.input for task, _ in tasks],
        "parents": [run_id for _, run_id in tasks],
        "ops": [text(task.location) for task, _ in tasks],
        "max_attempts": [task.max_attempts for task, _ in tasks],
        "backoffs": [float(task.backoff_ms) for task, _ in tasks],
        "backoff_maxima": [float(task.backoff_max_ms) for task, _ in tasks],
        "timeouts": [task.timeout_ms for task, _ in tasks],
        "heartbeats": [task.heartbeat_ms for task, _ in tasks],
        "keys": [task.key for task, _ in tasks],
        "partitions": [task.partition for task, _ in tasks],
    }
    return {row[0] for row in await transaction.all("insert_tasks", values)}


async def _follow(transaction: Transaction, task: EnqueueTask, run_id: str | None) -> str:
    """The open item that has a task's key; the task itself where that one has ended in the meantime."""
    while (keyed := await transaction.one("keyed", {"queue": task.queue, "key": task.key})) is None:
        if await _insert(transaction, ((task, run_id),)):
            return task.id
        if await transaction.one("child_origin", {"id": task.id}) is not None:
            return task.id  # queued before: the same operation again
    if keyed[0] != task.id and run_id is not None:
        watcher = {"target": keyed[0], "run": run_id, "op": text(task.location), "task": task.id}
        await transaction.run("insert_watcher", watcher)
    return str(keyed[0])


async def cancel_tasks(transaction: Transaction, task_ids: Sequence[str]) -> None:
    """Ends tasks that nobody has begun, flags the others, and stops following those of other runs."""
    ids = {"ids": list(task_ids)}
    await transaction.run("delete_following", ids)
    cancelled = await transaction.all("cancel_waiting_tasks", ids)
    if cancelled:
        await transaction.run("delete_timers", {"ids": [row[0] for row in cancelled]})
    for task_id, target, operation, attempts in cancelled:
        await tell_end(transaction, task_id, None, cancelled_task(target, operation or "", attempts), attempts)
    await transaction.run("flag_running_tasks", ids)


async def claim_tasks(
    database: Database, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
) -> list[ClaimedTask]:
    values = {
        "worker": worker_id,
        "known": list(known),
        "queues": None if queues is None else list(queues),
        "limit": limit,
    }
    return [ClaimedTask(*row[:13]) for row in await database.write("claim_tasks", values)]


async def end_task(transaction: Transaction, end: TaskEnd) -> bool:
    """The end of an attempt, if its worker still has the task (P5)."""
    status, error = "failed" if end.error is not None else "completed", end.error
    if end.retry_at is not None or end.cancelled:
        retried = {"id": end.id, "epoch": end.epoch, "error": end.error, "at": end.retry_at}
        if end.retry_at is not None and await transaction.one("retry_task", retried) is not None:
            return True
        # Asked to stop, between or in the middle of its attempts; or no longer this worker's.
        task = await transaction.one("get_task", {"id": end.id})
        if task is None:
            return False
        status, error = "cancelled", cancelled_task(task[4], task[6], end.attempts)
    await lock(transaction, (), ending=(end.id,))
    values = {"id": end.id, "epoch": end.epoch, "status": status, "output": end.output, "error": error}
    if await transaction.one("end_task", values) is None:
        return False
    # Whoever began to follow it between the two locks is told, too: it waited for the second one.
    await tell_end(transaction, end.id, end.output, error, end.attempts)
    return True


async def fire_timers(database: Database, limit: int) -> tuple[bool, int | None]:
    """Removes what is due and acts on it (P4): whether there was anything, and the next deadline."""

    async def fire(transaction: Transaction) -> tuple[bool, int | None, int]:
        due = [await transaction.start(name, {"limit": limit}) for name in ("fire_timers", "fire_starts")]
        row = await transaction.one("next_deadline")
        following, now = (None, 0) if row is None else row
        return any([await cursor.fetchall() for cursor in due]), following, now

    fired, following, now = await database.transact(fire)
    database.learn(now)  # what it woke is not after this
    return fired, following
