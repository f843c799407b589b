"""What may enter a turn: things that happened outside, in order.

`at` is when the fact happened by the store's clock (None: the turn's now); it only decides which timers fire first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, assert_never

from tenuto.kernel.location import Location, parse
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.kernel.records import Mail, MailKind

__all__ = ["CancelAsked", "Done", "Fact", "Signal", "TimerGone", "UpdateAsked", "fact_of"]


class Done(NamedTuple):
    """An attempt, a task, a child, a send, a hook or a rollback handler ended.

    `attempt` 0 fits any attempt (results of tasks and children). `supplied`: given by an operator. `n`: the mail it
    came by, if it did.
    """

    location: Location
    attempt: int
    outcome: Ok | Err | TimedOut
    supplied: bool = False
    attempts: int = 1  # made in all; counted by whoever retried (tasks)
    at: int | None = None
    n: int | None = None


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


def fact_of(n: int, mail: Mail, load: Callable[[bytes], Any]) -> Fact:
    """The fact that a row `(3, n)` holds."""
    match mail.kind:
        case MailKind.SIGNAL:
            return Signal(n, mail.name, mail.payload or b"", mail.sent_at, mail.ref)
        case MailKind.UPDATE:
            return UpdateAsked(n, mail.ref or "", mail.name, mail.payload or b"", mail.sent_at)
        case MailKind.CANCEL:
            reason, deadline = load(mail.payload) if mail.payload is not None else (None, None)
            return CancelAsked(n, reason, None if deadline is None else deadline - mail.sent_at, mail.sent_at)
        case MailKind.RESULT:
            outcome = Err(mail.error) if mail.error is not None else Ok(mail.payload or b"")
            supplied = mail.ref == "supplied"
            return Done(parse(mail.name), 0, outcome, supplied, mail.attempts, mail.sent_at, n)
        case _:
            assert_never(mail.kind)
