"""What is too much for the server at once is handed over bit by bit, or refused where the code sees it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, fresh, stop

from tenuto import (
    ContinueAsNew,
    FatalError,
    Reply,
    Task,
    detach,
    parallel,
    race,
    receive,
    signal,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import LimitError, RunFailedError, StepFailedError

MIB = 2**20
LONG = "120s"
UNDONE: list[int] = []


@step
async def size_of(data: bytes) -> int:
    return len(data)


@step
async def one(number: int) -> int:
    return number


@step
async def makes(size: int) -> bytes:
    return b"x" * size


@workflow
async def takes_large(count: int, size: int) -> list[int]:
    return await parallel([partial(size_of, b"x" * size) for _ in range(count)])


async def test_many_large_arguments_of_one_turn_reach_their_steps(temporal_stage: Stage) -> None:
    assert await temporal_stage.run(takes_large, 7, 943_718) == [943_718] * 7


async def test_a_turn_that_fits_one_message_has_no_marker(temporal_stage: Stage) -> None:
    """P9: histories look as they did"""
    stage = temporal_stage
    run = await stage.start(takes_large, 2, MIB)
    assert await run.result(timeout=LIMIT) == [MIB] * 2
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    assert not [event for event in history.events if event.HasField("marker_recorded_event_attributes")]


@workflow
async def leaf(data: bytes) -> int:
    return len(data)


@workflow
async def sends_large(other: str) -> list[Any]:
    handles = [await spawn(leaf, b"x" * MIB) for _ in range(4)]
    for number in range(4):
        await signal(other, "go", number, b"x" * MIB)
    await detach(leaf, b"x" * MIB)
    return [await handle for handle in handles]


@workflow
async def counts() -> list[Any]:
    return [len((await wait_for_signal("go"))[1]) for _ in range(4)]


async def test_large_arguments_of_children_and_signals_are_handed_over(temporal_stage: Stage) -> None:
    stage = temporal_stage
    other = await stage.start(counts)
    assert await stage.run(sends_large, other.id) == [MIB] * 4
    assert await other.result(timeout=LIMIT) == [MIB] * 4


@workflow
async def answers_large() -> bytes:
    def ask(state: int, size: int) -> Reply[int]:
        return Reply(b"y" * size, state + 1)

    await wait_for_signal("begin")
    await receive(0, updates={"ask": ask}, signals={"stop": stop})
    await parallel([partial(size_of, b"x" * MIB) for _ in range(2)])
    return b"z" * MIB


async def test_large_answers_and_a_large_result_are_handed_over(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(answers_large)
    await run.signal("begin")
    asked = [stage.ask(run, "ask", 1_500_000, retry_for=LIMIT) for _ in range(4)]
    assert [len(await answer) for answer in asked] == [1_500_000] * 4
    await run.signal("stop")
    assert len(await run.result(timeout=LIMIT)) == MIB


# --- how many at once


@workflow
async def begins_many(count: int) -> int:
    return sum(await parallel([partial(one, 1) for _ in range(count)]))


@pytest.mark.slow
async def test_more_steps_at_once_than_the_server_allows_are_all_executed(temporal_server: str) -> None:
    from tenuto import Tenuto

    url = f"temporal://{temporal_server}/default?task_queue={fresh('many')}"
    async with Tenuto(url, grace=1) as app:
        run = await app.start(begins_many, 2_500)
        assert await run.result(timeout=LONG) == 2_500


@workflow
async def sleeps_much(count: int) -> int:
    await parallel([partial(sleep, "1ms") for _ in range(count)])
    return count


@workflow
async def leaves_many(count: int, data: bytes) -> str:
    for _ in range(count):
        Task.run(size_of, data)
    return "left"


async def test_tasks_left_behind_that_wait_for_room_are_executed_before_the_end(temporal_stage: Stage) -> None:
    """M080"""
    stage = temporal_stage
    run = await stage.start(leaves_many, 7, b"x" * MIB)
    assert await run.result(timeout=LIMIT) == "left"
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    done = [event for event in history.events if event.HasField("activity_task_completed_event_attributes")]
    assert len(done) == 7


async def test_a_turn_with_many_timers_is_handed_over_in_portions(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(sleeps_much, 700)
    assert await run.result(timeout=LIMIT) == 700
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    by_task: dict[int, int] = {}
    for event in history.events:
        if event.HasField("timer_started_event_attributes"):
            task = event.timer_started_event_attributes.workflow_task_completed_event_id
            by_task[task] = by_task.get(task, 0) + 1
    assert max(by_task.values()) <= 501


@workflow
async def cancels_what_waits(count: int) -> str:
    won = await race(
        {
            "steps": lambda: parallel([partial(size_of, b"x" * MIB) for _ in range(count)]),
            "time": partial(sleep, 0),
        }
    )
    return won.winner


async def test_what_was_waiting_for_room_when_it_was_cancelled_never_begins(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(cancels_what_waits, 9)
    assert await run.result(timeout=LIMIT) == "time"
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    begun = [event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")]
    assert len(begun) <= 3  # that were handed over before


# --- continue-as-new


@step(rollback=lambda number: UNDONE.append(number))
async def books(number: int) -> int:
    return number


@workflow
async def goes_on(rounds: int) -> Any:
    await books(rounds)
    await wait_for_signal("go")
    return "end" if rounds == 0 else ContinueAsNew(rounds - 1)


async def test_unread_signals_that_the_next_run_has_room_for_are_carried_over(temporal_stage: Stage) -> None:
    stage = temporal_stage
    stage.tasks_may_fail = True  # the server refuses to continue a run for which a signal has just come
    run = await stage.start(goes_on, 1)
    for _ in range(3):
        await run.signal("other", b"x" * 600_000)
    await run.signal("go")
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == "end"


async def test_more_unread_signals_than_the_next_run_has_room_for_fail_the_run_not_its_task(
    temporal_stage: Stage,
) -> None:
    stage = temporal_stage
    run = await stage.start(goes_on, 1)
    for _ in range(5):
        await run.signal("other", b"x" * 600_000)
    await run.signal("go")
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, LimitError)
    assert "unread signals" in str(failed.value.__cause__)


@workflow
async def goes_on_with(rounds: int, data: bytes) -> Any:
    if rounds == 0:
        return len(data)
    await sleep("1ms")
    return ContinueAsNew(rounds - 1, b"y" * rounds)


# --- values just below our own limit, and long texts


@workflow
async def hands_over(size: int) -> str:
    try:
        await size_of(b"x" * size)
    except (LimitError, StepFailedError) as error:
        return error.kind if isinstance(error, StepFailedError) else type(error).__name__
    return "fits"


@workflow
async def gets(size: int) -> str:
    try:
        await makes(size)
    except StepFailedError as error:
        return error.kind
    return "fits"


@workflow
async def gives(size: int) -> bytes:
    return b"x" * size


@workflow
async def continues_with(size: int) -> Any:
    return ContinueAsNew(b"x" * size) if size else "end"


JUST_BELOW = 2 * MIB - 20


async def test_a_value_that_leaves_no_room_for_its_frame_is_refused_where_it_comes_from(temporal_stage: Stage) -> None:
    stage = temporal_stage
    assert await stage.run(hands_over, JUST_BELOW) == "LimitError"
    assert await stage.run(hands_over, 2_000_000) == "fits"
    assert await stage.run(gets, JUST_BELOW) == "encode"
    assert await stage.run(gets, 2_000_000) == "fits"
    assert len(await stage.run(gives, 2_000_000)) == 2_000_000
    for failing in (gives, continues_with):
        with pytest.raises(RunFailedError) as failed:
            await stage.run(failing, JUST_BELOW)
        assert isinstance(failed.value.__cause__, LimitError)
    run = await stage.start(goes_on, 0)
    with pytest.raises(LimitError):
        await run.signal("go", b"x" * JUST_BELOW)
    with pytest.raises(LimitError):
        await stage.app.start(takes_large, b"x" * JUST_BELOW, 1)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == "end"


@workflow
async def raises_long(size: int) -> None:
    raise ValueError("x" * size)


@step(max_attempts=2, backoff="1ms")
async def fails_long(size: int, *, fatal: bool = False) -> None:
    raise FatalError("y" * size) if fatal else ValueError("y" * size)


@workflow
async def has_a_failing_step(size: int) -> str:
    try:
        await fails_long(size)
    except StepFailedError as error:
        return f"{error.attempts} {type(error.__cause__).__name__}"
    return "no"


@pytest.mark.parametrize("size", [100_000, MIB, 3 * MIB])
async def test_an_error_with_a_long_text_fails_the_run(temporal_stage: Stage, size: int) -> None:
    stage = temporal_stage
    run = await stage.start(raises_long, size)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert type(failed.value.__cause__) is ValueError
    assert await stage.run(has_a_failing_step, size) == "2 ValueError"
