"""How large stored values may be."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_LIMITS", "IN_FORCE", "ValueLimits"]


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """What one value may take up."""

    size: int = 2 * 1024 * 1024  # bytes, encoded, before compression
    depth: int = 100  # containers and objects inside each other


DEFAULT_LIMITS: Final = ValueLimits()
IN_FORCE: Final = ContextVar("tenuto_value_limits", default=DEFAULT_LIMITS)  # where no others are given
