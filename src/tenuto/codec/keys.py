"""Tuples as bytes that sort like the tuples.

Rules:

1. Elements are integers from 0 to 2^64 - 1, text, and tuples of these; nothing else has a form here.
2. Byte order of packed tuples is tuple order (where sorts meet: text, then tuples, then integers), and a packed
   tuple is a prefix exactly of the tuples that extend it.
3. There is one form for each tuple. Reading refuses every other byte string with `RecordError`.
"""

from __future__ import annotations

from typing import Final, NoReturn, TypeAlias

from tenuto.errors import RecordError

__all__ = ["INTEGERS", "Element", "Key", "children", "pack", "prefix_end", "read_integer", "unpack"]

Element: TypeAlias = "int | str | tuple[Element, ...]"
Key: TypeAlias = tuple[Element, ...]

_END: Final = 0x00
_TEXT: Final = 0x02
_TUPLE: Final = 0x05
_ZERO: Final = 0x14  # an integer of k bytes starts with this + k
_INTEGER_BYTES: Final = 8
_LAST_INTEGER: Final = _ZERO + _INTEGER_BYTES
_DEEPEST: Final = 8  # keys nest once; the bound keeps hostile bytes from exhausting the stack


def _pack_integer(value: int) -> bytes:
    size = (value.bit_length() + 7) >> 3
    if size > _INTEGER_BYTES or value < 0:
        raise ValueError(f"a key cannot hold the integer {value}")
    return bytes((_ZERO + size,)) + value.to_bytes(size, "big")


# The packed form of small integers: name indices, uses of a name, iterations. They make up nearly all of every key.
INTEGERS: Final[tuple[bytes, ...]] = tuple(_pack_integer(value) for value in range(1024))


def pack(key: Key) -> bytes:
    """The bytes of a tuple."""
    return b"".join([_pack_element(element) for element in key])


def _pack_element(element: Element) -> bytes:
    # Exact types: True would otherwise pack as 1 and unpack as something else.
    if type(element) is int:
        return INTEGERS[element] if 0 <= element < len(INTEGERS) else _pack_integer(element)
    if type(element) is str:
        return b"\x02" + element.encode().replace(b"\x00", b"\x00\xff") + b"\x00"
    if type(element) is tuple:
        return b"\x05" + pack(element) + b"\x00"
    raise TypeError(f"a key cannot hold a {type(element).__name__}")


def unpack(data: bytes) -> Key:
    """The tuple that packs to these bytes; `RecordError` if none does."""
    elements: list[Element] = []
    end = len(data)
    at = 0
    while at < end:
        element, at = _read(data, at, 0)
        elements.append(element)
    return tuple(elements)


def _read(data: bytes, at: int, depth: int) -> tuple[Element, int]:
    """The element that starts at `at`, and where the next one starts."""
    code = data[at]
    if _ZERO <= code <= _LAST_INTEGER:
        return read_integer(data, at)
    if code == _TEXT:
        return _read_text(data, at + 1)
    if code == _TUPLE:
        return _read_tuple(data, at + 1, depth + 1)
    _refuse(data, f"byte {code:02x} starts no element")


def read_integer(data: bytes, at: int) -> tuple[int, int]:
    """The integer that starts at `at`, and where the next element starts."""
    try:
        # Up to two bytes by hand: nearly every integer of a history key is one of these.
        code = data[at]
        if code == _ZERO:
            return 0, at + 1
        first = data[at + 1]
        if first:
            if code == _ZERO + 1:
                return first, at + 2
            if code == _ZERO + 2:
                return first << 8 | data[at + 2], at + 3
    except IndexError:
        _refuse(data, "an integer is cut off")
    end = at + 1 + code - _ZERO
    if first and _ZERO < code <= _LAST_INTEGER and end <= len(data):
        return int.from_bytes(data[at + 1 : end], "big"), end
    _refuse(data, "an integer is cut off, not in its shortest form, or not there")


def _read_text(data: bytes, start: int) -> tuple[str, int]:
    end = data.find(b"\x00", start)
    while end >= 0 and data[end + 1 : end + 2] == b"\xff":  # an escaped U+0000, not the end
        end = data.find(b"\x00", end + 2)
    if end < 0:
        _refuse(data, "a text is cut off")
    try:
        return data[start:end].replace(b"\x00\xff", b"\x00").decode(), end + 1
    except UnicodeDecodeError:
        _refuse(data, "a text is not UTF-8")


def _read_tuple(data: bytes, at: int, depth: int) -> tuple[Key, int]:
    if depth > _DEEPEST:
        _refuse(data, "tuples are nested too deep")
    elements: list[Element] = []
    end = len(data)
    while at < end:
        if data[at] == _END:
            return tuple(elements), at + 1
        element, at = _read(data, at, depth)
        elements.append(element)
    _refuse(data, "a tuple is cut off")


def _refuse(data: bytes, why: str) -> NoReturn:
    shown = data[:40].hex() + ("…" if len(data) > 40 else "")
    raise RecordError(f"key {shown}: {why}")


def prefix_end(prefix: bytes) -> bytes:
    """The first byte string after all that start with `prefix`, so that `[prefix, end)` is exactly those."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        raise ValueError("nothing sorts after this prefix")
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def children(key: Key) -> tuple[bytes, bytes]:
    """The half-open range that holds a key and everything below it."""
    packed = pack(key)
    return packed, prefix_end(packed)
