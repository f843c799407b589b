"""Schedules, retention and names, as a user of the app has them, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tenuto import Tenuto, run_info, step, wait_for_signal, workflow
from tenuto.errors import (
    AmbiguousNameError,
    CommitUnknownError,
    ConfigError,
    DefinitionNotFoundError,
    RunIdConflictError,
    StoreUnavailableError,
)
from tenuto.host.engine import NativeEngine

LIMIT = "20s"


@step
async def count_up(number: int) -> int:
    return number + 1


@workflow
async def ticking(number: int = 1) -> tuple[int, str | None]:
    return await count_up(number), run_info().parent_id


@workflow
async def patient() -> str:
    return str(await wait_for_signal("go"))


async def summaries(app: Tenuto) -> list[Any]:
    return [schedule async for schedule in app.schedules()]


async def started(app: Tenuto, prefix: str) -> list[str]:
    return sorted([run.id async for run in app.runs() if run.id.startswith(prefix)])


def several(app: Tenuto, prefix: str, count: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return len(await started(app, prefix)) >= count

    return reached


async def test_a_schedule_starts_runs_with_its_arguments_until_it_is_deleted(app: Tenuto) -> None:
    """R049."""
    await app.schedule("tick", ticking.bind(number=41), every="100ms")
    await app.wait_until(several(app, "tick@", 2), LIMIT)
    await app.delete_schedule("tick")
    first, second, *_ = await started(app, "tick@")
    assert await app.get(first).result(timeout=LIMIT) == (42, None)
    assert await app.get(second).result(timeout=LIMIT) == (42, None)
    record = await app.store.get(first)
    assert record is not None
    assert record.parent == ("schedule:tick", first)
    assert await summaries(app) == []
    count = len(await started(app, "tick@"))
    await app.start(ticking, 0)
    assert len(await started(app, "tick@")) == count


async def test_schedules_are_listed_paused_and_resumed(app: Tenuto) -> None:
    beginning = datetime.now(UTC) + timedelta(days=1)
    await app.schedule("nightly", ticking, cron="30 2 * * *", tz="Europe/Oslo", overlap="queue_one", catch_up="all")
    await app.schedule("later", ticking, every="1h", start_at=beginning)
    later, nightly = await summaries(app)
    assert (later.name, later.rule, later.start_at, later.next_at) == (
        "later",
        "every 3600s",
        later.next_at,
        later.next_at,
    )
    assert (nightly.rule, nightly.tz, nightly.overlap, nightly.catch_up, nightly.paused) == (
        "30 2 * * *",
        "Europe/Oslo",
        "queue_one",
        "all",
        False,
    )
    assert nightly.workflow.endswith("//ticking")
    await app.pause_schedule("nightly")
    await app.pause_schedule("nightly")
    assert [schedule.paused for schedule in await summaries(app)] == [False, True]
    await app.resume_schedule("nightly")
    await app.resume_schedule("nightly")
    assert [schedule.paused for schedule in await summaries(app)] == [False, False]
    with pytest.raises(DefinitionNotFoundError, match="near it: nightly"):
        await app.pause_schedule("nightlyy")
    with pytest.raises(DefinitionNotFoundError):
        await app.delete_schedule("unknown")
    with pytest.raises(ConfigError, match="exactly one"):
        await app.schedule("both", ticking)


async def test_a_run_that_waits_is_not_overtaken_and_one_more_follows_it(app: Tenuto) -> None:
    """R052, queue_one."""
    await app.schedule("slow", patient, every="50ms", overlap="queue_one")
    await app.wait_until(several(app, "slow@", 1), LIMIT)
    (first,) = await started(app, "slow@")
    (schedule,) = await summaries(app)

    async def queued() -> bool:
        found = await app.store.get_schedule("slow")
        return found is not None and found.waiting_at is not None

    await app.wait_until(queued, LIMIT)
    assert (await started(app, "slow@"), schedule.last_id) == ([first], first)
    await app.get(first).signal("go", 1)
    await app.wait_until(several(app, "slow@", 2), LIMIT)
    await app.delete_schedule("slow")


async def test_two_apps_fire_a_schedule_once_for_each_time(lasting_url: str) -> None:
    """R050: whichever worker does the work for all."""
    async with Tenuto(lasting_url, grace=1) as one, Tenuto(lasting_url, grace=1) as two:
        await two.schedule("tick", ticking, every="100ms", overlap="allow")
        await one.wait_until(several(one, "tick@", 4), LIMIT)
        await one.delete_schedule("tick")
        ids = await started(two, "tick@")
        times = [datetime.fromisoformat(run_id.partition("@")[2]) for run_id in ids]
        gaps = {later - earlier for earlier, later in pairwise(times)}
        assert all(gap % timedelta(milliseconds=100) == timedelta(0) for gap in gaps)


async def test_a_worker_takes_over_the_work_for_all_when_another_leaves(lasting_url: str) -> None:
    """R028: timers fire after the worker that fired them has gone."""
    one = Tenuto(lasting_url, grace=1, lease="3s")
    await one.__aenter__()
    async with Tenuto(lasting_url, grace=1, lease="3s") as two:
        run = await two.start(ticking, 1, delay="300ms")
        await one.__aexit__()
        assert await run.result(timeout=LIMIT) == (2, None)


async def test_what_is_closed_longer_than_retention_is_gone(url: str) -> None:
    """R068."""
    async with Tenuto(url, grace=1, retention="200ms") as app:
        done = await app.start(ticking, id="done")
        waiting = await app.start(patient, id="waiting")
        await done.result(timeout=LIMIT)

        async def gone() -> bool:
            return await app.store.get("done") is None

        async def gone_at_last() -> bool:
            while not await gone():
                await asyncio.sleep(0.02)
            return True

        await app.wait_until(gone_at_last, LIMIT)
        assert await waiting.status() in ("pending", "running", "suspended")


# --- names


async def registered(app: Tenuto, *ids: str) -> None:
    await app.store.register("elsewhere", 60_000, "other", dict.fromkeys(ids, "hash"))


async def test_a_client_without_the_code_starts_by_the_short_name_that_one_worker_knows(url: str) -> None:
    """R076."""
    async with Tenuto(url, worker=False) as client:
        await registered(client, "workflow//shop/orders.py//ship_order", "step//shop/orders.py//ship", "named")
        run = await client.start("ship_order", 7)
        record = await client.store.get(run.id)
        assert record is not None
        assert (record.target, run.id.partition("-")[0]) == ("workflow//shop/orders.py//ship_order", "ship_order")
        named = await client.start("named")
        assert (await client.store.get(named.id)).target == "named"  # type: ignore[union-attr]


async def test_a_short_name_that_two_workers_know_differently_is_ambiguous(url: str) -> None:
    """R076."""
    async with Tenuto(url, worker=False) as client:
        await registered(client, "workflow//a.py//ship_order", "workflow//b.py//ship_order")
        with pytest.raises(AmbiguousNameError, match=r"workflow//a.py//ship_order, workflow//b.py//ship_order"):
            await client.start("ship_order")
        full = await client.start("workflow//a.py//ship_order")
        assert await full.status() == "pending"


async def test_a_short_name_nobody_knows_is_refused_and_a_full_id_is_taken_as_it_is(url: str) -> None:
    """R076."""
    async with Tenuto(url, worker=False) as client:
        await registered(client, "step//a.py//ship_order")
        with pytest.raises(DefinitionNotFoundError, match="ship_order"):
            await client.start("ship_order")
        run = await client.start("workflow//somewhere.py//ship_order")
        assert await run.status() == "pending"


# --- ids used again


async def test_a_closed_run_is_restarted_under_its_id_where_that_is_asked(app: Tenuto) -> None:
    first = await app.start(ticking, 1, id="again")
    assert await first.result(timeout=LIMIT) == (2, None)
    second = await app.start(ticking, 5, id="again", if_exists="restart_closed")
    assert await second.result(timeout=LIMIT) == (6, None)
    with pytest.raises(RunIdConflictError):
        await app.start(ticking, 9, id="again", if_exists="restart_failed")


# --- commits nobody knows about (section 4)


class Unsure:
    """Breaks the connection around a call of a store: before it, or after it was committed."""

    def __init__(self, app: Tenuto, method: str, *, after: bool, times: int = 1) -> None:
        assert isinstance(app.engine, NativeEngine)
        self.calls = 0
        self._real = getattr(app.store, method)
        self._after = after
        self._times = times
        setattr(app.engine.store, method, self)

    async def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls > self._times:
            return await self._real(*args)
        if self._after:
            await self._real(*args)
        raise CommitUnknownError("the connection was lost during a commit")


@pytest.mark.parametrize("after", [False, True])
async def test_a_start_whose_commit_is_unknown_is_one_run(url: str, after: bool) -> None:
    async with Tenuto(url, worker=False) as app:
        Unsure(app, "create", after=after)
        run = await app.start(ticking, 3, id="one", if_exists="error")
        assert await run.status() == "pending"
        assert len([found async for found in app.runs()]) == 1
        with pytest.raises(RunIdConflictError):
            await app.start(ticking, 3, id="one", if_exists="error")


@pytest.mark.parametrize("after", [False, True])
async def test_a_signal_with_an_id_whose_commit_is_unknown_is_delivered_once(url: str, after: bool) -> None:
    async with Tenuto(url, worker=False) as app:
        run = await app.start(patient)
        Unsure(app, "send", after=after)
        await run.signal("go", id="only")
        assert len(await app.store.mail(run.id, 0)) == 1


async def test_a_signal_without_an_id_whose_commit_is_unknown_is_not_sent_again(url: str) -> None:
    async with Tenuto(url, worker=False) as app:
        run = await app.start(patient)
        sender = Unsure(app, "send", after=True)
        with pytest.raises(CommitUnknownError):
            await run.signal("go")
        assert sender.calls == 1


async def test_a_schedule_and_a_cancel_whose_commits_are_unknown_are_made_once(url: str) -> None:
    async with Tenuto(url, worker=False) as app:
        run = await app.start(patient)
        Unsure(app, "put_schedule", after=True)
        await app.schedule("tick", ticking, every="1h")
        Unsure(app, "send", after=True)
        await run.cancel()
        assert (len(await summaries(app)), await run.status()) == (1, "cancelled")


async def test_a_call_that_stays_unknown_says_so(url: str) -> None:
    async with Tenuto(url, worker=False) as app:
        Unsure(app, "create", after=False, times=2)
        with pytest.raises(CommitUnknownError, match="asking again failed"):
            await app.start(ticking, 3, id="perhaps")
        assert [found async for found in app.runs()] == []


async def test_a_store_that_is_away_when_asked_again_leaves_the_outcome_unknown(url: str) -> None:
    async with Tenuto(url, worker=False) as app:
        real = app.store.create
        outcomes: list[Exception] = [CommitUnknownError("lost"), StoreUnavailableError("down")]

        async def create(*args: Any) -> bool:
            if outcomes:
                raise outcomes.pop(0)
            return await real(*args)

        app.store.create = create  # type: ignore[method-assign]
        with pytest.raises(CommitUnknownError, match="down"):
            await app.start(ticking, 3, id="perhaps")
        run = await app.start(ticking, 3, id="perhaps")
        assert await run.status() == "pending"


@pytest.mark.parametrize("after", [False, True])
async def test_a_restart_whose_commit_is_unknown_happens_once(url: str, after: bool) -> None:
    async with Tenuto(url, grace=1) as app:
        first = await app.start(ticking, 1, id="again")
        await first.result(timeout=LIMIT)
        Unsure(app, "recreate", after=after)
        second = await app.start(ticking, 5, id="again", if_exists="restart_closed")
        assert await second.result(timeout=LIMIT) == (6, None)
