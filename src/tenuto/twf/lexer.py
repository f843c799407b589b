"""How text becomes words.

One regular expression finds every token, comment and line end, so the time is proportional to the length of the text.
Rules worth knowing before changing anything here:

1. A line end inside brackets is a blank. Comment lines and empty lines never touch the layout.
2. A line end is one match together with the empty lines after it and the blanks before the next token; the layout is
   decided there and nowhere else.
3. A lexer error causes no second error: lines with one are listed in `muted`, and the parser is silent about them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .ast import Comment, Extension
from .diagnostics import Diagnostic, diagnose
from .source import Source
from .tokens import (
    DEDENT,
    DURATION,
    DURATION_UNITS,
    END,
    ERROR,
    INDENT,
    KEYWORDS,
    NAME,
    NEWLINE,
    NUMBER,
    STRING,
    Tokens,
)

__all__ = ["Lexed", "tokenize"]

_TOKEN: Final = re.compile(
    r"""[ \t]*+(?:
    ([A-Za-z_][A-Za-z0-9_]*+)                           # 1 name or keyword
  | (->|[=!<>+\-*/]=|[,:.+\-*/%<>=])                    # 2 operator
  | ([(\[{])                                            # 3 opening bracket
  | ([)\]}])                                            # 4 closing bracket
  | (\r?\n(?:[ \t]*+\r?\n)*+)[ \t]*+                    # 5 line end, empty lines, blanks before the next token
  | ("[^"\n]*+")                                        # 6 string
  | ([0-9][0-9.]*+(?:[A-Za-z_][A-Za-z0-9_]*+)?)         # 7 number or duration
  | (\#[^\n]*+)                                         # 8 comment
  | ("[^\n]*+)                                          # 9 string without an end
  | (!|&&|\|\|)                                         # 10 operator of another language
  | (\Z)                                                # 11 end of the text
  | (.)                                                 # 12 anything else
    )""",
    re.VERBOSE,
)
_FIRST_LINE: Final = re.compile(r"((?:[ \t]*+\r?\n)*+)[ \t]*+")
_DEFINITION: Final = re.compile(r"(?:workflow|activity)\b")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_NUMBER_LENGTH: Final = 300
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}
_FOREIGN: Final = {"!": "not", "&&": "and", "||": "or"}
_LAYOUT: Final = frozenset((NEWLINE, INDENT, DEDENT))
_KIND_OF_WORD: Final = {word: word for word in KEYWORDS}
_CHARACTER_HINTS: Final = {
    "'": 'write strings as "…"',
    ";": "one statement per line, without ';'",
    "\\": "lines continue only inside brackets",
    "?": "use if (…):",
    "&": "use 'and'",
    "|": "use 'or'",
    "`": 'write strings as "…"',
}


@dataclass(frozen=True, slots=True, eq=False)
class Lexed:
    """What the lexer found. `muted` has the index of the first token of each line about which enough was said."""

    source: Source
    tokens: Tokens
    comments: tuple[Comment, ...]
    extensions: list[Extension]
    diagnostics: list[Diagnostic]
    muted: set[int]
    mixed: Diagnostic | None  # TWF101: the tokens end before the definition it is in


def tokenize(source: Source) -> Lexed:
    return _Lexer(source).run()


class _Lexer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.comments: list[Comment] = []
        self.extensions: list[Extension] = []
        self.diagnostics: list[Diagnostic] = []
        self.muted: set[int] = set()
        self.brackets: list[tuple[str, int]] = []
        self.widths = [0]
        self.tolerated: dict[int, int] = {}  # depth -> what a block's width was before TWF102 lowered it
        self.leading = ""  # of the last code line
        self.blank = ""  # the file's kind of indentation, once known
        self.line_token = 0  # index of the first token of this line
        self.top_token = 0  # index of the last token that began a line at column 1
        self.mixed: Diagnostic | None = None

    def run(self) -> Lexed:
        text, kinds, starts, ends = self.text, self.kinds, self.starts, self.ends
        first = _FIRST_LINE.match(text)
        begin = 0
        if first is not None:
            begin = first.end()
            self._begin_line(first.end(1), begin)
        kind_of = _KIND_OF_WORD.get
        for match in _TOKEN.finditer(text, begin):
            group = match.lastindex or 0
            if group == 1:
                word = match[1]
                kinds.append(kind_of(word, NAME))
                starts.append(match.start(1))
                ends.append(match.end())
            elif group == 2:
                kinds.append(match[2])
                starts.append(match.start(2))
                ends.append(match.end())
            elif group == 5:
                self._end_line(match.end(5), match.end())
                if self.mixed is not None:
                    break
            elif group == 6:
                self._add(STRING, match.start(6), match.end())
            else:
                self._rare(group, match[group], match.start(group), match.end())
        return self._finish()

    def _rare(self, group: int, word: str, start: int, end: int) -> None:
        if group == 3:
            self.brackets.append((word, start))
            self._add(word, start, end)
        elif group == 4:
            self._close(word, start, end)
        elif group == 7:
            self._number(word, start, end)
        elif group == 8:
            self._comment(word, start)
        elif group == 9:
            self._open_string(word, start)
        elif group == 10:
            right = _FOREIGN[word]
            self._report("TWF148", start, end, f"'{word}' is not an operator", f"write '{right}'")
            self._add(right, start, end)
        elif group == 12:
            self._unexpected(word, start, end)

    def _add(self, kind: str, start: int, end: int) -> None:
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)

    def _report(self, code: str, start: int, end: int, message: str, hint: str | None = None) -> None:
        self.diagnostics.append(diagnose(self.source, start, end, code, message, hint))

    def _reject(self, code: str, start: int, end: int, message: str, hint: str | None = None) -> None:
        """An error that drops the line; only the first of a line is told."""
        if self.line_token not in self.muted:
            self.muted.add(self.line_token)
            self._report(code, start, end, message, hint)
        self._add(ERROR, start, end)

    # --- lines

    def _end_line(self, line_start: int, token_start: int) -> None:
        if self.brackets:
            at_definition = line_start == token_start and _DEFINITION.match(self.text, line_start)
            if not at_definition:
                self._note_multiline()
                return
            self._never_closed()
        kinds = self.kinds
        if kinds and kinds[-1] not in _LAYOUT:
            self._add(NEWLINE, self.ends[-1], self.ends[-1])
        self._begin_line(line_start, token_start)

    def _note_multiline(self) -> None:
        start = self.brackets[0][1]
        last = self.extensions[-1] if self.extensions else None
        if last is None or last.tag != "multiline" or last.start != start:
            self.extensions.append(Extension(start, start + 1, "multiline"))

    def _begin_line(self, line_start: int, token_start: int) -> None:
        text = self.text
        following = text[token_start : token_start + 1]
        if not following or following == "#":
            return
        leading = text[line_start:token_start]
        if leading != self.leading:
            if leading and self._is_mixed(leading, line_start):
                return
            self._indent(len(leading), token_start)
            self.leading = leading
        self.line_token = len(self.kinds)
        if not leading:
            self.top_token = self.line_token

    def _indent(self, width: int, at: int) -> None:
        widths = self.widths
        if width > widths[-1]:
            after_header = self.kinds[-2:] == [":", NEWLINE]
            if after_header or self.tolerated.get(len(widths)) != width:
                widths.append(width)
                self._add(INDENT, at, at)
            return
        while width < widths[-1]:
            if width > widths[-2]:  # between two levels: the line counts to the block it leaves
                self.tolerated[len(widths)] = widths[-1]
                widths[-1] = width
                self._report("TWF102", at, self._word_end(at), "this line's indentation matches no outer level")
                return
            self.tolerated.pop(len(widths), None)
            widths.pop()
            self._add(DEDENT, at, at)

    def _word_end(self, at: int) -> int:
        match = _TOKEN.match(self.text, at)
        return match.end() if match is not None and match.lastindex != 5 else at + 1

    def _is_mixed(self, leading: str, line_start: int) -> bool:
        if not self.blank:
            self.blank = leading[0]
        if leading.count(self.blank) == len(leading):
            return False
        first, other = ("tabs", "spaces") if self.blank == "\t" else ("spaces", "tabs")
        self.mixed = diagnose(
            self.source,
            line_start,
            line_start + len(leading),
            "TWF101",
            f"this line is indented with {other}, the lines above with {first}",
            f"indent the whole file with {first}",
        )
        return True

    # --- rarer tokens

    def _close(self, word: str, start: int, end: int) -> None:
        if not self.brackets:
            self._reject("TWF108", start, end, f"'{word}' closes nothing")
            return
        opener, opened_at = self.brackets.pop()
        expected = _CLOSERS[opener]
        if expected != word:
            line, column = self.source.position(opened_at)
            self._reject(
                "TWF108",
                start,
                end,
                f"'{word}' does not close the '{opener}' of {line}:{column}",
                f"write '{expected}'",
            )
            return
        self._add(word, start, end)

    def _never_closed(self) -> None:
        opener, start = self.brackets[-1]
        while self.diagnostics and self.diagnostics[-1].start > start:  # nothing else is told about what it swallowed
            self.diagnostics.pop()
        self.muted.add(self.line_token)
        self._report(
            "TWF107", start, start + 1, f"this '{opener}' is never closed", f"close it with '{_CLOSERS[opener]}'"
        )
        self._add(ERROR, self.ends[-1], self.ends[-1])
        self.brackets.clear()

    def _number(self, word: str, start: int, end: int) -> None:
        digits = _NUMBER.match(word)
        number = digits[0] if digits is not None else word
        unit = word[len(number) :]
        kind = NUMBER
        if len(word) > _NUMBER_LENGTH:
            self._report("TWF109", start, end, f"a number of {len(word)} characters is too long")
        elif unit in DURATION_UNITS:
            kind = DURATION
            if unit == "ms":
                self.extensions.append(Extension(start, end, "ms"))
        elif unit.startswith("."):
            self._report("TWF109", start, end, f"'{word}' is not a number", "digits, or digits '.' digits")
        elif unit:
            kind = DURATION
            self._report(
                "TWF110", start, end, f"unknown duration unit '{unit}'", "one number and one of the units ms s m h d"
            )
        self._add(kind, start, end)

    def _comment(self, word: str, start: int) -> None:
        text = word.rstrip("\r")
        line_start = self.text.rfind("\n", 0, start) + 1
        own = not self.text[line_start:start].strip(" \t")
        self.comments.append(Comment(start, start + len(text), text, own))

    def _open_string(self, word: str, start: int) -> None:
        end = start + len(word.rstrip("\r"))
        self.muted.add(self.line_token)
        self._report("TWF106", start, end, "this string has no end on its line", "close it with '\"'")
        self._add(STRING, start, end)
        self.brackets.clear()  # else the missing quote would also be reported as a missing bracket

    def _unexpected(self, word: str, start: int, end: int) -> None:
        shown = f"'{word}'" if word.isprintable() else f"U+{ord(word):04X}"
        self._reject("TWF105", start, end, f"unexpected character {shown}", _CHARACTER_HINTS.get(word))

    # --- the end

    def _finish(self) -> Lexed:
        kinds, starts, ends = self.kinds, self.starts, self.ends
        at = len(self.text)
        if self.mixed is not None:
            cut = self.top_token
            at = starts[cut] if cut < len(starts) else at
            del kinds[cut:], starts[cut:], ends[cut:]
            self.brackets.clear()
        if self.brackets:
            self._never_closed()
        if kinds and kinds[-1] not in _LAYOUT:
            self._add(NEWLINE, ends[-1], ends[-1])
        for _ in range(kinds.count(INDENT) - kinds.count(DEDENT)):
            self._add(DEDENT, at, at)
        self._add(END, at, at)
        return Lexed(
            self.source,
            Tokens(kinds, starts, ends),
            tuple(self.comments),
            self.extensions,
            self.diagnostics,
            self.muted,
            self.mixed,
        )
