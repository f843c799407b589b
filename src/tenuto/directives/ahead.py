"""Compiling ahead of time: the caches that the import hook reads, made where nothing may be written later."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tenuto.directives.caches import cache_path
from tenuto.directives.importer import DirectiveLoader
from tenuto.directives.transform import Mode

__all__ = ["write_caches"]


def write_caches(files: Iterable[Path], mode: Mode) -> list[Path]:
    """Compile these files as an import in this mode would, for their views too; those that could not be written."""
    held, sys.dont_write_bytecode = sys.dont_write_bytecode, False  # this is what was asked for
    try:
        return [file for file in files if not _write(str(file.absolute()), mode)]
    finally:
        sys.dont_write_bytecode = held


def _write(file: str, mode: Mode) -> bool:
    loader = DirectiveLoader("__compiled_ahead__", file, mode)
    loader.get_code(loader.name)
    loader.workflow_code()
    made = [cache_path(*os.path.split(file), one) for one in (mode, "workflow")]
    return all(path is not None and os.path.exists(path) for path in made)
