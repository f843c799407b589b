"""Blocking work of one connection, done in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

__all__ = ["Lane", "ThreadLane"]


class Lane(Protocol):
    """Does work one piece after the other, off the event loop."""

    def put(self, work: Callable[[], None]) -> None:
        """Add work to the end of the line. It raises nothing."""
        ...

    def may_inline(self) -> bool:
        """True if nothing is in the line, so that a caller may do brief work itself instead."""
        ...

    async def close(self) -> None:
        """Finish what is in the line, and take nothing more."""
        ...


class ThreadLane:
    """A thread that takes from a queue."""

    def __init__(self, name: str) -> None:
        self._line: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._counting = threading.Lock()
        self._in_line = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        with self._counting:
            self._in_line += 1
        self._line.put(work)

    def may_inline(self) -> bool:
        return self._in_line == 0

    async def close(self) -> None:
        self._line.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while (work := self._line.get()) is not None:
            work()
            with self._counting:
                self._in_line -= 1
