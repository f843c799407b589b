"""Steps in runs: what is recorded, retried, and handed to the code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import FatalError, heartbeat, now, step, step_info, workflow
from tenuto.errors import (
    EncodingError,
    NestingError,
    RunFailedError,
    StepExhaustedError,
    StepFailedError,
    StepOutcomeUnknownError,
    StepTimeoutError,
)
from tenuto.testing import Engine


async def test_a_run_goes_on_with_the_value_of_a_step(engine: Engine) -> None:  # M001
    @step
    async def double(n: int) -> int:
        return 2 * n

    @workflow
    async def run_it() -> int:
        return await double(4) + 1

    run = await engine.start(run_it)
    assert await run.result() == 9
    assert [(entry.location, entry.kind, entry.value) for entry in await run.history()] == [("double", "step", 8)]


async def test_a_step_that_always_raises_is_tried_three_times(engine: Engine) -> None:  # M002
    began: list[int] = []

    @step
    async def broken() -> None:
        began.append(engine.now_ms)
        raise KeyError("gone")

    @workflow
    async def run_it() -> Any:
        try:
            await broken()
        except StepFailedError as error:
            return type(error).__name__, error.kind, error.attempts, repr(error.__cause__)

    run = await engine.start(run_it)
    assert await run.result() == (StepExhaustedError.__name__, "exhausted", 3, "KeyError('gone')")
    assert [at - began[0] for at in began] == [0, 200, 600]


@pytest.mark.parametrize("error", [FatalError("x"), KeyError("x")])
async def test_a_fatal_error_is_not_retried(engine: Engine, error: Exception) -> None:  # M003
    attempts: list[int] = []

    @step(no_retry=(LookupError,))
    async def broken() -> None:
        attempts.append(step_info().attempt)
        raise error

    @workflow
    async def run_it() -> Any:
        try:
            await broken()
        except StepFailedError as failed:
            return type(failed).__name__, failed.kind, type(failed.__cause__).__name__

    run = await engine.start(run_it)
    assert await run.result() == ("StepFailedError", "fatal", type(error).__name__)
    assert attempts == [1]


async def test_a_step_that_may_run_once_is_not_run_again_after_a_crash(engine: Engine) -> None:  # M004
    attempts: list[int] = []
    never = asyncio.Event()

    @step(max_attempts=1)
    async def once() -> None:
        attempts.append(1)
        await never.wait()

    @workflow
    async def run_it() -> Any:
        try:
            await once()
        except StepOutcomeUnknownError as error:
            return error.kind, error.__cause__

    run = await engine.start(run_it)
    await engine.settle()
    engine.crash()
    assert await run.result() == ("interrupted", None)
    assert attempts == [1]


async def test_a_step_called_in_a_step_is_a_plain_call(engine: Engine) -> None:  # M005
    @step
    async def inner() -> int:
        return 1

    @step
    async def outer() -> int:
        return await inner() + await step("named", lambda: 1)

    @workflow
    async def run_it() -> int:
        return await outer()

    run = await engine.start(run_it)
    assert await run.result() == 2
    assert [entry.location for entry in await run.history()] == ["outer"]


async def test_types_are_the_same_on_the_first_run_and_on_replay(engine: Engine) -> None:  # M006
    seen: list[Any] = []

    @step
    async def mixed() -> Any:
        return (1, {2}, bytearray(b"x"))

    @step
    async def after() -> None: ...

    @workflow
    async def run_it() -> None:
        value = await mixed()
        seen.append(value)
        await after()

    run = await engine.start(run_it)
    await run.result()
    assert all(value == (1, {2}, b"x") and type(value[2]) is bytes for value in seen)


async def test_the_details_of_a_heartbeat_reach_the_next_attempt(engine: Engine) -> None:  # M007
    @step
    async def import_rows() -> Any:
        if step_info().attempt == 1:
            heartbeat({"row": 40})
            raise ConnectionError
        return step_info().details

    @workflow
    async def run_it() -> Any:
        return await import_rows()

    assert await (await engine.start(run_it)).result() == {"row": 40}


async def test_an_idempotency_key_is_stable_over_attempts_and_differs_between_calls(engine: Engine) -> None:
    keys: list[str] = []

    @step
    async def work() -> None:
        keys.append(step_info().idempotency_key)
        if step_info().attempt == 1:
            raise ConnectionError

    @workflow
    async def run_it() -> None:
        await work()
        await work()

    run = await engine.start(run_it, id="r")
    await run.result()
    assert keys == ["r:0:work"] * 2 + ["r:0:work#2"] * 2


async def test_a_named_function_is_a_step(engine: Engine) -> None:
    @workflow
    async def run_it() -> Any:
        first = await step("first", lambda n: n + 1, 1)
        second = await step("second", sorted, [3, first], max_attempts=1)
        return second

    run = await engine.start(run_it)
    assert await run.result() == [2, 3]
    assert [entry.location for entry in await run.history()] == ["first", "second"]


async def test_a_step_gets_its_arguments_as_they_were_at_the_call(engine: Engine) -> None:
    @step
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @workflow
    async def run_it() -> int:
        numbers = [1, 2]
        pending = total(numbers)
        numbers.append(3)
        return await pending

    assert await (await engine.start(run_it)).result() == 3


async def test_arguments_that_cannot_be_stored_are_refused_at_the_call_and_take_no_place(engine: Engine) -> None:
    @step
    async def work(value: object) -> int:
        return 1

    @workflow
    async def run_it() -> int:
        with pytest.raises(EncodingError):
            work(object())
        with pytest.raises(TypeError):
            work()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        return await work(1)

    run = await engine.start(run_it)
    assert await run.result() == 1
    assert [entry.location for entry in await run.history()] == ["work"]


async def test_step_info_in_workflow_code_is_refused(engine: Engine) -> None:
    @workflow
    async def run_it() -> None:
        for call in (step_info, heartbeat):
            with pytest.raises(NestingError):
                call()

    await (await engine.start(run_it)).result()


async def test_a_workflow_called_in_a_run_is_refused_but_its_body_can_be_run(engine: Engine) -> None:
    @step
    async def work() -> int:
        return 1

    @workflow
    async def part() -> int:
        return await work()

    @workflow
    async def run_it() -> int:
        with pytest.raises(NestingError, match="spawn"):
            part()
        return await part.fn() + 1  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]

    run = await engine.start(run_it)
    assert await run.result() == 2
    assert [entry.location for entry in await run.history()] == ["work"]


# --- timeouts


async def test_an_attempt_that_hangs_is_followed_by_another(engine: Engine) -> None:  # M101
    never = asyncio.Event()

    @step(timeout=1)
    async def slow() -> str:
        if step_info().attempt == 1:
            await never.wait()
        return "v"

    @workflow
    async def run_it() -> str:
        return await slow()

    assert await (await engine.start(run_it)).result() == "v"


async def test_three_attempts_that_hang_are_a_step_timeout_error(engine: Engine) -> None:  # M101
    never = asyncio.Event()

    @step(timeout=1)
    async def slow() -> None:
        await never.wait()

    @workflow
    async def run_it() -> Any:
        try:
            await slow()
        except StepTimeoutError as error:
            return error.kind, error.attempts, type(error.__cause__).__name__

    assert await (await engine.start(run_it)).result() == ("timeout", 3, "TimeoutError")


# --- undoing


async def test_a_failed_run_undoes_its_steps_after_the_last_checkpoint(engine: Engine) -> None:  # M107
    from tenuto import rollback_checkpoint

    undone: list[str] = []

    def undo(result: str) -> None:
        undone.append(result)

    @step(rollback=undo)
    async def book(what: str) -> str:
        return what

    @workflow
    async def run_it() -> None:
        await book("a")
        rollback_checkpoint("sent")
        await book("b")
        await book("c")
        raise ValueError("no")

    run = await engine.start(run_it)
    with pytest.raises(RunFailedError) as raised:
        await run.result()
    assert isinstance(raised.value.__cause__, ValueError)
    assert undone == ["c", "b"]


async def test_the_time_after_a_step_is_that_of_its_result(engine: Engine) -> None:  # M010
    from tenuto import sleep

    seen: list[Any] = []

    @step
    async def work() -> None: ...

    @workflow
    async def run_it() -> Any:
        times = [now(), now()]
        await sleep(5)
        await work()
        times.append(now())
        seen.append(times)
        await work()
        return [(at - times[0]).total_seconds() for at in times]

    assert await (await engine.start(run_it)).result() == [0, 0, 5]
    assert all(times == seen[0] for times in seen)
