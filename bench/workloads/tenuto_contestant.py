"""Tenuto, on SQLite or Postgres."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from itertools import pairwise

from tenuto import Tenuto, sleep_until, step, wait_for_signal, workflow
from workloads.contestant import Parking, Watch, resident_mb

__all__ = ["TenutoContestant"]

LEASE = "1s"  # in W5: the end of a killed worker's lease is waited for before anything is measured
LAP = 100  # steps between two notes of the time
_watch: Watch | None = None
_marks: list[float] = []
_late: dict[int, float] = {}


@step
async def one(number: int) -> int:
    if number % LAP == 0:
        _marks.append(time.perf_counter())
    return number


@step
async def note() -> None:
    assert _watch is not None
    _watch.note()


@step(max_attempts=100)
async def hang() -> None:
    assert _watch is not None
    _watch.note()
    await asyncio.Event().wait()


@workflow
async def row(count: int) -> int:
    total = 0
    for number in range(count):
        total += await one(number)
    return total


@workflow
async def side_by_side(count: int) -> int:
    return sum(await asyncio.gather(*(one(number) for number in range(count))))


@workflow
async def listen(count: int) -> None:
    for _ in range(count):
        await wait_for_signal("ping")
        await note()


@workflow
async def nap(number: int, due: float) -> None:
    await sleep_until(datetime.fromtimestamp(due, UTC))
    _late.setdefault(number, time.time() - due)


@workflow
async def row_then_hang(count: int) -> None:
    for number in range(count):
        await one(number)
    await hang()


class TenutoContestant:
    """See `Contestant`."""

    def __init__(self) -> None:
        self._app: Tenuto | None = None

    async def open(self, url: str) -> None:
        global _watch
        _watch = Watch()
        self._app = await Tenuto(url).__aenter__()
        await self.many_runs(3, 3)

    async def close(self) -> None:
        if self._app is not None:
            await self._app.__aexit__(None, None, None)

    async def in_a_row(self, steps: int) -> list[float]:
        _marks.clear()
        run = await self.app.start(row, steps)
        await run.result()
        return _laps([*_marks, time.perf_counter()])

    async def many_runs(self, runs: int, steps: int) -> float:
        began = time.perf_counter()
        handles = await asyncio.gather(*(self.app.start(row, steps) for _ in range(runs)))
        await asyncio.gather(*(handle.result() for handle in handles))
        return time.perf_counter() - began

    async def idle(self, samples: int) -> list[float]:
        times: list[float] = []
        for _ in range(samples):
            await asyncio.sleep(0.03)
            began = time.perf_counter()
            await (await self.app.start(row, 1)).result()
            times.append(time.perf_counter() - began)
        return times

    async def at_once(self, steps: int) -> float:
        began = time.perf_counter()
        await (await self.app.start(side_by_side, steps)).result()
        return time.perf_counter() - began

    async def signals(self, samples: int, pause: float) -> list[float]:
        assert _watch is not None
        run = await self.app.start(listen, samples)
        times: list[float] = []
        for _ in range(samples):
            await asyncio.sleep(0.05 + random.random() * pause)
            began = time.perf_counter()
            await run.signal("ping")
            times.append(await _watch.moment() - began)
        await run.result()
        return times

    async def park(self, runs: int, seconds: float) -> Parking:
        _late.clear()
        before = resident_mb()
        began = time.perf_counter()
        due = time.time() + seconds
        for first in range(0, runs, 1000):
            numbers = range(first, min(runs, first + 1000))
            await asyncio.gather(*(self.app.start(nap, number, due) for number in numbers))
        while await self._any_is("pending") or await self._any_is("running"):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
        parked = time.perf_counter() - began
        grown = resident_mb() - before
        early = due - time.time()
        while len(_late) < runs and time.time() < due + 30:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        late = max(_late.values(), default=0.0)
        while await self._any_is("running") or await self._any_is("suspended"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return Parking(seconds=parked, memory_mb=grown, spare=early, woken=len(_late), late=late)

    async def _any_is(self, status: str) -> bool:
        async for _ in self.app.runs(status=status, limit=1):
            return True
        return False

    async def replay(self, url: str, steps: int, first: bool) -> float:
        global _watch
        _watch = Watch()
        began = time.perf_counter()
        self._app = await Tenuto(url, lease=LEASE, max_reclaims=100).__aenter__()
        if first:
            await self.app.start(row_then_hang, steps, id=f"replayed-{steps}")
        async with asyncio.timeout(120):
            return await _watch.moment() - began

    @property
    def app(self) -> Tenuto:
        assert self._app is not None
        return self._app


def _laps(marks: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(marks)]
