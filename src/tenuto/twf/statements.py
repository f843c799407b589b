"""Statements: each reads itself from its first word; where the grammar ends, a designed message begins.

Every statement is read in every block. What is allowed where is decided afterwards, by `contexts`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, Literal

from .ast import (
    Assign,
    Break,
    Call,
    CallExpr,
    Close,
    Continue,
    ContinueAsNew,
    Error,
    Expr,
    ExprStatement,
    FieldAccess,
    For,
    Heartbeat,
    Ident,
    If,
    Index,
    Name,
    Return,
    Statement,
    Switch,
    SwitchCase,
)
from .blocks import SwitchElse
from .cursor import Unreadable
from .diagnostics import nearest
from .dialects import DIALECT_HINTS
from .expressions import BINARY
from .targets import HEADS, TargetParser
from .tokens import ASSIGNMENTS, DEDENT, INDENT, KEYWORDS, NAME, NEWLINE

__all__ = ["StatementParser"]

_NESTED_DEFINITION: Final = "definitions begin at column 1"
_STATEMENT_WORDS: Final = sorted(
    [
        "activity",
        "workflow",
        "spawn",
        "detach",
        "nexus",
        "await",
        "switch",
        "if",
        "for",
        "close",
        "return",
        "continue_as_new",
        "break",
        "continue",
        "heartbeat",
        "signal",
        "query",
        "update",
        "else",
        "case",
        "options",
    ]
)
_NO_REASON_BEFORE: Final = frozenset((".", "[", ",")) | frozenset(BINARY)


class StatementParser(TargetParser):
    """Reads every kind of statement."""

    def statement(self) -> Statement | None:
        read = _BY_FIRST_WORD.get(self.kinds[self.i], StatementParser.plain)
        first = self.i
        depth = self.depth
        self.muted = first in self.muted_lines
        try:
            return read(self, first)
        except Unreadable:
            return self.recover(first, depth)

    # --- calls

    def call(self, first: int) -> Statement:
        target = self.head()
        result: tuple[Ident, ...] = ()
        if self.kinds[self.i] == "->":
            result = self.bind(target)
        end = self.last_end
        self.same_line_options()
        self.expect_line_end(_NESTED_DEFINITION if self.kinds[self.i] == ":" else None)
        options = self.options_below(allowed=True)
        return Call(self.starts[first], options.end if options else end, target, result, options, "arrow")

    # --- assignments and expressions

    def plain(self, first: int) -> Statement:
        if self.kinds[first] == NAME:
            word = self.word(first)
            if word == "elif":
                self._stray_elif()
            elif word in DIALECT_HINTS:
                return self._dialect(first, word)
        elif self.kinds[first : first + 3] == [".", ".", "."]:
            self.fail("TWF150", "'...' is not TWF", "leave it out")
        return self._assignment(first)

    def _dialect(self, first: int, word: str) -> Statement:
        known = len(self.diagnostics)
        try:
            return self._assignment(first)
        except Unreadable:
            del self.diagnostics[known:]
            self.report_at(first, "TWF150", f"'{word}' does not begin a TWF statement", DIALECT_HINTS[word])
            raise

    def _assignment(self, first: int) -> Statement:
        value = self.expression()
        op = self.kinds[self.i]
        if op in ASSIGNMENTS:
            return self._assign(first, value, op)
        if op != NEWLINE:
            self._fail_if_misspelled(first)
            self.fail_expected("the end of the line")
        if not isinstance(value, CallExpr):
            self.report("TWF126", value.start, value.end, "this expression has no effect", "assign it, or leave it out")
            raise Unreadable
        self.i += 1
        self.extend("exprstmt", value.start, value.end)
        return ExprStatement(value.start, value.end, value)

    def _fail_if_misspelled(self, first: int) -> None:
        """`actvity Pack(order)`: two names in a row, the first of them nearly a keyword."""
        if self.kinds[first] != NAME or self.i != first + 1:
            return
        word = self.word(first)
        similar = nearest(word, _STATEMENT_WORDS)
        if similar is not None:
            self.i = first
            self.fail_expected("a statement", f'did you mean "{similar}"?')

    def _assign(self, first: int, place: Expr, op: str) -> Statement:
        self._check_place(place)
        self.i += 1
        if op != "=":
            self.extend("augassign", self.starts[self.i - 1], self.ends[self.i - 1])
        kind = self.kinds[self.i]
        if kind == "await":
            return self._assigned_await(place)
        if isinstance(place, Name) and op == "=" and kind in HEADS:
            return self._assigned_call(first, place)
        value = self.expression()
        self.expect_line_end()
        return Assign(place.start, value.end, place, op, value)

    def _check_place(self, place: Expr) -> None:
        root: Expr = place
        tags: list[str] = []
        while isinstance(root, (FieldAccess, Index)):
            tags.append("fieldassign" if isinstance(root, FieldAccess) else "indexassign")
            root = root.value
        if not isinstance(root, Name):
            self.report("TWF149", place.start, place.end, "this cannot be assigned to", "assign to a name, a.b or a[i]")
            raise Unreadable
        for tag in tags:
            self.extend(tag, place.start, place.end)

    def _assigned_call(self, first: int, place: Name) -> Statement:
        target = self.head()
        end = self.last_end
        self.same_line_options()
        self.expect_line_end("the assignment form binds already" if self.kinds[self.i] == "->" else None)
        self.extend("assigncall", place.start, end)
        if self.kinds[self.i] == INDENT and self.kinds[self.i + 1] == "options":
            self.i += 1
            hint = f"write it as: {self.text[target.start : end]} -> {place.name}"
            self.drop_options("TWF135", "options need the arrow form of the call", hint)
            if not self.take(DEDENT):
                self.leftover += 1
        return Call(self.starts[first], end, target, (Ident(place.start, place.end, place.name),), None, "assign")

    def _assigned_await(self, place: Expr) -> Statement:
        shown = self.text[place.start : place.end]
        self.report_at(self.i, "TWF136", "await is not a value", f"write it as: await … -> {shown}")
        result = (Ident(place.start, place.end, place.name),) if isinstance(place, Name) else ()
        return self.await_statement(self.i, place.start, result)

    def _stray_elif(self) -> None:
        self.fail("TWF128", "there is no elif", "nest an if in else:")

    # --- await, from the family of targets

    def await_(self, first: int) -> Statement:
        return self.await_statement(first, self.starts[first], ())

    # --- branches and loops

    def if_(self, first: int) -> Statement:
        self.i += 1
        condition = self._parenthesised("if", self.expression)
        complete = self.header_end()
        body = self.block(first, complete=complete)
        orelse = self._else()
        end = self.block_end(first)
        return If(self.starts[first], end, condition, body, orelse)

    def _else(self) -> tuple[Statement, ...] | None:
        head = self.i
        if self.kinds[head] == NAME and self.word(head) == "elif":
            self.muted = head in self.muted_lines
            self.report_at(head, "TWF128", "there is no elif", "nest an if in else:")
            return self._nested_if(head)
        if self.kinds[head] != "else":
            return None
        self.muted = head in self.muted_lines
        if self.kinds[head + 1] == "if":
            self.report_at(head + 1, "TWF128", "there is no else if", "nest an if in else:")
            self.i += 1
            return self._nested_if(head + 1)
        try:
            self.i += 1
            complete = self.header_end()
        except Unreadable:
            return self.recover(head, self.depth).body
        return self.block(head, complete=complete)

    def _nested_if(self, head: int) -> tuple[Statement, ...]:
        depth = self.depth
        try:
            self.enter()
            nested = self.if_(head)
            self.depth -= 1
            return (nested,)
        except Unreadable:
            return (self.recover(head, depth),)

    def _parenthesised(self, keyword: str, read: Callable[[], Expr]) -> Expr:
        """`( expr )` that must be the whole of it; else the same without, reported."""
        first = self.i
        if self.kinds[first] == "(":
            known, extensions = len(self.diagnostics), len(self.extensions)
            self.enter()
            self.i += 1
            value = read()
            self.expect(")")
            self.depth -= 1
            if self.kinds[self.i] in (":", NEWLINE):
                return value
            del self.diagnostics[known:], self.extensions[extensions:]
            self.i = first
        self._need_parentheses(first, keyword)
        return self.expression()

    def _need_parentheses(self, token: int, keyword: str) -> None:
        if self.kinds[token] in (":", NEWLINE):
            self.fail_expected("'('", f"{keyword} (…):")
        what = "header" if keyword == "for" else "condition" if keyword == "if" else "subject"
        self.report_at(token, "TWF125", f"the {keyword} {what} needs one pair of parentheses", f"{keyword} (…):")

    def for_(self, first: int) -> Statement:
        self.i += 1
        mode: Literal["ever", "while", "each"] = "ever"
        variable: Ident | None = None
        expr: Expr | None = None
        if self.kinds[self.i] not in (":", NEWLINE):
            variable, expr = self._for_header()
            mode = "while" if variable is None else "each"
        complete = self.header_end()
        body = self.block(first, complete=complete)
        return For(self.starts[first], self.block_end(first), mode, variable, expr, body)

    def _for_header(self) -> tuple[Ident | None, Expr]:
        first = self.i
        if self.kinds[first] == "(":
            known, extensions = len(self.diagnostics), len(self.extensions)
            self.enter()
            self.i += 1
            found = self._for_inside()
            self.expect(")")
            self.depth -= 1
            if self.kinds[self.i] in (":", NEWLINE):
                return found
            del self.diagnostics[known:], self.extensions[extensions:]
            self.i = first
        self._need_parentheses(first, "for")
        return self._for_inside()

    def _for_inside(self) -> tuple[Ident | None, Expr]:
        if self.kinds[self.i + 1] == "in" and (self.kinds[self.i] == NAME or self.kinds[self.i] in KEYWORDS):
            variable = self.name("a loop variable", tolerant=False)
            self.i += 1
            return variable, self.expression()
        return None, self.expression()

    def switch(self, first: int) -> Statement:
        self.i += 1
        subject = self._parenthesised("switch", self.expression)
        complete = self.header_end()
        cases: tuple[SwitchCase | Error, ...] = ()
        orelse = SwitchElse()
        known = len(self.diagnostics)
        if self.kinds[self.i] == INDENT:
            cases = self.indented(lambda: self.switch_line(orelse))
        else:
            self.has_block(first, complete=complete)
        if not cases and complete and (orelse.body is not None or len(self.diagnostics) == known):
            self.muted = first in self.muted_lines
            self.report_at(first, "TWF143", "switch needs a case", "case value:")
        return Switch(self.starts[first], self.block_end(first), subject, cases, orelse.body)

    def switch_line(self, orelse: SwitchElse) -> SwitchCase | Error | None:
        first, depth = self.i, self.depth
        self.muted = first in self.muted_lines
        try:
            if self.kinds[first] == "case":
                return self._switch_case(first, orelse)
            if self.kinds[first] == "else":
                self._switch_else(first, orelse)
                return None
            self.fail("TWF123", "a switch holds only case and else", "put it into a case")
        except Unreadable:
            return self.recover(first, depth)

    def _switch_case(self, first: int, orelse: SwitchElse) -> SwitchCase:
        if orelse.body is not None:
            self.report_at(first, "TWF144", "case after else", "move else to the end")
        self.i += 1
        value = self.expression()
        complete = self.header_end()
        body = self.block(first, complete=complete)
        return SwitchCase(self.starts[first], self.block_end(first), value, body)

    def _switch_else(self, first: int, orelse: SwitchElse) -> None:
        if orelse.body is not None:
            self.fail("TWF123", "a second else in one switch")
        self.i += 1
        complete = self.header_end()
        orelse.body = self.block(first, complete=complete)

    def stray(self, first: int) -> Statement:
        word = self.kinds[first]
        self.fail("TWF123", f"'{word}' without its {'if or switch' if word == 'else' else 'switch'}")

    # --- leaving

    def close(self, first: int) -> Statement:
        self.i += 1
        reason: Literal["completed", "failed"] = "completed"
        if self.kinds[self.i] == NAME and self.kinds[self.i + 1] not in _NO_REASON_BEFORE:
            word = self.word(self.i)
            if word in ("completed", "failed"):
                reason = "failed" if word == "failed" else "completed"
                self.i += 1
        elif self.kinds[self.i] == "continue_as_new":
            self.fail("TWF122", "continue_as_new is a statement of its own", "drop 'close'")
        value = self.values()
        end = self.last_end
        self.expect_line_end()
        return Close(self.starts[first], end, reason, value)

    def return_(self, first: int) -> Statement:
        self.i += 1
        value = self.values()
        end = self.last_end
        self.expect_line_end()
        return Return(self.starts[first], end, value)

    def renew(self, first: int) -> Statement:
        self.i += 1
        args = self.args()
        end = self.last_end
        self.expect_line_end()
        if not args:
            self.extend("emptycan", self.starts[first], end)
        return ContinueAsNew(self.starts[first], end, args)

    def heartbeat(self, first: int) -> Statement:
        self.i += 1
        args = self.args()
        end = self.last_end
        self.expect_line_end()
        return Heartbeat(self.starts[first], end, args)

    def break_(self, first: int) -> Statement:
        self.i += 1
        self.expect_line_end()
        start, end = self.starts[first], self.ends[first]
        return Break(start, end) if self.kinds[first] == "break" else Continue(start, end)

    # --- what is no statement

    def timer(self, first: int) -> Statement:
        self.fail("TWF145", "timer is not a statement", "await timer(5m)")

    def options_statement(self, first: int) -> None:
        hint = "own line, indented under an activity or workflow call"
        self.drop_options("TWF133", "options do not belong here", hint)

    @abstractmethod
    def handler(self, first: int) -> Statement | None:
        """A handler that stands where statements do."""


_BY_FIRST_WORD: Final[dict[str, Callable[[StatementParser, int], Statement | None]]] = {
    **dict.fromkeys(HEADS, StatementParser.call),
    "await": StatementParser.await_,
    "if": StatementParser.if_,
    "for": StatementParser.for_,
    "switch": StatementParser.switch,
    "close": StatementParser.close,
    "return": StatementParser.return_,
    "continue_as_new": StatementParser.renew,
    "heartbeat": StatementParser.heartbeat,
    "break": StatementParser.break_,
    "continue": StatementParser.break_,
    "else": StatementParser.stray,
    "case": StatementParser.stray,
    "timer": StatementParser.timer,
    "options": StatementParser.options_statement,
    "signal": lambda parser, first: parser.handler(first),
    "query": lambda parser, first: parser.handler(first),
    "update": lambda parser, first: parser.handler(first),
}
