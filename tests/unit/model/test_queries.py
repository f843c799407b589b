"""Published state and the queries that read it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Async, NoReply, parallel, publish_state, receive, sleep, step, wait_for_signal, workflow
from tenuto.errors import QueryFailedError, ReadOnlyError
from tenuto.testing import Engine


async def test_a_snapshot_is_what_was_published_not_what_became_of_it(engine: Engine) -> None:  # M019
    @workflow
    async def publish() -> None:
        state: dict[str, int] = {}
        publish_state(state)
        state["x"] = 1
        await wait_for_signal("go")

    run = await engine.start(publish)
    await engine.settle()
    assert await run.query() == {}


async def test_state_can_be_published_from_everywhere(engine: Engine) -> None:  # M020
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    def sync_handler(state: int) -> NoReply[int]:
        publish_state("handler")
        return NoReply(state)

    def async_handler(state: int) -> Async[int]:
        async def go_on() -> None:
            publish_state("async")
            await slow()

        return Async(go_on, state)

    @workflow
    async def publish() -> None:
        publish_state("run")
        await wait_for_signal("next")

        async def branch() -> None:
            publish_state("branch")
            await wait_for_signal("next")

        await parallel([branch])
        await receive(0, signals={"sync": sync_handler, "async": async_handler}, timeout="1h")

    run = await engine.start(publish)
    await engine.settle()
    seen = [await run.query()]
    for name in ("next", "next", "sync", "async"):
        await run.signal(name)
        await engine.settle()
        seen.append(await run.query())
    gate.set()
    assert seen == ["run", "branch", "branch", "handler", "async"]


async def test_a_query_before_anything_was_published_gets_none(engine: Engine) -> None:  # M021
    @workflow
    async def quiet() -> None:
        await sleep("1h")

    @quiet.query("state")
    def state_of(state: Any) -> bool:
        return state is None

    run = await engine.start(quiet)
    await engine.settle()
    assert await run.query("state") is True


async def test_a_query_is_answered_after_the_end_without_a_worker(engine: Engine) -> None:  # M022
    @workflow
    async def publish() -> None:
        publish_state({"n": 3})

    @publish.query("n")
    def n_of(state: Any, plus: int) -> int:
        return state["n"] + plus

    run = await engine.start(publish)
    await run.result()
    engine.crash()
    assert await run.query(n_of, 4) == 7


async def test_a_query_that_raises_or_calls_the_model_leaves_the_run_untouched(engine: Engine) -> None:  # M023
    @workflow
    async def wait() -> None:
        await wait_for_signal("go")

    @wait.query("broken")
    def broken(state: Any) -> Any:
        return state["x"]

    @wait.query("naughty")
    def naughty(state: Any) -> Any:
        return sleep(1)

    run = await engine.start(wait)
    await engine.settle()
    before = await engine.store.rows(run.id)
    for query, cause in (("broken", TypeError), ("naughty", ReadOnlyError)):
        with pytest.raises(QueryFailedError) as raised:
            await run.query(query)
        assert isinstance(raised.value.__cause__, cause)
    assert await engine.store.rows(run.id) == before
