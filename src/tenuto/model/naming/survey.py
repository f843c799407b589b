"""A walk through all code that a workflow can reach, noting the names it issues and what makes them uncertain.

Rules:

1. What is reached: the workflow's body, and every function of the project that it refers to, in any file.
2. Not reached: bodies of steps, and functions handed to `step`, `side_effect` or `rollback=`, which are such bodies.
3. What is not awaited and comes from elsewhere (a logger, a method of a value, an installed package) issues nothing.
4. Uncertain is a computed name; an awaited call, or a callable handed to the model, whose code cannot be found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tenuto.model.naming.model_calls import ModelCall
from tenuto.model.naming.scopes import Assigned, Scope, function_scope
from tenuto.model.naming.values import (
    Class,
    Collection,
    Data,
    Definition,
    Function,
    Made,
    Member,
    ModulePath,
    Outside,
    Unknown,
    Value,
    World,
)

__all__ = ["Doubt", "Survey"]

_TAKES_COROUTINES: Final = frozenset(
    {"gather", "wait", "wait_for", "shield", "create_task", "ensure_future", "as_completed", "start_soon"}
)
_PASSES_ON: Final = (
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.Starred,
    ast.IfExp,
    ast.BoolOp,
    ast.NamedExpr,
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.DictComp,
    ast.keyword,
)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What prevents the names of a workflow from being known, and where. Lines and columns as `ast` counts them."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    what: str


class Survey:
    """The names and doubts of one workflow."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: set[str] = set()
        self._doubts: dict[tuple[str, int, int], Doubt] = {}
        self._seen: set[ast.AST] = set()
        self._reached: list[Function] = []

    def reach(self, function: Function) -> None:
        """Walks through a function, and through all that can be reached from it."""
        self._refer(function)
        while self._reached:
            reached = self._reached.pop()
            self._enter(reached)

    def doubt(self, node: ast.expr, scope: Scope, what: str) -> None:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        place = (scope.module.file, node.lineno, node.col_offset)
        self._doubts.setdefault(place, Doubt(*place, end_line, end_column, what))

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """One for each place, in the order they were met."""
        return tuple(self._doubts.values())

    # --- functions

    def _refer(self, value: Value) -> None:
        """Something is named: it may be called, here or by whoever gets it."""
        match value:
            case Function(node=node) if node not in self._seen:
                self._seen.add(node)
                self._reached.append(value)
            case Definition(kind="step", name=name) if name is not None:
                self.names.add(name)
            case _:
                pass

    def _enter(self, function: Function) -> None:
        node = function.node
        scope = function_scope(node, function.scope, function.owner)
        if isinstance(node, ast.Lambda):
            self.walk(node.body, scope)
            return
        for decorator in node.decorator_list:
            for value in self.world.values(decorator.func if isinstance(decorator, ast.Call) else decorator, scope):
                self._refer(value)
        for statement in node.body:
            self.walk(statement, scope)

    # --- nodes

    def walk(self, node: ast.AST, scope: Scope, *, awaited: bool = False) -> None:
        """`awaited`: what this expression gives is awaited, here or by what it is handed to."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._nested(node, scope)
            case ast.Lambda():
                self._refer(Function(node, scope))
            case ast.Await(value=value):
                self._awaited_variable(value, scope)
                self.walk(value, scope, awaited=True)
            case ast.Call():
                self._call(node, scope, awaited)
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                self._reference(node, scope)
            case ast.AnnAssign(value=value):
                if value is not None:
                    self.walk(value, scope)
            case ast.AsyncFor() | ast.comprehension(is_async=1):
                self._children(node, scope, awaited=node.iter)
            case ast.AsyncWith(items=items, body=body):
                for item in items:
                    self.walk(item.context_expr, scope, awaited=True)
                for statement in body:
                    self.walk(statement, scope)
            case _:
                passes_on = awaited and isinstance(node, _PASSES_ON)
                for child in ast.iter_child_nodes(node):
                    self.walk(child, scope, awaited=passes_on)

    def _children(self, node: ast.AST, scope: Scope, *, awaited: ast.expr) -> None:
        for child in ast.iter_child_nodes(node):
            self.walk(child, scope, awaited=child is awaited)

    def _nested(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.walk(default, scope)
        defined = self.world.defined(node, scope)
        if isinstance(defined, Function):
            self._refer(defined)

    def _reference(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        values = self.world.values(node, scope)
        for value in values:
            for one in self._members(value):
                self._refer(one)
        if isinstance(node, ast.Attribute) and any(isinstance(value, Unknown | Member | Outside) for value in values):
            self.walk(node.value, scope)

    def _members(self, value: Value) -> Iterator[Value]:
        """A value, or those of a collection: a tuple of steps at module level."""
        if not isinstance(value, Collection):
            yield value
            return
        for item in value.items:
            if isinstance(item, ast.Name | ast.Attribute | ast.Lambda):
                yield from self.world.values(item, value.scope)

    def _awaited_variable(self, node: ast.expr, scope: Scope) -> None:
        """`coro = thing.work(); await coro`."""
        if not isinstance(node, ast.Name):
            return
        for binding in scope.bindings.get(node.id, ()):
            if isinstance(binding, Assigned) and isinstance(binding.value, ast.Call):
                self._check_awaited(binding.value, self.world.values(binding.value.func, scope), scope)

    # --- calls

    def _call(self, call: ast.Call, scope: Scope, awaited: bool) -> None:
        values = self.world.values(call.func, scope)
        if awaited:
            self._check_awaited(call, values, scope)
        skipped: set[ast.expr] = set()
        passed_on: set[ast.expr] = set()
        for value in values:
            match value:
                case Definition(name=None):
                    self.doubt(call, scope, "the name of this step is computed")
                case Definition():
                    self._refer(value)
                case Class():
                    for method in ("__init__", "__post_init__"):
                        for one in self.world.values(_attribute(call.func, method), scope):
                            self._refer(one)
                case Member():
                    skipped.update(_rollback(call))
                case Outside(origin="model", path=path, made=made):
                    asked = ModelCall(self, call, scope)
                    asked.read(path, made)
                    skipped |= asked.bodies
                    passed_on |= asked.branches
                case Outside(path=path) if path.rpartition(".")[2] in _TAKES_COROUTINES:
                    passed_on.update(call.args)
                case Unknown() if isinstance(call.func, ast.Attribute) and call.func.attr in _TAKES_COROUTINES:
                    passed_on.update(call.args)
                case _:
                    pass
        self.walk(call.func, scope)
        for argument in (*call.args, *call.keywords):
            value_node = argument.value if isinstance(argument, ast.keyword) else argument
            if value_node not in skipped:
                self.walk(value_node, scope, awaited=value_node in passed_on)

    def _check_awaited(self, call: ast.Call, values: list[Value], scope: Scope) -> None:
        for value in values:
            match value:
                case Unknown() | Data() | Outside(origin="foreign") | Made(origin="foreign") | ModulePath():
                    self.doubt(call, scope, f"{_text(call.func)}() is awaited, and its code cannot be found")
                    return
                case _:
                    pass

    def check_callable(self, node: ast.expr, scope: Scope) -> None:
        """Something is handed to the model, which will call or await it."""
        if isinstance(node, ast.Call | ast.Lambda):
            return  # its own call is looked at as one that is awaited
        for value in self.world.values(node, scope):
            match value:
                case Collection(items=items, scope=around):
                    for item in items:
                        self.check_callable(item, around)
                case Unknown() | Data() | Outside(origin="foreign") | ModulePath():
                    self.doubt(node, scope, f"{_text(node)} is handed over to be called, and its code cannot be found")
                    return
                case _:
                    pass


def _rollback(call: ast.Call) -> Iterator[ast.expr]:
    return (keyword.value for keyword in call.keywords if keyword.arg == "rollback")


def _attribute(node: ast.expr, name: str) -> ast.Attribute:
    return ast.copy_location(ast.Attribute(node, name, ast.Load()), node)


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
