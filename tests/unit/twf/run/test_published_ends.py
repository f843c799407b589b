"""Queries after the end see what the ending turn did to the variables, however the run ended (twf.md 10.3, rule 7)."""

from __future__ import annotations

import pytest

from tenuto.errors import RunCancelledError, RunFailedError

from .conftest import World

HEAD = """
workflow W() -> (string):
    query Status() -> (string):
        return status
    signal Change(to: string):
        status = to
        ATSIGNAL
    status = "charging"
    activity Charge() -> r
    status = "declined"
    END

activity Charge() -> (int):
    return 1

activity Refuse() -> (int):
    fail("no", retryable: false)
"""


def program(end: str, at_signal: str = "n = 1") -> str:
    return HEAD.replace("END", end).replace("ATSIGNAL", at_signal)


@pytest.mark.parametrize(
    "end",
    [
        'close failed Declined{message: "card declined"}',
        'close failed "no"',
        "x = 1 / 0",
        "x = [1][1]",
        "x = null.f",
        "x = nowhere.f",
        "continue_as_new(1, 2)",
        "activity Refuse()",
    ],
)
async def test_a_failed_run_is_seen_as_its_last_turn_left_it(world: World, end: str) -> None:
    if end == "x = null.f":
        end = "y = null\n    x = y.f"
    world.load(program(end))
    run = await world.start("W")
    with pytest.raises(RunFailedError):
        await run.result()
    world.engine.crash()
    assert await run.query("Status") == "declined"


@pytest.mark.parametrize("end", ['close "ok"', 'return "ok"', "x = 1"])
async def test_a_completed_run_too(world: World, end: str) -> None:
    world.load(program(end))
    run = await world.start("W")
    await run.result()
    assert await run.query("Status") == "declined"


async def test_a_failing_signal_handler_leaves_what_it_changed_before(world: World) -> None:
    world.load(program("await timer(1h)", at_signal="x = 1 / 0"))
    run = await world.start("W")
    await world.engine.settle()
    await run.signal("Change", "broken")
    with pytest.raises(RunFailedError):
        await run.result()
    assert await run.query("Status") == "broken"


async def test_a_cancelled_run_is_seen_with_what_came_in_the_same_turn(world: World) -> None:
    world.load(program("await timer(1h)"))
    run = await world.start("W")
    await world.engine.settle()
    await run.signal("Change", "on the way")
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result()
    world.engine.crash()
    assert await run.query("Status") == "on the way"


async def test_a_run_over_its_time_limit_is_seen_as_it_was(world: World) -> None:
    world.load(
        program("await timer(1h)").replace(
            "workflow W() -> (string):", "workflow W() -> (string):\n    options(timeout: 10m)"
        )
    )
    run = await world.start("W")
    with pytest.raises(RunFailedError):
        await run.result()
    assert await run.query("Status") == "declined"


async def test_a_parked_turn_publishes_nothing(world: World) -> None:
    world.load(program("notify(1)"))
    run = await world.start("W")
    await world.engine.settle()
    assert await run.status() == "parked"
    assert await run.query("Status") == "charging"
