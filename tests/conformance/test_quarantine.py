"""Work whose workers are lost again and again: claimed apart, in ever smaller groups, and parked if it was alone."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.host.classify import narrowed
from tenuto.store.port import Full
from tenuto.store.queues import QueueLimits

LEASE = 30_000
CONCURRENCY = 100
KNOWN = (["wf"], ["step"])


class Lives:
    """Workers that hold what they claimed until they are lost, one after the other."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.store = world.store
        self.count = 0

    async def begin(self) -> str:
        self.count += 1
        worker: str = await self.world.worker(f"w{self.count}")
        return worker

    async def suspects(self, worker: str, waited_ms: int = 0, room: int = CONCURRENCY) -> list[str]:
        """The ids of the suspects that a worker is given."""
        found = await self.store.claim_suspects(worker, KNOWN, None, (CONCURRENCY, room), waited_ms)
        return [claim.lease.run_id for claim in found.runs] + [task.id for task in found.tasks]

    async def lose(self, worker: str, *, slices: int = 1_000) -> None:
        await self.store.declare_lost([worker])
        while await self.store.sweep(3, slices):
            pass
        await self.until_ready()

    async def until_ready(self) -> None:
        """Until the delays of what was lost again are over."""
        for _ in range(3):
            following = await self.store.fire_timers(1_000)
            self.world.clock.ms = max(self.world.clock.ms, following or 0)

    async def lost_together(self, times: int) -> None:
        """Everything is claimed and lost so often, by workers that had all of it."""
        for _ in range(times):
            worker = await self.begin()
            await self.store.claim_runs(worker, ["wf"], 1_000)
            await self.lose(worker)


@pytest.fixture
def lives(world: Any) -> Lives:
    return Lives(world)


async def test_a_run_that_three_workers_were_lost_with_alone_is_parked_as_stuck(
    world: Any, store: Any, lives: Lives
) -> None:
    """R019, as far as a store shows it: claimed later and later, and named with what was under way."""
    await world.start()
    for losses in range(3):
        worker, before = await lives.begin(), world.clock.ms
        claims = await store.claim_runs(worker, ["wf"], 10)
        if losses < 2:
            (claim,) = claims
        else:
            assert claims == []
            (claim,) = (await store.claim_suspects(worker, KNOWN, None, (CONCURRENCY, CONCURRENCY), 0)).runs
        await store.note_place(claim.lease, "charge")
        assert await world.status() == "running"
        await lives.lose(worker)
        assert world.clock.ms - before == (0, 4_000, 0)[losses]
    record = await store.get("r")
    assert (record.status, record.reason[:6]) == ("parked", "stuck:")
    assert "TN110" in record.reason
    assert "at charge" in record.reason
    assert await store.release("r")
    await world.worker("again")
    assert await world.claimed("again") == ["r"]


async def test_what_was_under_way_is_that_of_the_last_worker(world: Any, store: Any, lives: Lives) -> None:
    await world.start()
    (claim,) = await store.claim_runs(await lives.begin(), ["wf"], 10)
    await store.note_place(claim.lease, "charge")
    await lives.lose("w1")
    (again,) = await store.claim_runs(await lives.begin(), ["wf"], 10)
    await store.note_place(claim.lease, "late")  # nobody's any more
    assert again.lease.epoch > claim.lease.epoch
    await store.declare_lost(["w2"])
    assert await store.sweep(2, 10) == 1
    assert "in its own code" in (await store.get("r")).reason


async def test_a_loss_in_company_is_no_strike_against_anybody(world: Any, store: Any, lives: Lives) -> None:
    for name in ("a", "b"):
        await world.start(name)
    for _ in range(6):
        worker = await lives.begin()
        await store.claim_runs(worker, ["wf"], 10)
        await lives.suspects(worker)
        await lives.suspects(worker)
        await lives.lose(worker)
    assert [await world.status(name) for name in ("a", "b")] == ["suspended", "suspended"]


async def test_a_crowd_that_is_swept_in_slices_leaves_none_of_it_alone(world: Any, store: Any, lives: Lives) -> None:
    for n in range(5):
        await world.start(f"r{n}")
    for _ in range(4):
        worker = await lives.begin()
        await store.claim_runs(worker, ["wf"], 10)
        for _ in range(5):
            await lives.suspects(worker)
        await lives.lose(worker, slices=2)
    assert [await world.status(f"r{n}") for n in range(5)] == ["suspended"] * 5


async def test_a_task_beside_it_is_company_for_a_run(world: Any, store: Any, lives: Lives) -> None:
    await world.start()
    await store.enqueue(world.task(max_attempts=10))
    worker = await lives.begin()
    await store.claim_runs(worker, ["wf"], 10)
    await store.claim_tasks(worker, ["step"], None, 10)
    await store.declare_lost([worker])
    await store.sweep(1, 10)
    assert await world.status() == "suspended"


async def test_after_a_first_loss_all_are_claimed_at_once(world: Any, store: Any, lives: Lives) -> None:
    """R019: a deploy, or a machine that went away, slows nobody down."""
    for n in range(100):
        await world.start(f"r{n}")
    await lives.lost_together(1)
    assert not await store.has_suspects(0)
    assert len(await store.claim_runs(await lives.begin(), ["wf"], 100)) == 100


async def test_suspects_are_claimed_apart_in_ever_smaller_groups(world: Any, store: Any, lives: Lives) -> None:
    """A quarter as many after each further loss; those that were claimed last come first."""
    for n in range(100):
        await world.start(f"r{n}")
    await lives.lost_together(2)
    await world.start("new")
    sizes, last = [], {f"r{n}" for n in range(100)}
    for _ in range(4):
        worker = await lives.begin()
        group = await lives.suspects(worker)
        assert set(group) <= last
        sizes.append(len(group))
        last = set(group)
        assert sorted(await store.still_suspect(worker)) == sorted(group)
        await lives.lose(worker)
    assert sizes == [25, 6, 1, 1]
    assert await world.claimed(await lives.begin()) == ["new"]


async def test_a_group_is_no_larger_than_the_room_there_is(world: Any, store: Any, lives: Lives) -> None:
    for n in range(10):
        await world.start(f"r{n}")
    await lives.lost_together(2)
    assert len(await lives.suspects(await lives.begin(), room=3)) == 3


async def test_a_busy_worker_is_given_suspects_when_they_have_waited_for_a_lease(
    world: Any, store: Any, lives: Lives
) -> None:
    await world.start()
    await lives.lost_together(2)
    busy = await lives.begin()
    assert (await store.has_suspects(0), await store.has_suspects(LEASE)) == (True, False)
    assert await lives.suspects(busy, waited_ms=LEASE) == []
    world.clock.ms += LEASE
    await store.heartbeat(busy, LEASE)
    assert await store.has_suspects(LEASE)
    assert await lives.suspects(busy, waited_ms=LEASE) == ["r"]
    assert not await store.has_suspects(0)


@pytest.mark.parametrize("writes", [True, False], ids=["a commit of rows", "a replay"])
async def test_a_commit_that_wrote_something_clears_a_suspect_and_a_replay_does_not(
    world: Any, store: Any, lives: Lives, writes: bool
) -> None:
    await world.start()
    await world.start("beside")
    await lives.lost_together(2)
    worker = await lives.begin()
    found = await store.claim_suspects(worker, KNOWN, None, (CONCURRENCY, CONCURRENCY), 0)
    leases = {claim.lease.run_id: claim.lease for claim in found.runs}
    rows = world.batch((b"k", b"v")) if writes else world.batch()
    await store.commit_group([narrowed(Full(leases["r"], "running", rows))])
    assert sorted(await store.still_suspect(worker)) == (["beside"] if writes else ["beside", "r"])
    await lives.lose(worker)
    assert await world.claimed(await lives.begin()) == (["r"] if writes else [])


async def test_strikes_count_from_the_last_commit(world: Any, store: Any, lives: Lives) -> None:
    await world.start()
    for _ in range(3):
        worker = await lives.begin()
        (claim,) = await store.claim_runs(worker, ["wf"], 10)
        await lives.lose(worker)
        worker = await lives.begin()
        (claim,) = await store.claim_runs(worker, ["wf"], 10)
        await store.commit_group([narrowed(Full(claim.lease, "running", world.batch((b"k", b"v"))))])
        await lives.lose(worker)
        assert await world.status() == "suspended"
        (claim,) = await store.claim_runs(await lives.begin(), ["wf"], 10)
        await store.commit_group([narrowed(Full(claim.lease, "suspended", world.batch((b"k", b"w"))))])
        await store.wake("r")


async def test_how_long_the_last_holder_lived_is_told_with_its_suspects(world: Any, store: Any, lives: Lives) -> None:
    """Up to the renewal that did not come: nobody knows it better."""
    await world.start()
    await lives.lost_together(1)
    worker = await lives.begin()
    await store.claim_runs(worker, ["wf"], 10)
    world.clock.ms += 20_000
    await store.heartbeat(worker, LEASE)
    world.clock.ms += LEASE + 1
    assert await store.sweep(3, 10) == 1
    await lives.until_ready()
    found = await store.claim_suspects(await lives.begin(), KNOWN, None, (CONCURRENCY, CONCURRENCY), 0)
    assert found.survived_ms == 20_000 + LEASE // 3


async def test_suspects_wait_for_a_worker_that_knows_them(world: Any, store: Any, lives: Lives) -> None:
    await world.start()
    await lives.lost_together(2)
    found = await store.claim_suspects(await lives.begin(), (["other"], []), None, (CONCURRENCY, CONCURRENCY), 0)
    assert (list(found.runs), list(found.tasks)) == ([], [])
    assert await lives.suspects(await lives.begin()) == ["r"]


async def test_tasks_are_claimed_apart_by_their_own_losses(world: Any, store: Any, lives: Lives) -> None:
    for name in ("a", "b"):
        await store.enqueue(world.task(name, max_attempts=10))
    for _ in range(2):
        worker = await lives.begin()
        assert len(await store.claim_tasks(worker, ["step"], None, 10)) == 2
        await lives.lose(worker)
    await store.enqueue(world.task("new"))
    worker = await lives.begin()
    assert [task.id for task in await store.claim_tasks(worker, ["step"], None, 10)] == ["new"]
    found = await store.claim_suspects(worker, KNOWN, None, (CONCURRENCY, CONCURRENCY), 0)
    assert sorted((task.id, task.attempt) for task in found.tasks) == [("a", 3), ("b", 3)]
    assert sorted(await store.still_suspect(worker)) == ["a", "b"]


async def test_suspects_among_tasks_are_of_queues_that_are_served_and_have_no_limits(
    world: Any, store: Any, lives: Lives
) -> None:
    await store.set_queue(QueueLimits("few", concurrency=1))
    for name, queue in (("t", "default"), ("limited", "few")):
        await store.enqueue(world.task(name, queue=queue, max_attempts=10))
    for _ in range(2):
        worker = await lives.begin()
        await store.claim_tasks(worker, ["step"], None, 10)
        await store.claim_limited(worker, ["wf"], ["step"], None, {}, (10, 10))
        await lives.lose(worker)
    worker = await lives.begin()
    group = (CONCURRENCY, CONCURRENCY)
    assert [task.id for task in (await store.claim_suspects(worker, KNOWN, ["few"], group, 0)).tasks] == []
    limited = await store.claim_limited(worker, ["wf"], ["step"], None, {}, (10, 10))
    assert [task.id for task in limited.tasks] == ["limited"]
    assert await lives.suspects(worker) == ["t"]


async def test_workers_declared_lost_lose_their_leases_and_what_they_did_for_all(world: Any, store: Any) -> None:
    """R078, as far as a store shows it."""
    await world.worker("w")
    await world.worker("v")
    await world.start()
    await world.claim("w")
    assert await store.take_background(["sweep"], "w", LEASE) == ["sweep"]
    await store.declare_lost(["w"])
    assert [worker.id for worker in await store.live_workers()] == ["v"]
    assert not await store.heartbeat("w", LEASE)
    assert await store.take_background(["sweep"], "v", LEASE) == ["sweep"]
    assert await store.sweep(3, 10) == 1
    assert await world.claimed("v") == ["r"]
