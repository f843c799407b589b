"""The timers of one run on Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from temporalio import workflow

from tenuto.kernel.commands import StartTimer
from tenuto.kernel.facts import TimerGone
from tenuto.kernel.location import Location, text
from tenuto.temporal.names import shown
from tenuto.temporal.runs.portions import Portions
from tenuto.temporal.runs.teller import Teller

__all__ = ["Timers"]

NEXT_TASK = 0.001  # seconds; a timer of none is none to the SDK


class Timers:
    """What a run waits for that only time brings."""

    def __init__(self, teller: Teller, portions: Portions) -> None:
        self._tell = teller.tell
        self._portions = portions
        self._pending: dict[Location, asyncio.Task[None]] = {}

    def abandon(self) -> None:
        for location in list(self._pending):
            self.stop(location)

    def start(self, command: StartTimer) -> None:
        fire = partial(self._tell, TimerGone(command.location))
        begin = partial(self.wake_at, command.deadline, command.location, fire)
        self._portions.hand("other", ("timer", command.location), 0, begin)

    def wake_at(self, deadline: int, location: Location, fire: Callable[[], None]) -> None:
        """A durable timer; P4: it is never early, whatever became of the fractions."""
        delay = max(0, deadline - workflow.time_ns() // 1_000_000)
        timer = asyncio.create_task(workflow.sleep(delay / 1000, summary=shown(text(location)) or "cancel"))
        self._pending[location] = timer

        def fired(_: asyncio.Task[None]) -> None:
            if self._pending.get(location) is timer:
                del self._pending[location]
            if not timer.cancelled() and timer.exception() is None:
                fire()

        timer.add_done_callback(fired)

    def stop(self, location: Location) -> None:
        self._portions.withdraw(("timer", location))
        timer = self._pending.pop(location, None)
        if timer is not None:
            timer.cancel()
