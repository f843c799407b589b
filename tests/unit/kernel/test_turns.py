"""Turns: what one advance writes and releases, and what it ignores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Reply, Winner, join, now, race, receive, sleep, step, wait_for_signal
from tenuto.codec.records import encode_entry, encode_mail
from tenuto.codec.rows import mail_key
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, InternalError, RecordError
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import RunStep
from tenuto.kernel.operations import Completed, Parked
from tenuto.kernel.records import Mail, MailKind, Sleep


def work(*args: Any) -> None: ...


async def one_step() -> Any:
    return await step("a", work)


async def three_steps() -> Any:
    return [await step("a", work), await step("b", work), await step("c", work)]


def puts(encoded: Any, prefix: int) -> list[bytes]:
    """The keys a batch puts below a prefix."""
    return [key for key, _ in encoded.puts if key[:2] == bytes((0x15, prefix))]


def test_the_first_turn_of_a_step_writes_nothing_and_releases_it(drive):
    """K014"""
    run = drive(one_step)
    turn = run.turn()
    assert turn.batch == Batch()
    [command] = turn.commands
    assert isinstance(command, RunStep)
    assert (command.location, command.attempt, command.name) == (("a",), 1, "a")
    assert turn.outcome is None
    assert turn.waiting.in_flight == ((("a",), "step"),)


def test_the_result_of_a_one_step_run_is_one_batch(drive):
    """K015"""
    run = drive(one_step)
    run.turn()
    turn = run.turn(run.ok("a", "done"))
    assert run.result == "done"
    assert len(run.batches) == 1
    encoded = run.encoded[-1]
    assert len(encoded.puts) == 4
    assert [len(puts(encoded, prefix)) for prefix in (1, 2, 4)] == [1, 1, 2]  # name; entry; state and output
    assert puts(encoded, 5) == []
    assert turn.batch.state == "completed"
    assert turn.batch.alarm is None
    assert turn.commands == ()


def test_each_step_in_a_row_is_one_batch_with_one_history_row(drive):
    """K016"""
    run = drive(three_steps)
    run.turn()
    for name in "abc":
        run.turn(run.ok(name, name))
    assert run.result == ["a", "b", "c"]
    assert len(run.batches) == 3
    assert len(puts(run.encoded[2], 2)) == 1
    assert [at for at, _ in run.batches[1].entries] == [("b",)]


def test_a_turn_with_nothing_due_changes_nothing(drive):
    """K017"""
    times = []

    async def body() -> Any:
        await step("a", work)
        times.append(now())
        await step("b", work)
        times.append(now())

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"), now=10)
    before = dict(run.kv)
    turn = run.turn(now=5_000)
    assert turn.batch == Batch()
    assert turn.commands == ()
    assert run.kv == before
    run.turn(run.ok("b"), now=5_001)
    assert [round(time.timestamp() * 1000) % 1_000_000 for time in times] == [10, 5_001]


def test_equal_rows_and_facts_give_equal_bytes_and_commands(drive):
    """K018"""

    async def body() -> Any:
        await step("a", work, 1)
        return await join({"x": one_step, "y": lambda: sleep(1)})

    first, second = drive(body), drive(body)
    for run in (first, second):
        run.turn()
        run.turn(run.ok("a", {"k": (1, 2)}), now=3)
        run.turn(run.ok("join/x/a"), now=4)
        run.turn(now=1_004)
    assert first.encoded == second.encoded
    assert first.kv == second.kv
    assert [_comparable(turn.commands) for turn in first.turns] == [_comparable(turn.commands) for turn in second.turns]


def _comparable(commands: Any) -> list[Any]:
    return [
        command._replace(call=command.call.input) if isinstance(command, RunStep) else command for command in commands
    ]


@pytest.mark.parametrize("which", ["unknown location", "settled step", "older attempt", "newer attempt"])
def test_a_result_that_fits_nothing_is_ignored(drive, which):
    """K019"""
    run = drive(three_steps)
    run.turn()
    run.turn(run.ok("a", 1))
    run.turn(run.err("b", ValueError("no")), now=1)
    run.turn(now=201)
    before = dict(run.kv)
    fact = {
        "unknown location": run.ok("nowhere/else", 9),
        "settled step": run.ok("a", 9),
        "older attempt": run.ok("b", 9, attempt=1),
        "newer attempt": run.ok("b", 9, attempt=3),
    }[which]
    turn = run.turn(fact, now=202)
    assert turn.batch == Batch()
    assert turn.commands == ()
    assert run.kv == before
    run.turn(run.ok("b", 2, attempt=2))
    run.turn(run.ok("c", 3))
    assert run.result == [1, 2, 3]


def test_many_results_in_one_call_are_one_batch_in_the_order_of_the_facts(drive):
    """K020"""

    async def body() -> Any:
        await join({f"b{n}": one_step for n in range(500)})

    run = drive(body)
    run.turn()
    order = [(n * 7) % 500 for n in range(500)]
    turn = run.turn(*(run.ok(f"join/b{n}/a") for n in order))
    assert len(run.batches) == 1
    seqs = {at[1]: entry.seq for at, entry in turn.batch.entries if len(at) == 3}
    assert [seqs[f"b{n}"] for n in order] == list(range(1, 501))


def test_run_time_never_goes_back(drive):
    """K021"""
    times = []

    async def body() -> Any:
        await step("a", work)
        times.append(now())
        await step("b", work)
        times.append(now())

    run = drive(body)
    run.turn(now=100)
    run.turn(run.ok("a"), now=100)
    run.turn(run.ok("b"), now=40)
    assert times[0] == times[1]


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
def test_a_finished_run_answers_from_its_rows_without_starting(drive, ending):
    """K022"""
    started = []

    async def body() -> Any:
        started.append(1)
        if await step("a", work) == "raise":
            raise ValueError("mine")
        return "value"

    run = drive(body)
    run.turn()
    run.turn(run.cancel() if ending == "cancelled" else run.ok("a", "raise" if ending == "failed" else None))
    outcome, before, starts = run.outcome, dict(run.kv), len(started)
    assert run.rows.state == ending
    run.reload()
    turn = run.turn(run.ok("a", 9), run.signal(1, "s"), run.cancel(), now=99)
    assert turn.batch == Batch()
    assert turn.commands == ()
    assert turn.outcome == outcome
    assert run.kv == before
    assert len(started) == starts


def test_a_reloaded_run_puts_nothing_and_releases_what_was_in_flight(drive):
    """K023"""
    run = drive(three_steps)
    run.turn()
    run.turn(run.ok("a", 1))
    before = dict(run.kv)
    turn = run.again()
    assert turn.batch == Batch()
    assert run.released() == ["b"]
    assert run.kv == before


def test_a_turn_whose_commit_failed_has_not_happened(drive):
    """K024, T6"""
    run = drive(three_steps)
    run.turn()
    before = dict(run.kv)
    lost = run.peek(run.ok("a", 1))
    assert run.released() == ["b"]
    assert not lost.batch.empty
    run.again()  # the commit failed
    assert run.kv == before
    assert run.released() == ["a"]


def test_ephemeral_steps_ride_in_the_batch_of_the_next_durable_one(drive):
    """K025"""

    async def body() -> Any:
        values = [await step(name, work, ephemeral=True) for name in ("x", "y", "z")]
        return [*values, await step("kept", work)]

    run = drive(body)
    assert run.perform({name: lambda _, name=name: name for name in ("x", "y", "z", "kept")}) == ["x", "y", "z", "kept"]
    assert len(run.batches) == 1
    assert set(run.history) == {"x", "y", "z", "kept"}


def test_an_ephemeral_result_and_the_sleep_after_it_are_one_batch(drive):
    """K026"""

    async def body() -> Any:
        await step("x", work, ephemeral=True)
        await sleep(1)

    run = drive(body)
    run.turn()
    turn = run.turn(run.ok("x"))
    assert run.written == ["x", "sleep"]
    assert len(run.batches) == 1
    assert run.alarm == 1_000
    assert turn.batch.state == "suspended"


def test_an_ephemeral_result_without_a_later_write_is_stored_when_the_run_rests(drive):
    """3.1: a turn that ends with no inline work in flight keeps nothing back"""

    async def body() -> Any:
        await step("x", work, ephemeral=True)
        return await wait_for_signal("go")

    run = drive(body)
    run.turn()
    run.turn(run.ok("x"))
    assert set(run.history) == {"x"}


def test_a_step_that_loses_at_once_is_never_released(drive):
    """K027, T7"""

    async def at_once() -> str:
        return "first"

    async def body() -> Winner[Any]:
        return await race({"slow": one_step, "quick": at_once})

    run = drive(body)
    turn = run.turn()
    assert turn.commands == ()
    assert tuple(run.result) == ("quick", "first")
    assert set(run.history) == {"race"}


def test_what_is_at_hand_settles_in_issue_order(drive):
    """K028, T2"""
    order: list[str] = []

    async def sleeper() -> None:
        await sleep(0)
        order.append("slept")

    async def waiter() -> None:
        order.append(await wait_for_signal("m"))

    async def body() -> Any:
        await asyncio.gather(sleeper(), waiter())
        order.append(await step("last", work))
        return list(order)

    run = drive(body)
    run.post(1, "m", "got")
    run.turn()
    assert order == ["slept", "got"]
    assert {at: entry.seq for at, entry in run.history.items()} == {"@0/sleep": 1, "@1/signal:m": 2}
    order.clear()
    run.again()
    assert order == ["slept", "got"]
    order.clear()
    run.again()
    assert run.turn(run.ok("last", "end")).outcome is not None
    assert run.result == ["slept", "got", "end"]


def test_an_unreadable_record_parks_the_run_before_any_code(drive):
    """K007: the codec refuses it, so nothing is loaded, nothing written"""
    run = drive(three_steps)
    run.turn()
    run.turn(run.ok("a", 1))
    [key] = [key for key in run.kv if key[:2] == b"\x15\x02"]
    good = run.kv[key]
    for damaged in (b"\x02" + good[1:], good[:27] + b"\x0b" + good[28:], good[:-1], good + b"\x00", b""):
        run.kv[key] = damaged
        with pytest.raises(RecordError) as refused:
            run.reload()
        assert refused.value.code == "TN306"
    run.kv[key] = good
    run.again()
    assert run.released() == ["b"]


def test_names_are_registered_only_by_rows_that_were_written(drive):
    """K013"""

    async def body() -> Any:
        return await join({"p": lambda: step("slow", work), "q": lambda: step("quick", work)})

    run = drive(body)
    run.turn()
    run.turn(run.ok("join/q/quick", 1))
    names = [run.kv[key][1:].decode() for key in sorted(run.kv) if key[:2] == b"\x15\x01"]
    assert sorted(names) == ["join", "q", "quick"]
    run.again()
    assert run.released() == ["join/p/slow"]
    run.turn(run.ok("join/p/slow", 2))
    assert run.result == {"p": 2, "q": 1}
    indices = [key for key in sorted(run.kv) if key[:2] == b"\x15\x01"]
    assert indices == [b"\x15\x01\x14", *(bytes((0x15, 1, 0x15, n)) for n in range(1, 5))]
    assert isinstance(run.outcome, Completed)


def test_an_undecodable_value_parks_and_resumes_when_it_can_be_read(drive):
    """K117, T9"""
    run = drive(three_steps)
    run.turn()
    run.turn(run.ok("a", "plain"))
    [key] = [key for key in run.kv if key[:2] == b"\x15\x02"]
    good = run.kv[key]
    unknown = bytes.fromhex("d974038269676f6e653a54797065a0")  # an object of `gone:Type`, which nobody has loaded
    entry = run.history["a"]
    run.kv[key] = encode_entry(entry._replace(kind=entry.kind._replace(output=unknown)))
    before = dict(run.kv)
    run.again()
    error = run.reason
    assert isinstance(error, DecodingError)
    assert error.code == "TN307"
    assert "gone:Type" in str(error)
    assert run.kv == before
    run.kv[key] = good
    run.again()
    assert run.released() == ["b"]


def test_a_run_whose_code_diverges_in_the_same_turn_writes_nothing(drive):
    """T9: parked means empty batch and no commands, also when facts came with the turn"""
    run = drive(three_steps)
    run.turn()
    run.turn(run.ok("a", 1))

    async def other() -> Any:
        await sleep(1, name="a")

    run.reload(other, hash="v2")
    turn = run.turn(run.ok("b", 2), run.signal(4, "s"))
    assert isinstance(turn.outcome, Parked)
    assert turn.batch == Batch()
    assert turn.commands == ()


def test_an_unsettled_entry_is_pending_and_a_settled_one_is_not(drive):
    """5.2: seq 0 until settled; began is the issuing turn's time"""

    async def body() -> Any:
        await sleep(1)

    run = drive(body)
    run.turn(now=7)
    entry = run.history["sleep"]
    assert (entry.seq, entry.at, entry.kind) == (0, 0, Sleep(1_700_000_001_000))
    run.turn(now=1_500)
    entry = run.history["sleep"]
    assert (entry.seq, entry.at - entry.began) == (1, 1_493)


def test_a_bug_of_the_kernel_parks_the_run_with_the_evidence(drive, monkeypatch):
    """T9"""
    run = drive(one_step)
    run.turn()
    before = dict(run.kv)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(run.run.steps, "done", broken)
    run.turn(run.ok("a"))
    error = run.reason
    assert isinstance(error, InternalError)
    assert error.code == "TN901"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert run.kv == before


def test_mail_of_every_kind_found_on_load_counts_as_facts_in_number_order(drive):
    """1.3"""
    log: list[Any] = []

    async def body() -> Any:
        log.clear()
        log.append(await wait_for_signal("s"))
        try:
            await receive(0, updates={"add": lambda t, n: Reply(t + n, t + n)})
        finally:
            log.append("cancelled")

    run = drive(body)
    run.turn()
    run.post(1, "s", "one")
    run.post_update(2, "u", "add", 5)
    run.kv[mail_key(3)] = encode_mail(Mail(MailKind.CANCEL, "", None, dump(["why", None]), None, 0, 1_700_000_000_001))
    run.again()
    assert log == ["one", "cancelled"]
    assert run.rows.state == "cancelled"
    assert load(run.rows.updates["u"].result) == 5
    assert run.rows.counters.cancel.reason == "why"
    assert run.mail == []
