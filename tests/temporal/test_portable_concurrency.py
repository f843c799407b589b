"""Branches, races, handles and plain asyncio: the same on every engine."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, add_numbers, fresh, held, hold, note

from tenuto import (
    Break,
    Continue,
    Failed,
    FatalError,
    Task,
    join,
    loop,
    parallel,
    race,
    random,
    side_effect,
    sleep,
    step,
    uuid4,
    wait_for_signal,
    workflow,
)
from tenuto.errors import AnyError, JoinError, RaceError, RunFailedError, SideEffectError, StepFailedError


@step(max_attempts=1)
async def fails(text: str) -> None:
    raise FatalError(text)


@workflow
async def branches(names: list[str], key: str) -> Any:
    async def bad() -> None:
        await note(key, "bad")
        raise ValueError("bad")

    async def good(name: str) -> Any:
        value = await hold(name, name.rpartition("-")[0])
        await note(key, value)
        return value

    results = await parallel([partial(good, names[0]), bad, partial(good, names[1])])
    return [repr(item.error) if isinstance(item, Failed) else item for item in results]


async def test_parallel_gives_values_in_input_order_and_errors_in_their_place(stage: Stage) -> None:
    """M069, M070, M071"""
    names, key = [fresh("a"), fresh("b")], fresh("branches")
    gates = [held(name) for name in names]
    run = await stage.start(branches, names, key)
    for gate in gates:
        await gate.until_entered()

    async def bad_is_recorded() -> bool:
        return "parallel/[1]/note" in [entry.location for entry in await run.history() if entry.status == "completed"]

    await stage.until(bad_is_recorded)
    gates[1].gate.set()

    async def b_is_recorded() -> bool:
        return "parallel/[2]/note" in [entry.location for entry in await run.history() if entry.status == "completed"]

    await stage.until(b_is_recorded)
    gates[0].gate.set()
    assert await run.result(timeout=LIMIT) == ["a", "ValueError('bad')", "b"]
    assert EFFECTS[key] == ["bad", "b", "a"]
    assert [entry.location for entry in await run.history() if entry.kind == "step"] == [
        "parallel/[1]/note",
        "parallel/[2]/hold",
        "parallel/[2]/note",
        "parallel/[0]/hold",
        "parallel/[0]/note",
    ]


@workflow
async def limited(key: str) -> Any:
    going = 0
    most = 0

    async def one(number: int) -> int:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await add_numbers(number, 0)
        going -= 1
        return number

    return await parallel([partial(one, number) for number in range(5)], limit=2), most


async def test_no_more_branches_run_than_the_limit_allows(stage: Stage) -> None:
    """M072"""
    assert await stage.run(limited, fresh("limit")) == ([0, 1, 2, 3, 4], 2)


@workflow
async def joins(key: str) -> Any:
    async def slow() -> int:
        await sleep("50ms")
        return await note(key, 3)

    try:
        await join({"one": partial(fails, "1"), "two": slow, "three": partial(fails, "3")})
    except JoinError as error:
        return {name: type(item).__name__ for name, item in error.errors.items()}, await join({"x": slow})


async def test_join_waits_for_all_and_names_every_failure(stage: Stage) -> None:
    """M073"""
    key = fresh("joins")
    failed = {"one": "StepFailedError", "three": "StepFailedError"}
    assert await stage.run(joins, key) == (failed, {"x": 3})
    assert EFFECTS[key] == [3, 3]


@workflow
async def races(name: str, key: str) -> Any:
    async def loses() -> None:
        try:
            await hold(name)
        finally:
            await note(key, "cleaned up")

    async def wins() -> str:
        return await note(key, "won")

    won = await race({"late": partial(sleep, "1h"), "loses": loses, "wins": wins})
    await note(key, "after")
    try:
        await race({"a": partial(fails, "a"), "b": partial(fails, "b")})
    except RaceError as error:
        return won, list(error.errors)


async def test_a_race_is_won_once_and_its_losers_clean_up_first(stage: Stage) -> None:
    """M074, M075"""
    gate, key = held(name := fresh("loses")), fresh("races")
    run = await stage.start(races, name, key)
    winner, lost = await run.result(timeout=LIMIT)
    assert (winner, lost) == (("wins", "won"), ["a", "b"])
    assert EFFECTS[key] == ["won", "cleaned up", "after"]
    if gate.entered.is_set():
        await gate.until_asked_to_stop()


# --- handles


@workflow
async def handles(names: list[str]) -> list[Any]:
    seen: list[Any] = []
    slow = Task.run(hold, names[0], "slow")
    try:
        await Task.all([slow, Task.delay("1h"), Task.run(fails, "third")])
    except StepFailedError as error:
        seen.append(["all", error.kind, slow.done])
    won = await Task.any([Task.run(fails, "first"), Task.run(hold, names[1], "won"), Task.delay("1h")])
    seen.append(["any", won.result])
    try:
        await Task.any([Task.run(fails, "a"), Task.run(fails, "b")])
    except AnyError as error:
        seen.append(["none", len(error.errors)])
    first = await Task.race([slow, delay := Task.delay("40ms")])
    seen.append(["race", first.status, first.result, first.item_id == delay.id])
    await wait_for_signal("go on")
    seen.append([await slow, await slow])
    return seen


async def test_handles_are_waited_for_in_the_order_of_facts(stage: Stage) -> None:
    """M076, M077, M078, M079, M081"""
    names = [fresh("slow"), fresh("won")]
    slow, won = (held(name) for name in names)
    run = await stage.start(handles, names)
    await won.until_entered()
    won.gate.set()
    await stage.until_waiting_for(run, "go on")
    slow.gate.set()
    await run.signal("go on")
    assert await run.result(timeout=LIMIT) == [
        ["all", "fatal", False],
        ["any", "won"],
        ["none", 2],
        ["race", "completed", None, True],
        ["slow", "slow"],
    ]


@workflow
async def leaves_tasks(name: str, key: str) -> str:
    Task.run(note, key, "left")
    Task.run(hold, name)
    cancelled = Task.run(hold, name)
    cancelled.cancel()
    try:
        await cancelled
    except StepFailedError as error:
        return error.kind
    return ""


async def test_a_task_that_nobody_awaits_is_executed_all_the_same(stage: Stage) -> None:
    """M080"""
    gate, key = held(name := fresh("left")), fresh("left")
    run = await stage.start(leaves_tasks, name, key)
    await gate.until_entered()
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == "cancelled"

    async def is_executed() -> bool:
        return EFFECTS[key] == ["left"]

    await stage.until(is_executed)


# --- asyncio


@workflow
async def plain_asyncio(key: str) -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def produce() -> None:
        for number in range(3):
            await note(key, number)
            await queue.put(number)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        taken = [await queue.get() for _ in range(3)]
    gathered = await asyncio.gather(add_numbers(1, 1), add_numbers(2, 2))
    try:
        await asyncio.wait_for(wait_for_signal("never"), 0.02)
    except TimeoutError:
        return taken, gathered


async def test_plain_asyncio_works_as_written(stage: Stage) -> None:
    run = await stage.start(plain_asyncio, fresh("asyncio"))
    assert await run.result(timeout=LIMIT) == ([0, 1, 2], [2, 4])


# --- loops


@workflow
async def long_loop(key: str) -> Any:
    async def body(state: dict[str, int]) -> Any:
        await note(key, state["n"])
        if state["n"] == 12:
            return Break(f"after {state['n']}")
        return Continue({"n": state["n"] + 1})

    return await loop("count", {"n": 0}, body, commit_interval=5)


async def test_a_loop_threads_its_state_to_the_break(stage: Stage) -> None:
    key = fresh("loop")
    assert await stage.run(long_loop, key) == "after 12"
    assert EFFECTS[key] == list(range(13))


# --- side effects and chance


@workflow
async def impure(key: str) -> Any:
    def compute() -> int:
        EFFECTS[key].append("computed")
        return 42

    def breaks() -> int:
        raise LookupError("no")

    value = await side_effect(compute)
    try:
        await side_effect(breaks, name="broken")
    except SideEffectError as error:
        cause = repr(error.__cause__)
    try:
        side_effect(note)  # type: ignore[arg-type]
    except TypeError:
        refused = True
    await wait_for_signal("go")
    return value, cause, refused


async def test_a_side_effect_is_computed_and_then_fixed(stage: Stage) -> None:
    """M083, M084"""
    run = await stage.start(impure, key := fresh("impure"))
    await stage.until_waiting_for(run, "go")
    computed = len(EFFECTS[key])
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == (42, "LookupError('no')", True)
    assert len(EFFECTS[key]) == computed >= 1


@workflow
async def draws_by_scope() -> list[str]:
    async def draw() -> str:
        await sleep(0)
        return f"{uuid4()} {random().random()}"

    return [str(uuid4()), *await parallel([draw, draw])]


DRAWN: dict[str, list[str]] = {}  # by engine


async def test_chance_is_the_same_on_every_engine(stage: Stage) -> None:
    """M011: draws depend on the run's id and the place alone"""
    if stage.engine == "temporal-uncached":
        pytest.skip("the server has a run of this id already")
    DRAWN[stage.engine] = await stage.run(draws_by_scope, id="always-the-same-id")
    assert len(set(DRAWN[stage.engine])) == 3
    assert all(drawn == DRAWN[stage.engine] for drawn in DRAWN.values())


@workflow
async def raises(text: str) -> None:
    raise KeyError(text)


async def test_a_failed_run_gives_its_error_as_it_was_raised(stage: Stage) -> None:
    run = await stage.start(raises, "no stock")
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert repr(failed.value.__cause__) == "KeyError('no stock')"
    assert await run.status() == "failed"
