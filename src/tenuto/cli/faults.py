"""Errors on a terminal: class, text, notes, where they were raised, what they came from, and the members of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from tenuto.cli.output import safe, shown
from tenuto.codec.viewing import view_error
from tenuto.host.faults import user_frames

__all__ = ["lines_of_error", "shown_error"]

DEEPEST: Final = 20


def shown_error(error: Any) -> str:
    """An error on one line: what it came from in the end, and the class that stands for it."""
    view = _view(error)
    if view is None:
        return shown(error)
    first = view
    for _ in range(DEEPEST):
        if not isinstance(view.get("cause"), Mapping):
            break
        view = view["cause"]
    return _line(view) + (f" ({safe(str(first.get('type')))})" if view is not first else "")


def lines_of_error(error: Any) -> list[str]:
    """All of an error, each of its causes below it."""
    view = _view(error)
    return [shown(error)] if view is None else list(_lines(view, DEEPEST))


def _lines(view: Mapping[str, Any], deepest: int) -> Iterator[str]:
    first, *rest = [line.strip() for line in str(view.get("message", "")).splitlines()] or [""]
    yield safe(f"{view.get('type')}: {first}" if first else str(view.get("type")))
    yield from (f"  {safe(line)}" for line in rest)
    for note in view.get("notes") or ():
        yield from (f"  {safe(line)}" for line in str(note).splitlines())
    frames = user_frames(view.get("traceback") or "").splitlines()
    yield from (safe(line) for line in frames if line.strip(" ^~"))  # markers below a line mean nothing once it is cut
    if deepest == 0:
        return
    for member in view.get("members") or ():
        name = f"{safe(str(member['name']))}: " if "name" in member else ""
        lines = list(_lines(member, deepest - 1))
        yield f"  - {name}{lines[0]}"
        yield from (f"    {line}" for line in lines[1:])
    if isinstance(view.get("cause"), Mapping):
        yield "because of"
        yield from _lines(view["cause"], deepest - 1)


def _line(view: Mapping[str, Any]) -> str:
    message = (str(view.get("message", "")).splitlines() or [""])[0]
    return safe(f"{view.get('type')}: {message}" if message else str(view.get("type")))


def _view(error: Any) -> Mapping[str, Any] | None:
    """An error as JSON; None for what stands for one that cannot be read."""
    if isinstance(error, BaseException):
        found: Mapping[str, Any] = view_error(error)
        return found
    return cast("Mapping[str, Any]", error) if isinstance(error, dict) and "type" in error else None
