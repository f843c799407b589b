"""Changed and nondeterministic code: what is inserted, what diverges, what is written (nothing)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from tenuto import (
    Break,
    Continue,
    NoReply,
    deprecate_patch,
    detach,
    join,
    loop,
    parallel,
    patched,
    race,
    receive,
    removed,
    side_effect,
    signal,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import HistoryDivergedError, NondeterminismError
from tenuto.kernel.batch import Batch
from tenuto.kernel.records import Flag, Patch, PatchMark, Removed


def work(*args: Any) -> None: ...


def steps(*names: str) -> Any:
    """A workflow that calls these steps in a row and then waits for a signal."""

    async def body() -> Any:
        values = [await step(name, work) for name in names]
        return [*values, await wait_for_signal("end")]

    return body


def recorded(drive: Any, body: Any, results: Sequence[str], **options: Any) -> Any:
    """A run of that body with these steps recorded."""
    run = drive(body, **options)
    run.turn()
    for name in results:
        run.turn(run.ok(name, name.upper()))
    return run


def parks(run: Any, sort: type[Exception], body: Any = None, **options: Any) -> Any:
    """Reloads with other code: parked, rows unchanged, nothing released. The error."""
    before = dict(run.kv)
    run.again(body, **options)
    assert type(run.reason) is sort, run.reason
    assert run.kv == before
    return run.reason


# --- inserted


def test_an_inserted_step_is_executed_once_and_noted(drive):
    """K097"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(steps("a", "x", "b"), hash="v2")
    assert run.released() == ["x"]
    run.turn(run.ok("x", "X"))
    assert run.history["x"].flags == Flag.INSERTED
    assert run.history["b"].flags == Flag.NONE
    run.again()
    assert run.released() == []
    assert run.outcome is None
    run.turn(run.signal(1, "end", "!"))
    assert run.result == ["A", "X", "B", "!"]


def test_an_inserted_step_survives_a_crash_before_its_result(drive):
    """K097, D4"""
    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.again(steps("a", "x", "b", "c"), hash="v2")
    assert run.released() == ["x"]
    run.turn(run.err("x", ValueError("no")))
    run.again()
    assert (run.released(), run.alarm) == ([], 200)
    run.turn(now=200)
    assert run.released() == ["x"]
    run.turn(run.ok("x", "X", attempt=2))
    assert run.released() == ["c"]
    run.again()
    assert run.released() == ["c"]
    run.turn(run.ok("c", "C"), run.signal(1, "end", 0))
    assert run.result == ["A", "X", "B", "C", 0]


@pytest.mark.parametrize(
    "kind", ["sleep", "wait", "timed wait", "side_effect", "join", "loop", "child", "send", "detach"]
)
def test_operations_of_every_kind_may_be_inserted(drive, kind):
    """K097, D6"""

    async def body() -> Any:
        await step("a", work)
        match kind:
            case "sleep":
                await sleep(1)
            case "wait":
                await wait_for_signal("s")
            case "timed wait":
                with contextlib.suppress(TimeoutError):
                    await wait_for_signal("s", timeout=1)
            case "side_effect":
                await side_effect(lambda: 1)
            case "join":
                await join({"p": lambda: step("x", work), "q": lambda: sleep(1)})
            case "loop":
                await loop("l", None, broken)
            case "child":
                await spawn(child)
            case "send":
                await signal("other", "hello")
            case "detach":
                await detach(child)
        await step("b", work)
        await step("c", work)
        return "end"

    async def broken(_: Any) -> Any:
        await step("x", work)
        return Break()

    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.reload(body, hash="v2")
    run.crash_everywhere = True
    run.turn()
    for now, facts in (
        (0, [run.ok("join/p/x")]),
        (0, [run.ok("l/~0/x")]),
        (0, [run.ok("send:hello", attempt=0), run.ok("child:change-child", attempt=0)]),
        (1_000, []),
        (1_000, [run.signal(5, "s")]),
    ):
        run.turn(*facts, now=now)
    assert list(run.in_flight) == [(("c",), 1)]
    run.turn(run.ok("c"))
    assert run.result == "end"
    assert run.history["b"].flags == Flag.NONE


@workflow(name="change-child")
async def child() -> None: ...


def test_independent_operations_may_change_their_order(drive):
    """K102"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(steps("b", "a", "c"), hash="v2")
    assert run.released() == ["c"]
    run.turn(run.ok("c", "C"), run.signal(1, "end", 0))
    assert run.result == ["B", "A", "C", 0]


def test_the_new_hash_is_stored_with_the_next_batch(drive):
    """K103, D10"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(steps("a", "x", "b"), hash="v2")
    assert run.rows.version == "v1"
    run.turn(run.ok("x"))
    assert run.rows.version == "v2"


def test_a_changed_definition_that_fits_is_strict_from_then_on(drive):
    """D10"""
    run = recorded(drive, steps("a", "b"), ["a"])
    run.again(steps("a", "b", "c"), hash="v2")
    run.turn(run.ok("b", "B"))
    assert run.rows.version == "v2"
    parks(run, NondeterminismError, steps("a", "z", "c"))


def test_a_withdrawn_inserted_operation_keeps_its_place(drive):
    """3.2: an inserted one always keeps a CANCELLED entry"""

    async def changed() -> Any:
        await step("a", work)
        await race({"x": lambda: step("x", work), "n": lambda: sleep(1)})
        await step("b", work)
        await step("c", work)

    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.again(changed, hash="v2")
    run.turn(run.ok("race/x/x"))
    assert run.history["race/n/sleep"].flags == Flag.INSERTED | Flag.CANCELLED
    assert run.released() == ["c"]
    run.again()
    assert run.released() == ["c"]
    run.turn(run.ok("c"))
    assert run.result is None


# --- gone, renamed, another kind


def test_a_step_that_is_gone_diverges_and_the_error_names_the_way_out(drive):
    """K098, P6"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])

    async def shorter() -> Any:
        await step("a", work)
        return "done"

    error = parks(run, HistoryDivergedError, shorter, hash="v2")
    assert (error.location, error.recorded, error.code) == ("b", "a step", "TN104")
    assert 'removed("b", "step")' in str(error)
    run.again(steps("a", "b"), hash="v1")  # deployed back: goes on
    run.turn(run.signal(1, "end", 0))
    assert run.result == ["A", "B", 0]


def test_a_step_that_is_gone_while_the_run_waits_elsewhere_diverges_too(drive):
    """K098: with the names known, before anything is released"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    error = parks(run, HistoryDivergedError, steps("a", "c"), hash="v2", names=frozenset({"a", "c", "signal:end"}))
    assert error.location == "b"


def test_a_renamed_step_is_not_run_again(drive):
    """section 7: renamed step runs twice"""
    run = recorded(drive, steps("charge", "ship"), ["charge"])
    error = parks(
        run,
        HistoryDivergedError,
        steps("charge_card", "ship"),
        hash="v2",
        names=frozenset({"charge_card", "ship", "signal:end"}),
    )
    assert error.location == "charge"
    assert "put it back under its old name" in str(error)


def test_a_rename_without_known_names_is_seen_when_its_scope_ends(drive):
    """4, last paragraph"""

    async def old() -> Any:
        await step("a", work)
        await step("b", work)

    async def new() -> Any:
        await step("z", work)

    run = recorded(drive, old, ["a"])
    run.again(new, hash="v2")
    assert run.released() == ["z"]
    before = dict(run.kv)
    run.turn(run.ok("z"))
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.kv.items() > before.items()  # nothing but what the new step gave, so that it is not run again (D6)
    assert [at for at, entry in run.history.items() if entry.flags & Flag.INSERTED] == ["z"]


def test_an_operation_of_another_kind_diverges(drive):
    """K099, D7"""

    async def old() -> Any:
        await step("sleep", work)
        await step("b", work)

    async def new() -> Any:
        await sleep(1)
        await step("b", work)

    run = recorded(drive, old, ["sleep"])
    error = parks(run, HistoryDivergedError, new, hash="v2")
    assert (error.location, error.recorded, error.asked) == ("sleep", "a step", "a sleep")


async def _loop(name: str) -> None:
    await loop(name, 0, _twice, commit_interval=1)


async def _twice(n: int) -> Any:
    return Break() if n else Continue(1)


MODES = {
    "join": lambda: join({"x": lambda: step("s", work)}, name="n"),
    "parallel": lambda: parallel([lambda: step("s", work)], name="n"),
    "race": lambda: race({"x": lambda: step("s", work)}, name="n"),
    "loop": lambda: _loop("n"),
    "receive": lambda: receive(0, signals={"m": lambda t: NoReply(t + 1)}, timeout=5, checkpoint_every=1, name="n"),
    "spawn": lambda: spawn(child, name="n"),
    "detach": lambda: detach(child, name="n"),
    "send": lambda: signal("other", "hello", name="n"),
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("join", "parallel"),
        ("parallel", "join"),
        ("join", "race"),
        ("loop", "receive"),
        ("receive", "loop"),
        ("spawn", "detach"),
        ("detach", "send"),
        ("send", "spawn"),
    ],
)
@pytest.mark.parametrize("changed", [True, False])
def test_another_mode_of_the_same_kind_diverges(drive, old, new, changed):
    """D7"""
    which = old

    async def body() -> Any:
        await MODES[which]()
        await wait_for_signal("end")

    run = drive(body)
    run.turn()
    run.turn(run.signal(1, "m"), run.ok("n/x/s"), run.ok("n/[0]/s"))
    assert "n" in run.history
    which = new
    sort = HistoryDivergedError if changed else NondeterminismError
    error = parks(run, sort, hash="v2" if changed else "v1")
    assert error.location == "n"


# --- nondeterminism


def test_another_step_asked_by_unchanged_code_is_nondeterminism(drive):
    """K100"""
    run = recorded(drive, steps("a", "b"), ["a"])
    error = parks(run, NondeterminismError, steps("z", "b"))
    assert (error.location, error.recorded, error.code) == ("a", "a step", "TN105")
    assert '"z"' in error.asked


def test_unchanged_code_that_returns_early_is_nondeterminism(drive):
    """K101, section 7: silent divergence at the root"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])

    async def early() -> Any:
        await step("a", work)
        return "early"

    error = parks(run, NondeterminismError, early)
    assert error.location == "b"


def test_an_unsettled_entry_that_is_not_asked_for_diverges(drive):
    """D6, D8"""

    async def old() -> Any:
        await step("a", work)
        await sleep("1h")

    async def new() -> Any:
        await step("a", work)
        await wait_for_signal("s")

    for hash_, sort in (("v1", NondeterminismError), ("v2", HistoryDivergedError)):
        run = recorded(drive, old, ["a"])
        parks(run, sort, new, hash=hash_, names=frozenset({"a", "signal:s"}))


def test_a_branch_that_is_gone_diverges_and_an_added_one_runs(drive):
    """section 7: added branch ignored"""
    names = ["x", "y"]

    async def body() -> Any:
        return await join({name: lambda name=name: _two(name) for name in names})

    async def _two(name: str) -> Any:
        return [await step(f"{name}1", work), await step(f"{name}2", work)]

    run = recorded(drive, body, ["join/x/x1", "join/y/y1"])
    names = ["x"]
    parks(run, HistoryDivergedError, hash="v2", names=frozenset({"join", "x", "x1", "x2"}))
    names = ["x", "y", "z"]
    run.again(hash="v2")
    assert sorted(run.released()) == ["join/x/x2", "join/y/y2", "join/z/z1"]


def test_a_branch_that_ends_early_diverges(drive):
    """D8: every scope is looked at when it ends"""

    async def body() -> Any:
        await join({"x": branch})
        await wait_for_signal("end")

    short = False

    async def branch() -> Any:
        await step("s1", work)
        if not short:
            await step("s2", work)

    run = recorded(drive, body, ["join/x/s1", "join/x/s2"])
    short = True
    error = parks(run, NondeterminismError)
    assert (error.location, error.asked) == ("join/x/s2", "the end of join/x")


def test_a_side_effect_is_not_called_by_replay_that_has_no_record_of_it(drive):
    """K108, D5"""
    called = []

    async def body() -> Any:
        if called_for:
            await side_effect(lambda: called.append(1))
        await step("a", work)
        await step("b", work)

    called_for = False
    run = recorded(drive, body, ["a"])
    called_for = True
    parks(run, NondeterminismError)
    assert called == []


def test_a_parked_run_resumes_with_the_facts_that_came_meanwhile(drive):
    """4: the facts stay with the host; the run resumes after a deploy"""
    run = recorded(drive, steps("a", "b"), ["a"])
    parks(run, NondeterminismError, steps("z"))
    run.reload(steps("a", "b"))
    run.turn(run.ok("b", "B"), run.signal(1, "end", 0))
    assert run.result == ["A", "B", 0]


# --- removed


def test_a_removed_step_is_skipped_on_old_runs_and_noted_on_new_ones(drive):
    """K104"""

    async def body() -> Any:
        await step("a", work)
        removed("b", "step")
        return await step("c", work)

    old = recorded(drive, steps("a", "b"), ["a", "b"])
    before = old.history["b"]
    old.again(body, hash="v2")
    assert old.released() == ["c"]
    assert old.history["b"] == before
    old.turn(old.ok("c", 1))
    assert old.result == 1

    new = drive(body)
    new.turn()
    new.turn(new.ok("a"))
    new.turn(new.ok("c"))
    assert new.history["b"].kind == Removed("step")


def test_a_removed_construct_takes_everything_below_it_along(drive):
    """3.9"""

    async def old() -> Any:
        await join({"x": lambda: step("s", work), "y": lambda: step("s", work)}, name="both")
        await wait_for_signal("end")

    async def new() -> Any:
        removed("both", "join")
        await step("c", work)

    run = recorded(drive, old, ["both/x/s", "both/y/s"])
    run.again(new, hash="v2")
    assert run.released() == ["c"]
    run.turn(run.ok("c"))
    assert run.result is None


def test_removed_with_another_kind_diverges(drive):
    """3.9, D7"""

    async def new() -> Any:
        await step("a", work)
        removed("b", "sleep")

    run = recorded(drive, steps("a", "b"), ["a", "b"])
    error = parks(run, HistoryDivergedError, new, hash="v2")
    assert error.location == "b"


def test_an_operation_asked_where_a_removed_one_lies_replaces_it(drive):
    """3.9"""

    async def without() -> Any:
        removed("b", "step")
        await step("c", work)
        await wait_for_signal("end")

    run = recorded(drive, without, ["c"])
    assert run.history["b"].kind == Removed("step")
    run.again(steps("b", "c"), hash="v2")
    assert run.released() == ["b"]
    run.turn(run.ok("b", 1))
    run.turn(run.signal(1, "end", 0))
    assert run.result == [1, "C", 0]


# --- patches


def test_a_new_run_takes_the_patch_every_time_and_records_it_once(drive):
    """K105"""
    seen: list[bool] = []

    async def body() -> Any:
        seen.extend(patched("p") for _ in range(10))
        await step("a", work)
        seen.append(patched("p"))
        await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert seen == [True] * 11
    run.again()
    assert seen == [True] * 22
    assert [at for at in run.history if at.startswith("?")] == ["?p"]
    assert run.history["?p"].kind == Patch(PatchMark.TAKEN)
    run.turn(run.ok("b"))
    assert run.result is None


def test_a_run_that_was_past_the_patch_refuses_it_for_ever(drive):
    """K106"""
    seen: list[bool] = []

    async def new() -> Any:
        seen.append(patched("p"))
        await step("a", work)
        await step("b", work)
        seen.append(patched("p"))
        await step("c", work)
        seen.append(patched("p"))

    run = recorded(drive, steps("a", "b"), ["a"])
    run.again(new, hash="v2")
    assert seen == [False]
    run.turn(run.ok("b"))
    assert run.history["?p"].kind == Patch(PatchMark.REFUSED)
    run.again()
    run.turn(run.ok("c"))
    assert seen == [False, False, False, False, False]
    assert run.result is None


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        ("patched", "deprecated", True),
        ("none", "deprecated", True),
        ("patched", "none", False),
        ("deprecated", "none", True),
    ],
)
def test_deprecating_and_dropping_patches(drive, before, after, passes):
    """K107"""

    def body(call: str) -> Any:
        async def run() -> Any:
            if call == "patched":
                assert patched("p")
            elif call == "deprecated":
                deprecate_patch("p")
            await step("a", work)
            await step("b", work)

        return run

    run = recorded(drive, body(before), ["a"])
    if passes:
        run.again(body(after), hash="v2")
        assert run.released() == ["b"]
        run.turn(run.ok("b"))
        assert run.result is None
    else:
        error = parks(run, HistoryDivergedError, body(after), hash="v2", names=frozenset({"a", "b"}))
        assert error.location == "?p"
        assert 'patched("p")' in str(error)


def test_a_deprecated_patch_is_recorded_on_new_runs(drive):
    """3.9"""

    async def body() -> Any:
        deprecate_patch("p")
        await step("a", work)

    run = recorded(drive, body, ["a"])
    assert run.history["?p"].kind == Patch(PatchMark.DEPRECATED)


# --- side effects


def test_a_side_effect_is_called_once_and_its_value_recorded(drive):
    """3.10"""
    called = []

    async def body() -> Any:
        value = await side_effect(lambda: called.append(1) or (1, {2}))
        await step("a", work)
        return value

    run = drive(body)
    turn = run.turn()
    assert run.written == ["side_effect"]
    assert turn.batch != Batch()
    run.again()
    run.turn(run.ok("a"))
    assert run.result == (1, {2})
    assert called == [1]


def test_a_side_effect_that_raises_raises_the_same_on_replay(drive):
    """3.10"""
    from tenuto.errors import SideEffectError

    caught: list[BaseException] = []

    async def body() -> Any:
        try:
            await side_effect(lambda: 1 / 0)
        except SideEffectError as error:
            caught.append(error)
        await step("a", work)

    run = drive(body)
    run.turn()
    run.again()
    assert [repr(error.__cause__) for error in caught] == ["ZeroDivisionError('division by zero')"] * 2
    run.turn(run.ok("a"))


def test_a_side_effect_of_a_turn_that_was_not_committed_is_called_again(drive):
    """3.2"""
    called = []

    async def body() -> Any:
        await side_effect(lambda: called.append(1))
        await sleep(1)

    run = drive(body)
    run.peek()
    run.again()
    assert called == [1, 1]


def test_tasks_made_in_another_order_are_not_mixed_up(drive):
    """2: counted segments shift when an equal one is inserted before them; unchanged code never shifts"""

    async def body() -> Any:
        return await asyncio.gather(*(step(f"s{n}", work) for n in range(3)))

    run = drive(body, crash=True)
    run.turn()
    run.turn(run.ok("@2/s2", 2))
    run.turn(run.ok("@0/s0", 0))
    run.turn(run.ok("@1/s1", 1))
    assert run.result == [0, 1, 2]


def test_a_patch_decided_in_an_iteration_that_does_not_run_again_need_not_be_asked_for(drive):
    """3.9, 3.6: the decision is at the root, the call was in the body"""

    async def one(n: int) -> Any:
        assert patched("p")
        await step("s", work)
        return Break(n) if n == 3 else Continue(n + 1)

    async def body() -> Any:
        value = await loop("l", 0, one, commit_interval=2)
        await step("after", work)
        return value

    run = drive(body, crash=True)
    run.turn()
    for n in range(4):
        run.turn(run.ok(f"l/~{n}/s"))
    run.turn(run.ok("after"))
    assert run.result == 3


def test_an_inserted_receive_is_replayed_by_unchanged_code(drive):
    """D4: an update's row does not say that its dispatch was inserted"""
    from tenuto import Reply, Stop

    async def changed() -> Any:
        await step("a", work)
        total, _ = await receive(0, updates={"add": lambda t, n: Reply(t + n, t + n)}, signals={"stop": Stop})
        await step("b", work)
        await step("c", work)
        return total

    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.reload(changed, hash="v2")
    run.crash_everywhere = True
    run.turn()
    run.turn(run.update(1, "u1", "add", 2))
    run.turn(run.update(2, "u2", "add", 3))
    run.turn(run.signal(3, "stop"))
    assert run.rows.version == "v2"
    run.again()
    assert run.released() == ["c"]
    run.turn(run.ok("c"))
    assert run.result == 5


def test_a_run_can_be_cancelled_while_an_inserted_step_runs(drive):
    """D8: a scope ended by withdrawal drops what is left over below it; effects are undone from history"""

    def body(*names: str) -> Any:
        async def run() -> Any:
            for name in names:
                await step(name, work, rollback=undo)
            await wait_for_signal("end")

        return run

    for crash in (False, True):
        run = recorded(drive, body("a", "b"), ["a", "b"])
        run.handlers[f"{undo.__module__}:{undo.__qualname__}"] = undo
        run.again(body("a", "x", "b"), hash="v2")
        assert run.released() == ["x"]
        run.crash_everywhere = crash
        run.turn(run.cancel())
        undone = []
        while run.outcome is None:
            [(location, _)] = run.in_flight
            undone.append(location)
            run.in_flight.clear()
            run.turn(run.ok(location[0]))
        assert undone == [("b",), ("a",)]
        assert run.rows.state == "cancelled"


def undo(result: Any) -> None: ...


def test_what_arrives_while_an_inserted_step_runs_is_not_lost(drive):
    """P3, P8: results of tasks and children, and messages in time, for operations the code has yet to reach again"""

    @workflow(name="change-parent")
    async def other() -> None: ...

    async def everything() -> Any:
        return await join(
            {
                "task": queued,
                "child": _ended_child,
                "wait": lambda: wait_for_signal("s", timeout="1h"),
                "nap": lambda: sleep(1),
            }
        )

    async def _ended_child() -> Any:
        return await (await spawn(other))

    async def changed() -> Any:
        await step("inserted", work)
        return await everything()

    for crash in (False, True):
        run = drive(everything)
        run.turn()
        run.reload(changed, hash="v2")
        run.crash_everywhere = crash
        run.turn()
        assert list(run.in_flight) == [(("inserted",), 1)]
        run.post(1, "s", "in time", at=10)
        facts = [
            run.signal(1, "s", "in time", at=10),
            run.post_result(2, "join/task/change-task", "task's", at=10),
            run.post_result(3, "join/child/child:change-parent", "child's", at=10),
        ]
        run.turn(*facts, now=10)
        assert run.mail == [1, 2, 3]
        run.turn(run.ok("inserted"), now=20)
        assert run.mail == []
        run.turn(now=1_000)
        assert run.result == {"task": "task's", "child": "child's", "wait": "in time", "nap": None}


@step(queue="elsewhere", name="change-task")
async def queued() -> None: ...


@pytest.mark.parametrize("kind", ["step", "sleep", "wait", "timed wait", "child"])
def test_an_insertion_that_lost_a_recorded_race_keeps_its_place(drive, kind):
    """3.2, D4, D8: withdrawn by replay before it could begin; unchanged code replays it afterwards"""

    async def inserted() -> None:
        match kind:
            case "step":
                await step("x", work)
            case "sleep":
                await sleep("1h", name="x")
            case "wait":
                await wait_for_signal("x")
            case "timed wait":
                await wait_for_signal("x", timeout="1h")
            case "child":
                await spawn(child)

    def body(*, changed: bool) -> Any:
        async def loser() -> None:
            if changed:
                await inserted()
            await step("b", work)
            await sleep("2h")

        async def run() -> Any:
            winner, _ = await race({"loser": loser, "winner": lambda: step("w", work)})
            await step("c", work)
            return winner

        return run

    run = recorded(drive, body(changed=False), ["race/loser/b", "race/winner/w"])
    run.again(body(changed=True), hash="v2")
    assert run.released() == ["c"]
    [flags] = [entry.flags for at, entry in run.history.items() if at.startswith("race/loser/") and at[-1] != "b"]
    assert flags == Flag.INSERTED | Flag.CANCELLED
    assert run.rows.version == "v2"
    run.again()
    assert run.released() == ["c"]
    run.turn(run.ok("c"))
    assert run.result == "winner"
