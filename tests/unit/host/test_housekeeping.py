"""What one worker does for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenuto.codec.values import dump
from tenuto.errors import StoreUnavailableError
from tenuto.host.classify import narrowed
from tenuto.host.definitions import Definitions
from tenuto.host.housekeeping import BACKGROUND, DELETED_AT_ONCE, FIRED_AT_ONCE, Housekeeper
from tenuto.host.schedules import ON_TIME_MS, ScheduleOptions, check_schedule
from tenuto.model.registry import default
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Full, NewRun

START = 1_700_000_000_000
HOUR = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


def housekeeper(store: Any, owner: str = "w", retention_ms: int | None = None) -> Housekeeper:
    return Housekeeper(store, Definitions(default), lambda: owner, 30_000, retention_ms, lambda: None)


async def test_another_worker_takes_over_within_the_lease_of_one_that_died(store: MemoryStore, clock: Clock) -> None:
    """R028: no word from the first any more."""
    first, second = housekeeper(store, "first"), housekeeper(store, "second")
    await first.take()
    await second.take()
    assert [first.holds(name) for name in BACKGROUND] == [True] * 4
    assert [second.holds(name) for name in BACKGROUND] == [False] * 4
    clock.ms += 20_000  # two thirds of a lease: its half is over, and so is the pause before the next try
    await second.take()
    assert all(second.holds(name) for name in BACKGROUND)


async def test_a_worker_that_cannot_reach_the_store_goes_on_and_holds_nothing_new(store: MemoryStore) -> None:
    class Away:
        async def take_background(self, *_: Any) -> list[str]:
            raise StoreUnavailableError("down")

    away = housekeeper(Away())
    await away.take()
    assert not any(away.holds(name) for name in BACKGROUND)


def hourly(name: str) -> Any:
    options: ScheduleOptions = {
        "cron": None,
        "every": "1h",
        "tz": "UTC",
        "overlap": "skip",
        "catch_up": "one",
        "start_at": None,
        "end_at": None,
    }
    return check_schedule(name, "workflow//shop.py//report", dump([[], {}]), "reports", options, START)


async def test_a_schedule_that_cannot_be_understood_here_does_not_hold_up_the_others(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await store.put_schedule(hourly("good"))
    await store.put_schedule(replace(hourly("bad"), every_ms=None, cron="0 * * * *", tz="Middle/Earth"))
    clock.ms += HOUR
    assert await housekeeper(store).fire_schedules() == START + 2 * HOUR
    (run,) = await store.runs()
    assert (run.id.partition("@")[0], run.queue, run.parent_id) == ("good", "reports", None)
    assert caplog.text.count("schedule 'bad' cannot be understood here") == 1  # however often it is looked at


async def test_a_hundred_schedules_that_cannot_be_fired_do_not_hide_the_ones_behind_them(
    store: MemoryStore, clock: Clock
) -> None:
    for n in range(FIRED_AT_ONCE + 1):
        await store.put_schedule(replace(hourly(f"bad{n:03}"), every_ms=None, cron="0 * * * *", tz="Middle/Earth"))
    await store.put_schedule(hourly("good"))
    clock.ms += HOUR
    await housekeeper(store).fire_schedules()
    assert [run.id.partition("@")[0] for run in await store.runs()] == ["good"]


async def test_of_many_schedules_due_at_once_the_last_is_not_late(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """R051: their turn comes minutes after their time, because there are so many; and again an hour later."""
    names = [f"nightly{n:03}" for n in range(2 * FIRED_AT_ONCE + 1)]
    for name in names:
        await store.put_schedule(replace(hourly(name), catch_up="none", overlap="allow"))
    slow = Slow(store, clock)
    keeper = housekeeper(slow)
    for hour in (1, 2):
        clock.ms = START + hour * HOUR
        await keeper.fire_schedules()
        assert clock.ms > START + hour * HOUR + 2 * ON_TIME_MS
        assert len(await store.runs()) == hour * len(names)
    assert slow.transactions == 6  # together, a page at a time
    assert "missed" not in caplog.text


async def test_a_time_that_came_while_the_loop_was_busy_is_not_missed(store: MemoryStore, clock: Clock) -> None:
    """R051."""
    await store.put_schedule(hourly("first"))
    keeper = housekeeper(Slow(store, clock, 10 * ON_TIME_MS))
    clock.ms += HOUR
    options = replace(hourly("second"), catch_up="none", start_at=None, anchor=START + ON_TIME_MS)
    await store.put_schedule(replace(options, next_at=clock.ms + ON_TIME_MS))
    await keeper.fire_schedules()
    assert sorted(run.id.partition("@")[0] for run in await store.runs()) == ["first", "second"]


async def test_a_time_that_is_dropped_is_logged_with_the_reason(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tenuto.host")
    await store.put_schedule(replace(hourly("late"), catch_up="none"))
    await store.put_schedule(hourly("slow"))
    await store.create(NewRun("theirs@2023-11-14T23:13:20Z", "wf", ()))
    await store.put_schedule(hourly("theirs"))
    keeper = housekeeper(store)
    clock.ms += HOUR + 2 * ON_TIME_MS
    await keeper.fire_schedules()
    clock.ms += HOUR
    await keeper.fire_schedules()
    assert "'late': late@2023-11-14T23:13:20Z was missed" in caplog.text
    assert "'slow': slow@2023-11-15T00:13:20Z was skipped, because slow@2023-11-14T23:13:20Z is open" in caplog.text
    assert "'theirs' started nothing: 'theirs@2023-11-14T23:13:20Z'" in caplog.text


class Slow:
    """A store whose clock moves on with every transaction that fires schedules."""

    def __init__(self, store: MemoryStore, clock: Clock, step_ms: int = ON_TIME_MS) -> None:
        self._store, self._clock, self._step_ms = store, clock, step_ms
        self.transactions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def fire_schedules(self, firings: Any) -> Any:
        self.transactions += 1
        self._clock.ms += self._step_ms
        return await self._store.fire_schedules(firings)


async def test_firing_says_when_the_next_time_comes(store: MemoryStore, clock: Clock) -> None:
    await store.put_schedule(hourly("tick"))
    keeper = housekeeper(store)
    assert await keeper.fire_schedules() == START + HOUR
    clock.ms += HOUR
    assert await keeper.fire_schedules() == START + 2 * HOUR


async def test_what_is_old_is_deleted_a_part_at_a_time_until_nothing_is_left(store: MemoryStore, clock: Clock) -> None:
    """R068."""
    await store.register("w", 30_000, "c", {"wf": "hash"})
    for n in range(DELETED_AT_ONCE + 1):
        await store.create(NewRun(f"r{n}", "wf", ()))
    for claim in await store.claim_runs("w", ["wf"], DELETED_AT_ONCE + 1):
        await store.commit_group([narrowed(Full(claim.lease, "completed"))])
    clock.ms += HOUR
    assert await housekeeper(store).delete_expired(HOUR) == DELETED_AT_ONCE + 1
    assert await store.runs() == []


async def test_statistics_that_cannot_be_kept_are_said_once_and_again_when_they_fail_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = [StoreUnavailableError("away")] * 3 + [None] * 2 + [StoreUnavailableError("away again")] * 2

    class Sometimes:
        async def update_statistics(self) -> int:
            if (error := answers.pop(0)) is not None:
                raise error
            return 0

    keeper = housekeeper(Sometimes())
    while answers:
        await keeper.update_statistics()
    # In one line each: what an error says is escaped.
    said = [message.partition("\\n")[0].rpartition("TN301 ")[2] for message in caplog.messages]
    assert said == ["away", "away again"]
