"""What names mean in a module, as far as its import statements say: Tenuto's own, and the standard library's."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tenuto.directives.source import Source

__all__ = ["Names", "dotted", "read_names"]

MARKS: Final = frozenset({"step", "workflow"})
_MEMBERS: Final = MARKS | {"step_options", "workflow_options", "serializable", "serializer", "deserializer"}


@dataclass(frozen=True, slots=True)
class Names:
    """Imported name -> the dotted thing it stands for."""

    imported: Mapping[str, str]
    indirect: Mapping[str, str]  # name bound to a mark by other means -> why the compiler does not follow it

    def member(self, node: ast.expr) -> str | None:
        """Which member of `tenuto` a decorator or called function is; None if it is none that matters here."""
        target = node.func if isinstance(node, ast.Call) else node
        name = self.resolve(target)
        if name is None or not name.startswith("tenuto."):
            return None
        member = name.removeprefix("tenuto.")
        return member if member in _MEMBERS else None

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted name of an expression, with its first part replaced by what was imported under it."""
        name = dotted(node)
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        return self.imported.get(first, first) + dot + rest

    def indirect_mark(self, node: ast.expr) -> str | None:
        """Why a decorator that is a mark at run time is not seen as one by the compiler."""
        target = node.func if isinstance(node, ast.Call) else node
        name = dotted(target)
        if name is None:
            return None
        if name in self.indirect:
            return self.indirect[name]
        resolved = self.resolve(target) or ""
        if resolved.startswith("tenuto.") and resolved.count(".") > 1 and resolved.rpartition(".")[2] in MARKS:
            return f"{name} does not come from `tenuto` itself"
        return None


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text, for nothing but names and attributes."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def read_names(source: Source) -> Names:
    """Collect the imports of a module, those inside functions included."""
    tree = source.tree
    imported: dict[str, str] = {}
    for node in _imports(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    imported[alias.asname] = alias.name
                else:
                    imported[alias.name.partition(".")[0]] = alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    names = Names(imported, {})
    return Names(imported, dict(_indirect(tree, names)))


def _indirect(tree: ast.Module, names: Names) -> Iterator[tuple[str, str]]:
    """Names that hold a mark because of an assignment: `durable = step(max_attempts=5)`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            has_positional = isinstance(value, ast.Call) and value.args
            if names.member(value) in MARKS and not has_positional:
                yield node.targets[0].id, f"{node.targets[0].id} is a mark under another name"


def _imports(source: Source) -> Iterator[ast.stmt]:
    """Every import statement, in the order of the file. Looks only into statements that have the word on a line."""
    lines = [number for number, line in enumerate(source.lines, 1) if "import" in line]
    pending: list[ast.stmt] = list(reversed(source.tree.body))
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
            continue
        body: list[ast.stmt] | None = getattr(statement, "body", None) or getattr(statement, "cases", None)
        if not body or bisect_left(lines, statement.lineno) == bisect_right(lines, statement.end_lineno or 0):
            continue
        for field in ("finalbody", "orelse", "body"):
            pending.extend(reversed(getattr(statement, field, None) or ()))
        for case in getattr(statement, "handlers", None) or getattr(statement, "cases", None) or ():
            pending.extend(reversed(case.body))
