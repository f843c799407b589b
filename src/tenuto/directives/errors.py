"""Findings: what is wrong with a file's directives, each with a stable code, a place and a hint.

1xx are errors; 2xx and 4xx warnings; 3xx errors that only `strict` looks for; 5xx belong to the run time
(`tenuto.errors`). A code is never reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tenuto.errors import DirectiveError
from tenuto.model.ids import DirectiveWarning

__all__ = [
    "CODES",
    "DirectiveWarning",
    "Finding",
    "Level",
    "Related",
    "Span",
    "as_error",
    "describe",
    "errors_of",
    "make_finding",
    "to_json",
    "unreadable",
]

Level: TypeAlias = Literal["error", "warning"]

# Code -> (message, hint); fields in braces are filled in by whoever reports it.
CODES: Final[Mapping[str, tuple[str, str]]] = {
    "DIR101": ("workflow {name} must be `async def`", "write `async def {name}`"),
    "DIR102": ("{name} is marked, but {what}", "make it a static method, with @staticmethod first"),
    "DIR103": ('"{text}" must come first in the function', "move it up, above every other statement"),
    "DIR104": ('"{text}" must come first in the module', "move it to the top of the file, or into a function"),
    "DIR105": ("one module cannot be both steps and workflows", "keep one directive and mark the others themselves"),
    "DIR106": ("one function cannot be both step and workflow", "keep one directive"),
    "DIR107": (
        "{what}, but a marked module may export only async functions",
        "give it a leading underscore, leave it out of __all__, or give it a mark of its own",
    ),
    "DIR108": ('"{text}" is not a directive; did you mean "{meant}"?', 'write exactly "{meant}"'),
    "DIR109": ("a directive must be one plain string literal", 'write "{meant}"'),
    "DIR110": ("{name} is marked, but it is a generator", "return a list"),
    "DIR111": ("{what} cannot be used in a step", "name the class"),
    "DIR112": ("a step cannot rebind {names} of its enclosing function", "return the value instead"),
    "DIR113": ("{name} is {what} and cannot leave its function", "pass what the step needs as an argument"),
    "DIR114": ("{what}", "move it to module level"),
    "DIR115": ("{name} is already defined at line {line}", "rename one of them"),
    "DIR116": ("{name} is a property and cannot be marked", "make it a static method"),
    "DIR117": ("{name} is {what} and has no body to run", "mark the implementation"),
    "DIR118": ("{name} has {has} but not {lacks}", "add {lacks}"),
    "DIR119": ("this source has no path, so its definitions can have no id", "put it into a file of the project"),
    "DIR120": ("{name} is marked {what}, so it is not always the same definition", "move it to module level"),
    "DIR121": ("{name} is marked twice", "keep one mark"),
    "DIR122": ("a test module with directives cannot be compiled: {why}", "update tenuto or pytest"),
    "DIR201": ('"{text}" is repeated', "delete this one"),
    "DIR202": ("{name} is a step inside a step: it runs as an ordinary call", "delete the mark"),
    "DIR203": ("workflow {name} exists only after {outer} ran", "move it to module level"),
    "DIR204": ("the workflow will not see this change of {name}: a step works on a copy", "return it"),
    "DIR205": ("a lambda that returns a directive is not marked by it", "use `async def`"),
    "DIR206": ("a mark under TYPE_CHECKING is ignored", "move the definition out of the block"),
    "DIR207": ("{what} in a {kind} does not survive it", "use arguments and the result"),
    "DIR208": ("options on {name}, which is not marked", "mark it, or delete the options"),
    "DIR209": ("the id of {name} is not in the static manifest: {why}", "{fix}"),
    "DIR210": ("{name} was imported before the hook was installed, so it is not compiled", "install the hook earlier"),
    "DIR211": ("{name} was defined interactively", "put it into a file"),
    "DIR301": ("step {name} is not `async def`", "write `async def {name}`"),
    "DIR302": ("{name} is a public constant in a marked module", "give it a leading underscore"),
    "DIR303": ("class method {name} is marked", "make it a static method"),
    "DIR401": ("workflow {name} is called in a workflow", "use spawn({name}, ...)"),
    "DIR402": ("{call} in a workflow {why}", "{fix}"),
    "DIR403": ("{what} has no fixed order", "{fix}"),
    "DIR404": ("{call} starts a thread or process in a workflow", "put it in a `def` step: those run in threads"),
    "DIR405": (
        "{call} in {where} reads the real {what}, also when a workflow calls it",
        "{fix}",
    ),
    "DIR406": (
        "{decorator} on a workflow is not applied where routes are served",
        "write a route of its own that calls start",
    ),
    "DIR407": ("the call of step {name} is neither awaited nor kept, so it never runs", "write `await {name}(...)`"),
    "DIR408": (
        "the names of this workflow cannot be listed, so a renamed step would run again before that is noticed: {what}",
        "write names as text; await only what can be found",
    ),
    "DIR409": ("no store takes a value of type {name}", "{fix}, or register it: serializable({name}, ...)"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: 1-based, columns in characters, the end column just behind the last character."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Related:
    """Another place of the same file that a finding is about."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or probably wrong, with a file."""

    code: str
    level: Level
    message: str
    hint: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    related: tuple[Related, ...] = ()


def make_finding(
    code: str, path: str, span: Span, fields: Mapping[str, object], related: tuple[Related, ...] = ()
) -> Finding:
    """The finding with this code at this place, its texts filled in."""
    message, hint = CODES[code]
    level: Level = "error" if code[3] in "13" else "warning"
    return Finding(
        code,
        level,
        message.format_map(fields),
        hint.format_map(fields),
        path,
        span.line,
        span.column,
        span.end_line,
        span.end_column,
        related,
    )


def unreadable(path: str, message: str, line: int = 1, column: int = 1) -> Finding:
    """The finding for a file that nobody can read as Python."""
    return Finding("syntax", "error", message, "repair the file", path, line, column, line, column)


def describe(finding: Finding) -> str:
    """The finding as one line: `path:line:col: CODE message (hint)`."""
    place = f"{finding.path}:{finding.line}:{finding.column}"
    return f"{place}: {finding.code} {finding.message} ({finding.hint})"


def to_json(finding: Finding) -> dict[str, object]:
    """The finding as JSON data, for `--json`."""
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "hint": finding.hint,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
        "related": [{"line": place.line, "message": place.message} for place in finding.related],
    }


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that are errors."""
    return tuple(finding for finding in findings if finding.level == "error")


def as_error(findings: Sequence[Finding], filename: str, lines: Sequence[str]) -> DirectiveError:
    """The exception for a file with errors: the first one with its caret, the others as notes."""
    first, *others = errors_of(findings)
    error = DirectiveError(first.code, f"{first.code} {first.message} ({first.hint})", findings)
    error.filename = filename
    error.lineno = first.line
    error.offset = first.column
    error.end_lineno = first.end_line
    error.end_offset = first.end_column
    error.text = lines[first.line - 1] if first.line <= len(lines) else None
    for other in others:
        error.add_note(describe(other))
    return error
