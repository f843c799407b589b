"""Lines: the body of a run, and each of its handlers while it runs.

A line knows what could still wake it: operations of its own, or only messages. When the body has ended, a handler
that only a message could wake would wait for ever, because nothing is dispatched any more.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .strands import Strand

__all__ = ["Key", "Line", "Mailboxes", "Token", "Waiter"]

Key: TypeAlias = tuple[Literal["signal", "update"], str]


class Line:
    """The body (no key), or one handler."""

    __slots__ = ("key", "operations", "strand", "tokens", "update_id")

    def __init__(self, key: Key | None, update_id: str | None = None) -> None:
        self.key = key
        self.update_id = update_id
        self.strand: Strand | None = None
        self.operations = 0  # it waits for: steps, timers, children
        self.tokens: dict[Waiter, None] = {}  # it waits for


class Token(NamedTuple):
    """What a handler leaves when it has finished: its arguments, and when among all that finished."""

    order: int
    args: list[Any]


class Waiter:
    """Somebody who waits for a token."""

    __slots__ = ("future", "key", "line")

    def __init__(self, key: Key, line: Line, future: Future[Token]) -> None:
        self.key = key
        self.line = line
        self.future = future


class Mailboxes:
    """The tokens of a run, and who waits for one. Each is consumed once, by the waiter that has waited longest."""

    def __init__(self) -> None:
        self._tokens: dict[Key, deque[Token]] = {}
        self._waiters: dict[Key, deque[Waiter]] = {}

    def put(self, key: Key, token: Token) -> None:
        waiters = self._waiters.get(key)
        while waiters:
            waiter = waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_result(token)
                return
        self._tokens.setdefault(key, deque()).append(token)

    def oldest(self, key: Key) -> Token | None:
        tokens = self._tokens.get(key)
        return tokens[0] if tokens else None

    def take(self, key: Key) -> Token | None:
        tokens = self._tokens.get(key)
        return tokens.popleft() if tokens else None

    def wait(self, waiter: Waiter) -> None:
        self._waiters.setdefault(waiter.key, deque()).append(waiter)
        waiter.line.tokens[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """It waits no more. A token it had been given, but did not come to take, goes back to the front."""
        waiter.line.tokens.pop(waiter, None)
        queue = self._waiters.get(waiter.key)
        if queue is not None and waiter in queue:
            queue.remove(waiter)

    def give_back(self, key: Key, token: Token) -> None:
        self._tokens.setdefault(key, deque()).appendleft(token)

    def left(self) -> list[tuple[Key, Token]]:
        """What nobody has consumed, in order of finishing."""
        found = [(key, token) for key, tokens in self._tokens.items() for token in tokens]
        return sorted(found, key=lambda one: one[1].order)
