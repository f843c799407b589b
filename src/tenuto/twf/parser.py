"""How words become a tree: definitions, handlers, and a whole file.

At top level everything from an error to the next `workflow` or `activity` at column 1 is skipped with one diagnostic;
inside a definition an error costs one line. No input makes this raise.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from .ast import (
    Activity,
    Definition,
    Error,
    File,
    Handler,
    HandlerKind,
    Ident,
    Options,
    Param,
    Statement,
    TypeText,
    Workflow,
)
from .cursor import DEPTH_LIMIT, Unreadable
from .diagnostics import Diagnostic
from .dialects import DIALECT_HINTS
from .lexer import Lexed, tokenize
from .source import Source
from .statements import StatementParser
from .tokens import DEDENT, END, INDENT, NAME, NEWLINE

__all__ = ["Parsed", "parse"]

_HANDLERS: Final = frozenset(("signal", "query", "update"))
_RANK: Final = {"signal": 0, "query": 1, "update": 2}
_OPENERS: Final = frozenset("([{")
_CLOSERS: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """One file as a tree, and what was wrong with its syntax."""

    file: File
    diagnostics: tuple[Diagnostic, ...]
    mixed: bool  # TWF101: names of this file may be missing through no fault of the others


def parse(source: Source) -> Parsed:
    lexed = tokenize(source)
    parser = _Parser(lexed)
    definitions = parser.file()
    extensions = tuple(sorted(parser.extensions, key=lambda extension: extension.start))
    file = File(source, definitions, lexed.comments, extensions)
    if lexed.mixed is not None:
        return Parsed(file, (lexed.mixed,), True)
    told = [found for found in lexed.diagnostics if not parser.is_skipped(found.start)]
    return Parsed(file, (*told, *parser.diagnostics), False)


class _Parser(StatementParser):
    def __init__(self, lexed: Lexed) -> None:
        super().__init__(lexed)
        self.handlers: list[Handler] | None = None  # of the workflow being read
        self.body_begun = False
        self.rank = 0
        self.skipped: list[tuple[int, int]] = []

    # --- the file

    def file(self) -> tuple[Definition, ...]:
        found: list[Definition] = []
        kinds = self.kinds
        while kinds[self.i] != END:
            kind = kinds[self.i]
            if kind in (NEWLINE, DEDENT):
                self.i += 1
            elif kind == INDENT:
                self.i += 1
                if kinds[self.i] in ("workflow", "activity"):
                    self.muted = False
                    self.report_at(self.i, "TWF103", "unexpected indent", "definitions begin at column 1")
            else:
                self._top(found)
        return tuple(found)

    def _top(self, found: list[Definition]) -> None:
        first = self.i
        self.muted = first in self.muted_lines
        self.depth = 0
        try:
            found.append(self._definition(first))
        except Unreadable:
            self._skip_to_definition(first)

    def _definition(self, first: int) -> Definition:
        kind = self.kinds[first]
        if kind == "workflow":
            return self._workflow(first)
        if kind == "activity":
            return self._activity(first)
        word = self.word(first)
        if kind in _HANDLERS:
            self.fail("TWF131", f"a {kind} belongs in a workflow", "move it to the top of the workflow it is for")
        if kind == NAME and word in DIALECT_HINTS:
            self.fail("TWF150", f"'{word}' does not begin a TWF definition", DIALECT_HINTS[word])
        self.fail("TWF132", "only workflow and activity definitions stand at top level", "indent it into one of them")

    def _skip_to_definition(self, first: int) -> None:
        kinds, starts, text = self.kinds, self.starts, self.text
        i = first + 1
        while kinds[i] != END:
            if kinds[i] in ("workflow", "activity") and text[starts[i] - 1] == "\n":
                break
            i += 1
        self.i = i
        begin = starts[first] if not self.muted else self.ends[kinds.index(NEWLINE, first)]
        self.skipped.append((begin, starts[i]))

    def is_skipped(self, offset: int) -> bool:
        i = bisect_right(self.skipped, (offset, offset)) - 1
        after = i + 1 < len(self.skipped) and self.skipped[i + 1][0] == offset
        return after or (i >= 0 and offset < self.skipped[i][1])

    # --- definitions

    def _signature(self, what: str) -> tuple[Ident, tuple[Param, ...]]:
        self.i += 1
        name = self.name(f"the name of {what}", tolerant=True)
        if self.kinds[self.i] != "(":
            self.report_at(self.i, "TWF120", f"expected '(', found {self.describe(self.i)}", f"{name.name}()")
            return name, ()
        return name, self._params()

    def _workflow(self, first: int) -> Workflow:
        name, params = self._signature("a workflow")
        returns = self._returns() if self.kinds[self.i] == "->" else None
        complete = self.header_end()
        handlers: list[Handler] = []
        self.handlers = handlers
        self.body_begun = False
        self.rank = 0
        options: Options | None = None
        body: list[Statement] = []
        if self.has_block(first, complete=complete):
            self.i += 1
            self.depth = 1
            options = self._definition_options("wfoptions")
            self.lines(body, self._workflow_line)
        return Workflow(
            self.starts[first], self.block_end(first), name, params, returns, options, tuple(handlers), tuple(body)
        )

    def _workflow_line(self) -> Statement | None:
        if self.kinds[self.i] in _HANDLERS:
            return self._handler_line(misplaced=self.body_begun)
        statement = self.statement()
        if not isinstance(statement, Error):
            self.body_begun = True
        return statement

    def _activity(self, first: int) -> Activity:
        name, params = self._signature("an activity")
        returns = self._returns() if self.kinds[self.i] == "->" else None
        complete = self.header_end()
        self.handlers = None
        options: Options | None = None
        body: list[Statement] = []
        if self.has_block(first, complete=complete):
            self.i += 1
            self.depth = 1
            options = self._definition_options(None)
            self.lines(body, self.statement)
        return Activity(self.starts[first], self.block_end(first), name, params, returns, options, tuple(body))

    def _definition_options(self, tag: str | None) -> Options | None:
        """The options on the first line of a definition."""
        found: Options | None = None
        if self.kinds[self.i] == "options" and self.kinds[self.i + 1] == "(":
            found = self.options_line()
            if found is not None and tag is not None:
                self.extend(tag, found.start, found.start + len("options"))
            while self.kinds[self.i] == "options":
                self.drop_options("TWF134", "only one options line per definition", "merge the two")
        return found

    # --- handlers

    def handler(self, first: int) -> Statement | None:
        """A handler where a statement is expected."""
        return self._handler_line(misplaced=True)

    def _handler_line(self, *, misplaced: bool) -> Statement | None:
        first, depth = self.i, self.depth
        self.muted = first in self.muted_lines
        kind = self.kinds[first]
        if self.handlers is None:
            self.report_at(first, "TWF201", f"a {kind} belongs in a workflow, not in an activity")
        elif misplaced:
            self.report_at(first, "TWF130", f"{kind} handlers come before the statements", "move it to the top")
        try:
            handler = self._handler(first)
        except Unreadable:
            return self.recover(first, depth)
        if self.handlers is None:
            return Error(handler.start, handler.end, self.text[handler.start : handler.name.end], handler.body)
        if _RANK[handler.kind] < self.rank:
            self.extend("order", handler.start, handler.name.end)
        self.rank = max(self.rank, _RANK[handler.kind])
        self.handlers.append(handler)
        return None

    def _handler(self, first: int) -> Handler:
        word = self.kinds[first]
        kind: HandlerKind = "signal" if word == "signal" else "query" if word == "query" else "update"
        name, params = self._signature(f"a{'n' if kind == 'update' else ''} {kind}")
        returns: tuple[TypeText, ...] | None = None
        if kind != "signal":
            if self.kinds[self.i] == "->":
                returns = self._returns()
            else:
                self.report_at(first, "TWF129", f"{kind} {name.name} needs a return type", "-> (T)")
        elif self.kinds[self.i] == "->":
            self.fail_expected("':'", "a signal returns nothing; use update")
        complete = self.header_end()
        body = self.block(first, complete=complete)
        return Handler(self.starts[first], self.block_end(first), kind, name, params, returns, body)

    # --- parameters and types

    def _params(self) -> tuple[Param, ...]:
        self.i += 1
        found: list[Param] = []
        while self.kinds[self.i] != ")":
            name = self.name("a parameter name", tolerant=True)
            kind: TypeText | None = None
            if self.take(":"):
                kind = self._type()
            elif self.kinds[self.i] in (",", ")"):
                self.report("TWF127", name.start, name.end, f"parameter {name.name} needs a type", f"{name.name}: T")
            else:
                self.fail_expected("':'", f"{name.name}: T")
            found.append(Param(name.start, kind.end if kind else name.end, name, kind))
            if not self.comma(")"):
                break
        self.expect(")")
        return tuple(found)

    def _returns(self) -> tuple[TypeText, ...]:
        self.i += 1
        if self.kinds[self.i] != "(":
            found = self._type(until=":")
            message = "a return type stands in parentheses"
            self.report("TWF124", found.start, found.end, message, f"-> ({found.text})")
            return (found,)
        self.i += 1
        types = [self._type()]
        while self.take(","):
            types.append(self._type())
        self.expect(")")
        return tuple(types)

    def _type(self, until: str = ",") -> TypeText:
        """Everything up to a `,` or `)` outside of brackets; no more is said about types."""
        kinds, first = self.kinds, self.i
        if kinds[first] == NAME and kinds[first + 1] in (",", ")", until):
            name = self.ident()
            return TypeText(name.start, name.end, name.name)
        i, depth = first, 0
        while True:
            kind = kinds[i]
            if kind in _OPENERS:
                depth += 1
                if depth > DEPTH_LIMIT:
                    self.fail("TWF160", f"a type nested deeper than {DEPTH_LIMIT} levels")
            elif kind in _CLOSERS:
                if not depth:
                    break
                depth -= 1
            elif kind == NEWLINE or kind == "error" or (not depth and (kind == "," or kind == until)):
                break
            i += 1
        if i == first or depth:
            self.i = i
            self.fail_expected("a type")
        self.i = i
        if not self._is_base_type(first, i):
            self.extend("type", self.starts[first], self.ends[i - 1])
        return TypeText(self.starts[first], self.ends[i - 1], self._type_text(first, i))

    def _type_text(self, first: int, after: int) -> str:
        text = self.text[self.starts[first] : self.ends[after - 1]]
        if "\n" not in text:
            return text
        return " ".join(self.word(i) for i in range(first, after))

    def _is_base_type(self, first: int, after: int) -> bool:
        """NAME followed by `[ type ]` and `{ … }`."""
        kinds = self.kinds
        if kinds[first] != NAME:
            return False
        i = first + 1
        while i < after:
            if kinds[i] not in ("[", "{"):
                return False
            close = self._matching(i)
            if kinds[i] == "[" and not self._is_base_type(i + 1, close):
                return False
            i = close + 1
        return True

    def _matching(self, opener: int) -> int:
        depth = 0
        i = opener
        while True:
            depth += (self.kinds[i] in _OPENERS) - (self.kinds[i] in _CLOSERS)
            if not depth:
                return i
            i += 1
