"""Tasks: their order, their attempts, and who may end them."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.keys import pack
from tenuto.codec.values import dump, load
from tenuto.host.classify import narrowed
from tenuto.store.port import Full, NewRun, TaskEnd

LEASE = 30_000


async def test_larger_priorities_first_then_older_ones(world: Any, store: Any) -> None:
    """R040."""
    await world.worker()
    for task_id, priority in (("low", 0), ("z-older", 5), ("a-newer", 5)):
        await store.enqueue(world.task(task_id, priority=priority))
        world.clock.ms += 1
    order = [(await store.claim_tasks("w", ["step"], None, 1))[0].id for _ in range(3)]
    assert order == ["z-older", "a-newer", "low"]


async def test_a_worker_claims_only_from_the_queues_it_serves(world: Any, store: Any) -> None:
    await world.worker()
    for queue in ("a", "b", "c"):
        await store.enqueue(world.task(f"t-{queue}", queue=queue))
    assert [task.id for task in await store.claim_tasks("w", ["step"], ["b", "x"], 5)] == ["t-b"]
    assert [task.id for task in await store.claim_tasks("w", ["step"], None, 5)] == ["t-a", "t-c"]


async def test_a_worker_never_claims_a_step_it_does_not_know(world: Any, store: Any) -> None:
    """R048."""
    await world.worker()
    await store.enqueue(world.task("strange", target="unknown"))
    await store.enqueue(world.task("known"))
    assert [task.id for task in await store.claim_tasks("w", ["step"], None, 5)] == ["known"]


async def test_a_claimed_task_carries_everything_its_worker_needs(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("r", tasks=(world.task(timeout_ms=5, heartbeat_ms=7),))
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    assert (task.target, task.input, task.run_id, task.location) == ("step", b"input", "r", "pack")
    assert (task.attempt, task.max_attempts, task.backoff_ms, task.backoff_max_ms) == (1, 3, 100.0, 30_000.0)
    assert (task.timeout_ms, task.heartbeat_ms) == (5, 7)


async def test_an_open_key_is_the_same_task_and_everyone_gets_its_result(world: Any, store: Any) -> None:
    """R044."""
    await world.worker()
    assert await store.enqueue(world.task("first", key="k")) == "first"
    assert await store.enqueue(world.task("second", key="k")) == "first"
    assert await store.enqueue(world.task("third", key="k", queue="other")) == "third"
    await world.suspended("a", tasks=(world.task("ta", key="k"),))
    await world.suspended("b", tasks=(world.task("tb", key="k"),))
    (task,) = await store.claim_tasks("w", ["step"], ["default"], 5)
    await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    for run in ("a", "b"):
        assert [(mail.name, mail.payload) for _, mail in await store.mail(run, 0)] == [("pack", b"out")]
    assert sorted(await world.claimed()) == ["a", "b"]
    assert await store.enqueue(world.task("fourth", key="k")) == "fourth"


async def test_a_task_whose_key_a_run_has_gets_that_runs_result(world: Any, store: Any) -> None:
    """R044: an item of the queue is a task or a run."""
    await world.worker()
    await store.create(NewRun("keyed", "wf", (), key="k"))
    claim = await world.claim()
    await world.suspended("r", tasks=(world.task("mine", key="k"),))
    output = (pack((4, 2)), b"value")
    await store.commit_group([narrowed(Full(claim.lease, "completed", world.batch(output)))])
    assert [(mail.name, mail.payload, mail.error) for _, mail in await store.mail("r", 0)] == [("pack", b"value", None)]
    assert await world.claimed() == ["r"]


async def test_a_follower_of_a_run_that_failed_gets_its_error(world: Any, store: Any) -> None:
    await world.worker()
    await store.create(NewRun("keyed", "wf", (), key="k"))
    claim = await world.claim()
    await world.suspended("r", tasks=(world.task("mine", key="k"),))
    error = (pack((4, 3)), dump(ValueError("bad card")))
    await store.commit_group([narrowed(Full(claim.lease, "failed", world.batch(error)))])
    ((_, mail),) = await store.mail("r", 0)
    failure = load(mail.error)
    assert (type(failure).__name__, str(failure.__cause__)) == ("ChildFailedError", "bad card")


async def test_a_run_that_withdrew_its_task_is_not_told_about_the_one_it_followed(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task("first", key="k"))
    claim = await world.suspended("a", tasks=(world.task("ta", key="k"),))
    await store.commit(narrowed(Full(claim.lease, "suspended", cancelled_tasks=("ta",))))
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    assert await store.mail("a", 0) == []


async def test_a_task_queued_again_by_the_same_operation_is_not_a_second_one(world: Any, store: Any) -> None:
    await world.worker()
    claim = await world.suspended("r", tasks=(world.task(),))
    await store.commit(narrowed(Full(claim.lease, "suspended", tasks=(world.task(),))))
    assert len(await store.claim_tasks("w", ["step"], None, 5)) == 1


async def test_a_task_that_fails_twice_waits_twice_and_wakes_its_parent_once(world: Any, store: Any) -> None:
    """R046."""
    await world.worker()
    await world.suspended("r", tasks=(world.task(),))
    for attempt, delay in ((1, 200), (2, 400)):
        (task,) = await store.claim_tasks("w", ["step"], None, 5)
        assert task.attempt == attempt
        retry_at = world.clock.ms + delay
        assert await store.end_task(TaskEnd("t", task.epoch, None, b"bad", attempt, retry_at))
        assert (await store.task("t"))[0] == "scheduled"
        assert await store.fire_timers(10) == retry_at
        assert (await store.claim_tasks("w", ["step"], None, 5), await store.mail("r", 0)) == ([], [])
        world.clock.ms = retry_at
        await store.fire_timers(10)
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    await store.end_task(TaskEnd("t", task.epoch, b"out", None, 3))
    assert [(mail.payload, mail.attempts) for _, mail in await store.mail("r", 0)] == [(b"out", 3)]
    assert await world.claimed() == ["r"]


async def test_a_late_worker_cannot_complete_a_task_it_no_longer_owns(world: Any, store: Any) -> None:
    """R047."""
    await world.worker("first")
    await world.suspended("r", "first", tasks=(world.task(),))
    (old,) = await store.claim_tasks("first", ["step"], None, 5)
    world.clock.ms += LEASE + 1
    assert await store.sweep(5, 10) == 1
    assert not await store.end_task(TaskEnd("t", old.epoch, b"late", None, 1))
    world.clock.ms += 200
    await store.fire_timers(10)
    (new,) = await store.claim_tasks("second", ["step"], None, 5)
    assert new.attempt == 2
    assert not await store.end_task(TaskEnd("t", old.epoch, b"late", None, 1))
    assert await store.end_task(TaskEnd("t", new.epoch, b"out", None, 2))
    assert [mail.payload for _, mail in await store.mail("r", 0)] == [b"out"]


async def test_a_task_that_was_asked_to_stop_and_lost_its_worker_is_cancelled(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("r", tasks=(world.task(max_attempts=1),))
    await store.claim_tasks("w", ["step"], None, 5)
    await store.cancel_task("t")
    world.clock.ms += LEASE + 1
    await store.sweep(5, 10)
    ((_, mail),) = await store.mail("r", 0)
    assert load(mail.error).kind == "cancelled"


async def test_a_task_whose_last_worker_was_lost_has_an_unknown_outcome(world: Any, store: Any) -> None:
    """P2: with one attempt it is attempted at most once, crash included."""
    await world.worker()
    await world.suspended("r", tasks=(world.task(max_attempts=1),))
    await store.claim_tasks("w", ["step"], None, 5)
    world.clock.ms += LEASE + 1
    await store.sweep(5, 10)
    ((_, mail),) = await store.mail("r", 0)
    error = load(mail.error)
    assert (type(error).__name__, error.kind, error.attempts) == ("StepOutcomeUnknownError", "interrupted", 1)
    assert await store.claim_tasks("v", ["step"], None, 5) == []


@pytest.mark.parametrize("delay_ms", [0, 1_000])
async def test_a_withdrawn_task_that_nobody_has_begun_is_never_begun(world: Any, store: Any, delay_ms: int) -> None:
    await world.worker()
    claim = await world.suspended("r", tasks=(world.task(delay_ms=delay_ms),))
    await store.commit(narrowed(Full(claim.lease, "suspended", cancelled_tasks=("t",))))
    world.clock.ms += delay_ms
    await store.fire_timers(10)
    assert await store.claim_tasks("w", ["step"], None, 5) == []
    assert (await store.task("t"))[0] == "cancelled"


async def test_a_delayed_task_is_ready_when_its_time_has_come(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task(delay_ms=500))
    assert await store.claim_tasks("w", ["step"], None, 5) == []
    assert await store.fire_timers(10) == world.clock.ms + 500
    world.clock.ms += 500
    await store.fire_timers(10)
    assert len(await store.claim_tasks("w", ["step"], None, 5)) == 1


async def test_deleting_a_run_deletes_its_tasks(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("r", tasks=(world.task(),))
    await store.delete(["r"])
    assert await store.claim_tasks("w", ["step"], None, 5) == []
