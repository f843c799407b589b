"""Sleeps, deadlines, alarms, run time; random numbers and ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenuto import join, now, random, sleep, sleep_until, step, uuid4, wait_for_signal
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import CancelTimer, StartTimer

START = 1_700_000_000_000


def work(*args: Any) -> None: ...


def millis(time: datetime) -> int:
    return round(time.timestamp() * 1000) - START


def test_a_sleep_fires_at_its_deadline_and_not_a_millisecond_before(drive):
    """K039"""

    async def body() -> Any:
        await sleep("1h")

    run = drive(body)
    turn = run.turn()
    assert run.alarm == 3_600_000
    assert turn.commands == (StartTimer(("sleep",), START + 3_600_000, "delay"),)
    assert turn.batch.state == "suspended"
    turn = run.turn(now=3_599_999)
    assert turn.batch == Batch(alarm=START + 3_600_000)
    assert run.outcome is None
    run.turn(now=3_600_000)
    assert run.result is None
    assert run.alarm is None


def test_a_sleep_woken_late_keeps_its_deadline_and_tells_the_real_time(drive):
    """K040"""

    async def body() -> Any:
        await sleep("1h")
        return now()

    run = drive(body, crash=True)
    run.turn()
    run.turn(now=4_000_000)
    assert millis(run.result) == 4_000_000
    entry = run.history["sleep"]
    assert entry.kind.deadline == START + 3_600_000
    assert entry.at == START + 4_000_000


def test_a_sleep_that_is_due_settles_in_the_same_turn(drive):
    """K041"""

    async def body() -> Any:
        await sleep(0)
        await sleep_until(datetime(2001, 1, 1, tzinfo=UTC))
        await step("a", work)

    run = drive(body)
    turn = run.turn()
    assert run.written == ["sleep", "sleep#2"]
    assert [entry.seq for _, entry in turn.batch.entries] == [1, 2]
    assert run.alarm is None
    assert run.commands_of(StartTimer) == []
    assert run.released() == ["a"]


def test_a_sleep_counts_from_run_time_not_from_the_clock(drive):
    """3.4: deadline = run time + duration, rounded up"""

    async def body() -> Any:
        await step("a", work)
        await sleep(timedelta(microseconds=1_500))

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"), now=10)
    assert run.alarm == 12


def test_replay_uses_the_stored_deadline_not_the_new_argument(drive):
    """3.4"""

    async def long() -> Any:
        await sleep("1h")

    async def longer() -> Any:
        await sleep("9h")

    run = drive(long)
    run.turn()
    run.again(longer, hash="v2")
    assert run.alarm == 3_600_000
    run.turn(now=3_600_000)
    assert run.result is None


def test_random_numbers_and_ids_are_those_of_the_specification(drive):
    """K042"""

    async def body() -> Any:
        return [random().random(), random().random(), str(uuid4()), str(uuid4()), random().getrandbits(32)]

    run = drive(body, run_id="order-42")
    run.turn()
    assert run.result[:4] == [
        0.5599633321671352,
        0.7950298126308439,
        "ef6b174d-f14b-45b6-b3ba-17750e50abb1",
        "c4a271b0-0ce1-40f2-8d68-621871b60095",
    ]


def test_random_numbers_and_ids_go_on_after_a_reload_and_differ_by_scope(drive):
    """1.6"""

    async def draw() -> Any:
        first = (random().random(), str(uuid4()))
        await step("a", work)
        return [first, (random().random(), str(uuid4()))]

    async def body() -> Any:
        return await join({"x": draw, "y": draw})

    plain, crashed = drive(body), drive(body, crash=True)
    for run in (plain, crashed):
        run.perform({"a": lambda _: None})
    assert plain.result == crashed.result
    drawn = [pair for branch in plain.result.values() for pair in branch]
    assert len({number for number, _ in drawn}) == len({word for _, word in drawn}) == 4


def test_the_alarm_is_the_earliest_deadline(drive):
    """K043"""

    async def body() -> Any:
        await join({str(n): lambda n=n: sleep(n / 1000) for n in (30, 10, 20)})

    run = drive(body)
    run.turn()
    assert run.alarm == 10
    run.turn(now=10)
    assert run.alarm == 20
    run.turn(now=30)
    assert run.alarm is None
    settled = sorted((entry.seq, at) for at, entry in run.history.items() if at != "join")
    assert [at for _, at in settled] == ["join/10/sleep", "join/20/sleep", "join/30/sleep"]


def test_a_timer_row_deleted_by_hand_counts_as_fired(drive):
    """K044"""

    async def body() -> Any:
        await sleep(0.010)
        return now()

    run = drive(body)
    run.turn()
    run.turn(run.timer_gone("sleep"), now=5)
    assert millis(run.result) == 5
    assert run.history["sleep"].at == START + 5


def test_a_retry_timer_deleted_by_hand_releases_the_attempt(drive):
    """1.3, TimerGone of a waiting step"""

    async def body() -> Any:
        await step("a", work)

    run = drive(body)
    run.turn()
    run.turn(run.err("a", ValueError("no")))
    turn = run.turn(run.timer_gone("a"), now=5)
    assert [(command.location, command.attempt) for command in turn.commands] == [(("a",), 2)]
    assert run.alarm is None


def test_timers_fire_before_facts_that_happened_after_them(drive):
    """T3"""
    order: list[str] = []

    async def nap() -> None:
        await sleep(0.050)
        order.append("timer")

    async def told() -> None:
        await wait_for_signal("s")
        order.append("signal")

    async def body() -> Any:
        await join({"nap": nap, "told": told})
        return order

    for sent_at, expected in ((49, ["signal", "timer"]), (50, ["signal", "timer"]), (51, ["timer", "signal"])):
        order.clear()
        run = drive(body)
        run.turn()
        run.turn(run.signal(1, "s", at=sent_at), now=80)
        assert run.result == expected, sent_at


def test_a_run_that_is_not_woken_at_all_fires_all_its_timers_in_order_of_deadline(drive):
    """T3: deadline, then issue order"""
    order: list[str] = []

    async def nap(name: str, ms: int) -> None:
        await sleep(ms / 1000)
        order.append(name)

    async def body() -> Any:
        await join({name: lambda name=name, ms=ms: nap(name, ms) for name, ms in (("a", 20), ("b", 10), ("c", 10))})
        return order

    run = drive(body)
    run.turn()
    run.turn(now=1_000)
    assert run.result == ["b", "c", "a"]


def test_a_cancelled_sleep_takes_its_row_its_timer_and_the_alarm_along(drive):
    """3.2, withdrawn operations; section 7: stale alarm that spins"""
    from tenuto import race

    async def body() -> Any:
        winner, _ = await race({"late": lambda: sleep("1h"), "told": lambda: wait_for_signal("s")})
        await step("a", work)
        return winner

    run = drive(body)
    run.turn()
    assert run.alarm == 3_600_000
    run.turn(run.signal(1, "s"))
    assert run.commands_of(CancelTimer) == ["race/late/sleep"]
    assert run.alarm is None
    assert "race/late/sleep" not in run.history
    run.again()
    assert run.alarm is None
    run.turn(run.ok("a"), now=4_000_000)
    assert run.result == "told"


@pytest.mark.parametrize("wrong", [float("nan"), "soon", None])
def test_a_duration_that_is_none_is_refused_at_its_line(drive, wrong):
    async def body() -> Any:
        try:
            await sleep(wrong)
        except (ValueError, TypeError):
            return "refused"

    run = drive(body)
    run.turn()
    assert run.result == "refused"
    assert run.history == {}


def test_timers_due_together_fire_in_issue_order_after_a_reload_too(drive):
    """T3: a retry counts from where its step was issued"""
    order: list[str] = []

    async def flaky() -> None:
        await step("a", work)

    async def nap() -> None:
        await sleep(0.200)
        order.append("nap")

    async def body() -> Any:
        order.clear()
        await join({"flaky": flaky, "nap": nap})

    for reload in (False, True):
        run = drive(body)
        run.turn()
        run.turn(run.err("join/flaky/a", ValueError("no")))
        if reload:
            run.reload()
        turn = run.turn(now=200)
        assert run.released() == ["join/flaky/a"]
        assert run.run.history.root.children["join"].children["flaky"].children["a"].pending.order < 4
        assert [at for at, _ in turn.batch.entries] == [("join", "nap", "sleep")]


def test_a_cancels_deadline_goes_before_timers_that_are_due_with_it(drive):
    """1.5: no more code runs, whether the run was reloaded or not"""
    ran: list[str] = []

    async def body() -> Any:
        try:
            await sleep("1h")
        finally:
            await sleep(5)
            ran.append("too late")

    for reload in (False, True):
        run = drive(body)
        run.turn()
        run.turn(run.cancel(within_ms=5_000))
        if reload:
            run.reload()
        run.turn(now=5_000)
        assert run.rows.state == "cancelled"
        assert ran == []
