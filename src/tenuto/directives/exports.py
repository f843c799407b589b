"""What a module with a directive of its own exports, and hence marks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tenuto.directives.definitions import Mark, Report
from tenuto.directives.names import MARKS, Names, dotted
from tenuto.directives.prologue import Word, is_directive_statement
from tenuto.directives.source import FunctionNode

__all__ = ["Exports", "read_exports"]


@dataclass(frozen=True, slots=True)
class Exports:
    """The names a marked module exports; None: those without a leading underscore."""

    kind: Word
    statement: ast.Expr
    listed: frozenset[str] | None

    def has(self, name: str) -> bool:
        return not name.startswith("_") if self.listed is None else name in self.listed

    def mark_of(self, node: FunctionNode) -> Mark | None:
        """The mark that an exported function without one of its own gets from its module."""
        is_stub = any((dotted(d) or "").rpartition(".")[2] == "overload" for d in node.decorator_list)
        if isinstance(node, ast.AsyncFunctionDef) and self.has(node.name) and not is_stub:
            return Mark(self.kind, self.statement.value)
        return None


def read_exports(tree: ast.Module, start: int, mark: tuple[Word, ast.Expr], names: Names, report: Report) -> Exports:
    """Find the exports of a marked module, and report those that are no async functions."""
    body = tree.body[start:]
    listed = _read_all(body, report)
    exports = Exports(*mark, None if listed is None else frozenset(listed))
    bound: set[str] = set()
    for statement in _top_level(body):
        bound.update(_check(statement, exports, names, report))
    for name, node in (listed or {}).items():
        if name not in bound:
            report.add("DIR107", node, what=f"{name} in __all__ is not defined here")
    return exports


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind module-level names, blocks looked into."""
    for statement in body:
        match statement:
            case ast.If():
                if not (isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"):
                    yield from _top_level(statement.body)
                yield from _top_level(statement.orelse)
            case ast.Try() | ast.TryStar():
                yield from _top_level(statement.body)
                for handler in statement.handlers:
                    yield from _top_level(handler.body)
                yield from _top_level(statement.orelse)
                yield from _top_level(statement.finalbody)
            case ast.With() | ast.AsyncWith():
                yield from _top_level(statement.body)
            case _:
                yield statement


def _check(statement: ast.stmt, exports: Exports, names: Names, report: Report) -> Iterator[str]:
    """Report a statement that exports what it may not; give the names it binds for good."""
    match statement:
        case ast.FunctionDef():
            if exports.has(statement.name) and not _has_own_mark(statement, names):
                report.add("DIR107", statement, what=f"{statement.name} is a plain function")
            yield statement.name
        case ast.AsyncFunctionDef():
            yield statement.name
        case ast.ClassDef():
            if exports.has(statement.name):
                report.add("DIR107", statement, what=f"{statement.name} is a class")
            yield statement.name
        case ast.Import() | ast.ImportFrom():
            yield from _check_import(statement, exports, report)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            yield from _check_assignment(statement, exports, report)
        case _ if type(statement).__name__ == "TypeAlias":  # Python 3.12
            yield statement.name.id  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        case _:
            pass


def _check_import(statement: ast.Import | ast.ImportFrom, exports: Exports, report: Report) -> Iterator[str]:
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return
    for alias in statement.names:
        if alias.name == "*":
            report.add("DIR107", statement, what="a star import exports everything")
        elif exports.listed is None and alias.asname == alias.name:
            report.add("DIR107", statement, what=f"`as {alias.asname}` exports an imported name")
        elif exports.listed is not None and (alias.asname or alias.name) in exports.listed:
            report.add("DIR107", statement, what=f"{alias.asname or alias.name} in __all__ is an imported name")
        yield (alias.asname or alias.name).partition(".")[0]


def _check_assignment(
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign, exports: Exports, report: Report
) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in (inner for outer in targets for inner in ast.walk(outer)):
        if isinstance(target, ast.Name):
            if exports.has(target.id) and target.id != "__all__":
                report.add("DIR302", statement, name=target.id)
            yield target.id


def _has_own_mark(node: FunctionNode, names: Names) -> bool:
    if any(names.member(decorator) in MARKS for decorator in node.decorator_list):
        return True
    return any(is_directive_statement(statement) for statement in node.body[:3])


def _read_all(body: list[ast.stmt], report: Report) -> dict[str, ast.expr] | None:
    """The names in `__all__` with their nodes; None without one."""
    found: dict[str, ast.expr] | None = None
    for statement in body:
        value = _all_value(statement)
        if value is None:
            continue
        found = {} if found is None else found
        if not isinstance(value, ast.List | ast.Tuple):
            report.add("DIR107", statement, what="__all__ is computed")
            continue
        for element in value.elts:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                found[element.value] = element
            else:
                report.add("DIR107", element, what="__all__ is computed")
    return found


def _all_value(statement: ast.stmt) -> ast.expr | None:
    """What a statement puts into `__all__`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
            return value
        case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
            return value
        case ast.AnnAssign(target=ast.Name(id="__all__"), value=value):
            return value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")), args=[value])):
            return value
        case _:
            return None
