"""A file as canonical text (rules F1 to F7 of the language).

The formatter works on the words of an error-free file, so that everything a person chose (numbers, strings, types,
order, parentheses) stays as written. Only blanks, line breaks inside brackets and trailing commas change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from .ast import Comment, File, Handler, TypeText, Workflow
from .expressions import BINARY
from .layout import INDENTATION, Atom, Bracket, Item, Piece, write_line
from .lexer import Lexed, tokenize
from .parser import parse
from .source import Source
from .tokens import DEDENT, DURATION, END, INDENT, KEYWORDS, NAME, NEWLINE, NUMBER, STRING, Tokens

__all__ = ["format_source"]

_OPERANDS: Final = frozenset((NAME, NUMBER, DURATION, STRING, ")", "]", "}", "true", "false", "null"))
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_TIGHT_BEFORE: Final = frozenset((",", ":", ".", ")", "]", "}"))
_CALLING: Final = frozenset(("timer", "options", "continue_as_new", "heartbeat"))
_HEADERS: Final = frozenset(("if", "for", "switch"))
_HANDLERS: Final = frozenset(("signal", "query", "update"))
_NO_REASON_BEFORE: Final = frozenset((".", "[", ",", NEWLINE)) | frozenset(BINARY)


def format_source(source: Source) -> str | None:
    """The canonical text, or None for a file with a syntax error, which is left as it is."""
    parsed = parse(source)
    if any(found.is_syntax for found in parsed.diagnostics):
        return None
    lines = _Reader(tokenize(source), parsed.file).read()
    return _assemble(lines)


@dataclass(slots=True)
class _Line:
    """A line of output: code, or a comment of its own."""

    level: int
    text: str
    blank_before: bool
    first: str = ""  # kind of the first token; empty for a comment
    is_header: bool = False
    comments: list[str] = field(default_factory=list[str])  # to stand above, out of brackets that cannot break


# --- from tokens to lines


class _Reader:
    def __init__(self, lexed: Lexed, file: File) -> None:
        self.source = lexed.source
        self.tokens: Tokens = lexed.tokens
        self.comments = lexed.comments
        self.next_comment = 0
        self.types = {found.start: found for found in _types(file)}
        self.widths = [0]
        self.last_line = 0  # source line on which the previous output ended

    def read(self) -> list[_Line]:
        lines: list[_Line] = []
        kinds, starts = self.tokens.kinds, self.tokens.starts
        i = 0
        above = [0]  # the widths of the blocks open at the line before
        header: int | None = None  # width of the line before, if it is a header
        while True:
            while kinds[i] == DEDENT or kinds[i] == INDENT:
                if kinds[i] == INDENT:
                    self.widths.append(self._column(starts[i]))
                else:
                    self.widths.pop()
                i += 1
            at_end = kinds[i] == END
            lines.extend(self._own_comments(starts[i], above, header, at_end=at_end))
            if at_end:
                return lines
            after = kinds.index(NEWLINE, i)
            lines.append(self._code(i, after))
            above = list(self.widths)
            header = self.widths[-1] if lines[-1].is_header else None
            i = after + 1

    def _column(self, offset: int) -> int:
        return self.source.position(offset).column - 1

    def _blank_before(self, start: int, end: int) -> bool:
        line = self.source.position(start).line
        blank = line > self.last_line + 1
        self.last_line = self.source.position(end).line
        return blank

    def _own_comments(self, limit: int, above: list[int], header: int | None, *, at_end: bool) -> Iterator[_Line]:
        """Comments of their own before the code at `limit`, each at the level of the block it belongs to."""
        below = 0 if at_end else len(self.widths) - 1
        below_width = 0 if at_end else self.widths[-1]
        while self.next_comment < len(self.comments) and self.comments[self.next_comment].start < limit:
            comment = self.comments[self.next_comment]
            self.next_comment += 1
            width = self._column(comment.start)
            level = below
            if width > below_width and below <= len(above) - 1:
                level = max(number for number, block in enumerate(above) if block <= width)
                if header is not None and width > header:
                    level = len(above)
            yield _Line(level, _clean(comment), self._blank_before(comment.start, comment.end))

    def _code(self, first: int, after: int) -> _Line:
        tokens = self.tokens
        start, end = tokens.starts[first], tokens.ends[after - 1]
        blank = self._blank_before(start, end)
        tree = _LineTree(self, first, after)
        pieces = tree.pieces()
        level = len(self.widths) - 1
        text = write_line(pieces, level)
        behind = self._behind(end, tokens.starts[after + 1])
        if behind is not None:
            text += f"  {behind}"
        kind = tokens.kinds[first]
        return _Line(level, text, blank, kind, tokens.kinds[after - 1] == ":", tree.lifted)

    def _behind(self, end: int, limit: int) -> str | None:
        if self.next_comment < len(self.comments):
            comment = self.comments[self.next_comment]
            if not comment.own and end <= comment.start < max(limit, end + 1):
                self.next_comment += 1
                return _clean(comment)
        return None

    def comments_before(self, offset: int) -> Iterator[Comment]:
        while self.next_comment < len(self.comments) and self.comments[self.next_comment].start < offset:
            self.next_comment += 1
            yield self.comments[self.next_comment - 1]


def _clean(comment: Comment) -> str:
    return comment.text.rstrip()


def _types(file: File) -> Iterator[TypeText]:
    for definition in file.definitions:
        handlers: tuple[Handler, ...] = definition.handlers if isinstance(definition, Workflow) else ()
        for node in (definition, *handlers):
            for param in node.params:
                if param.type is not None:
                    yield param.type
            yield from node.returns or ()


# --- from tokens to pieces


class _LineTree:
    """The pieces of the tokens from `first` up to, not with, `after`."""

    def __init__(self, reader: _Reader, first: int, after: int) -> None:
        self.reader = reader
        self.kinds = reader.tokens.kinds
        self.starts = reader.tokens.starts
        self.ends = reader.tokens.ends
        self.first = first
        self.after = after
        self.i = first
        self.lifted: list[str] = []
        self.operand = False  # whether the token before ends a value
        self.tight = True  # whether nothing may stand between the token before and this one

    def pieces(self) -> list[Piece]:
        return self._until(None, None)

    def _until(self, closer: str | None, items: list[Item] | None) -> list[Piece]:
        found: list[Piece] = []
        while self.i < self.after:
            kind = self.kinds[self.i]
            if kind == closer or (closer is not None and kind == ","):
                return found
            self._take_comments(items)
            if kind in _CLOSERS and self.starts[self.i] not in self.reader.types:
                found.append(self._bracket(kind))
            else:
                found.append(self._atom(kind))
        return found

    def _take_comments(self, items: list[Item] | None) -> None:
        """Comments before the next token that no bracket list has a place for."""
        for comment in self.reader.comments_before(self.starts[self.i]):
            if items is None:
                self.lifted.append(_clean(comment))
            else:
                items[-1].above.append(_clean(comment))

    def _atom(self, kind: str) -> Atom:
        i = self.i
        start = self.starts[i]
        typed = self.reader.types.get(start)
        text = self.reader.source.text[start : self.ends[i]]
        space = not self.tight and kind not in _TIGHT_BEFORE
        after_dot = i > self.first and self.kinds[i - 1] == "."
        self.i += 1
        if typed is not None:
            while self.i < self.after and self.starts[self.i] < typed.end:
                self.i += 1
            self._type_comments(typed)
            text = typed.text
        unary = kind == "-" and not self.operand
        self.tight = kind == "." or unary
        self.operand = (kind in _OPERANDS or after_dot or typed is not None) and not self._is_reason(i)
        if typed is None and kind in KEYWORDS and kind in _CALLING:
            self.operand = True
        return Atom(text, space)

    def _type_comments(self, typed: TypeText) -> None:
        for comment in self.reader.comments_before(typed.end):
            self.lifted.append(_clean(comment))

    def _is_reason(self, i: int) -> bool:
        """`completed` or `failed` directly after `close`, where it is no value."""
        if i != self.first + 1 or self.kinds[self.first] != "close" or self.kinds[i] != NAME:
            return False
        word = self.reader.source.text[self.starts[i] : self.ends[i]]
        return word in ("completed", "failed") and self.kinds[i + 1] not in _NO_REASON_BEFORE

    def _bracket(self, opener: str) -> Bracket:
        i = self.i
        before = self.kinds[i - 1] if i > self.first else ""
        attached = self.operand
        breakable = opener == "{" or (attached if opener == "(" else not attached)
        if before == "timer" or (opener == "(" and before in _HEADERS):
            breakable = False
        closer = _CLOSERS[opener]
        bracket = Bracket(opener, closer, not self.tight and not attached, breakable)
        self.i += 1
        self._items(bracket, closer)
        self.i += 1
        self.operand = True
        self.tight = False
        return bracket

    def _items(self, bracket: Bracket, closer: str) -> None:
        items: list[Item] = []
        comma = False
        while True:
            self._comments_between(bracket, items)
            if self.kinds[self.i] == closer:
                break
            item = Item()
            if bracket.below:
                item.above.extend(bracket.below)
                bracket.below.clear()
            items.append(item)
            self.operand = False
            self.tight = True
            item.pieces = self._until(closer, items if bracket.breakable else None)
            self._comments_between(bracket, items)
            comma = self.kinds[self.i] == ","
            if comma:
                self.i += 1
        bracket.items = items
        comments = any(item.above or item.behind for item in items) or bool(bracket.below)
        inside = any(isinstance(piece, Bracket) and piece.forced for item in items for piece in item.pieces)
        bracket.forced = (comma and bracket.breakable) or comments or inside

    def _comments_between(self, bracket: Bracket, items: list[Item]) -> None:
        """Comments before the next token, at the edge of an item."""
        for comment in self.reader.comments_before(self.starts[self.i]):
            if not bracket.breakable:
                self.lifted.append(_clean(comment))
            elif not comment.own and items and items[-1].behind is None and not bracket.below:
                items[-1].behind = _clean(comment)
            else:
                bracket.below.append(_clean(comment))


# --- from lines to text


def _assemble(lines: list[_Line]) -> str:
    out: list[str] = []
    needs_blank = _required_blanks(lines)
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else None
        blank = number in needs_blank or (line.blank_before and line.first != "else")
        if before is None or (before.is_header and number not in needs_blank):
            blank = False
        if blank:
            out.append("")
        out.extend(INDENTATION * line.level + comment for comment in line.comments)
        out.append(line.text if line.first else INDENTATION * line.level + line.text)
    return "".join(line + "\n" for line in out)


def _required_blanks(lines: list[_Line]) -> set[int]:
    """Where a blank line must stand: between definitions, and after a handler."""
    found: set[int] = set()
    handler_before = False  # whether the last code line of level 0 or 1 begins a handler
    for number, line in enumerate(lines):
        if not line.first:
            continue
        is_definition = line.level == 0
        follows_handler = line.level == 1 and handler_before
        if line.level <= 1:
            handler_before = line.level == 1 and line.first in _HANDLERS
        if is_definition or follows_handler:
            begin = number
            while begin > 0 and not lines[begin - 1].first and lines[begin - 1].level == line.level:
                begin -= 1
            kept = any(lines[i].blank_before for i in range(begin, number + 1))
            if begin and (not kept or lines[begin - 1].is_header):
                found.add(begin)
    return found
