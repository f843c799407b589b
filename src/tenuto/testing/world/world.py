"""A world: its clock, what is due in it, and who drives it.

Time stands still while anything can happen in it, and while work of the caller's loop is under way for it, for
`patience` real seconds where a deadline could come first. Then it moves to the next deadline, as far as somebody who
drives it wants. Nothing happens while nobody does.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenuto.testing.world.loop import WorldLoop
from tenuto.testing.world.outside import Outside

__all__ = ["FOREVER", "Stuck", "World"]

T = TypeVar("T")

FOREVER: Final = math.inf
PASSES: Final = 100  # of the loop before the caller's gets its turn
NEVER_S: Final = 1e12  # seconds: a deadline behind it is none


class Stuck(Exception):
    """Nothing that was driven for will happen any more by that time."""


@dataclass(slots=True, eq=False)
class _Drive:
    """Somebody who waits for something, and until when time may go for that."""

    limit: float  # in milliseconds
    over: asyncio.Future[None]  # of the caller's loop


class World:
    """One virtual clock, and one event loop on it."""

    def __init__(self, now_ms: int, *, patience: float = 0.1) -> None:
        self.now_ms = now_ms
        self._began_ms = now_ms
        self._patience = patience
        self._deadlines: list[tuple[int, int, asyncio.TimerHandle, Callable[[], None]]] = []
        self._numbered = 0
        self._drives: dict[_Drive, None] = {}
        self._outer: asyncio.AbstractEventLoop | None = None  # the caller's
        self._pumps = False  # about to, in the next pass of the caller's loop
        self._waits: asyncio.TimerHandle | None = None  # for work of the caller's loop, at most so long
        self.outside = Outside(self._came_back)
        self.loop = WorldLoop(self)

    # --- what a loop asks

    def seconds(self) -> float:
        return (self.now_ms - self._began_ms) / 1000

    def expect(self, handle: asyncio.TimerHandle, due: Callable[[], None]) -> None:
        when = handle.when()
        if when < NEVER_S:
            self._numbered += 1
            when_ms = self._began_ms + math.ceil(when * 1000 - 0.001)  # seconds are floats: a microsecond is noise
            heapq.heappush(self._deadlines, (when_ms, self._numbered, handle, due))

    def poke(self) -> None:
        if self._drives and self._outer is not None:
            with suppress(RuntimeError):  # that loop is closed: nobody drives
                self._outer.call_soon_threadsafe(self._schedule)

    # --- what callers ask

    @property
    def outer(self) -> asyncio.AbstractEventLoop:
        """The loop of whoever drives."""
        if self._outer is None:
            raise RuntimeError("nobody has driven this world yet")
        return self._outer

    async def run(self, work: Coroutine[Any, Any, T], limit: float | None = None) -> T:
        """Run a coroutine in the world; `Stuck` if it will not end by a time, which is now unless one is named."""
        task = self.loop.create_task(work)
        try:
            await self._drive(limit, task)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise Stuck
        return task.result()

    async def sleep(self, seconds: float) -> None:
        """Let work of the caller's loop wait for virtual time."""
        await self.outside.sleep(seconds, self.loop)

    async def settle(self, limit: float | None = None) -> None:
        """Let everything happen that can, until a time, which is now unless one is named."""
        await self._drive(limit, None)

    async def _drive(self, limit: float | None, task: asyncio.Task[Any] | None) -> None:
        outer = asyncio.get_running_loop()
        if self._outer is not outer:
            self._outer, self._pumps, self._waits = outer, False, None
            self._drives.clear()  # of a loop that has ended
        drive = _Drive(self.now_ms if limit is None else limit, outer.create_future())
        if task is not None:
            task.add_done_callback(lambda _: _end(drive))
        self._drives[drive] = None
        self._schedule()
        try:
            await drive.over
        finally:
            self._drives.pop(drive, None)

    def close(self) -> None:
        """Cancel everything, on the caller's loop too. Nothing happens here any more."""
        self.outside.abandon()
        self.loop.end()
        self._deadlines.clear()

    # --- driving

    def _schedule(self) -> None:
        if not self._pumps and self._drives and self._outer is not None:
            self._pumps = True
            self._outer.call_soon(self._pump)

    def _pump(self) -> None:
        """Run what is ready; where nothing is, wait for the caller's loop, or move the clock."""
        self._pumps = False
        self.outside.deliver()
        if not self.loop.is_idle():
            self._stop_waiting()
            self.loop.run(PASSES)
        for drive in [drive for drive in self._drives if drive.over.done()]:
            del self._drives[drive]
        if not self._drives:
            return
        if not self.loop.is_idle():
            self._schedule()
        elif not self._is_busy():
            self._jump()

    def _is_busy(self) -> bool:
        """True if work of the caller's loop is worth waiting for."""
        if not self.outside.is_awake:
            self._stop_waiting()
            return False
        if self._waits is None:
            deadline = self._next()
            if deadline is not None or any(drive.limit < FOREVER for drive in self._drives):
                assert self._outer is not None  # noqa: S101  # somebody drives
                self._waits = self._outer.call_later(self._patience, self._lose_patience)
        return True

    def _lose_patience(self) -> None:
        self._waits = None
        if self._drives and self.loop.is_idle():
            self._jump()

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _came_back(self) -> None:
        """Work of the caller's loop has ended, or waits for the clock."""
        self._stop_waiting()
        self._schedule()

    def _jump(self) -> None:
        """Move the clock to the next deadline, once those have gone on for whom that is too far."""
        deadline = self._next()
        may_come = self.outside.is_awake  # without a deadline
        for drive in list(self._drives):
            if deadline > drive.limit if deadline is not None else not (may_come and drive.limit == FOREVER):
                del self._drives[drive]
                _end(drive)
                self._schedule()
        if deadline is None or self._pumps or not self._drives:
            return
        self.now_ms = max(self.now_ms, deadline)
        while (following := self._next()) is not None and following <= self.now_ms:
            heapq.heappop(self._deadlines)[3]()
        self._schedule()

    def _next(self) -> int | None:
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].cancelled():
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None


def _end(drive: _Drive) -> None:
    if not drive.over.done():
        drive.over.set_result(None)
