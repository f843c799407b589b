"""Diagnostics for people: the line, a caret under the word, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .diagnostics import Diagnostic
from .source import Source

__all__ = ["count_line", "headline", "render"]


def headline(found: Diagnostic) -> str:
    """`path:line:column: error TWF301: message (hint)`."""
    hint = f" ({found.hint})" if found.hint else ""
    place = f"{found.path}:{found.span.line}:{found.span.column}"
    return f"{place}: {found.severity} {found.code}: {found.message}{hint}"


def render(found: Diagnostic, source: Source | None) -> str:
    """The headline, the source line with a caret under the place, and related places."""
    lines = [headline(found)]
    if source is not None:
        lines.extend(_excerpt(found, source))
    for related in found.related:
        lines.append(f"    {related.path}:{related.span.line}:{related.span.column}: {related.message}")
    return "\n".join(lines)


def _excerpt(found: Diagnostic, source: Source) -> Iterable[str]:
    line, column, end_line, end_column = found.span
    text = source.line_text(line)
    number = str(line)
    stop = end_column if end_line == line else len(text) + 1
    width = max(1, stop - column)
    # a tab stays a tab above and below, so that the caret stands where the word does
    lead = "".join("\t" if letter == "\t" else " " for letter in text[: column - 1])
    yield f"  {number} | {text}"
    yield f"  {' ' * len(number)} | {lead.ljust(column - 1)}{'^' * width}"


def count_line(diagnostics: Sequence[Diagnostic], workflows: int, activities: int) -> str:
    """The last line of a check."""
    errors = sum(found.severity == "error" for found in diagnostics)
    warnings = len(diagnostics) - errors
    defined = f"{_count(workflows, 'workflow')}, {_count(activities, 'activity', 'activities')}"
    if not diagnostics:
        return f"ok: {defined}"
    return f"{_count(errors, 'error')}, {_count(warnings, 'warning')} in {defined}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
