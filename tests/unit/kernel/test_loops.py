"""Long loops: commits, trims, resumption."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import Break, Continue, Task, join, loop, race, sleep, step, wait_for_signal
from tenuto.kernel.commands import CancelTask
from tenuto.kernel.records import Loop


def work(*args: Any) -> None: ...


@step(name="loops-left", queue="elsewhere")
async def left() -> None: ...


ECHO = {"s": lambda attempt: attempt}


def iterations(run: Any, name: str = "l") -> list[int]:
    """Which iterations have entries, in order."""
    found = {at.split("/")[1] for at in run.history if at.startswith(f"{name}/~")}
    return sorted(int(word[1:]) for word in found)


def counting(upto: int, **settings: Any) -> Any:
    """A loop with one step per iteration that breaks in iteration `upto` (from 0)."""

    async def one(n: int) -> Any:
        await step("s", work)
        return Break(n) if n == upto else Continue(n + 1)

    async def body() -> Any:
        return await loop("l", 0, one, **settings)

    return body


def run_to(run: Any, finished: int) -> None:
    """Runs the steps of that many iterations."""
    run.turn()
    for n in range(finished):
        run.turn(run.ok(f"l/~{n}/s"))


def test_a_commit_trims_what_the_settings_do_not_keep(drive):
    """K067"""
    run = drive(counting(99, commit_interval=10, history_every=10, history_keep=10))
    run_to(run, 9)
    assert run.history.get("l") is None or run.history["l"].seq == 0
    run.turn(run.ok("l/~9/s"))
    assert run.history["l"].kind.iteration == 10
    assert iterations(run) == list(range(10))
    assert run.last.batch.trims == ()
    for n in range(10, 20):
        run.turn(run.ok(f"l/~{n}/s"))
    assert run.history["l"].kind.iteration == 20
    assert len(run.last.batch.trims) == 1
    assert iterations(run) == list(range(10, 20))
    assert run.history["l"].kind.trimmed == 10


def test_a_break_commits_and_trims(drive):
    """K068"""
    run = drive(counting(4, commit_interval=2, history_every=2, history_keep=2))
    assert run.perform(ECHO) == 4
    assert iterations(run) == [3, 4]
    assert run.history["l"].kind.iteration == 5


def test_a_break_before_the_first_commit_keeps_everything(drive):
    """K069"""
    run = drive(counting(2, commit_interval=10))
    assert run.perform(ECHO) == 2
    assert iterations(run) == [0, 1, 2]


def test_a_reloaded_loop_resumes_at_its_last_commit(drive):
    """K070"""
    bodies: list[int] = []

    async def one(n: int) -> Any:
        bodies.append(n)
        if n == 27:
            return Break(await wait_for_signal("go"))
        await step("s", work)
        return Continue(n + 1)

    async def body() -> Any:
        return await loop("l", 0, one, commit_interval=20)

    run = drive(body)
    for _ in run.steps(ECHO):
        pass
    assert bodies == list(range(28))
    bodies.clear()
    before = dict(run.kv)
    run.again()
    assert bodies == list(range(20, 28))
    assert run.released() == []
    assert run.kv == before
    run.turn(run.signal(1, "go", "end"))
    assert run.result == "end"


@pytest.mark.parametrize("setting", ["commit_interval", "history_every", "history_keep"])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_settings_are_whole_numbers_of_at_least_one(drive, setting, wrong):
    """K071"""

    async def body() -> Any:
        try:
            await loop("l", 0, lambda state: None, **{setting: wrong})
        except ValueError as error:
            return str(error)

    run = drive(body)
    run.turn()
    assert setting in run.result
    assert run.history == {}


def test_a_body_that_returns_nothing_goes_on_only_without_a_state(drive):
    """K072"""

    async def nothing(state: Any) -> Any:
        bodies.append(state)
        return Break("enough") if len(bodies) == 3 else None

    async def without() -> Any:
        return await loop("l", None, nothing)

    async def with_state() -> Any:
        return await loop("count", 0, nothing)

    bodies: list[Any] = []
    run = drive(without)
    run.turn()
    assert run.result == "enough"
    bodies.clear()
    run = drive(with_state)
    run.turn()
    with pytest.raises(TypeError, match="count"):
        run.result


def test_a_broken_loop_gives_its_value_without_its_body(drive):
    """K073"""
    bodies: list[Any] = []

    async def one(state: Any) -> Any:
        bodies.append(state)
        await step("s", work)
        return Break()

    async def body() -> Any:
        value = await loop("l", 0, one)
        await step("after", work)
        return value

    run = drive(body)
    run.turn()
    run.turn(run.ok("l/~0/s"))
    assert bodies == [0]
    run.again()
    assert run.released() == ["after"]
    assert bodies == [0]
    run.turn(run.ok("after"))
    assert run.result is None


def test_trims_come_at_commits_that_pass_a_multiple_of_history_every(drive):
    """K074"""
    run = drive(counting(99, commit_interval=10, history_every=15, history_keep=5))
    run.turn()
    trims = {}
    for n in range(50):
        run.turn(run.ok(f"l/~{n}/s"))
        if run.last.batch.trims:
            trims[n + 1] = [(trim.first, trim.last) for trim in run.last.batch.trims]
    assert trims == {20: [(0, 15)], 30: [(15, 25)], 50: [(25, 45)]}
    assert iterations(run) == [45, 46, 47, 48, 49]


@pytest.mark.parametrize("construct", ["loop", "join", "race"])
@pytest.mark.parametrize("around", ["iteration", "branch"])
def test_a_finished_construct_inside_another_does_not_diverge(drive, construct, around):
    """K075"""

    async def inner(_: Any) -> Any:
        await step("s", work)
        return Break()

    async def finished() -> None:
        if construct == "loop":
            await loop("inner", None, inner)
        elif construct == "join":
            await join({"a": lambda: step("s", work), "b": lambda: step("s", work)})
        else:
            await race({"a": lambda: step("s", work), "b": lambda: sleep("1h")})
        await sleep(1)

    async def iteration(n: int) -> Any:
        await finished()
        return Break() if n == 2 else Continue(n + 1)

    async def body() -> Any:
        if around == "iteration":
            await loop("outer", 0, iteration, commit_interval=2)
        else:
            await join({"x": finished, "y": finished})
        return "end"

    run = drive(body, crash=True)
    assert run.perform(ECHO) == "end"


def test_loops_in_branches_resume_in_the_order_they_ran(drive):
    """K076"""

    def looping(log: list[Any], name: str) -> Any:
        async def one(n: int) -> Any:
            log.append(f"{name}{n}")
            await step(f"s{name}", work)
            return Break() if n == 5 else Continue(n + 1)

        return lambda: loop("l", 0, one, commit_interval=2)

    async def body() -> Any:
        log: list[Any] = []
        seen: list[Any] = []

        async def third() -> None:
            for n in range(6):
                await step("t", work)
                seen.append(n)

        await join({"a": looping(log, "a"), "b": looping(log, "b"), "c": third})
        return seen

    plain, crashed = drive(body), drive(body, crash=True)
    effects = {"sa": lambda _: 1, "sb": lambda _: 2, "t": lambda _: 3}
    assert plain.perform(effects) == crashed.perform(effects)
    assert plain.history_without_began == crashed.history_without_began


def test_two_loops_of_one_name_do_not_trim_each_other(drive):
    """K077"""

    async def one(n: int) -> Any:
        await step("s", work)
        return Break() if n == 9 else Continue(n + 1)

    async def body() -> Any:
        first = loop("l", 0, one, commit_interval=2)
        second = loop("l", 0, one, commit_interval=20)
        await join({"x": lambda: first, "y": lambda: second})

    run = drive(body)
    run.perform(ECHO)
    assert {at.split("/")[3] for at in run.history if at.startswith("join/x/l/")} == {"~8", "~9"}
    assert len({at.split("/")[3] for at in run.history if at.startswith("join/y/l/")}) == 10

    async def in_one_scope() -> Any:
        await loop("l", 0, one, commit_interval=20)
        await loop("l", 0, one, commit_interval=2)
        await sleep("1h")

    run = drive(in_one_scope)
    for _ in run.steps(ECHO):
        if run.alarm is not None:
            break
    first = [at for at in run.history if at.startswith("l/~")]
    second = [at for at in run.history if at.startswith("l#2/~") or at.startswith("l#2/l~")]
    assert (len(first), len(second)) == (10, 2)
    run.again()
    assert run.outcome is None
    assert run.released() == []


def test_a_commit_is_a_fact_of_its_own_and_the_next_iteration_starts_by_it(drive):
    """3.6, T2: stores count and state, takes a seq; the next body runs after it"""
    run = drive(counting(9, commit_interval=2))
    run_to(run, 2)
    entry = run.history["l"]
    assert isinstance(entry.kind, Loop)
    assert (entry.kind.iteration, entry.kind.since, entry.seq) == (2, 0, 3)
    assert run.released() == ["l/~2/s"]


def test_the_state_of_a_loop_reaches_its_body_as_it_will_on_replay(drive):
    """3.1: `load(dump(state))` at a commit"""
    seen = []

    async def one(state: Any) -> Any:
        seen.append(state)
        if len(state) == 2:
            return Break()
        kept = [*state, (len(state), {1})]
        held.append(kept)
        return Continue(kept)

    held: list[Any] = []

    async def body() -> Any:
        await loop("l", [], one, commit_interval=1)

    run = drive(body)
    run.turn()
    assert seen == [[], [(0, {1})], [(0, {1}), (1, {1})]]
    assert seen[1] is not held[0]


def test_a_loop_without_commits_in_between_writes_nothing_of_its_own(drive):
    """3.6: other boundaries continue in the same drain with nothing written"""
    run = drive(counting(5, commit_interval=20))
    run.turn()
    for n in range(3):
        run.turn(run.ok(f"l/~{n}/s"))
        assert [at for at in run.written if at != "l"] == [f"l/~{n}/s"]
        assert run.released() == [f"l/~{n + 1}/s"]


def test_the_initial_state_is_encoded_at_the_call(drive):
    """3.6"""
    from tenuto.errors import EncodingError

    async def body() -> Any:
        try:
            await loop("l", object(), lambda state: None)
        except EncodingError as error:
            return error.code

    run = drive(body)
    run.turn()
    assert run.result == "TN129"
    assert run.history == {}


def test_a_handle_left_in_an_iteration_that_never_runs_again_is_waited_for_by_nobody(drive):
    """3.6: a task or child still open there goes on; its end is ignored, before and after a reload"""

    async def one(n: int) -> Any:
        Task.run(left)
        Task.delay("1h")
        await step("s", work)
        return Break(n) if n == 3 else Continue(n + 1)

    async def body() -> Any:
        return await loop("l", 0, one, commit_interval=1, history_keep=9)

    for reload in (False, True):
        run = drive(body)
        run.turn()
        run.turn(run.ok("l/~0/s"))
        assert run.commands_of(CancelTask) == []
        if reload:
            run.again()
        before = dict(run.kv)
        run.turn(run.ok("l/~0/loops-left", "late", attempt=0))
        assert run.kv == before
        assert run.alarm == 3_600_000  # of iteration 1
        run.turn(now=3_700_000)
        assert run.alarm is None
        assert run.history["l/~0/timer"].seq == 0
