"""Places as editors count them: lines from 0, characters in UTF-16 units unless the client asked for others."""

from __future__ import annotations

from lsprotocol import types

from ..source import Source, Span

__all__ = ["Positions"]


class Positions:
    """Converts between offsets of a source and positions of the protocol."""

    def __init__(self, encoding: str = "utf-16") -> None:
        self.encoding = encoding

    def _units(self, text: str) -> int:
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode("utf-8"))
        return len(text) + sum(letter > "\uffff" for letter in text)

    def position(self, source: Source, offset: int) -> types.Position:
        line, column = source.position(min(offset, len(source.text)))
        return types.Position(line - 1, self._units(source.line_text(line)[: column - 1]))

    def range(self, source: Source, start: int, end: int) -> types.Range:
        return types.Range(self.position(source, start), self.position(source, end))

    def span(self, source: Source | None, span: Span) -> types.Range:
        """A span of a source; without the source, columns are taken as they are."""
        if source is None:
            start = types.Position(span.line - 1, span.column - 1)
            return types.Range(start, types.Position(span.end_line - 1, span.end_column - 1))
        return self.range(source, source.offset(span.line, span.column), source.offset(span.end_line, span.end_column))

    def offset(self, source: Source, position: types.Position) -> int:
        text = source.line_text(position.line + 1)
        column = min(position.character, len(text))
        if not text.isascii():
            column = 0
            units = 0
            while column < len(text) and units < position.character:
                units += self._units(text[column])
                column += 1
        return source.offset(position.line + 1, column + 1)
