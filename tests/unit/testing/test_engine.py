"""The engine for tests: virtual time, crashes, eviction, deploys, and errors that say what is wrong."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenuto import (
    ContinueAsNew,
    FatalError,
    Reply,
    RetryableError,
    Stop,
    Task,
    detach,
    join,
    now,
    publish_state,
    receive,
    signal,
    sleep,
    spawn,
    step,
    step_info,
    wait_for_signal,
    workflow,
)
from tenuto.errors import (
    ChildFailedError,
    RunCancelledError,
    RunClosedError,
    RunFailedError,
    RunIdConflictError,
    RunNotFoundError,
    StepExhaustedError,
    StepOutcomeUnknownError,
    UpdateRejectedError,
)
from tenuto.model.definitions import Workflow
from tenuto.testing import Engine

calls: list[Any] = []  # what steps did


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@step(name="testing.note")
async def note(what: str) -> str:
    calls.append(what)
    return what.upper()


@step(name="testing.flaky")
async def flaky(failures: int) -> int:
    calls.append(step_info().attempt)
    if step_info().attempt <= failures:
        raise ValueError(f"attempt {step_info().attempt}")
    return step_info().attempt


@workflow(name="testing.reminder")
async def reminder(name: str) -> list[Any]:
    began = now()
    await note(f"hello {name}")
    await sleep("7 days")
    return [await note(f"bye {name}"), now() - began]


# --- time


async def test_a_week_passes_in_no_time(engine):
    wall = time.monotonic()
    run = await engine.start(reminder, "ada")
    assert await run.result() == ["BYE ADA", timedelta(days=7)]
    assert time.monotonic() - wall < 5
    assert calls == ["hello ada", "bye ada"]


async def test_time_stands_still_until_it_is_advanced(engine):
    run = await engine.start(reminder, "ada")
    await engine.settle()
    assert await run.status() == "suspended"
    await engine.advance("6 days")
    assert await run.status() == "suspended"
    await engine.advance("1 day")
    assert await run.status() == "completed"


async def test_the_clock_starts_where_it_is_told():
    @workflow(name="testing.what_time")
    async def what_time() -> datetime:
        return now()

    engine = Engine(now=datetime(1999, 12, 31, tzinfo=UTC))
    run = await engine.start(what_time)
    assert await run.result() == datetime(1999, 12, 31, tzinfo=UTC)
    engine.close()


async def test_retries_happen_at_their_exact_times(engine):
    @workflow(name="testing.retrying")
    async def retrying() -> Any:
        began = now()
        await flaky(2)
        return now() - began

    run = await engine.start(retrying)
    assert await run.result() == timedelta(milliseconds=600)
    assert calls == [1, 2, 3]
    [entry] = await run.history()
    assert (entry.kind, entry.status, entry.attempts, entry.value) == ("step", "completed", 3, 3)


async def test_a_step_may_say_when_it_wants_to_be_tried_again(engine):
    @step(name="testing.later")
    async def later() -> None:
        if step_info().attempt == 1:
            raise RetryableError("later", after="10m")

    @workflow(name="testing.patient")
    async def patient() -> Any:
        began = now()
        await later()
        return now() - began

    assert await (await engine.start(patient)).result() == timedelta(minutes=10)


async def test_a_step_that_hangs_runs_into_its_timeout_on_virtual_time(engine):
    @step(name="testing.hangs", timeout="1h", max_attempts=2)
    async def hangs() -> None:
        await asyncio.Event().wait()

    @workflow(name="testing.waits_for_it")
    async def waits_for_it() -> Any:
        await hangs()

    run = await engine.start(waits_for_it)
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, StepExhaustedError)


# --- crashes


async def test_a_crash_after_every_turn_changes_nothing(crashing_engine, engine):
    @workflow(name="testing.everything")
    async def everything() -> Any:
        parts = await join({"a": lambda: note("a"), "b": lambda: flaky(1), "c": lambda: sleep("1h")})
        publish_state(parts)
        task = Task.run(note, "queued")
        got = await wait_for_signal("go")
        return [parts, await task, got, await (await spawn(reminder, "child"))]

    results = []
    for used in (engine, crashing_engine):
        run = await used.start(everything)
        await run.signal("go", 1)
        results.append(await run.result())
        assert await run.query() == {"a": "A", "b": 2, "c": None}
    assert results[0] == results[1]
    assert crashing_engine.turns > engine.turns


async def test_a_crash_loses_what_was_in_memory_and_nothing_that_was_committed(engine):
    run = await engine.start(reminder, "ada")
    await engine.settle()
    engine.crash()
    assert (await run.result())[0] == "BYE ADA"
    assert calls == ["hello ada", "bye ada"]


async def test_an_attempt_under_way_in_a_crash_is_made_again(engine):
    gate = asyncio.Event()

    @step(name="testing.gated")
    async def gated() -> str:
        calls.append(step_info().attempt)
        await gate.wait()
        return "through"

    @workflow(name="testing.through_the_gate")
    async def through() -> str:
        return await gated()

    run = await engine.start(through)
    await engine.settle()
    engine.crash()
    gate.set()
    assert await run.result() == "through"
    assert calls == [1, 1]


async def test_a_step_that_may_run_once_is_not_repeated_by_a_crash(engine):
    @step(name="testing.once", max_attempts=1)
    async def once() -> None:
        calls.append("once")
        await asyncio.Event().wait()

    @workflow(name="testing.at_most_once")
    async def at_most_once() -> str:
        try:
            await once()
        except StepOutcomeUnknownError:
            return "unknown"
        return "known"

    run = await engine.start(at_most_once)
    await engine.settle()
    engine.crash()
    assert await run.result() == "unknown"
    assert calls == ["once"]


async def test_evicting_closes_runs_in_good_order_and_they_come_back(engine):
    closed: list[str] = []

    @workflow(name="testing.evictable")
    async def evictable() -> str:
        try:
            await sleep("1h")
        finally:
            closed.append("finally")
        return "woke"

    run = await engine.start(evictable)
    await engine.settle()
    before = await run.record()
    await engine.evict()
    assert closed == ["finally"]
    assert await run.record() == before
    assert await run.result() == "woke"
    assert closed == ["finally", "finally"]


async def test_a_deploy_that_does_not_fit_parks_the_run_until_one_does(engine, monkeypatch):
    def version(*names: str) -> Any:
        async def body() -> list[str]:
            done = [await note(name) for name in names]
            await wait_for_signal("end")
            return done

        return Workflow(body, id="testing.deployed", name="testing.deployed")

    run = await engine.start(version("a", "b"))
    await engine.settle()
    monkeypatch.setenv("TENUTO_APP_VERSION", "bad")
    engine.reload(version("a"))
    await run.signal("end")
    with pytest.raises(AssertionError, match="parked"):
        await run.result()
    assert await run.status() == "parked"
    assert "testing.note#2" in await run.reason()
    monkeypatch.setenv("TENUTO_APP_VERSION", "mended")
    engine.reload(version("a", "b"))
    engine.wake(run.id)
    assert await run.result() == ["A", "B"]
    assert calls == ["a", "b"]


# --- messages, children, chains


async def test_updates_are_answered_and_rejected(engine):
    @workflow(name="testing.counter")
    async def counter() -> int:
        total, _ = await receive(0, updates={"add": lambda t, n: Reply(t + n, t + n)}, signals={"stop": Stop})
        return total

    run = await engine.start(counter)
    assert await run.update("add", 2) == 2
    assert await run.update("add", 3, id="u") == 5
    assert await run.update("add", 3, id="u") == 5  # the same update
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("unknown")
    assert rejected.value.why == "not_accepting"
    await run.signal("stop")
    assert await run.result() == 5
    with pytest.raises(UpdateRejectedError) as late:
        await run.update("add", 1)
    assert late.value.why == "closed"
    with pytest.raises(RunClosedError):
        await run.signal("stop")


async def test_children_end_before_their_handles_and_detached_ones_go_on(engine):
    @workflow(name="testing.failing")
    async def failing() -> None:
        raise ValueError("theirs")

    @workflow(name="testing.parent")
    async def parent() -> Any:
        free = await detach(reminder, "detached", id="free")
        try:
            await (await spawn(failing))
        except ChildFailedError as error:
            return free, repr(error.__cause__)

    run = await engine.start(parent)
    assert await run.result() == ("free", "ValueError('theirs')")
    assert await engine.get("free").status() in ("suspended", "running", "pending")
    assert (await engine.get("free").result())[0] == "BYE DETACHED"


async def test_signals_between_runs_arrive_once(engine):
    @workflow(name="testing.listener")
    async def listener() -> Any:
        return [await wait_for_signal("hello"), await wait_for_signal("hello")]

    @workflow(name="testing.speaker")
    async def speaker(to: str) -> None:
        await signal(to, "hello", 1)
        await signal(to, "hello", 2)
        await signal("nobody", "hello", 3)

    heard = await engine.start(listener)
    spoke = await engine.start(speaker, heard.id)
    assert await spoke.result() is None
    assert await heard.result() == [1, 2]


async def test_a_chain_of_runs_has_one_id(engine):
    @workflow(name="testing.chain")
    async def chain(n: int = 0) -> Any:
        await note(str(n))
        return ContinueAsNew(n + 1) if n < 3 else n

    run = await engine.start(chain)
    assert await run.result() == 3
    assert calls == ["0", "1", "2", "3"]
    assert [entry.location for entry in await run.history()] == ["testing.note"]


async def test_a_cancelled_run_says_so(engine):
    run = await engine.start(reminder, "ada")
    await engine.settle()
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result()
    assert await run.status() == "cancelled"


async def test_queued_steps_are_retried_and_report_by_mail(engine):
    @workflow(name="testing.queueing")
    async def queueing() -> Any:
        return await Task.run(flaky, 1)

    assert await (await engine.start(queueing)).result() == 2
    assert calls == [1, 2]


# --- what goes wrong


async def test_a_run_that_nothing_will_wake_is_an_error_that_says_what_it_waits_for(engine):
    @workflow(name="testing.forgotten")
    async def forgotten() -> None:
        await wait_for_signal("never sent")

    run = await engine.start(forgotten)
    with pytest.raises(AssertionError, match="nothing will wake it: signal 'never sent'"):
        await run.result()


async def test_a_failed_run_raises_with_its_own_error_as_cause(engine):
    @workflow(name="testing.fails")
    async def fails() -> None:
        await note("first")
        raise FatalError("mine")

    run = await engine.start(fails)
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, FatalError)
    assert await run.status() == "failed"


async def test_what_a_run_logs_is_a_notice_once(crashing_engine):
    def broken(total: int) -> Any:
        raise ValueError("handler")

    @workflow(name="testing.noisy")
    async def noisy() -> Any:
        total, _ = await receive(0, signals={"broken": broken}, timeout="1h")
        await note("after")
        return total

    run = await crashing_engine.start(noisy)
    await run.signal("broken")
    assert await run.result() == 0
    said = [notice for notice in crashing_engine.notices if "broken" in notice]
    assert len(said) == 1
    assert "ValueError: handler" in said[0]


async def test_one_id_is_one_run(engine):
    first = await engine.start(reminder, "ada", id="one")
    again = await engine.start(reminder, "ada", id="one")
    assert first.id == again.id
    with pytest.raises(RunIdConflictError):
        await engine.start(reminder, "bob", id="one")
    with pytest.raises(RunNotFoundError):
        await engine.get("two").status()


async def test_a_workflow_can_be_started_by_its_name_and_with_bound_arguments(engine):
    assert (await (await engine.start("testing.reminder", "ada")).result())[0] == "BYE ADA"
    assert (await (await engine.start(reminder.bind("bob"))).result())[0] == "BYE BOB"
    with pytest.raises(TypeError, match="no workflow"):
        await engine.start(note, "x")


async def _gives_back(_what: str) -> None:
    raise RuntimeError("cannot undo")


@workflow(name="engine_undoes_badly")
async def _undoes_badly() -> None:
    await step("keep", _kept, "it", rollback=_gives_back, max_attempts=1)
    raise ValueError("no way on")


async def _kept(what: str) -> str:
    return what


async def test_the_error_of_a_failed_run_says_why_and_which_compensation_failed() -> None:
    engine = Engine()
    run = await engine.start(_undoes_badly)
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    assert str(failed.value) == f"run {run.id} failed: ValueError: no way on"
    assert failed.value.__notes__ == [
        "1 rollback handler failed: keep: RuntimeError: cannot undo; `recover` runs it again"
    ]
    assert engine.notices == ["the rollback handler of keep failed: RuntimeError"]


async def test_a_crashing_engine_ends_though_an_ephemeral_step_stands_in_front_of_another():
    """It rebuilds runs after commits: an ephemeral step alone commits nothing, and would run again for ever"""
    ran: list[str] = []

    @workflow(name="testing.peeks")
    async def peeks() -> list[str]:
        await step("peek", lambda: ran.append("peek"), ephemeral=True)
        await step("peek", lambda: ran.append("peek"), ephemeral=True)
        return await step("other", lambda: ["done"])

    engine = Engine(crash_everywhere=True)
    async with asyncio.timeout(20):
        assert await (await engine.start(peeks)).result() == ["done"]
    assert ran == ["peek", "peek"]
    engine.close()


async def test_a_run_that_never_ends_leaves_its_test_the_time_to_say_so():
    @workflow(name="testing.endless")
    async def endless() -> None:
        while True:
            await sleep("1s")

    engine = Engine()
    run = await engine.start(endless)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await run.result()
    engine.close()


async def test_turns_that_store_nothing_for_ever_are_stopped_with_a_reason(monkeypatch):
    monkeypatch.setattr("tenuto.testing.engine.IDLE_TURNS", 50)

    @workflow(name="testing.peeking")
    async def peeking() -> None:
        while True:
            await step("peek", lambda: 1, ephemeral=True)

    engine = Engine()
    run = await engine.start(peeking)
    with pytest.raises(RuntimeError, match="stored nothing"):
        await run.result()
    engine.close()
