"""Runs that start others and are taken back, on every store; and that no run is taken up for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import Tenuto, sleep, spawn, step, wait_for_signal, workflow
from tenuto.errors import ChildCancelledError, ChildTerminatedError, RunFailedError

LIMIT = "20s"


@step
async def prepare() -> int:
    return 1


@step(queue="apart")
async def elsewhere() -> int:
    return 1


@workflow
async def kid(waits: bool) -> str:
    if waits:
        await wait_for_signal("go")
    return "kid's"


@workflow
async def parent(child_id: str, waits: bool) -> Any:
    await prepare()
    return await (await spawn(kid, waits, id=child_id))


@workflow
async def long_waiting() -> None:
    await elsewhere()
    await wait_for_signal("a")
    await prepare()
    await sleep("100ms")
    await sleep("1h")


async def wait_for(app: Tenuto, run_id: str, *statuses: str) -> None:
    async def reached() -> bool:
        record = await app.store.get(run_id)
        return record is not None and record.status in statuses

    await app.wait_until(reached, LIMIT)


@pytest.mark.parametrize("target", ["prepare", "child:kid"])
async def test_a_parent_taken_back_over_an_ended_child_gets_its_result_again(app: Tenuto, target: str) -> None:
    """R077."""
    run = await app.start(parent, "kid-1", False)
    assert await run.result(timeout=LIMIT) == "kid's"
    for _ in range(2):
        await run.rewind(to=target)
        assert await run.result(timeout=LIMIT) == "kid's"
    assert len([found async for found in app.runs(workflow="kid")]) == 1


@pytest.mark.parametrize("verb", ["cancel", "terminate"])
async def test_a_parent_taken_back_over_a_child_that_was_stopped_fails_again(app: Tenuto, verb: str) -> None:
    run = await app.start(parent, "kid-1", True)
    await wait_for(app, "kid-1", "suspended")
    await getattr(app.get("kid-1"), verb)()
    for _ in range(2):
        with pytest.raises(RunFailedError) as failed:
            await run.result(timeout=LIMIT)
        assert isinstance(failed.value.__cause__, ChildCancelledError | ChildTerminatedError)
        await run.rewind(to="prepare")
    await wait_for(app, run.id, "failed")


async def test_a_parent_taken_back_over_an_open_child_with_an_id_of_its_own_follows_it(app: Tenuto) -> None:
    """R077: one child."""
    run = await app.start(parent, "kid-1", True)
    await wait_for(app, "kid-1", "suspended")
    await wait_for(app, run.id, "suspended")
    await run.rewind(to="prepare")
    await app.get("kid-1").signal("go")
    assert await run.result(timeout=LIMIT) == "kid's"
    assert len([found async for found in app.runs(workflow="kid")]) == 1


async def test_a_run_taken_back_over_mail_that_is_gone_waits_without_being_taken_up_again(app: Tenuto) -> None:
    """V6: a run that waits holds no lease, whatever numbers its inbox has given."""
    run = await app.start(long_waiting, id="r")
    await run.signal("a")
    await wait_for(app, "r", "suspended")

    async def sleeps() -> bool:
        return any(entry.location == "sleep#2" for entry in await run.history())

    await app.wait_until(sleeps, LIMIT)
    await run.rewind(to="prepare")
    await app.wait_until(sleeps, LIMIT)
    await wait_for(app, "r", "suspended")


async def test_a_run_that_another_worker_takes_up_waits_again(lasting_url: str) -> None:
    """V6."""
    async with Tenuto(lasting_url, grace=1) as app:
        run = await app.start(long_waiting, id="r")
        await run.signal("a")
        await wait_for(app, "r", "suspended")
    async with Tenuto(lasting_url, grace=1) as app:
        before = (await app.store.get("r")).epoch  # type: ignore[union-attr]  # it is there
        await app.get("r").wake()

        async def claimed() -> bool:
            record = await app.store.get("r")
            return record is not None and record.epoch > before

        await app.wait_until(claimed, LIMIT)
        await wait_for(app, "r", "suspended")
