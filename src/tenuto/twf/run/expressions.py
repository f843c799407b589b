"""Expressions as Python closures: made once per program, called with a frame.

A closure raises `Fault` without a place; the statement it belongs to adds file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, assert_never

from ..ast import (
    Argument,
    Binary,
    Bool,
    CallExpr,
    Construct,
    Duration,
    Expr,
    FieldAccess,
    Group,
    Index,
    ListExpr,
    MapExpr,
    Name,
    Null,
    Number,
    String,
    Unary,
)
from ..builtins import ACTIVITY_BUILTINS, WORKFLOW_BUILTINS
from ..survey import dotted_name
from .faults import Fault
from .frames import Frame
from .functions import PURE, append_to
from .names import SHARED, Names
from .operators import negate
from .values import Record, is_list, is_map, kind_of, truth
from .work import CALL, operation, spend, spend_members

__all__ = ["Arguments", "Value", "compile_arguments", "compile_expression", "field_of", "item_of", "read_name"]

Value: TypeAlias = Callable[[Frame], Any]
Arguments: TypeAlias = Callable[[Frame], tuple[list[Any], dict[str, Any]]]


def compile_expression(node: Expr, names: Names) -> Value:
    """The closure that gives an expression's value."""
    match node:
        case Name():
            return read_name(node.name, names)
        case Number() | String() | Bool():
            return _constant(node.value)
        case Duration():
            return _duration(node)
        case Null():
            return _constant(None)
        case Group():
            return compile_expression(node.value, names)
        case Binary():
            return _binary(node, names)
        case Unary():
            return _unary(node, names)
        case CallExpr():
            return _call(node, names)
        case Index():
            return _index(compile_expression(node.value, names), compile_expression(node.index, names))
        case FieldAccess():
            return _field(compile_expression(node.value, names), node.field.name)
        case Construct():
            return _construct(node, names)
        case MapExpr():
            entries = [(entry.key.name, compile_expression(entry.value, names)) for entry in node.entries]
            return lambda frame: {key: value(frame) for key, value in entries}
        case ListExpr():
            items = [compile_expression(item, names) for item in node.items]
            return lambda frame: [item(frame) for item in items]
        case _:
            assert_never(node)


def _duration(node: Duration) -> Value:
    try:
        return _constant(timedelta(seconds=node.seconds))
    except OverflowError:

        def too_long(frame: Frame) -> Any:
            raise Fault("TWF502", f"{node.text} is too long a duration")

        return too_long


def _constant(value: Any) -> Value:
    return lambda frame: value


def read_name(name: str, names: Names) -> Value:
    """Reads a variable; one that is not assigned yet is null."""
    slot = names.slot(name)
    if slot is None:

        def unknown(frame: Frame) -> Any:
            raise Fault("TWF501", f"{name} is assigned nowhere")

        return unknown
    if slot == SHARED:
        return lambda frame: frame.shared.get(name)
    return lambda frame: frame.locals[slot].get(name)


# --- operators


def _binary(node: Binary, names: Names) -> Value:
    left, right = compile_expression(node.left, names), compile_expression(node.right, names)
    if node.op == "and":
        return lambda frame: right(frame) if truth(value := left(frame)) else value
    if node.op == "or":
        return lambda frame: value if truth(value := left(frame)) else right(frame)
    apply = operation(node.op)
    return lambda frame: apply(frame, left(frame), right(frame))


def _unary(node: Unary, names: Names) -> Value:
    operand = compile_expression(node.operand, names)
    if node.op == "not":
        return lambda frame: not truth(operand(frame))
    return lambda frame: negate(operand(frame))


# --- parts of values


def field_of(value: Any, key: str) -> Any:
    """`x.f`"""
    if not is_map(value):
        raise Fault("TWF503", f"{kind_of(value)} has no field {key}")
    if key not in value:
        raise Fault("TWF503", f"there is no field {key}; there is: {', '.join(value) or 'none'}")
    return value[key]


def item_of(value: Any, key: Any) -> Any:
    """`x[i]`"""
    if is_list(value):
        items = value
        if type(key) is not int:
            raise Fault("TWF502", f"a list is indexed by a whole number, not {kind_of(key)}")
        if not 0 <= key < len(items):
            raise Fault("TWF504", f"index {key} of a list of {len(items)}")
        return items[key]
    if is_map(value):
        if type(key) is not str:
            raise Fault("TWF502", f"a map is indexed by a string, not {kind_of(key)}")
        if key not in value:
            raise Fault("TWF503", f'there is no key "{key}"')
        return value[key]
    raise Fault("TWF502", f"{kind_of(value)} cannot be indexed")


def _field(value: Value, key: str) -> Value:
    return lambda frame: field_of(value(frame), key)


def _index(value: Value, index: Value) -> Value:
    return lambda frame: item_of(value(frame), index(frame))


def _construct(node: Construct, names: Names) -> Value:
    name = node.name.name
    fields = [
        (field.key.name, compile_expression(field.value, names)) for field in node.fields if field.key is not None
    ]
    return lambda frame: Record(name, {key: value(frame) for key, value in fields})


# --- calls


def compile_arguments(args: Sequence[Argument], names: Names) -> Arguments:
    """The positional and the named arguments of a call."""
    positional = [compile_expression(arg.value, names) for arg in args if arg.key is None]
    named = [(arg.key.name, compile_expression(arg.value, names)) for arg in args if arg.key is not None]
    if not named:
        return lambda frame: ([value(frame) for value in positional], {})
    return lambda frame: ([value(frame) for value in positional], {key: value(frame) for key, value in named})


def _call(node: CallExpr, names: Names) -> Value:
    arguments = compile_arguments(node.args, names)
    dotted = dotted_name(node.callee)
    if dotted is None or ("." in dotted[0] and names.slot(dotted[1].name) is not None):
        return _method(node, arguments, names)
    name = dotted[0]
    if name in PURE:
        return _pure(name, arguments)
    own = WORKFLOW_BUILTINS if names.in_workflow else ACTIVITY_BUILTINS
    if name in own:

        def builtin(frame: Frame) -> Any:
            args, kwargs = arguments(frame)
            spend(frame, CALL)
            try:
                return frame.host.builtin(name)(*args, **kwargs)
            except TypeError:
                raise Fault("TWF505", f"the arguments of {name}() do not fit") from None

        return builtin

    def function(frame: Frame) -> Any:
        host = frame.host.function(name)
        args, kwargs = arguments(frame)
        spend(frame, CALL)
        return host(*args, **kwargs)

    return function


def _pure(name: str, arguments: Arguments) -> Value:
    function, least, most, cost = PURE[name]

    def pure(frame: Frame) -> Any:
        args, kwargs = arguments(frame)
        if kwargs or not least <= len(args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}" if most < 100 else f"at least {least}"
            raise Fault("TWF505", f"{name}() takes {wanted} arguments by position")
        try:
            spend(frame, CALL)
            if cost is not None:
                spend_members(frame, cost(*args))
            return function(*args)
        except RecursionError:
            raise Fault("TWF502", f"{name}() was given a value that is nested too deeply") from None

    return pure


def _method(node: CallExpr, arguments: Arguments, names: Names) -> Value:
    callee = node.callee
    if not isinstance(callee, FieldAccess):

        def nothing(frame: Frame) -> Any:
            raise Fault("TWF502", "only functions and methods can be called")

        return nothing
    owner = compile_expression(callee.value, names)
    method = callee.field.name

    def call(frame: Frame) -> Any:
        value = owner(frame)
        if method != "append" or not is_list(value):
            raise Fault("TWF502", f"{kind_of(value)} has no method {method}; lists have append")
        args, kwargs = arguments(frame)
        if kwargs or len(args) != 1:
            raise Fault("TWF505", "append() takes one value")
        spend(frame, CALL)
        append_to(value, args[0])
        frame.host.changed = True
        frame.budget.grown += 8
        return None

    return call
