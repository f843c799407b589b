"""Running a program with its directives compiled: what `python x.py` cannot do for `x.py` itself."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from tenuto.directives.importer import install
from tenuto.directives.spawned import carry_to_children, script_module

__all__ = ["run_module", "run_script"]


def run_script(file: str, arguments: Sequence[str], *, root: str | PathLike[str] | None = None) -> None:
    """Run a file as `__main__`, with `sys.argv` and `sys.path[0]` as Python sets them."""
    install(root)
    carry_to_children(None if root is None else os.fspath(root))
    sys.argv = [file, *arguments]
    path = str(Path(file).absolute())
    _search_first(str(Path(path).resolve().parent))
    module, loader = script_module("__main__", path)
    sys.modules["__main__"] = module
    loader.exec_module(module)


def run_module(name: str, arguments: Sequence[str], *, root: str | PathLike[str] | None = None) -> None:
    """Run a module as `__main__`, as `python -m` does."""
    install(root)
    carry_to_children(None if root is None else os.fspath(root))
    sys.argv = [name, *arguments]
    _search_first(str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _search_first(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = folder
