"""What can be wrong with a program, each with a code that never changes its meaning.

1xx is syntax, 2xx a statement in the wrong place, 3xx a name that means nothing; these are errors. 4xx are warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .source import Source, Span

__all__ = ["CODES", "ERROR_LIMIT", "Diagnostic", "Related", "Severity", "arrange", "diagnose", "nearest"]

Severity = Literal["error", "warning"]

ERROR_LIMIT: Final = 100

CODES: Final[dict[str, str]] = {
    "TWF100": "the file is not UTF-8",
    "TWF101": "tabs and spaces are mixed",
    "TWF102": "the unindent matches no outer level",
    "TWF103": "unexpected indent",
    "TWF104": "expected an indented block",
    "TWF105": "unexpected character",
    "TWF106": "unterminated string",
    "TWF107": "a bracket is never closed",
    "TWF108": "a closing bracket does not match",
    "TWF109": "malformed number",
    "TWF110": "unknown duration unit",
    "TWF111": "a timer needs a duration with a unit",
    "TWF120": "one thing was expected and another found",
    "TWF121": "a header does not end in a colon",
    "TWF122": "a keyword is used as a name or value",
    "TWF123": "else or case without its block, or another statement in a switch",
    "TWF124": "a return type is not in parentheses",
    "TWF125": "a condition is not in one pair of parentheses",
    "TWF126": "an expression without effect",
    "TWF127": "a parameter without a type",
    "TWF128": "elif or else if",
    "TWF129": "a query or update without a return type",
    "TWF130": "a handler that is not at the top of its workflow",
    "TWF131": "a handler at top level",
    "TWF132": "only definitions stand at top level",
    "TWF133": "options in the wrong place",
    "TWF134": "a second options line",
    "TWF135": "options under the assignment form",
    "TWF136": "an await as the value of an assignment",
    "TWF137": "spawn, detach or nexus on an activity",
    "TWF138": "spawn together with detach",
    "TWF139": "a namespace that is not a string",
    "TWF140": "detach binds a result",
    "TWF141": "await one without a case",
    "TWF142": "not a case of await one",
    "TWF143": "switch without a case",
    "TWF144": "a case after else",
    "TWF145": "timer as a statement",
    "TWF146": "a chained comparison",
    "TWF147": "a constructor value without a field name",
    "TWF148": "an operator of another language",
    "TWF149": "a target that cannot be assigned to",
    "TWF150": "a statement of another dialect",
    "TWF151": "a positional argument after a named one, or a name twice",
    "TWF160": "nested too deeply",
    "TWF190": "an extension of the base grammar (with --strict)",
    "TWF199": "too many errors",
    "TWF201": "not allowed in an activity",
    "TWF202": "not allowed in a query",
    "TWF203": "close in a signal or update",
    "TWF204": "continue_as_new in a signal or update",
    "TWF205": "heartbeat outside an activity",
    "TWF206": "break or continue outside a loop",
    "TWF207": "break or continue leaves an await all branch",
    "TWF208": "a query changes a workflow variable",
    "TWF209": "a query is awaited",
    "TWF301": "undefined activity",
    "TWF302": "undefined workflow",
    "TWF303": "undefined signal",
    "TWF304": "undefined update",
    "TWF305": "not a handle",
    "TWF310": "duplicate workflow",
    "TWF311": "duplicate activity",
    "TWF312": "duplicate handler",
    "TWF313": "duplicate name",
    "TWF320": "more names bound than the message has parameters",
    "TWF330": "an activity with neither function nor body",
    "TWF331": "a host function that is not bound",
    "TWF401": "a workflow without statements",
    "TWF402": "unreachable statement",
    "TWF403": "a name that is assigned nowhere",
    "TWF404": "a name read before it is assigned",
    "TWF405": "wrong number of arguments",
    "TWF406": "wrong number of arguments of continue_as_new",
    "TWF407": "unknown option",
    "TWF408": "empty options",
    "TWF409": "an option without effect",
    "TWF410": "the same case twice",
    "TWF411": "a declared result that is never given",
    "TWF412": "a signal returns a value",
    "TWF413": "spawn or detach where it has no meaning",
    "TWF414": "spawn without a handle",
    "TWF415": "an endless loop that does nothing",
    "TWF417": "a host function in workflow code",
    "TWF418": "a workflow that always calls itself",
}


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to a diagnostic."""

    path: str
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: where, what, and what to do about it."""

    path: str
    start: int
    end: int
    span: Span
    code: str
    message: str
    hint: str | None = None
    extension: str | None = None
    related: tuple[Related, ...] = ()

    @property
    def severity(self) -> Severity:
        return "warning" if self.code.startswith("TWF4") else "error"

    @property
    def is_syntax(self) -> bool:
        return self.code.startswith("TWF1") and self.code != "TWF190"


def diagnose(
    source: Source,
    start: int,
    end: int,
    code: str,
    message: str,
    hint: str | None = None,
    *,
    extension: str | None = None,
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    return Diagnostic(source.path, start, end, source.span(start, end), code, message, hint, extension, related)


def arrange(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by place, one per position (an error before a warning, then the lower code), cut off per file."""
    ordered = sorted(found, key=_rank)
    kept: list[Diagnostic] = []
    errors = 0
    last: tuple[str, int, int] | None = None
    closed: str | None = None
    for finding in ordered:
        place = (finding.path, finding.span.line, finding.span.column)
        if finding.path == closed or place == last:
            continue
        if last is None or last[0] != finding.path:
            errors = 0
        last = place
        kept.append(finding)
        errors += finding.severity == "error"
        if errors == ERROR_LIMIT:
            closed = finding.path
            kept.append(_too_many(finding))
    return kept


def _rank(finding: Diagnostic) -> tuple[str, int, int, bool, bool, str]:
    extension = finding.code == "TWF190"
    return (
        finding.path,
        finding.span.line,
        finding.span.column,
        finding.severity == "warning",
        extension,
        finding.code,
    )


def _too_many(last: Diagnostic) -> Diagnostic:
    message = f"more than {ERROR_LIMIT - 1} errors; the rest of the file is not reported"
    return Diagnostic(last.path, last.start, last.end, last.span, "TWF199", message)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The most similar candidate: edit distance at most 2, and below half of the word's length."""
    best: str | None = None
    best_distance = min(2, (len(word) - 1) // 2) + 1
    letters = set(word)
    for candidate in candidates:
        if best_distance == 1:
            break  # nothing but the word itself is nearer
        near = abs(len(candidate) - len(word)) < best_distance and candidate != word
        if near and len(letters.symmetric_difference(candidate)) <= 4:  # an edit changes at most two
            distance = _edit_distance(word, candidate, best_distance)
            if distance < best_distance:
                best, best_distance = candidate, distance
    return best


def _edit_distance(left: str, right: str, limit: int) -> int:
    before: Sequence[int] = range(len(right) + 1)
    for row, letter in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            current.append(
                min(before[column] + 1, current[-1] + 1, before[column - 1] + (letter != other)),
            )
        if min(current) >= limit:
            return limit
        before = current
    return before[-1]
