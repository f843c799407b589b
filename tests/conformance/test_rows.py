"""A run's rows: order, ranges, atomicity, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.keys import children, pack
from tenuto.errors import LeaseLostError, RunNotFoundError
from tenuto.host.classify import narrowed
from tenuto.store.port import Full, NewRun, NewTimer


async def put(world: Any, *puts: tuple[bytes, bytes], **options: Any) -> None:
    lease = await world.store.claim("r")
    await world.store.commit(narrowed(Full(lease, "running", world.batch(*puts, **options))))


async def test_a_prefix_lists_exactly_what_is_below_it(world: Any, store: Any) -> None:
    """K003."""
    await store.create(NewRun("r", "wf", ()))
    await put(world, *[(pack((2, *rest)), b"") for rest in [(5,), (4, 5), (256,), (4,)]])
    assert [key for key, _ in await store.rows("r", pack((2, 4)))] == [pack((2, 4)), pack((2, 4, 5))]


async def test_a_range_delete_takes_the_iterations_in_it_and_no_others(world: Any, store: Any) -> None:
    """K004."""
    await store.create(NewRun("r", "wf", ()))
    await put(world, *[(pack((2, (2, n), 7)), b"") for n in range(301)], (pack((2, 3)), b""))
    await put(world, ranges=((pack((2, (2, 0)))[:-1], pack((2, (2, 256)))[:-1]),))
    left = [key for key, _ in await store.rows("r")]
    assert left == sorted([*(pack((2, (2, n), 7)) for n in range(256, 301)), pack((2, 3))])


async def test_names_are_listed_by_number_whatever_order_they_were_written_in(world: Any, store: Any) -> None:
    """K008."""
    await store.create(NewRun("r", "wf", ()))
    await put(world, (pack((1, 1)), b"one"))
    await put(world, (pack((1, 0)), b"zero"))
    assert [value for _, value in await store.rows("r", pack((1,)))] == [b"zero", b"one"]


async def test_a_put_inside_a_deleted_range_of_the_same_batch_is_there(world: Any, store: Any) -> None:
    """K009: range deletes, then deletes, then puts."""
    await store.create(NewRun("r", "wf", ()))
    await put(world, (pack((2, 1)), b"old"), (pack((2, 2)), b"old"))
    await put(world, (pack((2, 1)), b"new"), deletes=(pack((2, 1)),), ranges=(children((2,)),))
    assert await store.rows("r") == [(pack((2, 1)), b"new")]


async def test_a_commit_that_fails_half_way_leaves_nothing(world: Any, store: Any) -> None:
    """K010: rows, timers, tasks, mail: all or none."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    before = (await store.get("r"), await store.rows("r"))
    broken = narrowed(
        Full(
            claim.lease,
            "suspended",
            world.batch((b"\x15\x02", b"fine"), (b"\x15\x03", object())),
            alarm=world.clock.ms + 5,
            timers=(NewTimer("nap", world.clock.ms + 5, "delay"),),
            tasks=(world.task(),),
        )
    )
    with pytest.raises(TypeError):
        await store.commit_group([broken])
    assert (await store.get("r"), await store.rows("r")) == before
    assert await store.timers("r") == []
    assert await store.claim_tasks("w", ["step"], None, 10) == []


async def test_a_commit_under_an_old_epoch_leaves_no_row(world: Any, store: Any) -> None:
    """K011."""
    await store.create(NewRun("r", "wf", ()))
    old, new = await store.claim("r"), await store.claim("r")
    with pytest.raises(LeaseLostError):
        await store.commit(narrowed(Full(old, "running", world.batch((b"k", b"old")))))
    assert await store.rows("r") == []
    await store.commit(narrowed(Full(new, "running", world.batch((b"k", b"new")))))
    assert await store.rows("r") == [(b"k", b"new")]


async def test_deleting_a_run_leaves_one_with_equal_keys_alone(world: Any, store: Any) -> None:
    """K012."""
    await world.start("a")
    await world.start("b")
    await store.send("a", world.signal(), "s")
    await store.delete(["a"])
    assert await store.get("a") is None
    with pytest.raises(RunNotFoundError):
        await store.rows("a")
    assert await store.rows("b") == [(b"\x15\x01", b"first")]


async def test_an_id_that_is_taken_changes_nothing(world: Any, store: Any) -> None:
    await world.start("a")
    assert not await store.create(NewRun("a", "other", ((b"k", b"v"),)))
    record = await store.get("a")
    assert (record.target, await store.rows("a")) == ("wf", [(b"\x15\x01", b"first")])


async def test_a_run_deleted_and_created_again_has_nothing_of_the_old_one(world: Any, store: Any) -> None:
    await world.start("a")
    await store.send("a", world.signal(), "s")
    await store.delete(["a"])
    await world.start("a")
    assert await store.send("a", world.signal(), "s") == 1
    assert [n for n, _ in await store.mail("a", 0)] == [1]
