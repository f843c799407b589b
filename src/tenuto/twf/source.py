"""The text of one file, and where an offset in it is.

Trees and diagnostics carry offsets (code points from the start of the text, without a byte order mark). Lines and
columns are 1-based and are worked out only when somebody wants to read them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

__all__ = ["Position", "Source", "Span"]


class Position(NamedTuple):
    line: int
    column: int


class Span(NamedTuple):
    """From the first character to the one after the last, 1-based."""

    line: int
    column: int
    end_line: int
    end_column: int


class Source:
    """The text of one file. Lines end in LF or CRLF; a tab is one column."""

    __slots__ = ("_line_starts", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text.removeprefix("\ufeff")
        self._line_starts: list[int] | None = None

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {len(self.text)} characters)"

    def _starts(self) -> list[int]:
        starts = self._line_starts
        if starts is None:
            starts = [0]
            for line in self.text.split("\n"):
                starts.append(starts[-1] + len(line) + 1)
            starts.pop()
            self._line_starts = starts
        return starts

    @property
    def line_count(self) -> int:
        return len(self._starts())

    def position(self, offset: int) -> Position:
        starts = self._starts()
        line = bisect_right(starts, offset)
        return Position(line, offset - starts[line - 1] + 1)

    def span(self, start: int, end: int) -> Span:
        return Span(*self.position(start), *self.position(end))

    def offset(self, line: int, column: int) -> int:
        """The offset of a place, moved into the text where it lies outside."""
        starts = self._starts()
        if line < 1:
            return 0
        if line > len(starts):
            return len(self.text)
        return min(starts[line - 1] + max(column - 1, 0), starts[line - 1] + len(self.line_text(line)))

    def line_text(self, line: int) -> str:
        """One line without its end."""
        starts = self._starts()
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].removesuffix("\r")
