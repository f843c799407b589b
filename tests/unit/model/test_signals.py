"""Waiting for signals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import race, sleep, step, wait_for_signal, workflow
from tenuto.errors import RunClosedError
from tenuto.testing import Engine


async def test_buffered_signals_are_taken_in_order_of_arrival(engine: Engine) -> None:  # M012
    @workflow
    async def take() -> list[Any]:
        await sleep(1)
        return [await wait_for_signal("s") for _ in range(3)]

    run = await engine.start(take)
    for n in range(3):
        await run.signal("s", n)
    assert await run.result() == [0, 1, 2]


async def test_a_wait_leaves_other_names_alone(engine: Engine) -> None:  # M013
    @workflow
    async def take() -> list[Any]:
        return [await wait_for_signal("s"), await wait_for_signal("t")]

    run = await engine.start(take)
    await run.signal("t", "T")
    await engine.settle()
    assert await run.status() == "suspended"
    await run.signal("s", "S")
    assert await run.result() == ["S", "T"]


async def test_the_earlier_of_two_waiters_is_served_first(engine: Engine) -> None:  # M014
    woken: list[str] = []

    @workflow
    async def take() -> list[str]:
        order: list[str] = []

        async def wait(name: str) -> None:
            await wait_for_signal("s")
            order.append(name)
            woken.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(wait("first"))
            group.create_task(wait("second"))
        return order

    run = await engine.start(take)
    await run.signal("s")
    await engine.settle()
    assert set(woken) == {"first"}
    await run.signal("s")
    assert await run.result() == ["first", "second"]


async def test_a_wait_that_timed_out_consumes_nothing(engine: Engine) -> None:  # M015
    @workflow
    async def take() -> Any:
        with pytest.raises(TimeoutError):
            await wait_for_signal("s", timeout=1)
        return await wait_for_signal("s")

    run = await engine.start(take)
    await engine.advance(2)
    await run.signal("s", "late")
    assert await run.result() == "late"


async def test_a_wait_that_lost_a_race_consumes_nothing(engine: Engine) -> None:
    @workflow
    async def take() -> Any:
        won = await race({"signal": lambda: wait_for_signal("s"), "time": lambda: sleep(1)})
        return won.winner, await wait_for_signal("s")

    run = await engine.start(take)
    await engine.advance(2)
    await run.signal("s", "late")
    assert await run.result() == ("time", "late")


async def test_a_signal_gives_nothing_a_value_or_a_tuple(engine: Engine) -> None:  # M016
    @workflow
    async def take() -> list[Any]:
        return [await wait_for_signal("s") for _ in range(3)]

    run = await engine.start(take)
    await run.signal("s")
    await run.signal("s", [1])
    await run.signal("s", 1, 2)
    assert await run.result() == [None, [1], (1, 2)]


async def test_a_signal_that_came_during_a_step_is_there_afterwards(engine: Engine) -> None:  # M017
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    @workflow
    async def take() -> Any:
        await slow()
        return await wait_for_signal("s")

    run = await engine.start(take)
    await engine.settle()
    await run.signal("s", 7)
    await engine.settle()
    gate.set()
    assert await run.result() == 7


async def test_a_signal_to_an_ended_run_is_refused(engine: Engine) -> None:  # M018
    @workflow
    async def nothing() -> None: ...

    run = await engine.start(nothing)
    await run.result()
    with pytest.raises(RunClosedError):
        await run.signal("s")


async def test_a_wait_can_have_a_name_of_its_own(engine: Engine) -> None:
    @workflow
    async def take() -> None:
        await wait_for_signal("s", name="approval")
        await wait_for_signal("s")

    run = await engine.start(take)
    await run.signal("s")
    await run.signal("s")
    await run.result()
    assert [entry.location for entry in await run.history()] == ["approval", "signal:s"]
