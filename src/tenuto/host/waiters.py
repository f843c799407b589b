"""Those in this process who wait for something about a run.

A worker of this process tells them of its own runs at once. For the rest they are looked after, a few at a time, when
anything was committed by anyone: at once after a silence, then with a rest in proportion to what the looking took, so
that a thousand waiters do not read the store a thousand times at every commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tenuto.errors import EnvironmentFault
from tenuto.store.port import Store
from tenuto.system import REAL, Pace

__all__ = ["Ending", "Waiters"]

log = logging.getLogger("tenuto.host")

REST_FOUND: Final = 0.1  # seconds of rest for each second of looking, after which there was something to tell
REST_BUSY: Final = 20.0  # the same when there was nothing, and a worker here has work
LOOKS: Final = 20  # between two rests
LOOKS_IDLE: Final = 500  # the same where no worker here has had work for a while: nobody is held up by them
IDLE_AFTER: Final = 0.2  # seconds


class Ending(NamedTuple):
    """How a run ended: its status, its output or error as they are stored, and what else its end says."""

    status: str
    value: bytes
    notes: tuple[str, ...] = ()


class _Waiter:
    """One who waits: what for, how it is woken to look again, and what it was told instead.

    Thousands may wait: it is made of few objects.
    """

    __slots__ = ("ending", "or_ended", "reached", "woken")

    def __init__(self, reached: Callable[[], Awaitable[bool]], or_ended: bool) -> None:
        self.reached = reached
        self.or_ended = or_ended  # it waits for the end, which whoever has the run tells
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ending: Ending | None = None

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class Waiters:
    """Who waits, by run. Of one event loop. `busy`: whether a worker here has work, which looking would slow down."""

    def __init__(
        self,
        store: Store,
        busy: Callable[[], bool],
        told: Callable[[str], bool] = lambda run_id: False,
        pace: Pace = REAL.pace,
    ) -> None:
        self._store = store
        self._busy = busy
        self._pace = pace
        self._told = told  # whether a worker here has that run, and will tell
        self._waiting: dict[str, list[_Waiter]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._come = asyncio.Event()  # somebody waits
        self._worked_at = 0.0  # when a worker here was last seen to have work

    def tell(self, run_id: str, ending: Ending | None = None) -> None:
        """Something about this run has been committed here: its end, or what those who wait for it look at now."""
        for waiter in self._waiting.get(run_id, ()):
            waiter.ending = ending
            waiter.wake()

    async def until(
        self, run_id: str, reached: Callable[[], Awaitable[bool]], *, or_ended: bool = False
    ) -> Ending | None:
        """Returns once it is true of the run; it is asked at first, and whenever it may have changed.

        `or_ended`: also once the run has ended here, with how it did.
        """
        waiter = _Waiter(reached, or_ended)
        self._waiting.setdefault(run_id, []).append(waiter)
        self._come.set()
        try:
            if not self._listens():
                mark = await self._store.changed(-1, 0)  # before the first look: nothing is missed
                if not self._listens():
                    self._listening = asyncio.create_task(self._listen(mark), name="tenuto-waiters")
            # Whoever has the run would have told of its end: no need to look at first.
            if not (or_ended and self._told(run_id)) and await reached():
                return None
            while True:
                await waiter.woken
                if or_ended and waiter.ending is not None:
                    return waiter.ending
                waiter.woken = asyncio.get_running_loop().create_future()  # before it looks: nothing is missed
                if await reached():
                    return None
        finally:
            waiting = self._waiting[run_id]
            waiting.remove(waiter)
            if not waiting:
                del self._waiting[run_id]

    async def close(self) -> None:
        """Stops listening; nobody may wait any more."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    def _listens(self) -> bool:
        return self._listening is not None and not self._listening.done()

    async def _listen(self, mark: int) -> None:
        looked_at_all = asyncio.get_running_loop().time()
        while True:
            if not self._waiting:
                self._come.clear()
                await self._come.wait()
            try:
                mark = await self._store.changed(mark, self._pace.poll)
            except EnvironmentFault as error:
                log.warning("news could not be heard: %s", error)
                await asyncio.sleep(self._pace.retry)
            now = asyncio.get_running_loop().time()
            all_of_them = now - looked_at_all >= self._pace.ends
            looked_at_all = now if all_of_them else looked_at_all
            if not await self._look_for(all_of_them):
                await asyncio.sleep(self._pace.rest_told)

    async def _look_for(self, all_of_them: bool) -> bool:
        """Looks for those who will not be told, or for all; whether there are any."""
        waiting = [
            waiter
            for run_id, waiters in self._waiting.items()
            for waiter in waiters
            if all_of_them or not (waiter.or_ended and self._told(run_id))
        ]
        first = 0
        while first < len(waiting):
            last = first + self._looks()
            await self._look(waiting[first:last])
            first = last
        return bool(waiting)

    def _looks(self) -> int:
        """How many may look at once: more of them, when no worker here has had work for a while."""
        now = asyncio.get_running_loop().time()
        if self._busy():
            self._worked_at = now
        return LOOKS if now - self._worked_at < IDLE_AFTER else LOOKS_IDLE

    async def _look(self, waiters: list[_Waiter]) -> None:
        """Wakes those whose wish has come true, then rests."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await asyncio.gather(*map(_is_reached, waiters))
        rest = REST_FOUND if any(found) or not self._busy() else REST_BUSY
        pace = self._pace
        await asyncio.sleep(min(pace.rest_longest, max(pace.rest, (loop.time() - began) * rest)))


async def _is_reached(waiter: _Waiter) -> bool:
    if waiter.woken.done():
        return False  # it looks itself
    try:
        reached = await waiter.reached()
    except Exception:  # noqa: BLE001  # edge 2 of 3: the waiter meets it again, and raises it where it belongs
        reached = True
    if reached:
        waiter.wake()
    return reached
