"""parallel, join, race: structured, replayable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import (
    Async,
    ContinueAsNew,
    Failed,
    join,
    parallel,
    race,
    sleep,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import HandlerReturnError, InvalidNameError, JoinError, LimitError, RaceError
from tenuto.testing import Engine

from .conftest import locations


@step
async def echo(value: Any) -> Any:
    return value


@step(max_attempts=1)
async def broken(value: Any) -> Any:
    raise KeyError(value)


async def slept(seconds: float, value: Any) -> Any:
    await sleep(seconds)
    return value


async def test_parallel_gives_results_in_input_order(engine: Engine) -> None:  # M069
    @workflow
    async def fan() -> Any:
        return await parallel([lambda: slept(3, "a"), slept(2, "b"), lambda: slept(1, "c")])

    run = await engine.start(fan)
    assert await run.result() == ["a", "b", "c"]
    assert await locations(run) == ["parallel/[2]/sleep", "parallel/[1]/sleep", "parallel/[0]/sleep", "parallel"]


async def test_a_raising_branch_of_parallel_is_failed_in_its_place(engine: Engine) -> None:  # M070
    @workflow
    async def fan() -> Any:
        first, second, third = await parallel([lambda: slept(2, 1), lambda: broken("x"), lambda: slept(1, 3)])
        assert isinstance(second, Failed)
        return first, repr(second.error.__cause__), third

    assert await (await engine.start(fan)).result() == (1, "KeyError('x')", 3)


async def test_a_finished_branch_keeps_its_result_over_a_crash(engine: Engine) -> None:  # M071
    executed: list[str] = []
    gate = asyncio.Event()

    @step
    async def work(name: str) -> str:
        executed.append(name)
        if name == "b":
            await gate.wait()
        return name

    @workflow
    async def fan() -> Any:
        return await parallel([lambda: work("a"), lambda: work("b")])

    run = await engine.start(fan)
    await engine.settle()
    engine.crash()
    gate.set()
    assert await run.result() == ["a", "b"]
    assert executed.count("a") == 1


async def test_a_limit_holds_branches_back(engine: Engine) -> None:  # M072
    under_way = 0
    most = 0

    @step
    async def work(n: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return n

    @workflow
    async def fan() -> Any:
        return await parallel([lambda n=n: work(n) for n in range(5)], limit=2)  # type: ignore[misc]

    assert await (await engine.start(fan)).result() == [0, 1, 2, 3, 4]
    assert most == 2


async def test_join_names_every_failed_branch_after_all_have_ended(engine: Engine) -> None:  # M073
    ended: list[str] = []

    async def late() -> None:
        await sleep(5)
        ended.append("late")

    @workflow
    async def fan() -> Any:
        try:
            await join({"a": lambda: broken(1), "late": late, "b": lambda: broken(2)})
        except JoinError as error:
            return {name: repr(cause.__cause__) for name, cause in error.errors.items()}

    assert await (await engine.start(fan)).result() == {"a": "KeyError(1)", "b": "KeyError(2)"}
    assert set(ended) == {"late"}


async def test_join_gives_values_by_name_in_input_order(engine: Engine) -> None:
    @workflow
    async def fan() -> Any:
        return list((await join({"x": lambda: slept(2, 1), "y": echo(2)})).items())

    run = await engine.start(fan)
    assert await run.result() == [("x", 1), ("y", 2)]
    assert "join/y/echo" in await locations(run)


async def test_a_race_gives_the_winner_and_withdraws_the_timer(engine: Engine) -> None:  # M074
    @workflow
    async def compete() -> Any:
        return await race({"late": lambda: sleep("1h"), "step": lambda: echo("v")})

    run = await engine.start(compete)
    began = engine.now_ms
    assert tuple(await run.result()) == ("step", "v")
    assert engine.now_ms == began
    assert "race/late/sleep" not in await locations(run)


async def test_a_race_waits_for_the_clean_up_of_losers_not_for_their_operations(engine: Engine) -> None:  # M075
    never = asyncio.Event()

    @step
    async def hang() -> None:
        await never.wait()

    @step
    async def clean_up() -> None: ...

    async def loser() -> None:
        try:
            await hang()
        finally:
            await clean_up()

    @workflow
    async def compete() -> Any:
        won = await race({"loser": loser, "winner": lambda: slept(1, "v")})
        await echo("after")
        return won.winner

    run = await engine.start(compete)
    assert await run.result() == "winner"
    places = await locations(run)
    assert places.index("race/loser/clean_up") < places.index("echo")


async def test_the_winner_is_the_first_in_time_not_in_the_list(engine: Engine) -> None:
    @workflow
    async def compete() -> Any:
        return (await race({"slow": lambda: slept(2, 1), "quick": lambda: slept(1, 2)})).winner

    assert await (await engine.start(compete)).result() == "quick"


async def test_a_raising_branch_drops_out_of_a_race(engine: Engine) -> None:
    @workflow
    async def compete() -> Any:
        won = await race({"broken": lambda: broken(1), "late": lambda: slept(5, "v")})
        try:
            await race({"a": lambda: broken("a"), "b": lambda: broken("b")})
        except RaceError as error:
            return won.winner, {name: repr(cause.__cause__) for name, cause in error.errors.items()}

    assert await (await engine.start(compete)).result() == ("late", {"a": "KeyError('a')", "b": "KeyError('b')"})


async def test_empty_constructs_write_nothing(engine: Engine) -> None:
    @workflow
    async def empty() -> Any:
        with pytest.raises(ValueError, match="branch"):
            race({})
        return await parallel([]), await join({})

    run = await engine.start(empty)
    assert await run.result() == ([], {})
    assert await run.history() == []


async def test_what_only_handlers_and_runs_return_is_refused_in_a_branch(engine: Engine) -> None:
    async def wrong(value: Any) -> Any:
        return value

    @workflow
    async def fan() -> Any:
        results = await parallel([lambda: wrong(Async(echo, 1)), lambda: wrong(ContinueAsNew(1))])  # type: ignore[arg-type]
        return [isinstance(item, Failed) and isinstance(item.error, HandlerReturnError) for item in results]

    assert await (await engine.start(fan)).result() == [True, True]


async def test_wrong_branches_are_refused_at_the_call_and_take_no_place(engine: Engine) -> None:
    @workflow
    async def fan() -> None:
        with pytest.raises(TypeError):
            parallel([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match="limit"):
            parallel([echo(1)], limit=0)
        with pytest.raises(InvalidNameError):
            join({"": echo(1)})
        with pytest.raises(LimitError):
            parallel([echo] * 10_001)  # type: ignore[list-item]

    run = await engine.start(fan)
    await run.result()
    assert await run.history() == []


async def test_a_cancelled_construct_cancels_its_branches_in_order_and_waits_for_them(engine: Engine) -> None:
    @step
    async def clean_up(name: str) -> None: ...

    async def branch(name: str) -> None:
        try:
            await wait_for_signal("never")
        finally:
            await clean_up.options(name=name)(name)

    @workflow
    async def fan() -> str:
        try:
            async with asyncio.timeout(5):
                await join({"a": lambda: branch("a"), "b": lambda: branch("b")})
        except TimeoutError:
            return "timed out"
        return ""

    run = await engine.start(fan)
    assert await run.result() == "timed out"
    places = [place for place in await locations(run) if place.startswith("join/")]
    assert places == ["join/a/a", "join/b/b"]


async def test_plain_asyncio_goes_on_beside(engine: Engine) -> None:
    @workflow
    async def mix() -> Any:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(slept(2, 1))
            second = group.create_task(echo(2))
        both = await asyncio.gather(echo(3), echo(4))
        timed = await asyncio.wait_for(echo(5), 10)
        return [first.result(), second.result(), *both, timed]

    run = await engine.start(mix)
    assert await run.result() == [1, 2, 3, 4, 5]


async def test_constructs_nest(engine: Engine) -> None:
    async def inner(n: int) -> Any:
        won = await race({"echo": lambda: echo(n), "sleep": lambda: sleep("1d")})
        return await parallel([lambda: echo(won.value), lambda: slept(n, n)])

    @workflow
    async def nest() -> Any:
        return await join({str(n): (lambda n=n: inner(n)) for n in range(3)})  # type: ignore[misc]

    run = await engine.start(nest)
    assert await run.result() == {"0": [0, 0], "1": [1, 1], "2": [2, 2]}
    assert "join/2/race/echo/echo" in await locations(run)
    assert "join/2/parallel/[1]/sleep" in await locations(run)


async def test_a_loser_that_fails_in_its_clean_up_is_logged_and_still_loses(engine: Engine) -> None:
    async def loser() -> None:
        try:
            await sleep("1h")
        finally:
            raise KeyError("clean-up")

    @workflow
    async def compete() -> str:
        return (await race({"loser": loser, "winner": lambda: echo(1)})).winner

    run = await engine.start(compete)
    assert await run.result() == "winner"
    assert any("KeyError" in notice for notice in engine.notices)


async def test_a_branch_that_cancels_itself_cancels_its_construct(engine: Engine) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    @workflow
    async def fan() -> list[str]:
        seen: list[str] = []
        for construct in (
            lambda: parallel([cancelled, lambda: slept(1, 1)]),
            lambda: join({"a": cancelled}),
            lambda: race({"a": cancelled}),
        ):
            try:
                await construct()  # type: ignore[operator]
            except asyncio.CancelledError:
                seen.append("cancelled")
        return seen

    assert await (await engine.start(fan)).result() == ["cancelled"] * 3
