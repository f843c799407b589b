"""Verbs that a run's state refuses say so, in the host's words and alike on all stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Tenuto, hook, sleep, spawn, step, wait_for_signal, workflow
from tenuto.errors import RecoverError, RewindError, RunClosedError, RunFailedError, RunNotFoundError, RunStateError
from tenuto.model.registry import default

LIMIT = "20s"
CALLS: list[str] = []
GOES_ON = [asyncio.Event()]


@step(max_attempts=1)
async def charge() -> str:
    CALLS.append("charged")
    return "receipt"


@step
async def hangs() -> str:
    await GOES_ON[0].wait()
    return "its own"


@step(queue="apart")
async def elsewhere() -> str:
    return "its own"


@step(backoff="1h", backoff_max="1h")
async def retried() -> str:
    raise ValueError("not yet")


@workflow
async def charging_later() -> str:
    await wait_for_signal("go")
    return await charge()


@workflow
async def charging() -> str:
    return await charge()


@workflow
async def many_sorts() -> None:
    await charge()
    await asyncio.gather(sleep("1h"), wait_for_signal("go"), hook("token"), spawn(charging_later))
    await wait_for_signal("go")


@workflow
async def hanging() -> str:
    return await hangs()


@workflow
async def queued() -> str:
    return await elsewhere.options(queue="nobody")()


@workflow
async def retrying() -> str:
    return await retried()


@step(max_attempts=1)
async def fails_once() -> str:
    CALLS.append("tried")
    if len(CALLS) == 1:
        raise ValueError("why")
    return "recovered"


@workflow
async def failing() -> str:
    return await fails_once()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()
    GOES_ON[0] = asyncio.Event()


async def reach(app: Tenuto, run_id: str, status: str) -> None:
    async def reached() -> bool:
        return await app.get(run_id).status() == status

    await app.wait_until(reached, LIMIT)


# --- supply


@pytest.mark.parametrize("place", ["charge", "nope", "signal:go", "", "sleep"])
async def test_a_value_is_supplied_to_nothing_but_an_open_step(app: Tenuto, place: str) -> None:
    """R071."""
    run = await app.start(charging_later)
    await reach(app, run.id, "suspended")
    with pytest.raises((RunStateError, ValueError)):
        await run.supply(place, "typed")
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == "receipt"
    assert CALLS == ["charged"]
    with pytest.raises(RunClosedError):
        await run.supply(place or "charge", "typed")


async def test_what_is_no_step_or_has_settled_takes_no_value(app: Tenuto) -> None:
    """R071."""
    run = await app.start(many_sorts)
    await reach(app, run.id, "suspended")
    places = [entry.location for entry in await run.history()]
    assert len(places) == 4
    for place in places:
        with pytest.raises(RunStateError, match="none is open; the run is suspended"):
            await run.supply(place, "typed")
    await run.pause()
    with pytest.raises(RunStateError, match="none is open; the run is paused"):
        await run.supply("charge", "typed")
    await run.terminate()


async def test_a_run_that_has_not_begun_takes_no_value(app: Tenuto) -> None:
    """R071: it would stand for a step that nobody has tried."""
    run = await app.start(charging, delay="300ms")
    with pytest.raises(RunStateError, match="the run is scheduled"):
        await run.supply("charge", "typed")
    assert await run.result(timeout=LIMIT) == "receipt"
    with pytest.raises(RunNotFoundError):
        await app.get("nobody").supply("charge", "typed")


@pytest.mark.parametrize(
    ("target", "place", "status"),
    [(hanging, "hangs", "running"), (queued, "elsewhere", "suspended"), (retrying, "retried", "suspended")],
    ids=["under way", "queued", "waiting for its retry"],
)
async def test_every_open_step_takes_a_value(url: str, target: Any, place: str, status: str) -> None:
    """R071; also while its run is paused."""
    async with Tenuto(url, grace=0, queues=["default"]) as app:
        run = await app.start(target)
        await reach(app, run.id, status)
        if status == "suspended":
            await run.pause()
        with pytest.raises(RunStateError, match=f"open are {place}"):
            await run.supply(f"{place}#2", "typed")
        await run.supply(place, "typed")
        await run.resume()
        assert await run.result(timeout=LIMIT) == "typed"
        (entry,) = await run.history()
        assert entry.supplied


async def test_a_client_without_the_code_sees_the_step_that_a_worker_has_under_way(lasting_url: str) -> None:
    """R071."""
    async with Tenuto(lasting_url, grace=0) as app, Tenuto(lasting_url, worker=False) as client:
        run = await app.start(hanging)
        await reach(app, run.id, "running")
        default.forget(hanging.id)
        try:
            with pytest.raises(RunStateError, match="open are hangs"):
                await client.get(run.id).supply("nope", "typed")
            await client.get(run.id).supply("hangs", "typed")
        finally:
            known: Any = hanging
            default.register(known)
        assert await run.result(timeout=LIMIT) == "typed"


# --- recover and rewind


@pytest.mark.parametrize("status", ["scheduled", "suspended", "paused", "terminated", "completed"])
async def test_recover_names_the_status_that_refuses_it(app: Tenuto, status: str) -> None:
    run = await app.start(
        charging if status == "completed" else charging_later, delay=3600 if status == "scheduled" else 0
    )
    if status in ("paused", "suspended", "terminated"):
        await reach(app, run.id, "suspended")
    if status == "paused":
        await run.pause()
    elif status == "terminated":
        await run.terminate()
    await reach(app, run.id, status)
    with pytest.raises(RecoverError, match=f"is {status}, not failed"):
        await run.recover()
    assert await run.status() == status


async def test_of_several_who_recover_a_run_at_once_one_does(app: Tenuto) -> None:
    run = await app.start(failing)
    with pytest.raises(RunFailedError):
        await run.result(timeout=LIMIT)
    answers = await asyncio.gather(*(run.recover() for _ in range(4)), return_exceptions=True)
    assert [answer for answer in answers if answer is None] == [None]
    assert {type(answer) for answer in answers if answer is not None} == {RecoverError}
    assert await run.result(timeout=LIMIT) == "recovered"
    assert len(CALLS) == 2


async def test_of_several_who_rewind_a_run_that_nobody_takes_up_one_does(lasting_url: str) -> None:
    async with Tenuto(lasting_url, grace=1) as app:
        run = await app.start(charging)
        await run.result(timeout=LIMIT)
    async with Tenuto(lasting_url, worker=False) as client:
        again = client.get(run.id)
        answers = await asyncio.gather(*(again.rewind(to="charge") for _ in range(4)), return_exceptions=True)
    assert [answer for answer in answers if answer is None] == [None]
    assert {type(answer) for answer in answers if answer is not None} == {RewindError}
