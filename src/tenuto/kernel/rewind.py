"""Going back: `rewind` to a place in history, `recover` from a failure. Pure functions over a run's rows.

Rules:

1. What settled at or after the target goes, and all that has not settled; taken signals go back under their numbers.
2. In a committed loop, and at it, there is nothing to go back to but its beginning: the target becomes the loop's own
   start. So it does for a loop elsewhere that loses its commit.
3. A run with an undone step is never continued on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenuto.errors import RecoverError, RewindError, StepFailedError, UpdateFailedError
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import CancelChild, CancelTask, CancelTimer, Command, ReplyUpdate
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Err
from tenuto.kernel.records import (
    Child,
    ChildMode,
    Entry,
    Flag,
    Loop,
    Mail,
    MailKind,
    Message,
    Metadata,
    Rows,
    Sleep,
    Step,
    StepStatus,
    Taken,
    Update,
    UpdateStatus,
)
from tenuto.kernel.rollback import is_compensated

__all__ = ["Undone", "recover", "rewind"]


class Undone(NamedTuple):
    """The batch that goes back, and what must be cancelled in the same commit."""

    batch: Batch
    commands: tuple[Command, ...]


def rewind(rows: Rows, location: Location, *, drop_updates: bool = False, dump: Callable[[Any], bytes]) -> Undone:
    """Back to just before the operation at a location was settled."""
    history = dict(rows.history)
    entry = history.get(location)
    if entry is None or not entry.seq:
        raise RewindError(_trimmed(history, location) or f"there is nothing settled at {text(location)}")
    if any(is_compensated(metadata) for metadata in rows.metadata.values()):
        raise RewindError("a step of this run has been undone")
    seq = _whole_loops(history, _loop_start(history, location, entry.seq))
    _check_receives(history, seq)
    accepted = {key: update for key, update in rows.updates.items() if update.seq >= seq}
    if accepted and not drop_updates:
        raise RewindError(f"accepted updates are in the way: {', '.join(sorted(accepted))}")
    counters = rows.counters._replace(rewinds=rows.counters.rewinds + 1)
    cancel = counters.cancel
    if cancel is not None and cancel.seq >= seq:
        counters = counters._replace(cancel=None)
    back = _go_back(rows, seq)
    updates, replies = _drop_updates(accepted, dump)
    batch = back.batch(state="suspended", counters=counters, updates=updates, rows=rows)
    return Undone(batch, (*back.commands, *replies))


def recover(rows: Rows, *, load: Callable[[bytes], Any]) -> Undone:
    """Back to the earliest failed step that the run's error comes from, under the old idempotency keys."""
    if rows.state != "failed":
        raise RecoverError(f"the run is {rows.state}, not failed")
    failed = {
        location: metadata
        for location, metadata in rows.metadata.items()
        if metadata.rollback is not None and metadata.rollback.error is not None
    }
    if failed:  # only the failed handlers are run again; the run's own error stays
        metadata = tuple((location, found._replace(rollback=None)) for location, found in failed.items())
        return Undone(Batch(state="rolling_back", metadata=metadata), ())
    if any(is_compensated(metadata) for metadata in rows.metadata.values()):
        raise RecoverError("a step of this run has been undone")
    seq = _first_failure(rows, load(rows.error) if rows.error is not None else None)
    if seq is None:
        return Undone(Batch(state="suspended", deleted_error=True), ())
    history = dict(rows.history)
    [failed_at] = [location for location, entry in rows.history if entry.seq == seq]
    back = _go_back(rows, _whole_loops(history, _loop_start(history, failed_at, seq)))
    return Undone(back.batch(state="suspended", counters=None, updates=(), rows=rows), back.commands)


# --- where to


def _loop_start(history: dict[Location, Entry], location: Location, seq: int) -> int:
    """The target's own seq, or the start of the outermost committed loop that it is or that is around it."""
    for depth in range(1, len(location) + 1):
        entry = history.get(location[:depth])
        if entry is None or type(entry.kind) is not Loop or entry.flags & Flag.RECEIVE:
            continue
        if entry.seq >= seq:
            return entry.kind.since + 1
    return seq


def _whole_loops(history: dict[Location, Entry], seq: int) -> int:
    """Moved back to the start of loops elsewhere that lose their commit: without it they cannot be replayed half."""
    committed = [
        (entry.seq, entry.kind.since + 1)
        for entry in history.values()
        if type(entry.kind) is Loop and not entry.flags & Flag.RECEIVE
    ]
    while starts := [start for commit, start in committed if start < seq <= commit]:
        seq = min(starts)
    return seq


def _trimmed(history: dict[Location, Entry], location: Location) -> str | None:
    """Why there is nothing at a place that a loop or a receive has trimmed, and what is still there."""
    for depth in range(1, len(location)):
        above, segment = location[:depth], location[depth]
        entry = history.get(above)
        if entry is None or type(entry.kind) is not Loop or not isinstance(segment, tuple):
            continue
        first = entry.kind.trimmed
        if segment[1] >= first:
            continue
        if entry.flags & Flag.RECEIVE:
            return (
                f"{text(location)} was trimmed by receive {text(above)}; its dispatches before number {first} are gone"
            )
        earliest = (*above, (segment[0], first))
        return f"{text(location)} was trimmed by loop {text(above)}; the earliest is {text(earliest)}"
    return None


def _check_receives(history: dict[Location, Entry], seq: int) -> None:
    for location, entry in history.items():
        if entry.flags & Flag.RECEIVE and entry.seq >= seq:
            raise RewindError(f"{text(location)} has committed since: its earlier messages are gone")


def _first_failure(rows: Rows, error: object) -> int | None:
    locations = {found.location for found in _failures(error)}
    seqs = [
        entry.seq
        for location, entry in rows.history
        if type(entry.kind) is Step and entry.kind.status is StepStatus.FAILED and text(location) in locations
    ]
    return min(seqs, default=None)


def _failures(error: object) -> Iterator[StepFailedError]:
    """Every failed step an error comes from: its causes, and the members of what gathers several."""
    todo: list[object] = [error]
    seen: set[int] = set()
    while todo:
        found = todo.pop()
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, StepFailedError):
            yield found
        todo.extend((found.__cause__, found.__context__))
        members: object = getattr(found, "errors", None)
        if isinstance(members, dict):
            todo.extend(members.values())  # pyright: ignore[reportUnknownArgumentType]  # a user's own class may have one too
        if isinstance(found, BaseExceptionGroup):
            todo.extend(found.exceptions)  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]


# --- what goes


@dataclass(frozen=True, slots=True)
class _Back:
    deleted: tuple[Location, ...]
    metadata: tuple[Location, ...]
    mail: tuple[tuple[int, Mail], ...]
    commands: tuple[Command, ...]

    def batch(self, *, state: str, counters: Any, updates: tuple[tuple[str, Update], ...], rows: Rows) -> Batch:
        return Batch(
            deleted_entries=self.deleted,
            deleted_metadata=self.metadata,
            deleted_output=rows.output is not None,
            deleted_error=rows.error is not None,
            mail=self.mail,
            updates=updates,
            state=state,
            counters=counters,
        )


def _go_back(rows: Rows, seq: int) -> _Back:
    deleted: list[Location] = []
    mail: list[tuple[int, Mail]] = []
    commands: list[Command] = []
    for location, entry in rows.history:
        if 0 < entry.seq < seq:
            continue
        deleted.append(location)
        commands.extend(_cancels(rows, location, entry, rows.metadata.get(location)))
        if type(entry.kind) is Message and entry.kind.taken is not None:
            mail.append(_mail(entry.kind.taken))
    gone = set(deleted)
    metadata = tuple(location for location in rows.metadata if location in gone)
    return _Back(tuple(deleted), metadata, tuple(sorted(mail)), tuple(commands))


def _cancels(rows: Rows, location: Location, entry: Entry, metadata: Metadata | None) -> Iterator[Command]:
    if entry.seq:
        return
    match entry.kind:
        case Step(status=StepStatus.QUEUED):
            rewound = f"~{rows.counters.rewinds}" if rows.counters.rewinds else ""
            yield CancelTask(location, f"{rows.run_id}:{rows.counters.generation}:{text(location)}{rewound}")
        case Step(status=StepStatus.WAITING) if metadata is not None and metadata.retry_at is not None:
            yield CancelTimer(location)
        case Sleep():
            yield CancelTimer(location)
        case Message(deadline=deadline) if deadline is not None:
            yield CancelTimer(location)
        case Child(mode=ChildMode.SPAWN, run=run):
            yield CancelChild(location, run)
        case _:
            pass


def _mail(taken: Taken) -> tuple[int, Mail]:
    mail = Mail(MailKind.SIGNAL, taken.name, None, taken.payload, None, 0, taken.sent_at)
    return int(taken.id, 16), mail


def _drop_updates(
    accepted: dict[str, Update], dump: Callable[[Any], bytes]
) -> tuple[tuple[tuple[str, Update], ...], tuple[ReplyUpdate, ...]]:
    """Answers are kept; what has none fails, why `rewound`."""
    updates: list[tuple[str, Update]] = []
    replies: list[ReplyUpdate] = []
    for key, update in accepted.items():
        if update.status is UpdateStatus.ACCEPTED:
            error = dump(UpdateFailedError("rewound"))
            updates.append((key, update._replace(seq=0, status=UpdateStatus.FAILED, error=error)))
            replies.append(ReplyUpdate(key, Err(error)))
        else:
            updates.append((key, update._replace(seq=0)))
    return tuple(updates), tuple(replies)
