"""Stored values for those who look at a run: nothing that cannot be read spoils the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenuto.codec.values import load
from tenuto.codec.viewing import view
from tenuto.errors import DecodingError

__all__ = ["Unreadable", "error_or_why", "error_view_or_say", "view_or_say"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that cannot be read here."""

    why: str

    def __repr__(self) -> str:
        return f"<cannot be read here: {self.why}>"


def view_or_say(data: bytes) -> Any:
    """A stored value as JSON, or what stands for one that cannot be read."""
    try:
        return view(data)
    except DecodingError as error:
        return Unreadable(str(error.args[0]) if error.args else "damaged")


def error_view_or_say(data: bytes) -> Any:
    """A stored error as JSON: type, code, message, traceback, notes, cause."""
    found = view_or_say(data)
    return found.get("$error", found) if isinstance(found, dict) else found  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def error_or_why(data: bytes) -> BaseException:
    """A stored error, or the one that says why it cannot be read."""
    try:
        found = load(data)
    except DecodingError as error:
        return error
    return found if isinstance(found, BaseException) else DecodingError("$", type(found).__name__, "it is no error")
