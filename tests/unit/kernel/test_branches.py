"""Join, race, parallel: who ends, who wins, what is written."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tenuto import Failed, FatalError, join, parallel, race, sleep, step, wait_for_signal
from tenuto.errors import JoinError, LimitError, NondeterminismError, RaceError, StepFailedError
from tenuto.kernel.commands import CancelStep, CancelTimer
from tenuto.kernel.records import BranchStatus


def work(*args: Any) -> None: ...


def stepping(name: str) -> Any:
    return lambda: step(name, work)


async def fails() -> None:
    raise ValueError("at once")


# --- join and parallel


def test_branches_start_together_and_results_come_in_input_order(drive):
    """K078"""

    async def body() -> Any:
        return await join({"a": stepping("x"), "b": stepping("y")})

    run = drive(body)
    run.turn()
    assert run.released() == ["join/a/x", "join/b/y"]
    run.turn(run.ok("join/b/y", 2))
    run.turn(run.ok("join/a/x", 1))
    assert list(run.result.items()) == [("a", 1), ("b", 2)]


def test_a_failed_branch_does_not_stop_the_others(drive):
    """K079"""
    ended = []

    async def naps() -> None:
        await sleep(1)
        ended.append("b")

    async def body() -> Any:
        await join({"a": fails, "b": naps})

    run = drive(body, crash=True)
    run.turn()
    assert run.outcome is None
    run.turn(now=1_000)
    with pytest.raises(JoinError) as failed:
        run.result
    assert list(failed.value.errors) == ["a"]
    assert repr(failed.value.errors["a"]) == "ValueError('at once')"
    assert ended == ["b"]
    statuses = [(branch.name, branch.status) for branch in run.history["join"].kind.branches]
    assert statuses == [("a", BranchStatus.FAILED), ("b", BranchStatus.COMPLETED)]


def test_parallel_gives_errors_as_values(drive):
    """3.7"""

    async def body() -> Any:
        values = await parallel([stepping("x"), fails, stepping("x")])
        return [repr(value) if isinstance(value, Failed) else value for value in values]

    run = drive(body)
    run.turn()
    assert run.released() == ["parallel/[0]/x", "parallel/[2]/x"]
    run.turn(run.ok("parallel/[2]/x", 3), run.ok("parallel/[0]/x", 1))
    assert run.result == [1, "Failed(error=ValueError('at once'))", 3]


def test_a_branch_in_retry_and_one_asleep_wake_at_the_earlier(drive):
    """K080"""

    async def body() -> Any:
        return await join({"flaky": stepping("x"), "nap": lambda: sleep(0.1)})

    run = drive(body)
    run.turn()
    run.turn(run.err("join/flaky/x", ValueError("no")))
    assert run.alarm == 100
    run.turn(now=100)
    assert (run.alarm, run.outcome) == (200, None)
    run.turn(now=200)
    assert run.released() == ["join/flaky/x"]
    run.turn(run.ok("join/flaky/x", 1, attempt=2))
    assert run.result == {"flaky": 1, "nap": None}


def test_constructs_without_branches(drive):
    """K081"""

    async def body() -> Any:
        try:
            await race({})
        except ValueError:
            return [await join({}), await parallel([])]

    run = drive(body)
    run.turn()
    assert run.result == [{}, []]
    assert run.history == {}


def test_a_wide_join_writes_each_branch_once(drive):
    """K088"""

    async def body() -> Any:
        return len(await join({f"b{n}": stepping("x") for n in range(1_000)}))

    for grouping in (1_000, 7):
        run = drive(body)
        run.turn()
        order = list(range(1_000))
        random.Random(grouping).shuffle(order)
        while order:
            group, order = order[:grouping], order[grouping:]
            run.turn(*(run.ok(f"join/b{n}/x") for n in group))
        assert run.result == 1_000
        written = sum(1 for encoded in run.encoded for key, _ in encoded.puts if key[:2] == b"\x15\x02")
        assert written <= 1_002


def test_more_branches_than_the_limit_are_refused_before_any_starts(drive):
    """5.4"""

    async def body() -> Any:
        try:
            await parallel([stepping("x")] * 10_001)
        except LimitError as error:
            return (error.code, error.limit, error.size)

    run = drive(body)
    run.turn()
    assert run.result == ("TN218", 10_000, 10_001)
    assert run.history == {}


# --- race


def test_a_branch_that_fails_drops_out_of_a_race(drive):
    """K082"""

    async def body() -> Any:
        return tuple(await race({"first": fails, "second": stepping("x")}))

    run = drive(body, crash=True)
    run.turn()
    run.turn(run.ok("race/second/x", 2))
    assert run.result == ("second", 2)
    assert run.history["race"].kind.winner == "second"


def test_a_race_that_all_lose_names_each_error(drive):
    """K083"""

    async def body() -> Any:
        await race({"a": fails, "b": stepping("x")})

    run = drive(body)
    run.turn()
    run.turn(run.err("race/b/x", FatalError("no")))
    with pytest.raises(RaceError) as failed:
        run.result
    assert [(name, type(error)) for name, error in failed.value.errors.items()] == [
        ("a", ValueError),
        ("b", StepFailedError),
    ]


def test_a_race_waits_for_a_losers_own_clean_up_and_for_nothing_else(drive):
    """K084"""

    async def loser() -> None:
        try:
            await step("slow", work)
        finally:
            await step("tidy", work)

    async def body() -> Any:
        winner, _ = await race({"loser": loser, "winner": stepping("x")})
        return winner

    run = drive(body)
    run.turn()
    run.turn(run.ok("race/winner/x"))
    assert run.commands_of(CancelStep) == ["race/loser/slow"]
    assert run.released() == ["race/loser/tidy"]
    assert run.outcome is None
    run.turn(run.ok("race/loser/slow", "late"))  # its late result is ignored
    assert run.outcome is None
    run.turn(run.ok("race/loser/tidy"))
    assert run.result == "winner"
    assert set(run.history) == {"race", "race/winner/x", "race/loser/tidy"}


def test_an_operation_of_a_loser_never_delays_a_race(drive):
    """section 7: race waits for slow losers"""

    async def body() -> Any:
        winner, _ = await race({"slow": stepping("x"), "nap": lambda: sleep("1h"), "quick": stepping("y")})
        return winner

    run = drive(body)
    run.turn()
    run.turn(run.ok("race/quick/y"))
    assert run.result == "quick"
    assert run.commands_of(CancelTimer) == ["race/nap/sleep"]


def test_the_entries_of_losers_stay_and_the_winner_is_the_same_on_replay(drive):
    """K085"""

    async def loser() -> None:
        await step("one", work)
        await step("two", work)
        await step("three", work)

    async def body() -> Any:
        winner, _ = await race({"loser": loser, "winner": stepping("x")})
        await step("after", work)
        return winner

    run = drive(body)
    run.turn()
    run.turn(run.ok("race/loser/one"))
    run.turn(run.ok("race/loser/two"))
    run.turn(run.ok("race/winner/x"))
    kept = {"race", "race/loser/one", "race/loser/two", "race/winner/x"}
    assert kept <= set(run.history)
    before = dict(run.kv)
    run.again()
    assert run.released() == ["after"]
    assert run.kv == before
    run.turn(run.ok("after"))
    assert run.result == "winner"


def test_the_order_of_the_results_decides_and_not_the_order_of_the_branches(drive):
    """K086"""

    async def body() -> Any:
        winner, value = await race({"a": stepping("x"), "b": stepping("y")})
        return winner, value

    run = drive(body)
    run.turn()
    run.turn(run.ok("race/b/y", "b"), run.ok("race/a/x", "a"))
    assert run.result == ("b", "b")


def test_a_race_recorded_with_another_winner_parks(drive):
    """3.7"""
    quick_first = False

    async def quick() -> str:
        for _ in range(0 if quick_first else 3):
            await asyncio.sleep(0)
        return "quick"

    async def other() -> str:
        for _ in range(2):
            await asyncio.sleep(0)
        return "other"

    async def body() -> Any:
        await race({"a": quick, "b": other})
        await sleep("1h")

    run = drive(body)
    run.turn()
    assert run.history["race"].kind.winner == "b"
    before = dict(run.kv)
    quick_first = True
    run.again()
    assert isinstance(run.reason, NondeterminismError)
    assert (run.reason.recorded, run.reason.asked) == ("a race won by b", "one won by a")
    assert run.kv == before


def test_a_signal_in_a_lost_branch_stays_queued(drive):
    """section 7: message taken by a dead wait"""

    async def body() -> Any:
        winner, _ = await race({"told": lambda: wait_for_signal("s"), "quick": stepping("x")})
        await step("between", work)
        return winner, await wait_for_signal("s")

    run = drive(body, crash=True)
    run.turn()
    run.turn(run.ok("race/quick/x"))
    run.post(1, "s", "kept")
    run.turn(run.signal(1, "s", "kept"))
    assert run.mail == [1]
    run.turn(run.ok("between"))
    assert run.result == ("quick", "kept")
    assert run.mail == []


def test_tasks_left_in_a_branch_end_with_it(drive):
    """1.8, G6: cancelled in creation order and awaited before the branch has ended"""
    ended = []

    async def background(name: str) -> None:
        try:
            await sleep("1h")
        finally:
            ended.append(name)

    async def branch() -> str:
        tasks = [asyncio.create_task(background(name)) for name in ("t1", "t2")]
        await step("x", work)
        return f"{len(tasks)} left"

    async def body() -> Any:
        values = await join({"a": branch})
        await step("after", work)
        return values, list(ended)

    run = drive(body)
    run.turn()
    run.turn(run.ok("join/a/x"))
    assert ended == ["t1", "t2"]
    assert run.alarm is None
    assert [at for at in run.history if "sleep" in at] == []
    ended.clear()
    run.again()
    assert ended == ["t1", "t2"]
    run.turn(run.ok("after"))
    assert run.result == ({"a": "2 left"}, ["t1", "t2"])
