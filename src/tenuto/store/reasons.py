"""Why a run is parked, as a store keeps it that seals what it keeps: text, because the column is one."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from tenuto.codec.frames import described

__all__ = ["hidden", "is_hidden", "readable", "sealed_by"]

_HIDDEN: Final = "sealed:"


def readable(sealed: bytes) -> str:
    """The column's text for a sealed reason."""
    return _HIDDEN + base64.b64encode(sealed).decode()


def is_hidden(reason: str) -> bool:
    """Whether a reason was sealed."""
    return reason.startswith(_HIDDEN)


def hidden(reason: str) -> bytes:
    """What was sealed; `ValueError` where the text is not what `readable` gave."""
    return base64.b64decode(reason[len(_HIDDEN) :], validate=True)


def sealed_by(reason: str) -> str | None:
    """By which key a reason is sealed that nobody has opened; None for one that is not."""
    if not is_hidden(reason):
        return None
    try:
        return described(hidden(reason)) or "sealed"
    except binascii.Error:
        return "sealed, and damaged"
