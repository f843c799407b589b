"""Tasks, timers and handles."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import FatalError, Task, step, workflow
from tenuto.errors import AnyError, DefinitionNotFoundError, StepFailedError
from tenuto.testing import Engine

GATES: dict[str, asyncio.Event] = {}


@step
async def work(name: str) -> str:
    if name in GATES:
        await GATES[name].wait()
    if name.startswith("bad"):
        raise FatalError(name)
    return name


@pytest.fixture(autouse=True)
def gates() -> Any:
    GATES.clear()
    yield GATES
    GATES.clear()


def hold(*names: str) -> None:
    GATES.update((name, asyncio.Event()) for name in names)


async def test_all_gives_values_in_order(engine: Engine) -> None:
    @workflow
    async def go() -> Any:
        return await Task.all([Task.run(work, "a"), Task.run(work.bind(name="b"), queue="q"), Task.run("work", "c")])

    assert await (await engine.start(go)).result() == ["a", "b", "c"]


async def test_all_raises_at_the_first_failure_whatever_its_position(engine: Engine) -> None:  # M076
    hold("slow")

    @workflow
    async def go() -> Any:
        items = [Task.run(work, "slow"), Task.run(work, "b"), Task.run(work, "bad")]
        try:
            await Task.all(items)
        except StepFailedError as error:
            return str(error.__cause__), items[0].done

    run = await engine.start(go)
    assert await run.result() == ("bad", False)
    GATES["slow"].set()


async def test_any_ignores_failures_while_something_is_pending(engine: Engine) -> None:  # M077
    hold("good")

    @workflow
    async def go() -> Any:
        bad, good = Task.run(work, "bad"), Task.run(work, "good")
        won = await Task.any([bad, good])
        return won.result, won.item_id == good.id != bad.id

    run = await engine.start(go)
    await engine.settle()
    GATES["good"].set()
    assert await run.result() == ("good", True)


async def test_any_names_each_cause_when_all_fail(engine: Engine) -> None:  # M078
    @workflow
    async def go() -> Any:
        items = [Task.run(work, "bad1"), Task.run(work, "bad2")]
        try:
            await Task.any(items)
        except AnyError as error:
            return {error.errors.__class__, *map(str, (cause.__cause__ for cause in error.errors.values()))} == {
                dict,
                "bad1",
                "bad2",
            } and list(error.errors) == [item.id for item in items]

    assert await (await engine.start(go)).result() is True


async def test_race_gives_the_first_to_end_be_it_a_timer(engine: Engine) -> None:  # M079
    hold("slow")

    @workflow
    async def go() -> Any:
        delay = Task.delay(30)
        done = await Task.race([Task.run(work, "slow"), delay])
        return done.item_id == delay.id, done.status, done.result, done.error

    run = await engine.start(go)
    assert await run.result() == (True, "completed", None, None)


async def test_race_returns_a_failure(engine: Engine) -> None:
    @workflow
    async def go() -> Any:
        done = await Task.race([Task.run(work, "bad"), Task.delay("1h")])
        return done.status, str(done.error.__cause__) if done.error else ""

    began = engine.now_ms
    assert await (await engine.start(go)).result() == ("failed", "bad")
    assert engine.now_ms == began  # the losing timer was withdrawn


async def test_a_task_nobody_awaits_is_executed(engine: Engine) -> None:  # M080
    executed: list[int] = []

    @workflow
    async def go() -> str:
        Task.run(note)
        return "done"

    NOTES[:] = []
    run = await engine.start(go)
    assert await run.result() == "done"
    await engine.settle()
    del executed
    assert NOTES == [1]


NOTES: list[int] = []


@step
async def note() -> None:
    NOTES.append(1)


async def test_a_handle_awaited_twice_gives_the_same_outcome(engine: Engine) -> None:  # M081
    @workflow
    async def go() -> Any:
        good, bad = Task.run(work, "a"), Task.run(work, "bad")
        outcomes = [await good, await good]
        for _ in range(2):
            try:
                await bad
            except StepFailedError as error:
                outcomes.append(str(error.__cause__))
        return outcomes

    assert await (await engine.start(go)).result() == ["a", "a", "bad", "bad"]


async def test_cancelling_whoever_awaits_leaves_the_task_alone(engine: Engine) -> None:
    hold("slow")

    @workflow
    async def go() -> Any:
        handle = Task.run(work, "slow")
        try:
            async with asyncio.timeout(1):
                await handle
        except TimeoutError:
            return await handle

    run = await engine.start(go)
    await engine.advance(2)
    GATES["slow"].set()
    assert await run.result() == "slow"


async def test_a_cancelled_handle_fails_with_kind_cancelled(engine: Engine) -> None:
    hold("slow")

    @workflow
    async def go() -> Any:
        handle = Task.run(work, "slow")
        await Task.delay(1)
        handle.cancel()
        try:
            await handle
        except StepFailedError as error:
            return error.kind, handle.done

    assert await (await engine.start(go)).result() == ("cancelled", True)


async def test_losers_are_cancelled_when_asked_to(engine: Engine) -> None:
    hold("slow")

    @workflow
    async def go() -> Any:
        slow = Task.run(work, "slow")
        won = await Task.any([slow, Task.run(work, "a")], cancel_losers=True)
        return won.result, slow.done

    run = await engine.start(go)
    assert await run.result() == ("a", True)
    assert engine.store.tasks == {}


async def test_winners_among_the_already_settled_are_the_first_in_time(engine: Engine) -> None:
    hold("a", "b")

    @workflow
    async def go() -> Any:
        a, b = Task.run(work, "a"), Task.run(work, "b")
        await Task.all([a, b])
        return (await Task.any([a, b])).result, (await Task.race([a, b])).result

    run = await engine.start(go)
    await engine.settle()
    for name in ("b", "a"):
        GATES[name].set()
        await engine.settle()
    assert await run.result() == ("b", "b")


async def test_what_is_no_step_is_refused_at_the_call(engine: Engine) -> None:
    @step
    async def nested() -> None: ...

    @workflow
    async def go() -> None:
        for wrong in (go, print, 5):
            with pytest.raises(TypeError):
                Task.run(wrong)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
        with pytest.raises(DefinitionNotFoundError):
            Task.run("no such step")
        with pytest.raises(TypeError, match="arguments"):
            Task.run(work.bind("a"), "b")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        with pytest.raises(ValueError, match="function"):
            Task.run(nested)
        with pytest.raises(TypeError):
            Task.run(work, "a", colour="red")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        with pytest.raises(ValueError, match="item"):
            Task.any([])
        with pytest.raises(TypeError):
            Task.all([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        assert await Task.all([]) == []

    run = await engine.start(go)
    await run.result()
    assert await run.history() == []


async def test_a_task_that_only_another_worker_knows_is_queued_by_its_id(engine: Engine) -> None:
    @workflow
    async def go() -> None:
        Task.run("step//elsewhere.py//pack", 1, queue="there", priority=5, delay="1m", key="k", partition="p")

    run = await engine.start(go)
    await run.result()
    ((_, queued),) = engine.store.tasks.values()
    assert (queued.target, queued.queue, queued.priority) == ("step//elsewhere.py//pack", "there", 5)
    assert (queued.delay_ms, queued.key, queued.partition) == (60_000, "k", "p")


async def test_the_queue_of_a_task_is_its_own_or_that_of_the_step(engine: Engine) -> None:
    @workflow
    async def go() -> None:
        for options in ({}, {"queue": "mine"}):
            Task.run(queued_step, **options)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        Task.run(work, "a", delay="1h")

    run = await engine.start(go)
    await run.result()
    assert [task.queue for _, task in engine.store.tasks.values()] == ["heavy", "mine", "default"]


@step(queue="heavy")
async def queued_step() -> None: ...
