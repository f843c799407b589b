"""What sort of turn a turn is, and the commits of the two sorts that need no look at anything else."""

from __future__ import annotations

from tenuto.codec.rows import RunEncoder
from tenuto.kernel.commands import StartTimer, is_durable
from tenuto.kernel.location import text
from tenuto.kernel.operations import Cancelled, Completed, Continued, Failed
from tenuto.kernel.turn import Turn
from tenuto.store.port import Lease, NewRun, NewTimer, TurnCommit

__all__ = ["commit_asleep", "commit_usual", "status_after"]


def status_after(turn: Turn) -> str:
    """The status in which a turn leaves its run."""
    match turn.outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case Continued():
            return "running"
        case _:
            return "running" if turn.waiting.in_flight else "suspended"


def commit_usual(turn: Turn, lease: Lease, encoder: RunEncoder, seen: int) -> TurnCommit | None:
    """The commit of a turn that leaves steps in flight and is nothing but rows, as nearly all are; None of another."""
    batch, commands, waiting, outcome, _, _ = turn
    if outcome is not None or not waiting.in_flight or (not batch.entries and batch.empty):
        return None
    for command in commands:
        if is_durable(command):
            return None
    return TurnCommit.of_rows(lease, encoder.encode(batch), batch.alarm, seen, batch.deleted_mail, batch.version)


def commit_asleep(turn: Turn, lease: Lease, encoder: RunEncoder, new: NewRun, after: int) -> TurnCommit | None:
    """The commit of a first turn that stores a run which only waits for a time after this one; None if it is more."""
    deadline, *others = turn.waiting
    if turn.outcome is not None or deadline is None or deadline <= after or any(others):
        return None
    timers: list[NewTimer] = []
    for command in turn.commands:
        if not isinstance(command, StartTimer):
            return None
        timers.append(NewTimer(text(command.location), command.deadline, command.sort))
    batch = turn.batch
    return TurnCommit(
        lease,
        "suspended",
        encoder.encode(batch),
        alarm=batch.alarm,
        timers=tuple(timers),
        definition=batch.version,
        new=new,
    )
