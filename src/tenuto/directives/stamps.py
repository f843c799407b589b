"""Has a file changed? Told from its times and size, so that a warm import reads no source."""

from __future__ import annotations

import os
import struct
import time
from typing import Final, TypeAlias

__all__ = ["STAMP_BYTES", "Stamp", "has_size", "is_settled", "never", "stamp_of"]

# Times of the last write and of the last change of any kind, in nanoseconds, and the size. The second time cannot be
# set by a program: it shows an edit that was followed by putting the first one back, as archives and copies do.
# Bytes, as the caches hold them: one comparison of a few bytes, where numbers would have to be made first.
Stamp: TypeAlias = bytes

_FIELDS: Final = struct.Struct("<qqq")
STAMP_BYTES: Final = _FIELDS.size
_NEVER: Final = 0  # the time in a stamp that fits no file
_LATEST: Final = (1 << 63) - 1  # what is written for a time that has no room; it is never settled
_SETTLING_NS: Final = 2_000_000_000  # the coarsest clock among file systems in use


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file as it is now; None if it cannot be had. Take it before reading: an edit in between shows."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    try:
        return _FIELDS.pack(found.st_mtime_ns, found.st_ctime_ns, found.st_size)
    except struct.error:  # centuries away
        return _FIELDS.pack(_LATEST, _LATEST, found.st_size)


def never(size_bytes: int) -> Stamp:
    """A stamp that no file has."""
    return _FIELDS.pack(_NEVER, _NEVER, size_bytes)


def has_size(stamp: Stamp, size_bytes: int) -> bool:
    """Was the file that long when the stamp was taken?"""
    return stamp.endswith(_FIELDS.pack(_NEVER, _NEVER, size_bytes)[-8:])


def is_settled(stamp: Stamp) -> bool:
    """Is every later edit bound to show? An edit in the same tick of the file system's clock would not."""
    times: tuple[int, int, int] = _FIELDS.unpack(stamp)
    return max(times[:2]) + _SETTLING_NS <= time.time_ns()
