"""Cancelling runs."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from typing import Any

import pytest

from tenuto import NoReply, Reply, parallel, partial_state, receive, shield, sleep, step, wait_for_signal, workflow
from tenuto.errors import RunCancelledError, UpdateFailedError, UpdateRejectedError
from tenuto.testing import Engine

from .conftest import Ask, locations


@step
async def tick() -> None: ...


async def test_a_cancelled_run_ends_cancelled_and_its_step_is_asked_to_stop(engine: Engine) -> None:  # M094
    asked: list[bool] = []

    @step
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except CancelledError:
            asked.append(True)
            raise

    @workflow
    async def go() -> None:
        await slow()

    run = await engine.start(go)
    await engine.settle()
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result()
    await asyncio.sleep(0)
    assert asked == [True]


async def test_clean_up_is_recorded_before_the_run_ends_cancelled(engine: Engine) -> None:  # M095
    @workflow
    async def go() -> None:
        try:
            await sleep("1h")
        except CancelledError:
            await tick()
            raise

    run = await engine.start(go)
    await engine.settle()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result()
    assert "tick" in await locations(run)


async def test_a_run_that_catches_its_cancellation_and_returns_is_completed(engine: Engine) -> None:
    @workflow
    async def go() -> str:
        try:
            await sleep("1h")
        except CancelledError:
            return "survived"
        return ""

    run = await engine.start(go)
    await engine.settle()
    await run.cancel()
    assert await run.result() == "survived"


async def test_a_shield_holds_a_cancellation_back_until_its_end(engine: Engine) -> None:  # M096
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    reached: set[str] = set()

    @workflow
    async def go() -> None:
        async with shield():
            async with shield():
                await slow()
            reached.add("inner end")
            await tick()
            reached.add("outer end")
        reached.add("after")

    run = await engine.start(go)
    await engine.settle()
    await run.cancel()
    await engine.settle()
    gate.set()
    with pytest.raises(RunCancelledError):
        await run.result()
    assert reached == {"inner end", "outer end"}
    assert await locations(run) == ["slow", "tick"]


async def test_a_timeout_inside_a_shield_ends_its_own_block(engine: Engine) -> None:
    @workflow
    async def wait() -> list[str]:
        seen: list[str] = []
        async with shield():
            try:
                async with asyncio.timeout(1):
                    await sleep(100)
            except TimeoutError:
                seen.append("timed out")
            await sleep(1)
            seen.append("went on")
        return seen

    assert await (await engine.start(wait)).result() == ["timed out", "went on"]


async def test_a_task_group_inside_a_shield_stops_its_own_block_when_a_task_fails(engine: Engine) -> None:
    async def fail() -> None:
        await sleep(1)
        raise ValueError("no")

    @workflow
    async def wait() -> list[str]:
        async with shield():
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
                    await sleep(100)
            except ExceptionGroup:
                return ["failed at once"]
        return []

    assert await (await engine.start(wait)).result() == ["failed at once"]


async def test_of_two_shields_the_outer_holds_what_came_from_between_neither(engine: Engine) -> None:
    """A timeout between two shields is held by the inner one only; a cancel of the run by both."""
    seen: list[str] = []

    @workflow
    async def wait() -> None:
        seen.clear()
        async with shield():
            try:
                async with asyncio.timeout(2):
                    async with shield():
                        await sleep(5)
                        seen.append("inner done")
            except TimeoutError:
                seen.append("timed out")
            await sleep(1)
            seen.append("outer done")

    run = await engine.start(wait)
    await engine.advance(1)
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result()
    assert seen == ["inner done", "timed out", "outer done"]


async def test_receive_may_stand_in_wait_for(engine: Engine) -> None:
    @workflow
    async def wait() -> Any:
        try:
            await asyncio.wait_for(receive(0, signals={"add": lambda total, n: NoReply(total + n)}), 5)
        except TimeoutError:
            return "timed out"

    assert await (await engine.start(wait)).result() == "timed out"


async def test_a_shield_holds_back_a_timeout_too(engine: Engine) -> None:
    @workflow
    async def go() -> str:
        try:
            async with asyncio.timeout(1):
                async with shield():
                    await sleep(5)
                await tick()
        except TimeoutError:
            return "timed out after the block"
        return ""

    run = await engine.start(go)
    assert await run.result() == "timed out after the block"
    assert "tick" not in await locations(run)


async def test_a_cancelled_receive_keeps_what_was_handled(engine: Engine, ask: Ask) -> None:  # M097
    @step
    async def slow() -> None:
        await asyncio.Event().wait()

    async def take(state: list[Any], item: str) -> NoReply[list[Any]]:
        if item == "slow":
            await slow()
        return NoReply([*state, item])

    def add(state: list[Any]) -> Reply[list[Any]]:
        return Reply(None, state)

    @workflow
    async def serve() -> Any:
        try:
            await receive([], signals={"take": take}, updates={"add": add})
        except CancelledError as error:
            return partial_state(error), partial_state(CancelledError())

    run = await engine.start(serve)
    await run.signal("take", "quick")
    await run.signal("take", "slow")
    await engine.settle()
    behind = await ask(run, "add")
    await run.cancel()
    with pytest.raises(UpdateRejectedError) as raised:
        await behind()
    assert raised.value.why == "cancelled"
    assert await run.result() == (["quick"], None)


async def test_updates_in_flight_fail_when_receive_is_cancelled(engine: Engine, ask: Ask) -> None:
    @step
    async def slow() -> None:
        await asyncio.Event().wait()

    async def take(state: int) -> Reply[int]:
        await slow()
        return Reply(1, state)

    @workflow
    async def serve() -> None:
        await receive(0, updates={"take": take})

    run = await engine.start(serve)
    answer = await ask(run, "take")
    await run.cancel()
    with pytest.raises(UpdateFailedError) as raised:
        await answer()
    assert raised.value.why == "cancelled"
    with pytest.raises(RunCancelledError):
        await run.result()


async def test_a_run_cancelled_before_its_first_turn_never_starts(engine: Engine) -> None:  # M098
    ran: list[int] = []

    @workflow
    async def go() -> None:
        ran.append(1)

    run = await engine.start(go)
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result()
    assert ran == []


async def test_suspension_is_no_exception(engine: Engine) -> None:  # M099
    caught: list[Exception] = []

    @workflow
    async def go() -> str:
        try:
            await sleep("1 day")
        except Exception as error:  # noqa: BLE001  # the point
            caught.append(error)
        return "woke"

    run = await engine.start(go)
    await engine.settle()
    await engine.evict()
    await engine.advance("1h")
    engine.crash()
    assert await run.result() == "woke"
    assert caught == []


async def test_an_evicted_run_records_nothing_while_it_is_closed(engine: Engine) -> None:
    tried: list[str] = []

    @workflow
    async def go() -> str:
        try:
            await sleep("1h")
        finally:
            tried.append("clean up")
            await tick()
        return "done"

    run = await engine.start(go)
    await engine.settle()
    before = await engine.store.rows(run.id)
    await engine.evict()
    assert tried == ["clean up"]
    assert await engine.store.rows(run.id) == before
    assert await run.result() == "done"
    assert [place for place in await locations(run) if place == "tick"] == ["tick"]


async def test_a_second_cancellation_leaves_no_branch_running(engine: Engine) -> None:
    @step
    async def clean_up() -> None: ...

    async def branch() -> None:
        try:
            await wait_for_signal("never")
        finally:
            await sleep(10)
            await clean_up()

    @workflow
    async def go() -> None:
        async with asyncio.timeout(5):  # fires while the branches clean up
            await parallel([branch, branch])

    run = await engine.start(go)
    await engine.settle()
    await run.cancel()
    await engine.advance(60)
    assert await run.status() in ("cancelled", "failed")


async def test_cancelling_twice_is_cancelling_once(engine: Engine) -> None:
    delivered: list[int] = []

    @workflow
    async def go() -> str:
        for n in range(2):
            try:
                await sleep("1h")
            except CancelledError:
                delivered.append(n)
        return "done"

    run = await engine.start(go)
    await engine.settle()
    await run.cancel()
    await engine.settle()
    await run.cancel()
    assert await run.result() == "done"
    assert set(delivered) == {0}
