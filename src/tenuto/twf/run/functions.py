"""The pure built-in functions. None of them can be rebound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Any, Final

from .faults import Fault
from .operators import add, is_number, order
from .settings import settings
from .values import equal, is_flat, is_list, is_map, kind_of, length_of, size_of, text_of, truth
from .work import weight

__all__ = ["PURE", "append_to"]

_MOST_ITEMS: Final = 1_000_000
_LEAST_DIGITS: Final = -2_000  # beyond it every number is rounded to zero; `round` would compute the power of ten


def _list(name: str, value: Any) -> list[Any]:
    if is_list(value):
        return value
    raise Fault("TWF502", f"{name}() takes a list, not {kind_of(value)}")


def _map(name: str, value: Any) -> dict[str, Any]:
    if is_map(value):
        return value
    raise Fault("TWF502", f"{name}() takes a map, not {kind_of(value)}")


def _text(name: str, value: Any) -> str:
    if type(value) is str:
        return value
    raise Fault("TWF502", f"{name}() takes a string, not {kind_of(value)}")


def _whole(name: str, value: Any) -> int:
    if type(value) is int:
        return value
    raise Fault("TWF502", f"{name}() takes a whole number, not {kind_of(value)}")


def _len(value: Any) -> int:
    if is_list(value) or is_map(value) or isinstance(value, str):
        return len(value)
    raise Fault("TWF502", f"len() takes a list, map or string, not {kind_of(value)}")


def _are_of_one_order(items: Sequence[Any]) -> bool:
    """True if Python orders them as programs do, a hundred times as fast."""
    kinds = set(map(type, items))
    return kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, timedelta, datetime})


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    best_of: Callable[..., Any] = max if sign > 0 else min

    def extreme(*values: Any) -> Any:
        items: Sequence[Any] = _list(name, values[0]) if len(values) == 1 else values
        if not items:
            raise Fault("TWF502", f"{name}() of nothing")
        if _are_of_one_order(items):
            return best_of(items)
        best = items[0]
        for item in items[1:]:
            if order(item, best) * sign > 0:
                best = item
        return best

    return extreme


def _sum(values: Any) -> Any:
    items = _list("sum", values)
    if set(map(type, items)) == {int}:
        return add(0, sum(items))  # floats are added one by one: how `sum` rounds depends on the version of Python
    total: Any = 0 if not items else items[0]
    for item in items:
        if not is_number(item) and type(item) is not timedelta:
            raise Fault("TWF502", f"sum() adds numbers or durations, not {kind_of(item)}")
    for item in items[1:]:
        total = add(total, item)
    return total


def _abs(value: Any) -> Any:
    if is_number(value) or type(value) is timedelta:
        return abs(value)
    raise Fault("TWF502", f"abs() takes a number, not {kind_of(value)}")


def _round(value: Any, digits: Any = None) -> Any:
    if not is_number(value):
        raise Fault("TWF502", f"round() takes a number, not {kind_of(value)}")
    try:
        return round(value) if digits is None else round(value, max(_whole("round", digits), _LEAST_DIGITS))
    except (OverflowError, ValueError):
        raise Fault("TWF502", "round() takes a finite number") from None


def _range(first: Any, last: Any = None) -> list[int]:
    start, end = (0, _whole("range", first)) if last is None else (_whole("range", first), _whole("range", last))
    if end - start > _MOST_ITEMS:
        raise Fault("TWF502", f"range() of more than {_MOST_ITEMS:,} items")
    return list(range(start, end))


def _int(value: Any) -> int:
    try:
        if isinstance(value, bool) or is_number(value):
            return int(value)
        if isinstance(value, str):
            return int(value.strip())
    except (ValueError, OverflowError):
        raise Fault("TWF502", f"{_quoted(value)} is no whole number") from None
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    raise Fault("TWF502", f"int() does not take {kind_of(value)}")


def _float(value: Any) -> float:
    try:
        if isinstance(value, bool) or is_number(value):
            return float(value)
        if isinstance(value, str):
            return float(value.strip())
    except (ValueError, OverflowError):
        raise Fault("TWF502", f"{_quoted(value)} is no number") from None
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise Fault("TWF502", f"float() does not take {kind_of(value)}")


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else text_of(value)


def _get(entries: Any, key: Any, default: Any = None) -> Any:
    if entries is None:
        return default
    return _map("get", entries).get(_text("get", key), default)


def _has(entries: Any, key: Any) -> bool:
    return _text("has", key) in _map("has", entries)


def _contains(where: Any, item: Any) -> bool:
    if isinstance(where, str):
        return _text("contains", item) in where
    if is_map(where):
        return isinstance(item, str) and item in where
    items = _list("contains", where)
    if is_flat(items) and is_flat([item]):
        return item in items
    return any(equal(one, item) for one in items)


def _append(items: Any, item: Any) -> list[Any]:
    return [*_list("append", items), item]


def append_to(items: Any, item: Any) -> None:
    """The method `list.append(x)`, which changes the list itself."""
    _list("append", items).append(item)


def _sorted(items: Any) -> list[Any]:
    held = _list("sorted", items)
    return sorted(held) if _are_of_one_order(held) else sorted(held, key=cmp_to_key(order))


def _join(items: Any, separator: Any = "") -> str:
    return _text("join", separator).join(text_of(item) for item in _list("join", items))


def _split(text: Any, separator: Any) -> list[str]:
    if not _text("split", separator):
        raise Fault("TWF502", "split() needs a separator that is not empty")
    return list(_text("split", text).split(separator))


def _chunk(items: Any, size: Any) -> list[list[Any]]:
    if _whole("chunk", size) < 1:
        raise Fault("TWF502", "chunk() needs a size of at least 1")
    held = _list("chunk", items)
    return [held[start : start + size] for start in range(0, len(held), size)]


def _keys(entries: Any) -> list[str]:
    return list(_map("keys", entries))


def _values(entries: Any) -> list[Any]:
    return list(_map("values", entries).values())


def _upper(text: Any) -> str:
    return _text("upper", text).upper()


def _lower(text: Any) -> str:
    return _text("lower", text).lower()


def _trim(text: Any) -> str:
    return _text("trim", text).strip()


# --- what they go through: members and characters, as far as the kinds are right


def _length(value: Any, *_: Any) -> int:
    return max(length_of(value), 0)


def _length_of_all(*values: Any) -> int:
    return _length(values[0]) if len(values) == 1 else len(values)


def _text_length(value: Any, *_: Any) -> int:
    return size_of(value, settings.variable_bytes)[0]  # as text a value is about as long as stored


def _range_length(first: Any, last: Any = 0) -> int:
    if type(first) is not int or type(last) is not int:
        return 0
    return min(abs(last - first), _MOST_ITEMS)


def _joined_length(items: Any, separator: Any = "") -> int:
    return _text_length(items) + _length(items) * _length(separator)


def _searched_length(where: Any, item: Any) -> int:
    if is_map(where):
        return 0
    return weight(where) if is_list(where) else _length(where)


MANY: Final = 1_000
# name: the function, how many arguments it takes at least and at most, and how much it goes through (None: nothing)
PURE: Final[dict[str, tuple[Callable[..., Any], int, int, Callable[..., int] | None]]] = {
    "len": (_len, 1, 1, None),
    "min": (_extreme("min", -1), 1, MANY, _length_of_all),
    "max": (_extreme("max", 1), 1, MANY, _length_of_all),
    "sum": (_sum, 1, 1, _length),
    "abs": (_abs, 1, 1, None),
    "round": (_round, 1, 2, None),
    "range": (_range, 1, 2, _range_length),
    "str": (text_of, 1, 1, _text_length),
    "int": (_int, 1, 1, _length),
    "float": (_float, 1, 1, _length),
    "bool": (truth, 1, 1, None),
    "keys": (_keys, 1, 1, _length),
    "values": (_values, 1, 1, _length),
    "get": (_get, 2, 3, None),
    "has": (_has, 2, 2, None),
    "contains": (_contains, 2, 2, _searched_length),
    "append": (_append, 2, 2, _length),
    "sorted": (_sorted, 1, 1, _length),
    "join": (_join, 1, 2, _joined_length),
    "split": (_split, 2, 2, _length),
    "upper": (_upper, 1, 1, _length),
    "lower": (_lower, 1, 1, _length),
    "trim": (_trim, 1, 1, _length),
    "chunk": (_chunk, 2, 2, _length),
}
