"""A run that was cancelled waits for no task of its own: it asks them to stop, and closes."""

from __future__ import annotations

from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, fresh, held, hold, note

from tenuto import Task, wait_for_signal, workflow
from tenuto.errors import RunCancelledError


@workflow
async def awaits_a_task(name: str) -> Any:
    return await Task.run(hold, name)


@workflow
async def awaits_a_task_nobody_serves(queue: str) -> Any:
    return await Task.run(note, queue, 1, queue=queue)


@workflow
async def awaits_a_delayed_task(key: str) -> Any:
    return await Task.run(note, key, 1, delay="1h")


async def test_a_cancelled_run_that_awaits_a_task_ends(stage: Stage) -> None:
    name = fresh("awaited")
    gate = held(name)
    run = await stage.start(awaits_a_task, name)
    await gate.until_entered()
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result(timeout="10s")
    if stage.on_temporal:
        await gate.until_asked_to_stop()
    gate.gate.set()


@pytest.mark.parametrize("workflow", [awaits_a_task_nobody_serves, awaits_a_delayed_task])
async def test_a_cancelled_run_ends_though_its_task_never_began(temporal_stage: Stage, workflow: Any) -> None:
    stage = temporal_stage
    run = await stage.start(workflow, key := fresh("unserved"))

    async def is_asked_for() -> bool:
        return bool((await run.explain()).pending)

    await stage.until(is_asked_for)
    await run.cancel("enough", within="1s")
    with pytest.raises(RunCancelledError):
        await run.result(timeout="10s")
    assert EFFECTS[key] == []


@workflow
async def cleans_up_for_ever(name: str) -> Any:
    try:
        return await Task.run(hold, name)
    finally:
        await wait_for_signal("never")


async def test_the_limit_of_a_cancellation_ends_a_run_that_has_tasks(temporal_stage: Stage) -> None:
    stage = temporal_stage
    gate = held(name := fresh("limit"))
    run = await stage.start(cleans_up_for_ever, name)
    await gate.until_entered()
    await run.cancel("enough", within="200ms")
    with pytest.raises(RunCancelledError):
        await run.result(timeout="10s")
    await gate.until_asked_to_stop()


@workflow
async def leaves_a_task(name: str) -> str:
    Task.run(hold, name)
    return "left"


@workflow
async def leaves_a_task_when_cancelled(name: str) -> str:
    Task.run(hold, name)
    try:
        await wait_for_signal("never")
    except BaseException:  # noqa: BLE001  # the cancellation that the case is about
        return "heeded"
    return "never"


async def test_a_run_that_waits_for_what_it_left_behind_ends_when_it_is_cancelled(temporal_stage: Stage) -> None:
    stage = temporal_stage
    gate = held(name := fresh("left"))
    run = await stage.start(leaves_a_task, name)
    await gate.until_entered()
    assert await run.status() == "running"
    await run.cancel("enough")
    assert await run.result(timeout="10s") == "left"
    await gate.until_asked_to_stop()


async def test_the_limit_of_a_cancellation_holds_for_what_a_run_left_behind(temporal_stage: Stage) -> None:
    stage = temporal_stage
    gate = held(name := fresh("heeded"))
    run = await stage.start(leaves_a_task_when_cancelled, name)
    await gate.until_entered()
    await run.cancel("enough", within="500ms")
    assert await run.result(timeout="10s") == "heeded"
    await gate.until_asked_to_stop()


async def test_a_run_that_was_not_cancelled_waits_for_what_it_left_behind(temporal_stage: Stage) -> None:
    stage = temporal_stage
    gate = held(name := fresh("kept"))
    run = await stage.start(leaves_a_task, name)
    await gate.until_entered()
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == "left"
    assert not gate.asked_to_stop.is_set()
