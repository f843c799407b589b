"""What a test sees on virtual time is what production does: attempts, hooks, cancellations, states, updates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tenuto import Reply, Stop, hook, receive, sleep, step, wait_for_signal, workflow
from tenuto.errors import HookTakenError, RunFailedError, StepExhaustedError
from tenuto.testing import Engine

calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@pytest.fixture(params=[False, True], ids=["plain", "crashing"])
async def both(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    engine = Engine(crash_everywhere=request.param)
    yield engine
    engine.close()


# --- options of queued calls


@step(name="like.flaky", queue="like", max_attempts=5)
async def flaky() -> None:
    calls.append("attempt")
    raise ValueError("again")


@pytest.mark.parametrize("attempts", [1, 2, 7])
async def test_a_queued_call_has_the_attempts_it_was_given(both: Engine, attempts: int) -> None:
    @workflow(name=f"like.attempts.{attempts}.{id(both)}")
    async def run() -> None:
        await flaky.options(max_attempts=attempts)()

    with pytest.raises(RunFailedError) as failed:
        await (await both.start(run)).result()
    assert isinstance(failed.value.__cause__, StepExhaustedError)
    assert len(calls) == attempts


async def test_a_queued_call_waits_as_it_was_told(both: Engine) -> None:
    @workflow(name=f"like.backoff.{id(both)}")
    async def run() -> None:
        await flaky.options(max_attempts=2, backoff="7s")()

    began = both.now_ms
    with pytest.raises(RunFailedError):
        await (await both.start(run)).result()
    assert both.now_ms - began == 14_000  # the first doubled


async def test_a_queued_call_without_options_has_those_of_its_step(both: Engine) -> None:
    @workflow(name=f"like.own.{id(both)}")
    async def run() -> None:
        await flaky()

    with pytest.raises(RunFailedError):
        await (await both.start(run)).result()
    assert len(calls) == 5


# --- hooks


@workflow(name="like.hooked")
async def hooked(token: str) -> None:
    await hook(token)
    await sleep("1h")


async def test_a_token_belongs_to_one_open_run(both: Engine) -> None:
    one, two = await both.start(hooked, "t"), await both.start(hooked, "t")
    await both.settle()
    assert [await one.status(), await two.status()] == ["suspended", "failed"]
    with pytest.raises(RunFailedError) as failed:
        await two.result()
    assert isinstance(failed.value.__cause__, HookTakenError)


async def test_a_token_is_free_again_when_its_run_has_ended(both: Engine) -> None:
    one = await both.start(hooked, "t")
    await both.settle()
    await one.cancel()
    await both.settle()
    two = await both.start(hooked, "t")
    await both.settle()
    assert await two.status() == "suspended"


async def test_a_run_keeps_its_token_over_a_crash(both: Engine) -> None:
    one = await both.start(hooked, "t")
    await both.settle()
    both.crash()
    await both.settle()
    assert await one.status() == "suspended"


# --- cancellation


@step(name="like.slow")
async def slow() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        calls.append("cleaned up")
        raise


@step(name="like.queued", queue="like")
async def queued() -> None:
    await slow.fn()


@step(name="like.after")
async def after() -> None:
    calls.append("after")


@pytest.mark.parametrize("called", [slow, queued], ids=["inline", "queued"])
async def test_a_step_cleans_up_before_time_moves(both: Engine, called: Any) -> None:
    @workflow(name=f"like.timeout.{called.id}.{id(both)}")
    async def run() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(called(), 60)
        await sleep("1h")
        await after()

    await (await both.start(run)).result()
    assert calls == ["cleaned up", "after"]


async def test_a_step_of_a_cancelled_run_has_cleaned_up_when_all_is_settled(both: Engine) -> None:
    @workflow(name=f"like.cancelled.{id(both)}")
    async def run() -> None:
        await slow()

    started = await both.start(run)
    await both.settle()
    await started.cancel()
    await both.settle()
    assert calls == ["cleaned up"]
    assert await started.status() == "cancelled"


async def test_a_step_that_does_not_stop_is_waited_for_no_longer_than_patience() -> None:
    engine = Engine(patience=0.02)
    go_on = asyncio.Event()

    @step(name="like.stubborn")
    async def stubborn() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                calls.append("asked")

    @workflow(name="like.stubborn.run")
    async def run() -> str:
        with suppress(TimeoutError):
            await asyncio.wait_for(stubborn(), 60)
        await sleep("1h")
        return "went on"

    assert await (await engine.start(run)).result() == "went on"
    assert calls == ["asked"]
    go_on.set()
    engine.close()


# --- states


@workflow(name="like.waiting")
async def waiting() -> None:
    await after()
    await wait_for_signal("go")


async def test_a_run_that_only_waits_is_suspended(both: Engine) -> None:
    run = await both.start(waiting)
    await both.settle()
    assert await run.status() == "suspended"
    both.crash()
    await both.settle()
    assert await run.status() == "suspended"


async def test_an_eviction_says_once_what_refused_to_close() -> None:
    over: list[bool] = []

    @workflow(name="like.refusing")
    async def refusing() -> None:
        while not over:
            with suppress(BaseException):
                await wait_for_signal("go")

    engine = Engine()
    await engine.start(refusing)
    await engine.settle()
    await engine.evict()
    assert len([notice for notice in engine.notices if "refused to close" in notice]) == 1
    over.append(True)
    engine.close()


# --- updates


@workflow(name="like.shop")
async def shop() -> int:
    async def quick(state: int, by: int) -> Reply[int]:
        return Reply(state + by, state + by)

    async def stop(state: int) -> Stop[int]:
        return Stop(state)

    received = await receive(0, updates={"quick": quick}, signals={"stop": stop})
    return received.state


async def test_time_stands_still_while_an_update_is_answered(both: Engine) -> None:
    run = await both.start(shop)
    began = both.now_ms
    assert await run.update("quick", 2) == 2
    assert both.now_ms == began


async def test_the_fixtures_have_names_of_ours_too(
    tenuto_engine: Engine, engine: Engine, tenuto_crashing_engine: Engine, crashing_engine: Engine
) -> None:
    assert tenuto_engine is engine
    assert tenuto_crashing_engine is crashing_engine
