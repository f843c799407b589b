"""The frames around sealed and compressed values: texts, byte strings, and arrays of them.

Rules:

1. A frame is read before it is known who wrote it. So there are three exact types, each in its one form, and nothing is
   interpreted: no tags, no numbers, no indefinite lengths.
2. Whatever the bytes are, the answer is a frame or `ValueError`.
"""

from __future__ import annotations

from typing import Final, NoReturn, TypeAlias

import cbor2

from tenuto.codec import tags

__all__ = ["AES_GCM", "GIVE_IT", "Part", "described", "framed", "mark", "parts_of", "read_frame"]

AES_GCM: Final = "aes-gcm"
GIVE_IT: Final = "if it was sealed by another key, give it (codec=, --codec); else restore the store"

Part: TypeAlias = "str | bytes | list[Part]"

_BYTES, _TEXT, _ARRAY = 2, 3, 4
_TAGGED: Final = b"\xd9" + tags.PAYLOAD.to_bytes(2, "big") + b"\x82"  # the tag, and an array of two
_NAMES: Final = 64  # characters of a codec's or key's name that an error shows


def mark(codec_id: str) -> bytes:
    """What everything stored by a codec begins with."""
    return _TAGGED + cbor2.dumps(codec_id)


def framed(codec_id: str, content: bytes) -> bytes:
    """The stored form of what a codec made."""
    return mark(codec_id) + cbor2.dumps(content)


def parts_of(stored: bytes) -> tuple[str, bytes] | None:
    """The codec's id and what it made; None for a value that no codec has touched. `ValueError`."""
    if not stored.startswith(_TAGGED):
        return None
    match read_frame(b"\x82" + stored[len(_TAGGED) :]):
        case [str(codec_id), bytes(content)]:
            return codec_id, content
        case _:
            raise ValueError("a payload is malformed")


def read_frame(data: bytes) -> Part:
    """The one frame that these bytes are."""
    frame, at = _read(data, 0, 2)
    if at != len(data):
        _refuse()
    return frame


def _read(data: bytes, at: int, depth: int) -> tuple[Part, int]:
    sort, size, at = _head(data, at)
    if sort == _ARRAY and depth:
        items: list[Part] = []
        for _ in range(size):  # each takes a byte or more, so a lying count ends at the end of the bytes
            item, at = _read(data, at, depth - 1)
            items.append(item)
        return items, at
    content = data[at : at + size]
    if len(content) < size or sort not in (_BYTES, _TEXT):
        _refuse()
    return content if sort == _BYTES else content.decode(), at + size  # not UTF-8 is a `ValueError` too


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """The sort of an item, its length, and where its content starts."""
    if at >= len(data):
        _refuse()
    sort, info = data[at] >> 5, data[at] & 0x1F
    if info < 24:
        return sort, info, at + 1
    width = 1 << (info - 24)
    size = int.from_bytes(data[at + 1 : at + 1 + width], "big")
    if width > 4 or at + 1 + width > len(data) or size < (24 if width == 1 else 1 << (4 * width)):
        _refuse()  # cut off, or not the shortest form
    return sort, size, at + 1 + width


def _refuse() -> NoReturn:
    raise ValueError("a payload is malformed")


def described(stored: bytes) -> str | None:
    """How a value is stored that nobody here has opened, for whoever tried to read it; None if no codec touched it."""
    try:
        found = parts_of(stored)
        if found is None:
            return None
        codec_id, content = found
        parts = read_frame(content) if codec_id == AES_GCM else None
    except ValueError:
        return "stored by a codec, and malformed"
    match parts:
        case [str(key_id), *_]:
            return f"sealed by key {key_id[:_NAMES]!r}"
        case _:
            return f"stored by the codec {codec_id[:_NAMES]!r}"
