"""Spares Python's garbage collector work that cannot be of use.

What turns make is alive until they are committed. With thousands of steps under way the collector would look at all of
them again and again, in the middle of a turn, and find nothing: a quarter of the time of a large one.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

__all__ = ["CollectorHold", "CollectorPaused"]

HOLD_SECONDS: Final = 0.05


class CollectorPaused:
    """No collection inside the block; one that has fallen due comes after it. For work of milliseconds.

    A class and no generator: every turn enters it.
    """

    __slots__ = ("_resume",)

    def __enter__(self) -> None:
        self._resume = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._resume:
            gc.enable()


class CollectorHold:
    """No collection from a large round until its commits are answered: until then all it has made is alive, and would
    be looked at and kept as if it were there to stay. A commit that takes long is not waited for.
    """

    __slots__ = ("_expiry", "_seconds")

    def __init__(self, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._expiry: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        if gc.isenabled():
            gc.disable()
            self._expiry = asyncio.get_running_loop().call_later(self._seconds, self.end)

    def end(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
            gc.enable()
