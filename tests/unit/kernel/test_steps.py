"""Steps: attempts, retries, markers, tasks, keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tenuto import ContinueAsNew, FatalError, Retry, RollbackError, join, now, sleep, step
from tenuto.codec.values import dump, load
from tenuto.errors import (
    EncodingError,
    LimitError,
    RemoteError,
    StepExhaustedError,
    StepFailedError,
    StepOutcomeUnknownError,
    StepTimeoutError,
)
from tenuto.host.runner import perform
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import CancelStep, EnqueueTask, RunStep, StartTimer
from tenuto.kernel.operations import Continued, Err, StepSpec
from tenuto.kernel.records import StepStatus
from tenuto.model.steps import Attempt


def work(*args: Any) -> None: ...


async def one_step() -> Any:
    return await step("a", work)


async def then_wait() -> Any:
    """One step, its value, and then something that keeps the run open."""
    value = await step("a", work)
    await sleep("1h")
    return value


@step(queue="printers", name="tests.kernel.printed")
async def printed(page: int) -> str:
    return f"page {page}"


@step(name="tests.kernel.named")
async def named(value: int) -> int:
    return value


# --- results


def test_a_step_that_returned_none_is_not_run_again(drive):
    """K045"""
    run = drive(then_wait)
    run.turn()
    run.turn(run.ok("a", None))
    entry = run.history["a"]
    assert (entry.kind.status, entry.kind.output) == (StepStatus.COMPLETED, b"\xf6")
    run.again()
    assert run.released() == []
    run.turn(now=3_600_000)
    assert run.result is None


def test_each_use_of_a_name_in_a_scope_has_its_own_result(drive):
    """K056"""

    async def body() -> Any:
        return [await step("a", work), await step("a", work)]

    run = drive(body, crash=True)
    run.turn()
    assert run.released() == ["a"]
    run.turn(run.ok("a", 1))
    assert run.released() == ["a#2"]
    run.turn(run.ok("a#2", 2))
    assert run.result == [1, 2]
    assert set(run.history) == {"a", "a#2"}


def test_a_value_reaches_the_code_as_it_will_on_replay(drive):
    """3.1: `load(dump(x))` on the first run too; the entry cannot be changed by the code"""
    seen = []

    async def body() -> Any:
        value = await step("a", work)
        seen.append(repr(value))
        value["list"].append("mutated")
        await step("b", work)
        return value

    run = drive(body)
    run.turn()
    run.turn(run.ok("a", {"list": [(1, 2)], 3: {4}}))
    run.again()
    run.turn(run.ok("b"))
    assert seen == ["{'list': [(1, 2)], 3: {4}}"] * 2
    assert load(run.history["a"].kind.output) == {"list": [(1, 2)], 3: {4}}


async def test_a_result_is_encoded_the_moment_the_step_returns():
    """1.1: later mutation of what was returned cannot reach history"""
    kept: list[list[int]] = []

    async def gives() -> list[int]:
        kept.append([1, 2])
        return kept[0]

    command = RunStep(("a",), 1, step_call(gives), StepSpec("a"), "key")
    outcome = await perform(command, Attempt(command, "r"))
    kept[0].append(3)
    assert load(outcome.value) == [1, 2]


def step_call(fn: Any) -> Any:
    from tenuto.model.decorators import _Named
    from tenuto.model.steps import StepCall

    return StepCall(_Named(fn), ())


# --- retries


def test_a_step_that_fails_twice_is_tried_at_0_200_and_600(drive):
    """K046"""
    run = drive(one_step)
    tried = []

    def flaky(attempt: int) -> str:
        tried.append((attempt, run.now))
        if attempt < 3:
            raise ValueError(f"attempt {attempt}")
        return "good"

    assert run.perform({"a": flaky}) == "good"
    assert tried == [(1, 0), (2, 200), (3, 600)]
    assert list(run.history) == ["a"]
    assert run.metadata["a"].attempts == 3
    assert run.metadata["a"].retry_at is None


def test_a_failed_attempt_is_one_batch_with_entry_metadata_and_alarm(drive):
    """3.2, row "failed attempt" """
    run = drive(one_step)
    run.turn()
    turn = run.turn(run.err("a", ValueError("no")), now=50)
    assert run.written == ["a"]
    assert run.history["a"].kind.status is StepStatus.WAITING
    assert run.metadata["a"].retry_at == 1_700_000_000_250
    assert isinstance(load(run.metadata["a"].error), ValueError)
    assert run.alarm == 250
    assert [type(command) for command in turn.commands] == [StartTimer]
    assert turn.batch.state == "suspended"
    turn = run.turn(now=250)
    assert run.released() == ["a"]
    assert turn.batch.entries == ()  # the retry itself writes nothing of the step
    assert turn.batch.metadata == ()


def test_the_last_failure_ends_the_step_in_its_own_turn(drive):
    """K047"""
    caught = []

    async def body() -> Any:
        try:
            await step("a", work)
        except StepExhaustedError as error:
            caught.append(error)
        await sleep("1h")

    run = drive(body)
    run.turn()
    for attempt, at in ((1, 0), (2, 200)):
        run.turn(run.err("a", ValueError(f"try {attempt}"), attempt), now=at)
        run.turn(now=at + 200 * attempt)
    assert caught == []
    run.turn(run.err("a", ValueError("try 3"), 3), now=600)
    [error] = caught
    assert (error.attempts, error.kind, error.name, error.location, error.code) == (3, "exhausted", "a", "a", "TN115")
    assert repr(error.__cause__) == "ValueError('try 3')"
    assert run.alarm == 600 + 3_600_000  # of the sleep; none of the step
    assert run.history["a"].kind.status is StepStatus.FAILED
    run.again()
    assert [type(error) for error in caught] == [StepExhaustedError] * 2
    assert (caught[1].attempts, repr(caught[1].__cause__)) == (3, "ValueError('try 3')")


def test_an_exhausted_step_leaves_no_alarm(drive):
    """K047"""
    run = drive(one_step)

    def fails(attempt: int) -> None:
        raise ValueError(str(attempt))

    with pytest.raises(StepExhaustedError):
        run.perform({"a": fails})
    assert run.alarm is None
    assert run.now == 600


def test_the_delay_doubles_up_to_its_cap(drive):
    """K048"""

    async def body() -> Any:
        await step("a", work, max_attempts=12)

    run = drive(body)
    run.turn()
    delays = []
    for attempt in range(1, 12):
        run.turn(run.err("a", ValueError("no"), attempt))
        delays.append(run.alarm - run.now)
        run.turn(now=run.alarm)
    assert delays == [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000]


def test_delays_are_rounded_up_to_whole_milliseconds(drive):
    """3.3"""

    async def body() -> Any:
        await step("a", work, retry=Retry(max_attempts=3, base=0.0001, cap="1s"))

    run = drive(body)
    run.turn()
    run.turn(run.err("a", ValueError("no")))
    assert run.alarm == 1


def test_waking_a_waiting_step_early_changes_nothing(drive):
    """K049"""
    run = drive(one_step)
    run.turn()
    run.turn(run.err("a", ValueError("no")))
    before = dict(run.kv)
    run.turn(now=150)
    assert (run.released(), run.alarm) == ([], 200)
    run.reload()
    run.turn(now=150)
    assert (run.released(), run.alarm) == ([], 200)
    assert run.metadata["a"].attempts == 1
    assert run.kv == before
    turn = run.turn(now=200)
    assert [(command.location, command.attempt) for command in turn.commands] == [(("a",), 2)]


def test_a_step_may_ask_for_its_own_delay(drive):
    """K050: the runner hands on what a RetryableError asked for; it is not capped"""
    run = drive(one_step)
    run.turn()
    run.turn(run.err("a", ValueError("later"), after_ms=60_000))
    assert run.alarm == 60_000
    assert run.metadata["a"].attempts == 1


@pytest.mark.parametrize("error", [FatalError("x"), RollbackError("x"), KeyError("x")])
def test_a_fatal_error_is_not_retried(drive, error):
    """K051"""

    async def body() -> Any:
        await step("a", work, no_retry=(LookupError,))

    run = drive(body)
    run.turn()
    run.turn(run.err("a", error))
    with pytest.raises(StepFailedError) as failed:
        run.result
    assert type(failed.value) is StepFailedError
    assert (failed.value.kind, failed.value.attempts, failed.value.code) == ("fatal", 1, "TN114")
    assert type(failed.value.__cause__) is type(error)
    assert run.metadata["a"].attempts == 1
    assert run.alarm is None


def test_attempts_that_ran_out_of_time_end_as_a_timeout(drive):
    """K052"""

    async def body() -> Any:
        await step("a", work, timeout=5, max_attempts=2)

    run = drive(body)
    turn = run.turn()
    assert turn.commands[0].timeout_ms == 5_000
    run.turn(run.timed_out("a"), now=5_000)
    assert run.alarm == 5_200
    before = dict(run.kv)
    run.turn(run.ok("a", "late"), now=5_100)
    assert run.kv == before
    run.turn(now=5_200)
    assert run.released() == ["a"]
    run.turn(run.ok("a", "very late", attempt=1), now=5_300)
    assert run.outcome is None
    run.turn(run.timed_out("a", attempt=2), now=10_200)
    with pytest.raises(StepTimeoutError) as failed:
        run.result
    assert (failed.value.attempts, failed.value.kind) == (2, "timeout")
    assert isinstance(failed.value.__cause__, TimeoutError)


@pytest.mark.parametrize("sort", ["open file", "too large"])
async def test_a_result_that_cannot_be_stored_fails_the_step_at_once(drive, tmp_path, sort):
    """K053"""
    path = tmp_path / "f"
    path.write_text("x")

    async def gives() -> Any:
        if sort == "too large":
            return b"x" * (2 * 1024 * 1024 + 1)
        with path.open() as file:
            return {"items": [1, file]}

    run = drive(one_step)
    [command] = run.turn().commands
    outcome = await perform(command._replace(call=step_call(gives)), Attempt(command, "r"))
    assert isinstance(outcome, Err)
    assert outcome.unencodable
    run.turn(run.ok("a")._replace(outcome=outcome))
    with pytest.raises(StepFailedError) as failed:
        run.result
    assert (failed.value.kind, failed.value.attempts) == ("encode", 1)
    cause = failed.value.__cause__
    if sort == "too large":
        assert isinstance(cause, LimitError)
        assert (cause.limit, cause.code) == (2 * 1024 * 1024, "TN218")
    else:
        assert isinstance(cause, EncodingError)
        assert (cause.path, cause.code) == ("$.items[1]", "TN129")
        assert "TextIOWrapper" in cause.type_name
    assert run.history["a"].kind.status is StepStatus.FAILED
    assert run.history["a"].kind.output is None


def test_failures_do_not_move_run_time(drive):
    """K060"""
    times: list[datetime] = []

    async def body() -> Any:
        times.append(now())
        await join({"flaky": lambda: step("a", work), "look": look})

    async def look() -> None:
        await step("b", work)
        times.append(now())

    run = drive(body)
    run.turn()
    run.turn(run.err("join/flaky/a", ValueError("no")), now=50)
    assert run.rows.history[0][1].at == 0
    assert run.run.journal.time == 1_700_000_000_000
    run.turn(run.ok("join/look/b"), now=60)
    run.turn(now=250)
    assert run.run.journal.time == 1_700_000_000_060  # the retry did not move it either
    assert [round(time.timestamp() * 1000) - 1_700_000_000_000 for time in times] == [0, 60]


# --- crashes


def test_a_step_that_was_cut_off_is_tried_again_as_attempt_one(drive):
    """K055"""
    run = drive(one_step)
    run.turn()
    before = dict(run.kv)
    turn = run.again()
    assert run.kv == before
    assert run.history == {}
    assert [(command.location, command.attempt) for command in turn.commands] == [(("a",), 1)]


async def at_most_once() -> Any:
    try:
        return await step("a", work, max_attempts=1)
    except StepOutcomeUnknownError as error:
        return error


def test_a_step_that_may_run_once_is_marked_before_it_is_released(drive):
    """K054"""
    run = drive(at_most_once)
    turn = run.turn()
    assert [(at, entry.kind.status) for at, entry in turn.batch.entries] == [(("a",), StepStatus.STARTED)]
    assert run.released() == ["a"]
    run.turn(run.ok("a", 1))
    assert run.result == 1


def test_a_marked_step_found_on_load_is_never_run_again(drive):
    """3.2, section 7: at-most-once step run twice"""
    run = drive(at_most_once)
    run.turn()
    run.again()
    assert run.released() == []
    error = run.result
    assert isinstance(error, StepOutcomeUnknownError)
    assert (error.kind, error.attempts, error.code, error.__cause__) == ("interrupted", 1, "TN117", None)
    assert run.history["a"].kind.status is StepStatus.FAILED


def test_a_marker_that_was_not_committed_does_not_count(drive):
    """3.2: the marker is in the batch before the step is released"""
    run = drive(at_most_once)
    run.peek()
    run.again()  # the commit failed
    assert run.released() == ["a"]


def test_a_failed_step_is_not_retried_on_replay(drive):
    """section 7: terminal failure retried on replay; error class changes on replay"""
    seen: list[BaseException] = []

    async def body() -> Any:
        try:
            await step("a", work)
        except StepFailedError as error:
            seen.append(error)
        await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.err("a", FatalError("never")))
    run.again()
    assert run.released() == ["b"]
    first, second = seen
    assert type(first) is type(second) is StepFailedError
    assert vars(first) == vars(second)
    assert repr(first.__cause__) == repr(second.__cause__)


# --- keys


def test_the_idempotency_key_of_a_step_is_the_same_for_every_attempt_and_only_for_it(drive):
    """K057"""

    async def body(generation: int = 0) -> Any:
        await step("a", work)
        await join({"x": one_step})
        return ContinueAsNew(1)

    run = drive(body)
    first = run.turn().commands[0].key
    run.turn(run.err("a", ValueError("no")))
    second = run.turn(now=200).commands[0].key
    third = run.again().commands[0].key
    assert first == second == third == "r:0:a"
    elsewhere = run.turn(run.ok("a", attempt=2)).commands[0].key
    assert elsewhere == "r:0:join/x/a"
    turn = run.turn(run.ok("join/x/a"))
    assert isinstance(turn.outcome, Continued)
    again = drive(body, run_id="r")
    from tenuto.kernel.turn import create

    again.kv.clear()
    again.apply(create(again.definition, dump([[], {}]), 1_700_000_000_000, generation=1))
    assert again.turn().commands[0].key == "r:1:a"


# --- tasks


def test_a_queued_step_is_written_and_enqueued_in_one_batch_once(drive):
    """K058"""

    async def body() -> Any:
        return await printed(3)

    run = drive(body)
    turn = run.turn()
    assert run.history["tests.kernel.printed"].kind.status is StepStatus.QUEUED
    [task] = turn.commands
    assert isinstance(task, EnqueueTask)
    assert (task.queue, task.id, task.target) == ("printers", "r:0:tests.kernel.printed", "tests.kernel.printed")
    assert 3 in (*load(task.input)[0], *load(task.input)[1].values())
    assert turn.batch.state == "suspended"
    turn = run.again()
    assert turn.commands == ()
    assert turn.batch == Batch()
    run.turn(run.ok("tests.kernel.printed", "page 3", attempt=0, attempts=4))
    assert run.result == "page 3"
    assert run.metadata["tests.kernel.printed"].attempts == 4


@pytest.mark.parametrize(
    "options", [{"max_attempts": 1}, {"rollback": work}, {"queue": "q"}], ids=["max_attempts", "rollback", "queue"]
)
def test_an_ephemeral_step_refuses_what_needs_a_record(drive, options):
    """K059"""
    caught = []

    async def body() -> Any:
        try:
            if "queue" in options:
                await named.options(ephemeral=True, **options)(1)
            else:
                await step("a", work, ephemeral=True, **options)
        except ValueError as error:
            caught.append(error)
        return "went on"

    run = drive(body)
    run.turn()
    assert run.result == "went on"
    assert len(caught) == 1
    assert run.history == {}


def test_a_withdrawn_steps_late_result_is_ignored(drive):
    """1.4, T5"""
    import asyncio

    async def body() -> Any:
        task = asyncio.create_task(one_step())
        await step("b", work)
        task.cancel()
        await step("c", work)
        return "end"

    run = drive(body)
    run.turn()
    assert run.released() == ["b", "@0/a"] or run.released() == ["@0/a", "b"]
    run.turn(run.ok("b"))
    assert run.commands_of(CancelStep) == ["@0/a"]
    before = dict(run.kv)
    run.turn(run.ok("@0/a", "late"))
    assert run.kv == before
    run.turn(run.ok("c"))
    assert run.result == "end"
    assert "@0/a" not in run.history


@pytest.mark.parametrize("listed", ["KeyError", "LookupError", "Gone"])
def test_what_is_not_retried_may_be_named_by_its_class_or_a_base(drive, listed):
    """3.3: also when the class is not there any more"""

    async def body() -> Any:
        await step("a", work, no_retry=(listed,))

    run = drive(body)
    run.turn()
    run.turn(run.err("a", RemoteError("shop:Gone", "no such thing") if listed == "Gone" else KeyError("x")))
    with pytest.raises(StepFailedError) as failed:
        run.result
    assert failed.value.kind == "fatal"
