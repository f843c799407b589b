"""Which id a definition has: its kind, the path of its file from the project root, and its name in that file.

Decorators and the directive compiler give the same id to the same function, so everything here works on a file and a
qualified name only; neither the working directory nor the import name of a module ever counts.
"""

from __future__ import annotations

import inspect
import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from tenuto.codec.projects import INSTALLED, is_project_file, use_listed
from tenuto.errors import DirectiveError
from tenuto.model.definition_source import definition_hash, not_compiled, source_file
from tenuto.model.static_names import static_names

__all__ = [
    "INTERACTIVE",
    "DirectiveWarning",
    "Kind",
    "ParsedId",
    "definition_hash",
    "definition_id",
    "id_path",
    "identifier",
    "interactive_id",
    "is_project_file",
    "make_id",
    "not_compiled",
    "parse_id",
    "path_of",
    "project_root",
    "short_name",
    "static_names",
    "tool_settings",
    "use_packages",
    "use_root",
]

Kind: TypeAlias = Literal["workflow", "step", "class"]

INTERACTIVE: Final = "<interactive>"
ROOT_VARIABLE: Final = "TENUTO_ROOT"
_OURSELVES: Final = os.path.realpath(os.path.dirname(os.path.dirname(__file__))) + os.sep


class DirectiveWarning(UserWarning):
    """A directive or decorator works, but probably not as meant; the text begins with its code."""


@dataclass(frozen=True, slots=True)
class ParsedId:
    """The three parts of an id that was made from a place."""

    kind: str
    path: str
    identifier: str


# --- the text of an id


def identifier(qualname: str) -> str:
    """`pack.<locals>.label` as `pack/label`; members of classes keep their dot."""
    return qualname.replace(".<locals>.", "/")


def make_id(kind: Kind, path: str, name: str) -> str:
    """The id of the definition called `name` (an identifier) in the file with this id path."""
    return f"{kind}//{normalise(path)}//{name}"


def parse_id(text: str) -> ParsedId | None:
    """The parts of an id, or None for one that `name=` replaced."""
    parts = text.split("//", 2)
    if len(parts) != 3 or parts[0] not in ("workflow", "step", "class"):
        return None
    return ParsedId(*parts)


def short_name(text: str) -> str:
    """The last part of an id, by which people may name it while it is unambiguous."""
    parsed = parse_id(text)
    return text if parsed is None else parsed.identifier.rpartition("/")[2]


def normalise(path: str) -> str:
    """The path with `/` separators, in Unicode's composed form."""
    return unicodedata.normalize("NFC", path.replace("\\", "/"))


# --- the root


_explicit_root: Path | None = None
_packages: frozenset[str] = frozenset()


def use_root(root: str | os.PathLike[str] | None) -> None:
    """Take this folder as the project root of every file below it (`install(root=)`, `--root`); None: find it."""
    global _explicit_root  # one process has one project
    _explicit_root = None if root is None else Path(os.path.realpath(root))
    _found_root.cache_clear()  # project files may have changed since
    _folder_prefix.cache_clear()


def use_packages(distributions: Iterable[str]) -> None:
    """Treat the files of these installed distributions as project files."""
    global _packages  # one process has one project
    _packages = frozenset(_normalise_distribution(name) for name in distributions)
    use_listed(_is_listed)


def project_root(file: str | os.PathLike[str]) -> Path:
    """The folder that the id path of this file starts from."""
    real = Path(os.path.realpath(file))
    named = os.environ.get(ROOT_VARIABLE)
    for chosen in (_explicit_root, Path(os.path.realpath(named)) if named else None):
        if chosen is not None and chosen in real.parents:
            return chosen
    return _found_root(real.parent)


@lru_cache(maxsize=4096)
def _found_root(folder: Path) -> Path:
    folders = (folder, *folder.parents)
    projects = [place for place in folders if (place / "pyproject.toml").is_file()]
    for place in projects:
        settings = _tool_settings(place)
        if settings is not None:
            return Path(os.path.realpath(place / str(settings.get("root", "."))))
    if projects:
        return projects[0]
    for place in folders:
        if (place / ".git").exists():
            return place
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _tool_settings(folder: Path) -> dict[str, Any] | None:
    """What `[tool.tenuto]` of this folder's `pyproject.toml` says; None without such a table."""
    text = (folder / "pyproject.toml").read_bytes()
    if b"tenuto" not in text:
        return None
    import tomllib  # most processes never get here

    try:
        table = tomllib.loads(text.decode()).get("tool", {}).get("tenuto")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None  # not ours to report
    return cast("dict[str, Any]", table) if isinstance(table, dict) else None


def tool_settings(root: Path) -> dict[str, Any]:
    """The `[tool.tenuto]` table of the project whose root this is; empty where there is none."""
    for folder in (root, *root.parents):
        if (folder / "pyproject.toml").is_file():
            return _tool_settings(folder) or {}
    return {}


# --- the path of a file


def id_path(file: str | os.PathLike[str]) -> str:
    """The path part of the ids of this file; `DirectiveError` DIR119 when it can have none."""
    text = os.fspath(file)
    if not text or text.startswith("<"):
        raise DirectiveError("DIR119", f"{text or 'a nameless source'} is no file, so its definitions have no id")
    folder, name = os.path.split(text)
    if os.path.isabs(folder) and not os.path.islink(text):
        prefix = _folder_prefix(folder, _explicit_root, os.environ.get(ROOT_VARIABLE))
        if prefix is not None:
            return prefix + normalise(name)
    return _file_path(text)


@lru_cache(maxsize=4096)
def _folder_prefix(folder: str, explicit: Path | None, named: str | None) -> str | None:
    """What the id paths of the files in a folder begin with; None where only a file itself can tell."""
    real = Path(os.path.realpath(folder))
    if not real.is_dir() or not INSTALLED.isdisjoint(real.parts):
        return None
    root = project_root(real / "module.py")
    if root == real:
        return ""
    return f"{normalise(str(real.relative_to(root)))}/" if root in real.parents else None


def _file_path(text: str) -> str:
    real = Path(os.path.realpath(text))
    archive = _archive_of(real)
    if archive is not None:
        return normalise(str(real.relative_to(archive)))
    for place in real.parents:
        if place.name in INSTALLED:
            inside = real.relative_to(place)
            return f"@{_distribution(str(place), inside.as_posix())}/{normalise(str(inside))}"
    root = project_root(real)
    if root not in real.parents:  # `root = "src"` in pyproject.toml, and a file beside src
        raise DirectiveError("DIR119", f"{real} is outside of the project root {root}")
    return normalise(str(real.relative_to(root)))


def _archive_of(real: Path) -> Path | None:
    if real.exists():
        return None
    return next((place for place in real.parents if place.is_file()), None)


@lru_cache(maxsize=1024)
def _distribution(site: str, inside: str) -> str:
    from importlib.metadata import distributions  # slow to import, and only installed files need it

    for found in distributions(path=[site]):
        if any(str(listed) == inside for listed in found.files or ()):
            return _normalise_distribution(found.metadata["Name"])
    raise DirectiveError("DIR119", f"{inside} in {site} belongs to no distribution, so its definitions have no id")


def _normalise_distribution(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_listed(real: str) -> bool:
    if not _packages:  # finding out whose file it is takes long
        return False
    try:
        return id_path(real).removeprefix("@").partition("/")[0] in _packages
    except DirectiveError:
        return False


# --- the id of a definition at run time


def path_of(definition: Callable[..., Any] | type) -> str | None:
    """The id path of the file that defines a function or class; None in a REPL or notebook."""
    file = source_file(definition)
    return None if file is None else id_path(file)


def definition_id(kind: Kind, definition: Callable[..., Any] | type) -> str:
    """The id of a decorated function or class, from its source file and qualified name.

    In a REPL or notebook the path is `<interactive>`, and a warning says that such an id is not stable (DIR211).
    """
    plain: Any = definition if isinstance(definition, type) else inspect.unwrap(definition)
    name = identifier(plain.__qualname__)
    path = path_of(definition)
    return interactive_id(kind, name) if path is None else make_id(kind, path, name)


def interactive_id(kind: Kind, name: str) -> str:
    """The id of what was typed into a REPL or a notebook; warns of it."""
    made = f"{kind}//{INTERACTIVE}//{name}"
    warnings.warn(
        DirectiveWarning(f"DIR211 {made} names no file, so no other process will find it: put it into a file"),
        stacklevel=_caller_level(),
    )
    return made


def _caller_level() -> int:
    """How far up the first frame outside of Tenuto is, for a warning's `stacklevel`."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_OURSELVES):
        frame = frame.f_back
        level += 1
    return level
