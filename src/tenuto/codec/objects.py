"""Objects stored by their fields: dataclasses, named tuples, pydantic models, msgspec Structs.

pydantic and msgspec are never imported here: an object of theirs cannot exist before somebody has imported them.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, Flag
from typing import Any, Final, NamedTuple, cast

from tenuto.codec.classes import class_name, find_class, registered_id
from tenuto.codec.mentions import is_mentioned, line_to_add
from tenuto.codec.refusal import Refused
from tenuto.kernel.interrupts import is_imposed

__all__ = [
    "IMPORT_IT",
    "REGISTER_IT",
    "Form",
    "build",
    "check_findable",
    "form_of",
    "is_listed",
    "read_enum",
    "registered_class",
    "type_name",
]


class Form(NamedTuple):
    """How objects of one class are taken apart and put together."""

    required: frozenset[str]  # fields without a default
    fields: frozenset[str] | None  # all fields; none: the class takes any
    take: Callable[[Any], dict[str, Any]]
    make: Callable[[dict[str, Any]], Any]


IMPORT_IT: Final = "import its module in the worker"
REGISTER_IT: Final = "register it with serializable()"
_NOT_MENTIONED: Final = "no file of the project defines, imports or annotates it"

# Only of classes that modules hold anyway; those of functions come and go.
_forms: dict[type[Any], Form] = {}
_findable: dict[type[Any], str] = {}


def type_name(cls: type[Any]) -> str:
    """A class as people call it."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def form_of(cls: type[Any]) -> Form | None:
    """How objects of a class are stored by their fields; none if they are not."""
    form = _forms.get(cls)
    if form is None:
        form = _plan(cls)
        if form is not None and "<locals>" not in cls.__qualname__:
            _forms[cls] = form
    return form


def is_listed(cls: type[Any]) -> bool:
    """Whether stored data may name this class: registered, or of a sort whose objects can be stored."""
    return registered_id(cls) is not None or issubclass(cls, Enum | Exception) or form_of(cls) is not None


def registered_class(name: str) -> type[Any]:
    """The loaded class of this name, if stored data may build its objects."""
    cls = find_class(name)
    if cls is None:
        raise Refused(f"the class {name} is not loaded", name, IMPORT_IT)
    if registered_id(cls) is None and not is_mentioned(cls):
        raise Refused(f"the class {name} is loaded, but not registered: {_NOT_MENTIONED}", name, _mention(cls))
    return cls


def _mention(cls: type[Any]) -> str:
    return f"add {line_to_add(cls)!r} to a file of the project that the worker imports, or use serializable()"


def check_findable(cls: type[Any]) -> str:
    """The stored name of a class, if a reader would find the class by it."""
    # Kept with the name: a class registered after its first use has a new one.
    name = class_name(cls)
    if _findable.get(cls) != name:
        if "<locals>" in name:
            why = f"{type_name(cls)} is defined inside a function, where nobody could find it again"
            raise Refused(why, type_name(cls))
        if find_class(name) is not cls:
            raise Refused(f"{type_name(cls)} is not what {name} names, so it could not be found again", type_name(cls))
        if registered_id(cls) is None and not is_mentioned(cls) and not issubclass(cls, Exception):
            raise Refused(f"{type_name(cls)} is not registered: {_NOT_MENTIONED}", type_name(cls), _mention(cls))
        _findable[cls] = name
    return name


def build(name: str, cls: type[Any], form: Form, stored: dict[str, Any]) -> Any:
    """An object made of its stored fields; those the class no longer has are dropped."""
    if not form.required <= stored.keys():
        lost = ", ".join(sorted(form.required - stored.keys()))
        raise Refused(f"{name} was stored without {lost}, and there is no default", name, "give the field a default")
    if form.fields is not None and not stored.keys() <= form.fields:
        stored = {field: value for field, value in stored.items() if field in form.fields}
    try:
        return form.make(stored)
    except BaseException as error:  # the class's own code: it may raise anything
        if is_imposed(error):
            raise
        raise Refused(f"{name} did not take its stored fields: {type(error).__name__}", name, _FIX) from error


_FIX = "make the class accept what it once stored"


def read_enum(cls: type[Any], name: str, member: Any) -> Any:
    """The member of this name; of flags also an unnamed combination, by its number."""
    if not issubclass(cls, Enum):
        raise Refused(f"{name} is no longer an enum", name)
    if type(member) is str:
        found = cls.__members__.get(member)
        if found is None:
            raise Refused(f"{name} has no member {member!r}", name, "bring the member back")
        return found
    if type(member) is not int or not issubclass(cls, Flag):
        raise Refused(f"a member of {name} is malformed", name)
    combined: Any = None
    with suppress(ValueError, TypeError):
        combined = cls(member)
    # The first releases of Python 3.11 leave out the bits that a class does not have, as `boundary=CONFORM` does.
    if type(combined) is not cls or combined.value != member:
        raise Refused(f"{name} has no such combination", name, "bring the member back")
    return combined


def _plan(cls: type[Any]) -> Form | None:
    # "In its own dictionary": an undecorated subclass would lose what it adds.
    if "__dataclass_fields__" in vars(cls):
        return _dataclass_form(cls)
    if "_fields" in vars(cls) and issubclass(cls, tuple):
        return _named_tuple_form(cast("type[Any]", cls))
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if model is not None and issubclass(cls, model):
        return _pydantic_form(cls)
    struct = getattr(sys.modules.get("msgspec"), "Struct", None)
    if struct is not None and issubclass(cls, struct):
        return _struct_form(cls)
    return None


def _check_constructor(cls: type[Any], names: list[str]) -> None:
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        why = f"the constructor of {type_name(cls)} does not take exactly its fields, so it could not be built again"
        raise Refused(why, type_name(cls)) from None


def _dataclass_form(cls: type[Any]) -> Form:
    if any(base.__module__ == "builtins" and base is not object for base in cls.__mro__):
        raise Refused(f"{type_name(cls)} is also a built-in, whose content would be lost", type_name(cls))
    fields = dataclasses.fields(cls)
    names = [field.name for field in fields]
    late = [field.name for field in fields if not field.init]
    early = [field.name for field in fields if field.init]
    _check_constructor(cls, early)
    missing = dataclasses.MISSING
    required = {
        field.name for field in fields if field.init and field.default is missing and field.default_factory is missing
    }

    def take(value: Any) -> dict[str, Any]:
        try:
            return {name: getattr(value, name) for name in names}
        except AttributeError:  # a field that was never set
            return {name: getattr(value, name) for name in names if hasattr(value, name)}

    def make(stored: dict[str, Any]) -> Any:
        if not late:
            return cls(**stored)
        value = cls(**{name: stored[name] for name in early if name in stored})
        for name in late:
            if name in stored:
                object.__setattr__(value, name, stored[name])  # also where the class is frozen
        return value

    return Form(frozenset(required), frozenset(names), take, make)


def _named_tuple_form(cls: type[Any]) -> Form:
    names = cast("tuple[str, ...]", cls._fields)
    defaults = cast("dict[str, Any]", getattr(cls, "_field_defaults", {}))
    _check_constructor(cls, list(names))

    def take(value: Any) -> dict[str, Any]:
        return dict(zip(names, value, strict=True))

    def make(stored: dict[str, Any]) -> Any:
        return cls(**stored)

    return Form(frozenset(names) - defaults.keys(), frozenset(names), take, make)


def _pydantic_form(cls: Any) -> Form:
    fields: dict[str, Any] = cls.model_fields
    required = {name for name, field in fields.items() if field.is_required()}
    takes_any = cls.model_config.get("extra") == "allow"

    def take(value: Any) -> dict[str, Any]:
        values: dict[str, Any] = value.__dict__
        taken = {name: values[name] for name in fields if name in values}
        return {**taken, **(value.__pydantic_extra__ or {})} if takes_any else taken

    def make(stored: dict[str, Any]) -> Any:
        return cls.model_construct(**stored)  # validators ran when the value was made

    return Form(frozenset(required), None if takes_any else frozenset(fields), take, make)


def _struct_form(cls: Any) -> Form:
    structs = sys.modules["msgspec"].structs
    infos = structs.fields(cls)
    required = {info.name for info in infos if info.required}
    names = [info.name for info in infos]

    def take(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}

    def make(stored: dict[str, Any]) -> Any:
        return cls(**stored)

    return Form(frozenset(required), frozenset(names), take, make)
