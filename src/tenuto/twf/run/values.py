"""The values of TWF programs, and how they cross a run's border.

Rules:

1. Kinds are null, bool, int, float, string, list, map, duration (`timedelta`) and timestamp (aware `datetime`). Any
   other Python object is opaque: it can be passed on, compared and nothing else.
2. Inside a run lists and maps are shared by reference; what crosses the border is a copy.
3. `T{…}` is a map that remembers `T` while it stays in the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from .faults import Fault

__all__ = [
    "Record",
    "duration_of",
    "equal",
    "incoming",
    "is_list",
    "is_map",
    "kind_of",
    "outgoing",
    "size_of",
    "text_of",
    "truth",
]

_SCALARS: Final = frozenset({type(None), bool, int, float, str, timedelta, datetime})
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a bool",
    int: "an int",
    float: "a float",
    str: "a string",
    list: "a list",
    dict: "a map",
    timedelta: "a duration",
    datetime: "a timestamp",
}
DEPTH: Final = 100  # as deep as a stored value may be


class Record(dict[str, Any]):
    """A map that remembers the name it was constructed with."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.type_name = type_name


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_map(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def kind_of(value: Any) -> str:
    """What a value is, for messages."""
    if isinstance(value, Record):
        return f"a {value.type_name}"
    sort: type[Any] = value.__class__
    return _KINDS.get(sort, f"a Python {sort.__name__}")


def truth(value: Any) -> bool:
    """Whether a value counts as true."""
    return bool(value) if type(value) in _KINDS or isinstance(value, Record) else True


def equal(left: Any, right: Any, depth: int = 0) -> bool:
    """Deep equality: numbers by value, a bool is no number, constructors do not matter."""
    if left is right:
        return True
    if depth > DEPTH:
        raise Fault("TWF502", f"values nested deeper than {DEPTH} cannot be compared")
    if is_map(left):
        return (
            is_map(right)
            and left.keys() == right.keys()
            and all(equal(value, right[key], depth + 1) for key, value in left.items())
        )
    if is_list(left):
        return (
            is_list(right)
            and len(left) == len(right)
            and all(equal(one, two, depth + 1) for one, two in zip(left, right, strict=True))
        )
    if isinstance(left, bool) or isinstance(right, bool):
        return False  # the same bool is the same object
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def text_of(value: Any) -> str:
    """A value as text: what `str()` and joining with a string give."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _duration_text(value)
    if isinstance(value, datetime):
        return _timestamp_text(value)
    if is_list(value):
        return f"[{', '.join(map(_inner_text, value))}]"
    if is_map(value):
        entries = ", ".join(f"{key}: {_inner_text(item)}" for key, item in value.items())
        return f"{value.type_name if isinstance(value, Record) else ''}{{{entries}}}"
    return str(value)


def _inner_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else text_of(value)


def _duration_text(value: timedelta) -> str:
    """As a program would write it: the largest unit that gives a whole number, else seconds."""
    microseconds = value // timedelta(microseconds=1)
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)):
        if microseconds and microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{value.total_seconds():g}s"


def _timestamp_text(value: datetime) -> str:
    text = value.isoformat()
    return text.replace("+00:00", "Z")


def duration_of(value: Any) -> timedelta:
    """A duration, also from text such as `"1h30m"`; a `Fault` for anything else."""
    if type(value) is timedelta:
        return value
    if type(value) is str:
        from tenuto.model.durations import fractional_milliseconds

        try:
            return timedelta(milliseconds=fractional_milliseconds(value))
        except (ValueError, OverflowError):
            raise Fault("TWF502", f'"{value}" is not a duration; write for example 30s, 5m or 1h') from None
    raise Fault("TWF502", f"{kind_of(value)} is not a duration; write for example 30s, 5m or 1h")


# --- the border


def incoming(value: Any) -> Any:
    """A value from Python as a program sees it: tuples are lists, dataclasses maps. Containers are copied."""
    if type(value) in _SCALARS:
        return value
    return _incoming(value, 0)


def _incoming(value: Any, depth: int) -> Any:
    sort: type[Any] = value.__class__
    if sort in _SCALARS:
        return value
    if depth > DEPTH:
        raise Fault("TWF502", f"a value is nested deeper than {DEPTH}")
    if sort is list or sort is tuple:
        return [_incoming(item, depth + 1) for item in value]
    if is_map(value):
        if all(type(key) is str for key in value):
            return {key: _incoming(item, depth + 1) for key, item in value.items()}
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _incoming(getattr(value, field.name), depth + 1) for field in fields(value)}
    if isinstance(value, tuple):  # a named tuple
        return _incoming(list(value), depth)  # pyright: ignore[reportUnknownArgumentType]  # the user's own
    return value


def outgoing(value: Any) -> Any:
    """A program's value as Python and the store see it: a copy in which constructed maps are plain dicts."""
    if type(value) in _SCALARS:
        return value
    return _outgoing(value, 0)


def _outgoing(value: Any, depth: int) -> Any:
    if type(value) in _SCALARS:
        return value
    if depth > DEPTH:
        raise Fault("TWF502", f"a value is nested deeper than {DEPTH}, or contains itself")
    if is_map(value):
        return {key: _outgoing(item, depth + 1) for key, item in value.items()}
    if is_list(value):
        return [_outgoing(item, depth + 1) for item in value]
    return value


def size_of(value: Any, limit: int) -> int:
    """About how many bytes a value would take when stored; counting stops soon after the limit."""
    known: dict[int, int] = {}
    open_now: set[int] = set()

    def measure(item: Any) -> int:
        if isinstance(item, str):
            return len(item) + 2
        if not is_list(item) and not is_map(item):
            return 9
        key = id(item)
        if key in known:
            return known[key]
        if key in open_now or len(open_now) > 10 * DEPTH:
            raise Fault("TWF502", "a list or map contains itself")
        open_now.add(key)
        total = 3
        members: Any = item.items() if is_map(item) else enumerate(item)
        for name, member in members:
            total += (len(name) + 2 if isinstance(name, str) else 0) + measure(member)
            if total > limit:
                break
        open_now.discard(key)
        known[key] = total
        return total

    try:
        return measure(value)
    except RecursionError:
        raise Fault("TWF502", "a list or map is nested too deeply, or contains itself") from None
