"""DIR408: what prevents the names of a workflow from being listed. For the command line; the compiler does not ask.

A workflow's code is followed into other files of its project, so this is no matter of one file, as compiling is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from tenuto.directives.errors import Finding, Span, make_finding
from tenuto.directives.source import ignored_codes
from tenuto.model import ids
from tenuto.model.naming.scopes import Module, directive_of
from tenuto.model.static_names import Doubt, module_doubts

__all__ = ["file_doubts", "findings_of"]


def file_doubts(file: Path) -> Iterator[Finding]:
    """The findings about the workflows of a file, none of which is imported."""
    folders = _folders(file)
    module = _module(file, _name_of(file, folders[0]))
    if module is None:
        return
    yield from findings_of(module_doubts(module, lambda name: _find(name, folders)))


def findings_of(doubts: Iterable[Doubt]) -> Iterator[Finding]:
    """The doubts as findings, but for those that a comment at the end of their line switches off."""
    for doubt in doubts:
        text = _text(doubt.file) or ""
        if "DIR408" in ignored_codes(text).get(doubt.line, frozenset()):
            continue
        lines = text.splitlines()
        span = Span(
            doubt.line,
            _column(lines, doubt.line, doubt.column),
            doubt.end_line,
            _column(lines, doubt.end_line, doubt.end_column),
        )
        yield make_finding("DIR408", _shown(doubt.file), span, {"what": doubt.what})


def _column(lines: list[str], line: int, offset: int) -> int:
    """A 1-based column in characters, of an offset in bytes."""
    if not 0 < line <= len(lines):
        return offset + 1
    return len(lines[line - 1].encode()[:offset].decode(errors="replace")) + 1


def _shown(file: str) -> str:
    """The path from here, where the file lies below."""
    here = Path.cwd()
    path = Path(file)
    return str(path.relative_to(here)) if path.is_absolute() and here in path.parents else file


# --- modules as files


def _folders(file: Path) -> tuple[Path, ...]:
    """Where the modules that a file imports may begin: as Python finds them when the project is run."""
    folder = file.absolute().parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    root = ids.project_root(file)
    return tuple(dict.fromkeys((folder, root, root / "src")))


def _name_of(file: Path, base: Path) -> str:
    parts = list(file.absolute().relative_to(base).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _find(name: str, folders: tuple[Path, ...]) -> Module | None:
    for folder in folders:
        place = folder.joinpath(*name.split("."))
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                return _module(file, name)
    return None


def _module(file: Path, name: str) -> Module | None:
    text = _text(str(file))
    tree = None if text is None else _tree(text)
    if tree is None:
        return None
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    return Module(name, str(file), tree, package, {}, directive_of(tree.body))


@lru_cache(maxsize=256)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _text(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
