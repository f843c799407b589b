"""What a run has asked for and does not have yet: what is recorded of it, what runs, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from tenuto.host.places import held_back
from tenuto.host.readable import error_or_why
from tenuto.host.replaying import latest
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.records import Child, Entry, Flag, Message, Metadata, Rows, Sleep, Step, StepStatus
from tenuto.kernel.turn import Waiting
from tenuto.model.durations import point
from tenuto.store.port import OpenTask, RunningStep, RunRecord, Store, WorkerRecord

__all__ = ["PendingOperation", "in_progress"]

QUEUED: Final = "waits in its queue, or is being run there"
ABOUT_TO: Final = "runs next"


@dataclass(frozen=True, slots=True)
class PendingOperation:
    """Something a run has asked for and does not have yet."""

    location: str
    kind: str
    what: str  # for people: "retries at …", "sleeps until …", "waits for signal 'approve'"
    attempt: int = 1
    until: datetime | None = None
    error: BaseException | None = None  # of the last failed attempt
    since: datetime | None = None  # of an attempt under way: when it began
    worker: str | None = None  # of an attempt under way: who has it


async def in_progress(
    store: Store,
    record: RunRecord,
    rows: Rows | None,
    waiting: Waiting,
    noted: Mapping[str, RunningStep],
    holder: str | None,
) -> list[PendingOperation]:
    """The operations of an open run that have not settled, in the order of its history.

    `rows`: None where they cannot be read. `noted`: steps that workers have had under way for a while; `holder`: the
    worker that has the run.
    """
    pending = {} if rows is None else {found.location: found for found in _recorded(rows, waiting)}
    queued = [location for location, found in pending.items() if found.what is QUEUED]
    workers = await store.live_workers() if queued or holder is not None or noted else []
    alive = {worker.id for worker in workers}
    if holder is not None:
        since = None if rows is None else latest(rows)
        for location, found in pending.items():
            if found.what is ABOUT_TO:
                step = RunningStep(record.id, location, found.attempt, since, holder)
                pending[location] = _under_way(found, step, alive)
    for location, step in noted.items():
        if _is_open(rows, step):
            found = pending.get(location) or PendingOperation(location, "step", ABOUT_TO)
            pending[location] = _under_way(found, step, alive if record.status == "running" else frozenset())
    if queued:
        pending |= await _with_tasks(store, record.id, [pending[location] for location in queued], workers)
    return list(pending.values()) if rows is None else await _with_children(store, rows, list(pending.values()))


def _is_open(rows: Rows | None, step: RunningStep) -> bool:
    """True if nothing recorded since says that a noted attempt is over."""
    if rows is None:
        return True
    if step.since is not None and step.since < rows.counters.started_at:
        return False
    for location, entry in rows.history:
        if text(location) == step.location:
            metadata = rows.metadata.get(location)
            return not entry.seq and (metadata is None or metadata.attempts < step.attempt)
    return True


def _under_way(found: PendingOperation, step: RunningStep, alive: set[str] | frozenset[str]) -> PendingOperation:
    since = None if step.since is None else point(step.since)
    began = "" if since is None else f", since {_clock(since)}"
    place = f"running on worker {step.worker}, attempt {step.attempt}{began}"
    what = f"is {place}" if step.worker in alive else f"was {place}; that worker is lost, another goes on"
    return replace(found, what=what, attempt=step.attempt, until=None, since=since, worker=step.worker)


# --- what is recorded


def _recorded(rows: Rows, waiting: Waiting) -> Iterator[PendingOperation]:
    in_flight = dict(waiting.in_flight)
    begun_once = False  # what comes after a step of one attempt is not known before that has ended
    for location, entry in rows.history:
        metadata = rows.metadata.get(location)
        in_hand = in_flight.pop(location, None) is not None
        if entry.flags & Flag.CANCELLED:
            continue
        begun_once = begun_once or (isinstance(entry.kind, Step) and entry.kind.status is StepStatus.STARTED)
        found = _undoing(text(location), metadata, in_hand) if entry.seq else _pending(text(location), entry, metadata)
        if found is not None:
            yield replace(found, what=ABOUT_TO) if in_hand and not entry.seq and found.until is not None else found
    if not begun_once:
        for location, kind in in_flight.items():
            yield PendingOperation(text(location), kind, ABOUT_TO)


def _pending(location: str, entry: Entry, metadata: Metadata | None) -> PendingOperation | None:
    kind = entry.kind
    word = describe(entry, bare=True)
    match kind:
        case Sleep(deadline=deadline):
            return PendingOperation(location, word, f"sleeps until {_clock(point(deadline))}", until=point(deadline))
        case Message(names=names, deadline=deadline):
            until = None if deadline is None else point(deadline)
            limit = "" if until is None else f" until {_clock(until)}"
            return PendingOperation(location, word, f"waits for signal {' or '.join(names)}{limit}", until=until)
        case Step(status=StepStatus.WAITING) if metadata is not None and metadata.retry_at is not None:
            error = error_or_why(metadata.error) if metadata.error is not None else None
            again = point(metadata.retry_at)
            what = f"failed {_times(metadata.attempts)}, tries again at {_clock(again)}"
            return PendingOperation(location, word, what, metadata.attempts + 1, again, error)
        case Step(status=StepStatus.QUEUED):
            return PendingOperation(location, word, QUEUED)
        case Step(status=StepStatus.STARTED):
            return PendingOperation(location, word, ABOUT_TO)
        case Child(run=run):
            return PendingOperation(location, word, f"waits for run {run}")
        case _:
            return None


def _undoing(location: str, metadata: Metadata | None, in_hand: bool) -> PendingOperation | None:
    """The rollback handler of a completed step, while it runs or waits for its retry."""
    rollback = None if metadata is None else metadata.rollback
    if in_hand:
        attempt = 1 if rollback is None else rollback.attempts + 1
        return PendingOperation(location, "rollback", "is being undone by its rollback handler", attempt)
    if rollback is None or rollback.done_at is not None or rollback.retry_at is None:
        return None
    again = point(rollback.retry_at)
    what = f"its rollback handler failed {_times(rollback.attempts)}, tries again at {_clock(again)}"
    return PendingOperation(location, "rollback", what, rollback.attempts + 1, again)


# --- elsewhere


async def _with_children(store: Store, rows: Rows, pending: list[PendingOperation]) -> list[PendingOperation]:
    """Says of children that they are not here: their parent came from another store."""
    children = {text(location): entry.kind.run for location, entry in rows.history if isinstance(entry.kind, Child)}
    return [
        replace(operation, what=f"{operation.what}, which is not in this store")
        if operation.location in children and await store.get(children[operation.location]) is None
        else operation
        for operation in pending
    ]


async def _with_tasks(
    store: Store, run_id: str, queued: Sequence[PendingOperation], workers: list[WorkerRecord]
) -> dict[str, PendingOperation]:
    """Says of queued steps where they are, and whether anybody serves their queue."""
    tasks = {task.location: task for task in await store.open_tasks(run_id)}
    held = {task.location: await _held_back(store, task) for task in tasks.values()}
    return {
        found.location: replace(found, **_task_state(tasks[found.location], workers, held[found.location]))
        for found in queued
        if found.location in tasks
    }


async def _held_back(store: Store, task: OpenTask) -> str | None:
    place = await store.place(task.id) if task.status == "pending" else None
    return None if place is None else held_back(place)


def _task_state(task: OpenTask, workers: list[WorkerRecord], held: str | None) -> dict[str, Any]:
    queue = f"queue {task.queue!r}"
    if task.status == "running":
        since = None if task.started_at is None else point(task.started_at)
        began = "" if since is None else f", since {_clock(since)}"
        is_lost = task.worker not in {worker.id for worker in workers}
        lost = "; that worker is lost, another goes on" if is_lost else ""
        what = (
            f"{'was' if is_lost else 'is'} running on worker {task.worker}, attempt {task.attempt}{began}, from {queue}"
        )
        return {"what": what + lost, "attempt": task.attempt, "since": since, "worker": task.worker}
    if task.status == "scheduled":
        until = point(task.ready_at)
        return {"what": f"begins in {queue} at {_clock(until)}", "attempt": task.attempt + 1, "until": until}
    serving = [worker for worker in workers if worker.queues is None or task.queue in worker.queues]
    if held is not None:
        what = f"waits: {held}"
    elif not workers:
        what = f"waits in {queue}; no worker is alive"
    elif not serving:
        what = f"waits in {queue}, which none of {len(workers)} live workers serves"
    else:
        what = f"waits in {queue}, served by {len(serving)} of {len(workers)} live workers"
    return {"what": what, "attempt": task.attempt + 1}


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
