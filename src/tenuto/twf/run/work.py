"""Fuel: what a statement or an expression uses up of the work that a turn may do (TWF605).

Rules:

1. A statement, a pass of a loop or a call is `CALL` units; what goes through lists, maps or text is besides a
   sixteenth of their length. Units are taken before the work is done, and no single piece of work goes through more
   than variables may hold: no expression can be endless.
2. Units depend on values only: the same program uses the same number on every replay (P7).
3. Whatever suspends fills the fuel up again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .faults import Stopped
from .frames import CALL, Frame
from .operators import BINARY
from .settings import settings
from .values import Record, is_list, is_map, length_of, weight_of

__all__ = ["CALL", "MEMBERS_A_UNIT", "Operation", "operation", "spend", "spend_members", "weight"]

MEMBERS_A_UNIT: Final = 16
_SIZED: Final = frozenset({str, list, dict, Record})

Operation: TypeAlias = Callable[[Frame, Any, Any], Any]
Apply: TypeAlias = Callable[[Any, Any], Any]


def spend(frame: Frame, units: int) -> None:
    """Take units; the host stops the code when none are left."""
    budget = frame.budget
    budget.left -= units
    if budget.left < 0:
        frame.host.out_of_budget()


def spend_members(frame: Frame, members: int) -> None:
    """Take what going through that many members or characters costs."""
    if members > settings.variable_bytes:
        raise Stopped(
            "TWF605", f"one expression goes through more than {settings.variable_bytes:,} members or characters"
        )
    if members >= MEMBERS_A_UNIT:
        spend(frame, members // MEMBERS_A_UNIT)


def weight(value: Any) -> int:
    """How many members and characters a value has at every depth, or one more than an expression may go through."""
    return weight_of(value, settings.variable_bytes)


def operation(op: str) -> Operation:
    """The operator over values in a frame, paid for by what it goes through."""
    apply = BINARY[op]
    if op == "+":
        return _adding(apply)
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return _comparing(apply)
    return lambda frame, left, right: apply(left, right)


def spend_comparison(frame: Frame, left: Any, right: Any) -> None:
    """Take what comparing two values may cost: nothing where a glance decides."""
    if left is right or length_of(left) != length_of(right):
        return
    if is_list(left) or is_map(left):
        spend_members(frame, weight(left))
    else:
        spend_members(frame, length_of(left))


def _adding(apply: Apply) -> Operation:
    def add(frame: Frame, left: Any, right: Any) -> Any:
        if type(left) in _SIZED or type(right) in _SIZED:
            spend_members(frame, length_of(left) + length_of(right))
        return apply(left, right)

    return add


def _comparing(apply: Apply) -> Operation:
    def compare(frame: Frame, left: Any, right: Any) -> Any:
        if type(left) in _SIZED:
            spend_comparison(frame, left, right)
        return apply(left, right)

    return compare
