"""Leases: who may write, for how long, and what happens to the runs of those that are gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.codec.values import load
from tenuto.errors import StepOutcomeUnknownError
from tenuto.host.classify import narrowed
from tenuto.store.port import Full, NewTimer, Park, TaskEnd

LEASE = 30_000


async def test_a_late_heartbeat_revives_nothing(world: Any, store: Any) -> None:
    """R015."""
    await world.worker()
    world.clock.ms += LEASE
    assert await store.heartbeat("w", LEASE)
    world.clock.ms += LEASE + 1
    assert not await store.heartbeat("w", LEASE)
    assert not await store.heartbeat("nobody", LEASE)


async def test_a_lease_whose_worker_nobody_knows_is_swept(world: Any, store: Any) -> None:
    """R016."""
    await world.start()
    await world.claim("ghost")
    assert await store.sweep(5, 10) == 1
    assert await world.status() == "suspended"
    await world.worker()
    assert await world.claimed() == ["r"]


async def test_one_heartbeat_keeps_every_lease_of_its_worker(world: Any, store: Any) -> None:
    """R017."""
    await world.worker()
    for n in range(20):
        await world.start(f"r{n}")
    assert len(await store.claim_runs("w", ["wf"], 100)) == 20
    world.clock.ms += LEASE
    assert await store.heartbeat("w", LEASE)
    world.clock.ms += LEASE
    assert await store.sweep(5, 100) == 0
    world.clock.ms += 1
    assert await store.sweep(5, 100) == 20


async def test_one_stale_member_does_not_spoil_the_group(world: Any, store: Any) -> None:
    """R020."""
    await world.worker()
    for n in range(5):
        await world.start(f"r{n}")
    claims = await store.claim_runs("w", ["wf"], 10)
    await store.claim("r2")
    commits = [narrowed(Full(claim.lease, "suspended", world.batch((b"k", b"v")))) for claim in claims]
    results = await store.commit_group(commits)
    assert [result.verdict for result in results] == ["committed", "committed", "stale", "committed", "committed"]
    assert [(b"k", b"v") in await store.rows(f"r{n}") for n in range(5)] == [True, True, False, True, True]


async def test_a_claim_says_whether_somebody_else_had_the_run_meanwhile(world: Any, store: Any) -> None:
    """R022: a cached run is valid only if the epoch before the claim is the one it last committed under."""
    await world.worker()
    mine = await world.suspended()
    await store.wake("r")
    again = await world.claim()
    assert again.epoch_before == mine.lease.epoch
    await store.commit_group([narrowed(Full(again.lease, "suspended"))])
    await store.wake("r")
    (other,) = await store.claim_runs("other", ["wf"], 1)
    await store.commit_group([narrowed(Full(other.lease, "suspended"))])
    await store.wake("r")
    back = await world.claim()
    assert back.epoch_before != again.lease.epoch


async def test_a_turn_the_store_cannot_take_affects_only_its_own_run(world: Any, store: Any) -> None:
    """R023: the group is refused whole, then its members are committed one by one."""
    await world.worker()
    for run in ("bad", "good"):
        await world.start(run)
    leases = {claim.record.id: claim.lease for claim in await store.claim_runs("w", ["wf"], 10)}
    bad = narrowed(Full(leases["bad"], "running", world.batch((b"k", object()))))
    good = narrowed(Full(leases["good"], "running", world.batch((b"k", b"v"))))
    with pytest.raises(TypeError):
        await store.commit_group([good, bad])
    assert (b"k", b"v") not in await store.rows("good")
    with pytest.raises(TypeError):
        await store.commit_group([bad])
    assert [result.verdict for result in await store.commit_group([good])] == ["committed"]


async def test_requests_that_fail_beside_each_other_spoil_no_other(world: Any, store: Any) -> None:
    """R023, across callers."""
    await world.worker()
    for n in range(6):
        await world.start(f"r{n}")
    leases = [claim.lease for claim in await store.claim_runs("w", ["wf"], 10)]
    values = [b"v", object(), b"v", b"v", object(), b"v"]
    done = await asyncio.gather(
        *(
            store.commit_group([narrowed(Full(lease, "running", world.batch((b"k", value))))])
            for lease, value in zip(leases, values, strict=True)
        ),
        return_exceptions=True,
    )
    assert [isinstance(one, TypeError) for one in done] == [value != b"v" for value in values]
    assert [(b"k", b"v") in await store.rows(f"r{n}") for n in range(6)] == [value == b"v" for value in values]


async def test_a_swept_worker_cannot_commit_any_more(world: Any, store: Any) -> None:
    """P5."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    world.clock.ms += LEASE + 1
    await store.sweep(5, 10)
    commit = narrowed(
        Full(
            claim.lease,
            "running",
            world.batch((b"k", b"v")),
            tasks=(world.task(),),
            timers=(NewTimer("nap", world.clock.ms, "delay"),),
        )
    )
    (result,) = await store.commit_group([commit])
    assert result.verdict == "stale"
    assert (b"k", b"v") not in await store.rows("r")
    assert (await store.timers("r"), await store.task("t")) == ([], None)


async def test_a_worker_that_lost_a_run_does_not_take_the_wake_up_it_got_since(world: Any, store: Any) -> None:
    """I9: a worker stopped past its lease still believes in its runs when it goes on."""
    await world.worker()
    await world.start()
    await world.claim()
    world.clock.ms += LEASE + 1
    assert await store.sweep(5, 10) == 1
    assert await store.absorb("w", ["r"]) == []
    await world.worker("v")
    assert await world.claimed("v") == ["r"]


async def test_an_outcome_is_not_changed_by_a_further_turn(world: Any, store: Any) -> None:
    """V7."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.commit_group([narrowed(Full(claim.lease, "completed"))])
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", world.batch((b"k", b"v"))))])
    assert (result.verdict, await world.status()) == ("stale", "completed")


async def test_a_worker_that_leaves_gives_everything_back_uncounted(world: Any, store: Any) -> None:
    """R067, as far as a store shows it."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.enqueue(world.task())
    (task,) = await store.claim_tasks("w", ["step"], None, 10)
    assert task.attempt == 1
    await store.deregister("w")
    assert not await store.heartbeat("w", LEASE)
    assert (await store.commit_group([narrowed(Full(claim.lease, "running"))]))[0].verdict == "stale"
    assert await world.status() == "suspended"
    await world.worker("v")
    assert await world.claimed("v") == ["r"]
    (again,) = await store.claim_tasks("v", ["step"], None, 10)
    assert (again.id, again.attempt) == ("t", 1)


@pytest.mark.parametrize("leaves", [True, False], ids=["the worker leaves", "the worker has lost sight of it"])
async def test_an_attempt_that_had_begun_counts_when_its_task_is_given_back(
    world: Any, store: Any, leaves: bool
) -> None:
    """P2, R067: the last one is `interrupted` and not run again; with attempts left it is retried after its delay."""
    await world.worker()
    await world.suspended("parent")
    for name, attempts in (("once", 1), ("often", 3), ("waiting", 1)):
        await store.enqueue(world.task(name, max_attempts=attempts))
    claimed = {task.id: task for task in await store.claim_tasks("w", ["step"], None, 10)}
    if leaves:
        await store.deregister("w", ["once", "often", "not ours"])
    else:
        await store.give_back_tasks("w", [], ["once", "often", "not ours"])
    await world.worker("v")
    (again,) = await store.claim_tasks("v", ["step"], None, 10)
    assert (again.id, again.attempt) == ("waiting", 1)  # nobody had begun it
    once = await store.task("once")
    assert (once.status, once.attempts) == ("failed", 1)
    error = load(once.error)
    assert (type(error), error.kind) == (StepOutcomeUnknownError, "interrupted")
    assert (await store.task("often")).status == "scheduled"
    world.clock.ms += 200
    await store.fire_timers(10)
    (retried,) = await store.claim_tasks("v", ["step"], None, 10)
    assert (retried.id, retried.attempt) == ("often", 2)
    for late in claimed.values():
        assert not await store.end_task(TaskEnd(late.id, late.epoch, b"late", None, late.attempt))


async def test_a_begun_task_that_was_asked_to_stop_is_cancelled_when_its_worker_leaves(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task("t", max_attempts=3))
    await store.claim_tasks("w", ["step"], None, 10)
    await store.cancel_task("t")
    await store.deregister("w", ["t"])
    assert (await store.task("t")).status == "cancelled"


async def test_a_worker_gives_back_tasks_it_was_given_and_never_heard_of(world: Any, store: Any) -> None:
    """Section 4: the answer to a claim was lost; those it has stay its own."""
    await world.worker()
    for name in ("heard", "unheard"):
        await store.enqueue(world.task(name))
    claimed = {task.id: task for task in await store.claim_tasks("w", ["step"], None, 10)}
    await store.give_back_tasks("w", ["heard"])
    (again,) = await store.claim_tasks("w", ["step"], None, 10)
    assert (again.id, again.attempt) == ("unheard", 1)
    late = claimed["unheard"]
    assert not await store.end_task(TaskEnd(late.id, late.epoch, b"late", None, late.attempt))
    kept = claimed["heard"]
    assert await store.end_task(TaskEnd(kept.id, kept.epoch, b"out", None, kept.attempt))


async def test_an_equal_worker_leaves_a_parked_run_alone_and_another_one_lets_it_go_once(
    world: Any, store: Any
) -> None:
    """R075."""
    await world.worker("w", "old")
    await world.start()
    claim = await world.claim()
    await store.commit_group([Park(claim.lease, reason="diverged", capability="old")])
    record = await store.get("r")
    assert (record.status, record.reason) == ("parked", "diverged")
    await world.worker("v", "old")
    assert await world.status() == "parked"
    await store.register("stranger", LEASE, "other", {"else": "h"})
    assert await world.status() == "parked"
    await world.worker("u", "new")
    assert await world.claimed("u") == ["r"]
    assert await world.claimed("u") == []
