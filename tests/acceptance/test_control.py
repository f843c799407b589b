"""What operators and deploys do to runs, and what blocked loops cost, on real stores."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenuto import Break, Continue, Reply, Stop, Tenuto, loop, receive, step, wait_for_signal, workflow
from tenuto.codec.rows import mail_key
from tenuto.errors import RewindError
from tenuto.model.registry import default

LIMIT = "30s"
CALLS: list[str] = []
REAL_CLOCK = [time.monotonic]  # in a list, where workflow code is not given the run's own clock instead


async def wait_for(app: Tenuto, run_id: str, *statuses: str) -> None:
    async def reached() -> bool:
        return await app.get(run_id).status() in statuses

    await app.wait_until(reached, LIMIT)


# --- rewind


@step
async def note(text: str) -> str:
    CALLS.append(text)
    return text


def _add(total: int, amount: int) -> Reply[int]:
    CALLS.append(f"add {amount}")
    return Reply(total + amount, total + amount)


def _close(total: int) -> Stop[int]:
    return Stop(total, reply="closed")


@workflow
async def tally() -> int:
    await note("first")
    total, _ = await receive(0, updates={"add": _add, "close": _close})
    await note("second")
    await wait_for_signal("end")
    return total


async def test_a_rewind_across_an_answered_update_is_refused_unless_updates_are_dropped(app: Tenuto) -> None:
    """R058: dropped, the same id still gets the old answer, and its handler does not run."""
    CALLS.clear()
    run = await app.start(tally)
    assert await run.update("add", 5, id="u1", timeout=LIMIT, retry_for=LIMIT) == 5
    assert await run.update("close", id="u2", timeout=LIMIT) == "closed"

    async def noted() -> bool:
        return "second" in CALLS and await run.status() == "suspended"

    await app.wait_until(noted, LIMIT)
    with pytest.raises(RewindError):
        await run.rewind(to="note")
    assert await run.status() == "suspended"
    await run.rewind(to="note", drop_updates=True)
    assert await run.update("add", 5, id="u1", timeout=LIMIT) == 5
    assert CALLS.count("add 5") == 1
    assert await run.update("close", id="u3", timeout=LIMIT, retry_for=LIMIT) == "closed"
    await run.signal("end")
    assert await run.result(timeout=LIMIT) == 0
    assert CALLS.count("first") == CALLS.count("second") == 2


async def _seventh(i: int) -> Continue[int] | Break[int]:
    await note(f"at {i}")
    return Break(i) if i == 7 else Continue(i + 1)


@workflow
async def looping() -> int:
    await note("before")
    return await loop("l", 0, _seventh, commit_interval=2)


async def test_a_finished_run_is_rewound_to_its_loop_and_runs_it_again_from_the_start(app: Tenuto) -> None:
    """K113; a place that the loop has trimmed is refused, and the error says what is left"""
    CALLS.clear()
    run = await app.start(looping)
    assert await run.result(timeout=LIMIT) == 7
    with pytest.raises(RewindError, match="l/~1/note was trimmed by loop l; the earliest is l/~6"):
        await run.rewind(to="l/~1/note")
    CALLS.clear()
    await run.rewind(to="l")
    assert await run.result(timeout=LIMIT) == 7
    assert [f"at {i}" for i in range(8)] == CALLS


# --- divergence


def drifting(monkeypatch: pytest.MonkeyPatch, version: str, body: Callable[[], Awaitable[str]]) -> Any:
    """A deploy: the same workflow with another body."""
    monkeypatch.setenv("TENUTO_APP_VERSION", version)
    default.forget("drift")

    @workflow(name="drift")
    async def drift() -> str:
        return await body()

    return drift


async def test_a_run_that_does_not_fit_new_code_is_parked_untouched_and_goes_on_after_the_next_deploy(
    lasting_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R061."""

    async def original() -> str:
        before = await step("before", _one)
        await wait_for_signal("go")
        return f"{before} original"

    async def wrong() -> str:
        return str(await loop("before", 0, _stop_at_once))

    async def fixed() -> str:
        before = await step("before", _one)
        await wait_for_signal("go")
        return f"{before} fixed"

    async def context(app: Tenuto) -> list[tuple[bytes, bytes]]:
        return [row for row in await app.store.rows("r") if not row[0].startswith(mail_key(0)[:2])]

    first = drifting(monkeypatch, "1", original)
    async with Tenuto(lasting_url, grace=1) as app:
        await app.start(first, id="r")
        await wait_for(app, "r", "suspended")
        before = await context(app)
    drifting(monkeypatch, "2", wrong)
    async with Tenuto(lasting_url, grace=1) as app:
        await app.get("r").signal("go")
        await wait_for(app, "r", "parked")
        assert await context(app) == before
        (summary,) = [run async for run in app.runs()]
        assert summary.reason is not None
        assert "TN104" in summary.reason
    drifting(monkeypatch, "3", fixed)
    async with Tenuto(lasting_url, grace=1) as app:
        assert await app.get("r").result(timeout=LIMIT) == "1 fixed"
    default.forget("drift")


async def _one() -> int:
    return 1


async def _stop_at_once(_: int) -> Break[int]:
    return Break(0)


# --- blocked loops


@step(name="block-once")
async def block_once(seconds: float) -> str:
    CALLS.append("block")
    if CALLS.count("block") == 1:
        time.sleep(seconds)  # noqa: ASYNC251  # as user code does that should not
        return "first"
    return "second"


@workflow
async def blocking_step(seconds: float) -> str:
    return await block_once(seconds)


@workflow
async def blocking_turn(seconds: float) -> str:
    await note("leased")
    stand_still(seconds)
    return "first"


def stand_still(seconds: float) -> None:
    (clock,) = REAL_CLOCK
    until = clock() + seconds
    while clock() < until:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(("workflow_", "culprit"), [(blocking_step, "block_once"), (blocking_turn, "stand_still")])
async def test_a_blocked_loop_is_reported_with_its_stack_and_keeps_its_leases(
    lasting_url: str, workflow_: Any, culprit: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R018: two leases long, with another worker that would take the run if it could."""
    CALLS.clear()
    async with Tenuto(lasting_url, grace=1, lease="1300ms") as app:
        other = Tenuto.sync(lasting_url, queues=["nothing"], grace=1, lease="1300ms")
        await asyncio.to_thread(other.__enter__)
        try:
            with caplog.at_level(logging.WARNING, "tenuto.host"):
                run = await app.start(workflow_, 2.8)
                assert await run.result(timeout=LIMIT) == "first"
        finally:
            await asyncio.to_thread(other.__exit__)
        record = await app.store.get(run.id)
        assert record is not None
        assert record.epoch == 1  # nobody else has had it
    (report,) = [entry for entry in caplog.records if "blocked" in entry.getMessage()]
    assert f"in {culprit}" in report.getMessage()


@pytest.mark.slow
async def test_beyond_the_block_limit_a_run_moves_and_the_late_worker_cannot_write(lasting_url: str) -> None:
    """R018."""
    CALLS.clear()
    async with Tenuto(lasting_url, grace=1, lease="900ms", block_limit="300ms") as app:
        other = Tenuto.sync(lasting_url, grace=1, lease="900ms")
        await asyncio.to_thread(other.__enter__)
        try:
            run = await app.start(blocking_step, 4.0)
            assert await run.result(timeout=LIMIT) == "second"
            assert [(entry.kind, entry.value) for entry in await run.history()] == [("step", "second")]
        finally:
            await asyncio.to_thread(other.__exit__)
    assert CALLS == ["block", "block"]


async def test_without_room_in_memory_every_wake_up_is_a_replay_and_nothing_else_changes(url: str) -> None:
    """DESIGN 4.5: a run that does not fit into the budget is dropped, and built again from its rows."""
    CALLS.clear()
    async with Tenuto(url, grace=1, cache_bytes=0) as app:
        run = await app.start(tally)
        assert await run.update("add", 2, timeout=LIMIT, retry_for=LIMIT) == 2
        assert await run.update("add", 3, timeout=LIMIT) == 5
        await run.update("close", timeout=LIMIT)
        await run.signal("end")
        assert await run.result(timeout=LIMIT) == 5
    assert [call for call in CALLS if call in ("first", "second")] == ["first", "second"]
