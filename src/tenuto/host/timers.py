"""Timers: firing those that are due, and which ones a run has according to its rows."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from tenuto.errors import EnvironmentFault
from tenuto.kernel.batch import Batch
from tenuto.kernel.location import text
from tenuto.kernel.records import Flag, Message, Rows, Sleep, Step, StepStatus
from tenuto.store.port import NewTimer, Store
from tenuto.system import REAL, System

__all__ = ["DueTimers", "open_timers", "wait_at_most"]

log = logging.getLogger("tenuto.host")

AT_ONCE: Final = 500  # timers fired in one transaction


class DueTimers:
    """Fires what is due: where this worker does it for all (`is_ours`), and where its own runs wait."""

    def __init__(
        self, store: Store, is_ours: Callable[[], bool], poke: Callable[[], None], system: System = REAL
    ) -> None:
        self._store = store
        self._is_ours = is_ours
        self._poke = poke
        self._monotonic = system.clock.monotonic
        self._pace = system.pace
        self._changed = asyncio.Event()
        self._next: int | None = None

    def expect(self, timer: int | None) -> None:
        """A run of ours waits for this time."""
        if timer is not None and (self._next is None or timer < self._next):
            self._changed.set()

    async def fire(self) -> None:
        """The loop that looks for them."""
        due = 0.0  # when to look although another worker does it for all: at once, and where our own runs wait
        while True:
            if self._changed.is_set() or self._is_ours() or self._monotonic() >= due:
                self._changed.clear()
                due = self._monotonic() + self._pace.poll
                try:
                    self._next = await self._store.fire_timers(AT_ONCE)
                    self._poke()
                    left = math.inf if self._next is None else self._next - await self._store.now()
                    due = self._monotonic() + min(self._pace.others, left / 1000)
                except EnvironmentFault as error:
                    log.warning("timers could not be looked at: %s", error)
            await wait_at_most(max(0.0, min(self._pace.poll, due - self._monotonic())), self._changed)


async def wait_at_most(seconds: float, event: asyncio.Event) -> None:
    """Until the event, at most so long. (`wait_for` may swallow a cancellation that comes with the event.)"""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def open_timers(rows: Rows, undone: Batch) -> tuple[NewTimer, ...]:
    """What a run that is opened again waits for.

    Closing it deleted its timers, and one that is not there counts as fired (P4): they are stored again with the
    deadlines they had.
    """
    return tuple(_open(rows, set(undone.deleted_entries)))


def _open(rows: Rows, deleted: set[object]) -> Iterator[NewTimer]:
    for location, entry in rows.history:
        metadata = rows.metadata.get(location)
        if metadata is not None and metadata.rollback is not None and metadata.rollback.retry_at is not None:
            yield NewTimer(text(location), metadata.rollback.retry_at, "retry")
        if entry.seq or entry.flags & Flag.CANCELLED or location in deleted:
            continue
        match entry.kind:
            case Sleep(deadline=deadline):
                yield NewTimer(text(location), deadline, "delay")
            case Message(deadline=int(deadline)):
                yield NewTimer(text(location), deadline, "timeout")
            case Step(status=StepStatus.WAITING) if metadata is not None and metadata.retry_at is not None:
                yield NewTimer(text(location), metadata.retry_at, "retry")
            case _:
                pass
