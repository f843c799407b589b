"""Options become limits, retries, queues and ids."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.errors import RunFailedError

from .conftest import World


async def failing(world: World, name: str, *args: Any) -> Any:
    with pytest.raises(RunFailedError) as raised:
        await world.result(name, *args)
    return raised.value.__cause__


WORK = "\nactivity Work() -> (string):\n    # bound\n"


async def test_an_activity_over_its_whole_time_is_cancelled_and_raises_timeout(world: World) -> None:
    world.activity("Work", "late", takes="1h")
    world.load(
        "workflow W() -> (string):\n    activity Work() -> w\n"
        "        options(scheduleToCloseTimeout: 5m)\n    close w\n" + WORK
    )
    failure = await failing(world, "W")
    assert (failure.type, failure.source) == ("Timeout", "Work")
    assert world.elapsed == 300
    await world.settle()
    assert world.cancelled == ["Work"]


async def test_a_limit_that_is_kept_leaves_no_timer(world: World) -> None:
    world.activity("Work", "done", takes="1m")
    world.load(
        "workflow W() -> (string):\n    activity Work() -> w\n"
        "        options(scheduleToCloseTimeout: 5m)\n    close w\n" + WORK
    )
    run = await world.start("W")
    assert await run.result() == "done"
    assert [entry.location for entry in await run.history()] == ["Work"]


async def test_exhausted_attempts_over_time_have_the_type_timeout(world: World) -> None:
    world.activity("Work", "late", takes="1h")
    world.load(
        "workflow W() -> (string):\n    activity Work() -> w\n"
        "        options(startToCloseTimeout: 1s, retryPolicy: {maxAttempts: 2})\n    close w\n" + WORK
    )
    failure = await failing(world, "W")
    assert failure.type == "Timeout"
    assert world.count("Work") == 2


async def test_a_type_that_is_not_to_be_retried_is_tried_once(world: World) -> None:
    world.activity("Work", fails=KeyError("gone"))
    world.load(
        "workflow W() -> (string):\n    activity Work() -> w\n"
        '        options(retryPolicy: {nonRetryableErrorTypes: ["KeyError"]})\n    close w\n' + WORK
    )
    assert (await failing(world, "W")).type == "KeyError"
    assert world.count("Work") == 1


async def test_a_type_raised_by_statements_is_not_retried_either(world: World) -> None:
    world.b.function("tick")(lambda: world.calls.append(("tick", ())))
    world.load(
        """
workflow W():
    activity Work()
        options(retryPolicy: {nonRetryableErrors: ["Bad"], maxAttempts: 4})

activity Work():
    tick()
    fail("no", type: "Bad")
"""
    )
    assert (await failing(world, "W")).type == "Bad"
    assert world.count("tick") == 1


async def test_intervals_double_from_the_first_to_the_longest(world: World) -> None:
    world.activity("Work", fails=ValueError("no"))
    world.load(
        "workflow W() -> (string):\n    activity Work() -> w\n"
        "        options(retryPolicy: R{maxAttempts: 4, initialInterval: 1s, maximumInterval: 3s})\n    close w\n"
        + WORK
    )
    await failing(world, "W")
    assert world.elapsed == 1 + 2 + 3


async def test_options_of_a_definition_may_name_its_parameters(world: World) -> None:
    world.activity("Ship", "shipped")
    world.load(
        """
workflow W() -> (string):
    activity Ship({tenant: "acme"}) -> s
    close s

activity Ship(order: Order) -> (string):
    options(taskQueue: "t-{order.tenant}")
    # bound
"""
    )
    run = await world.start("W")
    queues: list[str] = []
    kept = world.engine.store.commit

    async def commit(turn: Any) -> Any:
        queues.extend(task.queue for task in turn.tasks)
        return await kept(turn)

    world.engine.store.commit = commit  # type: ignore[method-assign]
    assert await run.result() == "shipped"
    assert queues == ["t-acme"]


async def test_a_child_has_the_priority_of_its_options(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    workflow Kid() -> k
        options(priority: 7)
    close k

workflow Kid() -> (string):
    close "done"
"""
    )
    run = await world.start("W")
    priorities: list[int] = []
    kept = world.engine.store.commit

    async def commit(turn: Any) -> Any:
        priorities.extend(new.priority for new in turn.runs)
        return await kept(turn)

    world.engine.store.commit = commit  # type: ignore[method-assign]
    assert await run.result() == "done"
    assert priorities == [7]


async def test_a_child_is_started_again_under_a_numbered_id(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    workflow Kid() -> k
        options(workflowId: "kid", retryPolicy: {maximumAttempts: 3, initialInterval: 1s})
    close k

workflow Kid() -> (string):
    close failed "no"
"""
    )
    failure = await failing(world, "W")
    assert (failure.message, failure.source) == ("no", "Kid")
    assert sorted(record.id for record in await world.engine.store.runs() if record.target == "Kid") == [
        "kid",
        "kid~2",
        "kid~3",
    ]


async def test_a_child_over_its_time_is_asked_to_cancel(world: World) -> None:
    world.load(
        """
workflow W() -> (string):
    workflow Kid() -> k
        options(timeout: 1m, workflowId: "kid")
    close k

workflow Kid() -> (string):
    await timer(1h)
    close "late"
"""
    )
    failure = await failing(world, "W")
    assert (failure.type, failure.source) == ("Timeout", "Kid")
    await world.engine.settle()
    assert await world.engine.get("kid").status() == "cancelled"


async def test_the_time_of_a_definition_is_over_the_chain(world: World) -> None:
    world.load(
        """
workflow Chain(n: int) -> (int):
    options(workflowExecutionTimeout: 150s)
    await timer(1m)
    continue_as_new(n + 1)
"""
    )
    failure = await failing(world, "Chain", 0)
    assert failure.type == "Timeout"
    assert world.elapsed == 150


async def test_the_time_of_one_run_begins_anew_with_the_next(world: World) -> None:
    world.load(
        """
workflow Chain(n: int) -> (int):
    options(workflowRunTimeout: 90s)
    await timer(1m)
    if (n == 3):
        close n
    continue_as_new(n + 1)
"""
    )
    assert await world.result("Chain", 0) == 3
    assert world.elapsed == 240


async def test_an_id_that_is_in_use_raises_at_the_call(world: World) -> None:
    world.load(
        """
workflow W():
    detach workflow Kid()
        options(workflowId: "kid")
    workflow Kid()
        options(workflowId: "kid")

workflow Kid():
    await timer(1s)
"""
    )
    assert (await failing(world, "W")).type == "ChildStartError"


async def test_an_option_that_does_not_fit_fails_the_run(world: World) -> None:
    world.activity("Work")
    world.load(
        "workflow W() -> (string):\n    x = 5\n    activity Work() -> w\n"
        "        options(startToCloseTimeout: x)\n    close w\n" + WORK
    )
    failure = await failing(world, "W")
    assert (failure.code, failure.line) == ("TWF502", 3)
