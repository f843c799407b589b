"""Values from CBOR, strictly.

Rules:

1. Only what `writing` writes is read: one form for each value, tags from a closed list, no bytes left over.
2. Everything else is `Refused`, with the path to where it stands, whatever the bytes are.
3. Nothing is imported, and no object is made that is not of a registered class or a listed sort.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from struct import Struct
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from tenuto.codec import tags, texts
from tenuto.codec.classes import find_class, find_definition, hooks_of
from tenuto.codec.crowds import MOST, Crowd
from tenuto.codec.exceptions import read_exception
from tenuto.codec.objects import IMPORT_IT, REGISTER_IT, build, form_of, is_listed, read_enum, registered_class
from tenuto.codec.refusal import Refused, is_dict, is_list, key_part
from tenuto.kernel.interrupts import is_imposed

__all__ = ["read"]

# Reads one item: the bytes, where it starts, how many levels are left; gives the value and where the next item starts.
_Read: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]

_FLOAT: Final = Struct(">d")


def read(data: bytes, depth: int) -> Any:
    """The value of these bytes, all of them."""
    try:
        value, at = _item(data, 0, depth)
    except IndexError:
        _refuse("bytes are missing")
    except RecursionError:  # the caller left us less of the stack than the levels we allow need
        _refuse("the value is nested too deep to be read from here")
    if at != len(data):
        _refuse("bytes are left over")
    return value


def _refuse(why: str) -> NoReturn:
    raise Refused(why)


def _item(data: bytes, at: int, room: int) -> tuple[Any, int]:
    first = data[at]
    if first < 0x18:
        return first, at + 1
    if 0x60 <= first < 0x78:
        return _text(data, at + 1, at + first - 0x5F)
    return _READERS[first >> 5](data, at, room)


def _head(data: bytes, at: int) -> tuple[int, int]:
    """The number in the head of an item, and where its content starts."""
    info = data[at] & 0x1F
    if info < 24:
        return info, at + 1
    if info == 24:
        number = data[at + 1]
        if number < 24:
            _refuse("a number is not in its shortest form")
        return number, at + 2
    if info > 27:
        _refuse("a length is indefinite or malformed")
    size = 1 << (info - 24)
    end = at + 1 + size
    number = int.from_bytes(data[at + 1 : end], "big")
    if end > len(data):
        _refuse("bytes are missing")
    if number < 1 << (4 * size):
        _refuse("a number is not in its shortest form")
    return number, end


def _text(data: bytes, start: int, end: int) -> tuple[str, int]:
    if end > len(data):
        _refuse("bytes are missing")
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError:
        _refuse("a text is not UTF-8")


def _read_positive(data: bytes, at: int, _: int) -> tuple[int, int]:
    return _head(data, at)


def _read_negative(data: bytes, at: int, _: int) -> tuple[int, int]:
    number, at = _head(data, at)
    return -1 - number, at


def _read_bytes(data: bytes, at: int, _: int) -> tuple[bytes, int]:
    size, start = _head(data, at)
    end = start + size
    if end > len(data):
        _refuse("bytes are missing")
    return data[start:end], end


def _read_text(data: bytes, at: int, _: int) -> tuple[str, int]:
    size, start = _head(data, at)
    return _text(data, start, start + size)


def _count(data: bytes, at: int, room: int) -> tuple[int, int]:
    if room < 1:
        _refuse("the value is nested too deep")
    count = data[at] & 0x1F
    if count < 24:
        at += 1
    else:
        count, at = _head(data, at)
    # Every item takes a byte or more: a lying count is refused before anything is spent on it.
    if count > len(data) - at:
        _refuse("bytes are missing")
    return count, at


def _read_array(data: bytes, at: int, room: int) -> tuple[list[Any], int]:
    count, at = _count(data, at, room)
    items: list[Any] = []
    try:
        for _ in range(count):
            first = data[at]
            if first < 0x18:
                items.append(first)
                at += 1
            else:
                item, at = _READERS[first >> 5](data, at, room - 1)
                items.append(item)
    except Refused as refused:
        refused.parts.append(f"[{len(items)}]")
        raise
    return items, at


def _read_map(data: bytes, at: int, room: int) -> tuple[dict[Any, Any], int]:
    count, at = _count(data, at, room)
    items: dict[Any, Any] = {}
    key: Any = None
    crowd = Crowd() if count > MOST else None
    try:
        for _ in range(count):
            first = data[at]
            if 0x60 <= first < 0x78:
                key, at = _text(data, at + 1, at + first - 0x5F)
                known = key in items
            else:
                key, at = _READERS[first >> 5](data, at, room - 1)
                known = _in(key, items, crowd)
            if known:
                _refuse("a key is there twice")
            items[key], at = _item(data, at, room - 1)
    except Refused as refused:
        refused.parts.append(key_part(key))
        raise
    return items, at


def _in(key: Any, items: dict[Any, Any] | set[Any], crowd: Crowd | None) -> bool:
    try:
        hash(key)  # a set looks for a set inside it by a trick that does without
        if crowd is not None:
            crowd.add(key)
        return key in items
    except Refused:
        raise
    except BaseException as error:  # a stored object's own `__hash__` or `__eq__`: it may raise anything
        if is_imposed(error):
            raise
        raise Refused(f"a {type(key).__name__} cannot be a key: {type(error).__name__}") from None


def _read_simple(data: bytes, at: int, _: int) -> tuple[Any, int]:
    first = data[at]
    if first == 0xFB:
        end = at + 9
        if end > len(data):
            _refuse("bytes are missing")
        (number,) = _FLOAT.unpack_from(data, at + 1)
        if isfinite(number):
            return number, end
    elif first == 0xF9:
        special = _SPECIAL_FLOATS.get(data[at + 1 : at + 3])
        if special is not None:
            return float(special), at + 3
    elif first in _CONSTANTS:
        return _CONSTANTS[first], at + 1
    _refuse("a number or simple value is not in its stored form")


_CONSTANTS: Final[dict[int, bool | None]] = {0xF4: False, 0xF5: True, 0xF6: None}
_SPECIAL_FLOATS: Final = {b"\x7e\x00": "nan", b"\x7c\x00": "inf", b"\xfc\x00": "-inf"}


# --- tags


def _read_tag(data: bytes, at: int, room: int) -> tuple[Any, int]:
    number, at = _head(data, at)
    reader = _TAGS.get(number)
    if reader is None:
        _refuse(f"tag {number} is not one of ours")
    if data[at] >> 5 == 6:
        _refuse("a tag stands directly inside a tag")
    return reader(data, at, room)


def _leaf(make: Callable[[Any], Any]) -> _Read:
    """A value made of a scalar, or of a container of scalars that is no level of its own."""

    def read_leaf(data: bytes, at: int, _: int) -> tuple[Any, int]:
        content, at = _item(data, at, 1)
        return make(content), at

    return read_leaf


def _level(make: Callable[[Any], Any]) -> _Read:
    """A value made of an array or map that is one level of nesting."""

    def read_level(data: bytes, at: int, room: int) -> tuple[Any, int]:
        content, at = _item(data, at, room)
        return make(content), at

    return read_level


def _read_set(data: bytes, at: int, room: int) -> tuple[set[Any], int]:
    if data[at] >> 5 != 4:
        _refuse("a set is not an array")
    count, at = _count(data, at, room)
    members: set[Any] = set()
    crowd = Crowd() if count > MOST else None
    before = b""
    try:
        for _ in range(count):
            start = at
            member, at = _item(data, at, room - 1)
            if _in(member, members, crowd):
                _refuse("a member of a set is there twice")
            encoded = data[start:at]
            if encoded < before:
                _refuse("the members of a set are not in the order of their bytes")
            members.add(member)
            before = encoded
    except Refused as refused:
        refused.parts.append(f"[{len(members)}]")
        raise
    return members, at


def _read_frozenset(data: bytes, at: int, room: int) -> tuple[frozenset[Any], int]:
    members, at = _read_set(data, at, room)
    return frozenset(members), at


def _read_object(data: bytes, at: int, room: int) -> tuple[Any, int]:
    name, at = _name(data, at, room)
    cls = registered_class(name)
    content, at = _content(data, at, room)
    hooks = hooks_of(cls)
    if hooks is not None:
        try:
            return hooks.deserialize(content), at
        except BaseException as error:  # the class's own code: it may raise anything
            if is_imposed(error):
                raise
            why = f"the deserializer of {name} raised {type(error).__name__}"
            raise Refused(why, name, "make it accept what was once stored") from error
    form = form_of(cls)
    if form is None:
        raise Refused(f"{name} is not a class whose objects can be stored", name)
    if not is_dict(content) or not all(type(field) is str for field in content):
        raise Refused(f"the fields of a {name} are malformed", name)
    return build(name, cls, form, content), at


def _read_definition(data: bytes, at: int, room: int) -> tuple[Any, int]:
    name, at = _name(data, at, room)
    captured, at = _content(data, at, room)
    if captured is not None and not (is_dict(captured) and all(type(key) is str for key in captured)):
        raise Refused(f"the captured values of {name} are malformed", name)
    try:
        return find_definition(name, captured), at
    except LookupError:
        raise Refused(f"the definition {name} is not loaded", name, IMPORT_IT) from None


def _name(data: bytes, at: int, room: int) -> tuple[str, int]:
    """The first of the two items of an object. Together with a map of fields it is one level of nesting."""
    if room < 1:
        _refuse("the value is nested too deep")
    if data[at] != 0x82:
        _refuse("an object is not a pair")
    name, at = _item(data, at + 1, 0)
    if type(name) is not str:
        _refuse("an object does not name its class")
    return name, at


def _content(data: bytes, at: int, room: int) -> tuple[Any, int]:
    return _item(data, at, room if data[at] >> 5 == 5 else room - 1)


def _list(content: Any, what: str) -> list[Any]:
    if is_list(content):
        return content
    _refuse(f"{what} is not an array")


def _make_class(name: Any) -> Any:
    if type(name) is not str:
        _refuse("a class has no name")
    cls = find_class(name)
    if cls is not None and issubclass(cls, Exception):
        return cls  # what any stored exception may name
    cls = registered_class(name)
    if not is_listed(cls):
        raise Refused(f"objects of the class {name} cannot be stored, and it is not registered", name, REGISTER_IT)
    return cls


def _make_enum(content: Any) -> Any:
    pair = _list(content, "an enum's member")
    if len(pair) != 2 or type(pair[0]) is not str:
        _refuse("an enum's member is not a pair of names")
    name, member = pair
    return read_enum(registered_class(name), name, member)


def _make_tuple(content: Any) -> tuple[Any, ...]:
    return tuple(_list(content, "a tuple"))


def _make_uuid(content: Any) -> UUID:
    if type(content) is not bytes or len(content) != 16:
        _refuse("a UUID is not 16 bytes")
    return UUID(bytes=content)


def _make_big_positive(content: Any) -> int:
    if type(content) is not bytes or len(content) < 9 or content[0] == 0:
        _refuse("a large integer is not in its shortest form")
    return int.from_bytes(content, "big")


def _make_big_negative(content: Any) -> int:
    return -1 - _make_big_positive(content)


_READERS: Final[tuple[_Read, ...]] = (
    _read_positive,
    _read_negative,
    _read_bytes,
    _read_text,
    _read_array,
    _read_map,
    _read_tag,
    _read_simple,
)

_TAGS: Final[dict[int, _Read]] = {
    tags.TIMESTAMP: _leaf(texts.read_timestamp),
    tags.BIG_POSITIVE: _leaf(_make_big_positive),
    tags.BIG_NEGATIVE: _leaf(_make_big_negative),
    tags.UUID: _leaf(_make_uuid),
    tags.SET: _read_set,
    tags.TIMEDELTA: _leaf(texts.read_timedelta),
    tags.DATE: _leaf(texts.read_date),
    tags.TUPLE: _level(_make_tuple),
    tags.FROZENSET: _read_frozenset,
    tags.ENUM: _leaf(_make_enum),
    tags.OBJECT: _read_object,
    tags.EXCEPTION: _level(read_exception),
    tags.LOCAL_TIME: _leaf(texts.read_local_time),
    tags.TIME: _leaf(texts.read_time),
    tags.DECIMAL: _leaf(texts.read_decimal),
    tags.DEFINITION: _read_definition,
    tags.CLASS: _leaf(_make_class),
}
