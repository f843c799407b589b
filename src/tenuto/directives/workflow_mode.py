"""Workflow mode: the code that runs in a module's view, over what `share` took from the host module.

Module code is not run again, so the output has nothing but steps as stubs and workflows with their bodies.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tenuto.directives.captures import Captures
from tenuto.directives.definitions import Definition
from tenuto.directives.emit import (
    RUNTIME,
    CopyNames,
    anchored,
    binder,
    captured_values,
    is_constant,
    option_keywords,
    runtime_call,
    runtime_import,
    runtime_statement,
    strip_annotations,
    stub_body,
    text,
    without_directives,
)
from tenuto.directives.mangle import mangle
from tenuto.directives.scan import Scan

__all__ = ["emit_workflow"]


def emit_workflow(scan: Scan, captures: Mapping[ast.AST, Captures]) -> ast.Module:
    """Build the workflow-mode module from the nodes of the scanned tree, which is used up."""
    names = CopyNames(scan.source.text)
    body = _head(scan)
    for definition in scan.definitions:
        if definition.sort == "hoisted":
            _make_nested_stub(definition, captures[definition.node])
    for definition in scan.definitions:
        if definition.kind == "step" and definition.sort == "module":
            body.append(_make_stub(definition))
        elif definition.kind == "workflow" and definition.sort in ("module", "method"):
            body.append(_make_workflow(definition, names))
    tree = scan.source.tree
    tree.body = body
    return tree


def _head(scan: Scan) -> list[ast.stmt]:
    statements = [s for s in scan.source.tree.body if s not in scan.module_directives]
    kept: list[ast.stmt] = []
    first = statements[0] if statements else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        kept.append(statements.pop(0))
    for statement in statements:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        kept.append(statement)
    globals_call = ast.Call(ast.Name("globals", ast.Load()), [], [])
    made: list[ast.stmt] = [runtime_import(), runtime_statement("share", globals_call)]
    at = scan.source.tree.body[0]
    return [*kept, *(anchored(statement, at) for statement in made)]


def _make_stub(definition: Definition) -> ast.stmt:
    """A step without its body; defaults are left to the implementation."""
    node = definition.node
    made = anchored(runtime_call("remote_step", text(definition.id), keywords=option_keywords(definition)), node)
    node.body = stub_body(node, definition)
    node.decorator_list = [made]
    strip_annotations(node)
    _drop_type_parameters(node)
    node.args.defaults = [_unset(default) for default in node.args.defaults]
    node.args.kw_defaults = [None if default is None else _unset(default) for default in node.args.kw_defaults]
    return node


def _make_nested_stub(definition: Definition, captures: Captures) -> None:
    """A nested step in place: its defaults are evaluated here, its captures at each call."""
    node = definition.node
    closure = captured_values(captures.values)
    made = runtime_call("remote_step", text(definition.id), *closure, keywords=option_keywords(definition))
    made = anchored(made, node)
    node.body = stub_body(node, definition)
    node.decorator_list = [made]
    strip_annotations(node)
    _drop_type_parameters(node)


def _make_workflow(definition: Definition, names: CopyNames) -> ast.stmt:
    node, mark = definition.node, definition.mark
    is_method = definition.sort == "method"
    arguments: list[ast.expr] = [text(definition.id)]
    if is_method:
        arguments.append(text(definition.qualname))
    made = anchored(runtime_call("workflow", *arguments, keywords=option_keywords(definition)), node)
    decorators = list(node.decorator_list)
    if mark.decorator is not None:
        decorators = decorators[decorators.index(mark.decorator) + 1 :]
    outer = binder(node)
    inner = [d for d in decorators if d not in outer and d not in mark.option_decorators]
    without_directives(node, definition)
    strip_annotations(node)
    node.decorator_list = inner
    if is_method:
        mangle(node, definition)
        node.name = names.make(definition)
    node.args.defaults = [d if is_constant(d) else _unset(d) for d in node.args.defaults]
    node.args.kw_defaults = [d if d is None or is_constant(d) else _unset(d) for d in node.args.kw_defaults]
    node.decorator_list.insert(0, made)
    return node


def _unset(default: ast.expr) -> ast.expr:
    return anchored(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "UNSET", ast.Load()), default)


def _drop_type_parameters(node: ast.stmt) -> None:
    if getattr(node, "type_params", None):
        node.type_params = []  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
