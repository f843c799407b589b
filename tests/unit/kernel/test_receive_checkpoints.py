"""Receives that keep their history bounded: commits, trims, resumption."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Async, NoReply, Reply, publish_state, receive, sleep, step, wait_for_signal
from tenuto.codec.values import dump, load
from tenuto.errors import EncodingError, RewindError
from tenuto.kernel.commands import ReplyUpdate, StartTimer
from tenuto.kernel.location import parse
from tenuto.kernel.records import Flag, UpdateStatus
from tenuto.kernel.rewind import rewind


def work(*args: Any) -> None: ...


handled: list[int] = []  # arguments, by every execution of a handler


async def tally(total: int, n: int) -> NoReply[int]:
    handled.append(n)
    await step("s", work)
    return NoReply(total + n)


async def entity() -> Any:
    total, _ = await receive(0, signals={"odd": tally, "even": tally}, checkpoint_every=10, timeout="1h")
    return total


@pytest.fixture(autouse=True)
def _fresh() -> None:
    handled.clear()


def send(run: Any, n: int) -> None:
    """Message n (from 0) and its step."""
    name = "even" if n % 2 == 0 else "odd"
    run.post(n + 1, name, n)
    run.turn(run.signal(n + 1, name, n))
    assert run.in_flight, n
    run.turn(run.ok(f"receive/{name}!{n}/s"))


def dispatches(run: Any) -> list[int]:
    """Dispatches that have anything stored, by number."""
    return sorted({int(at.split("/")[1].split("!")[1]) for at in run.history if "!" in at})


def commits(run: Any) -> list[Any]:
    """Batches that commit the receive."""
    return [
        batch
        for batch in run.batches
        for at, entry in batch.entries
        if at == ("receive",) and entry.seq and entry.flags & Flag.RECEIVE
    ]


@pytest.mark.parametrize("crash", [False, True])
def test_commits_come_every_ten_messages_each_in_one_batch(drive, crash):
    """K123, section 7: an entity's history that grows for years"""
    run = drive(entity, crash=crash)
    run.turn()
    most = 0
    for n in range(25):
        send(run, n)
        most = max(most, len(dispatches(run)))
    assert most <= 10
    found = commits(run)
    assert [entry.kind.iteration for batch in found for at, entry in batch.entries if at == ("receive",)] == [10, 20]
    for batch, first, last in zip(found, (0, 10), (10, 20), strict=True):
        [entry] = [entry for at, entry in batch.entries if at == ("receive",)]
        assert load(entry.kind.state) == sum(range(last))
        assert sorted((trim.name, trim.first, trim.last) for trim in batch.trims) == [
            ("even", first, last),
            ("odd", first, last),
        ]
    assert dispatches(run) == [20, 21, 22, 23, 24]
    run.turn(now=3_600_000)
    assert run.result == sum(range(25))


def test_a_reloaded_receive_goes_on_from_its_last_commit(drive):
    """K124"""
    run = drive(entity)
    run.turn()
    for n in range(25):
        send(run, n)
    handled.clear()
    before = dict(run.kv)
    run.again()
    assert handled == [20, 21, 22, 23, 24]
    assert run.released() == []
    assert run.kv == before
    run.turn(now=3_600_000)
    assert run.result == sum(range(25))


def test_no_commit_while_a_function_is_in_flight(drive):
    """K125"""

    def slow(total: int, n: int) -> Async[int]:
        async def function() -> None:
            await step("slow", work)

        return Async(function, total)

    async def body() -> Any:
        total, _ = await receive(
            0, signals={"even": tally, "odd": tally, "slow": slow}, checkpoint_every=10, timeout="1h"
        )
        return total

    for crash in (False, True):
        run = drive(body, crash=crash)
        run.turn()
        for n in range(7):
            send(run, n)
        run.turn(run.signal(8, "slow", 7))
        for n in range(8, 13):
            send(run, n)
            assert commits(run) == []
        run.turn(run.ok("receive/slow!7/slow"))
        [batch] = commits(run)
        [entry] = [entry for at, entry in batch.entries if at == ("receive",)]
        assert entry.kind.iteration == 13
        assert dispatches(run) == []
        send(run, 13)
        run.turn(now=3_600_000)
        assert run.result == sum(range(14)) - 7


def test_a_commit_that_was_not_committed_has_not_happened(drive):
    """K126"""
    run = drive(entity)
    run.turn()
    for n in range(9):
        send(run, n)
    run.post(10, "odd", 9)
    run.turn(run.signal(10, "odd", 9))
    before = dict(run.kv)
    lost = run.peek(run.ok("receive/odd!9/s"))
    assert lost.batch.trims
    run.again()  # the commit failed
    assert run.kv == before
    assert run.released() == ["receive/odd!9/s"]
    run.turn(run.ok("receive/odd!9/s"))
    assert len(commits(run)) == 1
    assert dispatches(run) == []


def test_a_commit_touches_nothing_but_its_own_dispatches(drive):
    """K127"""
    answered: list[str] = []

    def ask(total: int, what: str) -> Reply[int]:
        answered.append(what)
        return Reply(f"about {what}", total)

    async def body() -> Any:
        publish_state({"phase": "open"})
        total, timed_out = await receive(
            0, signals={"even": tally, "odd": tally}, updates={"ask": ask}, checkpoint_every=10, timeout="1h"
        )
        return total, timed_out, await wait_for_signal("other")

    run = drive(body)
    run.turn()
    run.post(100, "other", "buffered")
    run.turn(run.signal(100, "other", "buffered"))
    run.turn(run.update(101, "u1", "ask", "life"))
    for n in range(1, 10):  # dispatch 0 was the update
        name = "even" if n % 2 == 0 else "odd"
        run.turn(run.signal(200 + n, name, n))
        run.turn(run.ok(f"receive/{name}!{n}/s"))
    [batch] = commits(run)
    assert [(key, update.seq) for key, update in batch.updates] == [("u1", 0)]
    assert run.alarm == 3_600_000
    run.again()
    assert run.alarm == 3_600_000
    assert run.mail == [100]
    assert run.published == {"phase": "open"}
    update = run.rows.updates["u1"]
    assert (update.seq, update.status, load(update.result)) == (0, UpdateStatus.COMPLETED, "about life")
    turn = run.turn(run.update(300, "u1", "ask", "life"))
    assert [command for command in turn.commands if isinstance(command, ReplyUpdate)] == []
    assert answered == ["life"]
    run.turn(now=3_600_000)
    assert run.result == (45, True, "buffered")


def test_rewinding_to_before_a_commit_is_refused_and_after_it_is_not(drive):
    """K128"""
    run = drive(entity)
    run.turn()
    for n in range(13):
        send(run, n)
    before = dict(run.kv)
    for location in ("receive/odd!3/s", "receive/odd!3"):
        with pytest.raises(
            RewindError, match=f"{location} was trimmed by receive receive; its dispatches before number 10"
        ):
            rewind(run.rows, parse(location), dump=dump)
    assert run.kv == before
    run.go_back(rewind(run.rows, parse("receive/odd!11/s"), dump=dump))
    handled.clear()
    run.again()
    assert handled == [10, 11]
    assert run.released() == ["receive/odd!11/s"]
    assert run.mail == [13]


def test_a_rewind_to_before_the_receive_is_refused_once_it_has_committed(drive):
    """3.12"""

    async def body() -> Any:
        await step("before", work)
        await entity()

    run = drive(body)
    run.turn()
    run.turn(run.ok("before"))
    for n in range(10):
        send(run, n)
    with pytest.raises(RewindError, match="committed since"):
        rewind(run.rows, parse("before"), dump=dump)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_checkpoint_every_is_a_whole_number_of_at_least_one(drive, wrong):
    """K129"""

    async def body() -> Any:
        try:
            await receive(0, signals={"s": tally}, checkpoint_every=wrong)
        except ValueError as error:
            return str(error)

    run = drive(body)
    run.turn()
    assert "checkpoint_every" in run.result
    assert run.history == {}


def test_a_state_that_cannot_be_stored_is_refused_at_the_call(drive):
    """K129"""

    async def body() -> Any:
        try:
            await receive(object(), signals={"s": tally}, checkpoint_every=2)
        except (EncodingError, TypeError) as error:
            return error.code

    run = drive(body)
    run.turn()
    assert run.result == "TN129"
    assert run.history == {}


def test_the_state_after_a_commit_is_the_committed_one(drive):
    """K130"""
    kept: list[Any] = []
    seen: list[Any] = []

    def keep(state: Any, n: int) -> NoReply[Any]:
        seen.append((repr(state), state["pair"], state["set"]))
        for old in kept:  # what earlier handlers returned is changed behind the engine's back
            old["set"].add("mutated")
        new = {"pair": (n, n), "set": {n}}
        kept.append(new)
        return NoReply(new)

    async def body() -> Any:
        state, _ = await receive({"pair": (0, 0), "set": set()}, signals={"s": keep}, checkpoint_every=1, timeout="1h")
        return state

    run = drive(body)
    run.turn()
    for n in (1, 2, 3):
        run.turn(run.signal(n, "s", n))
    assert len(commits(run)) == 3
    assert [(pair, items) for _, pair, items in seen] == [((0, 0), set()), ((1, 1), {1}), ((2, 2), {2})]
    run.turn(now=3_600_000)
    assert run.result == {"pair": (3, 3), "set": {3}}


def test_a_receive_keeps_its_place_when_the_option_goes(drive):
    """3.13: goes on at the stored dispatch, also if the option has changed or gone"""

    async def without() -> Any:
        total, _ = await receive(0, signals={"odd": tally, "even": tally}, timeout="1h")
        return total

    run = drive(entity)
    run.turn()
    for n in range(12):
        send(run, n)
    handled.clear()
    run.again(without, hash="v2")
    assert handled == [10, 11]
    send(run, 12)
    assert "receive/even!12" in run.history
    run.turn(now=3_600_000)
    assert run.result == sum(range(13))


def test_buffered_messages_are_handled_across_commits_in_one_turn(drive):
    """3.13, T2"""

    def add(total: int, n: int) -> NoReply[int]:
        return NoReply(total + n)

    async def body() -> Any:
        total, _ = await receive(0, signals={"add": add}, checkpoint_every=3, timeout=1)
        await sleep(1)
        return total

    run = drive(body)
    for n in range(1, 11):
        run.post(n, "add", n)
    run.turn()
    assert len(run.batches) == 1
    assert run.history["receive"].kind.iteration == 9
    assert dispatches(run) == [9]
    assert run.mail == []
    run.again()
    run.turn(now=1_000)
    run.turn(now=2_000)
    assert run.result == 55


@pytest.mark.parametrize("checkpoint_every", [None, 1, 2])
@pytest.mark.parametrize("late", [0, 40])
def test_what_is_stored_before_the_first_turn_is_received_without_any_time(drive, checkpoint_every, late):
    """model.md 4.5: buffered signals are handled even with timeout=0, however often the state is committed"""

    def add(total: int, n: int) -> NoReply[int]:
        return NoReply(total + n)

    async def body() -> Any:
        total, timed_out = await receive(0, signals={"add": add}, checkpoint_every=checkpoint_every, timeout=0)
        await step("after", work)
        return total, timed_out

    run = drive(body)
    for n in (1, 2, 3):
        run.post(n, "add", n, at=10 * n)
    run.turn(now=late)
    assert run.history["receive/timer"].seq > 0
    run.again()
    assert run.released() == ["after"]
    run.turn(run.ok("after"))
    assert run.result == (6, True)


def test_a_message_that_came_in_time_is_received_however_late_the_first_turn(drive):
    """T3: what happened before the deadline is looked at first, what came after it stays for later"""

    def add(total: int, n: int) -> NoReply[int]:
        return NoReply(total + n)

    async def body() -> Any:
        total, timed_out = await receive(0, signals={"add": add}, timeout=1)
        return total, timed_out, await wait_for_signal("add")

    run = drive(body)
    run.post(1, "add", 5, at=500)
    run.post(2, "add", 7, at=1_500)
    run.turn(now=10_000)
    assert run.result == (5, True, 7)


def test_a_timeout_of_asyncio_lets_earlier_messages_go_first(drive):
    async def body() -> Any:
        async with asyncio.timeout(1):
            return await wait_for_signal("approve")

    run = drive(body)
    run.post(1, "approve", "yes", at=500)
    turn = run.turn(now=10_000)
    assert run.result == "yes"
    assert not [command for command in turn.commands if isinstance(command, StartTimer)]


@pytest.mark.parametrize("late", [0, 40])
def test_a_wait_without_any_time_takes_what_is_stored(drive, late):
    async def body() -> Any:
        first = await wait_for_signal("s", timeout=0)
        try:
            await wait_for_signal("s", timeout=0)
        except TimeoutError:
            return first

    run = drive(body)
    run.post(1, "s", "here", at=5)
    turn = run.turn(now=late)
    assert run.result == "here"
    assert not [command for command in turn.commands if isinstance(command, StartTimer)]
