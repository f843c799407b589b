"""Compression (and, by other codecs, encryption) around encoded values.

Rules:

1. A codec works on the bytes of a whole value; what it made is stored as a tagged pair of its id and its bytes.
2. Reading needs the codec of that id; expanding stops at the limit for one value.
3. Nobody below the host knows: values are wrapped as a batch leaves and unwrapped as rows come in.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

from tenuto.codec.frames import framed, parts_of
from tenuto.codec.limits import DEFAULT_LIMITS, ValueLimits
from tenuto.errors import DecodingError

__all__ = ["PayloadCodec", "Payloads", "ZlibCodec"]


class PayloadCodec(Protocol):
    """Turns the bytes of a value into others and back."""

    @property
    def id(self) -> str:
        """What stored data calls this codec."""
        ...

    def encode(self, data: bytes) -> bytes: ...

    def decode(self, data: bytes, limit: int) -> bytes:
        """The original bytes; `ValueError` if these are damaged, or stand for more than `limit` bytes."""
        ...


class ZlibCodec:
    """Compression with what Python brings along."""

    def __init__(self, level: int = 6) -> None:
        self._level = level

    @property
    def id(self) -> str:
        return "zlib"

    def encode(self, data: bytes) -> bytes:
        return zlib.compress(data, self._level)

    def decode(self, data: bytes, limit: int) -> bytes:
        expander = zlib.decompressobj()
        try:
            expanded = expander.decompress(data, limit + 1)
        except zlib.error:
            raise ValueError("the compressed bytes are damaged") from None
        if len(expanded) > limit:
            raise ValueError(f"the bytes expand to more than {limit}")
        if not expander.eof or expander.unused_data or expander.unconsumed_tail:
            raise ValueError("the compressed bytes are cut off, or something follows them")
        return expanded


class Payloads:
    """Wraps encoded values on their way out, with the first codec, and unwraps those of any of them.

    Without codecs nothing is wrapped. A value shorter than `from_bytes`, or one that would not get shorter by a
    codec that compresses, is left as it is.
    """

    def __init__(
        self, codecs: Iterable[PayloadCodec] = (), limits: ValueLimits = DEFAULT_LIMITS, from_bytes: int = 1024
    ) -> None:
        self._codecs = {codec.id: codec for codec in codecs}
        self._limits = limits
        self._from_bytes = from_bytes

    def wrap(self, data: bytes) -> bytes:
        """The stored form of an encoded value."""
        if not self._codecs or len(data) < self._from_bytes:
            return data
        codec = next(iter(self._codecs.values()))
        wrapped = framed(codec.id, codec.encode(data))
        return wrapped if len(wrapped) < len(data) else data

    def unwrap(self, stored: bytes) -> bytes:
        """The encoded value; `DecodingError` if it cannot be had."""
        try:
            found = parts_of(stored)
        except ValueError as error:
            raise DecodingError("$", "", str(error)) from None
        if found is None:
            return stored
        codec_id, content = found
        codec = self._codecs.get(codec_id)
        if codec is None:
            raise DecodingError("$", codec_id, f"there is no payload codec {codec_id!r} here", "configure the codec")
        try:
            return codec.decode(content, self._limits.size)
        except ValueError as error:
            raise DecodingError("$", codec_id, str(error)) from None
