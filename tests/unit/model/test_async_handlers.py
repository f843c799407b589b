"""Async handler functions and `update_state`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Async, NoReply, Reply, Stop, parallel, publish_state, receive, step, update_state, workflow
from tenuto.errors import HandlerReturnError, NestingError, UpdateFailedError
from tenuto.testing import Engine

from .conftest import Ask, locations


def stop(state: Any) -> Stop[Any]:
    return Stop(state)


def bump(state: int) -> tuple[int, int]:
    return state, state + 1


@step
async def tick() -> None: ...


def serving(*functions: Any) -> Any:
    """A workflow whose updates f0, f1 … go on in these functions, on a state that is a number."""

    def handler(function: Any) -> Any:
        return lambda state, *args: Async(lambda: function(*args), state)

    updates = {f"f{n}": handler(function) for n, function in enumerate(functions)}

    def grow(state: int, by: int) -> NoReply[int]:
        return NoReply(state + by)

    @workflow
    async def serve() -> Any:
        return (await receive(0, updates=updates, signals={"stop": stop, "grow": grow})).state

    return serve


async def test_the_value_of_an_async_function_is_the_answer(engine: Engine) -> None:  # M051
    async def answer(n: int) -> int:
        await tick()
        return n + 1

    run = await engine.start(serving(answer))
    assert await run.update("f0", 4) == 5


async def test_dispatch_goes_on_beside_an_async_function(engine: Engine, ask: Ask) -> None:  # M052
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    async def blocked() -> str:
        await slow()
        return "late"

    async def quick() -> str:
        return "quick"

    run = await engine.start(serving(blocked, quick))
    late = await ask(run, "f0", id="late")
    assert await (await ask(run, "f1", id="quick"))() == "quick"
    gate.set()
    assert await late() == "late"


async def test_a_failing_async_function_fails_its_update_and_keeps_its_changes(engine: Engine) -> None:  # M053
    async def failing() -> None:
        update_state(bump)
        await tick()
        raise KeyError("x")

    run = await engine.start(serving(failing))
    with pytest.raises(UpdateFailedError) as raised:
        await run.update("f0")
    assert isinstance(raised.value.__cause__, KeyError)
    await run.signal("stop")
    assert await run.result() == 1


async def test_a_closure_sees_the_state_of_now_not_of_its_dispatch(engine: Engine, ask: Ask) -> None:  # M054
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    async def later() -> int:
        await slow()
        return update_state(bump)

    run = await engine.start(serving(later))
    answer = await ask(run, "f0")
    await run.signal("grow", 10)
    await engine.settle()
    gate.set()
    assert await answer() == 10
    await run.signal("stop")
    assert await run.result() == 11


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_changes_are_replayed_in_recorded_order(engine: Engine, ask: Ask, order: tuple[int, int]) -> None:  # M055
    gates = [asyncio.Event(), asyncio.Event()]

    @step
    async def slow(n: int) -> int:
        await gates[n].wait()
        return n

    def begin(state: list[int], n: int) -> Async[list[int]]:
        async def go_on() -> None:
            value = await slow(n)
            update_state(lambda now: (None, [*now, value]))

        return Async(go_on, state)

    @workflow
    async def wait() -> Any:
        return (await receive([], updates={"begin": begin}, signals={"stop": stop})).state

    run = await engine.start(wait)
    answers = [await ask(run, "begin", n, id=f"u{n}") for n in range(2)]
    for n in order:
        gates[n].set()
        await answers[n]()
    engine.crash()
    await run.signal("stop")
    assert await run.result() == list(order)


@pytest.mark.parametrize("wrong", [None, 5, (1, 2, 3), [1, 2]])
async def test_a_closure_that_returns_no_pair_is_refused_at_the_call(engine: Engine, wrong: Any) -> None:  # M056
    async def wrongly() -> str:
        with pytest.raises(HandlerReturnError):
            update_state(lambda state: wrong)  # type: ignore[misc]
        return "refused"

    run = await engine.start(serving(wrongly))
    assert await run.update("f0") == "refused"
    await run.signal("stop")
    assert await run.result() == 0


async def test_what_a_closure_published_counts_only_if_it_returns(engine: Engine) -> None:  # M057
    def spoil(state: int) -> tuple[None, int]:
        publish_state("spoilt")
        raise KeyError("x")

    def publish(state: int) -> tuple[None, int]:
        publish_state({"n": state})
        return None, state + 1

    async def trying() -> str:
        with pytest.raises(KeyError):
            update_state(spoil)
        return "went on"

    async def publishing() -> None:
        update_state(publish)

    run = await engine.start(serving(trying, publishing))
    assert await run.update("f0") == "went on"
    assert await run.query() is None
    await run.update("f1")
    assert await run.query() == {"n": 0}
    await run.signal("stop")
    assert await run.result() == 1


async def test_an_update_state_leaves_no_entry(engine: Engine) -> None:  # M058
    async def looking() -> int:
        return update_state(lambda state: (state, state))

    run = await engine.start(serving(looking))
    assert await run.update("f0") == 0
    assert await locations(run) == []


async def test_a_closure_may_not_change_the_state_it_was_given(engine: Engine) -> None:
    kept: list[Any] = []

    def keep(state: list[int]) -> tuple[None, list[int]]:
        kept.append(state)
        return None, [*state, 1]

    def begin(state: list[int]) -> Async[list[int]]:
        async def go_on() -> None:
            update_state(keep)
            kept[-1].append("spoilt")
            state.append(9)

        return Async(go_on, state)

    @workflow
    async def wait() -> Any:
        return (await receive([], updates={"begin": begin}, signals={"stop": stop})).state

    run = await engine.start(wait)
    await run.update("begin")
    await run.signal("stop")
    assert await run.result() == [1]


async def test_a_branch_of_an_async_function_may_update_the_state(engine: Engine) -> None:  # M059
    async def branching() -> Any:
        async def branch() -> int:
            await tick()
            return update_state(bump)

        return await parallel([branch, branch, branch])

    run = await engine.start(serving(branching))
    assert sorted(await run.update("f0")) == [0, 1, 2]
    await run.signal("stop")
    assert await run.result() == 3


async def test_an_async_function_may_not_receive(engine: Engine) -> None:  # M060
    async def receiving() -> str:
        with pytest.raises(NestingError):
            receive(0, timeout=1)
        return "refused"

    run = await engine.start(serving(receiving))
    assert await run.update("f0") == "refused"
    assert await locations(run) == []


@pytest.mark.parametrize("wrong", [Reply(1, 2), Stop(1), Async(tick, 1)])
async def test_an_async_function_returns_a_value_not_a_handlers_result(engine: Engine, wrong: Any) -> None:
    async def wrongly() -> Any:
        return wrong

    run = await engine.start(serving(wrongly))
    with pytest.raises(UpdateFailedError) as raised:
        await run.update("f0")
    assert isinstance(raised.value.__cause__, HandlerReturnError)
