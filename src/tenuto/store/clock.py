"""The clock a store has unless it is given another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tenuto.system import REAL

__all__ = ["LATEST", "Now", "system_clock"]

LATEST: Final = 253_402_300_799_999  # the last millisecond of the year 9999; a store holds what lies beyond to be then

Now: TypeAlias = Callable[[], int]  # milliseconds since 1970 UTC

system_clock: Final[Now] = REAL.clock.wall_ms
