"""What names are bound to in a module or function, as its source says.

Nothing is executed. A name that is bound several times has all its bindings: which of them holds is not asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "Assigned",
    "Binding",
    "Defined",
    "Entered",
    "FunctionNode",
    "Imported",
    "Item",
    "Module",
    "Opaque",
    "Owner",
    "Scope",
    "directive_of",
    "function_scope",
    "module_scope",
]

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ADDING: Final = frozenset({"append", "add", "extend", "insert", "appendleft"})


@dataclass(frozen=True, slots=True)
class Imported:
    """`import module` (no member) or `from module import member`."""

    module: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Defined:
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Assigned:
    value: ast.expr


@dataclass(frozen=True, slots=True)
class Item:
    """One of what an expression gives: the target of a `for`."""

    of: ast.expr


@dataclass(frozen=True, slots=True)
class Entered:
    """The target of a `with`."""

    context: ast.expr


@dataclass(frozen=True, slots=True)
class Owner:
    """The first parameter of a method: an instance of this class, or the class."""

    node: ast.ClassDef
    scope: Scope
    is_class: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """A parameter, or a binding of another kind: it may be anything."""


Binding: TypeAlias = Imported | Defined | Assigned | Item | Entered | Owner | Opaque


@dataclass(eq=False, slots=True)
class Module:
    """A module of the project. `live`: its globals where it is loaded, else nothing."""

    name: str
    file: str
    tree: ast.Module
    package: str
    live: Mapping[str, Any]
    marked: Literal["step", "workflow"] | None = None  # a directive for all its exports


@dataclass(eq=False, slots=True)
class Scope:
    """The bindings of a module or function, and the scope around it. `additions`: what is put into a collection."""

    module: Module
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict[str, list[Binding]])
    additions: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])
    keys: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])  # put into a mapping
    stars: list[str] = field(default_factory=list[str])

    def bind(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)


def module_scope(module: Module) -> Scope:
    scope = Scope(module, None)
    _collect(module.tree.body, scope)
    return scope


def function_scope(node: FunctionNode, around: Scope, owner: Owner | None = None) -> Scope:
    """The scope of a function's body; `owner`: what its first parameter is, in a method."""
    scope = Scope(around.module, around)
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    for argument in (*plain, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            is_owner = owner is not None and bool(plain) and argument is plain[0]
            scope.bind(argument.arg, owner if is_owner and owner is not None else Opaque())
    _collect([ast.Expr(node.body)] if isinstance(node, ast.Lambda) else node.body, scope)
    return scope


def _collect(body: list[ast.stmt] | list[ast.Expr], scope: Scope) -> None:
    for node in _own(body):
        _bind(node, scope)


def _own(body: list[ast.stmt] | list[ast.Expr]) -> Iterator[ast.AST]:
    """The nodes of a body, those of functions and classes in it left out."""
    pending: list[ast.AST] = list(reversed(body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _bind(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Import() | ast.ImportFrom():
            _bind_import(node, scope)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            scope.bind(node.name, Defined(node))
        case ast.Assign():
            for target in node.targets:
                _bind_target(target, node.value, scope)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            _bind_target(target, value, scope)
        case ast.AugAssign() | ast.NamedExpr():
            _bind_target(node.target, node.value, scope)
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            _bind_others(node.target, scope, Item(node.iter))
        case ast.withitem(optional_vars=target) if target is not None:
            _bind_others(target, scope, Entered(node.context_expr))
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bind(name, Opaque())
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _ADDING:
            scope.additions.setdefault(name, []).extend(node.args)
        case _:
            pass


def _bind_import(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            scope.bind(alias.asname or top, Imported(alias.name if alias.asname else top, None))
        return
    parts = scope.module.package.split(".") if scope.module.package else []
    above = parts[: len(parts) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        if alias.name == "*":
            scope.stars.append(module)
        else:
            scope.bind(alias.asname or alias.name, Imported(module, alias.name))


def _bind_target(target: ast.expr, value: ast.expr, scope: Scope) -> None:
    match target:
        case ast.Name(id=name):
            scope.bind(name, Assigned(value))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            if len(values) == len(targets) and not any(isinstance(part, ast.Starred) for part in (*targets, *values)):
                for one, part in zip(targets, values, strict=True):
                    _bind_target(one, part, scope)
            else:
                _bind_others(target, scope, Opaque())
        case ast.Subscript(value=ast.Name(id=name), slice=key):
            scope.additions.setdefault(name, []).append(value)
            scope.keys.setdefault(name, []).append(key)
        case _:
            _bind_others(target, scope, Opaque())


def _bind_others(target: ast.expr, scope: Scope, binding: Binding) -> None:
    if isinstance(target, ast.Name):
        scope.bind(target.id, binding)
        return
    for part in ast.walk(target):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            scope.bind(part.id, Opaque())


def directive_of(body: list[ast.stmt]) -> Literal["step", "workflow"] | None:
    """What a directive at the head of a body marks."""
    for statement in body[:2]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if statement.value.value == "use step":
                return "step"
            if statement.value.value == "use workflow":
                return "workflow"
    return None
