"""Private names (`__x`) of a class, written out by hand in code that moves out of it."""

from __future__ import annotations

import ast

from tenuto.directives.definitions import Definition
from tenuto.directives.source import FunctionNode

__all__ = ["mangle"]


def mangle(node: FunctionNode, definition: Definition) -> None:
    """Replace `__x` by `_Class__x` everywhere in a function that leaves its class."""
    classes = [scope.node.name for scope in definition.place.scopes if isinstance(scope.node, ast.ClassDef)]
    owner = classes[-1].lstrip("_") if classes else ""
    if owner:
        _Mangler(owner).visit(node)


class _Mangler(ast.NodeTransformer):
    def __init__(self, owner: str) -> None:
        self._owner = owner

    def _full(self, name: str) -> str:
        is_private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{self._owner}{name}" if is_private else name

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._full(node.name)
        for expression in (*node.bases, *node.decorator_list, *node.keywords):
            self.visit(expression)
        return node  # its body mangles by itself

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._full(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._full(node.attr)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._full(node.arg)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = None if node.arg is None else self._full(node.arg)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._full(node.name)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.name = self._full(node.name)
        return self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        if node.asname is not None:
            node.asname = self._full(node.asname)
        elif self._full(node.name) != node.name:
            node.name, node.asname = node.name, self._full(node.name)
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self._full(name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._full(name) for name in node.names]
        return node
