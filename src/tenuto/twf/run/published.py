"""What queries see: variables as they were at the last committed turn."""

from __future__ import annotations

from typing import Any, Final

from tenuto.codec.values import dump
from tenuto.errors import EncodingError, LimitError

from .faults import Fault, Stopped
from .values import outgoing

__all__ = ["ABOUT", "published"]

ABOUT: Final = "twf:run"  # beside the variables: what queries may ask about the run itself


def published(values: dict[str, Any]) -> bytes:
    """The variables, encoded; one that no store can hold is left out."""
    try:
        return dump(outgoing(values))
    except (EncodingError, LimitError, Fault, Stopped):
        return dump({name: outgoing(value) for name, value in values.items() if _can_be_stored(value)})


def _can_be_stored(value: Any) -> bool:
    try:
        dump(outgoing(value))
    except (EncodingError, LimitError, Fault, Stopped):
        return False
    return True
