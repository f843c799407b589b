"""A run's history as people look at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenuto.codec.values import load
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.records import Child, Entry, Flag, Loop, Message, Metadata, Rows, SideEffect, Step, StepStatus

__all__ = ["HistoryEntry", "history_of"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One recorded operation."""

    location: str
    kind: str
    status: str  # pending, completed, failed, cancelled
    attempts: int
    seq: int
    value: Any = None
    error: BaseException | None = None
    inserted: bool = False
    supplied: bool = False


def history_of(rows: Rows) -> list[HistoryEntry]:
    """What is recorded of a run: settled entries in their order, then those under way."""
    entries = [_entry(text(at), entry, rows.metadata.get(at)) for at, entry in rows.history]
    return sorted(entries, key=lambda entry: (entry.seq == 0, entry.seq))


def _entry(location: str, entry: Entry, metadata: Metadata | None) -> HistoryEntry:
    output, error = next(_outcome(entry), (None, None))
    if entry.flags & Flag.CANCELLED:
        status = "cancelled"
    elif not entry.seq:
        status = "pending"
    else:
        status = "failed" if error is not None else "completed"
    return HistoryEntry(
        location=location,
        kind=describe(entry, bare=True),
        status=status,
        attempts=metadata.attempts if metadata is not None else 1,
        seq=entry.seq,
        value=None if output is None else load(output),
        error=None if error is None else load(error),
        inserted=bool(entry.flags & Flag.INSERTED),
        supplied=bool(entry.flags & Flag.SUPPLIED),
    )


def _outcome(entry: Entry) -> Iterator[tuple[bytes | None, bytes | None]]:
    kind = entry.kind
    match kind:
        case Step(status=StepStatus.COMPLETED | StepStatus.FAILED) | SideEffect():
            yield kind.output, kind.error
        case Loop():
            yield kind.output, None
        case Message(taken=taken) if taken is not None:
            yield taken.payload, None
        case Child() if entry.seq:
            yield kind.output or None, kind.error
        case _:
            pass
