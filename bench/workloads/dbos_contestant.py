"""DBOS, on SQLite or Postgres, through its asynchronous interface and with its defaults."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import pairwise

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from workloads.contestant import Parking, Watch, resident_mb

__all__ = ["DbosContestant"]

LAP = 100  # steps between two notes of the time
_watch: Watch | None = None
_marks: list[float] = []
_late: dict[int, float] = {}


@DBOS.step()
async def one(number: int) -> int:
    if number % LAP == 0:
        _marks.append(time.perf_counter())
    return number


@DBOS.step()
async def note() -> None:
    assert _watch is not None
    _watch.note()


@DBOS.step()
async def hang() -> None:
    assert _watch is not None
    _watch.note()
    await asyncio.Event().wait()


@DBOS.workflow()
async def row(count: int) -> int:
    total = 0
    for number in range(count):
        total += await one(number)
    return total


@DBOS.workflow()
async def side_by_side(count: int) -> int:
    return sum(await asyncio.gather(*(one(number) for number in range(count))))


@DBOS.workflow()
async def listen(count: int) -> None:
    for _ in range(count):
        await DBOS.recv_async("ping")
        await note()


@DBOS.workflow()
async def nap(number: int, due: float) -> None:
    await DBOS.sleep_async(max(0.0, due - time.time()))
    _late.setdefault(number, time.time() - due)


@DBOS.workflow()
async def row_then_hang(count: int) -> None:
    for number in range(count):
        await one(number)
    await hang()


class DbosContestant:
    """See `Contestant`. `polling`: how often it looks for messages where the database cannot notify."""

    def __init__(self, polling: float | None = None) -> None:
        self._polling = polling

    async def open(self, url: str) -> None:
        self._launch(url)
        await self.many_runs(3, 3)

    def _launch(self, url: str) -> DBOS:
        global _watch
        _watch = Watch()
        config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "CRITICAL"}
        if self._polling is not None:
            config["notification_listener_polling_interval_sec"] = self._polling
        self._dbos = DBOS(config=config)
        DBOS.launch()
        return self._dbos

    async def close(self) -> None:
        await asyncio.to_thread(DBOS.destroy)

    async def in_a_row(self, steps: int) -> list[float]:
        _marks.clear()
        await (await DBOS.start_workflow_async(row, steps)).get_result()
        marks = [*_marks, time.perf_counter()]
        return [after - before for before, after in pairwise(marks)]

    async def many_runs(self, runs: int, steps: int) -> float:
        began = time.perf_counter()
        handles = await asyncio.gather(*(DBOS.start_workflow_async(row, steps) for _ in range(runs)))
        await asyncio.gather(*(handle.get_result() for handle in handles))
        return time.perf_counter() - began

    async def idle(self, samples: int) -> list[float]:
        times: list[float] = []
        for _ in range(samples):
            await asyncio.sleep(0.03)
            began = time.perf_counter()
            await (await DBOS.start_workflow_async(row, 1)).get_result()
            times.append(time.perf_counter() - began)
        return times

    async def at_once(self, steps: int) -> float:
        began = time.perf_counter()
        await (await DBOS.start_workflow_async(side_by_side, steps)).get_result()
        return time.perf_counter() - began

    async def signals(self, samples: int, pause: float) -> list[float]:
        assert _watch is not None
        handle = await DBOS.start_workflow_async(listen, samples)
        times: list[float] = []
        for _ in range(samples):
            await asyncio.sleep(0.05 + random.random() * pause)
            began = time.perf_counter()
            await DBOS.send_async(handle.get_workflow_id(), "x", "ping")
            times.append(await _watch.moment() - began)
        await handle.get_result()
        return times

    async def park(self, runs: int, seconds: float) -> Parking:
        _late.clear()
        before = resident_mb()
        began = time.perf_counter()
        due = time.time() + seconds
        handles = await asyncio.gather(*(DBOS.start_workflow_async(nap, number, due) for number in range(runs)))
        while await asyncio.to_thread(self._sleeping) < runs:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
        parked = time.perf_counter() - began
        grown = resident_mb() - before
        early = due - time.time()
        await asyncio.gather(*(handle.get_result() for handle in handles))
        return Parking(
            seconds=parked, memory_mb=grown, spare=early, woken=len(_late), late=max(_late.values(), default=0.0)
        )

    def _sleeping(self) -> int:
        """How many of the runs have their timer recorded."""
        database = self._dbos._sys_db
        outputs = "dbos.operation_outputs" if database.engine.dialect.name == "postgresql" else "operation_outputs"
        with database.engine.begin() as connection:
            found = connection.execute(sa.text(f"SELECT count(*) FROM {outputs} WHERE function_name = 'DBOS.sleep'"))  # noqa: S608  # one of two names above
            return int(found.scalar_one())

    async def replay(self, url: str, steps: int, first: bool) -> float:
        began = time.perf_counter()
        self._launch(url)
        assert _watch is not None
        if first:
            with SetWorkflowID(f"replayed-{steps}"):
                await DBOS.start_workflow_async(row_then_hang, steps)
        async with asyncio.timeout(120):
            return await _watch.moment() - began
