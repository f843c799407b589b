"""Which classes stored data may name, and how they are found.

Rules:

1. Nothing is imported, and no module's `__getattr__` is asked, because data names a class: only what is loaded counts.
2. A class has one name: the id it was registered under, else `module:qualname`.
3. This package knows no steps or workflows. Whoever owns them registers how they are named and found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from tenuto.errors import DuplicateIdError

__all__ = [
    "DESERIALIZE",
    "SERIALIZE",
    "Hooks",
    "class_name",
    "definition_of",
    "deserializer",
    "find_class",
    "find_definition",
    "hooks_of",
    "register_class",
    "register_definition_codec",
    "registered_id",
    "serializer",
    "unregister_class",
]

# The special methods of a class that stores itself.
SERIALIZE: Final = "__workflow_serialize__"
DESERIALIZE: Final = "__workflow_deserialize__"

_MARK: Final = "__tenuto_serialization__"
_Method = TypeVar("_Method")


class Hooks(NamedTuple):
    """How a registered class is stored: an object to plain data, and back."""

    serialize: Callable[[Any], Any]
    deserialize: Callable[[Any], Any]


class _Registered(NamedTuple):
    cls: type[Any]
    hooks: Hooks | None


_by_id: dict[str, _Registered] = {}
_ids: dict[type[Any], str] = {}


def register_class(
    class_id: str,
    cls: type[Any],
    serialize: Callable[[Any], Any] | None = None,
    deserialize: Callable[[Any], Any] | None = None,
) -> None:
    """Let stored data name a class by this id.

    With both functions, the special methods, or methods marked `serializer` and `deserializer`, its objects are stored
    by them. Without any, only the class itself (and its objects, if it is a dataclass or the like) can be stored.
    """
    known = _by_id.get(class_id)
    # A module that is loaded again defines its classes again; the newer one is the one in use.
    if known is not None and _place(known.cls) != _place(cls):
        raise DuplicateIdError(f"{class_id!r} is the id of {_place(known.cls)}; {_place(cls)} wants it too")
    hooks = _hooks_of_class(cls, serialize, deserialize)
    if known is not None:
        _ids.pop(known.cls, None)
    _by_id[class_id] = _Registered(cls, hooks)
    _ids[cls] = class_id


def unregister_class(class_id: str) -> None:
    """Forget a registration; for tests."""
    known = _by_id.pop(class_id, None)
    if known is not None:
        _ids.pop(known.cls, None)


def serializer(method: _Method) -> _Method:
    """Mark the method, of any name, that turns an object into plain data."""
    setattr(method, _MARK, SERIALIZE)
    return method


def deserializer(method: _Method) -> _Method:
    """Mark the class or static method, of any name, that turns plain data into an object."""
    setattr(method, _MARK, DESERIALIZE)
    return method


def _hooks_of_class(
    cls: type[Any], serialize: Callable[[Any], Any] | None, deserialize: Callable[[Any], Any] | None
) -> Hooks | None:
    serialize = serialize or _method(cls, SERIALIZE)
    deserialize = deserialize or _method(cls, DESERIALIZE)
    if serialize is None and deserialize is None:
        return None
    if serialize is None or deserialize is None:
        missing = "serializer" if serialize is None else "deserializer"
        raise TypeError(f"{_place(cls)} has no {missing}; a class needs both or none")
    return Hooks(serialize, deserialize)


def _method(cls: type[Any], special: str) -> Callable[[Any], Any] | None:
    """The method of this special name or mark, looked up on the class: plain, static and class methods all take the
    object or the data as their one argument then."""
    for base in cls.__mro__:
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            if name == special or special in (getattr(member, _MARK, None), getattr(function, _MARK, None)):
                return cast("Callable[[Any], Any]", getattr(cls, name))
    return None


def registered_id(cls: type[Any]) -> str | None:
    """The id a class was registered under."""
    return _ids.get(cls)


def hooks_of(cls: type[Any]) -> Hooks | None:
    """How the objects of a registered class are stored."""
    class_id = _ids.get(cls)
    return None if class_id is None else _by_id[class_id].hooks


def class_name(cls: type[Any]) -> str:
    """The name stored data has for a class."""
    return _ids.get(cls) or f"{_module_name(cls.__module__)}:{cls.__qualname__}"


def find_class(name: str) -> type[Any] | None:
    """The loaded class of this name, or none."""
    known = _by_id.get(name)
    if known is not None:
        return known.cls
    module_name, colon, qualname = name.partition(":")
    if not colon:
        return None
    for candidate in ("__main__", module_name) if module_name == _module_name("__main__") else (module_name,):
        module = sys.modules.get(candidate)
        found = None if module is None else _walk(vars(module), qualname)
        if found is not None:
            return found
    return None


def _walk(names: Mapping[str, Any], qualname: str) -> type[Any] | None:
    # Through the dictionaries, not by getattr: a module or metaclass may run code, even import, for a missing name.
    found: Any = None
    for part in qualname.split("."):
        found = names.get(part)
        if not isinstance(found, type):
            return None
        names = vars(found)
    return cast("type[Any] | None", found)


def _module_name(name: str) -> str:
    """A module's name; of the program itself the one other processes import it by."""
    if name != "__main__":
        return name
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return _stem(file) if file else name


@cache
def _stem(file: str) -> str:
    return PurePath(file).stem


def _place(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


# --- steps and workflows

Captured: TypeAlias = "dict[str, Any] | None"


class _DefinitionCodec(NamedTuple):
    describe: Callable[[Any], tuple[str, Captured]]
    find: Callable[[str, Captured], Any]


_definitions: dict[type[Any], _DefinitionCodec] = {}


def register_definition_codec(
    sort: type[Any],
    describe: Callable[[Any], tuple[str, Captured]],
    find: Callable[[str, Captured], Any],
) -> None:
    """Let objects of a class (steps, workflows), or of a subclass, be stored by their id.

    `describe` gives an object's id and its captured values, none if it captures nothing. `find` gives the object back,
    or raises `LookupError` when it has none of that id.
    """
    _definitions[sort] = _DefinitionCodec(describe, find)


def definition_of(value: Any) -> tuple[str, Captured] | None:
    """The id and captured values of a step or workflow; none if the value is neither."""
    for cls in type(value).__mro__:
        codec = _definitions.get(cls)
        if codec is not None:
            return codec.describe(value)
    return None


def find_definition(definition_id: str, captured: Captured) -> Any:
    """The step or workflow of this id; `LookupError` if none is loaded."""
    for codec in _definitions.values():
        try:
            return codec.find(definition_id, captured)
        except LookupError:
            continue
    raise LookupError(definition_id)
