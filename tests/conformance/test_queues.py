"""Queues with limits: what begins, what waits, and who gives its place back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.codec.values import load
from tenuto.host.classify import narrowed
from tenuto.store.port import Full, NewRun, Park, RunFilter, TaskEnd
from tenuto.store.queues import QueueLimits

LEASE = 30_000


class Claimer:
    """A worker that claims from queues with limits."""

    def __init__(self, world: Any, worker_id: str = "w") -> None:
        self.store = world.store
        self.id = worker_id
        self.again_at: int | None = None

    async def __call__(
        self, queues: list[str] | None = None, here: dict[str, int] | None = None, room: tuple[int, int] = (10, 10)
    ) -> list[Any]:
        """What could begin: claims of runs, then tasks."""
        claimed = await self.store.claim_limited(self.id, ["wf"], ["step"], queues, here or {}, room)
        self.again_at = claimed.again_at
        return [*claimed.runs, *claimed.tasks]

    async def ids(self, **options: Any) -> list[str]:
        return [item_id(item) for item in await self(**options)]


def item_id(item: Any) -> str:
    return str(item.record.id if hasattr(item, "record") else item.id)


@pytest.fixture
async def claim(world: Any) -> Claimer:
    await world.worker()
    return Claimer(world)


async def end(store: Any, task: Any, **options: Any) -> bool:
    done = TaskEnd(task.id, task.epoch, b"out", None, task.attempt)
    return bool(await store.end_task(done if not options else TaskEnd(task.id, task.epoch, None, b"bad", 1, **options)))


async def suspend(store: Any, claim: Any, status: str = "suspended", **options: Any) -> None:
    (result,) = await store.commit_group([narrowed(Full(claim.lease, status, **options))])
    assert result.verdict == "committed"


# --- what waits


async def test_a_queue_with_limits_is_left_out_of_ordinary_claims(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", concurrency=1))
    await world.start("run", queue="q")
    await store.enqueue(world.task("task", queue="q"))
    await store.enqueue(world.task("free"))
    assert (await world.claimed(), await store.claim_tasks("w", ["step"], ["q"], 5)) == ([], [])
    assert [task.id for task in await store.claim_tasks("w", ["step"], None, 5)] == ["free"]
    assert await claim.ids() == ["run"]


async def test_first_starts_and_tasks_of_one_queue_share_its_slots_and_its_order(
    world: Any, store: Any, claim: Claimer
) -> None:
    """R040: 0, 5, 5 and one slot: the older 5, the other 5, then 0, whatever they are."""
    await store.set_queue(QueueLimits("q", concurrency=1))
    await store.enqueue(world.task("low", queue="q"))
    world.clock.ms += 1
    await store.enqueue(world.task("z-older", queue="q", priority=5))
    world.clock.ms += 1
    await world.start("a-newer", queue="q", priority=5)
    order: list[str] = []
    for _ in range(3):
        (item,) = await claim()
        order.append(item_id(item))
        assert await claim() == []
        await (suspend(store, item, "completed") if hasattr(item, "record") else end(store, item))
    assert order == ["z-older", "a-newer", "low"]


async def test_no_more_than_its_concurrency_begin_whoever_claims(world: Any, store: Any) -> None:
    """R041, with claims that come at the same time."""
    await store.set_queue(QueueLimits("q", concurrency=2))
    for n in range(6):
        await store.enqueue(world.task(f"t{n}", queue="q"))
    workers = [Claimer(world, f"w{n}") for n in range(3)]
    for worker in workers:
        await world.worker(worker.id)
    begun: list[Any] = []
    for _ in range(3):
        claimed = await asyncio.gather(*(worker() for worker in workers))
        begun += [task for tasks in claimed for task in tasks]
    assert sorted(task.id for task in begun) == ["t0", "t1"]
    await end(store, begun[0])
    claimed = [task for worker in workers for task in await worker()]
    assert [task.id for task in claimed] == ["t2"]


async def test_the_slot_of_a_worker_that_is_gone_is_free_after_the_sweep(
    world: Any, store: Any, claim: Claimer
) -> None:
    """R041, R047: its task waits for its next attempt without a slot, and its late end is refused."""
    await store.set_queue(QueueLimits("q", concurrency=1))
    await store.enqueue(world.task("first", queue="q"))
    await store.enqueue(world.task("second", queue="q"))
    (lost,) = await claim()
    await world.worker("other")
    world.clock.ms += LEASE + 1
    await world.worker("other")
    assert await Claimer(world, "other")() == []
    assert await store.sweep(5, 10) == 1
    (task,) = await Claimer(world, "other")()
    assert task.id == "second"
    assert not await end(store, lost)


async def test_a_suspended_run_keeps_its_slot(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", concurrency=1))
    await world.start("first", queue="q")
    world.clock.ms += 1
    await world.start("second", queue="q")
    (first,) = await claim()
    await suspend(store, first)
    assert await claim() == []
    await store.send("first", world.signal())
    (again,) = await store.claim_runs("w", ["wf"], 5)  # it goes on without asking the queue
    assert again.record.id == "first"
    assert await claim() == []
    await suspend(store, again, "completed", seen=1)
    assert await claim.ids() == ["second"]


@pytest.mark.parametrize("how", ["paused", "paused in a turn", "parked", "terminated", "cancelled", "swept as stuck"])
async def test_a_run_that_stops_gives_its_slot_up_and_goes_on_without(
    world: Any, store: Any, claim: Claimer, how: str
) -> None:
    await store.set_queue(QueueLimits("q", concurrency=1))
    await world.start("first", queue="q")
    world.clock.ms += 1
    await world.start("second", queue="q")
    (first,) = await claim()
    match how:
        case "paused":
            await suspend(store, first)
            await store.pause("first")
        case "paused in a turn":
            await store.pause("first")
            assert await claim() == []  # it has not stopped yet
            await suspend(store, first)
        case "parked":
            await store.commit(Park(first.lease, reason="x"))
        case "terminated":
            await store.terminate("first", "x")
        case "cancelled":
            await suspend(store, first, "cancelled")
        case _:
            world.clock.ms += LEASE + 1
            await store.sweep(1, 10)
    assert await claim.ids() == ["second"]
    if how in ("paused", "parked"):
        await store.release("first")
        assert [known.record.id for known in await store.claim_runs("w", ["wf"], 5)] == ["first"]


async def test_a_task_that_waits_for_its_next_attempt_lets_others_begin(world: Any, store: Any, claim: Claimer) -> None:
    """R046."""
    await store.set_queue(QueueLimits("q", concurrency=1))
    await store.enqueue(world.task("flaky", queue="q", priority=1))
    await store.enqueue(world.task("other", queue="q"))
    (flaky,) = await claim()
    await end(store, flaky, retry_at=world.clock.ms + 200)
    (other,) = await claim()
    assert other.id == "other"
    world.clock.ms += 200
    await store.fire_timers(10)
    assert await claim() == []
    await end(store, other)
    (flaky,) = await claim()
    assert (flaky.id, flaky.attempt) == ("flaky", 2)


async def test_a_worker_that_leaves_gives_its_slots_back(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", concurrency=1))
    await store.enqueue(world.task("t", queue="q"))
    await claim()
    await store.deregister("w")
    await world.worker("v")
    (task,) = await Claimer(world, "v")()
    assert (task.id, task.attempt) == ("t", 1)


# --- rates


async def test_no_window_has_more_starts_than_its_rate_allows(world: Any, store: Any, claim: Claimer) -> None:
    """R042: retries are starts too."""
    await store.set_queue(QueueLimits("q", rate=(3, 1_000)))
    for n in range(4):
        await store.enqueue(world.task(f"t{n}", queue="q", max_attempts=100))
    starts: list[int] = []
    for _ in range(300):
        world.clock.ms += 37
        await store.fire_timers(100)
        for task in await claim():
            starts.append(world.clock.ms)
            await end(store, task, retry_at=world.clock.ms + 10)
    assert len(starts) >= 30
    assert all(later - earlier >= 1_000 for earlier, later in zip(starts, starts[3:], strict=False))


async def test_a_worker_is_told_when_the_rate_lets_more_begin(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", rate=(1, 500)))
    await world.start("a", queue="q")
    await world.start("b", queue="q")
    began = world.clock.ms
    assert await claim.ids() == ["a"]
    assert claim.again_at == began + 500
    world.clock.ms += 499
    assert (await claim(), claim.again_at) == ([], began + 500)
    world.clock.ms += 1
    assert await claim.ids() == ["b"]
    world.clock.ms += 500
    assert (await claim(), claim.again_at) == ([], None)


# --- partitions


async def test_a_full_partition_never_delays_another(world: Any, store: Any, claim: Claimer) -> None:
    """R045."""
    await store.set_queue(QueueLimits("q", partition_concurrency=1))
    await asyncio.gather(
        *(store.enqueue(world.task(f"a{n:04}", queue="q", partition="A", priority=9)) for n in range(1_000))
    )
    assert await claim.ids() == ["a0000"]
    world.clock.ms += 1
    await store.enqueue(world.task("b", queue="q", partition="B"))
    await store.enqueue(world.task("none", queue="q"))
    assert await claim.ids() == ["b", "none"]
    assert await claim() == []


async def test_partitions_are_served_by_priority_within_what_the_whole_queue_allows(
    world: Any, store: Any, claim: Claimer
) -> None:
    await store.set_queue(QueueLimits("q", concurrency=3, partition_concurrency=2))
    for n, (partition, priority) in enumerate([("A", 1), ("A", 5), ("A", 5), ("B", 0), ("B", 2), ("C", 3)]):
        await store.enqueue(world.task(f"{partition}{n}", queue="q", partition=partition, priority=priority))
        world.clock.ms += 1
    tasks = await claim()
    assert [task.id for task in tasks] == ["A1", "A2", "C5"]
    await end(store, tasks[0])
    assert await claim.ids() == ["B4"]  # A has one slot free too, but its next is less urgent


# --- one process, paused, listed


async def test_a_process_takes_no_more_than_it_may_have_at_once(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", worker_concurrency=2))
    for n in range(5):
        await store.enqueue(world.task(f"t{n}", queue="q"))
    assert await claim.ids(here={"q": 1}) == ["t0"]
    assert await claim.ids(here={"q": 2}) == []
    assert await Claimer(world, "other").ids(here={}) == ["t1", "t2"]


async def test_a_paused_queue_begins_nothing_until_it_goes_on(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", paused=True))
    await world.start("r", queue="q")
    await store.enqueue(world.task("t", queue="q"))
    assert (await claim(), await world.claimed()) == ([], [])
    await store.set_queue(QueueLimits("q"))
    assert await world.claimed() == ["r"]
    assert [task.id for task in await store.claim_tasks("w", ["step"], None, 5)] == ["t"]


async def test_a_worker_begins_only_runs_of_the_queues_it_serves_but_goes_on_with_any(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("other", queue="b")
    assert await store.claim_runs("w", ["wf"], 5, ["a"]) == []
    (claimed,) = await store.claim_runs("w", ["wf"], 5, ["b"])
    await suspend(store, claimed)
    await store.send("other", world.signal())
    assert len(await store.claim_runs("w", ["wf"], 5, ["a"])) == 1


async def test_only_the_queues_a_worker_serves_are_claimed_under_their_limits(
    world: Any, store: Any, claim: Claimer
) -> None:
    for queue in ("a", "b"):
        await store.set_queue(QueueLimits(queue, concurrency=1))
        await store.enqueue(world.task(f"t-{queue}", queue=queue))
    assert await claim.ids(queues=["b", "x"]) == ["t-b"]


async def test_a_worker_claims_no_more_than_it_has_room_for(world: Any, store: Any, claim: Claimer) -> None:
    await store.set_queue(QueueLimits("q", concurrency=10))
    for n in range(3):
        await world.start(f"r{n}", queue="q")
        await store.enqueue(world.task(f"t{n}", queue="q"))
    assert await claim.ids(room=(1, 2)) == ["r0", "t0", "t1"]
    assert await claim.ids(room=(0, 5)) == ["t2"]


async def test_a_worker_without_that_step_never_claims_it(world: Any, store: Any, claim: Claimer) -> None:
    """R048, in a queue with limits."""
    await store.set_queue(QueueLimits("q", concurrency=1))
    await store.enqueue(world.task("strange", queue="q", target="unknown", priority=9))
    await store.enqueue(world.task("known", queue="q"))
    assert await claim.ids() == ["known"]


async def test_queues_are_listed_with_their_limits_and_what_they_have(world: Any, store: Any, claim: Claimer) -> None:
    limits = QueueLimits("mail", 2, 3, 1, (10, 1_000))
    await store.set_queue(limits)
    await store.set_queue(QueueLimits("idle", paused=True))
    for n in range(3):
        await store.enqueue(world.task(f"t{n}", queue="mail", partition=f"p{n}"))
    await world.start("r")
    await claim(room=(0, 1))
    found = [(known.limits, known.waiting, known.running, known.slots) for known in await store.queues()]
    assert found == [
        (QueueLimits("default"), 1, 0, 0),
        (QueueLimits("idle", paused=True), 0, 0, 0),
        (limits, 2, 1, 1),
    ]
    assert await store.limited() == {"mail", "idle"}


async def test_an_item_says_where_it_stands(world: Any, store: Any, claim: Claimer) -> None:
    """R073: queued behind a limit."""
    await store.set_queue(QueueLimits("q", concurrency=1, partition_concurrency=1, rate=(5, 60_000)))
    for n in range(3):
        await world.start(f"r{n}", queue="q", partition="p")
        world.clock.ms += 1
    await claim()
    place = await store.place("r2")
    assert (place.queue, place.status, place.partition, place.partition_slots, place.ahead) == (
        "q",
        "pending",
        "p",
        1,
        1,
    )
    assert (place.state.slots, place.state.starts) == (1, 1)
    assert await store.place("r0") is None
    assert await store.place("unknown") is None
    await world.start("plain")
    assert (await store.place("plain")).state is None


# --- signals, keys, cancelling


async def test_a_signal_to_a_run_that_has_not_begun_is_stored_and_wakes_nothing(
    world: Any, store: Any, claim: Claimer
) -> None:
    """R036."""
    await store.set_queue(QueueLimits("q", concurrency=1))
    await world.start("first", queue="q")
    world.clock.ms += 1
    await world.start("second", queue="q")
    await claim()
    await store.send("second", world.signal())
    assert await world.claimed() == []
    assert (await claim(), await world.status("second")) == ([], "pending")
    assert [mail.name for _, mail in await store.mail("second", 0)] == ["go"]


async def test_an_open_key_of_a_queue_refuses_another_run(world: Any, store: Any) -> None:
    """R044."""
    await world.worker()
    await world.start("first", key="k")
    assert not await store.create(NewRun("second", "wf", (), key="k"))
    assert await store.keyed("default", "k") == "first"
    assert await store.keyed("other", "k") is None
    await world.start("elsewhere", queue="other", key="k")
    (claimed,) = await store.claim_runs("w", ["wf"], 5, ["default"])
    await suspend(store, claimed, "completed")
    assert await store.keyed("default", "k") is None
    await world.start("third", key="k")


@pytest.mark.parametrize("delay_ms", [0, 1_000])
async def test_a_task_that_has_not_begun_is_cancelled_at_once(world: Any, store: Any, delay_ms: int) -> None:
    await world.worker()
    await store.enqueue(world.task("t", delay_ms=delay_ms))
    assert await store.cancel_task("t")
    assert not await store.cancel_task("t")
    assert not await store.cancel_task("unknown")
    world.clock.ms += delay_ms
    await store.fire_timers(10)
    assert await store.claim_tasks("w", ["step"], None, 5) == []
    state = await store.task("t")
    assert (state.status, state.target, state.queue) == ("cancelled", "step", "default")


async def test_a_task_under_way_is_asked_to_stop(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task("t"))
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    assert await store.flagged_tasks("w") == []
    assert await store.cancel_task("t")
    assert (await store.flagged_tasks("w"), await store.flagged_tasks("v")) == (["t"], [])
    assert await store.end_task(TaskEnd("t", task.epoch, None, None, 1, cancelled=True))
    state = await store.task("t")
    assert (state.status, load(state.error).kind) == ("cancelled", "cancelled")


@pytest.mark.parametrize("how", ["failed", "lost"])
async def test_a_task_that_was_asked_to_stop_is_not_tried_again(world: Any, store: Any, how: str) -> None:
    await world.worker()
    await world.suspended("r", tasks=(world.task("t"),))
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    await store.cancel_task("t")
    if how == "failed":
        assert await store.end_task(TaskEnd("t", task.epoch, None, b"bad", 1, retry_at=world.clock.ms + 5))
    else:
        world.clock.ms += LEASE + 1
        await store.sweep(5, 10)
    assert (await store.task("t")).status == "cancelled"
    ((_, mail),) = await store.mail("r", 0)
    assert load(mail.error).kind == "cancelled"


async def test_a_task_that_ends_before_it_hears_of_its_cancelling_has_its_result(world: Any, store: Any) -> None:
    await world.worker()
    await store.enqueue(world.task("t"))
    (task,) = await store.claim_tasks("w", ["step"], None, 5)
    await store.cancel_task("t")
    assert await end(store, task)
    assert (await store.task("t"))[:2] == ("completed", b"out")


# --- pages


async def test_runs_are_paged_by_id_whatever_becomes_of_them(world: Any, store: Any) -> None:
    await world.worker()
    for n in (3, 1, 4, 2, 0):
        await world.start(f"r{n}", attributes={"even": n % 2 == 0})
    until = world.clock.ms
    world.clock.ms += 1
    await world.start("r9")
    which = RunFilter(limit=2)
    assert await store.page(which, "", until) == [("r0", "pending"), ("r1", "pending")]
    await store.delete(["r1"])
    assert [run for run, _ in await store.page(which, "r1", until)] == ["r2", "r3"]
    assert [run for run, _ in await store.page(which, "r3", until)] == ["r4"]
    even = RunFilter(status="pending", target="wf", since=until, attributes={"even": True}, limit=5)
    assert [run for run, _ in await store.page(even, "", until)] == ["r0", "r2", "r4"]


# --- cost


async def test_what_waits_for_its_time_costs_claims_nothing(world: Any, store: Any) -> None:
    """R043: delayed items are timers, and no claim sees them."""
    await world.worker()
    await asyncio.gather(*(store.enqueue(world.task(f"t{n:04}", delay_ms=60_000)) for n in range(2_000)))
    await store.enqueue(world.task("ready"))
    assert [task.id for task in await store.claim_tasks("w", ["step"], None, 10)] == ["ready"]
    assert [(known.limits.name, known.waiting) for known in await store.queues()] == [("default", 0)]
