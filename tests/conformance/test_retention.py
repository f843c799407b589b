"""Retention: what was closed long enough ago goes with everything that belongs to it; and ids that are used again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.host.classify import narrowed
from tenuto.store.port import CLOSED, Full, NewRun, NewTimer, TaskEnd

DAY = 86_400_000


async def closed(world: Any, run_id: str = "r", **options: Any) -> None:
    """A run that has ended."""
    await world.start(run_id, **options)
    (claim,) = await world.store.claim_runs("w", ["wf"], 1)
    await world.store.commit_group([narrowed(Full(claim.lease, "completed", world.batch((b"\x15\x02", b"row"))))])


async def left(world: Any) -> list[str]:
    return [run.id for run in await world.store.runs()]


async def test_what_was_closed_longer_than_retention_is_deleted_and_nothing_else(world: Any, store: Any) -> None:
    """R068."""
    await world.worker()
    await closed(world, "old")
    world.clock.ms += DAY
    await closed(world, "new")
    await world.suspended("open", timers=(NewTimer("nap", world.clock.ms + DAY, "delay"),))
    assert await store.delete_expired(DAY + 1, 500) == 0
    assert await store.delete_expired(DAY, 500) == 1
    assert await left(world) == ["new", "open"]
    assert await store.timers("open") == ["nap"]
    assert await store.delete_expired(DAY, 500) == 0


async def test_a_deleted_run_leaves_no_row_task_or_mail_behind(world: Any, store: Any) -> None:
    """R068: the id can be used again, and what comes then is new."""
    await world.worker()
    await world.start()
    await store.send("r", world.signal(), "once")
    claim = await world.claim()
    await store.commit_group([narrowed(Full(claim.lease, "running", tasks=(world.task(),)))])
    (task,) = await store.claim_tasks("w", ["step"], None, 1)
    await store.end_task(TaskEnd(task.id, task.epoch, b"output", None, 1))
    await store.commit_group([narrowed(Full(claim.lease, "completed", seen=2))])
    world.clock.ms += DAY
    assert await store.delete_expired(DAY, 500) == 1
    assert await store.task("t") is None
    await world.start()
    assert await store.rows("r") == [(b"\x15\x01", b"first")]
    assert await store.send("r", world.signal(), "once") == 1


async def test_a_parent_stays_as_long_as_a_spawned_child_is_open(world: Any, store: Any) -> None:
    """R068; a closed child keeps its own time."""
    await world.worker()
    await closed(world, "parent")
    await store.reopen(Full((await store.claim("parent")), "suspended"))
    claim = await world.claim()
    child = NewRun("child", "wf", (), ("parent", "spawn"))
    await store.commit_group([narrowed(Full(claim.lease, "completed", runs=(child,)))])
    world.clock.ms += DAY
    assert await store.delete_expired(DAY, 500) == 0
    (claim,) = await store.claim_runs("w", ["wf"], 1)
    await store.commit_group([narrowed(Full(claim.lease, "completed"))])
    assert await store.delete_expired(DAY, 500) == 1
    assert await left(world) == ["child"]
    world.clock.ms += DAY
    assert await store.delete_expired(DAY, 500) == 1
    assert await left(world) == []


async def test_a_task_of_no_run_goes_too_and_one_of_an_open_run_stays(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task("alone"))
    await world.start()
    claim = await world.claim()
    await store.commit_group([narrowed(Full(claim.lease, "running", tasks=(world.task("mine"),)))])
    for task in await store.claim_tasks("w", ["step"], None, 2):
        await store.end_task(TaskEnd(task.id, task.epoch, b"output", None, 1))
    world.clock.ms += DAY
    assert await store.delete_expired(DAY, 500) == 1
    assert await store.task("alone") is None
    assert await store.task("mine") is not None


async def test_at_most_so_many_as_asked_go_at_once_the_oldest_first(world: Any, store: Any) -> None:
    await world.worker()
    for n in range(5):
        await closed(world, f"r{n}")
        world.clock.ms += 1
    world.clock.ms += DAY
    assert await store.delete_expired(DAY, 3) == 3
    assert await left(world) == ["r3", "r4"]


async def test_two_janitors_at_once_delete_what_is_old_without_an_error(world: Any, store: Any) -> None:
    await world.worker()
    for n in range(20):
        await closed(world, f"r{n:02}")
    world.clock.ms += DAY
    deleted = await asyncio.gather(*(store.delete_expired(DAY, 20) for _ in range(3)))
    assert (sum(deleted), await left(world)) == (20, [])


async def test_a_closed_run_makes_way_for_a_new_one_with_its_id(world: Any, store: Any) -> None:
    """Section 8, restart_closed: one transaction."""
    await world.worker()
    await closed(world)
    assert not await store.recreate(NewRun("r", "wf", ((b"k", b"new"),)), ["failed"])
    assert await store.rows("r") == [(b"\x15\x01", b"first"), (b"\x15\x02", b"row")]
    assert await store.recreate(NewRun("r", "wf", ((b"k", b"new"),)), sorted(CLOSED))
    assert (await world.status(), await store.rows("r")) == ("pending", [(b"k", b"new")])
    assert not await store.recreate(NewRun("r", "wf", ()), sorted(CLOSED))
    assert await store.recreate(NewRun("fresh", "wf", ()), sorted(CLOSED))


async def test_of_several_restarts_of_one_run_one_comes_about(world: Any, store: Any) -> None:
    await world.worker()
    await closed(world)
    new = NewRun("r", "wf", ())
    restarted = await asyncio.gather(*(store.recreate(new, sorted(CLOSED)) for _ in range(4)))
    assert sorted(restarted) == [False, False, False, True]


@pytest.mark.parametrize("ids", [("workflow//a.py//pack", "checkout"), ()])
async def test_what_workers_have_registered_is_known_to_clients(store: Any, ids: tuple[str, ...]) -> None:
    """R076."""
    await store.register("w", 30_000, "c", dict.fromkeys(ids, "hash"))
    await store.register("w2", 30_000, "c2", dict.fromkeys(ids, "other"))
    assert await store.defined() == sorted(ids)


async def test_keeping_statistics_changes_nothing_that_can_be_seen(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("waits", timers=(NewTimer("nap", world.clock.ms + DAY, "delay"),))
    await world.start("ready")
    before = await store.runs()
    assert [await store.update_statistics() for _ in range(2)] == [0, 0]  # nothing has grown
    assert await store.runs() == before
    assert await world.claimed() == ["ready"]
