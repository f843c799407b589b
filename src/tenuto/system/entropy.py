"""Randomness that nobody can guess: ids, tokens, nonces."""

from __future__ import annotations

import os
from typing import Protocol

__all__ = ["Entropy", "RealEntropy"]


class Entropy(Protocol):
    """A source of random bytes. Never workflow code's: its random numbers are the same on every replay."""

    def token(self, size: int, /) -> bytes:
        """Return that many random bytes."""
        ...


class RealEntropy:
    """The operating system's source."""

    token = staticmethod(os.urandom)
