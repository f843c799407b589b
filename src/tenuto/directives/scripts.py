"""Running a program with its directives compiled: what `python x.py` cannot do for `x.py` itself."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType

from tenuto.directives.importer import DirectiveLoader, install

__all__ = ["run_module", "run_script"]


def run_script(file: str, arguments: Sequence[str], *, root: str | PathLike[str] | None = None) -> None:
    """Run a file as `__main__`, with `sys.argv` and `sys.path[0]` as Python sets them."""
    install(root)
    sys.argv = [file, *arguments]
    path = str(Path(file).absolute())
    _search_first(str(Path(path).resolve().parent))
    loader = DirectiveLoader("__main__", path, "step")
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = loader
    module.__spec__ = None
    vars(module)["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    loader.exec_module(module)


def run_module(name: str, arguments: Sequence[str], *, root: str | PathLike[str] | None = None) -> None:
    """Run a module as `__main__`, as `python -m` does."""
    install(root)
    sys.argv = [name, *arguments]
    _search_first(str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _search_first(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = folder
