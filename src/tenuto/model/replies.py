"""What handlers of a `receive` return, and how a `receive` is configured."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "HANDLER_RESULTS",
    "Async",
    "NoReply",
    "Received",
    "Reply",
    "SignalHandler",
    "SignalResult",
    "Stop",
    "Update",
    "UpdateHandler",
    "UpdateResult",
]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reply(Generic[S_co]):
    """Of an update handler: this is the answer, this the new state."""

    value: object
    state: S_co


@dataclass(frozen=True, slots=True)
class NoReply(Generic[S_co]):
    """Of a signal handler: this is the new state."""

    state: S_co


@dataclass(frozen=True, slots=True)
class Stop(Generic[S_co]):
    """Of any handler: this is the last state; an update's caller gets the reply."""

    state: S_co
    reply: object = None


@dataclass(frozen=True, slots=True)
class Async(Generic[S_co]):
    """Of any handler: this is the new state; the function goes on beside other messages and gives the answer."""

    fn: Callable[[], Coroutine[Any, Any, object]]
    state: S_co


HANDLER_RESULTS: Final = (Reply, NoReply, Stop, Async)

SignalResult: TypeAlias = NoReply[S] | Stop[S] | Async[S]
"""What a signal's handler may return."""
UpdateResult: TypeAlias = Reply[S] | Stop[S] | Async[S]
"""What an update's handler may return."""
SignalHandler: TypeAlias = Callable[Concatenate[S, ...], SignalResult[S] | Coroutine[Any, Any, SignalResult[S]]]
"""A signal's handler: `handler(state, *args)`, `def` or `async def`."""
UpdateHandler: TypeAlias = Callable[Concatenate[S, ...], UpdateResult[S] | Coroutine[Any, Any, UpdateResult[S]]]
"""An update's handler: `handler(state, *args)`, `def` or `async def`."""


@dataclass(frozen=True, slots=True)
class Update(Generic[S]):
    """An update's handler with a validator: a plain `def` that raises (best: `Reject`) to refuse the update unseen."""

    handler: UpdateHandler[S]
    validator: Callable[Concatenate[S, ...], None] | None = None


class Received(NamedTuple, Generic[S]):
    """How a `receive` ended: its last state, and whether its time was up."""

    state: S
    timed_out: bool
