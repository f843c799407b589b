"""What a contestant must be able to do. Durations are seconds on the monotonic clock of its own process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Protocol

__all__ = ["Contestant", "Parking", "Watch", "resident_mb"]


class Contestant(Protocol):
    """One engine on one database, its worker in this process."""

    async def open(self, url: str) -> None: ...

    async def close(self) -> None: ...

    async def in_a_row(self, steps: int) -> list[float]:
        """W1: one run of sequential steps; how long each hundred (and the rest) took."""
        ...

    async def many_runs(self, runs: int, steps: int) -> float:
        """W2: short runs, started together, until the last result is here."""
        ...

    async def idle(self, samples: int) -> list[float]:
        """W3: from the start of a one-step run to its result, one after the other."""
        ...

    async def at_once(self, steps: int) -> float:
        """W4: one run whose steps are all started together."""
        ...

    async def signals(self, samples: int, pause: float) -> list[float]:
        """W6: from sending a signal to a waiting run until the run's next step executes."""
        ...

    async def park(self, runs: int, seconds: float) -> Parking:
        """W7: runs that wait on a timer."""
        ...

    async def replay(self, url: str, steps: int, first: bool) -> float:
        """W5: opens, and starts a run if this is the first time; until the step after `steps` others executes.

        That step never ends: the process is killed in it, and the next one finds `steps` recorded results.
        """
        ...


class Parking(dict[str, float]):
    """W7: seconds until all were parked, memory that took (MB), lateness of the last wake-up (s), how many woke."""


class Watch:
    """Moments noted by steps, on whatever thread they run, for the loop that measures."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._moments: asyncio.Queue[float] = asyncio.Queue()

    def note(self) -> None:
        self._loop.call_soon_threadsafe(self._moments.put_nowait, time.perf_counter())

    async def moment(self) -> float:
        return await self._moments.get()


def resident_mb() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6
