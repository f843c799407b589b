"""Schedules and background leases: fired once by whoever comes first, all or nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tenuto.codec.values import dump
from tenuto.host.classify import narrowed
from tenuto.host.schedules import ScheduleOptions, check_schedule, firing_of
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.housekeeping import DueSchedule, Fired, Firing, ScheduleRecord
from tenuto.store.port import SCHEDULE, Full, NewRun, NewTimer, Outgoing

HOUR = 3_600_000
NOON = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp() * 1000)


def record(now: int, name: str = "tick", **options: Any) -> ScheduleRecord:
    """A schedule of workflow `wf`, hourly unless told otherwise."""
    wanted: ScheduleOptions = {
        "cron": None if "every" in options else "0 * * * *",
        "every": None,
        "tz": "UTC",
        "overlap": "skip",
        "catch_up": "one",
        "start_at": None,
        "end_at": None,
    }
    wanted.update(options)  # type: ignore[typeddict-item]
    return check_schedule(name, "wf", b"input", "default", wanted, now)


def firing(due: DueSchedule, now: int) -> Firing:
    def cancel(run_id: str) -> Outgoing:
        return Outgoing(run_id, Mail(MailKind.CANCEL, "", None, dump(["next", None]), None, 0, now), f"cancel:{run_id}")

    return firing_of(due, now, now, lambda run_id: start(due.record.name, run_id), cancel)


def start(name: str, run_id: str) -> NewRun:
    return NewRun(run_id, "wf", ((b"\x15\x01", b"first"),), (f"{SCHEDULE}{name}", run_id), detached=True)


async def fire(world: Any) -> bool:
    """One look of a schedule loop; whether it fired the one there is."""
    due, _ = await world.store.due_schedules(10)
    fired = await world.store.fire_schedules([firing(item, world.clock.ms) for item in due])
    return bool(fired) and all(answer.moved for answer in fired)


async def ids(world: Any) -> list[str]:
    return [found.id for found in await world.store.runs()]


@pytest.fixture
async def noon(world: Any) -> Any:
    """It is twelve o'clock, and a worker is there."""
    world.clock.ms = NOON
    await world.worker()
    return world


async def test_a_due_schedule_starts_one_run_named_by_its_time_and_moves_on(noon: Any) -> None:
    """R049."""
    await noon.store.put_schedule(record(NOON))
    assert await noon.store.due_schedules(10) == ([], NOON + HOUR)
    assert not await fire(noon)
    noon.clock.ms += HOUR
    assert await fire(noon)
    assert await ids(noon) == ["tick@2026-06-01T13:00:00Z"]
    assert await noon.claimed() == ["tick@2026-06-01T13:00:00Z"]
    (stored,) = await noon.store.schedules()
    assert (stored.next_at, stored.last_id) == (NOON + 2 * HOUR, "tick@2026-06-01T13:00:00Z")
    assert not await fire(noon)


async def test_an_aborted_firing_leaves_neither_run_nor_time_and_fires_later_once(noon: Any) -> None:
    """R049."""
    await noon.store.put_schedule(record(NOON))
    noon.clock.ms += HOUR
    ((due,), _) = await noon.store.due_schedules(10)
    whole = firing(due, noon.clock.ms)
    broken = Firing("tick", due.record.revision, whole.next_at, None, (*whole.runs, None))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        await noon.store.fire_schedules([broken])
    assert await ids(noon) == []
    assert await noon.store.schedules() == [due.record]
    assert await fire(noon)
    assert not await fire(noon)
    assert len(await ids(noon)) == 1


async def test_two_loops_at_the_same_instant_start_one_run(noon: Any) -> None:
    """R050."""
    await noon.store.put_schedule(record(NOON))
    noon.clock.ms += HOUR
    ((due,), _) = await noon.store.due_schedules(10)
    fired = await asyncio.gather(*(noon.store.fire_schedules([firing(due, noon.clock.ms)]) for _ in range(4)))
    assert sorted(answer.moved for (answer,) in fired) == [False, False, False, True]
    assert len(await ids(noon)) == 1


async def test_many_due_schedules_are_read_by_pages_and_fired_together(noon: Any) -> None:
    """R049, R050: one transaction for a page; what another loop has moved on in between is left alone."""
    for name in ("a", "b", "c"):
        await noon.store.put_schedule(record(NOON, name))
    noon.clock.ms += HOUR
    first, _ = await noon.store.due_schedules(2)
    second, _ = await noon.store.due_schedules(2, first[-1].record.name)
    assert [item.record.name for item in (*first, *second)] == ["a", "b", "c"]
    assert (await noon.store.due_schedules(2, "c"))[0] == []
    firings = [firing(item, noon.clock.ms) for item in (*first, *second)]
    assert await noon.store.fire_schedules(firings[1:2]) == [Fired(True)]
    assert await noon.store.fire_schedules(firings) == [Fired(True), Fired(False), Fired(True)]
    assert sorted(await ids(noon)) == [f"{name}@2026-06-01T13:00:00Z" for name in "abc"]


async def test_a_run_of_somebody_else_under_a_time_of_the_schedule_is_not_its_own(noon: Any) -> None:
    """The time is reported as taken; the last run stays the one that the schedule started itself."""
    taken = "tick@2026-06-01T14:00:00Z"
    await noon.store.create(NewRun(taken, "wf", ((b"\x15\x01", b"foreign"),)))
    await noon.store.put_schedule(record(NOON, overlap="allow"))
    noon.clock.ms += HOUR
    assert await fire(noon)
    noon.clock.ms += HOUR
    ((due,), _) = await noon.store.due_schedules(10)
    assert await noon.store.fire_schedules([firing(due, noon.clock.ms)]) == [Fired(True, (taken,))]
    (stored,) = await noon.store.schedules()
    assert (stored.next_at, stored.last_id) == (NOON + 3 * HOUR, "tick@2026-06-01T13:00:00Z")


async def test_a_run_that_the_schedule_has_started_for_a_time_is_its_last_one_again(noon: Any) -> None:
    """Stored again with another rule, a schedule may meet a time that it has fired."""
    await noon.store.put_schedule(record(NOON, overlap="allow"))
    noon.clock.ms += HOUR
    assert await fire(noon)
    at = datetime.fromtimestamp(noon.clock.ms / 1000, UTC)
    noon.clock.ms -= HOUR
    await noon.store.put_schedule(record(NOON, every="2h", start_at=at, overlap="allow"))
    noon.clock.ms += HOUR
    ((due,), _) = await noon.store.due_schedules(10)
    assert await noon.store.fire_schedules([firing(due, noon.clock.ms)]) == [Fired(True)]
    (stored,) = await noon.store.schedules()
    assert stored.last_id == "tick@2026-06-01T13:00:00Z"


@pytest.mark.parametrize(("catch_up", "runs"), [("none", 0), ("one", 1), ("all", 3)])
async def test_times_missed_in_an_outage_are_made_up_for_as_asked(noon: Any, catch_up: str, runs: int) -> None:
    """R051."""
    await noon.store.put_schedule(record(NOON, catch_up=catch_up))
    noon.clock.ms += 3 * HOUR + HOUR // 2
    await fire(noon)
    assert [run[-9:-1] for run in await ids(noon)] == ["13:00:00", "14:00:00", "15:00:00"][3 - runs :]
    (stored,) = await noon.store.schedules()
    assert stored.next_at == NOON + 4 * HOUR


async def overlapped(noon: Any, overlap: str) -> list[tuple[str, str]]:
    """A schedule whose first run is still open when the second time comes."""
    await noon.store.put_schedule(record(NOON, overlap=overlap))
    for _ in range(2):
        noon.clock.ms += HOUR
        await fire(noon)
    return [(found.id[-9:-1], found.status) for found in await noon.store.runs()]


async def test_a_run_that_is_still_open_lets_the_next_time_pass(noon: Any) -> None:
    """R052, skip."""
    assert await overlapped(noon, "skip") == [("13:00:00", "pending")]
    (stored,) = await noon.store.schedules()
    assert stored.next_at == NOON + 3 * HOUR


async def test_overlapping_runs_are_started_where_that_is_allowed(noon: Any) -> None:
    """R052, allow."""
    assert await overlapped(noon, "allow") == [("13:00:00", "pending"), ("14:00:00", "pending")]


async def test_a_run_that_is_still_open_is_cancelled_for_the_next_where_that_is_asked(noon: Any) -> None:
    """R052, cancel: before it began it is cancelled at once; afterwards it gets the message."""
    assert await overlapped(noon, "cancel") == [("13:00:00", "cancelled"), ("14:00:00", "pending")]
    await noon.claim()
    noon.clock.ms += HOUR
    await fire(noon)
    assert [mail.kind for _, mail in await noon.store.mail("tick@2026-06-01T14:00:00Z", 0)] == [MailKind.CANCEL]


async def test_one_more_run_begins_when_the_open_one_ends(noon: Any) -> None:
    """R052, queue_one: one, however many times pass meanwhile."""
    assert await overlapped(noon, "queue_one") == [("13:00:00", "pending")]
    noon.clock.ms += HOUR
    await fire(noon)
    assert len(await ids(noon)) == 1
    claim = await noon.claim()
    assert not await fire(noon)
    await noon.store.commit_group([narrowed(Full(claim.lease, "completed"))])
    assert await fire(noon)
    assert [run[-9:-1] for run in await ids(noon)] == ["13:00:00", "14:00:00"]
    assert not await fire(noon)


async def test_the_same_rule_again_keeps_its_times_and_another_is_armed_from_now(noon: Any) -> None:
    await noon.store.put_schedule(record(NOON, every="90m"))
    noon.clock.ms += HOUR
    await noon.store.put_schedule(record(noon.clock.ms, every="90m", overlap="allow"))
    (stored,) = await noon.store.schedules()
    assert (stored.next_at, stored.overlap) == (NOON + 90 * 60_000, "allow")
    await noon.store.put_schedule(record(noon.clock.ms, every="2h"))
    (stored,) = await noon.store.schedules()
    assert (stored.next_at, stored.anchor) == (NOON + 3 * HOUR, NOON + HOUR)


async def test_a_change_between_looking_and_firing_makes_the_firing_void(noon: Any) -> None:
    await noon.store.put_schedule(record(NOON))
    noon.clock.ms += HOUR
    ((due,), _) = await noon.store.due_schedules(10)
    await noon.store.put_schedule(record(noon.clock.ms, catch_up="all"))
    assert await noon.store.fire_schedules([firing(due, noon.clock.ms)]) == [Fired(False)]
    assert await ids(noon) == []


async def test_a_paused_schedule_starts_nothing_until_it_is_armed_again(noon: Any) -> None:
    await noon.store.put_schedule(record(NOON))
    assert await noon.store.set_schedule("tick", 0, True, NOON + HOUR)
    assert not await noon.store.set_schedule("tick", 0, False, NOON)
    noon.clock.ms += HOUR
    assert await noon.store.due_schedules(10) == ([], None)
    assert await noon.store.set_schedule("tick", 1, False, NOON + 2 * HOUR)
    assert await noon.store.due_schedules(10) == ([], NOON + 2 * HOUR)


async def test_a_deleted_schedule_leaves_its_runs(noon: Any) -> None:
    await noon.store.put_schedule(record(NOON))
    noon.clock.ms += HOUR
    await fire(noon)
    assert await noon.store.delete_schedule("tick")
    assert not await noon.store.delete_schedule("tick")
    assert (await noon.store.get_schedule("tick"), len(await ids(noon))) == (None, 1)


async def test_a_background_lease_has_one_holder_until_it_runs_out_or_is_given_back(noon: Any) -> None:
    """R028, Q12: one loop dies, the other takes over within the lease."""
    take = noon.store.take_background
    assert await take(["timers", "sweep"], "a", 15_000) == ["timers", "sweep"]
    assert await take(["timers", "janitor"], "b", 15_000) == ["janitor"]
    noon.clock.ms += 15_000
    assert await take(["timers"], "a", 15_000) == ["timers"]
    assert await take(["sweep"], "b", 15_000) == []
    noon.clock.ms += 1
    assert await take(["sweep", "timers"], "b", 15_000) == ["sweep"]
    await noon.store.deregister("a")
    assert await take(["timers"], "b", 15_000) == ["timers"]


async def test_two_timer_loops_fire_each_timer_once(noon: Any) -> None:
    """R028."""
    for n in range(6):
        timer = NewTimer("nap", NOON + 10, "delay")
        await noon.suspended(f"r{n}", timers=(timer,), alarm=NOON + 10)
    noon.clock.ms += 10
    await asyncio.gather(noon.store.fire_timers(4), noon.store.fire_timers(4), noon.store.fire_timers(4))
    assert sorted(await noon.claimed()) == [f"r{n}" for n in range(6)]
    assert await noon.claimed() == []
