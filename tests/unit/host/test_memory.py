"""What runs leave behind in memory when they go: nothing that waits for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime

from tenuto import Tenuto, sleep, sleep_until, step, wait_for_signal, workflow
from tenuto.host.runs import HeldRun
from tenuto.kernel.turn import Run

FAR = datetime(2099, 1, 1, tzinfo=UTC)


@step
async def one(number: int) -> int:
    return number


@workflow
async def row(count: int) -> int:
    return sum([await one(number) for number in range(count)])


@workflow
async def nap() -> None:
    await sleep_until(FAR)


@workflow
async def doze() -> None:
    await sleep("20ms")


@workflow
async def listen() -> str:
    return str(await wait_for_signal("word"))


def _runs_in_memory() -> int:
    return sum(isinstance(thing, Run | HeldRun) for thing in gc.get_objects())


async def test_runs_that_ended_or_wait_for_long_are_freed_at_once() -> None:
    async with Tenuto("memory://") as app:
        await (await app.start(row, 1)).result()
        gc.collect()
        before = _runs_in_memory()
        gc.disable()
        try:
            handles = await asyncio.gather(*(app.start(row, 3) for _ in range(20)))
            await asyncio.gather(*(handle.result() for handle in handles))
            await asyncio.gather(*(app.start(nap) for _ in range(20)))
            await _until_gone(before)
        finally:
            gc.enable()


async def test_runs_that_slept_or_got_a_signal_are_freed_at_once() -> None:
    async with Tenuto("memory://") as app:
        await (await app.start(doze)).result()
        gc.collect()
        before = _runs_in_memory()
        gc.disable()
        try:
            handles = await asyncio.gather(*(app.start(doze) for _ in range(20)))
            await asyncio.gather(*(handle.result() for handle in handles))
            listening = await asyncio.gather(*(app.start(listen) for _ in range(20)))
            await asyncio.gather(*(handle.signal("word", "x") for handle in listening))
            assert await asyncio.gather(*(handle.result() for handle in listening)) == ["x"] * 20
            await _until_gone(before)
        finally:
            gc.enable()


async def _until_gone(before: int) -> None:
    async with asyncio.timeout(5):
        while _runs_in_memory() > before:  # nothing tells of it
            await asyncio.sleep(0.01)
