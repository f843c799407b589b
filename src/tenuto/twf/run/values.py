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

from .faults import Fault, Stopped
from .settings import settings

__all__ = [
    "Record",
    "duration_of",
    "equal",
    "incoming",
    "is_flat",
    "is_list",
    "is_map",
    "kind_of",
    "length_of",
    "outgoing",
    "size_of",
    "text_of",
    "truth",
    "weight_of",
]

_SCALARS: Final = frozenset({type(None), bool, int, float, str, timedelta, datetime})
_FLAT: Final = _SCALARS - {bool}  # to Python true is 1
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
_LEAST_BYTES: Final = 9  # of a member, as `size_of` counts
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


def is_flat(items: list[Any]) -> bool:
    """True if these are numbers, strings, times and nulls, which Python compares as programs do."""
    return _FLAT.issuperset(map(type, items))


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
        if not is_list(right) or len(left) != len(right):
            return False
        if is_flat(left) and is_flat(right):
            return left == right
        return all(equal(one, two, depth + 1) for one, two in zip(left, right, strict=True))
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
    return _Copy().of(value, 0)


class _Copy:
    """One value on its way out, in which what is shared inside the run is there as often as it is reached."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members = 0

    def of(self, value: Any, depth: int) -> Any:
        if type(value) in _SCALARS:
            return value
        if depth > DEPTH:
            raise Fault("TWF502", f"a value is nested deeper than {DEPTH}, or contains itself")
        if not is_map(value) and not is_list(value):
            return value
        self.members += len(value)
        if self.members > settings.variable_bytes // _LEAST_BYTES:
            raise Stopped("TWF605", f"a value has more than {self.members - 1:,} members")
        if is_map(value):
            return {key: self.of(item, depth + 1) for key, item in value.items()}
        return [self.of(item, depth + 1) for item in value]


def length_of(value: Any) -> int:
    """How many members or characters a value has; -1 for a kind that has none."""
    return len(value) if isinstance(value, str | list | dict) else -1  # pyright: ignore[reportUnknownArgumentType]


def size_of(value: Any, limit: int) -> tuple[int, int]:
    """About how many bytes a value would take when stored, and how many members were counted for it.

    Counting stops soon after the limit.
    """
    return _measured(value, limit, scalar=9, around=2)


def weight_of(value: Any, limit: int) -> int:
    """How many members and characters there are at every depth, shared ones each time; stops soon after the limit."""
    return _measured(value, limit, scalar=1, around=0)[0]


def _measured(value: Any, limit: int, *, scalar: int, around: int) -> tuple[int, int]:
    known: dict[int, int] = {}
    open_now: set[int] = set()
    counted = 0

    def measure(item: Any) -> int:
        nonlocal counted
        if isinstance(item, str):
            return len(item) + around
        if not is_list(item) and not is_map(item):
            return scalar
        key = id(item)
        if key in known:
            return known[key]
        if key in open_now or len(open_now) > 10 * DEPTH:
            raise Fault("TWF502", "a list or map contains itself")
        if is_list(item) and not (kinds := set(map(type, item))) - _SCALARS:
            counted += len(item)
            if str not in kinds:
                known[key] = around + 1 + scalar * len(item)
                return known[key]
            if kinds == {str}:
                known[key] = around + 1 + sum(map(len, item)) + around * len(item)
                return known[key]
            counted -= len(item)
        open_now.add(key)
        total = around + 1
        members: Any = item.items() if is_map(item) else enumerate(item)
        for name, member in members:
            total += (len(name) + around if isinstance(name, str) else 0) + measure(member)
            counted += 1
            if total > limit:
                break
        open_now.discard(key)
        known[key] = total
        return total

    try:
        return measure(value), counted
    except RecursionError:
        raise Fault("TWF502", "a list or map is nested too deeply, or contains itself") from None
