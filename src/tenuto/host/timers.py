"""The timers a run has according to its rows."""

from __future__ import annotations

from collections.abc import Iterator

from tenuto.kernel.batch import Batch
from tenuto.kernel.location import text
from tenuto.kernel.records import Flag, Message, Rows, Sleep, Step, StepStatus
from tenuto.store.port import NewTimer

__all__ = ["open_timers"]


def open_timers(rows: Rows, undone: Batch) -> tuple[NewTimer, ...]:
    """What a run that is opened again waits for.

    Closing it deleted its timers, and one that is not there counts as fired (P4): they are stored again with the
    deadlines they had.
    """
    return tuple(_open(rows, set(undone.deleted_entries)))


def _open(rows: Rows, deleted: set[object]) -> Iterator[NewTimer]:
    for location, entry in rows.history:
        if entry.seq or entry.flags & Flag.CANCELLED or location in deleted:
            continue
        metadata = rows.metadata.get(location)
        match entry.kind:
            case Sleep(deadline=deadline):
                yield NewTimer(text(location), deadline, "delay")
            case Message(deadline=int(deadline)):
                yield NewTimer(text(location), deadline, "timeout")
            case Step(status=StepStatus.WAITING) if metadata is not None and metadata.retry_at is not None:
                yield NewTimer(text(location), metadata.retry_at, "retry")
            case _:
                pass
