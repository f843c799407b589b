"""The shipped host, with the memory store, in a world of virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenuto import hook, sleep, spawn, step, wait_for_signal, workflow
from tenuto.codec.values import load
from tenuto.host.engine import NativeEngine
from tenuto.store.memory import MemoryStore
from tenuto.store.port import CLOSED
from tenuto.testing.world import FOREVER, World, machine

BEGAN = 1_767_225_600_000
NO_LEASE_ENDS = 2**60  # milliseconds: longer than a world lasts

calls: list[Any] = []


class Stage:
    """A host in a world, and what moves its timers: at this pace nothing polls."""

    def __init__(self) -> None:
        self.world = World(BEGAN, patience=0.02)
        self.store = MemoryStore(lambda: self.world.now_ms)
        self.host = NativeEngine(
            self.store,
            {
                "queues": None,
                "concurrency": 100,
                "lease_ms": NO_LEASE_ENDS,
                "block_limit": 1e9,
                "grace": 0,
                "max_reclaims": 5,
                "retention_ms": None,
                "cache_bytes": 2**24,
            },
            system=machine(self.world),
        )

    async def open(self) -> None:
        await self.world.run(self.host.open())
        self._keeper = self.world.loop.create_task(self._fire())

    async def _fire(self) -> None:
        """Fires timers when they are due, and looks again after every commit."""
        mark = await self.store.changed(-1, 0)
        while True:
            following = await self.store.fire_timers(500)
            self.host.poke()
            left = None if following is None else max(0, following - self.world.now_ms) / 1000
            try:
                async with asyncio.timeout(left):
                    mark = await self.store.changed(mark, 1e15)
            except TimeoutError:
                mark = await self.store.changed(-1, 0)

    async def start(self, name: str, *args: object) -> str:
        return await self.world.run(self.host.start(name, args, {}, {}))

    async def ended(self, run_id: str) -> Any:
        ending = await self.world.run(self.host.ending(run_id, None), FOREVER)
        return (ending.status, load(ending.value)) if ending.value else (ending.status, None)

    async def status(self, run_id: str) -> str:
        return await self.world.run(self.host.status(run_id))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    calls.clear()
    stage = Stage()
    await stage.open()
    yield stage
    stage.world.close()


@step(name="world.note")
async def note(what: str) -> str:
    calls.append(what)
    return what.upper()


@step(name="world.note_plainly")
def note_plainly(what: str) -> str:
    calls.append(what)
    return what.upper()


@step(name="world.flaky", queue="world", max_attempts=5)
async def flaky() -> None:
    calls.append("attempt")
    raise ValueError("again")


@workflow(name="world.patient")
async def patient() -> str:
    first = await note("a")
    await sleep("30 days")
    return first + await note_plainly("b")


async def test_a_run_of_a_month_takes_no_time(stage: Stage) -> None:
    began = time.monotonic()
    assert await stage.ended(await stage.start("world.patient")) == ("completed", "AB")
    assert stage.world.now_ms == BEGAN + 30 * 86_400_000
    assert time.monotonic() - began < 5


async def test_nothing_moves_time_by_itself(stage: Stage) -> None:
    @workflow(name="world.waits")
    async def waits() -> None:
        await wait_for_signal("never")

    run = await stage.start("world.waits")
    await stage.world.settle(FOREVER)
    assert await stage.status(run) == "suspended"
    assert stage.world.now_ms == BEGAN


async def test_a_child_and_a_signal_need_no_time(stage: Stage) -> None:
    @workflow(name="world.child")
    async def child() -> str:
        return await wait_for_signal("go")

    @workflow(name="world.parent")
    async def parent() -> str:
        started = await spawn(child, id="the-child")
        return await started

    run = await stage.start("world.parent")
    await stage.world.settle()
    await stage.world.run(stage.host.signal("the-child", "go", ["now"], None))
    await stage.world.settle()
    assert await stage.ended(run) == ("completed", "now")
    assert stage.world.now_ms == BEGAN


async def test_a_queued_call_has_its_own_attempts_and_pauses(stage: Stage) -> None:
    @workflow(name="world.queues")
    async def queues() -> None:
        await flaky.options(max_attempts=2, backoff="7s")()

    status, _ = await stage.ended(await stage.start("world.queues"))
    assert (status, calls) == ("failed", ["attempt", "attempt"])
    assert stage.world.now_ms == BEGAN + 14_000


async def test_a_token_belongs_to_one_open_run(stage: Stage) -> None:
    @workflow(name="world.hooked")
    async def hooked() -> None:
        await hook("t")
        await sleep("1h")

    one, two = await stage.start("world.hooked"), await stage.start("world.hooked")
    await stage.world.settle()
    assert [await stage.status(one), await stage.status(two)] == ["suspended", "failed"]


async def test_a_step_cleans_up_before_time_moves(stage: Stage) -> None:
    @step(name="world.slow")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            calls.append(stage.world.now_ms - BEGAN)

    @workflow(name="world.timeout")
    async def timeout() -> str:
        try:
            await asyncio.wait_for(slow(), 60)
        except TimeoutError:
            await sleep("1h")
        return "done"

    assert await stage.ended(await stage.start("world.timeout")) == ("completed", "done")
    assert calls == [60_000]


async def test_two_worlds_of_one_seed_do_the_same() -> None:
    async def history() -> tuple[list[str], int]:
        stage = Stage()
        await stage.open()
        ids = [await stage.start("world.patient") for _ in range(3)]
        for run_id in ids:
            await stage.ended(run_id)
        stage.world.close()
        return ids, stage.world.now_ms

    assert await history() == await history()


async def test_many_runs_end_and_none_is_left(stage: Stage) -> None:
    ids = [await stage.start("world.patient") for _ in range(50)]
    for run_id in ids:
        await stage.ended(run_id)
    assert {record.status for record in await stage.store.runs()} <= CLOSED
    assert sorted(calls) == ["a"] * 50 + ["b"] * 50
