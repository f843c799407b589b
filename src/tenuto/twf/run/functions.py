"""The pure built-in functions. None of them can be rebound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cmp_to_key
from typing import Any, Final

from .faults import Fault
from .operators import add, is_number, order
from .values import equal, is_list, is_map, kind_of, text_of, truth

__all__ = ["PURE", "append_to"]

_MOST_ITEMS: Final = 1_000_000


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


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        items: Sequence[Any] = _list(name, values[0]) if len(values) == 1 else values
        if not items:
            raise Fault("TWF502", f"{name}() of nothing")
        best = items[0]
        for item in items[1:]:
            if order(item, best) * sign > 0:
                best = item
        return best

    return extreme


def _sum(values: Any) -> Any:
    items = _list("sum", values)
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
        return round(value) if digits is None else round(value, _whole("round", digits))
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
    return any(equal(one, item) for one in _list("contains", where))


def _append(items: Any, item: Any) -> list[Any]:
    return [*_list("append", items), item]


def append_to(items: Any, item: Any) -> None:
    """The method `list.append(x)`, which changes the list itself."""
    _list("append", items).append(item)


def _sorted(items: Any) -> list[Any]:
    return sorted(_list("sorted", items), key=cmp_to_key(order))


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


MANY: Final = 1_000
PURE: Final[dict[str, tuple[Callable[..., Any], int, int]]] = {
    "len": (_len, 1, 1),
    "min": (_extreme("min", -1), 1, MANY),
    "max": (_extreme("max", 1), 1, MANY),
    "sum": (_sum, 1, 1),
    "abs": (_abs, 1, 1),
    "round": (_round, 1, 2),
    "range": (_range, 1, 2),
    "str": (text_of, 1, 1),
    "int": (_int, 1, 1),
    "float": (_float, 1, 1),
    "bool": (truth, 1, 1),
    "keys": (_keys, 1, 1),
    "values": (_values, 1, 1),
    "get": (_get, 2, 3),
    "has": (_has, 2, 2),
    "contains": (_contains, 2, 2),
    "append": (_append, 2, 2),
    "sorted": (_sorted, 1, 1),
    "join": (_join, 1, 2),
    "split": (_split, 2, 2),
    "upper": (_upper, 1, 1),
    "lower": (_lower, 1, 1),
    "trim": (_trim, 1, 1),
    "chunk": (_chunk, 2, 2),
}
