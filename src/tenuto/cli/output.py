"""What commands print: text that is safe in a terminal, tables, JSON, colours.

Ids, names, errors and payloads are other people's text. Whatever is in them, it stays inside its cell: nothing that
moves the cursor, changes colours or breaks a line passes `safe`. Colour only on a terminal, and not with NO_COLOR.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, Final, cast

import click

from tenuto.codec.values import dump
from tenuto.codec.viewing import EXACT, view, view_error
from tenuto.errors import TenutoError
from tenuto.system.lines import safe

__all__ = [
    "ago",
    "complain",
    "cut",
    "duration",
    "echo_json",
    "on_terminal",
    "paint",
    "plain",
    "progress",
    "safe",
    "say",
    "shown",
    "table",
    "terminal_width",
    "value_json",
    "when",
    "width_of",
]

_DIGITS: Final = 40  # of an integer that are shown on one line
_WIDTH: Final = 100  # where there is no terminal to ask
_COLOURS: Final = {
    "completed": "green",
    "failed": "red",
    "stuck": "red",
    "parked": "red",
    "cancelled": "yellow",
    "terminated": "yellow",
    "paused": "yellow",
    "running": "cyan",
}


# --- text


def width_of(text: str) -> int:
    """How many cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int) -> str:
    """A text in at most so many cells; what is cut off is shown by a dot dot dot."""
    if width_of(text) <= width:
        return text
    kept = ""
    for char in text:
        if width_of(kept + char) > width - 1:
            break
        kept += char
    return f"{kept}…"


def shown(value: Any) -> str:
    """A value of JSON on one line; numbers of thousands of digits are shortened."""
    return safe(json.dumps(_with_short_numbers(plain(value)), ensure_ascii=False))


def _with_short_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        digits = found.get("$int") if len(found) == 1 else None
        if isinstance(digits, str) and len(digits) > _DIGITS:
            return {"$int": f"{digits[: _DIGITS // 2]}…{digits[-_DIGITS // 2 :]} ({len(digits)} digits)"}
        return {key: _with_short_numbers(item) for key, item in found.items()}
    if isinstance(value, list):
        return [_with_short_numbers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


# --- colours


def on_terminal() -> bool:
    """Whether somebody looks: only then are there colours and things that move."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Columns there are to write in."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def paint(text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """The text in a colour, or the colour of that status; plain where colours are not wanted."""
    if not on_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, fg=_COLOURS.get(colour or "", colour), bold=bold or None, dim=dim or None)


def say(text: str = "", *, err: bool = False) -> None:
    """Prints lines that are safe already."""
    click.echo(text, err=err)


def complain(error: BaseException) -> None:
    """Prints an error as one message: what happened with its code, what the engine did, what to do next, and why."""
    lines = _message(error).splitlines() or [type(error).__name__]
    code = getattr(error, "code", None)
    if isinstance(error, TenutoError) and not lines[0].startswith(str(code)):
        lines[0] = f"{code} {lines[0]}"
    cause = error.__cause__
    while cause is not None:
        first = _message(cause).splitlines() or [""]
        lines.append(f"  because   {type(cause).__name__}: {first[0]}")
        cause = cause.__cause__
    for line in lines:
        click.echo(safe(line), err=True)


def _message(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "the time is over; the run goes on"
    return str(error)


# --- tables


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, status: int | None = None) -> list[str]:
    """Lines of a table as wide as the terminal at most; the last column takes what is left.

    Cells are made safe here. `status`: the column that is painted in the colour of its text.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max(width_of(row[at]) for row in (heads, *cells)) for at in range(len(heads))]
    room = terminal_width()
    for at in range(len(widths) - 1):
        widths[at] = min(widths[at], max(len(heads[at]), room // 3))
    left = max(12, room - sum(widths[:-1]) - 2 * (len(widths) - 1))
    widths[-1] = min(widths[-1], left)
    lines = ["  ".join(_filled(head, width) for head, width in zip(heads, widths, strict=True)).rstrip()]
    for row in cells:
        parts = [_filled(cell, width) for cell, width in zip(row, widths, strict=True)]
        if status is not None:
            parts[status] = paint(parts[status], row[status].strip())
        lines.append("  ".join(parts).rstrip())
    lines[0] = paint(lines[0], bold=True)
    return lines


def _filled(text: str, width: int) -> str:
    short = cut(text, width)
    return short + " " * (width - width_of(short))


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[[], None]]:
    """A bar on standard error while long work goes on, where somebody looks; the function advances it by one."""
    if not sys.stderr.isatty() or total < 2:
        yield _nothing
        return
    from rich.console import Console  # only here: it takes long to import
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _nothing() -> None:
    """Nobody looks."""


# --- times


def when(at: datetime) -> str:
    """A moment, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def duration(seconds: float) -> str:
    """A duration in the two units that matter."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = round(seconds)
    for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}{f' {rest}{below}' if rest else ''}"
    return f"{whole}s"


def ago(at: datetime, now: datetime) -> str:
    """How long ago, or in how long."""
    seconds = (now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


# --- JSON


def echo_json(data: Any, *, compact: bool = False) -> None:
    """Prints data as JSON: with line breaks for a document, on one line for one of many."""
    click.echo(json.dumps(plain(data), indent=None if compact else 2, ensure_ascii=True))


def value_json(value: Any) -> Any:
    """A user's value as JSON, in the forms of stored values: `{"$object", "fields"}` and its kin."""
    try:
        return view(dump(value))
    except TenutoError:
        return plain(value)  # nothing that can be stored: what people can read of it


def plain(value: Any) -> Any:
    """What we say of runs as JSON: our own records field by field, values and errors as they are stored."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= EXACT else view(dump(value))
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime() | date() | time():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case BaseException():
            return view_error(value)
        case Mapping():
            items = cast("Mapping[Any, Any]", cast("object", value)).items()
            return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in items}
        case list() | tuple() | set() | frozenset():
            members = cast("Iterable[Any]", value)
            return [plain(item) for item in members]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return repr(value)
