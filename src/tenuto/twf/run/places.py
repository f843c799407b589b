"""What can be assigned to: a name, a field, an item; and binding results to names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from ..ast import Assign, Expr, FieldAccess, Ident, Index, Name
from .expressions import compile_expression, field_of, item_of, read_name
from .faults import Fault
from .frames import Frame
from .names import SHARED, Names
from .values import is_list, is_map, kind_of
from .work import operation

__all__ = ["Bind", "Store", "compile_assign", "compile_binding", "compile_store"]

Store: TypeAlias = Callable[[Frame, Any], None]
Bind: TypeAlias = Callable[[Frame, Any], None]


def _size(value: Any) -> int:
    """About how much an assignment adds, at a glance."""
    return len(cast("str", value)) if type(value) in (str, list, dict) else 1


def compile_store(name: str, names: Names) -> Store:
    """Assigns a variable."""
    slot = names.slot(name)
    if slot is None:

        def nowhere(frame: Frame, value: Any) -> None:
            raise Fault("TWF501", f"{name} is no variable here")

        return nowhere
    if slot == SHARED:

        def shared(frame: Frame, value: Any) -> None:
            frame.shared[name] = value
            frame.host.changed = True
            frame.budget.grown += _size(value)

        return shared

    def local(frame: Frame, value: Any) -> None:
        frame.locals[slot][name] = value
        frame.budget.grown += _size(value)

    return local


def compile_binding(result: Sequence[Ident], names: Names) -> Bind | None:
    """`-> r` binds the value; `-> (a, b)` a list of that length, or a map with those keys."""
    if not result:
        return None
    if len(result) == 1:
        return compile_store(result[0].name, names)
    keys = [ident.name for ident in result]
    stores = [compile_store(key, names) for key in keys]

    def unpack(frame: Frame, value: Any) -> None:
        for store, part in zip(stores, _parts(value, keys), strict=True):
            store(frame, part)

    return unpack


def _parts(value: Any, keys: list[str]) -> list[Any]:
    if is_list(value):
        if len(value) == len(keys):
            return value
        raise Fault("TWF506", f"a list of {len(value)} cannot be unpacked into {len(keys)} names")
    if is_map(value):
        missing = [key for key in keys if key not in value]
        if missing:
            raise Fault("TWF506", f"the map has no {', '.join(missing)} to be unpacked")
        return [value[key] for key in keys]
    raise Fault("TWF506", f"{kind_of(value)} cannot be unpacked into {len(keys)} names")


# --- assignments


def compile_assign(node: Assign, names: Names) -> Callable[[Frame], None]:
    value = compile_expression(node.value, names)
    place: Expr = node.place
    operator = None if node.op == "=" else operation(node.op[:-1])
    if isinstance(place, Name):
        store = compile_store(place.name, names)
        if operator is None:
            return lambda frame: store(frame, value(frame))
        read = read_name(place.name, names)
        return lambda frame: store(frame, operator(frame, read(frame), value(frame)))
    if isinstance(place, FieldAccess):
        owner, key = compile_expression(place.value, names), place.field.name

        def set_field(frame: Frame) -> None:
            given = value(frame)
            target = owner(frame)
            if operator is not None:
                given = operator(frame, field_of(target, key), given)
            if not isinstance(target, dict):
                raise Fault("TWF503", f"{kind_of(target)} has no field {key}")
            _change(frame, cast("dict[str, Any]", target), key, given)

        return set_field
    if isinstance(place, Index):
        owner, index = compile_expression(place.value, names), compile_expression(place.index, names)

        def set_item(frame: Frame) -> None:
            given = value(frame)
            target, at = owner(frame), index(frame)
            if isinstance(target, dict) and type(at) is str:
                if operator is not None:
                    given = operator(frame, item_of(cast("object", target), at), given)
                _change(frame, cast("dict[str, Any]", target), at, given)
                return
            before = item_of(cast("object", target), at)  # raises unless there is such an item
            _change(frame, cast("list[Any]", target), at, given if operator is None else operator(frame, before, given))

        return set_item
    raise AssertionError(place)  # the parser lets nothing else through


def _change(frame: Frame, target: Any, key: Any, value: Any) -> None:
    target[key] = value
    frame.host.changed = True
    frame.budget.grown += _size(value)
