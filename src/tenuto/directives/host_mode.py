"""Step and client mode: the module as it is imported, with its steps and workflows registered in place.

Client mode is step mode that registers no step and makes no copies.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from tenuto.directives.captures import Captures
from tenuto.directives.definitions import ClassEntry, Definition
from tenuto.directives.emit import (
    RUNTIME,
    CopyNames,
    anchored,
    binder,
    captured_values,
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

__all__ = ["emit_host"]


def emit_host(scan: Scan, captures: Mapping[ast.AST, Captures], *, client: bool) -> ast.Module:
    """Rewrite the scanned tree in place."""
    tree = scan.source.tree
    for definition in scan.definitions:
        if definition.sort == "inert":
            _make_ordinary(definition)
    copies = {} if client else _copies(scan, captures)
    for definition in scan.definitions:
        if definition.kind == "workflow":
            _rewrite_workflow(definition)
        elif definition.sort in ("module", "method"):
            _redecorate(
                definition,
                runtime_call(
                    "local_step" if client else "step", text(definition.id), keywords=option_keywords(definition)
                ),
            )
            without_directives(definition.node, definition)
        elif definition.sort == "kept":
            closure = captured_values(captures[definition.node].values)
            made = runtime_call("local_step", text(definition.id), *closure, keywords=option_keywords(definition))
            _redecorate(definition, made)
            without_directives(definition.node, definition)
    for foreign in scan.foreign:
        call = foreign.call
        call.func = anchored(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "serializable", ast.Load()), call)
        call.args = [anchored(text(foreign.id), call), *call.args]
    _insert(scan, copies)
    _finish(tree, scan)
    return tree


def _make_ordinary(definition: Definition) -> None:
    mark = definition.mark
    ours = (mark.decorator, *mark.option_decorators)
    definition.node.decorator_list = [d for d in definition.node.decorator_list if d not in ours]
    without_directives(definition.node, definition)


def _redecorate(definition: Definition, made: ast.expr) -> None:
    """Put the runtime's decorator where the mark is: in its decorator's place, or around everything else."""
    node, mark = definition.node, definition.mark
    made = anchored(made, mark.decorator or node)
    kept = [d for d in node.decorator_list if d not in mark.option_decorators]
    if mark.decorator is not None:
        node.decorator_list = [made if d is mark.decorator else d for d in kept]
    else:
        outer = binder(node)
        node.decorator_list = [*outer, made, *(d for d in kept if d not in outer)]


def _rewrite_workflow(definition: Definition) -> None:
    node, mark = definition.node, definition.mark
    is_local = definition.sort == "local"
    function = "local_workflow" if is_local else "workflow_stub"
    made = runtime_call(function, text(definition.id), keywords=option_keywords(definition))
    if is_local:
        _redecorate(definition, made)
        without_directives(node, definition)
        return
    made = anchored(made, node)
    if mark.decorator is not None:  # decorators above the mark get the workflow object
        above = node.decorator_list[: node.decorator_list.index(mark.decorator)]
        outer = [d for d in above if d not in mark.option_decorators]
    else:
        outer = binder(node)
    node.body = stub_body(node, definition)
    node.decorator_list = [*outer, made]


def _copies(scan: Scan, captures: Mapping[ast.AST, Captures]) -> dict[ast.AST, ast.stmt]:
    """The copy of each nested step, by its node."""
    nested = [d for d in scan.definitions if d.sort in ("hoisted", "kept")]
    names = CopyNames(scan.source.text)
    named: dict[ast.AST, str] = {d.node: names.make(d) for d in nested}
    return {d.node: _copy(d, captures[d.node], named) for d in nested}


def _copy(step: Definition, captures: Captures, names: Mapping[ast.AST, str]) -> ast.stmt:
    mark = step.mark
    ours = [mark.decorator, *mark.option_decorators]
    outer = [d for d in step.node.decorator_list if d not in ours]
    node = copy.deepcopy(step.node)
    node.body = [copy.deepcopy(s) for s in step.node.body if s not in mark.directives]
    node.decorator_list = [copy.deepcopy(d) for d in outer]
    mangle(node, step)
    node.name = names[step.node]
    strip_annotations(node)
    if not captures.is_called:  # elsewhere the stub applies them before the call is recorded
        node.args.defaults = []
        node.args.kw_defaults = [None for _ in node.args.kwonlyargs]
    made = runtime_call(
        "hoisted_step", text(step.id), text(step.qualname), keywords=[copy.deepcopy(k) for k in option_keywords(step)]
    )
    node.decorator_list.insert(0, anchored(made, step.node))
    before = _bindings(captures, names)
    start = 1 if ast.get_docstring(node, clean=False) is not None else 0
    node.body[start:start] = [anchored(statement, step.node) for statement in before]
    if not node.body:
        node.body = [anchored(ast.Pass(), step.node)]
    return node


def _bindings(captures: Captures, names: Mapping[ast.AST, str]) -> list[ast.stmt]:
    """What a copy does first: repeat imports, find other copies, take the captured values of the call."""
    made: list[ast.stmt] = [copy.deepcopy(statement) for statement in captures.imports]
    for name, sibling in captures.siblings:
        made.append(ast.Assign([ast.Name(name, ast.Store())], ast.Name(names[sibling.node], ast.Load())))
    if captures.own:
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in captures.own]
        values = runtime_call("closure", *(text(name) for name in captures.own))
        made.append(ast.Assign([ast.Tuple(targets, ast.Store())], values))
    return made


def _insert(scan: Scan, copies: Mapping[ast.AST, ast.stmt]) -> None:
    """Put registrations and copies behind the top-level statements they belong to."""
    behind: dict[ast.stmt, tuple[list[ast.stmt], list[ast.stmt]]] = {}
    for entry in scan.classes:
        assert entry.place.top is not None  # noqa: S101  # a class has at least itself
        behind.setdefault(entry.place.top, (entry.place.block, []))[1].extend(_registration(entry))
    for definition in scan.definitions:
        made = copies.get(definition.node)
        if made is not None and definition.place.top is not None:
            behind.setdefault(definition.place.top, (definition.place.block, []))[1].append(made)
    for top, (block, statements) in behind.items():
        index = block.index(top) + 1
        block[index:index] = statements


def _registration(entry: ClassEntry) -> list[ast.stmt]:
    if entry.decorator is not None:
        entry.node.decorator_list = [d for d in entry.node.decorator_list if d is not entry.decorator]
    elif entry.name is not None:
        return []  # `@serializable(name=...)` does it itself
    path: ast.expr | None = None
    owner = ""
    for name in [*(scope.node.name for scope in entry.place.scopes), entry.node.name]:
        is_private = owner and name.startswith("__") and not name.endswith("__")
        full = f"_{owner.lstrip('_')}{name}" if is_private else name
        path = ast.Name(full, ast.Load()) if path is None else ast.Attribute(path, full, ast.Load())
        owner = name
    assert path is not None  # noqa: S101  # at least the class itself
    return [anchored(runtime_statement("serializable", text(entry.id), path), entry.node)]


def _finish(tree: ast.Module, scan: Scan) -> None:
    """Take out the module's own directives and bring in the runtime."""
    tree.body = [statement for statement in tree.body if statement not in scan.module_directives]
    index = 0
    if ast.get_docstring(tree, clean=False) is not None:
        index = 1
    while index < len(tree.body) and _is_future(tree.body[index]):
        index += 1
    at = tree.body[index] if index < len(tree.body) else tree.body[-1] if tree.body else None
    imported = runtime_import()
    tree.body.insert(index, anchored(imported, at) if at is not None else ast.fix_missing_locations(imported))


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
