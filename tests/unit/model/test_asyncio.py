"""asyncio and anyio over whatever can be awaited: the same places, the same outcomes, on every Python."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from tenuto import Task, hook, now, sleep, spawn, step, workflow
from tenuto.errors import RunFailedError


@step
async def echo(n: int) -> int:
    return n


@step
async def fails() -> None:
    raise ValueError("no")


@workflow(name="asyncio.leaf")
async def leaf(n: int) -> int:
    return n


class Later:
    """Something of the user's own that can be awaited."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __await__(self) -> Generator[Any, None, int]:
        return echo(self.n).__await__()


async def test_gather_wait_for_shield_and_wait_take_handles_as_they_take_coroutines(engine, locations):
    """M108"""

    @workflow(name="asyncio.over_handles")
    async def over_handles() -> list[Any]:
        queued = await asyncio.gather(*(Task.run(echo, n) for n in range(3)))
        children = await asyncio.gather(*[await spawn(leaf, n) for n in range(2)])
        limited = await asyncio.wait_for(Task.run(echo, 9), 5)
        shielded = await asyncio.shield(Task.run(echo, 10))
        done, _ = await asyncio.wait([asyncio.ensure_future(Task.run(echo, n)) for n in (11, 12)])
        return [queued, children, limited, shielded, sorted(task.result() for task in done)]

    run = await engine.start(over_handles)
    assert await run.result() == [[0, 1, 2], [0, 1], 9, 10, [11, 12]]
    assert set(await locations(run)) == {
        *("echo", "echo#2", "echo#3", "child:asyncio.leaf", "child:asyncio.leaf#2"),
        *("echo#4", "echo#5", "echo#6", "echo#7"),
    }


async def test_anything_that_can_be_awaited_runs_in_the_place_that_a_coroutine_would_have(engine, locations):
    """M108: a task of its own where one is made, the caller's place where `wait_for` awaits"""

    @workflow(name="asyncio.over_objects")
    async def over_objects() -> list[Any]:
        both = await asyncio.gather(Later(1), echo(2))
        limited = await asyncio.wait_for(Later(3), 5)
        shielded = await asyncio.shield(Later(4))
        ensured = await asyncio.ensure_future(Later(5))
        return [both, limited, shielded, ensured]

    run = await engine.start(over_objects)
    assert await run.result() == [[1, 2], 3, 4, 5]
    assert set(await locations(run)) == {"@0/echo", "@1/echo", "echo", "@2/echo", "@3/echo"}


async def test_a_hook_is_waited_for_with_a_limit(engine):
    """M108"""

    @workflow(name="asyncio.over_hooks")
    async def over_hooks() -> str:
        opened = await hook()
        try:
            return await asyncio.wait_for(opened, 5)
        except TimeoutError:
            return "nobody came"

    assert await (await engine.start(over_hooks)).result() == "nobody came"


async def test_create_task_takes_coroutines_only_and_says_what_takes_the_rest(engine):
    """M108"""

    @workflow(name="asyncio.tasks")
    async def tasks() -> list[str]:
        texts: list[str] = []
        for make in (asyncio.create_task, asyncio.get_running_loop().create_task):
            for value in (Task.run(echo, 1), Later(2), (n for n in range(3))):
                try:
                    make(value)  # type: ignore[arg-type]
                except TypeError as error:
                    texts.append(str(error))
        return texts

    texts = await (await engine.start(tasks)).result()
    assert len(texts) == 6
    assert all(text.startswith("a coroutine was expected, got ") for text in texts)
    assert all("asyncio.ensure_future" in text for text in texts)


async def test_as_completed_on_bare_coroutines_says_that_it_takes_tasks(engine):
    """1.7"""

    @workflow(name="asyncio.bare")
    async def bare() -> list[int]:
        coroutines = [echo(n) for n in range(3)]
        try:
            return [await each for each in asyncio.as_completed(coroutines)]
        finally:
            for coroutine in coroutines:
                coroutine.close()

    with pytest.raises(RunFailedError) as failed:
        await (await engine.start(bare)).result()
    text = str(failed.value.__cause__)
    assert "asyncio.create_task" in text
    assert "put it in a step" not in text


async def test_anyio_task_groups_and_cancel_scopes_work_around_steps(engine, locations):
    """M109"""

    @workflow(name="anyio.scopes")
    async def scopes() -> list[Any]:
        log: list[Any] = []

        async def one(n: int) -> None:
            log.append(await echo(n))

        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(one, n)
            group.start_soon(anyio.sleep, 1)
        began = now()
        with anyio.move_on_after(2) as scope:
            await sleep("1h")
        log.append(scope.cancelled_caught)
        try:
            with anyio.fail_after(3):
                await sleep("1h")
        except TimeoutError:
            log.append("too late")
        with anyio.fail_after(3):
            log.append(await echo(7))
        log.append((now() - began).total_seconds())
        return log

    run = await engine.start(scopes)
    assert await run.result() == [0, 1, 2, True, "too late", 7, 5.0]
    assert [at for at in await locations(run) if "echo" in at] == ["@0/echo", "@1/echo", "@2/echo", "echo"]


async def test_anyio_streams_events_and_limits_pass_values_between_tasks(engine):
    """M109"""

    @workflow(name="anyio.streams")
    async def streams() -> list[int]:
        send, receive = anyio.create_memory_object_stream[int](1)
        got: list[int] = []
        limit = anyio.CapacityLimiter(1)
        ready = anyio.Event()

        async def produce() -> None:
            await ready.wait()
            async with send:
                for n in range(4):
                    async with limit:
                        await send.send(await echo(n))

        async with anyio.create_task_group() as group, receive:
            group.start_soon(produce)
            ready.set()
            async for n in receive:
                got.append(n)
        return got

    assert await (await engine.start(streams)).result() == [0, 1, 2, 3]


async def test_a_failing_anyio_task_cancels_the_others_and_fails_the_group(engine):
    """M109"""

    @workflow(name="anyio.failing")
    async def failing() -> list[str]:
        async def waits() -> None:
            await sleep("1h")

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(waits)
                group.start_soon(fails.options(max_attempts=1))
        except ExceptionGroup as errors:
            return [type(error.__cause__).__name__ for error in errors.exceptions]
        return []

    assert await (await engine.start(failing)).result() == ["ValueError"]


async def test_clean_up_in_a_shielded_anyio_scope_runs_to_its_end(engine):
    """M109"""

    @workflow(name="anyio.shielded")
    async def shielded() -> list[Any]:
        log: list[Any] = []
        with anyio.move_on_after(1):
            try:
                await sleep("1h")
            finally:
                with anyio.CancelScope(shield=True):
                    log.append(await echo(5))
                    await anyio.sleep(1)
                    log.append("clean")
        return log

    assert await (await engine.start(shielded)).result() == [5, "clean"]
