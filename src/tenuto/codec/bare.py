"""The few BARE types our records are made of.

Writing gives `bytes` to be joined; reading is a cursor that refuses whatever is cut off, not in its one form, or left
over, with `RecordError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NoReturn, TypeVar

from tenuto.errors import RecordError

__all__ = [
    "VERSION",
    "Reader",
    "refuse",
    "refuse_version",
    "write_data",
    "write_list",
    "write_optional",
    "write_text",
    "write_u32",
    "write_u64",
    "write_uint",
]

T = TypeVar("T")

VERSION: Final = 1  # of every record that carries one

_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_UINT_BYTES: Final = 10  # 64 bits in groups of seven

write_u32 = _U32.pack
write_u64 = _U64.pack


def refuse(why: str) -> NoReturn:
    """Say that a stored record cannot be read."""
    raise RecordError(why)


def refuse_version(version: int) -> NoReturn:
    refuse(f"the record is of version {version}; this release reads {VERSION}")


def write_uint(value: int) -> bytes:
    """An unsigned integer in groups of seven bits, lowest first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_data(data: bytes) -> bytes:
    return write_uint(len(data)) + data


def write_text(text: str) -> bytes:
    return write_data(text.encode())


def write_optional(value: T | None, write: Callable[[T], bytes]) -> bytes:
    return b"\x00" if value is None else b"\x01" + write(value)


def write_list(items: Sequence[T], write: Callable[[T], bytes]) -> bytes:
    return write_uint(len(items)) + b"".join([write(item) for item in items])


class Reader:
    """A place in a record. `end()` must be called last: it refuses bytes nobody read."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def u8(self) -> int:
        try:
            value = self._data[self._at]
        except IndexError:
            refuse("the record is cut off")
        self._at += 1
        return value

    def u16(self) -> int:
        return self.u8() | self.u8() << 8

    def u32(self) -> int:
        return self._fixed(_U32)

    def u64(self) -> int:
        return self._fixed(_U64)

    def _fixed(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self._at)
        except struct_error:
            refuse("the record is cut off")
        self._at += layout.size
        return int(value)

    def uint(self) -> int:
        value = self.u8()
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 7 * _UINT_BYTES, 7):
            group = self.u8()
            value |= (group & 0x7F) << shift
            if group < 0x80:
                if group == 0 or value >> 64:
                    break
                return value
        refuse("an integer is not in its shortest form or too large")

    def data(self) -> bytes:
        size = self.uint()
        start = self._at
        end = start + size
        if end > len(self._data):
            refuse("the record is cut off")
        self._at = end
        return self._data[start:end]

    def text(self) -> str:
        try:
            return self.data().decode()
        except UnicodeDecodeError:
            refuse("a text is not UTF-8")

    def optional(self, read: Callable[[], T]) -> T | None:
        mark = self.u8()
        if mark == 0:
            return None
        if mark == 1:
            return read()
        refuse(f"byte {mark:02x} does not say whether a field is there")

    def list(self, read: Callable[[], T]) -> tuple[T, ...]:
        count = self.uint()
        # Every item takes a byte or more: a lying count is refused before memory is spent on it.
        if count > len(self._data) - self._at:
            refuse("the record is cut off")
        return tuple([read() for _ in range(count)])

    def enum(self, members: Sequence[T], first: int = 0) -> T:
        value = self.uint() - first
        if 0 <= value < len(members):
            return members[value]
        refuse(f"{value + first} is not one of {type(members[0]).__name__}")

    def end(self) -> None:
        if self._at != len(self._data):
            refuse("bytes are left over after the record")
