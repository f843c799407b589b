"""What an expression of workflow code can be: a definition, a function of the project, something from elsewhere.

The answer lists all that it can be. `Unknown` among them means: something whose code cannot be found.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tenuto.model.naming.scopes import (
    Assigned,
    Binding,
    Defined,
    Entered,
    FunctionNode,
    Imported,
    Item,
    Module,
    Owner,
    Scope,
    directive_of,
    module_scope,
)

__all__ = [
    "Class",
    "Collection",
    "Data",
    "Definition",
    "Function",
    "Instance",
    "Made",
    "Member",
    "ModulePath",
    "Outside",
    "Unknown",
    "Value",
    "World",
    "literals",
]

From: TypeAlias = Literal["model", "plain", "foreign"]


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A step or workflow. `name`: None where it is computed."""

    kind: str
    name: str | None
    body: Function | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """A function of the project, and where it stands. `owner`: of a method, what its first parameter is."""

    node: FunctionNode
    scope: Scope
    owner: Owner | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Class:
    node: ast.ClassDef
    scope: Scope


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    of: Class


@dataclass(frozen=True, eq=False, slots=True)
class ModulePath:
    """A module of the project, or a package that may lead to one."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Outside:
    """A name of Tenuto ("model"), of Python ("plain"), or of an installed package ("foreign").

    `made`: of a method of what such a call gave.
    """

    origin: From
    path: str
    made: ast.Call | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """What a call of something outside gave."""

    origin: From
    call: ast.Call


@dataclass(frozen=True, eq=False, slots=True)
class Member:
    """An attribute of a definition: `charge.options`."""

    of: Definition
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Collection:
    items: tuple[ast.expr, ...]
    scope: Scope


@dataclass(frozen=True, eq=False, slots=True)
class Data:
    """A plain value: text, a number, what a step gave."""


@dataclass(frozen=True, eq=False, slots=True)
class Unknown:
    """Something whose code cannot be found."""


Value: TypeAlias = (
    Definition | Function | Class | Instance | ModulePath | Outside | Made | Member | Collection | Data | Unknown
)

_DEPTH: Final = 25  # of names that lead to names
_MARKS: Final = {"step": "step", "step_options": "step", "workflow": "workflow", "workflow_options": "workflow"}
_GIVES_ITS_ARGUMENT: Final = frozenset(
    {"functools.partial", *(f"builtins.{name}" for name in ("list", "tuple", "set", "sorted", "reversed", "dict"))}
)


class World:
    """The modules of one project. `find`: a module of it by name, None for all others."""

    def __init__(self, find: Callable[[str], Module | None], definition: Callable[[object], Definition | None]) -> None:
        self._find = find
        self._definition = definition  # of a live object
        self._scopes: dict[str, Scope | None] = {}

    def scope_of(self, name: str) -> Scope | None:
        """The scope of a project module; None for other modules."""
        if name not in self._scopes:
            module = self._find(name)
            self._scopes[name] = None if module is None else module_scope(module)
        return self._scopes[name]

    def enter(self, module: Module) -> Scope:
        """The scope of a module that is at hand."""
        scope = self._scopes[module.name] = module_scope(module)
        return scope

    # --- expressions

    def values(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[Value]:
        """All that an expression can be."""
        if depth > _DEPTH:
            return [Unknown()]
        match node:
            case ast.Name(id=name):
                return self._named(name, scope, depth)
            case ast.Attribute():
                owners = self.values(node.value, scope, depth + 1)
                return [one for owner in owners for one in self._attribute(owner, node.attr, depth)]
            case ast.Call():
                called = self.values(node.func, scope, depth + 1)
                return [one for what in called for one in self._called(what, node, scope, depth)]
            case ast.Await() | ast.Starred() | ast.NamedExpr():
                return self.values(node.value, scope, depth + 1)
            case ast.Lambda():
                return [Function(node, scope)]
            case ast.IfExp():
                return self.values(node.body, scope, depth + 1) + self.values(node.orelse, scope, depth + 1)
            case ast.BoolOp():
                return [one for part in node.values for one in self.values(part, scope, depth + 1)]
            case ast.BinOp():
                return self.values(node.left, scope, depth + 1) + self.values(node.right, scope, depth + 1)
            case ast.Subscript():
                return list(self._items(node.value, scope, depth, generic=True))
            case ast.Constant() | ast.JoinedStr() | ast.UnaryOp() | ast.Compare():
                return [Data()]
            case _:
                items = _items_of(node)
                return [Unknown()] if items is None else [Collection(items, scope)]

    def _items(self, node: ast.expr, scope: Scope, depth: int, *, generic: bool = False) -> Iterator[Value]:
        for value in self.values(node, scope, depth + 1):
            if isinstance(value, Collection):
                for item in value.items:
                    yield from self.values(item, value.scope, depth + 1)
            elif generic and isinstance(value, Class | Outside | Definition):
                yield value  # `Reply[int]`
            elif isinstance(value, Data) or (isinstance(value, Made) and value.origin == "plain"):
                yield Data()
            else:
                yield Unknown()

    # --- names

    def _named(self, name: str, scope: Scope, depth: int) -> list[Value]:
        around: Scope | None = scope
        while around is not None:
            found = self._bound(name, around, depth)
            if found is not None:
                return found
            around = around.parent
        return [Outside("plain", f"builtins.{name}")] if hasattr(builtins, name) else [Unknown()]

    def _bound(self, name: str, scope: Scope, depth: int) -> list[Value] | None:
        """What a scope binds a name to; None where it does not bind it."""
        if scope.parent is None:
            live = self._definition(scope.module.live.get(name))
            if live is not None:
                bodies = [b.node for b in scope.bindings.get(name, ()) if isinstance(b, Defined)]
                node = bodies[-1] if bodies else None
                body = None if node is None or isinstance(node, ast.ClassDef) else Function(node, scope)
                return [Definition(live.kind, live.name, body)]
        bindings = scope.bindings.get(name)
        if bindings is None:
            for star in scope.stars:
                found = self._imported(Imported(star, name), depth)
                if not any(isinstance(one, Unknown) for one in found):
                    return found
            return None
        added = tuple(scope.additions.get(name, ()))
        values = [one for binding in bindings for one in self._of_binding(binding, scope, depth)]
        if added:
            values = [Collection(one.items + added, scope) if isinstance(one, Collection) else one for one in values]
        return values

    def _of_binding(self, binding: Binding, scope: Scope, depth: int) -> list[Value]:
        match binding:
            case Imported():
                return self._imported(binding, depth)
            case Defined(node=node):
                return [Class(node, scope)] if isinstance(node, ast.ClassDef) else [self.defined(node, scope)]
            case Assigned(value=value):
                found = self.values(value, scope, depth + 1)
                if scope.parent is None and isinstance(value, ast.Name | ast.Attribute):
                    # An alias at module level is what plugins and tests replace: only imports and defs are followed.
                    return [Unknown() if isinstance(one, Function) else one for one in found]
                return found
            case Item(of=of):
                return list(self._items(of, scope, depth))
            case Entered(context=context):
                return self.values(context, scope, depth + 1)
            case Owner(node=node, scope=around, is_class=is_class):
                owner = Class(node, around)
                return [owner if is_class else Instance(owner)]
            case _:
                return [Unknown()]

    def _imported(self, binding: Imported, depth: int) -> list[Value]:
        top = binding.module.partition(".")[0]
        path = binding.module if binding.member is None else f"{binding.module}.{binding.member}"
        if top == "tenuto":
            return [Outside("model", path)]
        if top in sys.stdlib_module_names:
            return [Outside("plain", path)]
        if binding.member is None:
            return [ModulePath(path)]
        return self._attribute(ModulePath(binding.module), binding.member, depth)

    def _attribute(self, owner: Value, name: str, depth: int) -> list[Value]:
        match owner:
            case ModulePath(name=module):
                scope = self.scope_of(module)
                bound = None if scope is None else self._bound(name, scope, depth + 1)
                if bound is not None:
                    return bound
                if self.scope_of(f"{module}.{name}") is not None:
                    return [ModulePath(f"{module}.{name}")]
                return [Outside("foreign", f"{module}.{name}")] if scope is None else [Unknown()]
            case Outside(origin=origin, path=path, made=made):
                return [Outside(origin, f"{path}.{name}", made)]
            case Made(origin=origin, call=call):
                return [Outside(origin, f"?.{name}", call)]
            case Class():
                return self._method(owner, owner, name, depth)
            case Instance(of=of):
                return self._method(of, owner, name, depth)
            case Definition(body=body):
                return [body or Unknown()] if name == "fn" else [Member(owner, name)]
            case Collection():
                return [Outside("plain", f"?.{name}")]
            case _:
                return [Unknown()]

    def _method(self, cls: Class, through: Class | Instance, name: str, depth: int) -> list[Value]:
        for statement in cls.node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name:
                found = self.defined(statement, cls.scope)
                decorators = {d.id for d in statement.decorator_list if isinstance(d, ast.Name)}
                if isinstance(found, Function) and "staticmethod" not in decorators:
                    owner = Owner(cls.node, cls.scope, "classmethod" in decorators)
                    return [Function(found.node, found.scope, owner)]
                return [found]
        for base in cls.node.bases:
            for value in self.values(base, cls.scope, depth + 1):
                if isinstance(value, Class):
                    found_above = self._method(value, through, name, depth + 1)
                    if not any(isinstance(one, Unknown) for one in found_above):
                        return found_above
        return [Unknown()]

    # --- calls

    def _called(self, what: Value, call: ast.Call, scope: Scope, depth: int) -> list[Value]:
        match what:
            case Class():
                return [Instance(what)]
            case Definition():
                return [Data()]
            case Member(of=of, name="options" | "bind"):
                names = self._given_name(call, scope, of.name)
                return [Definition(of.kind, names, of.body)]
            case Member():
                return [Made("model", call)]
            case Outside(origin="model", path=path):
                return self._made_by_model(path.rpartition(".")[2], call, scope, depth)
            case Outside(path=path) if path in _GIVES_ITS_ARGUMENT and call.args:
                return self.values(call.args[0], scope, depth + 1)
            case Outside(origin=origin) | Made(origin=origin):
                if origin == "model" and isinstance(what, Made) and call.args:  # `step(max_attempts=5)(f)`
                    marked = self._marked(what.call, call.args[0], scope, depth)
                    if marked is not None:
                        return marked
                return [Made(origin, call)]
            case _:
                return [Unknown()]

    def _made_by_model(self, name: str, call: ast.Call, scope: Scope, depth: int) -> list[Value]:
        if name in ("as_step", "as_workflow") and call.args:
            return self.values(call.args[0], scope, depth + 1)
        if name in _MARKS and len(call.args) == 1 and not isinstance(call.args[0], ast.Constant):
            return self._marked(call, call.args[0], scope, depth) or [Unknown()]
        return [Made("model", call)]

    def _marked(self, mark: ast.Call, function: ast.expr, scope: Scope, depth: int) -> list[Value] | None:
        """The definition that a mark makes of a function, where it is one."""
        name = mark.func.attr if isinstance(mark.func, ast.Attribute) else getattr(mark.func, "id", "")
        kind = _MARKS.get(str(name))
        if kind is None:
            return None
        found: list[Value] = []
        for value in self.values(function, scope, depth + 1):
            if not isinstance(value, Function) or isinstance(value.node, ast.Lambda):
                return [Unknown()]
            found.append(Definition(kind, self._given_name(mark, scope, value.node.name), value))
        return found

    def _given_name(self, call: ast.Call, scope: Scope, default: str | None) -> str | None:
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            if keyword.arg == "name":
                found = literals(keyword.value, scope)
                return next(iter(found)) if found is not None and len(found) == 1 else None
        return default

    def defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Definition | Function:
        """What a `def` makes, with its decorators and directives."""
        kind: str | None = directive_of(node.body)
        name: str | None = node.name
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            for value in self.values(target, scope):
                if isinstance(value, Outside) and value.origin == "model" and value.path.count(".") > 0:
                    marked = _MARKS.get(value.path.rpartition(".")[2])
                    kind = marked or kind
                    if marked and isinstance(decorator, ast.Call):
                        name = self._given_name(decorator, scope, name)
        module = scope.module
        is_export = scope.parent is None and not node.name.startswith("_") and isinstance(node, ast.AsyncFunctionDef)
        if kind is None and is_export and node in module.tree.body:
            kind = module.marked
        function = Function(node, scope)
        return function if kind is None else Definition(kind, name, function)


def literals(node: ast.expr, scope: Scope) -> frozenset[str] | None:
    """The texts that an expression can be; None where they are computed."""
    match node:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.IfExp(body=body, orelse=orelse):
            one, other = literals(body, scope), literals(orelse, scope)
            return None if one is None or other is None else one | other
        case ast.Name(id=name):
            around: Scope | None = scope
            while around is not None and name not in around.bindings:
                around = around.parent
            if around is None:
                return None
            found: set[str] = set()
            for binding in around.bindings[name]:
                if not isinstance(binding, Assigned) or not isinstance(binding.value, ast.Constant):
                    return None
                texts = literals(binding.value, around)
                if texts is None:
                    return None
                found |= texts
            return frozenset(found)
        case _:
            return None


def _items_of(node: ast.expr) -> tuple[ast.expr, ...] | None:
    match node:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return tuple(elts)
        case ast.Dict(values=values):
            return tuple(values)
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
            return (elt,)
        case ast.DictComp(value=value):
            return (value,)
        case _:
            return None
