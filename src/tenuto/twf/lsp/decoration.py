"""What an editor draws: semantic tokens and folds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from lsprotocol import types

from ..ast import File, Workflow
from ..flow import statements_below
from ..lexer import tokenize
from ..occurrences import Occurrences
from ..tokens import DURATION, KEYWORDS, NAME, NUMBER, OPERATORS, STRING
from .positions import Positions

__all__ = ["LEGEND", "folds", "semantic_tokens"]

_TYPES: Final = (
    "keyword",
    "class",
    "function",
    "event",
    "property",
    "method",
    "variable",
    "parameter",
    "type",
    "string",
    "number",
    "operator",
    "comment",
)
_MODIFIERS: Final = ("declaration", "modification")
LEGEND: Final = types.SemanticTokensLegend(list(_TYPES), list(_MODIFIERS))
_BY_MEANING: Final = {
    "workflow": "class",
    "activity": "function",
    "signal": "event",
    "query": "property",
    "update": "method",
    "variable": "variable",
    "parameter": "parameter",
    "function": "function",
}
_BY_TOKEN: Final = {NUMBER: "number", DURATION: "number", STRING: "string"}


def semantic_tokens(file: File, names: Occurrences, positions: Positions) -> types.SemanticTokens:
    """Every word of a file with its kind, each relative to the one before."""
    data: list[int] = []
    line = character = 0
    source = file.source
    for start, end, kind, modifiers in sorted(_words(file, names)):
        place = positions.position(source, start)
        stop = positions.position(source, end)
        if stop.line != place.line:
            continue
        delta = place.line - line
        data += [
            delta,
            place.character - (character if delta == 0 else 0),
            stop.character - place.character,
            _TYPES.index(kind),
            modifiers,
        ]
        line, character = place.line, place.character
    return types.SemanticTokens(data)


def _words(file: File, names: Occurrences) -> Iterator[tuple[int, int, str, int]]:
    lexed = tokenize(file.source)
    known = {one.start: one for one in names.by_path.get(file.path, [])}
    typed = sorted(_type_ranges(file))
    starts = [begin for begin, _ in typed]
    tokens = lexed.tokens
    for kind, start, end in zip(tokens.kinds, tokens.starts, tokens.ends, strict=True):
        one = known.get(start)
        around = bisect_right(starts, start) - 1
        if around >= 0 and start < typed[around][1]:
            if kind == NAME:
                yield start, end, "type", 0
        elif kind == NAME and one is not None:
            modifiers = 1 if one.role == "definition" else 2 if one.role == "write" else 0
            yield start, end, _BY_MEANING[one.meaning.kind], modifiers
        elif kind == NAME:
            yield start, end, _unknown_name(file.source.text, start, end), 0
        elif kind in KEYWORDS:
            yield start, end, "keyword", 0
        elif kind in _BY_TOKEN:
            yield start, end, _BY_TOKEN[kind], 0
        elif kind in OPERATORS and kind not in "()[]{},:.":
            yield start, end, "operator", 0
    for comment in lexed.comments:
        yield comment.start, comment.end, "comment", 0


def _unknown_name(text: str, start: int, end: int) -> str:
    following = text[end : end + 1]
    if following == "{":
        return "type"
    if text[start - 1 : start] == "." or following == ":":
        return "property"
    return "variable"


def _type_ranges(file: File) -> Iterator[tuple[int, int]]:
    for definition in file.definitions:
        handlers = definition.handlers if isinstance(definition, Workflow) else ()
        for node in (definition, *handlers):
            for found in (*(param.type for param in node.params), *(node.returns or ())):
                if found is not None:
                    yield found.start, found.end


def folds(file: File) -> list[types.FoldingRange]:
    """Definitions, handlers, compound statements, and runs of comment lines."""
    source = file.source
    found: set[tuple[int, int]] = set()
    for definition in file.definitions:
        handlers = definition.handlers if isinstance(definition, Workflow) else ()
        bodies = (definition.body, *(handler.body for handler in handlers))
        below = (statement for body in bodies for statement in statements_below(body))
        for node in (definition, *handlers, *below):
            found.add((source.position(node.start).line, source.position(node.end).line))
    ranges = [types.FoldingRange(start - 1, end - 1) for start, end in sorted(found) if end > start]
    return [*ranges, *_comment_folds(file)]


def _comment_folds(file: File) -> Iterator[types.FoldingRange]:
    lines = [file.source.position(comment.start).line for comment in file.comments if comment.own]
    first = last = 0
    for line in [*lines, 0]:
        if line != last + 1:
            if last > first > 0:
                yield types.FoldingRange(first - 1, last - 1, kind=types.FoldingRangeKind.Comment)
            first = line
        last = line
