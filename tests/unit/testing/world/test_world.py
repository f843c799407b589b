"""The world: virtual time moves where nothing else can, and what runs on the caller's loop is waited for."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tenuto.testing.world import FOREVER, Stuck, World, machine

BEGAN = 1_000_000


@pytest.fixture
def world() -> Iterator[World]:
    world = World(BEGAN, patience=0.02)
    yield world
    world.close()


async def test_time_jumps_to_the_next_deadline_and_no_further(world: World) -> None:
    told: list[int] = []

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        told.append(world.now_ms - BEGAN)

    async def both() -> None:
        await asyncio.gather(wait(3600), wait(0.25), wait(86_400))

    began = time.monotonic()
    await world.run(both(), FOREVER)
    assert told == [250, 3_600_000, 86_400_000]
    assert time.monotonic() - began < 1


async def test_a_deadline_is_met_to_the_millisecond(world: World) -> None:
    async def wait() -> None:
        for _ in range(10):
            await asyncio.sleep(0.1)

    await world.run(wait(), FOREVER)
    assert world.now_ms == BEGAN + 1000


async def test_time_stands_still_for_who_wants_something_now(world: World) -> None:
    with pytest.raises(Stuck):
        await world.run(asyncio.sleep(1))
    assert world.now_ms == BEGAN


async def test_what_waits_forever_is_no_deadline(world: World) -> None:
    with pytest.raises(Stuck):
        await world.run(asyncio.sleep(math.inf), FOREVER)
    assert world.now_ms == BEGAN


async def test_a_cancelled_deadline_is_none(world: World) -> None:
    async def hurry() -> None:
        async with asyncio.timeout(3600):
            await asyncio.sleep(1)

    await world.run(hurry(), FOREVER)
    await world.settle(FOREVER)
    assert world.now_ms == BEGAN + 1000


async def test_time_goes_as_far_as_each_driver_wants(world: World) -> None:
    late = asyncio.ensure_future(world.run(asyncio.sleep(10, "late"), FOREVER))
    with pytest.raises(Stuck):
        await world.run(asyncio.sleep(10), BEGAN + 5000)
    assert world.now_ms == BEGAN  # nothing was due by then
    assert await late == "late"
    assert world.now_ms == BEGAN + 10_000


async def test_errors_reach_the_caller(world: World) -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await world.run(fail())


async def test_a_caller_that_gives_up_stops_its_work(world: World) -> None:
    seen: list[str] = []
    blocked = asyncio.Event()

    async def body() -> None:
        await blocked.wait()

    async def work() -> None:
        try:
            await machine(world).runner().coroutine(body())
        except asyncio.CancelledError:
            seen.append("stopped")
            raise

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await world.run(work(), FOREVER)
    await world.settle()
    await world.settle()
    assert seen == ["stopped"]


async def test_a_busy_world_lets_the_callers_loop_have_its_turn(world: World) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await world.run(spin(), FOREVER)


async def test_a_body_runs_on_the_callers_loop_in_a_task_of_its_own(world: World) -> None:
    outer, here = asyncio.get_running_loop(), asyncio.current_task()
    seen: list[object] = []

    async def body() -> str:
        await asyncio.sleep(0)
        seen.extend((asyncio.get_running_loop(), asyncio.current_task()))
        return "done"

    async def work() -> str:
        assert asyncio.get_running_loop() is world.loop
        return await machine(world).runner().coroutine(body())

    assert await world.run(work(), FOREVER) == "done"
    assert seen[0] is outer
    assert seen[1] not in (None, here)
    assert asyncio.current_task() is here
    assert asyncio.get_running_loop() is outer


async def test_time_waits_for_a_body_as_long_as_patience_lasts(world: World) -> None:
    go_on = asyncio.Event()

    async def work() -> None:
        body = asyncio.ensure_future(machine(world).runner().coroutine(go_on.wait()))
        await asyncio.wait([body], timeout=60)
        assert not body.done()
        go_on.set()
        await body

    await world.run(work(), FOREVER)
    assert world.now_ms == BEGAN + 60_000


async def test_a_body_without_a_deadline_is_waited_for(world: World) -> None:
    go_on = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, go_on.set)  # longer than patience
    assert await world.run(machine(world).runner().coroutine(go_on.wait()), FOREVER)
    assert world.now_ms == BEGAN


async def test_a_cancellation_is_delivered_before_time_moves(world: World) -> None:
    seen: list[int] = []

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it takes a while to clean up
            seen.append(world.now_ms - BEGAN)

    async def work() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(machine(world).runner().coroutine(body()), 60)
        await asyncio.sleep(3600)

    await world.run(work(), FOREVER)
    assert seen == [60_000]


async def test_a_body_that_is_cancelled_may_go_on(world: World) -> None:
    async def body() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "refused"
        return "never"

    async def work() -> str:
        task = asyncio.ensure_future(machine(world).runner().coroutine(body()))
        await asyncio.sleep(1)
        task.cancel()
        return await task

    assert await world.run(work(), FOREVER) == "refused"


@pytest.mark.skipif(sys.platform == "emscripten", reason="there are no threads")
async def test_a_function_runs_in_a_thread(world: World) -> None:
    async def work() -> int:
        return await machine(world).runner().sync(threading.get_ident)

    assert await world.run(work(), FOREVER) != threading.get_ident()


async def test_a_thread_reaches_the_world(world: World) -> None:
    async def work() -> str:
        heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        threading.Timer(0.01, lambda: world.loop.call_soon_threadsafe(heard.set_result, "hello")).start()
        runner = machine(world).runner()
        await asyncio.gather(heard, runner.sync(lambda: time.sleep(0.02)))
        return heard.result()

    assert await world.run(work(), FOREVER) == "hello"


async def test_bodies_end_in_the_order_they_began(world: World) -> None:
    runner = machine(world).runner()
    ended: list[int] = []

    async def body(passes: int) -> None:
        for _ in range(passes):
            await asyncio.sleep(0)

    async def one(number: int, passes: int) -> None:
        await runner.coroutine(body(passes))
        ended.append(number)

    async def work() -> None:
        await asyncio.gather(one(0, 1), one(1, 0), one(2, 1), one(3, 0))

    await world.run(work(), FOREVER)
    assert sorted(ended) == [0, 1, 2, 3]
    assert [number for number in ended if number in (0, 2)] == [0, 2]


async def test_a_body_may_take_virtual_time(world: World) -> None:
    runner = machine(world).runner()
    order: list[str] = []

    async def body(name: str, seconds: float) -> None:
        await world.sleep(seconds)
        order.append(name)

    async def work() -> None:
        await asyncio.gather(*(runner.coroutine(body(name, s)) for name, s in (("long", 7200), ("short", 60))))

    began = time.monotonic()
    await world.run(work(), FOREVER)
    assert order == ["short", "long"]
    assert world.now_ms == BEGAN + 7_200_000
    assert time.monotonic() - began < 1


async def test_a_body_that_stops_taking_time_leaves_no_deadline(world: World) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(machine(world).runner().coroutine(world.sleep(3600)), 1)

    await world.run(work(), FOREVER)
    await world.settle(FOREVER)
    assert world.now_ms == BEGAN + 1000


def test_a_world_outlives_the_loop_that_drove_it() -> None:
    world = World(BEGAN)
    asyncio.run(world.run(asyncio.sleep(1), FOREVER))
    asyncio.run(world.run(asyncio.sleep(1), FOREVER))
    assert world.now_ms == BEGAN + 2000
    world.close()


async def test_randomness_is_that_of_the_seed(world: World) -> None:
    first, second, other = machine(world), machine(world), machine(world, seed=1)
    assert first.entropy.token(16) == second.entropy.token(16) != other.entropy.token(16)


async def test_the_clocks_of_the_machine_are_the_worlds(world: World) -> None:
    clock = machine(world).clock
    await world.run(asyncio.sleep(90), FOREVER)
    assert (clock.monotonic(), clock.wall_ms()) == (90.0, BEGAN + 90_000)


async def test_a_lane_works_in_order_on_the_worlds_loop(world: World) -> None:
    lane = machine(world).lane("any")
    done: list[int] = []

    async def work() -> None:
        assert lane.may_inline()
        lane.put(lambda: done.append(1))
        lane.put(lambda: done.append(2))
        assert not lane.may_inline()
        await lane.close()

    await world.run(work())
    assert done == [1, 2]


async def test_the_control_plane_is_a_task_of_the_worlds_loop(world: World) -> None:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(world.seconds())
            await asyncio.sleep(10)

    async def work() -> None:
        control = machine(world).control()
        control.start(beat)
        await asyncio.sleep(25)
        await control.stop()

    await world.run(work(), FOREVER)
    await world.settle(FOREVER)
    assert beats == [0, 10, 20]
