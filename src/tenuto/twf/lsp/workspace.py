"""The files an editor has, as one program.

Files on disk below the opened folders and the texts being edited together are the program. While a definition does not
parse, the last tree that did answers questions about it; diagnostics are always about the text as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pygls.uris import from_fs_path, to_fs_path

from ..ast import Definition, File
from ..diagnostics import Diagnostic
from ..occurrences import Occurrences, occurrences
from ..parser import Parsed, parse
from ..program import NotText, Program, assemble, decode
from ..source import Source
from ..symbols import kind_of

__all__ = ["Workspace"]

_SKIPPED: Final = frozenset(("node_modules", "__pycache__", "build", "dist"))


class Workspace:
    """Keeps every file parsed, and the program they make up to date."""

    def __init__(self) -> None:
        self.roots: list[Path] = []
        self._parsed: dict[str, Parsed] = {}  # by path as messages show it
        self._unreadable: dict[str, Diagnostic] = {}
        self._good: dict[str, Parsed] = {}
        self._uris: dict[str, str] = {}
        self._open: set[str] = set()
        self._program: Program | None = None
        self._answers: Program | None = None
        self._occurrences: Occurrences | None = None

    # --- files

    def path_of(self, uri: str) -> str:
        """How messages name a file: relative to its folder where possible."""
        full = to_fs_path(uri)
        path = uri if full is None else full
        for root in self.roots:
            if full is not None and Path(full).is_relative_to(root):
                path = Path(full).relative_to(root).as_posix()
                break
        self._uris[path] = uri
        return path

    def uri_of(self, path: str) -> str:
        return self._uris.get(path, path)

    def add_folders(self, uris: Iterable[str]) -> None:
        for uri in uris:
            full = to_fs_path(uri)
            if full is not None:
                self.roots.append(Path(full))
        for root in self.roots:
            for file in _twf_files(root):
                self.refresh(from_fs_path(str(file)) or file.as_uri())

    def refresh(self, uri: str) -> None:
        """Take a file's text from disk, unless an editor has it open."""
        path = self.path_of(uri)
        if path in self._open:
            return
        full = to_fs_path(uri)
        try:
            data = Path(full).read_bytes() if full is not None else None
        except OSError:
            data = None
        if data is None:
            self._forget(path)
            return
        text = decode(path, data)
        if isinstance(text, NotText):
            self._forget(path)
            self._unreadable[path] = text.diagnostic
        else:
            self._take(path, text)

    def edit(self, uri: str, text: str) -> str:
        """Take a file's text from an editor."""
        path = self.path_of(uri)
        self._open.add(path)
        self._take(path, Source(path, text))
        return path

    def close(self, uri: str) -> None:
        self._open.discard(self.path_of(uri))
        self.refresh(uri)

    def _take(self, path: str, source: Source) -> None:
        known = self._parsed.get(path)
        if known is not None and known.file.source.text == source.text:
            return
        self._unreadable.pop(path, None)
        parsed = parse(source)
        self._parsed[path] = parsed
        if not parsed.diagnostics:
            self._good[path] = parsed
        self._changed()

    def _forget(self, path: str) -> None:
        for table in (self._parsed, self._good, self._unreadable):
            table.pop(path, None)
        self._changed()

    def _changed(self) -> None:
        self._program = self._answers = self._occurrences = None

    # --- programs

    @property
    def paths(self) -> list[str]:
        return sorted({*self._parsed, *self._unreadable, *self._uris})

    def file(self, path: str) -> File | None:
        parsed = self._parsed.get(path)
        return parsed.file if parsed is not None else None

    @property
    def program(self) -> Program:
        """The text as it is."""
        if self._program is None:
            self._program = assemble(list(self._parsed.values()), list(self._unreadable.values()))
        return self._program

    @property
    def answers(self) -> Program:
        """The text as it is, with the last good tree of every definition that is missing from it."""
        if self._answers is None:
            missing = [parsed for path in self._good if (parsed := self._missing(path)) is not None]
            self._answers = assemble([*self._parsed.values(), *missing]) if missing else self.program
        return self._answers

    def _missing(self, path: str) -> Parsed | None:
        now, good = self._parsed[path], self._good[path]
        if now is good:
            return None
        present = {(kind_of(one), one.name.name) for one in now.file.definitions}
        gone = tuple(one for one in good.file.definitions if (kind_of(one), one.name.name) not in present)
        if not gone or not now.diagnostics:
            return None
        return Parsed(File(good.file.source, gone, good.file.comments, ()), (), False)

    def good_definition(self, path: str, definition: Definition) -> Definition | None:
        """The definition as it was when its file last parsed."""
        good = self._good.get(path)
        for one in good.file.definitions if good is not None else ():
            if kind_of(one) == kind_of(definition) and one.name.name == definition.name.name:
                return one
        return None

    @property
    def occurrences(self) -> Occurrences:
        if self._occurrences is None:
            self._occurrences = occurrences(self.answers)
        return self._occurrences


def _twf_files(root: Path) -> Iterator[Path]:
    """Every TWF file below a folder, hidden and generated folders aside."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(entry)
            elif entry.suffix == ".twf" and entry.is_file():
                yield entry
