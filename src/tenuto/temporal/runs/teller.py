"""Whoever takes the turns of a run, as those see it who bring it facts."""

from __future__ import annotations

from typing import Protocol

from tenuto.kernel.facts import Fact

__all__ = ["Teller"]


class Teller(Protocol):
    """Whoever takes the turns."""

    def tell(self, fact: Fact) -> None:
        """One fact, one turn."""
        ...

    def deliver(self, name: str, payload: bytes) -> None:
        """A signal to this run, from itself."""
        ...

    def wake(self) -> None:
        """What the end may have waited for has changed."""
        ...
