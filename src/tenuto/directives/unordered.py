"""Which expressions of a function are sets, and where the order of their members would show."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from tenuto.directives.names import dotted

__all__ = ["Sets", "bound_names"]

_MAKERS: Final = frozenset({"set", "frozenset"})
_TYPES: Final = _MAKERS | {"Set", "FrozenSet", "AbstractSet", "MutableSet"}
_SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
# Calls whose value is the same in whatever order they get the members, and those that hand the order on.
_ORDER_BLIND: Final = frozenset({"any", "all", "sum", "min", "max", "len", "sorted", "set", "frozenset"})
_ORDER_KEEPING: Final = frozenset({"list", "tuple", "enumerate", "iter", "zip", "map", "filter"})


class Sets:
    """The sets of one function: literals, calls, and the names that hold nothing else."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: Iterable[ast.AST]) -> None:
        self._nodes = list(nodes)
        self._names: frozenset[str] = frozenset()
        self._blind = {id(part) for node in self._nodes for part in _blind_parts(node)}
        annotated = {name for name, annotation in _annotations(function, self._nodes) if _is_set_type(annotation)}
        bound = list(_bindings(self._nodes))
        others = {name for name, value in bound if value is None}
        while True:  # a set may be assigned from another that was found in the round before
            found = {name for name, value in bound if value is not None and self.is_set(value)}
            plain = {name for name, value in bound if value is not None and not self.is_set(value)} - annotated
            names = frozenset((annotated | found) - others - plain)
            if names == self._names:
                break
            self._names = names

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self._names
            case ast.BinOp(left=left, op=op, right=right):
                return isinstance(op, _OPERATORS) and (self.is_set(left) or self.is_set(right))
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_set(body) or self.is_set(orelse)
            case ast.NamedExpr(value=value):
                return self.is_set(value)
            case ast.Call(func=ast.Name(id=name)):
                return name in _MAKERS
            case ast.Call(func=ast.Attribute(value=value, attr=attr)):
                return attr in _SET_METHODS and self.is_set(value)
            case _:
                return False

    def shown_orders(self) -> Iterator[ast.expr]:
        """The sets whose members are taken in an order that may be another one on replay."""
        for node in self._nodes:
            for taken in self._taken(node):
                if self.is_set(taken):
                    yield taken

    def _taken(self, node: ast.AST) -> Iterator[ast.expr]:
        match node:
            case ast.For(iter=taken) | ast.AsyncFor(iter=taken) | ast.Starred(value=taken):
                if id(node) not in self._blind:
                    yield taken
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
                awaits = any(isinstance(part, ast.Await) for part in ast.walk(node))
                if awaits or not (isinstance(node, ast.SetComp) or id(node) in self._blind):
                    yield from (part.iter for part in node.generators)
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=taken):
                yield taken
            case ast.Call(func=ast.Name(id=name), args=args) if name in _ORDER_KEEPING and id(node) not in self._blind:
                yield from args
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]):
                yield value
            case ast.Call(func=ast.Attribute(attr="join"), args=[taken]):
                yield taken
            case _:
                pass


def _blind_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The arguments of a call to which order means nothing; a `key` decides between equals by order."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    if node.func.id == "sorted" or (node.func.id in _ORDER_BLIND and not node.keywords):
        yield from node.args


def bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Every name that a function binds, in nested functions too."""
    found = {argument.arg for argument in _arguments(function)}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.arg(arg=name):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    extra = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


def _annotations(
    function: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST]
) -> Iterator[tuple[str, ast.expr]]:
    given = function.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if argument.annotation is not None:
            yield argument.arg, argument.annotation
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.annotation


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return False
    if isinstance(annotation, ast.Subscript):
        if (dotted(annotation.value) or "").rpartition(".")[2] in ("Annotated", "Optional", "Final"):
            inner = annotation.slice
            return _is_set_type(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
        annotation = annotation.value
    if isinstance(annotation, ast.BinOp):  # set[str] | None
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    return (dotted(annotation) or "").rpartition(".")[2] in _TYPES


def _bindings(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr | None]]:
    """Each name that is bound, with the value; None where it is a part of something."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, value
                    else:
                        yield from _parts(target)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name, value
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                yield from _parts(target)
            case ast.withitem(optional_vars=ast.Name(id=name)):
                yield name, None
            case _:
                pass


def _parts(target: ast.expr) -> Iterator[tuple[str, None]]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, None
