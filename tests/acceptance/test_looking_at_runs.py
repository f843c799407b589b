"""What people see of a run: failed compensations, hooks, steps under way, why something failed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from tenuto import Limits, RunHandle, Tenuto, hook, sleep, step, workflow
from tenuto import join as tenuto_join
from tenuto.codec.rows import INPUT_KEY, STATE_KEY, VERSION_KEY
from tenuto.codec.values import dump
from tenuto.errors import JoinError, RunCancelledError, RunFailedError, StepExhaustedError
from tenuto.host.engine import NativeEngine
from tenuto.model.durations import point
from tenuto.store.port import NewRun, RunningStep
from tenuto.store.urls import store_of
from tenuto.system import REAL, Pace

log: list[str] = []


class Bank:
    """What a compensation needs."""

    answers = False


async def reserve(what: str) -> str:
    return what


async def give_back(what: str) -> None:
    log.append(f"give back {what}")
    if what == "car" and not Bank.answers:
        raise RuntimeError(f"cannot give back {what}")


@workflow
async def trip() -> None:
    await step("hotel", reserve, "hotel", rollback=give_back, max_attempts=2, backoff=0.001)
    await step("car", reserve, "car", rollback=give_back, max_attempts=2, backoff=0.001)
    raise ValueError("no flight")


@workflow
async def long_trip() -> None:
    await step("car", reserve, "car", rollback=give_back, max_attempts=1)
    await sleep("1h")


async def test_a_compensation_that_failed_is_seen_in_the_error_the_history_and_the_explanation(
    app: Tenuto, caplog: pytest.LogCaptureFixture
) -> None:
    log.clear()
    run = await app.start(trip)
    with caplog.at_level(logging.WARNING), pytest.raises(RunFailedError, match="no flight") as failed:
        await run.result(timeout=20)
    said = "1 rollback handler failed: car: RuntimeError: cannot give back car; `recover` runs it again"
    assert failed.value.__notes__ == [said]
    assert isinstance(failed.value.__cause__, ValueError)
    hotel, car = await run.history()
    assert (hotel.rollback, hotel.status) == (_rollback("done", 1), "completed")
    assert car.rollback is not None
    assert (car.rollback.status, car.rollback.attempts) == ("failed", 2)
    assert isinstance(car.rollback.error, StepExhaustedError)
    assert isinstance(car.rollback.error.__cause__, RuntimeError)
    explanation = await run.explain()
    assert [(one.location, one.attempts) for one in explanation.rollbacks] == [("car", 2)]
    assert said in str(explanation)
    warned = [record for record in caplog.records if "rollback handler" in record.getMessage()]
    assert [record.getMessage() for record in warned] == [
        f"run {run.id}: the rollback handler of car failed: RuntimeError"
    ]
    assert log == ["give back car", "give back car", "give back hotel"]


def _rollback(status: str, attempts: int) -> Any:
    from tenuto.host.undoing import RollbackOutcome

    return RollbackOutcome(status, attempts)


async def test_a_recovered_compensation_is_no_longer_said_to_have_failed(
    app: Tenuto, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await app.start(trip)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=20)
    assert failed.value.__notes__
    monkeypatch.setattr(Bank, "answers", True)
    await run.recover()
    with pytest.raises(RunFailedError) as again:
        await run.result(timeout=20)
    assert not getattr(again.value, "__notes__", [])
    assert (await run.explain()).rollbacks == ()
    assert [entry.rollback for entry in await run.history()] == [_rollback("done", 1), _rollback("done", 1)]


async def test_a_cancelled_run_says_which_of_its_compensations_failed(app: Tenuto) -> None:
    run = await app.start(long_trip)
    await run.cancel("never mind")
    with pytest.raises(RunCancelledError) as cancelled:
        await run.result(timeout=20)
    assert cancelled.value.__notes__ == ["1 rollback handler failed: car: RuntimeError: cannot give back car"]


@workflow
async def hooked(token: str | None = None) -> Any:
    opened = await hook(token)
    return await opened


async def test_the_history_of_a_run_with_a_hook_has_its_token(app: Tenuto) -> None:
    run = await app.start(hooked, "tok-1")
    await _settled(run)
    first = (await run.history())[0]
    assert (first.kind, first.status, first.value) == ("hook", "completed", "tok-1")
    other = await app.start(hooked, "tok-1")
    with pytest.raises(RunFailedError):
        await other.result(timeout=20)
    assert [entry.status for entry in await other.history()] == ["failed"]
    await app.send_hook("tok-1", "paid")
    await run.result(timeout=20)
    assert (await run.history())[0].value == "tok-1"


async def _settled(run: RunHandle[Any]) -> None:
    async with asyncio.timeout(20):
        while [entry.status for entry in await run.history()][:1] != ["completed"]:
            await asyncio.sleep(0.005)


# --- why it failed


class Missing(Exception):
    """Of this file."""


@step(max_attempts=1)
async def look_up() -> None:
    raise Missing("no such order") from KeyError("missing")


@workflow
async def looks_up() -> None:
    await look_up()


@workflow
async def looks_up_twice() -> None:
    await tenuto_join({"a": look_up, "b": look_up})


async def test_a_failed_run_says_where_it_failed_and_why_in_the_end(app: Tenuto) -> None:
    run = await app.start(looks_up)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=20)
    assert str(failed.value) == f"run {run.id} failed at look_up: KeyError: 'missing'"
    step_failure = failed.value.__cause__
    assert isinstance(step_failure, StepExhaustedError)
    assert isinstance(step_failure.__cause__, Missing)
    (note,) = step_failure.__cause__.__notes__
    assert "in look_up" in note
    assert "tenuto/host" not in note
    (entry,) = await run.history()
    assert entry.error is not None
    assert isinstance(entry.error.__cause__, Missing)
    assert "in look_up" in entry.error.__cause__.__notes__[0]


async def test_a_run_that_failed_by_itself_says_so_without_a_place(app: Tenuto) -> None:
    run = await app.start(trip)
    with pytest.raises(RunFailedError) as failed:
        await run.result(timeout=20)
    assert str(failed.value) == f"run {run.id} failed: ValueError: no flight"


async def test_a_list_of_runs_says_why_each_of_them_failed(app: Tenuto) -> None:
    for code in (looks_up, looks_up_twice):
        run = await app.start(code)
        with pytest.raises(RunFailedError):
            await run.result(timeout=20)
    gathered, single = [summary async for summary in app.runs(status="failed")]
    assert single.error is not None
    assert (single.error.type, single.error.message, single.error.location) == ("KeyError", "'missing'", "look_up")
    assert gathered.error is not None
    assert (gathered.error.type, gathered.error.code) == (JoinError.__name__, JoinError.code)


# --- what runs


class Gate:
    """Holds steps until they may end."""

    open: asyncio.Event


@step
async def lengthy() -> str:
    await Gate.open.wait()
    return "done"


@step(queue="slow")
async def queued() -> str:
    await Gate.open.wait()
    return "done"


@workflow
async def inline() -> str:
    return await lengthy()


@workflow
async def through_a_queue() -> str:
    from tenuto import Task

    return await Task.run(queued)


@pytest.mark.parametrize(("code", "place"), [(inline, "lengthy"), (through_a_queue, "queued")])
async def test_a_step_under_way_is_said_to_run_with_its_worker_attempt_and_start(
    app: Tenuto, code: Any, place: str
) -> None:
    """R073"""
    Gate.open = asyncio.Event()
    run = await app.start(code)
    async with asyncio.timeout(20):
        while "running on worker" not in str(await run.explain()):
            await asyncio.sleep(0.005)
    explanation = await run.explain()
    (operation,) = explanation.pending
    workers = await app.store.live_workers()
    assert operation.worker == workers[0].id
    assert operation.attempt == 1
    assert operation.since is not None
    since = f"{operation.since:%Y-%m-%d %H:%M:%S}Z"
    assert f"{place} is running on worker {operation.worker}, attempt 1, since {since}" in str(explanation)
    assert explanation.wakes == f"the end of {place}"
    Gate.open.set()
    assert await run.result(timeout=20) == "done"
    assert (await run.explain()).pending == ()


async def test_a_step_under_way_for_a_second_is_seen_without_its_code(
    lasting_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attentive = replace(REAL, pace=Pace(notes=0.05))
    monkeypatch.setattr(
        "tenuto.app.engine_of", lambda url, *rest: NativeEngine(store_of(url), *rest[:2], system=attentive)
    )
    Gate.open = asyncio.Event()
    async with Tenuto(lasting_url, grace=1) as app, Tenuto(lasting_url, worker=False) as other:
        monkeypatch.setattr(other.engine.definitions, "workflow", lambda target: None)  # type: ignore[attr-defined]
        run = await app.start(inline, id="r")
        async with asyncio.timeout(20):
            while "running on worker" not in str(await other.get("r").explain()):
                await asyncio.sleep(0.01)
        (operation,) = (await other.get("r").explain()).pending
        assert (operation.location, operation.attempt) == ("lengthy", 1)
        (noted,) = await app.store.steps_under_way("r")
        assert noted.worker == operation.worker
        Gate.open.set()
        await run.result(timeout=20)
        async with asyncio.timeout(20):
            while await app.store.steps_under_way("r"):  # a note goes with its step
                await asyncio.sleep(0.01)


# --- many runs


@workflow
async def old() -> None:
    """Started once."""


@workflow
async def noise() -> None:
    """Started often."""


async def test_all_runs_are_listed_page_after_page(url: str) -> None:
    """R082"""
    async with Tenuto(url, worker=False, limits=Limits(page=50)) as app:
        await app.start(old, id="old")
        for _ in range(170):
            await app.start(noise)
        found = [run.id async for run in app.runs(limit=170)]
        assert len(found) == len(set(found)) == 170
        assert "old" not in found
        assert len([run async for run in app.runs(limit=5000)]) == 171
        assert [run.id async for run in app.runs(workflow="old", limit=5)] == ["old"]
        assert len([run async for run in app.runs(status="open", limit=60)]) == 60


async def test_a_status_that_no_run_has_is_a_value_error(app: Tenuto) -> None:
    with pytest.raises(ValueError, match="nope"):
        [run async for run in app.runs(status="nope")]
    with pytest.raises(ValueError, match="nope"):
        app.each(status="nope")


@pytest.mark.parametrize("lease_ms", [60_000, 1])
async def test_a_step_whose_worker_died_is_still_said_to_run_there_until_the_lease_is_over(
    url: str, lease_ms: int
) -> None:
    """R073: nothing of the run's code is loaded, and nobody took back the note."""
    async with Tenuto(url, worker=False) as app:
        store = app.store
        await store.register("w-gone", lease_ms, "c", {"elsewhere": "h"}, None)
        call = ((INPUT_KEY, dump([[], {}])), (STATE_KEY, b"running"), (VERSION_KEY, b"h"))
        await store.create(NewRun("r", "elsewhere", call))
        assert len(await store.claim_runs("w-gone", ["elsewhere"], 1)) == 1
        since = await store.now()
        await store.note_under_way([RunningStep("r", "lengthy", 2, since, "w-gone")], [])
        await asyncio.sleep(0.005)  # the lease is over by then, if it is short
        explanation = await app.get("r").explain()
        assert len(explanation.pending) == 1
        began = f"attempt 2, since {point(since):%Y-%m-%d %H:%M:%S}Z"
        if lease_ms > 1:
            assert f"lengthy is running on worker w-gone, {began}" in str(explanation)
        else:
            assert f"lengthy was running on worker w-gone, {began}; that worker is lost" in str(explanation)
        assert explanation.wakes == "the end of lengthy"
        await store.note_under_way([], [RunningStep("r", "lengthy", 2, since, "w-gone")])
        assert (await app.get("r").explain()).wakes == "worker w-gone, which has it"
