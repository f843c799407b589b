"""Spares Python's garbage collector work that cannot be of use.

What turns make is alive until they are committed. With thousands of steps under way the collector would look at all of
them again and again, in the middle of a turn, and find nothing: a quarter of the time of a large one.
"""

from __future__ import annotations

import gc

__all__ = ["CollectorPaused"]


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
