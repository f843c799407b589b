"""The words of TWF.

The kind of a token is a short text: the word itself for keywords and operators, and one of the constants below for
everything else. A file's tokens are kept as parallel lists because that is several times faster in Python than one
object per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ASSIGNMENTS",
    "DEDENT",
    "DURATION",
    "DURATION_UNITS",
    "END",
    "ERROR",
    "INDENT",
    "KEYWORDS",
    "NAME",
    "NEWLINE",
    "NUMBER",
    "OPERATORS",
    "STRING",
    "Tokens",
    "describe",
]

NAME: Final = "name"
NUMBER: Final = "number"
DURATION: Final = "duration"
STRING: Final = "string"
NEWLINE: Final = "newline"
INDENT: Final = "indent"
DEDENT: Final = "dedent"
ERROR: Final = "error"
END: Final = "end"

KEYWORDS: Final = frozenset(
    [
        "workflow",
        "activity",
        "signal",
        "query",
        "update",
        "timer",
        "spawn",
        "detach",
        "nexus",
        "await",
        "all",
        "one",
        "switch",
        "case",
        "if",
        "else",
        "for",
        "in",
        "return",
        "close",
        "continue_as_new",
        "break",
        "continue",
        "heartbeat",
        "options",
        "and",
        "or",
        "not",
        "true",
        "false",
        "null",
    ]
)
OPERATORS: Final = frozenset(
    [
        "->",
        "==",
        "!=",
        "<=",
        ">=",
        "+=",
        "-=",
        "*=",
        "/=",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ".",
        "+",
        "-",
        "*",
        "/",
        "%",
        "<",
        ">",
        "=",
    ]
)
ASSIGNMENTS: Final = frozenset(("=", "+=", "-=", "*=", "/="))
DURATION_UNITS: Final[dict[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}

_DESCRIPTIONS: Final = {
    NAME: "a name",
    NUMBER: "a number",
    DURATION: "a duration",
    STRING: "a string",
    NEWLINE: "the end of the line",
    INDENT: "an indented line",
    DEDENT: "the end of the block",
    ERROR: "something unreadable",
    END: "the end of the file",
}


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of one file; index `i` of each list belongs to the same token. The last kind is `END`."""

    kinds: list[str]
    starts: list[int]
    ends: list[int]


def describe(kind: str, text: str) -> str:
    """A token as a message names it."""
    if kind in (NAME, NUMBER, DURATION):
        return f"'{text}'"
    return _DESCRIPTIONS.get(kind, f"'{kind}'")
