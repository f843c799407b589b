"""Notes of the steps that this worker has had under way for a while: who looks at a run sees them without its code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, KeysView
from typing import NamedTuple

from tenuto.kernel.location import Location, text
from tenuto.store.port import RunningStep, Store

__all__ = ["AttemptUnderWay", "UnderWay"]


class AttemptUnderWay(NamedTuple):
    """An attempt of an inline step in this process."""

    run_id: str
    location: Location
    attempt: int
    began: float  # by the loop's clock


class UnderWay:
    """The notes of one worker. They change only when a step has been under way for a while, and when that one ends.

    `every`: seconds between two looks; what is over between them is never noted.
    """

    def __init__(
        self,
        store: Store,
        worker_id: Callable[[], str],
        attempts: Callable[[], Iterable[AttemptUnderWay]],
        every: float,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._attempts = attempts
        self._every = every
        self._noted: dict[AttemptUnderWay, RunningStep] = {}

    async def note(self) -> None:
        """Looks again and again."""
        while True:
            await asyncio.sleep(self._every)
            here = asyncio.get_running_loop().time()
            lasting = dict.fromkeys(attempt for attempt in self._attempts() if here - attempt.began >= self._every)
            if lasting.keys() != self._noted.keys():
                await self._change(lasting.keys())

    async def _change(self, lasting: KeysView[AttemptUnderWay]) -> None:
        new = [attempt for attempt in lasting if attempt not in self._noted]
        begun = await self.steps(new)
        over = [attempt for attempt in self._noted if attempt not in lasting]
        again = {(step.run_id, step.location) for step in begun}
        ended = [step for attempt in over if ((step := self._noted[attempt]).run_id, step.location) not in again]
        await self._store.note_under_way(begun, ended)
        for attempt in over:
            del self._noted[attempt]
        self._noted.update(zip(new, begun, strict=True))

    async def steps(self, attempts: Iterable[AttemptUnderWay]) -> list[RunningStep]:
        """Attempts as those who look are told of them."""
        now, here = await self._store.now(), asyncio.get_running_loop().time()
        return [
            RunningStep(run_id, text(location), attempt, now - round((here - began) * 1000), self._worker_id())
            for run_id, location, attempt, began in attempts
        ]
