"""What an operator does to runs, and how runs are found."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.values import load
from tenuto.errors import RunNotFoundError
from tenuto.host.classify import narrowed
from tenuto.store.port import Full, Lease, NewRun, NewTimer, Park, RunFilter


async def test_a_terminated_run_refuses_its_worker_and_leaves_nothing_behind(world: Any, store: Any) -> None:
    """R056."""
    await world.worker()
    await world.suspended("parent")
    await world.start("r", parent=("parent", "op"))
    claim = await world.claim()
    at = world.clock.ms + 5
    timers = (NewTimer("nap", at, "delay"),)
    await store.commit_group([narrowed(Full(claim.lease, "running", timers=timers, alarm=at, tasks=(world.task(),)))])
    await store.send("r", world.update("u"))
    await world.start("child", parent=("r", "spawned"))
    assert await store.terminate("r", "enough")
    record = await store.get("r")
    assert (record.status, record.reason, record.completed_at) == ("terminated", "enough", world.clock.ms)
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "running", world.batch((b"k", b"v"))))])
    assert result.verdict == "stale"
    assert (await store.timers("r"), await store.fire_timers(10)) == ([], None)
    assert load(await store.answer("r", "u")).why == "closed"
    assert await world.status("child") == "cancelled"
    assert await store.claim_tasks("w", ["step"], None, 5) == []
    ((_, mail),) = await store.mail("parent", 0)
    assert type(load(mail.error)).__name__ == "ChildTerminatedError"
    assert not await store.terminate("r", "again")


async def test_a_run_is_paused_at_once_or_after_the_work_under_way(world: Any, store: Any) -> None:
    """R054, as far as a store shows it."""
    await world.worker()
    await world.suspended("idle")
    assert await store.pause("idle")
    assert await world.status("idle") == "paused"
    await world.start("busy")
    claim = await world.claim()
    assert await store.pause("busy")
    await store.commit_group([narrowed(Full(claim.lease, "running", world.batch((b"k", b"v"))))])
    assert await world.status("busy") == "running"
    await store.send("busy", world.signal())
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended"))])
    assert (result.kept, await world.status("busy")) == (False, "paused")
    assert await world.claimed() == []
    assert await store.release("busy")
    assert await world.claimed() == ["busy"]
    assert not await store.release("busy")


async def test_a_pause_taken_back_before_it_came_does_not_come(world: Any, store: Any) -> None:
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.pause("r")
    assert await store.release("r")
    await store.commit_group([narrowed(Full(claim.lease, "suspended"))])
    assert await world.status() == "suspended"


async def test_a_paused_start_waits_for_its_time_and_for_its_release(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("r", delay_ms=1_000)
    assert await store.pause("r")
    world.clock.ms += 1_000
    await store.fire_timers(10)
    assert (await world.status(), await world.claimed()) == ("paused", [])
    assert await store.release("r")
    assert await world.claimed() == ["r"]


async def test_closed_and_parked_runs_cannot_be_paused(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("closed")
    await store.terminate("closed", None)
    await world.start("parked")
    claim = await world.claim()
    await store.commit_group([Park(claim.lease, reason="x", capability="c")])
    assert [await store.pause(run) for run in ("closed", "parked")] == [False, False]


async def test_verbs_on_a_run_that_does_not_exist_say_so(store: Any) -> None:
    for verb in (store.pause, store.release, store.wake, store.claim, lambda run: store.terminate(run, None)):
        with pytest.raises(RunNotFoundError):
            await verb("nobody")


async def test_a_parked_commit_changes_nothing_but_the_status(world: Any, store: Any) -> None:
    """P6."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    at = world.clock.ms + 50
    await store.commit_group(
        [narrowed(Full(claim.lease, "running", timers=(NewTimer("nap", at, "delay"),), alarm=at, seen=0))]
    )
    before = await store.rows("r")
    (result,) = await store.commit_group([Park(claim.lease, reason="diverged", capability="c")])
    record = await store.get("r")
    assert (result.kept, record.status, record.reason) == (False, "parked", "diverged")
    assert (await store.rows("r"), await store.timers("r"), record.alarm) == (before, ["nap"], at)


async def test_continuing_as_new_keeps_the_run_its_lease_and_its_mail(world: Any, store: Any) -> None:
    await world.worker()
    await world.start()
    await store.send("r", world.signal(), "s")
    claim = await world.claim()
    at = world.clock.ms + 50
    await store.commit_group([narrowed(Full(claim.lease, "running", timers=(NewTimer("n", at, "delay"),), alarm=at))])
    commit = narrowed(Full(claim.lease, "running", world.batch((b"k", b"v")), seen=1, continued=True, definition="h9"))
    (result,) = await store.commit_group([commit])
    record = await store.get("r")
    assert (result.kept, record.status, record.run_no, record.definition) == (True, "running", 2, "h9")
    assert ([n for n, _ in await store.mail("r", 0)], await store.timers("r")) == ([1], [])
    assert await store.send("r", world.signal(), "s") is None


@pytest.mark.parametrize("status", ["completed", "failed", "parked", "running", "suspended"])
async def test_a_run_taken_back_goes_on_from_there_and_shuts_out_its_worker(
    world: Any, store: Any, status: str
) -> None:
    """R057, R059, as far as a store shows them."""
    await world.worker()
    await world.start("r", key="k")
    claim = await world.claim()
    at = world.clock.ms + 50
    timers = (NewTimer("stays", at, "delay"), NewTimer("goes", at, "delay"))
    rows = world.batch((b"\x16\x01", b"one"), (b"\x16\x02", b"two"))
    await store.commit_group(
        [narrowed(Full(claim.lease, "running", rows, alarm=at, timers=timers, tasks=(world.task(),)))]
    )
    parked = Park(claim.lease, reason="x", capability="c")
    await store.commit_group([parked if status == "parked" else narrowed(Full(claim.lease, status, alarm=at))])
    closed = status in ("completed", "failed")
    if closed:
        assert await store.create(NewRun("heir", "wf", (), key="k"))
        assert await world.claimed() == ["heir"]
    back = narrowed(
        Full(
            claim.lease,
            "suspended",
            world.batch(deletes=(b"\x16\x02",)),
            alarm=at,
            stopped_timers=("goes",),
            cancelled_tasks=("t",),
        )
    )
    assert not await store.reopen(back._replace(lease=Lease("r", back.lease.epoch - 1)))
    assert await world.status() == status
    assert await store.reopen(back)
    assert not await store.reopen(back)  # of several who take it back at once one does
    record = await store.get("r")
    assert (record.status, record.reason, record.completed_at) == ("suspended", None, None)
    assert await store.rows("r") == [(b"\x15\x01", b"first"), (b"\x16\x01", b"one")]
    assert await store.timers("r") == ([] if closed else ["stays"])
    assert (await store.commit_group([narrowed(Full(claim.lease, "running"))]))[0].verdict == "stale"
    assert await store.claim_tasks("w", ["step"], None, 5) == []
    assert await world.claimed() == ["r"]
    world.clock.ms = at
    await store.fire_timers(10)
    assert await store.absorb("w", ["r"]) == ["r"]


async def test_a_run_that_does_not_exist_cannot_be_taken_back(store: Any) -> None:
    with pytest.raises(RunNotFoundError):
        await store.reopen(Full(Lease("nobody", 0), "suspended"))


async def test_a_child_whose_id_is_taken_is_refused_in_its_parents_inbox(world: Any, store: Any) -> None:
    """R072, without attaching; R077: the same child again is no news."""
    await world.worker()
    await world.start("other")
    await world.start()
    claims = {claim.record.id: claim for claim in await store.claim_runs("w", ["wf"], 5)}
    lease = claims["r"].lease
    mine = NewRun("mine", "wf", ((b"k", b"v"),), parent=("r", "spawn"))
    taken = NewRun("other", "wf", (), parent=("r", "spawn#2"))
    (result,) = await store.commit_group([narrowed(Full(lease, "suspended", runs=(mine, taken)))])
    assert (result.kept, await world.status()) == (True, "running")
    ((_, mail),) = await store.mail("r", 0)
    assert (mail.name, type(load(mail.error)).__name__) == ("spawn#2", "ChildStartError")
    (result,) = await store.commit_group([narrowed(Full(lease, "suspended", runs=(mine,), seen=1, mail_done=(1,)))])
    assert not result.kept
    record = await store.get("mine")
    assert (record.parent, record.detached, record.status) == (("r", "spawn"), False, "pending")


async def test_a_detached_child_knows_who_started_it_and_tells_nobody(world: Any, store: Any) -> None:
    await world.worker()
    await world.suspended("parent")
    await store.create(NewRun("child", "wf", (), parent=("parent", "op"), detached=True))
    record = await store.get("child")
    assert (record.parent, record.detached) == (("parent", "op"), True)
    await store.terminate("child", None)
    assert await store.mail("parent", 0) == []


async def test_a_child_outlives_the_deletion_of_its_parent(world: Any, store: Any) -> None:
    await world.start("parent")
    await world.start("child", parent=("parent", "op"))
    await store.delete(["parent"])
    record = await store.get("child")
    assert (record.id, record.detached, len(await store.rows("child"))) == ("child", True, 1)


async def test_an_open_key_is_not_started_twice(world: Any, store: Any) -> None:
    """R044, for runs."""
    await world.start("a", key="k")
    assert not await store.create(NewRun("b", "wf", (), key="k"))
    assert await store.create(NewRun("c", "wf", (), key="k", queue="other"))
    await store.terminate("a", None)
    assert await store.create(NewRun("b", "wf", (), key="k"))


async def test_runs_are_found_by_what_is_asked_for_newest_first(world: Any, store: Any) -> None:
    for n in range(4):
        attributes: dict[str, Any] = {"n": n, "even": n % 2 == 0, 'odd "name"': "x"}
        await store.create(NewRun(f"r{n}", "wf" if n else "other", (), attributes=attributes))
        world.clock.ms += n % 2
    await store.terminate("r3", None)

    async def found(**which: Any) -> list[str]:
        return [record.id for record in await store.runs(RunFilter(**which))]

    assert [record.id for record in await store.runs()] == ["r0", "r1", "r2", "r3"]
    assert await found() == ["r3", "r2", "r1", "r0"]
    assert await found(limit=2) == ["r3", "r2"]
    assert await found(status="terminated") == ["r3"]
    assert await found(target="other") == ["r0"]
    assert await found(since=world.clock.ms - 1) == ["r3", "r2"]
    assert await found(attributes={"even": True}) == ["r2", "r0"]
    assert await found(attributes={"n": 1, 'odd "name"': "x"}) == ["r1"]
    assert await found(attributes={"missing": 1}) == []
    assert (await store.get("r1")).attributes == {"n": 1, "even": False, 'odd "name"': "x"}


async def test_a_hooks_token_belongs_to_one_open_run(world: Any, store: Any) -> None:
    await world.start("a")
    await world.start("b")
    assert await store.open_hook("a", "key-a", "hash")
    assert await store.open_hook("a", "key-a", "hash")
    assert not await store.open_hook("b", "key-b", "hash")
    assert await store.hook_owner("hash") == "a"
    assert await store.open_hook("a", "key-a", "minted again")
    assert await store.hook_owner("hash") is None
    await store.terminate("a", None)
    assert await store.hook_owner("minted again") is None
    assert await store.open_hook("b", "key-b", "minted again")
    assert not await store.open_hook("a", "key-a", "closed")
