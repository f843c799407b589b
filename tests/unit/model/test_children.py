"""Other runs, signals to them, and hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Task, detach, hook, run_info, signal, sleep, spawn, step, wait_for_signal, workflow
from tenuto.errors import ChildCancelledError, ChildFailedError, ChildStartError, HookNotFoundError
from tenuto.testing import Engine

from .conftest import locations


@workflow
async def double(n: int) -> int:
    return 2 * n


@workflow
async def failing() -> None:
    raise KeyError("no stock")


@workflow
async def waiting() -> Any:
    return await wait_for_signal("go")


async def test_a_child_gives_its_result(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        child = await spawn(double, 4)
        return await child, await child, child.id

    run = await engine.start(parent, id="p")
    assert await run.result() == (8, 8, "p:0:child:double")
    assert await locations(run) == ["child:double"]


async def test_a_failed_child_is_an_error_with_its_own_as_cause(engine: Engine) -> None:  # M089
    @workflow
    async def parent() -> Any:
        child = await spawn(failing)
        try:
            await child
        except ChildFailedError as error:
            return type(error.__cause__).__name__, str(error.__cause__)

    assert await (await engine.start(parent)).result() == ("KeyError", "'no stock'")


async def test_the_end_of_a_parent_cancels_spawned_children_and_no_others(engine: Engine) -> None:  # M090
    @workflow
    async def parent() -> list[str]:
        child = await spawn(waiting, id="spawned")
        return [child.id, await detach(waiting, id="detached")]

    run = await engine.start(parent)
    assert await run.result() == ["spawned", "detached"]
    await engine.settle()
    assert await engine.get("spawned").status() == "cancelled"
    assert await engine.get("detached").status() == "suspended"


async def test_an_id_in_use_is_a_child_start_error(engine: Engine) -> None:  # M091
    @workflow
    async def parent() -> Any:
        seen: list[str] = []
        child = await spawn(waiting, id="taken")
        try:
            await child
        except ChildStartError:
            seen.append("spawn")
        try:
            await detach(waiting, id="taken")
        except ChildStartError:
            seen.append("detach")
        other = await spawn(double, 1, id="taken", if_exists="attach")
        try:
            await other
        except ChildStartError:
            seen.append("attach to another workflow")
        attached = await spawn(waiting, id="taken", if_exists="attach")
        seen.append(await attached)
        return seen

    taken = await engine.start(waiting, id="taken")
    run = await engine.start(parent)
    await engine.settle()
    await taken.signal("go", "its result")
    assert await run.result() == ["spawn", "detach", "attach to another workflow", "its result"]


async def test_a_signal_to_another_run_is_delivered_once(engine: Engine) -> None:  # M092
    @workflow
    async def sender(to: str) -> str:
        await signal(to, "go", 1)
        await signal("nobody", "go", name="lost")
        await sleep(1)
        return "sent"

    receiver = await engine.start(waiting, id="receiver")
    run = await engine.start(sender, "receiver")
    assert await run.result() == "sent"
    assert await receiver.result() == 1
    assert await locations(run) == ["send:go", "lost", "sleep"]


async def test_a_child_can_be_signalled_through_its_handle(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        child = await spawn(waiting)
        await child.signal("go", "v")
        return await child

    assert await (await engine.start(parent)).result() == "v"


async def test_cancelling_code_that_awaits_a_child_cancels_the_child(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        child = await spawn(waiting, id="child")
        try:
            async with asyncio.timeout(5):
                await child
        except TimeoutError:
            await sleep(1)
            return "gave up"

    run = await engine.start(parent)
    assert await run.result() == "gave up"
    await engine.settle()
    assert await engine.get("child").status() == "cancelled"


async def test_a_cancelled_child_handle_raises_child_cancelled_error(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        child = await spawn(waiting, id="child")
        child.cancel()
        try:
            await child
        except ChildCancelledError:
            return "cancelled"

    assert await (await engine.start(parent)).result() == "cancelled"


async def test_children_and_tasks_can_be_awaited_together(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        first = await spawn(double, 1)
        second = await spawn(double.bind(n=2))
        won = await Task.any([await spawn(failing), first])
        return await Task.all([first, second]), won.item_id == first.id

    assert await (await engine.start(parent)).result() == ([2, 4], True)


async def test_a_child_knows_its_parent(engine: Engine) -> None:
    @workflow
    async def parent() -> Any:
        return await (await spawn(child_info))

    assert await (await engine.start(parent, id="p")).result() == "p"


@workflow
async def child_info() -> str | None:
    return run_info().parent_id


async def test_wrong_children_are_refused_at_the_call(engine: Engine) -> None:
    @workflow
    async def parent() -> None:
        with pytest.raises(TypeError):
            spawn(double)  # type: ignore[call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
        with pytest.raises(TypeError):
            spawn(child_step)
        with pytest.raises(ValueError, match="if_exists"):
            spawn(double, 1, if_exists="join")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]

    run = await engine.start(parent)
    await run.result()
    assert await run.history() == []


@step
async def child_step() -> None: ...


# --- hooks


async def test_payloads_sent_to_a_hook_early_are_taken_in_order(engine: Engine) -> None:  # M093
    @workflow
    async def wait() -> Any:
        opened = await hook("order-42")
        await sleep(1)
        return opened.token, await opened, await opened

    run = await engine.start(wait)
    await engine.settle()
    await run.signal("hook:order-42", {"n": 1})
    await run.signal("hook:order-42", {"n": 2})
    assert await run.result() == ("order-42", {"n": 1}, {"n": 2})


async def test_a_hook_is_iterated_until_it_is_closed(engine: Engine) -> None:
    @workflow
    async def wait() -> Any:
        opened = await hook()
        seen: list[Any] = []
        async for payload in opened:
            seen.append(payload)
            if payload == "last":
                opened.close()
        with pytest.raises(HookNotFoundError):
            await opened
        return seen

    run = await engine.start(wait, id="r")
    await engine.settle()
    for payload in ("a", "b", "last", "too late"):
        await run.signal("hook:r:0:hook", payload)
    assert await run.result() == ["a", "b", "last"]


async def test_closing_a_hook_ends_whoever_iterates_it(engine: Engine) -> None:
    @workflow
    async def wait() -> Any:
        opened = await hook()

        async def listen() -> list[Any]:
            return [payload async for payload in opened]

        task = asyncio.get_running_loop().create_task(listen())
        await sleep(1)
        opened.close()
        return await task

    run = await engine.start(wait, id="r")
    await engine.settle()
    await run.signal("hook:r:0:hook", "a")
    assert await run.result() == ["a"]
