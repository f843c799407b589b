"""Steps, time and chance: the same on every engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, add_numbers, fresh, held, hold, note

from tenuto import (
    FatalError,
    RetryableError,
    heartbeat,
    join,
    now,
    rollback_checkpoint,
    run_info,
    sleep,
    sleep_until,
    step,
    step_info,
    uuid4,
    workflow,
)
from tenuto.errors import RunFailedError, StepExhaustedError, StepFailedError, StepTimeoutError


@workflow
async def adds() -> int:
    return await add_numbers(1, await add_numbers(2, 3))


async def test_a_run_goes_on_with_what_its_steps_returned(stage: Stage) -> None:
    """M001"""
    run = await stage.start(adds)
    assert await run.result(timeout=LIMIT) == 6
    assert [(entry.location, entry.value) for entry in await run.history()] == [
        ("add_numbers", 5),
        ("add_numbers#2", 6),
    ]


@step(backoff="20ms")
async def always_fails(key: str) -> None:
    EFFECTS[key].append(step_info().attempt)
    raise ValueError(f"attempt {step_info().attempt}")


@workflow
async def exhausts(key: str) -> tuple[Any, ...]:
    try:
        await always_fails(key)
    except StepExhaustedError as error:
        return type(error).__name__, error.kind, error.attempts, error.location, repr(error.__cause__)
    return ()


async def test_a_step_that_always_raises_is_exhausted_after_three_attempts(stage: Stage) -> None:
    """M002"""
    key = fresh("exhausts")
    assert await stage.run(exhausts, key) == (
        "StepExhaustedError",
        "exhausted",
        3,
        "always_fails",
        "ValueError('attempt 3')",
    )
    assert EFFECTS[key] == [1, 2, 3]


@step
async def fatal(key: str) -> None:
    EFFECTS[key].append(1)
    raise FatalError("x")


@step(no_retry=(LookupError,))
async def listed(key: str) -> None:
    EFFECTS[key].append(1)
    raise KeyError("x")


@workflow
async def gives_up(key: str) -> list[Any]:
    seen: list[Any] = []
    for name, chosen in (("fatal", fatal), ("listed", listed)):
        try:
            await chosen(key)
        except StepFailedError as error:
            seen.append([name, error.kind, error.attempts, type(error.__cause__).__name__])
    return seen


async def test_a_fatal_error_or_a_listed_class_is_not_tried_again(stage: Stage) -> None:
    """M003"""
    key = fresh("fatal")
    assert await stage.run(gives_up, key) == [["fatal", "fatal", 1, "FatalError"], ["listed", "fatal", 1, "KeyError"]]
    assert EFFECTS[key] == [1, 1]


@step
async def outer(key: str) -> int:
    return await note(key, 1) + 1


@workflow
async def nests(key: str) -> int:
    return await outer(key)


async def test_a_step_called_in_a_step_is_a_plain_call(stage: Stage) -> None:
    """M005"""
    run = await stage.start(nests, fresh("nests"))
    assert await run.result(timeout=LIMIT) == 2
    assert [entry.location for entry in await run.history()] == ["outer"]


@step
def odd_values() -> Any:
    return (1, {2}, bytearray(b"x"))


@workflow
async def takes_odd_values() -> list[str]:
    return [type(item).__name__ for item in await odd_values()] + [type(await odd_values()).__name__]


async def test_what_a_step_returned_has_the_same_types_on_every_engine(stage: Stage) -> None:
    """M006"""
    assert await stage.run(takes_odd_values) == ["int", "set", "bytes", "tuple"]


@step(backoff="10ms")
async def resumes_from_details() -> Any:
    info = step_info()
    if info.attempt == 1:
        heartbeat({"row": 40})
        raise RuntimeError("broken off")
    return info.details


@workflow
async def imports_rows() -> Any:
    return await resumes_from_details()


async def test_the_next_attempt_has_the_details_of_the_last_heartbeat(stage: Stage) -> None:
    """M007"""
    assert await stage.run(imports_rows) == {"row": 40}


@step
async def asks_for_time(key: str) -> int:
    attempt = step_info().attempt
    EFFECTS[key].append(attempt)
    if attempt == 1:
        raise RetryableError("later", after="30ms")
    return attempt


@workflow
async def retries_when_told(key: str) -> int:
    return await asks_for_time(key)


async def test_a_step_may_say_when_to_try_again(stage: Stage) -> None:
    assert await stage.run(retries_when_told, fresh("retry")) == 2


@step
def key_of_step() -> tuple[str, Any, int]:
    info = step_info()
    return info.idempotency_key, info.run_id, info.attempt


@workflow
async def asks_for_keys() -> list[Any]:
    return [await key_of_step(), await key_of_step()]


async def test_idempotency_keys_are_made_of_run_and_location(stage: Stage) -> None:
    run = await stage.start(asks_for_keys)
    assert await run.result(timeout=LIMIT) == [
        (f"{run.id}:0:key_of_step", run.id, 1),
        (f"{run.id}:0:key_of_step#2", run.id, 1),
    ]


@workflow
async def naps() -> Any:
    begin = now()
    await sleep(0)
    await sleep("60ms")
    await sleep_until(begin)
    middle = now()
    await asyncio.sleep(0.03)
    try:
        async with asyncio.timeout(0.02):
            await asyncio.Event().wait()
    except TimeoutError:
        return (
            (middle - begin).total_seconds() >= 0.06,
            now() > middle,
            begin == run_info().started_at or begin <= now(),
        )


async def test_waiting_takes_at_least_as_long_as_was_asked_for(stage: Stage) -> None:
    """M009, M010"""
    run = await stage.start(naps)
    assert await run.result(timeout=LIMIT) == (True, True, True)
    places = [entry.location for entry in await run.history() if entry.status != "cancelled"]
    assert places == ["sleep", "sleep#2", "sleep#3", "timer", "timer#2"]


@workflow
async def draws() -> Any:
    first = now(), now()
    return first[0] == first[1], uuid4() != uuid4(), str(uuid4())


async def test_time_stands_still_and_chance_is_the_runs_own(stage: Stage) -> None:
    """M010, M011"""
    one = await stage.run(draws, id=(run_id := fresh("draws")))
    assert one[:2] == (True, True)
    assert await stage.app.get(run_id).result(timeout=LIMIT) == one


@step(timeout="150ms", backoff="10ms")
async def hangs(key: str, times: int) -> str:
    EFFECTS[key].append(step_info().attempt)
    if step_info().attempt <= times:
        await asyncio.Event().wait()
    return "in time"


@workflow
async def waits_for_hanging(key: str, times: int) -> Any:
    try:
        return await hangs(key, times)
    except StepTimeoutError as error:
        return error.kind, error.attempts, type(error.__cause__).__name__


async def test_a_hanging_attempt_is_stopped_and_tried_again(stage: Stage) -> None:
    """M101"""
    assert await stage.run(waits_for_hanging, key := fresh("hangs"), 1) == "in time"
    assert EFFECTS[key] == [1, 2]
    assert await stage.run(waits_for_hanging, fresh("hangs"), 3) == ("timeout", 3, "TimeoutError")


@step(heartbeat_timeout="100ms", max_attempts=2, backoff="10ms")
async def falls_silent() -> str:
    heartbeat("once")
    if step_info().attempt == 1:
        await asyncio.Event().wait()
    return f"after {step_info().details}"


@workflow
async def listens_to_silence() -> str:
    return await falls_silent()


async def test_a_step_that_falls_silent_is_timed_out(stage: Stage) -> None:
    assert await stage.run(listens_to_silence) == "after once"


@workflow
async def names_functions(key: str) -> list[Any]:
    def plain(number: int) -> int:
        return number * 2

    async def fails_once() -> int:
        EFFECTS[key].append(step_info().attempt)
        if step_info().attempt == 1:
            raise ValueError("once")
        return step_info().attempt

    return [await step("plain", plain, 21), await step("again", fails_once, backoff="10ms")]


async def test_a_function_named_in_place_is_a_step_too(stage: Stage) -> None:
    run = await stage.start(names_functions, key := fresh("named"))
    assert await run.result(timeout=LIMIT) == [42, 2]
    assert EFFECTS[key] == [1, 2]
    assert [entry.location for entry in await run.history()] == ["plain", "again"]


# --- undoing


async def undo(what: Any) -> None:
    key, name = what
    EFFECTS[key].append(f"undo {name}")


@step(rollback=undo)
async def book(key: str, name: str) -> Any:
    EFFECTS[key].append(name)
    return key, name


@workflow
async def books(key: str) -> None:
    await book(key, "a")
    rollback_checkpoint("paid")
    await book(key, "b")

    async def close(_: Any) -> None:
        EFFECTS[key].append("undo c")

    await step("c", note.fn, key, "c", rollback=close)
    raise RuntimeError("no stock")


async def test_steps_after_the_checkpoint_are_undone_in_reverse(stage: Stage) -> None:
    """M107, the part that does not need removed()"""
    key = fresh("books")
    run = await stage.start(books, key)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=LIMIT)
    assert repr(failed.value.__cause__) == "RuntimeError('no stock')"
    assert EFFECTS[key] == ["a", "b", "c", "undo c", "undo b"]


async def test_a_run_waits_for_a_step_and_is_seen_to(stage: Stage) -> None:
    gate = held(name := fresh("seen"))
    run = await stage.start(waits_once, name)
    await gate.until_entered()
    assert await run.status() == "running"
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == "through"
    assert await run.status() == "completed"


@workflow
async def waits_once(name: str) -> Any:
    return await hold(name, "through")


@workflow
async def goes_deep(name: str, depth: int) -> Any:
    async def below(left: int) -> Any:
        if not left:
            await sleep("1ms", name=name)
            return await add_numbers.options(name=name)(1, 2)
        return (await join({name: lambda: below(left - 1)}, name=name))[name]

    return await below(depth)


async def test_long_names_in_deep_places_work(stage: Stage) -> None:
    assert await stage.run(goes_deep, "ä" * 120, 6) == 3
