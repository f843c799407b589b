"""Runs that have something for their next turn take it together, once in each pass of the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextvars import Context
from typing import Final, Protocol

from tenuto.host.collector import CollectorHold, CollectorPaused
from tenuto.kernel.loop import drop_generators

__all__ = ["Rounds"]

LARGE: Final = 16  # runs in one round


class TakesTurns(Protocol):
    def take_usual_turn(self, now: int | None) -> None: ...


class Rounds:
    """Who takes part in the next round. Of one event loop.

    All that has come for a run by then goes into one turn, and all turns of a round into one commit.
    """

    def __init__(self, context: Context, clock: Callable[[], int | None], hold: CollectorHold) -> None:
        self._context = context
        self._clock = clock  # None: the time has to be asked for
        self._hold = hold
        self._ready: dict[TakesTurns, None] = {}

    def add(self, run: TakesTurns) -> None:
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._play, context=self._context)
        self._ready[run] = None

    def _play(self) -> None:
        ready, self._ready = self._ready, {}
        now = self._clock()
        hooks = drop_generators()
        if len(ready) >= LARGE:
            self._hold.begin()
        try:
            with CollectorPaused():
                for run in ready:
                    run.take_usual_turn(now)
        finally:
            if hooks is not None:
                sys.set_asyncgen_hooks(*hooks)
