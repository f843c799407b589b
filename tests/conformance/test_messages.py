"""Mail: stored once, numbered in order, answered definitely."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto.codec.rows import mail_key, update_key
from tenuto.codec.values import dump, load
from tenuto.errors import LimitError, RunClosedError, RunNotFoundError, UpdateRejectedError
from tenuto.host.classify import narrowed
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.port import CLOSED, Full, NewRun, Outgoing


async def test_the_same_signal_id_is_delivered_once(world: Any, store: Any) -> None:
    """R034."""
    await world.start()
    assert await store.send("r", world.signal(), "one") == 1
    assert await store.send("r", world.signal(), "one") is None
    assert await store.send("r", world.signal(), "two") == 2
    assert [n for n, _ in await store.mail("r", 0)] == [1, 2]


async def test_a_signal_id_is_remembered_after_the_signal_was_taken(world: Any, store: Any) -> None:
    """R034."""
    await world.start()
    await store.send("r", world.signal(), "one")
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", world.batch(deletes=(mail_key(1),)), seen=1)))
    assert await store.send("r", world.signal(), "one") is None
    assert await store.mail("r", 0) == []


async def test_eight_senders_get_numbers_without_gaps_each_in_its_order(world: Any, store: Any) -> None:
    """R035."""
    await world.start()

    async def sender(who: int) -> None:
        for n in range(10):
            await store.send("r", world.signal("go", bytes([who, n])))

    await asyncio.gather(*(sender(who) for who in range(8)))
    mail = await store.mail("r", 0)
    assert [n for n, _ in mail] == list(range(1, 81))
    for who in range(8):
        assert [m.payload[1] for _, m in mail if m.payload[0] == who] == list(range(10))


async def test_a_signal_to_a_run_that_has_not_begun_is_kept_and_wakes_nobody(world: Any, store: Any) -> None:
    """R036: it is claimed as a first start, in its own turn."""
    await world.worker()
    await world.start()
    await store.send("r", world.signal())
    claim = await world.claim()
    assert (claim.epoch_before, await store.absorb("w", ["r"])) == (0, [])
    assert [n for n, _ in await store.mail("r", 0)] == [1]


async def test_a_rejected_update_has_its_answer_and_leaves_the_rows_as_they_were(world: Any, store: Any) -> None:
    """R037."""
    await world.worker()
    await world.suspended()
    before = await store.rows("r")
    assert await store.send("r", world.update("u1")) == 1
    claim = await world.claim()
    answer = dump(UpdateRejectedError("validator", "too much"))
    commit = narrowed(Full(claim.lease, "suspended", seen=1, mail_done=(1,), answers=(("u1", answer),)))
    await store.commit_group([commit])
    assert await store.rows("r") == before
    assert await store.answer("r", "u1") == answer
    assert await store.mail("r", 0) == []
    world.clock.ms += 599_999
    assert await store.answer("r", "u1") == answer
    world.clock.ms += 1
    assert await store.answer("r", "u1") is None


async def test_an_update_sent_again_attaches_while_undecided_and_is_new_once_rejected(world: Any, store: Any) -> None:
    await world.worker()
    await world.start()
    assert await store.send("r", world.update("u1")) == 1
    assert await store.send("r", world.update("u1")) is None
    claim = await world.claim()
    rejected = narrowed(Full(claim.lease, "running", seen=1, mail_done=(1,), answers=(("u1", dump("no")),)))
    await store.commit_group([rejected])
    assert await store.send("r", world.update("u1")) == 2
    assert await store.answer("r", "u1") is None
    accepted = narrowed(
        Full(claim.lease, "running", world.batch((update_key("u1"), b"outcome")), seen=2, mail_done=(2,), notify=True)
    )
    await store.commit_group([accepted])
    assert await store.send("r", world.update("u1")) is None
    assert await store.mail("r", 0) == []


async def test_only_the_next_message_of_a_rejected_update_takes_its_answer_away(world: Any, store: Any) -> None:
    """R079."""
    await world.start()
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", answers=(("u1", b"no"),))))
    store.limit_messages(0)
    with pytest.raises(LimitError):
        await store.send("r", world.update("u1"))
    assert await store.answer("r", "u1") == b"no"
    store.limit_messages(10)
    assert await store.send("r", world.update("u1")) is not None
    assert await store.answer("r", "u1") is None


async def test_an_update_sent_again_to_a_closed_run_leaves_the_answer_of_the_first(world: Any, store: Any) -> None:
    """R079: both senders are told that the run has ended."""
    await world.start()
    await store.send("r", world.update("u1"))
    await store.send("r", world.cancel())
    answer = await store.answer("r", "u1")
    assert answer is not None
    with pytest.raises(RunClosedError):
        await store.send("r", world.update("u1"))
    assert await store.answer("r", "u1") == answer


async def test_a_childs_end_its_parents_message_and_wake_up_come_together(world: Any, store: Any) -> None:
    """R038."""
    await world.worker()
    await world.suspended("parent")
    await world.start("child", parent=("parent", "spawned"))
    claim = await world.claim()
    mail = Mail(MailKind.RESULT, "spawned", None, b"value", None, 1, world.clock.ms)
    stale = narrowed(Full(await store.claim("child"), "completed", outgoing=(Outgoing("parent", mail, "end:child"),)))
    (refused,) = await store.commit_group([narrowed(Full(claim.lease, "completed", outgoing=stale.outgoing))])
    assert refused.verdict == "stale"
    assert (await store.mail("parent", 0), await world.claimed()) == ([], [])
    (result,) = await store.commit_group([stale])
    assert (result.verdict, result.undelivered, await world.status("child")) == ("committed", (), "completed")
    assert [mail.payload for _, mail in await store.mail("parent", 0)] == [b"value"]
    assert await world.claimed() == ["parent"]


async def test_mail_to_a_run_that_is_gone_or_closed_is_reported_and_the_rest_goes_on(world: Any, store: Any) -> None:
    await world.worker()
    await world.start("closed")
    await store.terminate("closed", None)
    await world.suspended("open")
    await world.start()
    claim = await world.claim()
    outgoing = tuple(Outgoing(run, world.signal(), f"s:{run}") for run in ("closed", "open", "nowhere"))
    (result,) = await store.commit_group([narrowed(Full(claim.lease, "suspended", outgoing=outgoing))])
    assert [one.run_id for one in result.undelivered] == ["closed", "nowhere"]
    assert len(await store.mail("open", 0)) == 1


async def test_a_signal_a_run_sends_to_itself_keeps_it_running(world: Any, store: Any) -> None:
    await world.worker()
    await world.start()
    claim = await world.claim()
    commit = narrowed(Full(claim.lease, "suspended", outgoing=(Outgoing("r", world.signal(), "s"),)))
    (result,) = await store.commit_group([commit])
    assert (result.kept, await world.status()) == (True, "running")


async def test_mail_to_an_unknown_or_closed_run_is_refused(world: Any, store: Any) -> None:
    with pytest.raises(RunNotFoundError):
        await store.send("r", world.signal(), "s")
    await world.start()
    await store.terminate("r", None)
    for mail in (world.signal(), world.update("u"), world.cancel()):
        with pytest.raises(RunClosedError):
            await store.send("r", mail, "s")


async def test_an_outcome_is_not_committed_over_a_cancel_the_turn_was_not_given(world: Any, store: Any) -> None:
    """R070."""
    await world.worker()
    await world.start()
    claim = await world.claim()
    await store.send("r", world.cancel())
    for status, continued in (("completed", False), ("running", True)):
        commit = narrowed(Full(claim.lease, status, world.batch((b"k", b"v")), continued=continued))
        (result,) = await store.commit_group([commit])
        assert result.verdict == "cancel_first"
    assert (b"k", b"v") not in await store.rows("r")
    commit = narrowed(Full(claim.lease, "cancelled", seen=1, mail_done=(1,)))
    (result,) = await store.commit_group([commit])
    assert (result.verdict, await world.status()) == ("committed", "cancelled")


@pytest.mark.parametrize("delay_ms", [0, 1_000])
async def test_a_cancel_ends_a_run_that_has_not_begun_without_a_worker(world: Any, store: Any, delay_ms: int) -> None:
    await world.worker()
    await world.suspended("parent")
    await world.start("child", parent=("parent", "op"), delay_ms=delay_ms)
    assert await store.send("child", world.cancel()) == 1
    assert await world.status("child") == "cancelled"
    ((_, mail),) = await store.mail("parent", 0)
    assert (mail.name, type(load(mail.error)).__name__) == ("op", "ChildCancelledError")
    assert await world.claimed() == ["parent"]
    assert await store.fire_timers(10) is None


async def test_a_cancel_lets_a_paused_run_go_on(world: Any, store: Any) -> None:
    """R055, as far as a store shows it."""
    await world.worker()
    await world.suspended()
    await store.pause("r")
    await store.send("r", world.signal())
    assert await world.claimed() == []
    await store.send("r", world.cancel())
    assert await world.claimed() == ["r"]


async def test_updates_nobody_decided_are_answered_when_the_run_ends(world: Any, store: Any) -> None:
    """P8."""
    await world.worker()
    await world.start()
    await store.send("r", world.update("u1"))
    claim = await world.claim()
    await store.commit_group([narrowed(Full(claim.lease, "completed", seen=1))])
    answer = load(await store.answer("r", "u1"))
    assert (type(answer), answer.why) == (UpdateRejectedError, "closed")


async def test_mail_is_read_above_a_number_signals_and_the_rest_in_one_order(world: Any, store: Any) -> None:
    await world.start()
    for mail in (world.signal("a"), world.update("u"), world.signal("b")):
        await store.send("r", mail)
    assert [(n, mail.name) for n, mail in await store.mail("r", 1)] == [(2, "add"), (3, "b")]
    assert [key for key, _ in await store.rows("r", mail_key(0)[:2])] == [mail_key(1), mail_key(3)]


@pytest.mark.slow
async def test_the_sender_of_one_message_too_many_is_refused(world: Any, store: Any) -> None:
    await world.start()
    await asyncio.gather(*(store.send("r", world.signal()) for _ in range(9_999)))
    assert await store.send("r", world.update("u")) == 10_000
    with pytest.raises(LimitError) as refused:
        await store.send("r", world.signal(), "s")
    assert (refused.value.limit, refused.value.size) == (10_000, 10_001)
    lease = await store.claim("r")
    await store.commit(narrowed(Full(lease, "running", world.batch(deletes=(mail_key(1),)), seen=1)))
    assert await store.send("r", world.signal(), "s") == 10_001


async def test_a_parent_and_its_child_that_end_at_the_same_time_both_end(world: Any, store: Any) -> None:
    """R039: the parent cancels what it leaves open, the child tells its parent; neither waits for the other."""
    await world.worker("w1")
    await world.worker("w2")
    for n in range(10):
        parent, child = (f"p{n}", f"c{n}") if n % 2 else (f"x{n}", f"a{n}")  # in both orders of ids
        await world.start(parent)
        above = await world.claim("w1")
        new = NewRun(child, "wf", (), (parent, "spawn"))
        await store.commit_group([narrowed(Full(above.lease, "running", runs=(new,)))])
        below = await world.claim("w2")
        result = Mail(MailKind.RESULT, "spawn", None, b"\xf6", None, 1, world.clock.ms)
        cancel = Outgoing(child, world.cancel(), f"end:{parent}")
        told = Outgoing(parent, result, f"end:{child}:spawn")
        (ended,), (child_ended,) = await asyncio.gather(
            store.commit_group([narrowed(Full(above.lease, "completed", outgoing=(cancel,)))]),
            store.commit_group([narrowed(Full(below.lease, "completed", outgoing=(told,)))]),
        )
        assert ended.verdict == "committed"
        if child_ended.verdict == "cancel_first":  # V7: the cancel came before its end, and is applied first
            again = narrowed(Full(below.lease, "cancelled", outgoing=(told,), seen=1))
            (child_ended,) = await store.commit_group([again])
        assert child_ended.verdict == "committed"
        assert (await world.status(parent), await world.status(child) in CLOSED) == ("completed", True)
        assert await store.claim_runs("w1", ["wf"], 10) == []
