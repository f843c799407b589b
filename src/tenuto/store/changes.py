"""Tells waiters that something was committed.

Commits of this process are known at once. Those of other processes are found by asking for them, soon while there is
news and less and less often while there is none; correctness never rests on it, since wake-ups are rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tenuto.system import REAL, Clock, Lock

__all__ = ["Changes"]

_SOON: Final = 0.010
_LATE: Final = 0.250


class Changes:
    """A mark that grows with every commit. Usable from several threads and event loops."""

    def __init__(self, foreign: Callable[[], Awaitable[bool]] | None = None, clock: Clock = REAL.clock) -> None:
        self._foreign = foreign  # whether another process has committed since it was last asked
        self._lock = Lock()
        self._monotonic = clock.monotonic
        self._mark = 0
        # In order of waiting, in which they are woken: a set would have them in order of their addresses.
        self._waiters: dict[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]], None] = {}
        self._pause = _SOON
        self._asked_at = 0.0

    def happened(self) -> None:
        """Something was committed."""
        with self._lock:
            self._mark += 1
            if not self._waiters:
                return
            waiters, self._waiters = self._waiters, {}
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None  # a thread without one
        for loop, future in waiters:
            if loop is here:
                _wake(future)
                continue
            with suppress(RuntimeError):  # that loop is closed: nobody waits
                loop.call_soon_threadsafe(_wake, future)

    async def after(self, since: int, timeout: float) -> int:
        """The mark, once it is beyond `since` or the time is over."""
        give_up = self._monotonic() + timeout
        while self._mark <= since:
            left = give_up - self._monotonic()
            if left <= 0:
                break
            await self._wait(since, left)
        return self._mark

    async def _wait(self, since: int, left: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = (loop, loop.create_future())
        with self._lock:
            if self._mark > since:
                return
            self._waiters[waiter] = None
        try:
            await asyncio.wait((waiter[1],), timeout=left if self._foreign is None else min(left, self._pause))
        finally:
            with self._lock:
                self._waiters.pop(waiter, None)
        if not waiter[1].done():
            await self._ask()

    async def _ask(self) -> None:
        """Asks for commits of other processes, unless another waiter has just done so."""
        now = self._monotonic()
        if self._foreign is None or now - self._asked_at < self._pause / 2:
            return
        self._asked_at = now
        if await self._foreign():
            self._pause = _SOON
            self.happened()
        else:
            self._pause = min(_LATE, self._pause * 1.5)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
