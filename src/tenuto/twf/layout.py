"""One logical line as pieces, and those pieces as text: what fits stays together, what does not is broken at brackets.

A bracket list breaks into one item per line, with a trailing comma. A trailing comma or a comment in the source asks
for that, which also makes a second pass give the same result as the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["INDENTATION", "WIDTH", "Atom", "Bracket", "Item", "Piece", "write_line"]

WIDTH: Final = 100
INDENTATION: Final = "    "


@dataclass(slots=True)
class Atom:
    text: str
    space: bool


@dataclass(slots=True)
class Item:
    """One element of a bracket, with the comments above it and behind it."""

    pieces: list[Piece] = field(default_factory=list["Piece"])
    above: list[str] = field(default_factory=list[str])
    behind: str | None = None


@dataclass(slots=True)
class Bracket:
    opener: str
    closer: str
    space: bool
    breakable: bool
    items: list[Item] = field(default_factory=list[Item])
    forced: bool = False  # a comment or a trailing comma, here or further inside
    below: list[str] = field(default_factory=list[str])  # comments after the last item


Piece: TypeAlias = Atom | Bracket


def write_line(pieces: Sequence[Piece], level: int) -> str:
    """The line at a level of indentation, possibly broken into several."""
    writer = _Writer()
    writer.buffer = INDENTATION * level
    writer.put(pieces, level, 0)
    writer.end()
    return "\n".join(writer.lines)


def _flat(pieces: Sequence[Piece]) -> str:
    return "".join(_flat_parts(pieces, first=True))


def _flat_parts(pieces: Sequence[Piece], *, first: bool) -> Iterator[str]:
    for piece in pieces:
        if piece.space and not first:
            yield " "
        first = False
        if isinstance(piece, Atom):
            yield piece.text
        else:
            yield piece.opener
            for number, item in enumerate(piece.items):
                if number:
                    yield ", "
                yield from _flat_parts(item.pieces, first=True)
            yield piece.closer


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.buffer = ""

    def end(self) -> None:
        self.lines.append(self.buffer)
        self.buffer = ""

    def put(self, pieces: Sequence[Piece], level: int, after: int) -> None:
        """Write pieces; `after` more columns must follow on the last line."""
        first = True
        for number, piece in enumerate(pieces):
            if piece.space and not first:
                self.buffer += " "
            first = False
            if isinstance(piece, Atom):
                self.buffer += piece.text
                continue
            reserve = _columns_to_break(pieces[number + 1 :], after)
            if not piece.forced and len(self.buffer) + len(_flat([piece])) + reserve <= WIDTH:
                self.buffer += _flat([piece])
            elif piece.breakable and (piece.items or piece.below):
                self._broken(piece, level)
            else:
                self._unbreakable(piece, level, reserve)

    def _broken(self, bracket: Bracket, level: int) -> None:
        self.buffer += bracket.opener
        self.end()
        inner = INDENTATION * (level + 1)
        for item in bracket.items:
            self.lines.extend(inner + comment for comment in item.above)
            self.buffer = inner
            self.put(item.pieces, level + 1, 1)
            self.buffer += "," if item.behind is None else f",  {item.behind}"
            self.end()
        self.lines.extend(inner + comment for comment in bracket.below)
        self.buffer = INDENTATION * level + bracket.closer

    def _unbreakable(self, bracket: Bracket, level: int, reserve: int) -> None:
        self.buffer += bracket.opener
        for number, item in enumerate(bracket.items):
            if number:
                self.buffer += ", "
            self.put(item.pieces, level, reserve + 1)
        self.buffer += bracket.closer


def _columns_to_break(pieces: Sequence[Piece], after: int) -> int:
    """How much has to stay on the line behind a bracket, up to the next place it could break."""
    columns = 0
    for piece in pieces:
        columns += piece.space
        if isinstance(piece, Atom):
            columns += len(piece.text)
        elif piece.breakable and piece.items:
            return columns + len(piece.opener)
        else:
            columns += len(_flat([piece]))
    return columns + after
