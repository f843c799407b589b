"""Which loaded modules are the user's own: the files of a project.

Rules:

1. A file is a project's unless it is installed, of the standard library, or Tenuto's; a program without a file (a
   prompt, a notebook) is the user's too.
2. An installed package counts as a whole where one of its modules defines a step or workflow: applications are often
   installed. A function that somebody else made a step of does not bring its package in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Final

__all__ = [
    "INSTALLED",
    "is_own_module",
    "is_project_file",
    "is_project_module",
    "modules",
    "note_definition",
    "use_listed",
]

INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_STANDARD_LIBRARY: Final = os.path.realpath(os.path.dirname(os.__file__)) + os.sep
_OURSELVES: Final = os.path.realpath(os.path.dirname(os.path.dirname(__file__))) + os.sep
_US: Final = __name__.partition(".")[0]

_packages: set[str] = set()  # that define steps or workflows
_defined: list[tuple[str, str, object]] = []  # not looked at yet: module, name there, and the definition


def _nothing(_: str) -> bool:
    return False


_listed: Callable[[str], bool] = _nothing


def use_listed(is_listed: Callable[[str], bool]) -> None:
    """Let this decide about installed files."""
    global _listed  # one process has one project
    _listed = is_listed
    _is_project_file.cache_clear()


def is_project_file(file: str | os.PathLike[str]) -> bool:
    """Is this a source file of the user's: not the standard library, not installed, not Tenuto itself?"""
    real = os.path.realpath(file)
    if not INSTALLED.isdisjoint(real.split(os.sep)):
        return _listed(real)
    return not real.startswith((_STANDARD_LIBRARY, _OURSELVES)) and not real.startswith("<")


def note_definition(fn: object, definition: object) -> None:
    """A step or workflow was made of a function; whether by the function's own module is looked at when it matters."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and module.partition(".")[0] not in _packages:
        _defined.append((module, name, definition))


def _take_note() -> None:
    while _defined:
        module_name, name, definition = _defined.pop()
        found: object = sys.modules.get(module_name)
        for part in name.split("."):
            found = vars(found).get(part) if isinstance(found, (ModuleType, type)) else None
        if found is definition:
            _packages.add(module_name.partition(".")[0])


def is_own_module(name: str) -> bool:
    """True for a module of Tenuto itself."""
    return name.partition(".")[0] == _US


def modules() -> Iterator[ModuleType]:
    """The loaded modules of the project."""
    loaded: list[tuple[str, object]] = list(sys.modules.items())  # a test's double may stand in there, or None
    for name, module in loaded:
        if isinstance(module, ModuleType) and is_project_module(name, module):
            yield module


def is_project_module(name: str, module: ModuleType) -> bool:
    """Is this loaded module the user's?"""
    top = name.partition(".")[0]
    if top == _US:
        return False
    if _defined:
        _take_note()
    if top in _packages:
        return True
    file = vars(module).get("__file__")
    if type(file) is not str:
        return name == "__main__"  # a prompt, a notebook, `python -c`
    return _is_project_file(file)


@lru_cache(maxsize=8192)
def _is_project_file(file: str) -> bool:
    return file.startswith("<") or is_project_file(file)
