"""What the project says about the files of a folder: how strict to be with them, and where their ids begin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tenuto.directives.caches import cache_key, named_key
from tenuto.directives.transform import Mode
from tenuto.errors import DirectiveError
from tenuto.model import ids

__all__ = ["directive_settings", "file_key", "folder_key", "forget_settings", "is_strict"]


@dataclass(frozen=True, slots=True)
class FolderSettings:
    prefix: str | None  # what the id paths of its files begin with; None where only a file itself can tell
    strict: bool


@lru_cache(maxsize=4096)
def settings_of(folder: str) -> FolderSettings:
    file = os.path.join(folder, "module.py")
    strict = bool(directive_settings(ids.project_root(file)).get("strict", False))
    try:
        return FolderSettings(ids.id_path(file).removesuffix("module.py"), strict)
    except DirectiveError:  # an installed file, or one outside of the root: the file itself says what is wrong
        return FolderSettings(None, strict)


@lru_cache(maxsize=4096)
def folder_key(folder: str, mode: Mode) -> bytes | None:
    """The key, but for its name, of every file that really is here: its id path is the folder's with its name."""
    settings = settings_of(folder)
    return None if settings.prefix is None else cache_key(settings.prefix, mode, settings.strict, folder)


def file_key(file: str, id_path: str, mode: Mode) -> bytes:
    """The key of any file, symbolic links and installed files included."""
    folder, name = os.path.split(file)
    settings = settings_of(folder)
    key = folder_key(folder, mode)
    if key is not None and id_path == f"{settings.prefix}{ids.normalise(name)}":
        return named_key(key, name)
    return named_key(cache_key(id_path, mode, settings.strict, file), name)


def is_strict(filename: str) -> bool:
    return settings_of(os.path.dirname(filename)).strict


@lru_cache(maxsize=64)
def directive_settings(root: Path) -> Mapping[str, Any]:
    """What `[tool.tenuto.directives]` says, read once for the folders of a project."""
    settings = ids.tool_settings(root).get("directives", {})
    return dict(settings) if isinstance(settings, dict) else {}  # pyright: ignore[reportUnknownArgumentType]


def forget_settings() -> None:
    """Read the project's settings again when they are next asked for."""
    directive_settings.cache_clear()
    settings_of.cache_clear()
    folder_key.cache_clear()
