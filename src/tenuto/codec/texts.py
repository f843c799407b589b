"""Values whose stored form is a text or a few numbers: times, durations, decimals.

Each has one form. Reading makes the value, then writes it again and refuses what would not have been written so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from tenuto.codec.refusal import Refused, is_list

__all__ = [
    "local_time_fields",
    "read_date",
    "read_decimal",
    "read_local_time",
    "read_time",
    "read_timedelta",
    "read_timestamp",
    "time_fields",
    "timedelta_fields",
    "timestamp_text",
]

T = TypeVar("T")

_DAY: Final = 86_400
# What the keys of zones look like; keeps file names and package names that are none out of the search for one.
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,3}")


def timestamp_text(value: datetime) -> str | None:
    """The text of a time with UTC or a fixed offset; none for other times."""
    if type(value.tzinfo) is not timezone:
        return None
    return value.isoformat().removesuffix("+00:00") + "Z" if value.tzinfo == UTC else value.isoformat()


def read_timestamp(text: Any) -> datetime:
    value = _parse(datetime.fromisoformat, text, "a time")
    if timestamp_text(value) != text:
        raise Refused("a time is not in its stored form", "datetime")
    return value


def local_time_fields(value: datetime) -> list[Any]:
    """What is stored of a naive time, or of one in a named zone."""
    zone = value.tzinfo
    if zone is None:
        return [value.isoformat(), None, value.fold]
    key = zone.key if type(zone) is ZoneInfo else None
    if key is None:
        raise Refused(f"a time zone of type {type(zone).__name__} has no name it could be stored by", "datetime")
    return [value.replace(tzinfo=None).isoformat(), key, value.fold]


def read_local_time(fields: Any) -> datetime:
    text, key, fold = _fields(fields, 3, "a local time")
    value = _parse(datetime.fromisoformat, text, "a time").replace(fold=_fold(fold))
    if value.tzinfo is not None or value.isoformat() != text:
        raise Refused("a local time is not in its stored form", "datetime")
    return value if key is None else value.replace(tzinfo=_zone(key))


def _zone(key: Any) -> ZoneInfo:
    if type(key) is not str or not _ZONE.fullmatch(key):
        raise Refused("a time zone has no proper name", "datetime")
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        fix = "install the zone, or the tzdata package"
        raise Refused(f"the time zone {key} is not known here", "datetime", fix) from None


def read_date(text: Any) -> date:
    value = _parse(date.fromisoformat, text, "a date")
    if value.isoformat() != text:
        raise Refused("a date is not in its stored form", "date")
    return value


def time_fields(value: time) -> list[Any]:
    """What is stored of a time of day."""
    if value.tzinfo is not None:
        raise Refused("a time of day with a zone cannot be stored; store a datetime", "time")
    return [value.isoformat(), value.fold]


def read_time(fields: Any) -> time:
    text, fold = _fields(fields, 2, "a time of day")
    value = _parse(time.fromisoformat, text, "a time of day").replace(fold=_fold(fold))
    if value.tzinfo is not None or value.isoformat() != text:
        raise Refused("a time of day is not in its stored form", "time")
    return value


def timedelta_fields(value: timedelta) -> dict[int, int]:
    """What is stored of a duration: whole seconds, and the microseconds above them."""
    fields = {1: value.days * _DAY + value.seconds}
    if value.microseconds:
        fields[-6] = value.microseconds
    return fields


def read_timedelta(fields: Any) -> timedelta:
    try:
        seconds = fields[1]
        microseconds = fields.get(-6, 0)
        value = timedelta(seconds=seconds, microseconds=microseconds)
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError):
        raise Refused("a duration is malformed or too long", "timedelta") from None
    exact = all(type(number) is int for field in fields.items() for number in field)
    if not exact or list(timedelta_fields(value).items()) != list(fields.items()):
        raise Refused("a duration is not in its stored form", "timedelta")
    return value


def read_decimal(text: Any) -> Decimal:
    if type(text) is not str:
        raise Refused("a decimal is not a text", "Decimal")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise Refused("a decimal is malformed", "Decimal") from None
    if str(value) != text:
        raise Refused("a decimal is not in its stored form", "Decimal")
    return value


def _parse(parse: Callable[[str], T], text: Any, what: str) -> T:
    if type(text) is not str:
        raise Refused(f"{what} is not a text")
    try:
        return parse(text)
    except ValueError:
        raise Refused(f"{what} is malformed") from None


def _fields(fields: Any, count: int, what: str) -> list[Any]:
    if not is_list(fields) or len(fields) != count:
        raise Refused(f"{what} does not have {count} fields")
    return fields


def _fold(fold: Any) -> int:
    if type(fold) is not int or fold not in (0, 1):
        raise Refused("the fold of a time is neither 0 nor 1")
    return fold
