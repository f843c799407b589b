"""Compiled files on disk: where they are kept, what is in them, and when one may be used.

A cache is a `.pyc` with a tail: header, code, the source that the code was made of, and the stamp of the source file.
The source is there so that a module knows its own text without reading a file that may have changed, and so that a
stamp that no longer fits (a checkout, a copy, a container) costs a comparison instead of compiling again.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType
from typing import Final

from tenuto.directives.stamps import Stamp, is_settled
from tenuto.directives.transform import Mode

__all__ = ["VERSION", "Kept", "cache_key", "cache_path", "read_cache", "render_cache"]

VERSION: Final = 2  # of the compiler: part of every key and of the tag

_MAGIC: Final = MAGIC_NUMBER + (0b11).to_bytes(4, "little")  # the flags say: not to be checked by time alone
_HEADER: Final = len(_MAGIC) + 8
_TAIL: Final = struct.Struct("<qqq")  # a stamp; its size is also that of the source before it
_NEVER: Final = 0  # the time in a stamp that fits no file


def cache_key(id_path: str, mode: Mode, strict: bool, place: str) -> bytes:
    """What a header holds: everything besides the source and its name that the code depends on.

    For a folder and the id path of it, the key of all files there; else of one file.
    """
    return _MAGIC + source_hash(f"{VERSION}\0{id_path}\0{mode}\0{strict}\0{place}".encode(errors="surrogatepass"))


def cache_path(folder: str, name: str, mode: Mode) -> str | None:
    """Where the compiled file is kept: beside the stock cache, under a tag of our own."""
    ends = _ends(folder, mode, sys.pycache_prefix)
    return None if ends is None else f"{ends[0]}{name.rpartition('.')[0] or name}{ends[1]}"


@lru_cache(maxsize=4096)
def _ends(folder: str, mode: Mode, prefix: str | None) -> tuple[str, str] | None:
    """What the caches of a folder begin and end with. Python's own function takes long for one file at a time."""
    level = sys.flags.optimize
    tag = f"tenuto{mode}{VERSION}" + (f"o{level}" if level else "")
    try:
        caches, name = os.path.split(cache_from_source(os.path.join(folder, "x.py"), optimization=tag))
    except NotImplementedError:  # an interpreter without caches
        return None
    return os.path.join(caches, ""), name.removeprefix("x")


@dataclass(frozen=True, slots=True)
class Kept:
    """A cache as it was read; not yet known to be of use."""

    data: bytes
    stamp: Stamp

    def is_for(self, key: bytes) -> bool:
        return self.data.startswith(key)

    @property
    def source(self) -> bytes:
        end = len(self.data) - _TAIL.size
        return self.data[end - self.stamp[2] : end]

    def code(self) -> CodeType | None:
        """The code; None if the file is damaged."""
        try:
            code = marshal.loads(memoryview(self.data)[_HEADER:])  # noqa: S302  # as Python does with its own caches
        except (EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None


def read_cache(data: bytes) -> Kept | None:
    """A cache, from the bytes of its file; None for bytes that cannot be one."""
    room = len(data) - _HEADER - _TAIL.size
    if room <= 0:
        return None
    written, changed, size = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    return Kept(data, (written, changed, size)) if 0 <= size < room else None


def render_cache(key: bytes, code: CodeType, source: bytes, stamp: Stamp | None) -> bytes:
    """The bytes of a cache. A stamp that proves nothing yet is left out; then the next import compares the source."""
    if stamp is None or stamp[2] != len(source) or not is_settled(stamp):
        stamp = _NEVER, _NEVER, len(source)
    return key + marshal.dumps(code) + source + _TAIL.pack(*stamp)
