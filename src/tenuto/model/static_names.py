"""Which operation names a workflow can issue, read from its module's source.

The kernel uses the answer in one direction only: a recorded name that is *not* in the set is gone for certain. So the
set may be too large (every text and every definition of the module is in it) but never too small, and wherever a name
could come from elsewhere the answer is None: "cannot say".
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from tenuto.model.definition_source import module_tree

__all__ = ["DEFAULT_NAMES", "static_names"]

DEFAULT_NAMES: Final = frozenset(
    {"sleep", "timer", "join", "race", "parallel", "receive", "side_effect", "hook", "task", "patch"}
)

# Where a model function takes a name: the position of the argument, or -1 for a mapping whose keys are names.
_NAMED_AT: Final[dict[str, tuple[int, ...]]] = {
    "step": (0,),
    "loop": (0,),
    "removed": (0,),
    "patched": (0,),
    "deprecate_patch": (0,),
    "rollback_checkpoint": (0,),
    "wait_for_signal": (0,),
    "signal": (1,),
    "join": (-1,),
    "race": (-1,),
    "hook": (),
    "receive": (),
}

# Methods of the built-in containers, texts and numbers: called without `await` they issue nothing.
_PLAIN_METHODS: Final = frozenset(
    name
    for kind in (str, bytes, list, dict, set, frozenset, tuple, int, float, bytearray)
    for name in dir(kind)
    if not name.startswith("_")
)


class _Unsure(Exception):
    """Some name may come from outside of this module."""


def static_names(fn: Callable[..., Any]) -> frozenset[str] | None:
    """Every name that operations of this workflow's module can have or that it passes to `removed`; None: unknown."""
    plain = inspect.unwrap(fn)
    tree = module_tree(plain)
    if tree is None or not isinstance(plain, FunctionType):
        return None
    names = set(DEFAULT_NAMES)
    try:
        for node in ast.walk(tree):
            _collect(node, plain.__globals__, names)
        for function in _functions(tree):
            _check_calls(function, _bound_in(function), plain.__globals__)
    except _Unsure:
        return None
    return frozenset(names)


def _collect(node: ast.AST, scope: Mapping[str, Any], names: set[str]) -> None:
    match node:
        case ast.Constant(value=str(text)):
            names.update((text, f"signal:{text}", f"send:{text}", f"child:{text}"))
        case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
            names.update((text, f"child:{text}"))
        case ast.alias():
            names.update(_names_of(scope.get((node.asname or node.name).partition(".")[0])))
        case _:
            pass


def _names_of(value: object) -> Iterator[str]:
    """The names of an imported step or workflow, and of those that an imported module holds."""
    if isinstance(value, ModuleType):
        for member in list(vars(value).values()):
            if _is_definition(member):
                yield from _names_of(member)
    elif _is_definition(value):
        name: str = value.name  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        yield name
        yield f"child:{name}"


def _is_definition(value: object) -> bool:
    from tenuto.model.definitions import Step, Workflow  # that module imports this one

    return isinstance(value, Step | Workflow)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_step(node):
            yield node


def _is_step(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A step's body issues nothing: no call in it matters."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")) == "step":
            return True
    return any(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value == "use step"
        for statement in node.body[:2]
    )


def _bound_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Names that are local to a function, those of functions and classes defined in it left out."""
    arguments = function.args
    bound = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    bound.update(a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None)
    bound.update(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    defined = {
        n.name for n in ast.walk(function) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    return frozenset(bound - defined)


def _check_calls(
    function: ast.FunctionDef | ast.AsyncFunctionDef, local: frozenset[str], scope: Mapping[str, Any]
) -> None:
    defined = {
        n.name for n in ast.walk(function) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    awaited = {id(n.value) for n in ast.walk(function) if isinstance(n, ast.Await)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in defined:
            continue
        _check_call(node, local, scope, is_awaited=id(node) in awaited)


def _check_call(node: ast.Call, local: frozenset[str], scope: Mapping[str, Any], *, is_awaited: bool) -> None:
    target = _resolve(node.func, local, scope)
    if target is None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PLAIN_METHODS and not is_awaited:
            return
        raise _Unsure
    if _is_definition(target):
        return
    module = getattr(target, "__module__", None) or ""
    if isinstance(target, BuiltinFunctionType | type) and module == "builtins":
        return
    if module.partition(".")[0] == "tenuto":
        _check_model_call(node, getattr(target, "__name__", ""))
        _check_handed_over(node, getattr(target, "__name__", ""), local, scope)
    elif module == scope.get("__name__") and isinstance(target, FunctionType | MethodType | type):
        return  # its body is in this module and looked at by itself
    elif module.partition(".")[0] not in sys.stdlib_module_names:
        raise _Unsure


def _resolve(node: ast.expr, local: frozenset[str], scope: Mapping[str, Any]) -> Any:
    """The object that a dotted name means at module level, or None."""
    if isinstance(node, ast.Name):
        if node.id in local:
            return None
        return scope.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, local, scope)
        if isinstance(owner, ModuleType | type) or _is_definition(owner):
            return inspect.getattr_static(owner, node.attr, None)
    return None


def _check_model_call(node: ast.Call, name: str) -> None:
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        raise _Unsure
    for keyword in node.keywords:
        if keyword.arg in (None, "name"):
            _check_text(keyword.value)
        elif keyword.arg in ("updates", "signals"):
            _check_keys(keyword.value)
    for position in _NAMED_AT.get(name, ()):
        argument = node.args[max(position, 0)] if len(node.args) > max(position, 0) else None
        if argument is None or (name == "step" and not isinstance(argument, ast.Constant) and len(node.args) == 1):
            continue  # `step(fn)` and `step(**options)` make a definition and issue nothing
        if position < 0:
            _check_keys(argument)
        else:
            _check_text(argument)


def _check_handed_over(node: ast.Call, name: str, local: frozenset[str], scope: Mapping[str, Any]) -> None:
    """What is handed to the model will be called by it, so it must be known as well."""
    if name in ("spawn", "detach", "run") and node.args:
        first = node.args[0]
        while isinstance(first, ast.Call | ast.Attribute):  # `as_workflow(ride).bind(3)`, `jobs.ride`
            first = first.args[0] if isinstance(first, ast.Call) and first.args else _inside(first)
        if not isinstance(first, ast.Constant) and not (isinstance(first, ast.Name) and first.id not in local):
            raise _Unsure
    if name in ("step", "side_effect"):
        return  # their functions run as plain code and issue nothing
    handed_over = [*node.args, *(keyword.value for keyword in node.keywords)]
    for part in (inner for argument in handed_over for inner in ast.walk(argument)):
        if isinstance(part, ast.Name | ast.Attribute):
            handed = _resolve(part, local, scope)
            module = getattr(handed, "__module__", None) or ""
            known = module == scope.get("__name__") or module.partition(".")[0] in ("tenuto", *sys.stdlib_module_names)
            if isinstance(handed, FunctionType | MethodType) and not known:
                raise _Unsure


def _inside(node: ast.Call | ast.Attribute) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node.value


def _check_text(node: ast.expr) -> None:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        raise _Unsure


def _check_keys(node: ast.expr) -> None:
    if not isinstance(node, ast.Dict):
        raise _Unsure
    for key in node.keys:
        if key is None:
            raise _Unsure
        _check_text(key)
