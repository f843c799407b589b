"""Why a run is where it is: what it waits for, and what would wake it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from tenuto.codec.rows import decode_rows, mail_key
from tenuto.codec.values import load
from tenuto.host.definitions import Definitions
from tenuto.host.places import held_back
from tenuto.host.replaying import replay
from tenuto.host.summaries import plain_reason
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.operations import Parked
from tenuto.kernel.records import Child, Entry, Flag, Message, Metadata, Rows, Sleep, Step, StepStatus
from tenuto.kernel.turn import Waiting
from tenuto.model.durations import point
from tenuto.store.port import CLOSED, OpenTask, RunRecord, Store, WorkerRecord

__all__ = ["Explanation", "PendingOperation", "explain"]

QUEUED: Final = "waits in its queue, or is being run there"


@dataclass(frozen=True, slots=True)
class PendingOperation:
    """Something a run has asked for and does not have yet."""

    location: str
    kind: str
    what: str  # for people: "retries at …", "sleeps until …", "waits for signal 'approve'"
    attempt: int = 1
    until: datetime | None = None
    error: BaseException | None = None  # of the last failed attempt


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run's status, and why it is not further."""

    id: str
    status: str
    reason: str | None
    pending: tuple[PendingOperation, ...]
    signals: tuple[str, ...]
    updates: tuple[str, ...]
    wakes: str  # what would let it go on

    def __str__(self) -> str:
        lines = [f"run {self.id} is {self.status}" + (f": {self.reason}" if self.reason else "")]
        lines += [f"  {operation.location:24} {operation.what}" for operation in self.pending]
        return "\n".join([*lines, f"  wakes     {self.wakes}"])


async def explain(store: Store, record: RunRecord, definitions: Definitions) -> Explanation:
    """Reads the run's rows and, if its definition is loaded here, replays them without writing anything."""
    now = await store.now()
    mail = mail_key(0)[:2]
    stored = [row for row in await store.rows(record.id) if not row[0].startswith(mail)]
    rows, _ = decode_rows(record.id, stored)
    is_open = record.status not in CLOSED
    waiting = _replayed(rows, record, definitions, now) if is_open else Waiting()
    pending = [*_recorded(rows), *_running(rows, waiting)] if is_open else []
    if any(operation.what is QUEUED for operation in pending):
        pending = await _with_tasks(store, record.id, pending)
    pending = await _with_children(store, rows, pending)
    return Explanation(
        record.id,
        record.status,
        plain_reason(record.reason),
        tuple(pending),
        waiting.signals,
        waiting.updates,
        await _place_in_queue(store, record)
        or _wakes(record, pending, waiting, known=definitions.workflow(record.target) is not None),
    )


async def _place_in_queue(store: Store, record: RunRecord) -> str | None:
    """What a run waits for that has not begun and that its queue holds back."""
    place = await store.place(record.id) if record.status == "pending" else None
    held = None if place is None else held_back(place)
    return None if held is None else f"room in its queue: {held}"


def _replayed(rows: Rows, record: RunRecord, definitions: Definitions, now: int) -> Waiting:
    workflow = definitions.workflow(record.target)
    if workflow is None:
        return Waiting()
    turn, _ = replay(rows, record, workflow, definitions, now)
    return Waiting() if isinstance(turn.outcome, Parked) else turn.waiting


def _recorded(rows: Rows) -> Iterator[PendingOperation]:
    for location, entry in rows.history:
        if entry.seq or entry.flags & Flag.CANCELLED:
            continue
        found = _pending(text(location), entry, rows.metadata.get(location))
        if found is not None:
            yield found


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
            error = load(metadata.error) if metadata.error is not None else None
            again = point(metadata.retry_at)
            what = f"failed {_times(metadata.attempts)}, tries again at {_clock(again)}"
            return PendingOperation(location, word, what, metadata.attempts + 1, again, error)
        case Step(status=StepStatus.QUEUED):
            return PendingOperation(location, word, QUEUED)
        case Step(status=StepStatus.STARTED):
            return PendingOperation(location, word, "is running, at most once")
        case Child(run=run):
            return PendingOperation(location, word, f"waits for run {run}")
        case _:
            return None


def _running(rows: Rows, waiting: Waiting) -> Iterator[PendingOperation]:
    known = {location for location, entry in rows.history if not entry.seq}
    for location, kind in waiting.in_flight:
        if location not in known:
            yield PendingOperation(text(location), kind, "is running, or about to")


async def _with_tasks(store: Store, run_id: str, pending: list[PendingOperation]) -> list[PendingOperation]:
    """Says of queued steps where they are, and whether anybody serves their queue."""
    tasks = {task.location: task for task in await store.open_tasks(run_id)}
    workers = await store.live_workers()
    held = {task.location: await _held_back(store, task) for task in tasks.values()}
    return [
        replace(operation, **_task_state(tasks[operation.location], workers, held[operation.location]))
        if operation.what is QUEUED and operation.location in tasks
        else operation
        for operation in pending
    ]


async def _with_children(store: Store, rows: Rows, pending: list[PendingOperation]) -> list[PendingOperation]:
    """Says of children that they are not here: their parent came from another store."""
    children = {text(location): entry.kind.run for location, entry in rows.history if isinstance(entry.kind, Child)}
    return [
        replace(operation, what=f"{operation.what}, which is not in this store")
        if operation.location in children and await store.get(children[operation.location]) is None
        else operation
        for operation in pending
    ]


async def _held_back(store: Store, task: OpenTask) -> str | None:
    place = await store.place(task.id) if task.status == "pending" else None
    return None if place is None else held_back(place)


def _task_state(task: OpenTask, workers: list[WorkerRecord], held: str | None) -> dict[str, Any]:
    queue = f"queue {task.queue!r}"
    if task.status == "running":
        return {"what": f"is being run from {queue} by worker {task.worker}", "attempt": task.attempt}
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


def _wakes(record: RunRecord, pending: list[PendingOperation], waiting: Waiting, *, known: bool) -> str:
    if record.status in CLOSED:
        return "nothing: it has ended"
    if record.status == "parked":
        return "a deploy that fits its history, or resume()"
    if record.status == "paused":
        return "resume()"
    if record.status in ("pending", "scheduled"):
        return f"a worker that knows {record.target} and serves queue {record.queue!r}"
    causes = [f"signal {name!r}" for name in waiting.signals] + [f"update {name!r}" for name in waiting.updates]
    causes += [f"the end of {operation.location}" for operation in pending]
    if causes:
        return ", ".join(causes)
    return (
        "a worker that knows its workflow" if known else "a message it waits for; its code, not loaded here, says which"
    )


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
