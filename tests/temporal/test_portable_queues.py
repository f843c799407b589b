"""Tasks without a workflow, queues, many runs at once and schedules."""

from __future__ import annotations

from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, add_numbers, fresh, held, hold, note

from tenuto import FatalError, Task, step, wait_for_signal, workflow
from tenuto.errors import ConfigError, DefinitionNotFoundError, StepFailedError, UnsupportedError


@step
async def refuses() -> None:
    raise FatalError("no")


async def test_a_step_can_be_put_into_a_queue_by_itself(stage: Stage) -> None:
    task = await stage.app.enqueue(add_numbers, 1, 2)
    assert await task.result(timeout=LIMIT) == 3
    assert await task.status() == "completed"
    failing = await stage.app.enqueue(refuses)
    with pytest.raises(StepFailedError) as failed:
        await failing.result(timeout=LIMIT)
    assert (failed.value.kind, repr(failed.value.__cause__)) == ("fatal", "FatalError('no')")


async def test_a_task_can_be_cancelled(stage: Stage) -> None:
    gate = held(name := fresh("task"))
    task = await stage.app.enqueue(hold, name)
    await gate.until_entered()
    await task.cancel()
    with pytest.raises(StepFailedError) as cancelled:
        await task.result(timeout=LIMIT)
    assert cancelled.value.kind == "cancelled"
    await gate.until_asked_to_stop()


@step(queue="tests.other-queue")
async def on_another_queue(key: str) -> str:
    EFFECTS[key].append(1)
    return "done there"


@workflow
async def uses_queues(key: str) -> Any:
    return (
        await on_another_queue(key),
        await Task.run(add_numbers, 1, 1, priority=2),
        await Task.run(add_numbers, 2, 2, delay="20ms"),
    )


async def test_steps_run_through_the_queues_they_name(stage: Stage) -> None:
    assert await stage.run(uses_queues, fresh("queues")) == ("done there", 2, 4)


@workflow
async def waits_for_ever() -> None:
    await wait_for_signal("never")


async def test_a_verb_can_be_said_to_many_runs(stage: Stage) -> None:
    tag = fresh("many")
    runs = [await stage.start(waits_for_ever, attributes={"tag": tag}) for _ in range(3)]

    async def are_listed() -> bool:
        return len([run async for run in stage.app.runs(attributes={"tag": tag})]) == 3

    await stage.until(are_listed)
    assert await stage.app.each(attributes={"tag": tag}).cancel("enough") == 3
    for run in runs:
        await stage.until_is(run, "cancelled")


@workflow
async def ticks(key: str) -> None:
    await note(key, "tick")


async def test_a_schedule_starts_runs_until_it_is_deleted(stage: Stage) -> None:
    name, key = fresh(f"schedule-{stage.engine}"), fresh("ticks")
    await stage.app.schedule(name, ticks.bind(key), every="1s")

    async def has_ticked() -> bool:
        return len(EFFECTS[key]) >= 1

    await stage.until(has_ticked)

    async def listed() -> Any:
        found = [summary async for summary in stage.app.schedules() if summary.name == name]
        return found[0] if found else None

    async def is_listed() -> bool:
        return await listed() is not None

    await stage.until(is_listed)
    summary = await listed()
    assert (summary.workflow, summary.rule, summary.overlap, summary.paused) == (ticks.id, "every 1s", "skip", False)
    await stage.app.pause_schedule(name)

    async def is_paused() -> bool:
        return bool((await listed()).paused)

    await stage.until(is_paused)
    await stage.app.resume_schedule(name)
    await stage.app.schedule(name, ticks.bind(key), cron="0 4 * * *", tz="Europe/Vienna", overlap="queue_one")

    async def is_changed() -> bool:
        now = await listed()
        return (now.rule, now.tz, now.overlap) == ("0 4 * * *", "Europe/Vienna", "queue_one")

    await stage.until(is_changed)
    await stage.app.delete_schedule(name)

    async def is_gone() -> bool:
        return await listed() is None

    await stage.until(is_gone)
    for verb in (stage.app.pause_schedule, stage.app.resume_schedule, stage.app.delete_schedule):
        with pytest.raises(DefinitionNotFoundError):
            await verb(name)
    with pytest.raises(ConfigError):
        await stage.app.schedule(name, ticks.bind(key))


async def test_limits_of_queues_are_not_temporals(temporal_stage: Stage) -> None:
    """X5"""
    app = temporal_stage.app
    with pytest.raises(UnsupportedError, match="Temporal"):
        await app.queue("default", concurrency=1)
    with pytest.raises(UnsupportedError, match="Temporal"):
        _ = [queue async for queue in app.queues()]
    with pytest.raises(UnsupportedError, match="Temporal"):
        await app.each(status="failed").recover()
