"""Timers: never early, always, and by the store's clock alone."""

from __future__ import annotations

from typing import Any

from tenuto.host.classify import narrowed
from tenuto.kernel.records import MailKind
from tenuto.store.port import Full, NewRun, NewTimer


async def asleep(world: Any, *deadlines: int, run_id: str = "r") -> None:
    """A run that sleeps until each of these, counted from now."""
    await world.worker()
    timers = tuple(NewTimer(f"nap{n}", world.clock.ms + after, "delay") for n, after in enumerate(deadlines))
    await world.suspended(run_id, timers=timers, alarm=world.clock.ms + min(deadlines))


async def test_a_timer_does_not_fire_a_millisecond_early_and_fires_at_its_deadline(world: Any, store: Any) -> None:
    """R024."""
    await asleep(world, 1_000)
    world.clock.ms += 999
    assert await store.fire_timers(10) == world.clock.ms + 1
    assert await world.claimed() == []
    world.clock.ms += 1
    assert await store.fire_timers(10) is None
    assert await world.claimed() == ["r"]


async def test_two_timers_of_one_run_wake_it_once(world: Any, store: Any) -> None:
    """R025."""
    await asleep(world, 10, 20)
    world.clock.ms += 20
    assert await store.fire_timers(10) is None
    assert await world.claimed() == ["r"]
    assert await world.claimed() == []


async def test_timers_set_later_by_a_clock_that_went_back_fire_later_and_once(world: Any, store: Any) -> None:
    """R032."""
    await asleep(world, 1_000)
    world.clock.ms -= 5_000
    await store.fire_timers(10)
    assert await world.claimed() == []
    world.clock.ms += 6_000
    await store.fire_timers(10)
    await store.fire_timers(10)
    assert await world.claimed() == ["r"]
    assert await world.claimed() == []


async def test_a_signal_stored_before_a_deadline_is_there_when_the_run_wakes_after_it(world: Any, store: Any) -> None:
    """R031."""
    await asleep(world, 1_000)
    world.clock.ms += 999
    await store.send("r", world.signal())
    world.clock.ms += 5_000
    await store.fire_timers(10)
    await world.claim()
    assert [mail.kind for _, mail in await store.mail("r", 0)] == [MailKind.SIGNAL]


async def test_waking_a_sleeping_run_fires_no_timer(world: Any, store: Any) -> None:
    """R060."""
    await asleep(world, 1_000)
    await store.wake("r")
    claim = await world.claim()
    assert (claim.record.alarm, await store.timers("r")) == (world.clock.ms + 1_000, ["nap0"])


async def test_a_stopped_timer_never_fires(world: Any, store: Any) -> None:
    await asleep(world, 10)
    await store.wake("r")
    claim = await world.claim()
    await store.commit_group([narrowed(Full(claim.lease, "suspended", stopped_timers=("nap0",)))])
    world.clock.ms += 10
    assert await store.fire_timers(10) is None
    assert await world.claimed() == []


async def test_a_timer_started_again_at_its_place_has_the_new_deadline(world: Any, store: Any) -> None:
    await asleep(world, 10)
    await store.wake("r")
    claim = await world.claim()
    later = world.clock.ms + 500
    again = narrowed(Full(claim.lease, "suspended", timers=(NewTimer("nap0", later, "retry"),), alarm=later))
    await store.commit_group([again])
    world.clock.ms += 10
    assert await store.fire_timers(10) == later
    assert await world.claimed() == []


async def test_an_alarm_without_a_timer_of_its_own_wakes_the_run(world: Any, store: Any) -> None:
    """The time limit of a cancel is such an alarm."""
    await world.worker()
    await world.suspended(alarm=world.clock.ms + 50)
    assert await store.timers("r") == []
    world.clock.ms += 50
    await store.fire_timers(10)
    assert await world.claimed() == ["r"]


async def test_a_run_that_ended_has_no_timers(world: Any, store: Any) -> None:
    """V7."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    at = world.clock.ms + 5
    await store.commit_group([narrowed(Full(claim.lease, "running", timers=(NewTimer("nap", at, "delay"),), alarm=at))])
    await store.commit_group([narrowed(Full(claim.lease, "completed"))])
    assert await store.fire_timers(10) is None
    assert await store.timers("r") == []


async def test_at_most_so_many_timers_as_asked_fire_at_once(world: Any, store: Any) -> None:
    for n in range(4):
        await asleep(world, 10 + n, run_id=f"r{n}")
    world.clock.ms += 100
    assert await store.fire_timers(3) is not None
    assert len(await world.claimed()) == 3
    assert await store.fire_timers(3) is None
    assert await world.claimed() == ["r3"]


async def test_a_delayed_start_is_claimable_when_its_time_has_come(world: Any, store: Any) -> None:
    """R043, what it does: until then it costs claimers nothing."""
    await world.worker()
    await store.create(NewRun("later", "wf", (), delay_ms=1_000))
    assert (await world.status("later"), await world.claimed()) == ("scheduled", [])
    world.clock.ms += 1_000
    await store.fire_timers(10)
    assert await world.claimed() == ["later"]
