"""What may enter a turn: things that happened outside, in order.

`at` is when the fact happened by the store's clock (None: the turn's now); it only decides which timers fire first.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tenuto.kernel.location import Location
from tenuto.kernel.operations import Err, Ok, TimedOut

__all__ = ["CancelAsked", "Done", "Fact", "Signal", "TimerGone", "UpdateAsked"]


class Done(NamedTuple):
    """An attempt, a task, a child, a send, a hook or a rollback handler ended.

    `attempt` 0 fits any attempt (results of tasks and children). `supplied`: given by an operator.
    """

    location: Location
    attempt: int
    outcome: Ok | Err | TimedOut
    supplied: bool = False
    attempts: int = 1  # made in all; counted by whoever retried (tasks)
    at: int | None = None


class TimerGone(NamedTuple):
    """A timer row was deleted by hand: it counts as fired now."""

    location: Location
    at: int | None = None


class Signal(NamedTuple):
    n: int
    name: str
    payload: bytes
    at: int | None = None
    ref: str | None = None


class UpdateAsked(NamedTuple):
    n: int
    id: str
    name: str
    args: bytes
    at: int | None = None


class CancelAsked(NamedTuple):
    """`within_ms`: from `at` (else now), how long clean-up may take."""

    n: int
    reason: str | None = None
    within_ms: int | None = None
    at: int | None = None


Fact: TypeAlias = Done | TimerGone | Signal | UpdateAsked | CancelAsked
