"""Operators on values, each with the kinds it takes (TWF502, TWF507)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from .faults import Fault
from .values import equal, kind_of, text_of

__all__ = ["BINARY", "add", "is_number", "negate", "order"]

T = TypeVar("T")

_TEXT_PARTNERS: Final = (str, int, float, bool)


def is_number(value: Any) -> bool:
    """An int or float; a bool is no number."""
    return type(value) is int or type(value) is float


def _wrong(op: str, left: Any, right: Any) -> Fault:
    return Fault("TWF502", f"{op} does not take {kind_of(left)} and {kind_of(right)}")


def add(left: Any, right: Any) -> Any:
    sort: type[Any] = left.__class__
    other: type[Any] = right.__class__
    if is_number(left) and is_number(right):
        return _number(left + right)
    if sort is str and other in _TEXT_PARTNERS:
        return left + text_of(right)
    if other is str and sort in _TEXT_PARTNERS:
        return text_of(left) + right
    if sort is list and other is list:
        return [*left, *right]
    if (sort is timedelta and other in (timedelta, datetime)) or (sort is datetime and other is timedelta):
        return _in_range(lambda: left + right)
    raise _wrong("+", left, right)


def subtract(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _number(left - right)
    sort: type[Any] = left.__class__
    other: type[Any] = right.__class__
    if (sort is timedelta and other is timedelta) or (sort is datetime and other in (datetime, timedelta)):
        return _in_range(lambda: left - right)
    raise _wrong("-", left, right)


def multiply(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _number(left * right)
    if type(left) is timedelta and is_number(right):
        return _scaled(left, right)
    if type(right) is timedelta and isinstance(left, int | float) and is_number(left):
        return _scaled(right, left)
    raise _wrong("*", left, right)


def _scaled(duration: timedelta, by: float) -> timedelta:
    return _in_range(lambda: duration * by)


def divide(left: Any, right: Any) -> Any:
    if is_number(right) and (is_number(left) or type(left) is timedelta):
        if right == 0:
            raise Fault("TWF507", "division by zero")
        return _in_range(lambda: left / right)
    if type(left) is timedelta and type(right) is timedelta:
        if not right:
            raise Fault("TWF507", "division by zero")
        return left / right
    raise _wrong("/", left, right)


def remainder(left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise _wrong("%", left, right)
    if right == 0:
        raise Fault("TWF507", "division by zero")
    return left % right


def _number(value: Any) -> Any:
    # Numbers that no store could hold would only fail later, where nobody sees why.
    if type(value) is int and value.bit_length() > 4096:
        raise Fault("TWF502", "a number became too large")
    return value


def _in_range(make: Callable[[], T]) -> T:
    try:
        return make()
    except (OverflowError, ValueError):
        raise Fault("TWF502", "a number, duration or timestamp became too large") from None


def order(left: Any, right: Any, op: str = "<") -> int:
    """Negative, zero or positive, for two values that have an order."""
    sort: type[Any] = left.__class__
    if (is_number(left) and is_number(right)) or (sort is type(right) and sort in (str, timedelta, datetime)):
        return int(left > right) - int(left < right)
    raise _wrong(op, left, right)


def negate(value: Any) -> Any:
    if is_number(value) or type(value) is timedelta:
        return -value
    raise Fault("TWF502", f"- does not take {kind_of(value)}")


def _less(left: Any, right: Any) -> bool:
    return order(left, right, "<") < 0


def _at_most(left: Any, right: Any) -> bool:
    return order(left, right, "<=") <= 0


def _greater(left: Any, right: Any) -> bool:
    return order(left, right, ">") > 0


def _at_least(left: Any, right: Any) -> bool:
    return order(left, right, ">=") >= 0


def _differ(left: Any, right: Any) -> bool:
    return not equal(left, right)


def _equal(left: Any, right: Any) -> bool:
    return equal(left, right)


BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "==": _equal,
    "!=": _differ,
    "<": _less,
    "<=": _at_most,
    ">": _greater,
    ">=": _at_least,
}
