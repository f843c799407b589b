"""Runs that a worker of the starting process begins with: stored together with their first turns, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.records import decode_mail
from tenuto.host.classify import narrowed
from tenuto.store.port import Commit, Full, Lease, NewRun, NewTimer, Outgoing, TurnResult
from tenuto.store.queues import QueueLimits

FIRST = (b"\x15\x01", b"first")
ROW = (b"\x15\x02", b"turn")


def begun(world: Any, run_id: str = "r", status: str = "running", **turn: Any) -> Commit:
    """A new run with its first turn, of worker w."""
    new = NewRun(run_id, "wf", (FIRST,), definition="h1", worker="w", **turn.pop("new", {}))
    return narrowed(Full(Lease(run_id, 1), status, world.batch(ROW), new=new, **turn))


async def test_a_run_is_stored_with_its_first_turn_and_stays_with_its_worker(world: Any, store: Any) -> None:
    await world.worker()
    (result,) = await store.commit_group([begun(world)])
    assert result == TurnResult("committed", True)
    assert await store.rows("r") == [FIRST, ROW]
    record = await store.get("r")
    assert (record.status, record.epoch, record.definition) == ("running", 1, "h1")
    assert record.started_at == world.clock.ms
    assert await world.claimed() == []
    (again,) = await store.commit_group(
        [narrowed(Full(Lease("r", 1), "completed", world.batch((b"\x15\x04", b"end"))))]
    )
    assert again.verdict == "committed"


async def test_a_run_whose_first_turn_waits_is_stored_suspended_and_woken_by_its_timer(world: Any, store: Any) -> None:
    await world.worker()
    due = world.clock.ms + 10
    turn = begun(world, status="suspended", alarm=due, timers=(NewTimer("nap", due, "delay"),))
    assert await store.commit_group([turn]) == [TurnResult("committed", False)]
    assert await world.status() == "suspended"
    assert (await store.get("r")).alarm == due
    assert await store.fire_timers(10) == due
    world.clock.ms = due
    await store.fire_timers(10)
    claim = await world.claim()
    assert (claim.lease.epoch, claim.epoch_before) == (2, 1)  # what the worker has in memory still counts
    assert await store.sweep(5, 10) == 0


@pytest.mark.parametrize("status", ["running", "suspended", "completed"])
@pytest.mark.parametrize("together", [True, False])
async def test_a_run_was_created_when_its_first_turn_was_taken(
    world: Any, store: Any, status: str, together: bool
) -> None:
    """What its history has must not lie before its own record."""
    await world.worker()
    at = world.clock.ms
    world.clock.ms += 31
    commits = [begun(world, name, status, new={"begun_at": at}) for name in ("a", "b", "c")]
    for group in [commits] if together else [[commit] for commit in commits]:
        assert {result.verdict for result in await store.commit_group(group)} == {"committed"}
    for record in await store.runs():
        assert (record.created_at, record.started_at) == (at, at)


async def test_a_run_may_end_in_its_first_turn(world: Any, store: Any) -> None:
    await world.worker()
    (result,) = await store.commit_group([begun(world, status="completed")])
    assert result.verdict == "committed"
    assert await world.status() == "completed"
    assert await store.rows("r") == [FIRST, ROW]


async def test_a_taken_id_refuses_the_new_run_whole_and_no_other_of_the_group(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("b")
    due = world.clock.ms + 10
    timers = (NewTimer("nap", due, "delay"),)
    group = [begun(world, run_id, "suspended", alarm=due, timers=timers) for run_id in ("a", "b", "c")]
    results = await store.commit_group(group)
    assert [result.verdict for result in results] == ["committed", "taken", "committed"]
    assert await store.rows("b") == [FIRST]
    assert await world.status("b") == "pending"
    assert await store.timers("b") == []
    assert (await world.status("a"), await world.status("c")) == ("suspended", "suspended")


async def test_a_taken_key_refuses_the_new_run(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("first", key="k")
    (result,) = await store.commit_group([begun(world, new={"key": "k"})])
    assert result.verdict == "taken"
    assert await store.get("r") is None


async def test_a_run_is_not_begun_with_past_the_limits_of_its_queue(world: Any, store: Any) -> None:
    """R041."""
    await world.worker()
    await store.set_queue(QueueLimits("default", concurrency=1))
    (result,) = await store.commit_group([begun(world)])
    assert result.verdict == "taken"
    assert await store.get("r") is None


async def test_runs_without_a_turn_are_stored_in_a_group_and_claimed_as_any(world: Any, store: Any) -> None:
    await world.worker()
    plain = narrowed(Full(Lease("p", 0), "pending", new=NewRun("p", "wf", (FIRST,))))
    late = narrowed(Full(Lease("q", 0), "pending", new=NewRun("q", "wf", (FIRST,), delay_ms=10)))
    results = await store.commit_group([plain, late, begun(world)])
    assert [result.verdict for result in results] == ["committed"] * 3
    assert (await world.status("p"), await world.status("q"), await world.status()) == (
        "pending",
        "scheduled",
        "running",
    )
    assert await world.claimed() == ["p"]


async def test_a_first_turn_starts_children_and_signals_others(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("other")
    child = NewRun("child", "wf", (FIRST,), parent=("r", "child"))
    outgoing = (Outgoing("other", world.signal(), "s1"),)
    (result,) = await store.commit_group([begun(world, status="suspended", runs=(child,), outgoing=outgoing)])
    assert result.verdict == "committed"
    assert await world.status("child") == "pending"
    assert await world.status() == "suspended"
    assert len(await store.mail("other", 0)) == 1


async def test_what_is_read_of_several_runs_is_what_is_read_of_each(world: Any, store: Any) -> None:
    await world.worker()
    for run_id in ("a", "b", "c"):
        await world.suspended(run_id)
    for _ in range(2):
        await store.send("a", world.signal())
    await store.send("a", world.update("u1"))
    await store.send("b", world.signal())
    assert await store.rows_of(["a", "c"]) == {"a": await store.rows("a"), "c": await store.rows("c")}
    encoded = await store.mail_of({"a": 1, "b": 0, "c": 0})  # each run decodes its own
    assert {run_id: [(n, decode_mail(data)) for n, data in mail] for run_id, mail in encoded.items()} == {
        "a": await store.mail("a", 1),
        "b": await store.mail("b", 0),
    }


async def test_a_signal_gives_a_suspended_run_to_a_worker_in_the_same_commit(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended()
    number, claim = await store.signal_and_claim("w", "r", world.signal(), "s1")
    assert (number, claim.lease.epoch, claim.epoch_before) == (1, 2, 1)
    assert claim.record.status == "running"
    assert [n for n, _ in await store.mail("r", 0)] == [1]
    assert await world.claimed() == []
    assert await store.signal_and_claim("w", "r", world.signal(), "s1") == (None, None)  # P3: the same signal
    number, claim = await store.signal_and_claim("w", "r", world.signal(), None)
    assert (number, claim) == (2, None)  # it is leased: its owner is woken
    assert await store.absorb("w", ["r"]) == ["r"]


async def test_a_worker_is_told_which_runs_it_has_the_lease_of(world: Any, store: Any) -> None:
    await world.worker()
    await world.worker("other")
    await store.commit_group([begun(world, run_id) for run_id in ("a", "b")])
    await store.commit_group([narrowed(Full(Lease("b", 1), "suspended", world.batch(ROW)))])
    assert [claim.lease for claim in await store.leased("w")] == [Lease("a", 1)]
    assert await store.leased("other") == []
