"""What nested steps take from the functions around them, and what they may not take.

A nested step runs away from its function, possibly in another process. What it captures is therefore sent by value
with each call; imports made in the enclosing function are repeated, and other nested steps are bound to their copies.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tenuto.directives.classes import find_serialization
from tenuto.directives.definitions import Definition, Report
from tenuto.directives.emit import is_literal
from tenuto.directives.scan import Scan
from tenuto.directives.source import FunctionNode, own_scope

__all__ = ["Captures", "changed_by", "find_captures"]

_MUTATORS: Final = frozenset(
    {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "add", "discard", "update"}
    | {"setdefault", "difference_update", "intersection_update", "symmetric_difference_update", "appendleft", "popleft"}
)


@dataclass(frozen=True, slots=True)
class Captures:
    """What one nested step captures."""

    own: tuple[str, ...] = ()  # values its body reads, sorted
    values: tuple[str, ...] = ()  # values sent with a call: its own, and those of the steps it calls
    imports: tuple[ast.Import | ast.ImportFrom, ...] = ()
    siblings: tuple[tuple[str, Definition], ...] = ()  # local name -> the nested step it means
    is_called: bool = False  # by the copy of a nested step, itself included: no stub applies its defaults there


def find_captures(scan: Scan, report: Report) -> Mapping[ast.AST, Captures]:
    """The captures of every nested step, by its node; reports what cannot be captured."""
    nested = [d for d in scan.definitions if d.sort in ("hoisted", "kept")]
    if not nested:
        return {}
    tables = _Tables(symtable.symtable(scan.source.text, scan.source.path, "exec"))
    direct: dict[ast.AST, Captures] = {d.node: _capture(d, scan, tables, report) for d in nested}
    called = {sibling.node: sibling for captures in direct.values() for _, sibling in captures.siblings}
    for step in called.values():
        _check_defaults(step, report)
    return {node: _with_siblings(node, direct, is_called=node in called) for node in direct}


class _Tables:
    """Symbol tables of functions, by name and line."""

    def __init__(self, top: symtable.SymbolTable) -> None:
        self._found: dict[tuple[str, int], symtable.Function] = {}
        pending = [top]
        while pending:
            table = pending.pop()
            pending.extend(table.get_children())
            if isinstance(table, symtable.Function):
                self._found[table.get_name(), table.get_lineno()] = table

    def of(self, node: FunctionNode) -> symtable.Function | None:
        return self._found.get((node.name, node.lineno))


def _capture(step: Definition, scan: Scan, tables: _Tables, report: Report) -> Captures:
    table = tables.of(step.node)
    functions = [scope.node for scope in step.place.scopes if not isinstance(scope.node, ast.ClassDef)]
    own: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    siblings: list[tuple[str, Definition]] = []
    for name in sorted(table.get_frees()) if table else ():
        home = next((f for f in reversed(functions) if _is_local(tables.of(f), name)), None)
        if name == "__class__":
            continue  # reported as DIR111
        if home is None:
            _report_use(step, name, "a type parameter", report)
            continue
        found = _binding(name, home, step, scan, report)
        if isinstance(found, Definition):
            siblings.append((name, found))
        elif isinstance(found, ast.Import | ast.ImportFrom):
            imports.append(_only(found, name))
        elif isinstance(found, str):
            _report_use(step, name, found, report)
        else:
            own.append(name)
    _check_decorators(step, functions, tables, report)
    _check_mutations(step, own, report)
    return Captures(tuple(own), tuple(own), tuple(imports), tuple(siblings))


def _is_local(table: symtable.Function | None, name: str) -> bool:
    return table is not None and name in table.get_locals()


def _binding(
    name: str, home: FunctionNode, step: Definition, scan: Scan, report: Report
) -> Definition | ast.Import | ast.ImportFrom | str | None:
    """What a captured name is bound to: a step, an import, something unsendable (as text), or None for a value."""
    binders = [node for node in own_scope(home) if name in _bound_by(node)]
    for node in binders:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                known = next((d for d in scan.definitions if d.node is node and d.kind == "step"), None)
                return known if known is not None else "a local function"
            case ast.ClassDef():
                return "a local class"
            case ast.With() | ast.AsyncWith():
                return "the target of a `with`"
            case ast.Assign(value=ast.Lambda()) | ast.AnnAssign(value=ast.Lambda()):
                return "a lambda"
            case _:
                pass
    only_import = binders[0] if len(binders) == 1 else None
    if isinstance(only_import, ast.Import | ast.ImportFrom):
        return only_import
    if _is_instance_name(name, home, step, scan, report):
        return "the instance or class its method belongs to"
    return None


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield (alias.asname or alias.name).partition(".")[0]
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if item.optional_vars is not None:
                    yield from _stored(item.optional_vars)
        case ast.Assign():
            for target in node.targets:
                yield from _stored(target)
        case ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.AsyncFor() | ast.NamedExpr():
            yield from _stored(node.target)
        case _:
            pass


def _stored(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _only(statement: ast.Import | ast.ImportFrom, name: str) -> ast.Import | ast.ImportFrom:
    """The part of an import that binds one name."""
    kept = [alias for alias in statement.names if (alias.asname or alias.name).partition(".")[0] == name]
    if isinstance(statement, ast.Import):
        return ast.copy_location(ast.Import(kept), statement)
    return ast.copy_location(ast.ImportFrom(statement.module, kept, statement.level), statement)


def _is_instance_name(name: str, home: FunctionNode, step: Definition, scan: Scan, report: Report) -> bool:
    """Is this the `self` of a method whose class cannot be stored, or the `cls` of one that has no id?"""
    scopes = [scope.node for scope in step.place.scopes]
    index = scopes.index(home)
    owner = scopes[index - 1] if index else None
    arguments = (*home.args.posonlyargs, *home.args.args)
    if not isinstance(owner, ast.ClassDef) or not arguments or arguments[0].arg != name:
        return False
    if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in home.decorator_list):
        return False
    if any(isinstance(d, ast.Name) and d.id == "classmethod" for d in home.decorator_list):
        return not any(entry.node is owner for entry in scan.classes)  # a class that has an id travels by it
    silent = Report(report.source, report.strict)
    return find_serialization(owner, scan.names, silent) is None


def _report_use(step: Definition, name: str, what: str, report: Report) -> None:
    for node in ast.walk(step.node):
        if isinstance(node, ast.Name) and node.id == name:
            report.add("DIR113", node, name=name, what=what)
            report.broken.add(step.node)
            return


def _check_decorators(step: Definition, functions: list[FunctionNode], tables: _Tables, report: Report) -> None:
    """Decorators and options go with the copy, so they may use module-level names only."""
    mark = step.mark
    ours = (mark.decorator, *mark.option_decorators)
    kept = [d for d in step.node.decorator_list if d not in ours]
    for expression in (*kept, *(option.value for option in mark.options)):
        for node in ast.walk(expression):
            if isinstance(node, ast.Name) and any(_is_local(tables.of(f), node.id) for f in functions):
                report.add("DIR113", node, name=node.id, what="a name of the enclosing function")
                report.broken.add(step.node)


def _check_defaults(step: Definition, report: Report) -> None:
    """A step that other copies call keeps its defaults, so these must mean the same at module level."""
    arguments = step.node.args
    positional = [*arguments.posonlyargs, *arguments.args][-len(arguments.defaults) or None :]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    for argument, default in (*zip(positional, arguments.defaults, strict=False), *named):
        if default is not None and not is_literal(default):
            report.add("DIR113", default, name=f"the default of {argument.arg}", what="no literal")
            report.broken.add(step.node)


def _check_mutations(step: Definition, own: list[str], report: Report) -> None:
    for node in own_scope(step.node):
        target = changed_by(node)
        if target is not None and target.id in own and isinstance(node, ast.expr):
            report.add("DIR204", node, name=target.id)


def changed_by(node: ast.AST) -> ast.Name | None:
    """The name whose value this expression changes, or something inside of that value."""
    target: ast.expr | None = None
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _MUTATORS:
            target = value
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            target = value
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            target = value
        case _:
            pass
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target if isinstance(target, ast.Name) else None


def _with_siblings(node: ast.AST, direct: Mapping[ast.AST, Captures], *, is_called: bool) -> Captures:
    """Add the values that the steps it calls need, theirs included."""
    seen: set[ast.AST] = set()
    values: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current in seen or current not in direct:
            continue
        seen.add(current)
        values.update(direct[current].own)
        pending.extend(sibling.node for _, sibling in direct[current].siblings)
    mine = direct[node]
    return Captures(mine.own, tuple(sorted(values)), mine.imports, mine.siblings, is_called)
