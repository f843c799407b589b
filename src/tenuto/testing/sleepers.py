"""Steps of a test that take virtual time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from typing import Any

__all__ = ["Sleepers"]


class Sleepers:
    """Tasks that wait for a virtual time, in the order of their times."""

    def __init__(self) -> None:
        self._line: list[tuple[int, int, asyncio.Future[None]]] = []  # until when, order
        self._asleep: set[asyncio.Task[Any] | None] = set()
        self._numbered = 0
        self.dozed: asyncio.Future[None] | None = None  # set when another one begins to wait

    async def sleep(self, until_ms: int) -> None:
        """Let the current task wait."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._numbered += 1
        heapq.heappush(self._line, (until_ms, self._numbered, woken))
        task = asyncio.current_task()
        self._asleep.add(task)
        if self.dozed is not None and not self.dozed.done():
            self.dozed.set_result(None)
        try:
            await woken
        finally:
            self._asleep.discard(task)

    def all_of(self, tasks: Iterable[asyncio.Task[Any]]) -> bool:
        """True if all these wait for virtual time."""
        return self._asleep.issuperset(tasks)

    def stir(self, task: asyncio.Task[Any]) -> None:
        """This one was asked to stop, and goes on."""
        self._asleep.discard(task)

    def next(self) -> int | None:
        """Return when the first of them goes on."""
        while self._line and self._line[0][2].done():
            heapq.heappop(self._line)  # cancelled
        return self._line[0][0] if self._line else None

    async def wake(self, now_ms: int) -> None:
        """Let those go on whose time has come, one after the other."""
        while self._line and self._line[0][0] <= now_ms:
            woken = heapq.heappop(self._line)[2]
            if not woken.done():
                woken.set_result(None)
                await asyncio.sleep(0)  # it goes on before anybody looks whether all are asleep
