"""The clock a store has unless it is given another."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["LATEST", "system_clock"]

LATEST: Final = 253_402_300_799_999  # the last millisecond of the year 9999; a store holds what lies beyond to be then


def system_clock() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000
