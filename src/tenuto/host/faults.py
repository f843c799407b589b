"""Errors as people read them: what it came from, where in the run, and which lines of their own code it passed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, TypeVar, cast

from tenuto.codec.exceptions import traceback_text
from tenuto.errors import ChildError, RemoteError, StepFailedError

__all__ = ["brief", "causes", "failed_at", "failure_text", "innermost", "noted", "user_frames", "with_frames"]

E = TypeVar("E", bound=BaseException)

MOST: Final = 50  # causes that are looked at: an error may be its own cause
CHARACTERS: Final = 300  # of a text in another text
_FRAME: Final = re.compile(r'^  File "(.*?)", line ', re.MULTILINE)
_PARTS: Final = "|".join(part.name for part in iter_modules([str(Path(__file__).parent.parent)]))
# Frames that are not the user's: ours, and what carries a step.
_OURS: Final = re.compile(
    rf"[/\\](tenuto[/\\]({_PARTS})"
    r"|asyncio|concurrent[/\\]futures)[/\\.]|[/\\]threading\.py$|^<frozen "
)
_TITLE: Final = "in the code of the run:"


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, then what it came from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < MOST:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def innermost(error: BaseException) -> BaseException:
    """What an error came from in the end."""
    *_, last = causes(error)
    return last


def brief(error: BaseException) -> str:
    """An error on one line: its class and the first line of its text."""
    if isinstance(error, RemoteError):
        name, text = error.type_name.rpartition(":")[2].rpartition(".")[2], error.message
    else:
        name, text = type(error).__name__, _text(error).removeprefix(f"{getattr(error, 'code', None)} ")
    first = (text.strip().splitlines() or [""])[0]
    shortened = first if len(first) <= CHARACTERS else f"{first[:CHARACTERS]}…"
    return f"{name}: {shortened}" if shortened else name


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001  # the class's own code; a broken text must not hide the error
        return f"(its text could not be made: {type(broken).__name__})"


def failed_at(error: BaseException) -> str:
    """The location of the run's own step that an error comes from; "" where it comes from none."""
    for cause in causes(error):
        if isinstance(cause, StepFailedError):
            return getattr(cause, "location", "")  # a copy rebuilt by somebody's own code may lack it
        if isinstance(cause, ChildError):
            break  # what lies below happened in another run
    return ""


def failure_text(run_id: str, error: BaseException) -> str:
    """What happened to a run that failed."""
    location = failed_at(error)
    return f"run {run_id} failed{f' at {location}' if location else ''}: {brief(innermost(error))}"


def noted(error: E, notes: Iterable[str]) -> E:
    """The error with notes."""
    for note in notes:
        error.add_note(note)
    return error


def with_frames(error: E) -> E:
    """The error, each of its causes with a note of the frames of the user's code it passed when it was recorded."""
    for cause in causes(error):
        frames = user_frames(traceback_text(cause) or "") if cause.__traceback__ is None else ""
        if frames:
            cause.add_note(f"{_TITLE}\n{frames}")
        if isinstance(cause, BaseExceptionGroup):
            members = cast("tuple[BaseException, ...]", cause.exceptions)  # pyright: ignore[reportUnknownMemberType]
            for member in members:
                with_frames(member)
    return error


def user_frames(text: str) -> str:
    """The frames of a traceback's text that are in the user's code."""
    found = list(_FRAME.finditer(text))
    ends = [frame.start() for frame in found[1:]] + [len(text)]
    kept = [text[frame.start() : end] for frame, end in zip(found, ends, strict=False) if not _OURS.search(frame[1])]
    return "".join(kept).rstrip("\n")
