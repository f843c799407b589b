"""The view of a module: the namespace in which its workflow code runs.

A view is never in `sys.modules`. It shares constants, classes and steps with the host module, replaces the standard
library's clocks, chance and environment by the run's own (`substitutes`), and holds the module's plain functions a
second time, over itself. So module code runs once per process, a class is the same class on both sides, and the code
that a run executes sees run time without being written for it. Compiled modules and plain `@workflow` get their view
the same way; it is made when a run first needs it, once per loaded version of the module.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

from tenuto.errors import NotCompiledError
from tenuto.model.audit import install_guard
from tenuto.model.definition_source import is_interactive
from tenuto.model.ids import is_project_file
from tenuto.model.place import OUTSIDE, entered
from tenuto.model.substitutes import substitute, view_print

__all__ = ["body_of", "compile_with", "drop", "share", "view_of"]

F = TypeVar("F", bound=Callable[..., Any])

_KEPT: Final = ("__name__", "__file__", "__spec__", "__loader__", "__package__", "__path__", "__doc__")
_MANIFEST: Final = "__tenuto_manifest__"


@runtime_checkable
class WorkflowLoader(Protocol):
    """A loader that knows a module's workflow-mode code."""

    def workflow_code(self) -> CodeType: ...


@dataclass(slots=True)
class _View:
    module: ModuleType
    host: Mapping[str, Any]
    spec: object
    is_typed: bool = False  # into a REPL or notebook: every run gets a view of what is there when it begins
    functions: dict[FunctionType, FunctionType] = field(default_factory=dict[FunctionType, FunctionType])


_views: dict[str, _View] = {}
_unfilled: deque[_View] = deque()
_lock = RLock()
_compiler: Callable[[ModuleType], CodeType] | None = None


def compile_with(compiler: Callable[[ModuleType], CodeType]) -> None:
    """Who gives workflow-mode code for compiled modules whose loader has none (scripts, rewritten test modules)."""
    global _compiler  # the directives package, a layer above, says it once
    _compiler = compiler


def drop(name: str) -> None:
    """Forget the view of a module that was loaded again; runs in memory keep the old one."""
    _views.pop(name, None)


def view_of(module: ModuleType) -> ModuleType:
    """The view of a module of the project."""
    with _lock, entered(OUTSIDE):
        view = _entry(module).module
        _settle()
        return view


def body_of(fn: F) -> F:
    """The body of a workflow over its module's view: the code a run executes. Closures keep their cells."""
    if not isinstance(fn, FunctionType):
        return fn
    known = _views.get(fn.__module__)
    if known is not None and known.is_typed:  # cells may have been run again since
        drop(fn.__module__)
    elif known is not None and known.host is fn.__globals__ and not _unfilled:  # as at every start but the first
        made = known.functions.get(fn)
        module = sys.modules.get(fn.__module__)
        if made is not None and module is not None and known.spec is getattr(module, "__spec__", None):
            return cast("F", made)
    with _lock, entered(OUTSIDE):
        body = _over_view(fn, closures=True)
        _settle()
        return cast("F", body)


def share(namespace: dict[str, Any]) -> None:
    """Fill a view with what its host module has; the first thing that workflow-mode code does."""
    host = sys.modules.get(namespace["__name__"])
    if host is None or vars(host) is namespace:
        return
    with _lock:
        for name, value in list(vars(host).items()):
            if name not in namespace:
                namespace[name] = _seen(value)


# --- making views


def _entry(module: ModuleType) -> _View:
    """The view of a module, possibly still empty: `_settle` fills it before anybody uses it."""
    name = module.__name__
    known = _views.get(name)
    if known is not None and known.host is vars(module) and known.spec is getattr(module, "__spec__", None):
        return known
    install_guard()
    view = ModuleType(name)
    namespace = vars(view)
    for kept in _KEPT:
        if kept in vars(module):
            namespace[kept] = vars(module)[kept]
    namespace["__builtins__"] = _view_builtins()
    is_typed = getattr(module, "__file__", None) is None
    entry = _views[name] = _View(view, vars(module), getattr(module, "__spec__", None), is_typed)
    _unfilled.append(entry)
    return entry


def _settle() -> None:
    """Fill the views that were begun. One after another: modules import each other, in chains of any length.

    First every view gets what its host has, then the workflow-mode code runs, which may call functions of any of them.
    """
    begun: list[_View] = []
    try:
        while _unfilled:
            entry = _unfilled.popleft()
            begun.append(entry)
            share(vars(entry.module))
        while begun:
            _run_workflow_code(begun[0])
            del begun[0]
    except BaseException:
        for entry in (*begun, *_unfilled):
            _views.pop(entry.module.__name__, None)
        _unfilled.clear()
        raise


def _run_workflow_code(entry: _View) -> None:
    if _MANIFEST not in entry.host:
        return
    loader = entry.host.get("__loader__")
    if isinstance(loader, WorkflowLoader):
        code = loader.workflow_code()
    elif _compiler is not None:
        code = _compiler(sys.modules[entry.module.__name__])
    else:
        name = entry.module.__name__
        raise NotCompiledError(f"the workflow code of {name} is not to be had: no import hook is installed")
    exec(code, vars(entry.module))  # noqa: S102  # the user's own module, in workflow mode


@lru_cache(maxsize=4096)
def _is_project(file: str) -> bool:
    return not file.startswith("<") and is_project_file(file)


def _is_of_project(fn: FunctionType) -> bool:
    file = fn.__code__.co_filename
    return _is_project(file) or (file.startswith("<") and not file.startswith("<frozen ") and is_interactive(fn))


def _seen(value: Any) -> Any:
    """A value of the host namespace as its view has it."""
    replaced = substitute(value)
    if replaced is not None:
        return replaced
    if isinstance(value, ModuleType):
        file = getattr(value, "__file__", None)
        return _entry(value).module if isinstance(file, str) and _is_project(file) else value
    if type(value) is FunctionType:
        return _over_view(value, closures=False)
    return value


def _over_view(fn: FunctionType, *, closures: bool) -> FunctionType:
    """The same code over the view of its module; the function itself where that cannot be."""
    if (fn.__closure__ is not None and not closures) or not _is_of_project(fn):
        return fn
    module = sys.modules.get(fn.__globals__.get("__name__", ""))
    if module is None or vars(module) is not fn.__globals__:
        return fn
    entry = _entry(module)
    made = entry.functions.get(fn)
    if made is None:
        entry.is_typed = entry.is_typed or (fn.__module__ == "__main__" and is_interactive(fn))
        made = FunctionType(fn.__code__, vars(entry.module), fn.__name__, fn.__defaults__, fn.__closure__)
        made.__kwdefaults__ = fn.__kwdefaults__
        made.__annotations__ = fn.__annotations__
        made.__qualname__ = fn.__qualname__
        made.__doc__ = fn.__doc__
        made.__module__ = fn.__module__
        vars(made).update(vars(fn))
        entry.functions[fn] = made
    return made


# --- imports made inside of functions


def _view_builtins() -> dict[str, Any]:
    return {**vars(builtins), "__import__": _import, "print": view_print}


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002  # the signature of __import__
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """`__import__` of a view: the same values that an import at module level would have given."""
    found = builtins.__import__(name, globals, locals, fromlist or (), level)
    with _lock, entered(OUTSIDE):
        seen = _seen(found)
        _settle()
        if seen is not found:
            _complete(found, seen, fromlist or (), name)
            _settle()
        return seen


def _complete(found: ModuleType, seen: ModuleType, fromlist: Sequence[str], name: str) -> None:
    """Add what was imported after the view was made."""
    if fromlist:
        wanted = [n for n in vars(found) if not n.startswith("_")] if "*" in fromlist else fromlist
        for member in wanted:
            if member not in vars(seen) and hasattr(found, member):
                setattr(seen, member, _seen(getattr(found, member)))
        return
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return
        if part not in vars(seen):
            setattr(seen, part, _seen(getattr(found, part)))
        found, seen = getattr(found, part), getattr(seen, part)
