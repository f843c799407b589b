"""Processes that a script spawns: `multiprocessing` imports the script once more there, and must compile it too.

A spawned process gets its preparations as pickled data before it imports the main module. The name of that module
carries ours along: to unpickle it installs the hook, and lets a script be loaded as `tenuto run` loads it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from multiprocessing import spawn
from types import ModuleType
from typing import Any, Final, cast

from tenuto.directives.importer import DirectiveLoader, install

__all__ = ["carry_to_children", "script_module"]

_MAIN: Final = ("init_main_from_path", "init_main_from_name")
_IN_CHILD: Final = "__mp_main__"
_Prepare = Callable[[str], "dict[str, Any]"]


class _Main(str):
    """The path or name of the main module, which prepares the process that reads it."""

    __slots__ = ("root",)
    root: str | None

    def __reduce__(self) -> tuple[Callable[..., str], tuple[str, str | None]]:
        return _prepared, (str(self), self.root)


def carry_to_children(root: str | None) -> None:
    """Compile the main module in the processes that this one spawns, with ids from the same root."""
    own = cast("Any", spawn)
    prepare: _Prepare = getattr(own.get_preparation_data, "__wrapped__", own.get_preparation_data)

    def preparation(name: str) -> Mapping[str, Any]:
        data = prepare(name)
        for key in _MAIN:
            if key in data:
                carried = data[key] = _Main(data[key])
                carried.root = root
        return data

    cast("Any", preparation).__wrapped__ = prepare
    own.get_preparation_data = preparation


def _prepared(main: str, root: str | None) -> str:
    """In the spawned process: what `tenuto run` did in this process's parent."""
    install(root)
    carry_to_children(root)
    cast("Any", spawn)._fixup_main_from_path = _load_main
    return main


def _load_main(path: str) -> None:
    current = sys.modules["__main__"]
    if getattr(current, "__file__", None) == path:  # forked from a process that has it
        return
    cast("Any", spawn).old_main_modules.append(current)
    module, loader = script_module(_IN_CHILD, path)
    sys.modules["__main__"] = sys.modules[_IN_CHILD] = module
    loader.exec_module(module)


def script_module(name: str, path: str) -> tuple[ModuleType, DirectiveLoader]:
    """A module for the file of a script, and what executes it."""
    loader = DirectiveLoader(name, path, "step")
    module = ModuleType(name)
    module.__file__ = path
    module.__loader__ = loader
    module.__spec__ = None
    vars(module)["__builtins__"] = __builtins__
    return module, loader
