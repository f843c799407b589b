"""Decisions about turns that all stores share.

Where a store decides inside a statement (the short ways, a queue's room), the statement follows the rule here, and the
conformance suite holds it to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tenuto.codec.rows import EncodedBatch
from tenuto.store.commits import CLOSED, Full, NewRun, NewTimer
from tenuto.store.port import TurnResult

__all__ = [
    "CANCEL_FIRST",
    "COMMITTED",
    "COMMITTED_KEPT",
    "STALE",
    "TAKEN",
    "after_suspend",
    "closes",
    "may_begin",
    "needs_alarm",
    "progress",
    "verdict",
]

STALE: Final = TurnResult("stale")
CANCEL_FIRST: Final = TurnResult("cancel_first")
TAKEN: Final = TurnResult("taken")
COMMITTED: Final = TurnResult("committed")
COMMITTED_KEPT: Final = TurnResult("committed", True)


def closes(commit: Full) -> bool:
    """True if a turn has an outcome, which an acknowledged cancel goes before (V7)."""
    return commit.status in CLOSED or commit.continued


def verdict(found: tuple[int, str] | None, epoch: int, closes: bool, cancel_above: bool) -> TurnResult | None:
    """Return why a turn is refused; None: it is accepted.

    `found`: epoch and status of its run. `cancel_above`: a cancel is acknowledged that the turn has not seen.
    """
    if found is None or found[0] != epoch or found[1] in CLOSED:
        return STALE  # P5; V7: an outcome is not changed by a turn, whoever had the lease
    return CANCEL_FIRST if closes and cancel_above else None  # V7: an acknowledged cancel goes before any outcome


def needs_alarm(alarm: int | None, before: int | None, status: str, timers: Iterable[NewTimer]) -> bool:
    """True if a run's earliest deadline may have no timer. `before`: the deadline it had; `timers`: new ones."""
    # A run that waits has a row for its alarm even if it is an old one: its timer may have fired by a clock that was
    # ahead of what the run was told (P4).
    if alarm is None or any(timer.deadline <= alarm for timer in timers):
        return False
    return status == "suspended" or (status == "running" and alarm != before)


def after_suspend(pausing: bool, inbox_seq: int, seen: int) -> str:
    """Return the status of a run whose turn would suspend it.

    A pause that was asked for comes now; mail that came meanwhile keeps the run running (V1).
    """
    if pausing:
        return "paused"
    return "running" if inbox_seq > seen else "suspended"


def progress(rows: EncodedBatch) -> bool:
    """True if a turn wrote anything: one that only replayed does not make a run less stuck."""
    return any(rows)


def may_begin(new: NewRun, limited: Collection[str]) -> bool:
    """True if a new run may be stored with its first turn: in a queue that was told anything it waits to be claimed."""
    return new.worker is None or new.queue not in limited
