"""A source file as the compiler sees it: its text, its tree, and where things are in it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import decode_source
from typing import Final, TypeAlias

from tenuto.directives.errors import Span

__all__ = ["FunctionNode", "Source", "check_valid", "children", "ignored_codes", "own_scope", "parse"]

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_COOKIE: Final = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")
_IGNORE: Final = re.compile(r"#\s*tenuto:\s*ignore\[([\w,\s]+)\]")


@dataclass(frozen=True, slots=True)
class Source:
    """One file, decoded and parsed."""

    text: str
    path: str
    lines: tuple[str, ...]
    tree: ast.Module

    @property
    def header(self) -> tuple[str, ...]:
        """The shebang and the coding cookie, which must stay the first lines of any output."""
        kept: list[str] = []
        for number, line in enumerate(self.lines[:2]):
            if (number == 0 and line.startswith("#!")) or _COOKIE.match(line):
                kept.append(line)
        return tuple(kept)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where a node is."""
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Span(
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, end),
        )

    def head(self, node: FunctionNode | ast.ClassDef) -> Span:
        """Where the words `async def name` (or `class name`) of a definition are."""
        column = self._column(node.lineno, node.col_offset)
        found = re.compile(rf"(?:async\s+)?(?:def|class)\s+{re.escape(node.name)}").match(
            self.lines[node.lineno - 1], column - 1
        )
        end = found.end() + 1 if found else column + 1
        return Span(node.lineno, column, node.lineno, end)

    def segment(self, node: ast.expr) -> str:
        """The text of an expression, as written."""
        span = self.span(node)
        if span.line == span.end_line:
            return self.lines[span.line - 1][span.column - 1 : span.end_column - 1]
        first = self.lines[span.line - 1][span.column - 1 :]
        last = self.lines[span.end_line - 1][: span.end_column - 1]
        return "\n".join((first, *self.lines[span.line : span.end_line - 1], last))

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return offset + 1
        return len(text.encode()[:offset].decode(errors="replace")) + 1


def parse(source: str | bytes, path: str) -> Source:
    """Read a file. Raises Python's own `SyntaxError` for what has no tree; `check_valid` finds the rest."""
    text = decode_source(source) if isinstance(source, bytes) else source
    tree = ast.parse(text, path)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Source(text, path, tuple(lines), tree)


def check_valid(body: list[ast.stmt], path: str) -> None:
    """Raise Python's own `SyntaxError` for statements that have a tree but are not valid as they stand.

    Some errors (a second string before a __future__ import, `return` outside a function) are found only so, and code
    that one mode leaves out would otherwise never be checked.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiled code says the same again
        compile(ast.Module(body, []), path, "exec", dont_inherit=True, optimize=0)


def ignored_codes(text: str) -> Mapping[int, frozenset[str]]:
    """Line -> codes that a comment `# tenuto: ignore[DIR402]` on it switches off."""
    if "tenuto: ignore[" not in text:
        return {}
    found: dict[int, frozenset[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            match = _IGNORE.search(token.string)
            if match:
                found[token.start[0]] = frozenset(code.strip() for code in match[1].split(","))
    return found


def own_scope(node: FunctionNode) -> list[ast.AST]:
    """Every node of a function's body that belongs to its own scope, in source order.

    Functions and classes defined in it are included as statements; what is inside of them is not. Comprehensions and
    lambdas count as inside.
    """
    found: list[ast.AST] = []
    pending: list[ast.AST] = list(reversed(node.body))
    while pending:
        current = pending.pop()
        found.append(current)
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        pending.extend(reversed(children(current)))
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, in source order; the standard library's generators take three times as long."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found.extend(item for item in value if isinstance(item, ast.AST))  # pyright: ignore[reportUnknownVariableType]
    return found
