"""Exceptions as data.

Rules:

1. Any exception can be stored: what of it cannot be encoded, or is too much, is left out.
2. An exception is rebuilt as class, arguments and attributes, by `cls.__new__`; `__init__` does not run, because it
   made the arguments and attributes once and may want others.
3. A class that is not loaded here, or no `Exception`, gives a `RemoteError`, never a failure.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from tenuto.codec import tags
from tenuto.codec.classes import class_name, find_class
from tenuto.codec.refusal import Refused, is_dict, is_list
from tenuto.errors import LimitError, RemoteError

if TYPE_CHECKING:
    from tenuto.codec.writing import Writer

__all__ = ["read_exception", "traceback_text", "write_exception"]

MESSAGE_BYTES: Final = 8 * 1024
TRACEBACK_BYTES: Final = 16 * 1024
CAUSES: Final = 8
_NOTES: Final = 32

_ARRAY: Final = 4
_MAP: Final = 5

# Where a rebuilt exception keeps the text of the traceback it was stored with.
_TRACEBACK: Final = "__tenuto_traceback__"
_NOT_ATTRIBUTES: Final = frozenset({_TRACEBACK, "__notes__"})
# Members of built-in exceptions that `args` or group members say already, or that hold whatever was at hand.
_NOT_MEMBERS: Final = frozenset({"args", "obj", "message", "exceptions"})


def traceback_text(error: BaseException) -> str | None:
    """Where an exception came from: as stored if it was, else where it has been raised here."""
    stored = error.__dict__.get(_TRACEBACK)
    if type(stored) is str:
        return stored
    if error.__traceback__ is None:
        return None
    return "".join(traceback.format_tb(error.__traceback__))


def write_exception(writer: Writer, error: BaseException) -> None:
    """Append an exception; if all of it is too much, only what it says of itself."""
    try:
        encoded = _apart(writer, error, CAUSES)
    except LimitError:
        encoded = writer.collect(lambda: _write(writer, error, None))
    writer.out += encoded


def _apart(writer: Writer, error: BaseException, causes: int) -> bytes:
    def write() -> None:
        _write(writer, error, causes)
        writer.check_size()

    return writer.collect(write)


def _write(writer: Writer, error: BaseException, causes: int | None) -> None:
    """Append an exception with so many levels of causes; none: without anything of unknown size."""
    writer.enter()
    fields: dict[str, bytes] = {
        "t": writer.apart(_cut(class_name(type(error)), MESSAGE_BYTES)),
        "m": writer.apart(_cut(_message(error), MESSAGE_BYTES)),
    }
    if causes is not None:
        _add_contents(writer, error, fields)
    elif error.args:
        fields["a"] = writer.apart(None)
    notes = _notes(error)
    if notes:
        fields["n"] = writer.apart(notes if causes is not None else notes[:1])
    text = traceback_text(error)
    if text:
        fields["b"] = writer.apart(_cut_front(text, TRACEBACK_BYTES))
    if causes:
        _add_others(writer, error, causes - 1, fields)
    writer.tag(tags.EXCEPTION)
    _write_fields(writer, {writer.apart(name): encoded for name, encoded in fields.items()})
    writer.leave()


def _write_fields(writer: Writer, fields: dict[bytes, bytes]) -> None:
    writer.head(_MAP, len(fields))
    for name, encoded in fields.items():
        writer.out += name + encoded


def _add_contents(writer: Writer, error: BaseException, fields: dict[str, bytes]) -> None:
    # Of a group the members are stored as such, not as an argument.
    args = error.args[:1] if _is_group(error) else error.args
    if args:
        fields["a"] = _try(writer, list(args)) or writer.apart(None)
    writer.enter()
    attributes: dict[bytes, bytes] = {}
    for name, value in _attributes(error).items():
        key, encoded = _try(writer, name), _try(writer, value)
        if key is not None and encoded is not None:
            attributes[key] = encoded
    if attributes:
        fields["d"] = writer.collect(lambda: _write_fields(writer, attributes))
    writer.leave()


def _try(writer: Writer, value: Any) -> bytes | None:
    """The bytes of a value, if it has any and they are not too many."""

    def write() -> None:
        writer.value(value)
        writer.check_size()

    try:
        return writer.collect(write)
    except (Refused, LimitError):
        return None


def _add_others(writer: Writer, error: BaseException, causes: int, fields: dict[str, bytes]) -> None:
    """The exceptions that hang on this one, each with as many levels of its own as are left."""
    if error.__cause__ is not None:
        fields["c"] = _apart(writer, error.__cause__, causes)
    if error.__context__ is not None and not error.__suppress_context__:
        fields["x"] = _apart(writer, error.__context__, causes)
    if _is_group(error):
        fields["g"] = writer.collect(lambda: _write_members(writer, error.exceptions, causes))


def _write_members(writer: Writer, members: Sequence[BaseException], causes: int) -> None:
    writer.enter()
    writer.head(_ARRAY, len(members))
    for member in members:
        _write(writer, member, causes)
        writer.check_size()
    writer.leave()


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)


def _notes(error: BaseException) -> list[str]:
    notes = error.__dict__.get("__notes__")
    if not is_list(notes):
        return []
    return [_cut(note, MESSAGE_BYTES) for note in notes[:_NOTES] if type(note) is str]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  # the class's own code; a broken text must not hide the error
        return f"(its text could not be made: {type(broken).__name__})"


def _cut(text: str, limit: int) -> str:
    """The beginning of a text, as much as fits; a lone surrogate becomes a question mark."""
    encoded = text[: limit + 1].encode(errors="replace")  # a character takes a byte or more: the rest is not copied
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode(errors="ignore") + "…"


def _cut_front(text: str, limit: int) -> str:
    """The end of a text, where a traceback says most."""
    encoded = text[-limit - 1 :].encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return "…" + encoded[3 - limit :].decode(errors="ignore")


def _attributes(error: BaseException) -> dict[str, Any]:
    found = {name: value for name, value in error.__dict__.items() if name not in _NOT_ATTRIBUTES}
    # Built-in classes and slots keep some outside the dictionary, where only `__init__` would set them.
    for name in _members(type(error)):
        value = getattr(error, name, None)
        if value is not None:
            found.setdefault(name, value)
    return found


def _members(cls: type[BaseException]) -> set[str]:
    return {
        name
        for base in cls.__mro__[: cls.__mro__.index(BaseException)]
        for name, member in vars(base).items()
        if type(member) in (MemberDescriptorType, GetSetDescriptorType)
        and name not in _NOT_MEMBERS
        and not name.startswith("__")
    }


# --- reading


def read_exception(content: Any) -> BaseException:
    """The exception that was stored so."""
    fields = _checked(content)
    error = _rebuild(fields)
    _set_attributes(error, fields.get("d", {}))
    if "n" in fields:
        error.__notes__ = fields["n"]
    if "b" in fields:
        error.__dict__[_TRACEBACK] = fields["b"]
    # Setting a cause suppresses the context, as `raise … from` does; a stored context was not suppressed.
    error.__cause__ = fields.get("c")
    error.__context__ = fields.get("x")
    error.__suppress_context__ = "c" in fields and "x" not in fields
    return error


def _checked(content: Any) -> dict[str, Any]:
    if not is_dict(content):
        raise Refused("an exception is not a map")
    fields = content
    if not {"t", "m"} <= fields.keys() <= _SORTS.keys():
        raise Refused("an exception has unknown fields, or no class or message")
    for name, value in fields.items():
        if not isinstance(value, _SORTS[name]):
            raise Refused(f"the field {name} of an exception is malformed")
    if not all(type(note) is str for note in fields.get("n", ())):
        raise Refused("a note of an exception is not a text")
    if not all(isinstance(member, BaseException) for member in fields.get("g", ())):
        raise Refused("a member of an exception group is none")
    if not all(type(name) is str for name in fields.get("d", ())):
        raise Refused("an attribute of an exception has no name")
    return fields


_SORTS: Final[dict[str, Any]] = {
    "t": str,
    "m": str,
    "a": (list, type(None)),
    "d": dict,
    "n": list,
    "b": str,
    "c": BaseException,
    "x": BaseException,
    "g": list,
}


def _rebuild(fields: dict[str, Any]) -> BaseException:
    name: str = fields["t"]
    message: str = fields["m"]
    cls = find_class(name)
    if cls is None or not issubclass(cls, Exception):
        return RemoteError(name, message)  # others would end the process, or the run, where they are raised again
    stored = fields.get("a", [])
    args: list[Any] = [message] if stored is None else stored
    if issubclass(cls, BaseExceptionGroup):
        args = [*args[:1], fields.get("g", [])]
    try:
        error = _new(cls, args)
    except Exception:  # noqa: BLE001  # the class's own code: it may want anything
        return RemoteError(name, message)
    return error if isinstance(error, BaseException) else RemoteError(name, message)


def _new(cls: Any, args: list[Any]) -> Any:
    return cls.__new__(cls, *args)


def _set_attributes(error: BaseException, attributes: dict[str, Any]) -> None:
    members = _members(type(error))
    for name, value in attributes.items():
        if name in members:
            try:
                BaseException.__setattr__(error, name, value)
            except (AttributeError, TypeError, ValueError, OverflowError):
                continue  # read-only, or no longer of that sort
        else:
            error.__dict__[name] = value
