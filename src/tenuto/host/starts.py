"""Runs being started in this process. Those of one pass of the event loop are begun together, in the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from tenuto.host.collector import CollectorPaused
from tenuto.host.runners import Call, Runners
from tenuto.kernel.batch import Batch
from tenuto.store.port import NewRun, Store, TurnResult

__all__ = ["Start", "Starts"]

TOGETHER: Final = 200  # begun in one go; then their commit is on its way while others are begun


class Start:
    """One start on its way: what is to be stored, and what becomes of it."""

    __slots__ = ("alarm", "first", "new", "plain", "stored")

    def __init__(self, new: NewRun, first: Batch, stored: asyncio.Future[bool]) -> None:
        self.new = new
        self.first = first  # whose rows are the new run's
        self.stored = stored  # False: its id, or its key, is another's
        self.plain = False  # it is stored without a turn, for anybody to claim
        self.alarm: int | None = None  # when a run that went to sleep is to be woken

    def answered(self, answer: TurnResult | Exception) -> None:
        """The store has it, or has refused it."""
        if self.stored.done():
            return
        if isinstance(answer, Exception):
            self.stored.set_exception(answer)
        else:
            self.stored.set_result(answer.verdict == "committed")


Begin: TypeAlias = Callable[[Start, frozenset[str]], None]


class Starts:
    """What is to be started. Of one event loop. `begin` is given each, and the names of queues that have limits.

    Together, so that the limits are looked up once, and the garbage collector waits for all of them: what they make is
    alive until they are stored.
    """

    def __init__(self, store: Store, runners: Runners, begin: Begin) -> None:
        self._store = store
        self._runners = runners
        self._begin = begin
        self._line: deque[Start] = deque()

    def add(self, new: NewRun, first: Batch) -> Start:
        """A start that is begun in the loop's next pass."""
        start = Start(new, first, asyncio.get_running_loop().create_future())
        self._line.append(start)
        if len(self._line) == 1:
            self._runners.start(Call(self._begin_all))
        return start

    async def _begin_all(self) -> None:
        while self._line:
            try:
                limited = await self._store.limited()
            except Exception as error:  # noqa: BLE001  # edge 2 of 3: it is raised where the start was asked for
                line, self._line = self._line, deque()
                for start in line:
                    start.answered(error)
                return
            self._begin_some(limited)
            if self._line:
                await asyncio.sleep(0)  # thousands of them do not hold up what else there is to do

    def _begin_some(self, limited: frozenset[str]) -> None:
        with CollectorPaused():
            for _ in range(min(TOGETHER, len(self._line))):
                start = self._line.popleft()
                try:
                    self._begin(start, limited)
                except Exception as error:  # noqa: BLE001  # edge 2 of 3: the same
                    start.answered(error)
