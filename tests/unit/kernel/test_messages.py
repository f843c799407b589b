"""Signals and updates: taken once, in order, in one batch with their record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import (
    Async,
    NoReply,
    Reject,
    Reply,
    Stop,
    Update,
    join,
    publish_state,
    receive,
    sleep,
    step,
    wait_for_signal,
)
from tenuto.codec.values import load
from tenuto.errors import UpdateFailedError
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import CancelTimer, ReplyUpdate
from tenuto.kernel.records import Message, UpdateStatus
from tenuto.model.place import current

START = 1_700_000_000_000


def work(*args: Any) -> None: ...


async def waits(**options: Any) -> Any:
    value = await wait_for_signal("s", **options)
    await step("after", work)
    return value


def answers(run: Any) -> dict[str, Any]:
    """The replies of the last turn: values, errors, or (why, reason) of rejections."""
    found: dict[str, Any] = {}
    for command in run.last.commands:
        if isinstance(command, ReplyUpdate):
            match command.rejected:
                case None:
                    outcome = command.outcome
                    found[command.id] = load(outcome.value) if hasattr(outcome, "value") else load(outcome.error)
                case rejected:
                    found[command.id] = rejected
    return found


# --- waits


def test_taking_a_message_and_recording_it_are_one_batch(drive):
    """K061"""
    run = drive(waits)
    run.post(7, "s", "hello")
    turn = run.turn()
    assert run.written == ["signal:s"]
    assert turn.batch.deleted_mail == (7,)
    assert run.mail == []
    taken = run.history["signal:s"].kind.taken
    assert (taken.id, taken.name, load(taken.payload)) == ("0000000000000007", "s", ["hello"])
    assert len(run.batches) == 1


def test_the_oldest_message_of_any_name_asked_for_is_taken(drive):
    """K062"""
    from tenuto.kernel.operations import WaitOp

    async def body() -> Any:
        port = current("a test").port
        return port.decode(await port.issue(WaitOp("either", ("a", "b"))))

    run = drive(body)
    run.post(1, "b", "first")
    run.post(2, "a", "second")
    run.turn()
    assert run.result == ["first"]
    assert run.mail == [2]


def test_a_timed_wait_keeps_its_deadline_and_times_out_at_it(drive):
    """K063"""

    async def body() -> Any:
        try:
            return await wait_for_signal("s", timeout=0.050)
        except TimeoutError:
            return "timed out"

    run = drive(body)
    run.turn()
    entry = run.history["signal:s"]
    assert (entry.seq, entry.kind) == (0, Message(("s",), START + 50))
    assert run.alarm == 50
    run.again()
    assert run.alarm == 50
    run.turn(now=49)
    assert run.outcome is None
    run.turn(now=50)
    assert run.result == "timed out"
    entry = run.history["signal:s"]
    assert (entry.seq, entry.kind.taken) == (1, None)


@pytest.mark.parametrize("how", ["as a fact", "as a row"])
def test_a_message_sent_in_time_wins_however_late_the_turn(drive, how):
    """K064, section 7: in-time message ignored by a late run"""

    async def body() -> Any:
        try:
            return await wait_for_signal("s", timeout=0.050)
        except TimeoutError:
            return "timed out"

    run = drive(body)
    run.turn()
    if how == "as a fact":
        run.turn(run.signal(1, "s", "in time", at=50), now=80)
    else:
        run.post(1, "s", "in time", at=50)
        run.reload()
        run.turn(now=80)
    assert run.result == "in time"
    late = drive(body)
    late.turn()
    late.post(1, "s", "late", at=51)
    late.turn(late.signal(1, "s", "late", at=51), now=80)
    assert late.result == "timed out"
    assert late.mail == [1]


def test_a_message_served_cancels_the_timer_of_its_wait(drive):
    """3.2"""

    async def body() -> Any:
        await wait_for_signal("s", timeout="1h")
        await step("after", work)

    run = drive(body)
    run.turn()
    run.turn(run.signal(1, "s"))
    assert run.commands_of(CancelTimer) == ["signal:s"]
    assert run.alarm is None


def test_one_mail_number_is_taken_once(drive):
    """K065, T5"""

    async def body() -> Any:
        first = await wait_for_signal("s")
        return first, await wait_for_signal("s")

    run = drive(body)
    run.turn()
    run.turn(run.signal(3, "s", "one"), run.signal(3, "s", "again"))
    assert run.outcome is None
    run.again()
    run.turn(run.signal(3, "s", "again"))
    assert run.outcome is None
    run.turn(run.signal(4, "s", "two"))
    assert run.result == ("one", "two")


def test_a_message_taken_in_a_turn_that_was_not_committed_is_still_there(drive):
    """K066"""
    run = drive(waits)
    run.turn()
    run.post(1, "s", "kept")
    before = dict(run.kv)
    run.peek(run.signal(1, "s", "kept"))
    run.reload()  # the commit failed
    assert run.kv == before
    run.turn()
    assert run.mail == []
    run.turn(run.ok("after"))
    assert run.result == "kept"
    assert len([entry for entry in run.history.values() if isinstance(entry.kind, Message)]) == 1


def test_waits_for_one_name_are_served_in_issue_order(drive):
    """3.5"""

    async def body() -> Any:
        return await join({name: lambda: wait_for_signal("s") for name in ("first", "second")})

    run = drive(body, crash=True)
    run.turn()
    run.turn(run.signal(1, "s", 1))
    run.turn(run.signal(2, "s", 2))
    assert run.result == {"first": 1, "second": 2}


def test_messages_are_taken_in_the_order_of_their_numbers(drive):
    """section 7: messages out of order"""

    async def body() -> Any:
        return [await wait_for_signal("s") for _ in range(20)]

    run = drive(body)
    for n in range(1, 21):
        run.post(n, "s", n)
    run.turn()
    assert run.result == list(range(1, 21))


def test_a_message_sent_before_the_run_starts_is_not_lost(drive):
    run = drive(waits)
    run.post(1, "s", "early")
    run.turn()
    run.turn(run.ok("after"))
    assert run.result == "early"


def test_a_message_nobody_waits_for_stays_buffered(drive):
    """1.3"""
    run = drive(waits)
    run.turn()
    run.post(1, "other", 1)
    turn = run.turn(run.signal(1, "other", 1))
    assert turn.batch == Batch()
    assert run.mail == [1]


def test_a_withdrawn_wait_takes_nothing(drive):
    """3.5"""

    async def body() -> Any:
        task = asyncio.create_task(wait_for_signal("s"))
        await step("a", work)
        task.cancel()
        await step("b", work)
        return await wait_for_signal("s")

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"), run.signal(1, "s", "kept"))
    run.turn(run.ok("b"))
    assert run.result == "kept"


# --- receive


def counter(**options: Any) -> Any:
    def add(total: int, n: int) -> Reply[int]:
        return Reply(total + n, total + n)

    def only_positive(total: int, n: int) -> None:
        if n <= 0:
            raise Reject("not positive")

    def stop(total: int) -> Stop[int]:
        return Stop(total, reply="bye")

    async def body() -> Any:
        publish_state("open")
        total, timed_out = await receive(
            0,
            updates={"add": Update(add, only_positive), "stop": stop},
            signals={"bump": lambda t: NoReply(t + 100)},
            **options,
        )
        return total, timed_out

    return body


def test_an_update_is_admitted_and_answered_in_one_batch(drive):
    """3.2"""
    run = drive(counter())
    run.turn()
    turn = run.turn(run.update(1, "u1", "add", 5))
    assert answers(run) == {"u1": 5}
    update = run.rows.updates["u1"]
    assert (update.seq, update.status, update.name, load(update.args)) == (1, UpdateStatus.COMPLETED, "add", [5])
    assert turn.batch.deleted_mail == (1,)
    run.again()
    run.turn(run.update(2, "u2", "add", 6))
    assert answers(run) == {"u2": 11}


def test_a_rejected_update_leaves_history_as_it_was(drive):
    """1.3"""
    run = drive(counter())
    run.turn()
    before = dict(run.kv)
    run.turn(run.update(1, "u1", "add", -5))
    assert answers(run) == {"u1": ("validator", "not positive")}
    assert run.kv == before
    run.turn(run.update(2, "u2", "unknown"))
    assert answers(run) == {"u2": ("not_accepting", None)}
    assert run.kv == before


def test_an_update_asked_twice_is_handled_once(drive):
    """1.3, T5"""
    run = drive(counter())
    run.turn()
    run.turn(run.update(1, "u1", "add", 5))
    run.turn(run.update(2, "u1", "add", 5))
    assert answers(run) == {}
    run.again()
    run.turn(run.update(3, "u2", "add", 1))
    assert answers(run) == {"u2": 6}


def test_dispatches_of_signals_and_updates_are_counted_together(drive):
    """3.13"""
    run = drive(counter(), crash=True)
    run.turn()
    run.turn(run.signal(1, "bump"), run.update(2, "u", "add", 1), run.signal(3, "bump"))
    assert set(run.history) == {"receive/bump!0", "receive/bump!2"}
    run.turn(run.update(4, "v", "stop"))
    assert run.result == (201, False)


def test_a_receive_ends_at_its_timeout(drive):
    """3.13: its timeout is a sleep entry `timer` in it"""
    run = drive(counter(timeout=1), crash=True)
    run.turn()
    assert set(run.history) == {"receive/timer"}
    run.turn(run.signal(1, "bump"), now=500)
    assert run.alarm == 1_000
    run.turn(now=1_000)
    assert run.result == (100, True)


def test_an_unanswered_update_is_answered_when_the_run_ends(drive):
    """P8: every update gets a definite answer"""

    def later(state: int) -> Async[int]:
        async def slow() -> str:
            await step("slow", work)
            return "done"

        return Async(slow, state)

    async def body() -> Any:
        await receive(0, updates={"later": later})

    run = drive(body)
    run.turn()
    run.turn(run.update(1, "u", "later"))
    assert answers(run) == {}
    assert run.rows.updates["u"].status is UpdateStatus.ACCEPTED
    run.turn(run.cancel(2))
    [answer] = answers(run).values()
    assert isinstance(answer, UpdateFailedError)
    assert run.rows.updates["u"].status is UpdateStatus.FAILED


def test_published_state_is_in_the_batch_of_its_turn(drive):
    """3.2"""

    async def body() -> Any:
        publish_state({"at": "start"})
        await step("a", work)
        publish_state({"at": "end"})
        await sleep("1h")

    run = drive(body)
    run.turn()
    assert run.published == {"at": "start"}
    lost = run.peek(run.ok("a"))
    assert lost.batch.published is not None
    assert run.published == {"at": "start"}
    run.again()
    run.turn(run.ok("a"))
    assert run.published == {"at": "end"}
    before = dict(run.kv)
    run.again()
    assert run.kv == before


def test_waits_are_served_in_issue_order_after_a_reload_too(drive):
    """3.5: one is recorded (it has a deadline), the other is not"""

    async def body() -> Any:
        return await join({"first": lambda: wait_for_signal("s"), "second": lambda: wait_for_signal("s", timeout="1h")})

    run = drive(body)
    run.turn()
    run.reload()
    run.turn(run.signal(1, "s", 1))
    run.turn(run.signal(2, "s", 2))
    assert run.result == {"first": 1, "second": 2}


def test_an_undecided_update_keeps_its_row_until_it_is_decided(drive):
    """1.3"""

    async def slow(total: int, n: int) -> Reply[int]:
        await step("slow", work)
        return Reply(total + n, total + n)

    async def body() -> Any:
        await receive(0, updates={"add": slow})

    run = drive(body)
    run.turn()
    run.turn(run.update(1, "u1", "add", 1))
    run.post_update(2, "u2", "add", 2)
    turn = run.turn(run.update(2, "u2", "add", 2))
    assert turn.batch == Batch()
    assert run.mail == [2]
    run.again()
    assert run.mail == [2]
    run.turn(run.ok("receive/add!0/slow"))
    assert answers(run) == {"u1": 1}
    assert run.mail == []
    run.turn(run.ok("receive/add!1/slow"))
    assert answers(run) == {"u2": 3}
