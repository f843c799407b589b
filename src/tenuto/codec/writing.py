"""Values that are more than plain, as CBOR.

Rules:

1. A value has one form: definite lengths, shortest integers, maps in insertion order, sets sorted by their bytes.
2. Exact types only. A subclass of a built-in would come back as the built-in, so it is refused.
3. One level of nesting is one container or object; a cycle ends at the limit of levels, wide sharing at that of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Final
from uuid import UUID

import cbor2

from tenuto.codec import tags, texts
from tenuto.codec.classes import Hooks, definition_of, hooks_of
from tenuto.codec.crowds import MOST, WHAT, crowd_of
from tenuto.codec.exceptions import write_exception
from tenuto.codec.limits import ValueLimits
from tenuto.codec.objects import Form, check_findable, form_of, is_listed, type_name
from tenuto.codec.refusal import Refused, key_part, what_instead
from tenuto.errors import LimitError
from tenuto.kernel.interrupts import is_imposed

__all__ = ["SCALARS", "SIZED", "Writer", "size_of", "too_deep"]

SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
SIZED: Final = frozenset({str, bytes})
_MANY: Final = 16  # so many scalars are worth a call of cbor2

_ARRAY: Final = 4
_MAP: Final = 5
_TAG: Final = 6


class Writer:
    """Bytes being written. `Refused` comes out for what has no form, `LimitError` for too much."""

    __slots__ = ("_levels", "_limits", "out")

    def __init__(self, limits: ValueLimits) -> None:
        self.out = bytearray()
        self._limits = limits
        self._levels = 0

    def value(self, value: object) -> None:
        """Append any value."""
        # Short texts and small numbers at once: arguments and results are mostly made of them.
        if type(value) is str and len(value) < 24 and value.isascii():
            self.out.append(0x60 | len(value))
            self.out += value.encode()
        elif type(value) is int and 0 <= value < 24:
            self.out.append(value)
        else:
            cls = type(value)
            write = _WRITERS.get(cls) or _writer_for(cls)
            write(self, value)

    def apart(self, value: Any) -> bytes:
        """The bytes of a value at this place, not appended."""
        return self.collect(lambda: self.value(value))

    def collect(self, write: Callable[[], None]) -> bytes:
        """What a function appends, not appended."""
        before = self.out
        levels = self._levels
        self.out = bytearray()
        try:
            write()
            return bytes(self.out)
        finally:
            self.out = before
            self._levels = levels

    def head(self, major: int, number: int) -> None:
        """Append the head of an item: its sort, and a length, count or tag in the fewest bytes."""
        if number < 24:
            self.out.append(major << 5 | number)
        elif number < 1 << 8:
            self.out += bytes((major << 5 | 24, number))
        elif number < 1 << 16:
            self.out.append(major << 5 | 25)
            self.out += number.to_bytes(2, "big")
        else:
            self.out.append(major << 5 | 26)
            self.out += number.to_bytes(4, "big")  # nothing we count goes further

    def tag(self, number: int) -> None:
        self.head(_TAG, number)

    def scalar(self, value: float | str | bytes | None) -> None:
        """Append a number, text, bytes, None or bool."""
        if (type(value) is str or type(value) is bytes) and len(value) > self._limits.size - len(self.out):
            raise LimitError("encoded value", self._limits.size, len(self.out) + len(value))  # before it is copied
        try:
            self.out += cbor2.dumps(value)
        except UnicodeEncodeError:
            raise Refused("a text with half a surrogate pair has no UTF-8 form", "str") from None

    def array(self, items: Iterable[Any]) -> None:
        """Append a sequence of values, as one level."""
        held = tuple(items)  # user code may run below and must not change what the count has promised
        self.enter()
        if len(held) > _MANY and SCALARS.issuperset(map(type, held)):
            self._check_room(held)
            with suppress(UnicodeEncodeError):  # then below, where the item is named
                self.out += cbor2.dumps(held)
                self.leave()
                return
        self.head(_ARRAY, len(held))
        index = 0
        try:
            for item in held:
                self.value(item)
                index += 1
        except Refused as refused:
            refused.parts.append(f"[{index}]")
            raise
        self.leave()

    def _check_room(self, scalars: Collection[Any]) -> None:
        """Whether texts and bytes would be too much, before they are copied."""
        size = len(self.out) + size_of(scalars, set(map(type, scalars)))
        if size > self._limits.size:
            raise LimitError("encoded value", self._limits.size, size)

    def map(self, items: Iterable[tuple[Any, Any]]) -> None:
        """Append keys and values, as one level."""
        held = tuple(items)
        if len(held) > MOST:
            _check_crowd([key for key, _ in held])
        self.enter()
        self.head(_MAP, len(held))
        key: Any = None
        try:
            for key, item in held:
                self.value(key)
                self.value(item)
        except Refused as refused:
            refused.parts.append(key_part(key))
            raise
        self.leave()

    def pair(self, tag: int, name: str) -> None:
        """Append a tag and the first of its two items, a name; the caller appends the second."""
        self.tag(tag)
        self.head(_ARRAY, 2)
        self.scalar(name)

    def enter(self) -> None:
        """One level down, unless that is too deep or too much has been written already."""
        self._levels += 1
        if self._levels > self._limits.depth:
            raise too_deep(self._limits.depth, self._levels)
        self.check_size()

    def check_size(self, more: int = 0) -> None:
        if len(self.out) + more > self._limits.size:
            raise LimitError("encoded value", self._limits.size, len(self.out) + more)

    def leave(self) -> None:
        """One level up."""
        self._levels -= 1


def too_deep(limit: int, levels: int) -> LimitError:
    """What is nested too deep, or contains itself."""
    return LimitError("nesting of a value", limit, levels, "make it flatter; this limit cannot be raised")


def _write_tuple(writer: Writer, value: tuple[Any, ...]) -> None:
    writer.tag(tags.TUPLE)
    writer.array(value)


def _write_dict(writer: Writer, value: dict[Any, Any]) -> None:
    writer.map(value.items())


def _write_set(writer: Writer, value: set[Any]) -> None:
    _write_members(writer, tags.SET, value)


def _write_frozenset(writer: Writer, value: frozenset[Any]) -> None:
    _write_members(writer, tags.FROZENSET, value)


def _check_crowd(keys: Collection[Any]) -> None:
    if crowd := crowd_of(keys):
        raise LimitError(WHAT, MOST, crowd, "use other keys, or a list; this limit cannot be raised")


def size_of(scalars: Collection[Any], kinds: set[type]) -> int:
    """At least so many bytes will the texts and bytes among these take; `kinds` are the types there are."""
    return sum(map(len, scalars)) if kinds <= SIZED else sum([len(one) for one in scalars if type(one) in SIZED])


def _write_members(writer: Writer, tag: int, members: Collection[Any]) -> None:
    # Sorted by bytes: the order of a set depends on the process, its bytes in history must not.
    _check_crowd(members)
    writer.enter()
    encoded: list[bytes] = []
    size = 0
    try:
        for member in members:
            encoded.append(writer.apart(member))
            size += len(encoded[-1])
            writer.check_size(size)
        encoded.sort()
    except Refused as refused:
        refused.parts.append("{}")
        raise
    writer.tag(tag)
    writer.head(_ARRAY, len(encoded))
    writer.out += b"".join(encoded)
    writer.leave()


def _write_datetime(writer: Writer, value: datetime) -> None:
    text = texts.timestamp_text(value)
    writer.tag(tags.LOCAL_TIME if text is None else tags.TIMESTAMP)
    writer.out += cbor2.dumps(texts.local_time_fields(value) if text is None else text)


def _write_date(writer: Writer, value: date) -> None:
    writer.tag(tags.DATE)
    writer.scalar(value.isoformat())


def _write_time(writer: Writer, value: time) -> None:
    writer.tag(tags.TIME)
    writer.out += cbor2.dumps(texts.time_fields(value))


def _write_timedelta(writer: Writer, value: timedelta) -> None:
    writer.tag(tags.TIMEDELTA)
    writer.out += cbor2.dumps(texts.timedelta_fields(value))


def _write_decimal(writer: Writer, value: Decimal) -> None:
    writer.tag(tags.DECIMAL)
    writer.scalar(str(value))


def _write_uuid(writer: Writer, value: UUID) -> None:
    writer.tag(tags.UUID)
    writer.scalar(value.bytes)


def _write_bytearray(writer: Writer, value: bytearray) -> None:
    writer.check_size(len(value))
    writer.scalar(bytes(value))


def _write_enum(writer: Writer, value: Enum) -> None:
    cls = type(value)
    writer.pair(tags.ENUM, check_findable(cls))
    named = value.name in cls.__members__
    number = value.value if not named else None
    if not named and type(number) is not int:
        raise Refused(f"a member of {type_name(cls)} has neither a name nor a number", type_name(cls))
    writer.scalar(value.name if named else number)


def _write_object(form: Form, writer: Writer, value: object) -> None:
    cls = type(value)
    name = check_findable(cls)
    try:
        fields = form.take(value)
    except BaseException as error:  # a field may be a property of the user's: it may raise anything
        if is_imposed(error):
            raise
        raise Refused(f"a field of {type_name(cls)} raised {type(error).__name__}", type_name(cls)) from error
    writer.pair(tags.OBJECT, name)
    writer.map(fields.items())


def _write_hooked(hooks: Hooks, writer: Writer, value: object) -> None:
    cls = type(value)
    try:
        data = hooks.serialize(value)
    except BaseException as error:  # the class's own code: it may raise anything
        if is_imposed(error):
            raise
        why = f"the serializer of {type_name(cls)} raised {type(error).__name__}"
        raise Refused(why, type_name(cls)) from error
    writer.pair(tags.OBJECT, check_findable(cls))
    writer.enter()
    writer.value(data)
    writer.leave()


def _write_class(writer: Writer, value: type[Any]) -> None:
    if not is_listed(value):
        raise Refused(f"the class {type_name(value)} is not registered", type_name(value))
    writer.tag(tags.CLASS)
    writer.scalar(check_findable(value))


def _write_other(writer: Writer, value: object) -> None:
    definition = definition_of(value)
    if definition is None:
        raise Refused("", type_name(type(value)), what_instead(type(value)))
    definition_id, captured = definition
    writer.pair(tags.DEFINITION, definition_id)
    if captured is None:
        writer.scalar(None)
    else:
        writer.map(captured.items())


_WRITERS: Final[dict[type[Any], Callable[[Writer, Any], None]]] = {
    **dict.fromkeys((type(None), bool, int, float, str, bytes), Writer.scalar),
    bytearray: _write_bytearray,
    list: Writer.array,
    tuple: _write_tuple,
    dict: _write_dict,
    set: _write_set,
    frozenset: _write_frozenset,
    datetime: _write_datetime,
    date: _write_date,
    time: _write_time,
    timedelta: _write_timedelta,
    Decimal: _write_decimal,
    UUID: _write_uuid,
}


def _writer_for(cls: type[Any]) -> Callable[[Writer, Any], None]:
    hooks = hooks_of(cls)
    if hooks is not None:
        return partial(_write_hooked, hooks)
    if issubclass(cls, Enum):
        return _write_enum
    if issubclass(cls, BaseException):
        return write_exception
    form = form_of(cls)
    if form is not None:
        return partial(_write_object, form)
    return _write_class if issubclass(cls, type) else _write_other
