"""A run's history as people look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenuto.codec.values import load
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.records import Child, Entry, Flag, Loop, Message, Metadata, Rows, SideEffect, Step, StepStatus
from tenuto.model.durations import point

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
    began: datetime | None = None  # when it was asked for
    ended: datetime | None = None  # when it settled, by the store's clock
    input: Any = None  # of a step: [arguments, named arguments], unless they were left out


def history_of(rows: Rows, load: Callable[[bytes], Any] = load) -> list[HistoryEntry]:
    """What is recorded of a run: settled entries in their order, then those under way.

    `load`: how values are read; one that does not raise lets a history be looked at where its classes are not loaded.
    """
    entries = [_entry(text(at), entry, rows.metadata.get(at), load) for at, entry in rows.history]
    return sorted(entries, key=lambda entry: (entry.seq == 0, entry.seq))


def _entry(location: str, entry: Entry, metadata: Metadata | None, load: Callable[[bytes], Any]) -> HistoryEntry:
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
        began=point(entry.began),
        ended=point(entry.at) if entry.seq else None,
        input=_input(entry, load),
    )


def _input(entry: Entry, load: Callable[[bytes], Any]) -> Any:
    kind = entry.kind
    return load(kind.input) if isinstance(kind, Step) and kind.input is not None else None


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
