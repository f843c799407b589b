"""A place in the tokens of one file, and the ways to complain from there."""

from __future__ import annotations

from typing import Final, NoReturn

from .ast import Extension, Ident
from .diagnostics import Diagnostic, diagnose
from .lexer import Lexed
from .tokens import KEYWORDS, NAME, NEWLINE, describe

__all__ = ["DEPTH_LIMIT", "Cursor", "Unreadable"]

DEPTH_LIMIT: Final = 100


class Unreadable(Exception):  # control flow inside the parser, never seen outside
    """This line cannot be read; what there is to say has been said."""


class Cursor:
    """Reads tokens from left to right. `i` is the index of the next one."""

    def __init__(self, lexed: Lexed) -> None:
        self.source = lexed.source
        self.text = lexed.source.text
        self.kinds = lexed.tokens.kinds
        self.starts = lexed.tokens.starts
        self.ends = lexed.tokens.ends
        self.comments = lexed.comments
        self.comment_starts = [comment.start for comment in lexed.comments]
        self.extensions = lexed.extensions
        self.muted_lines = lexed.muted
        self.diagnostics: list[Diagnostic] = []
        self.i: int = 0
        self.depth: int = 0  # blocks and brackets around this place
        self.height: int = 0  # of the expression read last
        self.muted: bool = False  # the lexer has complained about this line

    # --- complaints

    def report(self, code: str, start: int, end: int, message: str, hint: str | None = None) -> None:
        if not self.muted:
            self.diagnostics.append(diagnose(self.source, start, end, code, message, hint))

    def report_at(self, token: int, code: str, message: str, hint: str | None = None) -> None:
        self.report(code, self.starts[token], self.ends[token], message, hint)

    def fail(self, code: str, message: str, hint: str | None = None) -> NoReturn:
        """Give up on this line because of the next token."""
        self.report_at(self.i, code, message, hint)
        raise Unreadable

    def fail_expected(self, wanted: str, hint: str | None = None) -> NoReturn:
        self.fail("TWF120", f"expected {wanted}, found {self.describe(self.i)}", hint)

    def extend(self, tag: str, start: int, end: int) -> None:
        self.extensions.append(Extension(start, end, tag))

    # --- tokens

    def word(self, token: int) -> str:
        return self.text[self.starts[token] : self.ends[token]]

    def describe(self, token: int) -> str:
        return describe(self.kinds[token], self.word(token))

    def take(self, kind: str) -> bool:
        if self.kinds[self.i] == kind:
            self.i += 1
            return True
        return False

    def expect(self, kind: str, hint: str | None = None) -> None:
        if self.kinds[self.i] != kind:
            self.fail_expected(f"'{kind}'", hint)
        self.i += 1

    def expect_line_end(self, hint: str | None = None) -> None:
        if self.kinds[self.i] != NEWLINE:
            self.fail_expected("the end of the line", hint)
        self.i += 1

    @property
    def last_end(self) -> int:
        """Where the token read last ends, line ends and layout aside."""
        return self.ends[self.i - 1]

    def enter(self) -> None:
        """One level deeper; the caller goes back by `self.depth -= 1`."""
        if self.depth >= DEPTH_LIMIT:
            self.fail("TWF160", f"nested deeper than {DEPTH_LIMIT} levels", "give the inner part a name of its own")
        self.depth += 1

    def skip_line(self) -> None:
        kinds = self.kinds
        try:
            self.i = kinds.index(NEWLINE, self.i) + 1
        except ValueError:
            self.i = len(kinds) - 1

    # --- names

    def ident(self) -> Ident:
        i = self.i
        self.i += 1
        start, end = self.starts[i], self.ends[i]
        return Ident(start, end, self.text[start:end])

    def name(self, what: str, *, tolerant: bool) -> Ident:
        """A name that is no keyword; where `tolerant`, a keyword is reported and taken as the name."""
        kind = self.kinds[self.i]
        if kind == NAME:
            return self.ident()
        if kind in KEYWORDS:
            self.report_at(self.i, "TWF122", f"'{kind}' is a keyword and cannot be {what}")
            if not tolerant:
                raise Unreadable
            return self.ident()
        self.fail_expected(what)

    def key(self) -> Ident:
        """A name or, by extension, a keyword: a field, an option, a named argument."""
        kind = self.kinds[self.i]
        if kind != NAME:
            if kind not in KEYWORDS:
                self.fail_expected("a name")
            self.extend("keyname", self.starts[self.i], self.ends[self.i])
        return self.ident()

    def names(self) -> tuple[Ident, ...]:
        """What stands behind `->`: one name, or several in parentheses."""
        if not self.take("("):
            return (self.name("a result name", tolerant=True),)
        found = [self.name("a result name", tolerant=True)]
        while self.take(","):
            found.append(self.name("a result name", tolerant=True))
        self.expect(")")
        return tuple(found)
