"""Why a run is where it is: what it waits for, and what would wake it. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenuto.codec.rows import decode_rows, mail_key
from tenuto.errors import DecodingError, RecordError
from tenuto.host.definitions import Definitions
from tenuto.host.pending import PendingOperation, in_progress
from tenuto.host.places import held_back
from tenuto.host.readable import error_or_why
from tenuto.host.replaying import replay
from tenuto.host.summaries import plain_reason
from tenuto.host.undoing import FailedRollback, failed_rollbacks, say_failed
from tenuto.kernel.operations import Parked
from tenuto.kernel.records import Rows
from tenuto.kernel.turn import Waiting
from tenuto.store.port import CLOSED, RunningStep, RunRecord, Store

__all__ = ["Explanation", "PendingOperation", "explain"]


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
    rollbacks: tuple[FailedRollback, ...] = ()  # handlers that failed for good
    unread: str | None = None  # why its rows cannot be read here

    def __str__(self) -> str:
        lines = [f"run {self.id} is {self.status}" + (f": {self.reason}" if self.reason else "")]
        lines += [f"  {operation.location} {operation.what}" for operation in self.pending]
        if self.rollbacks:
            lines.append(f"  {say_failed(self.rollbacks, recoverable=self.status == 'failed')}")
        if self.unread is not None:
            lines += [f"  {line}" for line in f"cannot be read here: {self.unread}".splitlines()]
        return "\n".join([*lines, f"  wakes     {self.wakes}"])


async def explain(
    store: Store, record: RunRecord, definitions: Definitions, here: Sequence[RunningStep] = ()
) -> Explanation:
    """Reads the run's rows and, if its definition is loaded here, replays them without writing anything.

    It answers for every stored run: rows that cannot be read are a cause it names. `here`: steps of this run that the
    worker of this process has under way.
    """
    is_open = record.status not in CLOSED
    rows, waiting, unread = await _read(store, record, definitions)
    holder = await store.holder(record.id) if record.status == "running" else None
    pending: list[PendingOperation] = []
    if is_open:
        noted = {step.location: step for step in (*await store.steps_under_way(record.id), *here)}
        pending = await in_progress(store, record, rows, waiting, noted, holder)
    return Explanation(
        record.id,
        record.status,
        plain_reason(record.reason),
        tuple(pending),
        waiting.signals,
        waiting.updates,
        await _place_in_queue(store, record)
        or _wakes(
            record, pending, waiting, holder, known=definitions.workflow(record.target) is not None, read=not unread
        ),
        tuple(failed_rollbacks(rows, error_or_why)) if rows is not None else (),
        None if unread is not None and unread in (record.reason or "") else unread,
    )


async def _read(store: Store, record: RunRecord, definitions: Definitions) -> tuple[Rows | None, Waiting, str | None]:
    """The rows of a run, what a replay of an open one waits for, and why they cannot be read."""
    mail = mail_key(0)[:2]
    try:
        stored = [row for row in await store.rows(record.id) if not row[0].startswith(mail)]
        rows, _ = decode_rows(record.id, stored)
        if record.status in CLOSED:
            return rows, Waiting(), None
        return rows, _replayed(rows, record, definitions, await store.now()), None
    except (DecodingError, RecordError) as error:
        return None, Waiting(), str(error)


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


def _wakes(
    record: RunRecord,
    pending: Sequence[PendingOperation],
    waiting: Waiting,
    holder: str | None,
    *,
    known: bool,
    read: bool,
) -> str:
    if record.status in CLOSED:
        return "nothing: it has ended"
    if record.status == "parked":
        return "a deploy that fits its history, or resume()" if read else "a worker that can read it, then resume()"
    if record.status == "paused":
        return "resume()"
    if record.status in ("pending", "scheduled"):
        return f"a worker that knows {record.target} and serves queue {record.queue!r}"
    causes = [f"signal {name!r}" for name in waiting.signals] + [f"update {name!r}" for name in waiting.updates]
    causes += [f"the end of {operation.location}" for operation in pending]
    if causes:
        return ", ".join(causes)
    if holder is not None:
        return f"worker {holder}, which has it"
    return (
        "a worker that knows its workflow" if known else "a message it waits for; its code, not loaded here, says which"
    )
