"""Lines and blocks: what the statement parsers share, and how a broken line is left behind.

An error costs its line. A deeper block below it is read all the same, in the way its first word suggests, so that one
mistake in a header does not turn its body into more mistakes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from .ast import AwaitCase, Error, Expr, OptionEntry, Options, Statement, SwitchCase
from .cursor import DEPTH_LIMIT, Unreadable
from .expressions import ExpressionParser
from .tokens import DEDENT, END, INDENT, NAME, NEWLINE

__all__ = ["BlockParser", "SwitchElse"]

T = TypeVar("T")


@dataclass(slots=True)
class SwitchElse:
    """The `else` of a switch while its lines are read."""

    body: tuple[Statement, ...] | None = None


class BlockParser(ExpressionParser, ABC):
    """Reads blocks; what their lines are, the subclasses know."""

    leftover: int = 0  # blocks opened under a call's options that hold more than options

    @abstractmethod
    def statement(self) -> Statement | None:
        """The next line of a block; None where it was dropped."""

    @abstractmethod
    def await_case(self) -> AwaitCase | Error | None:
        """The next case of an `await one`."""

    @abstractmethod
    def switch_line(self, orelse: SwitchElse) -> SwitchCase | Error | None:
        """The next case of a switch, or its `else`."""

    # --- headers

    def header_end(self) -> bool:
        """The `:` and line end of a header; whether it was all there."""
        i = self.i
        if self.kinds[i] == ":":
            self.i += 1
            self.expect_line_end("the block begins on the next line")
            return True
        if self.kinds[i] != NEWLINE:
            self.fail_expected("':'")
        self.report("TWF121", self.last_end, self.last_end, "this header needs a ':' at its end", "add ':'")
        self.i += 1
        return False

    def has_block(self, head: int, *, complete: bool = True) -> bool:
        """Whether a block follows the header that began at token `head`; comments alone count as an empty one."""
        if self.kinds[self.i] == INDENT:
            return True
        if self._has_comment_block(head):
            self.extend("emptyblock", self.starts[head], self.ends[head])
        elif complete:
            self.report_at(head, "TWF104", f"expected an indented block after '{self.word(head)}'", "indent its lines")
        return False

    def _has_comment_block(self, head: int) -> bool:
        header_end = self.ends[self.i - 1]
        column = self.source.position(self.starts[head]).column
        limit = self.starts[self.i]
        for i in range(bisect_left(self.comment_starts, header_end), len(self.comments)):
            comment = self.comments[i]
            if comment.start >= limit:
                return False
            if comment.own and self.source.position(comment.start).column > column:
                return True
        return False

    # --- blocks

    def block(self, head: int, *, complete: bool = True) -> tuple[Statement, ...]:
        if not self.has_block(head, complete=complete):
            return ()
        return self.indented(self.statement)

    def indented(self, read: Callable[[], T | None]) -> tuple[T, ...]:
        """The lines from INDENT to DEDENT, which must be next."""
        if self.depth >= DEPTH_LIMIT:
            self.muted = False
            self.i += 1
            self.report_at(
                self.i, "TWF160", f"nested deeper than {DEPTH_LIMIT} levels", "make the inner part a workflow"
            )
            self.i -= 1
            self.skip_block()
            return ()
        self.depth += 1
        self.i += 1
        found: list[T] = []
        self.lines(found, read)
        self.depth -= 1
        return tuple(found)

    def lines(self, found: list[T], read: Callable[[], T | None]) -> None:
        """Lines up to and with the DEDENT of this block."""
        kinds = self.kinds
        extra = 0
        while True:
            kind = kinds[self.i]
            if kind == DEDENT:
                self.i += 1
                if not extra:
                    return
                extra -= 1
            elif kind == INDENT:
                self.i += 1
                extra += 1
                self.muted = False
                self.report_at(self.i, "TWF103", "unexpected indent", "align it with the line above")
            elif kind == END:
                return
            else:
                statement = read()
                if statement is not None:
                    found.append(statement)
                extra += self.leftover
                self.leftover = 0

    def skip_block(self) -> None:
        """Past the block whose INDENT is next."""
        depth = 0
        while True:
            kind = self.kinds[self.i]
            self.i += 1
            if kind == INDENT:
                depth += 1
            elif kind == DEDENT:
                depth -= 1
                if not depth:
                    return
            elif kind == END:
                self.i -= 1
                return

    # --- broken lines

    def recover(self, first: int, depth: int) -> Error:
        """Leave the line that began at token `first` behind, and read the block below it."""
        self.depth = depth
        self.i = max(self.i, first)
        if self.i > first and self.kinds[self.i - 1] == NEWLINE:
            self.i -= 1
        self.skip_line()
        start = self.starts[first]
        end = self.ends[self.i - 2] if self.i - 2 >= first else self.ends[first]
        body: list[Statement] = []
        if self.kinds[self.i] == INDENT:
            body.extend(self._lines_below(first))
            if self.kinds[first] == "if":
                self._absorb_else(body)
        return Error(start, max(start, end), self.text[start:end], tuple(body))

    def _lines_below(self, first: int) -> Iterable[Statement]:
        kind = self.kinds[first]
        if kind == "switch":
            orelse = SwitchElse()
            cases: tuple[SwitchCase | Error, ...] = self.indented(lambda: self.switch_line(orelse))
            return [*(line for case in cases for line in case.body), *(orelse.body or ())]
        if kind == "await" and self.kinds[first + 1] == "one":
            awaited: tuple[AwaitCase | Error, ...] = self.indented(self.await_case)
            return [line for case in awaited for line in case.body or ()]
        return self.indented(self.statement)

    def _absorb_else(self, body: list[Statement]) -> None:
        """The `else:` of an `if` that could not be read is no error of its own."""
        while self.kinds[self.i] == "else" or (self.kinds[self.i] == NAME and self.word(self.i) == "elif"):
            self.skip_line()
            if self.kinds[self.i] == INDENT:
                body.extend(self.indented(self.statement))

    # --- options

    def options(self) -> Options:
        """`options( … )` without its line end."""
        start = self.starts[self.i]
        self.i += 1
        self.enter()
        self.expect("(")
        entries: list[OptionEntry] = []
        while self.kinds[self.i] != ")":
            key = self.key()
            self.expect(":")
            value: Expr = self.expression()
            entries.append(OptionEntry(key.start, value.end, key, value))
            if not self.comma(")"):
                break
        self.expect(")")
        self.depth -= 1
        return Options(start, self.last_end, tuple(entries))

    def drop_options(self, code: str, message: str, hint: str) -> None:
        """Report the options at this place and skip them, their line and a block below."""
        self.muted = self.i in self.muted_lines
        if self.kinds[self.i + 1] == ":":
            hint = "options(key: value), indented under the call"
        self.report_at(self.i, code, message, hint)
        self.skip_line()
        if self.kinds[self.i] == INDENT:
            self.skip_block()

    def options_below(self, *, allowed: bool, tag: str | None = None) -> Options | None:
        """The options line indented under a call or await, if there is one."""
        if self.kinds[self.i] != INDENT or self.kinds[self.i + 1] != "options":
            return None
        self.i += 1
        found: Options | None = None
        if allowed and self.kinds[self.i + 1] == "(":
            found = self.options_line()
            if found is not None and tag is not None:
                self.extend(tag, found.start, found.start + len("options"))
        else:
            self._misplaced_options()
        while self.kinds[self.i] == "options":
            self.drop_options("TWF134", "only one options line per call", "merge the two")
        if not self.take(DEDENT):
            self.muted = False
            self.report_at(self.i, "TWF103", "unexpected indent", "align it with the call above")
            self.leftover += 1
        return found

    def options_line(self) -> Options | None:
        first, depth = self.i, self.depth
        self.muted = first in self.muted_lines
        try:
            found = self.options()
            self.expect_line_end()
            return found
        except Unreadable:
            self.depth = depth
            self.i = first
            self.skip_line()
            if self.kinds[self.i] == INDENT:
                self.skip_block()
            return None

    def _misplaced_options(self) -> None:
        self.drop_options(
            "TWF133", "options do not belong here", "own line, indented under an activity or workflow call"
        )

    def same_line_options(self) -> None:
        """Options behind a call instead of below it: reported, and passed over."""
        if self.kinds[self.i] != "options":
            return
        hint = "own line, indented under the call"
        self.report_at(self.i, "TWF133", "options stand on a line of their own", hint)
        while self.kinds[self.i] not in (NEWLINE, END):
            self.i += 1

    def block_end(self, first: int) -> int:
        """Where the last word before this place ends."""
        i = self.i - 1
        while i > first and self.starts[i] == self.ends[i]:
            i -= 1
        return self.ends[i]
