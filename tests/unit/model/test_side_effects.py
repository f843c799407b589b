"""Side effects, and going on as a new run."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import (
    Async,
    Continue,
    ContinueAsNew,
    NoReply,
    Reply,
    Stop,
    now,
    publish_state,
    receive,
    run_info,
    side_effect,
    step,
    uuid4,
    wait_for_signal,
    workflow,
)
from tenuto.errors import HandlerReturnError, NestingError, RunFailedError, SideEffectError, UpdateFailedError
from tenuto.testing import Engine

from .conftest import Ask, locations


@step
async def tick() -> None: ...


async def test_a_recorded_side_effect_is_not_called_again(engine: Engine) -> None:  # M083
    called: list[int] = []

    def count() -> int:
        called.append(1)
        return len(called)

    @workflow
    async def go() -> Any:
        value = await side_effect(count)
        await tick()
        return value

    run = await engine.start(go)
    await engine.settle()
    engine.crash()
    assert await run.result() == 1
    assert called == [1]


@pytest.mark.parametrize("sort", ["raises", "unstorable"])
async def test_a_side_effect_that_fails_fails_on_every_replay(engine: Engine, sort: str) -> None:  # M084
    called: list[int] = []
    causes: set[str] = set()

    def broken() -> Any:
        called.append(1)
        if sort == "raises":
            raise KeyError("x")
        return object()

    @workflow
    async def go() -> None:
        try:
            await side_effect(broken)
        except SideEffectError as error:
            causes.add(type(error.__cause__).__name__)
        await tick()

    run = await engine.start(go)
    await run.result()
    assert called == [1]
    assert causes == {"KeyError" if sort == "raises" else "EncodingError"}


async def test_an_async_side_effect_is_refused_and_tenuto_calls_inside_one_too(engine: Engine) -> None:
    @workflow
    async def go() -> Any:
        with pytest.raises(TypeError):
            side_effect(tick.fn)
        causes = []
        for call in (uuid4, lambda: publish_state(1), lambda: tick(), now):
            try:
                await side_effect(call)  # type: ignore[arg-type]
            except SideEffectError as error:
                causes.append(type(error.__cause__).__name__)
        return causes

    run = await engine.start(go)
    assert await run.result() == [NestingError.__name__] * 4


# --- continue as new


async def test_a_run_goes_on_under_its_id_with_an_empty_history(engine: Engine) -> None:  # M085
    executed: list[int] = []

    @step
    async def work(n: int) -> None:
        executed.append(n)

    @workflow
    async def count(n: int) -> Any | ContinueAsNew:
        await work(n)
        info = run_info()
        return ContinueAsNew(n + 1) if n < 3 else (n, info.run_no, info.id)

    run = await engine.start(count, 1, id="r")
    assert await run.result() == (3, 3, "r")
    assert executed == [1, 2, 3]
    assert await locations(run) == ["work"]


async def test_unconsumed_signals_go_over_in_order(engine: Engine) -> None:  # M086
    @workflow
    async def first(n: int) -> Any | ContinueAsNew:
        if n == 0:
            await wait_for_signal("go")
            return ContinueAsNew(1)
        return [await wait_for_signal("s"), await wait_for_signal("s")]

    run = await engine.start(first, 0)
    await run.signal("s", 1)
    await run.signal("s", 2)
    await run.signal("go")
    assert await run.result() == [1, 2]


async def test_an_update_nobody_has_looked_at_is_decided_by_the_next_run(engine: Engine, ask: Ask) -> None:  # M087
    def add(state: int, by: int) -> Stop[int]:
        return Stop(state + by, reply="added")

    @workflow
    async def serve(n: int) -> Any | ContinueAsNew:
        if n == 0:
            return ContinueAsNew(10)
        return (await receive(n, updates={"add": add})).state

    run = await engine.start(serve, 0)
    answer = await ask(run, "add", 5)  # stored before the first turn
    assert await answer() == "added"
    assert await run.result() == 15


async def test_continue_as_new_from_a_handler_fails_the_update(engine: Engine) -> None:  # M088
    def wrong(state: int) -> Any:
        return ContinueAsNew(1)

    def stop(state: int) -> Stop[int]:
        return Stop(state)

    @workflow
    async def serve() -> Any:
        return (await receive(4, updates={"wrong": wrong}, signals={"stop": stop})).state

    run = await engine.start(serve)
    with pytest.raises(UpdateFailedError) as raised:
        await run.update("wrong")
    assert isinstance(raised.value.__cause__, HandlerReturnError)
    await run.signal("stop")
    assert await run.result() == 4


@pytest.mark.parametrize("wrong", [Async(tick, 1), Reply(1, 2), NoReply(1), Stop(1), Continue(1)])
async def test_a_run_that_returns_a_handlers_result_fails(engine: Engine, wrong: Any) -> None:
    @workflow
    async def go() -> Any:
        return wrong

    with pytest.raises(RunFailedError) as raised:
        await (await engine.start(go)).result()
    assert isinstance(raised.value.__cause__, HandlerReturnError)


async def test_a_result_that_cannot_be_stored_fails_the_run(engine: Engine) -> None:
    @workflow
    async def go() -> Any:
        return object()

    with pytest.raises(RunFailedError) as raised:
        await (await engine.start(go)).result()
    assert type(raised.value.__cause__).__name__ == "EncodingError"


async def test_published_state_goes_over_to_the_next_run(engine: Engine) -> None:
    @workflow
    async def go(n: int) -> ContinueAsNew | None:
        if n == 0:
            publish_state("first")
            return ContinueAsNew(1)
        await wait_for_signal("end")
        return None

    run = await engine.start(go, 0)
    await engine.settle()
    assert await run.query() == "first"
