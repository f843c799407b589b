"""The clocks of a process."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "RealClock"]


class Clock(Protocol):
    """What time it is here. What is due is decided by the store's clock, never by this one."""

    def monotonic(self) -> float:
        """Return seconds that never go back: the time of the event loop."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 UTC, as this machine believes."""
        ...

    def pause(self, seconds: float, /) -> None:
        """Block the calling thread for so long: work of a lane, never an event loop."""
        ...


class RealClock:
    """The clocks of the operating system."""

    monotonic = staticmethod(time.monotonic)  # turns and commits are measured: no call in between
    pause = staticmethod(time.sleep)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
