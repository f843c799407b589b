"""A run's history as people look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenuto.codec.values import load
from tenuto.host.faults import with_frames
from tenuto.host.undoing import RollbackOutcome, rollback_of
from tenuto.kernel.history import describe
from tenuto.kernel.location import text
from tenuto.kernel.records import (
    Child,
    ChildMode,
    Entry,
    Flag,
    Loop,
    Message,
    Metadata,
    Rows,
    SideEffect,
    Step,
    StepStatus,
)
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
    rollback: RollbackOutcome | None = None  # of a step: what became of its handler, once it has begun


def _load_error(data: bytes) -> Any:
    """An error for those who look at a run: with the lines of its code that it passed."""
    error = load(data)
    return with_frames(error) if isinstance(error, BaseException) else error


def history_of(
    rows: Rows, load: Callable[[bytes], Any] = load, load_error: Callable[[bytes], Any] = _load_error
) -> list[HistoryEntry]:
    """What is recorded of a run: settled entries in their order, then those under way.

    `load`, `load_error`: how values and errors are read; those that do not raise let a history be looked at where its
    classes are not loaded.
    """
    entries = [_entry(text(at), entry, rows.metadata.get(at), load, load_error) for at, entry in rows.history]
    return sorted(entries, key=lambda entry: (entry.seq == 0, entry.seq))


def _entry(
    location: str,
    entry: Entry,
    metadata: Metadata | None,
    load: Callable[[bytes], Any],
    load_error: Callable[[bytes], Any],
) -> HistoryEntry:
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
        value=_value(entry, output, load),
        error=None if error is None else load_error(error),
        inserted=bool(entry.flags & Flag.INSERTED),
        supplied=bool(entry.flags & Flag.SUPPLIED),
        began=point(entry.began),
        ended=point(entry.at) if entry.seq else None,
        input=_input(entry, load),
        rollback=rollback_of(metadata, load_error),
    )


def _value(entry: Entry, output: bytes | None, load: Callable[[bytes], Any]) -> Any:
    if output is None:
        return None
    kind = entry.kind
    if isinstance(kind, Child) and kind.mode is ChildMode.HOOK:
        return output.decode()  # the token itself, which is nobody's value
    return load(output)


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
