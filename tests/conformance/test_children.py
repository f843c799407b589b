"""Children that are there already, and runs that have been given all the mail there is."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.rows import ERROR_KEY, OUTPUT_KEY, RunEncoder
from tenuto.codec.values import dump, load
from tenuto.host.classify import narrowed
from tenuto.kernel.batch import Batch
from tenuto.kernel.location import parse
from tenuto.kernel.records import Child, ChildMode, Counters, Entry
from tenuto.store.port import End, Full, Lease, NewRun

SPAWNED = Entry(0, 0, 0, 0, Child(ChildMode.SPAWN, 1, "child", "wf"))
# What the parent has stored of it: an encrypted store opens a result only for the operation that awaits it.
PARENT = RunEncoder().encode(
    Batch(entries=((parse("spawn"), SPAWNED),), state="running", version="h", input=b"", counters=Counters(0))
)
CHILD = NewRun("child", "wf", ((b"\x15\x01", b"first"),), parent=("r", "spawn"))


async def end(store: Any, run_id: str, status: str) -> None:
    if status == "terminated":
        await store.terminate(run_id, "enough")
        return
    puts = {"completed": ((OUTPUT_KEY, dump(7)),), "failed": ((ERROR_KEY, dump(ValueError("why"))),)}.get(status, ())
    await store.commit_group([End(lease=await store.claim(run_id), status=status, puts=puts, seen=0)])


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "terminated"])
@pytest.mark.parametrize("known", [True, False])
async def test_a_child_that_has_ended_is_followed_by_the_operation_that_started_it(
    world: Any, store: Any, status: str, known: bool
) -> None:
    """R072, R077: spawned again after a rewind, its result is in the inbox in the same transaction (P8)."""
    assert await store.create(NewRun("r", "wf", PARENT.puts))
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", runs=(CHILD,))))
    await end(store, "child", status)
    again: Any = {"followed": (("child", "spawn"),)} if known else {"runs": (CHILD,)}
    (result,) = await store.commit_group([narrowed(Full(lease, "suspended", **again))])
    assert result.kept  # it has mail
    ((number, mail),) = await store.mail("r", 0)
    assert mail.name == "spawn"
    if status == "completed":
        assert load(mail.payload) == 7
    else:
        assert type(load(mail.error)).__name__ == f"Child{status.capitalize()}Error"
    (result,) = await store.commit_group([narrowed(Full(lease, "suspended", seen=number, mail_done=(number,)))])
    assert not result.kept


@pytest.mark.parametrize("known", [True, False])
async def test_a_child_that_is_open_tells_the_operation_that_started_it_once(
    world: Any, store: Any, known: bool
) -> None:
    """R072, R077."""
    await world.worker()
    await world.start()
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", runs=(CHILD,))))
    again: Any = {"followed": (("child", "spawn"),)} if known else {"runs": (CHILD,)}
    await store.commit(narrowed(Full(lease, "running", **again)))
    assert await store.mail("r", 0) == []
    await store.terminate("child", None)
    assert [mail.name for _, mail in await store.mail("r", 0)] == ["spawn"]


async def test_a_detached_child_is_not_followed_when_it_is_started_again(world: Any, store: Any) -> None:
    child = NewRun("child", "wf", ((b"\x15\x01", b"first"),), parent=("r", "detach"), detached=True)
    await world.start()
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", runs=(child,))))
    await end(store, "child", "completed")
    await store.commit(narrowed(Full(lease, "running", runs=(child,))))
    assert await store.mail("r", 0) == []


async def test_a_run_that_another_worker_loads_waits_if_nothing_is_left_of_its_mail(world: Any, store: Any) -> None:
    """V1, V6: numbers given to mail that is gone are no news, or the run would be taken up again and again."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.send("r", world.update("u"))
    await store.commit_group([narrowed(Full(claim.lease, "suspended", seen=1, mail_done=(1,)))])
    await store.wake("r")
    await world.worker("other")
    again = await world.claim("other")
    (result,) = await store.commit_group([narrowed(Full(again.lease, "suspended"))])
    assert (result.kept, await world.status()) == (False, "suspended")
    await store.wake("r")
    again = await world.claim("other")
    await store.send("r", world.update("v"))
    (result,) = await store.commit_group([narrowed(Full(again.lease, "suspended", alarm=world.clock.ms + 5))])
    assert (result.kept, await world.status()) == (True, "running")


@pytest.mark.parametrize("effects", [{}, {"stopped_timers": ("a timer",)}, {"definition": "h2"}])
async def test_a_reopened_run_waits_if_its_end_has_deleted_its_mail(world: Any, store: Any, effects: Any) -> None:
    """V6: a terminated run has lost mail it was never given."""
    await world.worker()
    await world.start()
    await store.send("r", world.update("u"))
    await store.terminate("r", None)
    epoch = (await store.get("r")).epoch
    assert await store.reopen(Full(Lease("r", epoch), "suspended"))
    claim = await world.claim()
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", **effects))])
    assert (result.kept, await world.status()) == (False, "suspended")
