"""Has a file changed? Told from its times and size, so that a warm import reads no source."""

from __future__ import annotations

import os
import time
from typing import Final, TypeAlias

__all__ = ["Stamp", "is_settled", "stamp_of"]

# Times of the last write and of the last change of any kind, in nanoseconds, and the size. The second time cannot be
# set by a program: it shows an edit that was followed by putting the first one back, as archives and copies do.
Stamp: TypeAlias = tuple[int, int, int]

_SETTLING_NS: Final = 2_000_000_000  # the coarsest clock among file systems in use


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file as it is now; None if it cannot be had. Take it before reading: an edit in between shows."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size


def is_settled(stamp: Stamp) -> bool:
    """Is every later edit bound to show? An edit in the same tick of the file system's clock would not."""
    return max(stamp[0], stamp[1]) + _SETTLING_NS <= time.time_ns()
