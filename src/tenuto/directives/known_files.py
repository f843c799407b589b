"""Which files have a marker, remembered between processes: a warm import of an unmarked file does not read it."""

from __future__ import annotations

import atexit
import marshal
import os
import sys
from collections.abc import Mapping
from importlib.util import cache_from_source
from typing import Final, TypeAlias, cast

from tenuto.directives.stamps import Stamp, is_settled

__all__ = ["Entry", "KnownFiles"]

Entry: TypeAlias = tuple[Stamp, bool]  # whether there is a marker in the file with this stamp


class KnownFiles:
    """Files whose marker was looked for before, so that a warm import need not search; one small file per folder.

    An entry holds for the stamp of its file. Losing a cache costs a search.
    """

    NAME: Final = "tenuto-markers3"

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, Entry]] = {}
        self._changed: set[str] = set()

    def of(self, folder: str) -> Mapping[str, Entry]:
        """What is known about the files of a folder, by name; it grows with what is noted."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = _read(folder)
        return known

    def note(self, folder: str, name: str, stamp: Stamp, is_marked: bool) -> None:
        """Remember whether this file has a marker, unless it may still change without its stamp showing it."""
        if sys.dont_write_bytecode or not is_settled(stamp):
            return
        self._folders.setdefault(folder, {})[name] = stamp, is_marked
        if not self._changed:
            atexit.register(self.write)
        self._changed.add(folder)

    def write(self) -> None:
        """Store what was learned; not being able to is no error."""
        for folder in self._changed:
            target = _index_path(folder)
            known = {n: v for n, v in self._folders[folder].items() if os.path.exists(os.path.join(folder, n))}
            temporary = f"{target}.{os.getpid()}"
            try:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(temporary, "wb") as file:
                    file.write(marshal.dumps(known))
                os.replace(temporary, target)
            except OSError:
                continue
        self._changed.clear()


def _read(folder: str) -> dict[str, Entry]:
    try:
        with open(_index_path(folder), "rb") as file:
            found = marshal.loads(file.read())  # noqa: S302  # a cache of our own, beside Python's
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return cast("dict[str, Entry]", found) if isinstance(found, dict) else {}


def _index_path(folder: str) -> str:
    try:
        return os.path.join(os.path.dirname(cache_from_source(os.path.join(folder, "x.py"))), KnownFiles.NAME)
    except NotImplementedError:  # an interpreter without caches
        return ""
