"""Durations and points in time as people write them, in whole milliseconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

__all__ = ["Duration", "fractional_milliseconds", "milliseconds", "moment", "point"]

Duration: TypeAlias = float | str | timedelta
"""A length of time: seconds as a number, a `timedelta`, or a text such as "90s", "1h 30m", "7 days"."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST_MS: Final = 2**53  # 285,000 years; a larger float could not tell neighbouring milliseconds apart

_UNITS: Final[dict[str, int]] = {
    unit: size
    for size, spellings in {
        1: ("ms", "msec", "msecs", "millisecond", "milliseconds"),
        1_000: ("s", "sec", "secs", "second", "seconds"),
        60_000: ("m", "min", "mins", "minute", "minutes"),
        3_600_000: ("h", "hr", "hrs", "hour", "hours"),
        86_400_000: ("d", "day", "days"),
    }.items()
    for unit in spellings
}
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)\s*(?:,|and\b)?", re.ASCII)


def milliseconds(duration: Duration) -> int:
    """A duration in milliseconds, rounded up; a negative one counts as 0.

    Seconds as a number, a `timedelta`, or text: `"250ms"`, `"1h30m"`, `"1 day"`. Anything else is a `ValueError`
    (a `TypeError` for a value of another type).
    """
    if type(duration) is int:
        return _bounded(duration * 1000, duration)
    if isinstance(duration, timedelta):
        # Whole numbers all the way: a float would turn 1 ms into 2 for some long durations.
        return _bounded(-(-duration // _MILLISECOND), duration)
    return _bounded(math.ceil(fractional_milliseconds(duration)), duration)


def fractional_milliseconds(duration: Duration) -> float:
    """A duration in milliseconds, not rounded; a negative one counts as 0."""
    if isinstance(duration, str):
        return _parse(duration)
    if isinstance(duration, timedelta):
        return max(0.0, duration / _MILLISECOND)
    # Callers without a type checker can hand over anything.
    if isinstance(duration, bool) or not isinstance(duration, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a duration is seconds, a timedelta or a text such as '1h30m', not {duration!r}")
    if math.isnan(duration) or duration == math.inf:
        raise ValueError(f"{duration!r} is not a duration")
    # 0.1 s is 100 ms, although 0.1 * 1000 is a little more in binary.
    return max(0.0, round(duration * 1000, 6))


def moment(when: datetime) -> int:
    """A point in time in milliseconds since 1970, rounded up; `ValueError` unless it is aware of its offset."""
    # Callers without a type checker can hand over anything.
    if not isinstance(when, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a point in time is a datetime, not {when!r}")
    if when.utcoffset() is None:
        raise ValueError(f"{when!r} has no time zone: which moment it means depends on the machine")
    return max(0, -(-(when - _EPOCH) // _MILLISECOND))


def point(ms: int) -> datetime:
    """The UTC datetime of milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=ms)


def _parse(text: str) -> float:
    lowered = text.strip().lower()
    if lowered.startswith("-") and not lowered.startswith("--"):
        _parse(lowered[1:])  # nonsense stays an error, negative or not
        return 0.0
    total, position = 0.0, 0
    while position < len(lowered):
        part = _PART.match(lowered, position)
        size = _UNITS.get(part[2]) if part else None
        if part is None or size is None:
            raise ValueError(f"{text!r} is not a duration; write for example '250ms', '1h30m' or '1 day'")
        total += float(part[1]) * size
        position = part.end()
    if position == 0:
        raise ValueError("an empty text is not a duration")
    return round(total, 6)


def _bounded(ms: int, duration: Duration) -> int:
    if ms > _LONGEST_MS:
        raise ValueError(f"{duration!r} is too long a duration")
    return max(0, ms)
