"""Wake-ups: none is lost, none is doubled, and a wake-up is never before its cause."""

from __future__ import annotations

import asyncio
from typing import Any

from tenuto.host.classify import narrowed
from tenuto.kernel.records import MailKind
from tenuto.store.port import Full, NewRun, Park, TaskEnd


async def run_with_task(world: Any, **options: Any) -> Any:
    """A suspended run that waits for one claimed task."""
    await world.worker()
    await world.suspended("r", tasks=(world.task(**options),))
    (task,) = await world.store.claim_tasks("w", ["step"], None, 10)
    return task


async def test_a_completed_task_its_result_and_one_wake_up_come_together(world: Any, store: Any) -> None:
    """R001."""
    task = await run_with_task(world)
    assert await world.claimed() == []
    assert await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    assert (await store.task("t"))[:2] == ("completed", b"out")
    ((number, mail),) = await store.mail("r", 0)
    assert (number, mail.kind, mail.name, mail.payload, mail.attempts) == (1, MailKind.RESULT, "pack", b"out", 1)
    assert await world.claimed() == ["r"]
    assert await world.claimed() == []


async def test_a_task_without_a_workflow_wakes_nobody(world: Any, store: Any) -> None:
    """R002."""
    await world.worker()
    await store.enqueue(world.task())
    (task,) = await store.claim_tasks("w", ["step"], None, 10)
    assert task.run_id is None
    assert await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    assert await world.claimed() == []


async def test_a_run_woken_for_nothing_is_suspended_again_with_the_same_rows(world: Any, store: Any) -> None:
    """R003."""
    task = await run_with_task(world)
    await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    before = await store.rows("r")
    claim = await world.claim()
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", seen=1, mail_done=(1,)))])
    assert not result.kept
    assert (await world.status(), await store.rows("r")) == ("suspended", before)
    assert await world.claimed() == []


async def test_a_final_failure_its_result_and_a_wake_up_come_together(world: Any, store: Any) -> None:
    """R004."""
    task = await run_with_task(world)
    assert await store.end_task(TaskEnd(task.id, task.epoch, None, b"error", 3))
    assert (await store.task("t"))[0] == "failed"
    ((_, mail),) = await store.mail("r", 0)
    assert (mail.error, mail.payload, mail.attempts) == (b"error", None, 3)
    assert await world.claimed() == ["r"]


async def test_the_second_end_of_a_task_is_refused(world: Any, store: Any) -> None:
    """R005."""
    task = await run_with_task(world)
    assert await store.end_task(TaskEnd(task.id, task.epoch, b"one", None, 1))
    assert not await store.end_task(TaskEnd(task.id, task.epoch, b"two", None, 1))
    assert (await store.task("t"))[1] == b"one"
    assert len(await store.mail("r", 0)) == 1


async def test_a_wake_up_of_a_run_that_is_not_suspended_goes_and_changes_nothing(world: Any, store: Any) -> None:
    """R006: closed, paused and parked runs are not woken."""
    await world.worker()
    await world.suspended("paused")
    await store.wake("paused")
    await store.pause("paused")
    claim = await world.suspended("parked")
    await store.wake("parked")
    lease = await store.claim("parked")
    await store.commit(Park(lease, reason="why", capability="c"))
    assert claim.record.id == "parked"
    assert await world.claimed() == []
    assert [await world.status(run) for run in ("paused", "parked")] == ["paused", "parked"]


async def test_three_results_before_any_claim_are_one_wake_up_and_read_by_number(world: Any, store: Any) -> None:
    """R007."""
    await world.worker()
    await world.suspended("r", tasks=tuple(world.task(f"t{n}") for n in range(3)))
    tasks = await store.claim_tasks("w", ["step"], None, 10)
    for task in reversed(tasks):
        await store.end_task(TaskEnd(task.id, task.epoch, task.id.encode(), None, 1))
    assert await world.claimed() == ["r"]
    assert [(n, mail.payload) for n, mail in await store.mail("r", 0)] == [(1, b"t2"), (2, b"t1"), (3, b"t0")]
    assert await world.claimed() == []


async def test_a_result_that_comes_while_its_run_is_leased_is_absorbed_by_the_owner(world: Any, store: Any) -> None:
    """R008: nobody else touches the wake-up of a leased run."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.commit(narrowed(Full(claim.lease, "running", tasks=(world.task(),))))
    (task,) = await store.claim_tasks("w", ["step"], None, 10)
    await store.end_task(TaskEnd(task.id, task.epoch, b"out", None, 1))
    assert await world.claimed("other") == []
    assert await store.absorb("w", ["r", "unknown"]) == ["r"]
    assert await store.absorb("w", ["r"]) == []
    assert [n for n, _ in await store.mail("r", 0)] == [1]


async def test_a_run_is_not_suspended_over_mail_it_has_not_seen(world: Any, store: Any) -> None:
    """R009, mail first."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.send("r", world.signal())
    await store.absorb("w", ["r"])
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", seen=0))])
    assert (result.verdict, result.kept, await world.status()) == ("committed", True, "running")
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", seen=1))])
    assert (result.kept, await world.status()) == (False, "suspended")


async def test_mail_to_a_run_that_was_just_suspended_wakes_it(world: Any, store: Any) -> None:
    """R009, suspension first."""
    await world.worker()
    await world.suspended()
    await store.send("r", world.signal())
    assert await world.claimed() == ["r"]


async def test_of_two_workers_that_claim_one_run_one_gets_it(world: Any, store: Any) -> None:
    """R010."""
    await world.worker("a")
    await world.worker("b")
    await world.start()
    claims = await asyncio.gather(*(store.claim_runs(worker, ["wf"], 5) for worker in ("a", "b")))
    assert sorted(len(claim) for claim in claims) == [0, 1]


async def test_a_wake_up_is_claimed_before_any_first_start(world: Any, store: Any) -> None:
    """R011."""
    await world.worker()
    await world.suspended("woken")
    for n in range(50):
        await store.create(NewRun(f"new{n:02}", "wf", (), priority=99))
        await store.enqueue(world.task(f"t{n}", priority=99))
    world.clock.ms += 1
    await store.wake("woken")
    claims = await store.claim_runs("w", ["wf"], 1)
    assert [claim.record.id for claim in claims] == ["woken"]


async def test_a_wake_up_is_not_there_before_its_message_is(world: Any, store: Any) -> None:
    """R012: whoever claims the run reads the message."""
    await world.worker()
    await world.suspended()
    sent, claims = await asyncio.gather(store.send("r", world.signal()), store.claim_runs("w", ["wf"], 1))
    claims = claims or await store.claim_runs("w", ["wf"], 1)
    assert (sent, [n for n, _ in await store.mail(claims[0].record.id, 0)]) == (1, [1])


async def test_work_under_way_does_not_suppress_a_new_wake_up(world: Any, store: Any) -> None:
    """V2."""
    await world.worker()
    await world.suspended()
    await store.send("r", world.signal())
    claim = await world.claim()
    await store.send("r", world.signal())
    assert [n for n, _ in await store.mail("r", 0)] == [1, 2]
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", seen=2))])
    assert not result.kept
    assert await world.claimed() == ["r"]


async def test_waiting_for_a_change_ends_with_the_commit_that_made_it(world: Any, store: Any) -> None:
    mark = await store.changed(-1, 0.0)
    waiting = asyncio.create_task(store.changed(mark, 30.0))
    await asyncio.sleep(0)
    await world.start()
    assert await waiting > mark


async def test_waiting_for_a_change_that_does_not_come_ends_in_time(store: Any) -> None:
    mark = await store.changed(-1, 0.0)
    assert await store.changed(mark, 0.02) == mark


async def test_looking_for_work_and_finding_none_is_no_change(world: Any, store: Any) -> None:
    await world.worker()
    mark = await store.changed(-1, 0.0)
    await store.fire_timers(10)
    await store.claim_runs("w", ["wf"], 5)
    await store.claim_tasks("w", ["step"], None, 5)
    await store.sweep(5, 10)
    assert await store.changed(mark, 0.0) == mark
