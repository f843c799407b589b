"""Directives as text: the strings at the start of a body, and which of them are directives, or nearly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tenuto.directives.source import Source

__all__ = ["DIRECTIVES", "Misspelled", "NotPlain", "Prologue", "Word", "is_directive_statement", "read_prologue"]

Word: TypeAlias = Literal["step", "workflow"]

DIRECTIVES: Final[dict[str, Word]] = {"use step": "step", "use workflow": "workflow"}

_PLAIN: Final = re.compile(r"[uU]?(\"\"\"|'''|\"|')(?:use step|use workflow)\1")
_BLANK: Final = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Misspelled:
    """A string that is nearly a directive."""

    node: ast.expr
    text: str
    meant: str


@dataclass(frozen=True, slots=True)
class NotPlain:
    """A directive that is not written as one plain literal."""

    node: ast.expr
    meant: str


@dataclass(frozen=True, slots=True)
class Prologue:
    """What the start of a body says. `length` counts its statements."""

    length: int
    directives: tuple[tuple[Word, ast.Expr], ...]
    wrong: tuple[Misspelled | NotPlain, ...]


_EMPTY: Final = Prologue(0, (), ())
_DOCSTRING: Final = Prologue(1, (), ())


def read_prologue(body: list[ast.stmt], source: Source, *, module: bool = False) -> Prologue:
    """Read the strings at the start of a function's body, or of a module (where __future__ imports may mix in)."""
    if not body or not (isinstance(body[0], ast.Expr) or module):
        return _EMPTY
    length = 0
    directives: list[tuple[Word, ast.Expr]] = []
    wrong: list[Misspelled | NotPlain] = []
    for statement in body:
        if isinstance(statement, ast.Expr) and _literal_text(statement.value) is not None:
            found = _classify(statement.value, source)
            if isinstance(found, str):
                directives.append((found, statement))
            elif found is not None:
                wrong.append(found)
        elif not (module and isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        length += 1
    if length <= 1 and not directives and not wrong:
        return _DOCSTRING if length else _EMPTY
    return Prologue(length, tuple(directives), tuple(wrong))


def is_directive_statement(statement: ast.stmt) -> str | None:
    """The text of a string statement that spells a directive exactly."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        if isinstance(value, str) and value in DIRECTIVES:
            return value
    return None


def _literal_text(node: ast.expr) -> str | None:
    """What a string, bytes or field-less formatted literal spells; None for anything else."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        return node.value.decode("latin-1") if isinstance(node.value, bytes) else None
    if type(node).__name__ in ("JoinedStr", "TemplateStr"):  # the second is Python 3.14's
        values: list[ast.expr] = getattr(node, "values", [])
        return "".join(value.value if _is_text(value) else "{}" for value in values)  # type: ignore[attr-defined]
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _classify(node: ast.expr, source: Source) -> Word | Misspelled | NotPlain | None:
    text = _literal_text(node) or ""
    if text in DIRECTIVES:
        is_plain = isinstance(node, ast.Constant) and _PLAIN.fullmatch(source.segment(node))
        return DIRECTIVES[text] if is_plain else NotPlain(node, text)
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or len(text) > 40:
        return None
    meant = _near(text)
    return None if meant is None else Misspelled(node, text, meant)


def _near(text: str) -> str | None:
    """The directive that a text was probably meant to be."""
    folded = text.casefold()
    if "use" not in folded and "step" not in folded and "workflow" not in folded:
        return None  # one slip spoils one word at most
    folded = _BLANK.sub(" ", folded).strip().rstrip(".;:!")
    for directive in DIRECTIVES:
        if folded == directive or _is_one_slip_away(folded, directive):
            return directive
    return None


def _is_one_slip_away(text: str, word: str) -> bool:
    return abs(len(text) - len(word)) <= 1 and any(text == slip for slip in _slips(text, word))


def _slips(text: str, word: str) -> Iterator[str]:
    """Texts one insertion, deletion, substitution or swap of neighbours away from `word`, as far as `text` matters."""
    start = next((i for i, (a, b) in enumerate(zip(text, word, strict=False)) if a != b), min(len(text), len(word)))
    yield word[:start] + word[start + 1 :]
    if start < len(text):
        yield word[:start] + text[start] + word[start:]
        yield word[:start] + text[start] + word[start + 1 :]
    if start + 1 < len(word):
        yield word[:start] + word[start + 1] + word[start] + word[start + 2 :]
