"""Which operation names a workflow can issue, read from the source of what it can reach.

The kernel uses the answer in one direction only: a recorded name that is *not* in the set is gone for certain. So the
set may be too large but never too small, and wherever a name could come from elsewhere the answer is None: "cannot
say". What prevented it is a doubt, which `tenuto check` and `tenuto lint` report (DIR408).
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

from tenuto.model.definition_source import module_tree, source_file
from tenuto.model.naming.scopes import Module, Scope, directive_of, function_scope
from tenuto.model.naming.survey import Doubt, Survey
from tenuto.model.naming.values import Definition, Function, World

__all__ = ["DEFAULT_NAMES", "Doubt", "module_doubts", "name_doubts", "static_names"]

DEFAULT_NAMES: Final = frozenset(
    {"sleep", "timer", "join", "race", "parallel", "receive", "side_effect", "hook", "task", "patch"}
)


def static_names(fn: Callable[..., Any]) -> frozenset[str] | None:
    """Every name that operations of this workflow can have or that it passes to `removed`; None: unknown."""
    survey = _survey(fn)
    return frozenset(survey.names | DEFAULT_NAMES) if survey is not None and not survey.doubts else None


def name_doubts(fn: Callable[..., Any]) -> tuple[Doubt, ...]:
    """What prevents the names of this workflow from being known, and where."""
    survey = _survey(fn)
    return () if survey is None else survey.doubts


def _survey(fn: Callable[..., Any]) -> Survey | None:
    """The survey of a loaded workflow; None where its source is not to be had."""
    plain = inspect.unwrap(fn)
    tree = module_tree(plain)
    if tree is None or not isinstance(plain, FunctionType):
        return None
    world = World(_loaded, _definition)
    name = plain.__module__
    module = Module(
        name, source_file(plain) or "", tree, _package(plain.__globals__), plain.__globals__, directive_of(tree.body)
    )
    top = world.enter(module)
    found = _find(plain.__qualname__.split("."), tree.body, top)
    line = plain.__code__.co_firstlineno
    exact = [one for one in found if line in (one.node.lineno, _first_line(one.node))]
    if not found:
        return None
    survey = Survey(world)
    for function in exact or found:
        survey.reach(function)
    return survey


def module_doubts(module: Module, find: Callable[[str], Module | None]) -> tuple[Doubt, ...]:
    """The doubts about all workflows of a module that need not be loaded. `find`: other modules of its project."""
    world = World(find, lambda value: None)
    top = world.enter(module)
    doubts: dict[Doubt, None] = {}
    for function in _functions(module.tree.body, top):
        if isinstance(function.node, ast.Lambda):
            continue
        defined = world.defined(function.node, function.scope)
        if isinstance(defined, Definition) and defined.kind == "workflow":
            survey = Survey(world)
            survey.reach(function)
            doubts.update(dict.fromkeys(survey.doubts))
    return tuple(doubts)


# --- finding functions


def _find(path: list[str], body: list[ast.stmt], scope: Scope) -> list[Function]:
    """The functions with this qualified name."""
    name, *rest = [part for part in path if part != "<locals>"]
    found: list[Function] = []
    for node in _definitions(body):
        if node.name != name:
            continue
        if isinstance(node, ast.ClassDef):
            found += _find(rest, node.body, scope) if rest else []
        elif rest:
            found += _find(rest, node.body, function_scope(node, scope))
        else:
            found.append(Function(node, scope))
    return found


def _functions(body: list[ast.stmt], scope: Scope) -> Iterator[Function]:
    for node in _definitions(body):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, scope)
        else:
            yield Function(node, scope)
            yield from _functions(node.body, function_scope(node, scope))


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes of a body, also below its `if`, `try` and `with`."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif not isinstance(node, ast.expr):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _first_line(node: ast.AST) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min((decorator.lineno for decorator in decorators), default=-1)


# --- loaded modules


def _loaded(name: str) -> Module | None:
    """A module of the project that this process has loaded."""
    from tenuto.model.ids import is_project_file  # that module imports this one

    module = sys.modules.get(name)
    file: object = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py") or not is_project_file(file):
        return None
    names: dict[str, Any] = vars(module)
    loaded = getattr(names.get("__loader__"), "loaded_source", None)
    text = str(loaded()) if callable(loaded) else "".join(linecache.getlines(file, names))
    tree = _parsed(text)
    return None if tree is None else Module(name, file, tree, _package(names), names, directive_of(tree.body))


@lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _package(names: Mapping[str, Any]) -> str:
    return str(names.get("__package__") or "")


def _definition(value: object) -> Definition | None:
    """A loaded step or workflow, however it was made."""
    from tenuto.model.definitions import Step, Workflow  # that module imports this one

    if isinstance(value, Step):
        return Definition("step", value.name)  # pyright: ignore[reportUnknownMemberType]
    if isinstance(value, Workflow):
        return Definition("workflow", value.name)  # pyright: ignore[reportUnknownMemberType]
    return None
