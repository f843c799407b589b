"""Compiled files on disk: where they are kept, what is in them, and when one may be used.

A cache is a `.pyc` with a tail: header, code, the source that the code was made of, and the stamp of the source file.
The source is there so that a module knows its own text without reading a file that may have changed, and so that a
stamp that no longer fits (a checkout, a copy, a container) costs a comparison instead of compiling again. It is packed:
every loaded module keeps its own, and memory that is asked for the first time costs a warm import more than anything
else here.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
import zlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType
from typing import Final, TypeAlias

from tenuto.directives.stamps import STAMP_BYTES, Stamp, has_size, is_settled, never
from tenuto.directives.transform import Mode

__all__ = [
    "VERSION",
    "CacheEnds",
    "Kept",
    "cache_between",
    "cache_ends",
    "cache_key",
    "cache_path",
    "load",
    "named_key",
    "pack",
    "read_cache",
    "render_cache",
    "unpack",
]

VERSION: Final = 4  # of the compiler: part of every key and of the tag

_MAGIC: Final = MAGIC_NUMBER + (0b11).to_bytes(4, "little")  # the flags say: not to be checked by time alone
_HEADER: Final = len(_MAGIC) + 16
_SIZE: Final = struct.Struct("<q")  # of the packed source
_TAIL: Final = _SIZE.size + STAMP_BYTES

CacheEnds: TypeAlias = tuple[str, str]


def cache_key(id_path: str, mode: Mode, strict: bool, place: str) -> bytes:
    """The first part of a header: everything besides the source and its name that the code depends on.

    For a folder and the id path of it, that of all files there; else of one file.
    """
    return _MAGIC + source_hash(f"{VERSION}\0{id_path}\0{mode}\0{strict}\0{place}".encode(errors="surrogatepass"))


def named_key(key: bytes, name: str) -> bytes:
    """The whole header of the file of this name: ids hold it, and a cache may have been renamed with its source."""
    return key + source_hash(name.encode(errors="surrogatepass"))


def cache_path(folder: str, name: str, mode: Mode) -> str | None:
    """Where the compiled file is kept: beside the stock cache, under a tag of our own."""
    return cache_between(cache_ends(folder, mode), name)


def cache_between(ends: CacheEnds | None, name: str) -> str | None:
    """The same, for those who have the ends of the folder at hand."""
    return None if ends is None else f"{ends[0]}{name.rpartition('.')[0] or name}{ends[1]}"


def cache_ends(folder: str, mode: Mode) -> CacheEnds | None:
    """What the paths of the caches of a folder begin and end with; None in an interpreter without caches."""
    return _ends(folder, mode, sys.pycache_prefix)


@lru_cache(maxsize=4096)
def _ends(folder: str, mode: Mode, prefix: str | None) -> CacheEnds | None:
    """Once for a folder: Python's own function takes long for one file at a time."""
    level = sys.flags.optimize
    tag = f"tenuto{mode}{VERSION}" + (f"o{level}" if level else "")
    try:
        caches, name = os.path.split(cache_from_source(os.path.join(folder, "x.py"), optimization=tag))
    except NotImplementedError:
        return None
    return os.path.join(caches, ""), name.removeprefix("x")


def pack(source: bytes) -> bytes:
    """A source in the form in which it is kept, on disk and in memory."""
    # With a small window: making room for the usual one takes longer than packing.
    packer = zlib.compressobj(1, zlib.DEFLATED, 13, 6)
    return packer.compress(source) + packer.flush()


def unpack(packed: bytes) -> bytes:
    """The source that was packed."""
    return zlib.decompress(packed)


def load(data: bytes, key: bytes) -> tuple[CodeType, bytes] | None:
    """The code and the packed source of a cache that was made under this key; None for any other, or a damaged one.

    All that a warm import does with a cache whose stamp fits, and so in one piece.
    """
    end = len(data) - _TAIL
    if end <= _HEADER or not data.startswith(key):
        return None
    (packed_bytes,) = _SIZE.unpack_from(data, end)
    code = _code_in(data)
    return (code, data[end - packed_bytes : end]) if code is not None and 0 <= packed_bytes < end - _HEADER else None


def _code_in(data: bytes) -> CodeType | None:
    """The code; None if the file is damaged."""
    try:
        code = marshal.loads(memoryview(data)[_HEADER:])  # noqa: S302  # as Python does with its own caches
    except (EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None


@dataclass(frozen=True, slots=True)
class Kept:
    """A cache as it was read; not yet known to be of use."""

    data: bytes
    packed_bytes: int

    def is_for(self, key: bytes) -> bool:
        return self.data.startswith(key)

    def has(self, stamp: Stamp) -> bool:
        return self.data.endswith(stamp)

    @property
    def packed(self) -> bytes:
        end = len(self.data) - _TAIL
        return self.data[end - self.packed_bytes : end]

    def is_of(self, source: bytes) -> bool:
        try:
            return unpack(self.packed) == source
        except zlib.error:  # damaged
            return False

    def code(self) -> CodeType | None:
        """The code; None if the file is damaged."""
        return _code_in(self.data)


def read_cache(data: bytes) -> Kept | None:
    """A cache, from the bytes of its file; None for bytes that cannot be one."""
    room = len(data) - _HEADER - _TAIL
    if room <= 0:
        return None
    (packed_bytes,) = _SIZE.unpack_from(data, len(data) - _TAIL)
    return Kept(data, packed_bytes) if 0 <= packed_bytes < room else None


def render_cache(key: bytes, code: CodeType, packed: bytes, size_bytes: int, stamp: Stamp | None) -> bytes:
    """The bytes of a cache. A stamp that proves nothing yet is left out; then the next import compares the source."""
    if stamp is None or not has_size(stamp, size_bytes) or not is_settled(stamp):
        stamp = never(size_bytes)
    return b"".join((key, marshal.dumps(code), packed, _SIZE.pack(len(packed)), stamp))
