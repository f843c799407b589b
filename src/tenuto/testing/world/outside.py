"""Work that the caller's loop does for a world: the bodies of steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Outside"]

T = TypeVar("T")


class Outside:
    """What is under way, in the order it began: in that order the world hears how it ended, whatever ended first."""

    def __init__(self, came_back: Callable[[], None]) -> None:
        self._came_back = came_back
        self._under_way: dict[asyncio.Future[Any], asyncio.Future[None]] = {}  # and who waits for it in the world
        self._asleep: dict[asyncio.Future[Any] | None, None] = {}  # those that wait for the world's clock

    @property
    def is_awake(self) -> bool:
        """True if something is under way that does not wait for the world's clock."""
        return any(work not in self._asleep for work in self._under_way)

    async def result(self, work: asyncio.Future[T]) -> T:
        """Return what work of the caller's loop gives. Called in the world; cancelled, it is cancelled and awaited."""
        loop = asyncio.get_running_loop()
        work.add_done_callback(self._ended)
        while not work.done():
            told = self._under_way[work] = loop.create_future()
            try:
                await told
            except asyncio.CancelledError:
                self._asleep.pop(work, None)  # it is about to go on
                if not work.cancel():  # it had just ended: nobody takes what it gave
                    _ = work.cancelled() or work.exception()
                    raise
        self._under_way.pop(work, None)
        return work.result()

    def _ended(self, _work: asyncio.Future[Any]) -> None:
        self._came_back()

    def deliver(self) -> None:
        """Let the world know of what has ended."""
        for work, told in list(self._under_way.items()):
            if work.done():
                del self._under_way[work]
                if not told.done():
                    told.set_result(None)

    async def sleep(self, seconds: float, clock: asyncio.AbstractEventLoop) -> None:
        """Let the current task of the caller's loop wait for the time of a world's loop."""
        task = asyncio.current_task()
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            self._asleep.pop(task, None)
            if not woken.done():
                woken.set_result(None)

        alarm = clock.call_later(seconds, wake)
        self._asleep[task] = None
        self._came_back()
        try:
            await woken
        finally:
            alarm.cancel()
            self._asleep.pop(task, None)

    def abandon(self) -> None:
        """Cancel all of it; nobody waits for it any more."""
        for work in self._under_way:
            work.cancel()
        self._under_way.clear()
