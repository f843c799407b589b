"""The files of a project, compiled one by one without importing any: what the command line works on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tenuto.directives.errors import Finding, errors_of, unreadable
from tenuto.directives.manifest import Manifest, merge, sources_of
from tenuto.directives.marker import has_marker
from tenuto.directives.transform import Mode, Result, transform
from tenuto.errors import DirectiveError
from tenuto.model import ids

__all__ = ["CompiledFile", "compile_paths", "duplicates", "has_errors", "manifest_of", "read_file", "source_files"]

_SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """One file, what the compiler made of it, and its findings under the path that the user gave."""

    file: Path
    path: str  # of its ids
    result: Result

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(replace(finding, path=str(self.file)) for finding in self.result.findings)


def source_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The Python files among and below these paths; hidden folders and installed packages are left out."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, names, files in os.walk(path):
            names[:] = sorted(
                n for n in names if not n.startswith(".") and n not in _SKIPPED and not _is_venv(folder, n)
            )
            yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))


def _is_venv(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def compile_paths(paths: Iterable[Path], mode: Mode = "step", *, strict: bool = False) -> Iterator[CompiledFile]:
    """Compile the files that have a marker."""
    for file in source_files(paths):
        source = file.read_bytes()
        if has_marker(source):
            yield read_file(file, mode, strict=strict, source=source)


def read_file(file: Path, mode: Mode, *, strict: bool = False, source: bytes | None = None) -> CompiledFile:
    """Compile one file. What is not valid Python becomes a finding like any other."""
    text = file.read_bytes() if source is None else source
    try:
        path = ids.id_path(file)
    except DirectiveError as error:
        return CompiledFile(file, str(file), Result(None, {}, (_located(error, str(file)),)))
    try:
        return CompiledFile(file, path, transform(text, path, mode, strict=strict))
    except (SyntaxError, ValueError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        message = getattr(error, "msg", None) or str(error)
        return CompiledFile(file, path, Result(None, {}, (unreadable(path, message, line, column),)))


def _located(error: DirectiveError, path: str) -> Finding:
    return Finding(error.code, "error", str(error).removeprefix(f"{error.code} "), "repair the file", path, 1, 1, 1, 1)


def manifest_of(files: Iterable[CompiledFile]) -> Manifest:
    """The merged manifest of many files."""
    return merge(file.result.manifest for file in files)


def duplicates(manifest: Manifest) -> tuple[str, ...]:
    """One line for each id that two definitions have (DIR502)."""
    seen: dict[str, str] = {}
    lines: list[str] = []
    for found, path, name in sources_of(manifest):
        place = f"{path}: {name}"
        if found in seen:
            lines.append(
                f"{path}:1:1: DIR502 {found} is the id of {seen[found]} and of {name} (rename one, or give it name=)"
            )
        seen.setdefault(found, place)
    return tuple(lines)


def has_errors(files: Iterable[CompiledFile]) -> bool:
    """Is there any error among these files?"""
    return any(errors_of(file.findings) for file in files)
