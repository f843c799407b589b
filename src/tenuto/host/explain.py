"""Why a run is where it is: what it waits for, and what would wake it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tenuto.codec.rows import decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.host.definitions import Definitions
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.operations import Parked
from tenuto.kernel.records import Child, Entry, Flag, Message, Metadata, Rows, Sleep, Step, StepStatus
from tenuto.kernel.turn import Run, Waiting
from tenuto.model.durations import point
from tenuto.model.main import run_main
from tenuto.store.port import CLOSED, RunRecord, Store

__all__ = ["Explanation", "PendingOperation", "explain"]


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
        return "\n".join([*lines, f"  next      {self.wakes}"])


async def explain(store: Store, record: RunRecord, definitions: Definitions) -> Explanation:
    """Reads the run's rows and, if its definition is loaded here, replays them without writing anything."""
    now = await store.now()
    mail = mail_key(0)[:2]
    stored = [row for row in await store.rows(record.id) if not row[0].startswith(mail)]
    rows, _ = decode_rows(record.id, stored)
    waiting = _replayed(rows, record, definitions, now) if record.status not in CLOSED else Waiting()
    pending = [*_recorded(rows), *_running(rows, waiting)]
    return Explanation(
        record.id,
        record.status,
        record.reason,
        tuple(pending),
        waiting.signals,
        waiting.updates,
        _wakes(record, pending, waiting),
    )


def _replayed(rows: Rows, record: RunRecord, definitions: Definitions, now: int) -> Waiting:
    workflow = definitions.workflow(record.target)
    if workflow is None:
        return Waiting()
    run = Run.load_rows(
        rows,
        definitions.definition(workflow),
        lambda port: run_main(workflow, port, rows.input, None),
        dump,
        load,
    )
    turn = run.take_turn((), max(now, rows.counters.started_at))
    run.close()
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
            return PendingOperation(location, word, f"sleeps until {point(deadline)}", until=point(deadline))
        case Message(names=names, deadline=deadline):
            until = None if deadline is None else point(deadline)
            limit = "" if until is None else f" until {until}"
            return PendingOperation(location, word, f"waits for signal {' or '.join(names)}{limit}", until=until)
        case Step(status=StepStatus.WAITING) if metadata is not None and metadata.retry_at is not None:
            error = load(metadata.error) if metadata.error is not None else None
            again = point(metadata.retry_at)
            what = f"failed {metadata.attempts} times, tries again at {again}"
            return PendingOperation(location, word, what, metadata.attempts + 1, again, error)
        case Step(status=StepStatus.QUEUED):
            return PendingOperation(location, word, "waits in its queue, or is being run there")
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


def _wakes(record: RunRecord, pending: list[PendingOperation], waiting: Waiting) -> str:
    if record.status in CLOSED:
        return "nothing: it has ended"
    if record.status == "parked":
        return "a deploy that fits its history, or resume()"
    if record.status == "paused":
        return "resume()"
    if record.status in ("pending", "scheduled"):
        return f"a worker that knows {record.target} and serves queue {record.queue!r}"
    causes = [f"signal {name!r}" for name in waiting.signals] + [f"update {name!r}" for name in waiting.updates]
    causes += [f"{operation.location}" for operation in pending]
    return ", ".join(causes) or "a worker that knows its workflow"
