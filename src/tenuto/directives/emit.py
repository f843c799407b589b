"""Pieces of output: calls into the runtime module, stubs, and the names of copies.

Output names one module, `tenuto.model.compiled`, under the name `__tenuto__`; the compiler itself never imports it.
Synthesised nodes take the position of their definition and are empty stretches, so that every line number a user
ever sees is one of the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from tenuto.directives.definitions import Definition
from tenuto.directives.names import dotted
from tenuto.directives.source import FunctionNode

__all__ = [
    "RUNTIME",
    "CopyNames",
    "anchored",
    "binder",
    "captured_values",
    "is_constant",
    "is_literal",
    "option_keywords",
    "runtime_call",
    "runtime_import",
    "runtime_statement",
    "strip_annotations",
    "stub_body",
    "text",
    "without_directives",
]

RUNTIME: Final = "__tenuto__"
Node = TypeVar("Node", bound=ast.AST)


def anchored(node: Node, at: FunctionNode | ast.ClassDef | ast.expr | ast.stmt) -> Node:
    """Give a synthesised node, and everything in it that has no place yet, the place where a definition begins."""
    start: ast.expr | ast.stmt = at
    if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and at.decorator_list:
        start = min(at.decorator_list, key=lambda decorator: decorator.lineno)
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            inner.lineno = inner.end_lineno = start.lineno  # type: ignore[attr-defined]  # pyright: ignore
            inner.col_offset = inner.end_col_offset = start.col_offset  # type: ignore[attr-defined]  # pyright: ignore
    return node


def text(value: str | int) -> ast.Constant:
    return ast.Constant(value)


def runtime_call(function: str, *arguments: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    """`__tenuto__.function(...)`."""
    target = ast.Attribute(ast.Name(RUNTIME, ast.Load()), function, ast.Load())
    return ast.Call(target, list(arguments), list(keywords))


def runtime_import() -> ast.ImportFrom:
    return ast.ImportFrom("tenuto.model", [ast.alias("compiled", RUNTIME)], 0)


def runtime_statement(function: str, *arguments: ast.expr) -> ast.Expr:
    return ast.Expr(runtime_call(function, *arguments))


def option_keywords(definition: Definition) -> list[ast.keyword]:
    """The options of a definition as keywords of a runtime call."""
    keywords = list(definition.mark.options)
    if definition.line is not None:
        keywords.append(ast.keyword("line", text(definition.line)))
    return keywords


def captured_values(names: Iterable[str]) -> list[ast.expr]:
    """`lambda: {"box": box}` as the one argument it is, or nothing without names."""
    known = list(names)
    if not known:
        return []
    keys: list[ast.expr | None] = [text(name) for name in known]
    values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in known]
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return [ast.Lambda(empty, ast.Dict(keys, values))]


def binder(node: FunctionNode) -> list[ast.expr]:
    """The outermost `@staticmethod` or `@classmethod`."""
    first = node.decorator_list[:1]
    return [d for d in first if dotted(d) in ("staticmethod", "classmethod")]


def without_directives(node: FunctionNode, definition: Definition) -> None:
    """Take the directive out of a body that stays."""
    node.body = [statement for statement in node.body if statement not in definition.mark.directives]
    if not node.body:
        node.body = [anchored(ast.Pass(), node)]


def stub_body(node: FunctionNode, definition: Definition) -> list[ast.stmt]:
    """The docstring, or `...`."""
    kept = [statement for statement in node.body if statement not in definition.mark.directives]
    first = kept[0].value if kept and isinstance(kept[0], ast.Expr) else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return kept[:1]
    return [anchored(ast.Expr(ast.Constant(...)), node)]


def strip_annotations(node: FunctionNode) -> None:
    """Leave annotations to the host module: they are evaluated once."""
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    node.returns = None


def is_constant(node: ast.expr) -> bool:
    """Is this default a literal that cannot differ between two evaluations?"""
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.Tuple):
        return all(is_constant(element) for element in node.elts)
    return isinstance(node, ast.Constant)


def is_literal(node: ast.expr) -> bool:
    """Is this written out in full, so that it means the same in any scope?"""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return is_literal(operand)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return all(is_literal(element) for element in elements)
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and is_literal(key) for key in keys) and all(
                is_literal(value) for value in values
            )
        case _:
            return False


class CopyNames:
    """Names of functions that move to module level: `_tenuto_pack__label`, made unique."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._taken: set[str] = set()

    def make(self, definition: Definition) -> str:
        parts = [scope.node.name for scope in definition.place.scopes]
        base = f"_tenuto_{'__'.join([*parts, definition.node.name])}"
        name, number = base, 2
        while name in self._taken or name in self._source:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name
