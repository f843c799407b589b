"""Rollback handlers as people look at them: which ran, and which failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tenuto.codec.values import load
from tenuto.host.faults import brief, innermost
from tenuto.host.readable import error_or_why
from tenuto.kernel.location import text
from tenuto.kernel.records import Metadata, Rows

__all__ = [
    "FailedRollback",
    "RollbackOutcome",
    "failed_rollbacks",
    "has_failed",
    "notes_of",
    "rollback_of",
    "say_failed",
]


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """What became of the rollback handler of a step."""

    status: str  # pending, done, failed
    attempts: int
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class FailedRollback:
    """A rollback handler that failed for good."""

    location: str
    attempts: int
    error: BaseException


def rollback_of(metadata: Metadata | None, load: Callable[[bytes], Any] = load) -> RollbackOutcome | None:
    """What is recorded of a step's rollback handler; None where none has begun."""
    if metadata is None or metadata.rollback is None:
        return None
    attempts, _, done_at, error = metadata.rollback
    if done_at is None:
        return RollbackOutcome("pending", attempts)
    return RollbackOutcome("done" if error is None else "failed", attempts, None if error is None else load(error))


def has_failed(metadata: Metadata) -> bool:
    """True if the rollback handler of a step failed for good."""
    return metadata.rollback is not None and metadata.rollback.error is not None


def failed_rollbacks(rows: Rows, load: Callable[[bytes], Any] = load) -> list[FailedRollback]:
    """The handlers that failed for good, in the order they ran."""
    found: list[tuple[int, FailedRollback]] = []
    for location, metadata in rows.metadata.items():
        rollback = metadata.rollback
        if rollback is not None and rollback.error is not None:
            failed = FailedRollback(text(location), rollback.attempts, load(rollback.error))
            found.append((rollback.done_at or 0, failed))
    return [failed for _, failed in sorted(found, key=lambda pair: pair[0])]


def say_failed(failed: Sequence[FailedRollback], *, recoverable: bool) -> str:
    """One line about the handlers that failed. `recoverable`: the run failed, so `recover` runs them again."""
    count = "1 rollback handler" if len(failed) == 1 else f"{len(failed)} rollback handlers"
    which = "; ".join(f"{one.location}: {brief(innermost(one.error))}" for one in failed)
    again = f"; `recover` runs {'it' if len(failed) == 1 else 'them'} again" if recoverable else ""
    return f"{count} failed: {which}{again}"


def notes_of(rows: Rows, status: str) -> tuple[str, ...]:
    """What the error of a run that ended in this status says besides: which handlers failed."""
    failed = failed_rollbacks(rows, error_or_why)
    return (say_failed(failed, recoverable=status == "failed"),) if failed else ()
