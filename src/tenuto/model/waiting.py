"""Waiting for tasks and futures without owning them, and without leaving any behind."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future, Task
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Endings", "any_done", "cancel_all", "ended", "quiet"]

F = TypeVar("F", bound="Future[Any]")


class Endings(Generic[F]):
    """Futures in the order in which they end. Being cancelled while waiting does not touch them."""

    __slots__ = ("_done", "_waiter", "_watched")

    def __init__(self, futures: Iterable[F] = ()) -> None:
        self._done: deque[F] = deque()
        self._watched: dict[F, None] = {}
        self._waiter: Future[None] | None = None
        for future in futures:
            self.watch(future)

    def watch(self, future: F) -> None:
        """From now on waits for this one too."""
        if future.done():
            self._done.append(future)
        elif future not in self._watched:
            self._watched[future] = None
            future.add_done_callback(self._note)

    def _note(self, future: F) -> None:
        self._watched.pop(future, None)
        self._done.append(future)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __bool__(self) -> bool:
        """Whether any has not been given yet."""
        return bool(self._done or self._watched)

    async def next(self) -> F:
        """The next that ended."""
        while not self._done:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._done.popleft()

    def forget(self) -> None:
        """Stops watching."""
        for future in self._watched:
            future.remove_done_callback(self._note)
        self._watched.clear()


async def any_done(*futures: Future[Any]) -> None:
    """Returns when one of them is done."""
    if any(future.done() for future in futures):
        return
    endings = Endings(futures)
    try:
        await endings.next()
    finally:
        endings.forget()


async def ended(tasks: Sequence[Task[Any]]) -> None:
    """Returns when all have ended.

    A cancellation that arrives meanwhile is passed on to them in creation order, and raised once they have ended: no
    second or third cancellation leaves one running.
    """
    endings = Endings(task for task in tasks if not task.done())
    cancelled: CancelledError | None = None
    while endings:
        try:
            await endings.next()
        except CancelledError as error:
            cancelled = cancelled or error
            cancel_all(tasks)
    if cancelled is not None:
        raise cancelled


def cancel_all(tasks: Iterable[Task[Any]]) -> None:
    """Asks those that still run to stop, in this order."""
    for task in tasks:
        if not task.done():
            task.cancel()


def quiet(future: Future[Any]) -> None:
    """A done callback: the failure of what nobody awaits is recorded elsewhere and no cause for a warning."""
    if not future.cancelled():
        future.exception()
