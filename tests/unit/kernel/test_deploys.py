"""Deploys that change what a run under way comes to: inserted results, order, exceptions, what is taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tenuto import Task, join, parallel, patched, race, removed, sleep, step, wait_for_signal
from tenuto.errors import HistoryDivergedError, NondeterminismError, StepFailedError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Flag

Body = Callable[[], Coroutine[Any, Any, Any]]


def work(*args: Any) -> None: ...


def undo(result: Any) -> None: ...


@step(queue="elsewhere", name="deploys-task")
async def queued() -> None: ...


def steps(*names: str, waits: int = 1) -> Body:
    """A workflow that calls these steps in a row, and then waits for that many signals."""

    async def body() -> Any:
        values = [await step(name, work) for name in names]
        return [*values, *[await wait_for_signal("go") for _ in range(waits)]]

    return body


def ends(*names: str) -> Body:
    """A workflow that calls these steps in a row, and returns."""
    return steps(*names, waits=0)


def recorded(drive: Any, body: Body, results: Sequence[str], **options: Any) -> Any:
    run = drive(body, **options)
    run.turn()
    for name in results:
        run.turn(run.ok(name, name.upper()))
    return run


# --- the result of an inserted step


def test_an_inserted_step_of_a_run_that_parks_behind_it_is_performed_once(drive):
    """K133, D6, P2"""

    async def shorter() -> None:
        await step("x", work)
        await step("a", work)

    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(shorter, hash="v2")
    assert run.released() == ["x"]
    first = run.turn(run.ok("x", "X"))
    assert first is run.last  # the turn behind that of the result
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.history["x"].flags == Flag.INSERTED
    for _ in range(3):
        run.again()
        assert isinstance(run.reason, HistoryDivergedError)
        assert run.reason.location == "b"
    run.again(steps("x", "a", "b"), hash="v3")
    run.turn(run.signal(1, "go", "!"))
    assert run.result == ["X", "A", "B", "!"]


def test_the_turn_of_an_inserted_result_applies_nothing_else_and_the_next_one_is_taken_at_once(drive):
    """D6: a batch of its own; what came with it is not lost"""
    run = recorded(drive, steps("a", "b", waits=2), ["a", "b"])
    run.again(steps("x", "a", "b", waits=2), hash="v2")
    turn = run.peek(run.signal(1, "go", 1), run.ok("x", "X"), run.signal(2, "go", 2))
    run.commit(turn)
    assert turn.goes_on
    assert run.written == ["x"]
    assert turn.commands == ()
    assert run.rows.state == "running"
    assert run.rows.version == "v1"
    turn = run.peek()
    run.commit(turn)
    assert not turn.goes_on
    assert run.result == ["X", "A", "B", 1, 2]


def test_inserted_results_that_come_together_are_all_recorded_before_any_reaches_the_code(drive):
    """K133 with two of them: the branch that ends first parks the run"""

    def body(*, changed: bool) -> Body:
        async def branch(name: str) -> None:
            if changed:
                await step(f"new {name}", work)
            else:
                await step(name, work)

        async def run() -> None:
            await join({name: lambda name=name: branch(name) for name in ("p", "q")})
            await wait_for_signal("go")

        return run

    run = recorded(drive, body(changed=False), ["join/p/p", "join/q/q"])
    run.again(body(changed=True), hash="v2")
    assert run.released() == ["join/p/new p", "join/q/new q"]
    run.turn(run.ok("join/q/new q"), run.ok("join/p/new p"))
    assert isinstance(run.reason, HistoryDivergedError)
    assert [at for at, entry in run.history.items() if entry.flags & Flag.INSERTED] == ["join/p/new p", "join/q/new q"]
    run.again()
    assert isinstance(run.reason, HistoryDivergedError)


@pytest.mark.parametrize("ephemeral", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_every_outcome_of_an_inserted_step_is_recorded_before_the_code_gets_it(drive, fails, ephemeral):
    """K133 for a step that fails for good, and for one whose result is not stored otherwise"""

    async def shorter() -> None:
        try:
            await step("x", work, max_attempts=2, ephemeral=ephemeral)
        except StepFailedError:
            return

    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(shorter, hash="v2")
    if fails:
        run.turn(run.err("x", ValueError("no")))
        run.turn(now=1_000)
        run.turn(run.err("x", ValueError("no"), attempt=2))
    else:
        run.turn(run.ok("x"))
    assert isinstance(run.reason, HistoryDivergedError)
    for _ in range(2):
        run.again()  # the driver refuses to release it again
        assert isinstance(run.reason, HistoryDivergedError)


def test_a_failed_attempt_of_an_inserted_step_counts_though_the_run_parks(drive):
    """P2: a further execution only after a recorded failure"""

    def body(*, changed: bool) -> Body:
        async def short() -> None:
            await step("new" if changed else "p", work)

        async def run() -> None:
            await parallel([short, lambda: step("x" if changed else "q", work)])
            await wait_for_signal("go")

        return run

    run = recorded(drive, body(changed=False), ["parallel/[0]/p", "parallel/[1]/q"])
    run.again(body(changed=True), hash="v2")
    run.turn(run.ok("parallel/[0]/new"), run.err("parallel/[1]/x", ValueError("no")))
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.metadata["parallel/[1]/x"].attempts == 1


def test_an_inserted_task_is_enqueued_and_its_result_taken_once(drive):
    """D6 for a step with a queue: its mail goes in the batch that records it"""

    async def shorter() -> None:
        await queued()

    run = recorded(drive, steps("a"), ["a"])
    run.again(shorter, hash="v2")
    assert run.commands_of(EnqueueTask) == ["deploys-task"]
    run.turn(run.post_result(7, "deploys-task", 1))
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.mail == []
    run.again()
    assert isinstance(run.reason, HistoryDivergedError)


def test_an_inserted_result_that_another_one_makes_useless_is_dropped_in_every_replay(drive):
    """D6, D4: recorded though the code had withdrawn the step by the time it could be handed over"""

    async def changed() -> Any:
        fast, slow = asyncio.ensure_future(step("x", work)), asyncio.ensure_future(step("y", work))
        done, _ = await asyncio.wait({fast, slow}, return_when=asyncio.FIRST_COMPLETED)
        slow.cancel()
        await asyncio.gather(fast, slow, return_exceptions=True)
        return [len(done), await step("a", work), await step("b", work), await step("c", work)]

    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.again(changed, hash="v2")
    run.turn(run.ok("@0/x", "X"), run.ok("@1/y", "Y"))
    assert run.released() == ["c"]
    for _ in range(2):
        run.again()
        assert run.released() == ["c"]
    run.turn(run.ok("c", "C"))
    assert run.result == [1, "A", "B", "C"]


def test_a_task_whose_inserted_result_is_not_wanted_any_more_does_not_stop_later_replays(drive):
    """D6, D4: the same where no scope ends with it"""

    async def changed() -> Any:
        await Task.race([Task.run(queued), Task.run(queued)], cancel_losers=True)
        return await steps("a", "b", "c")()

    run = recorded(drive, steps("a", "b", "c"), ["a", "b"])
    run.again(changed, hash="v2")
    assert run.commands_of(EnqueueTask) == ["deploys-task", "deploys-task#2"]
    run.turn(run.post_result(1, "deploys-task", "X"), run.post_result(2, "deploys-task#2", "Y"))
    assert run.released() == ["c"]
    run.again()
    assert run.released() == ["c"]
    run.turn(run.ok("c", "C"))
    assert run.rows.version == "v2"
    run.again()
    run.turn(run.signal(3, "go", 0))
    assert run.result == ["A", "B", "C", 0]


def test_an_inserted_step_can_be_cancelled_with_its_result_at_hand(drive):
    """D6, 1.5: the cancel came in the same turn; the step's effect is undone, for it has happened"""

    def body(*names: str) -> Body:
        async def run() -> None:
            for name in names:
                await step(name, work, rollback=undo)
            await wait_for_signal("go")

        return run

    run = recorded(drive, body("a"), ["a"])
    run.handlers[f"{undo.__module__}:{undo.__qualname__}"] = undo
    run.again(body("x", "a"), hash="v2")
    run.turn(run.cancel(), run.ok("x"))
    undone = []
    while run.outcome is None:
        [(location, _)] = [key for key in run.in_flight if key[0] != ("x",)] or run.in_flight
        undone.append(location[0])
        run.in_flight.clear()
        run.turn(run.ok(location[0]))
    assert undone == ["x", "a"]
    assert run.rows.state == "cancelled"


@pytest.mark.parametrize("behind", ["removed", "held"])
def test_code_that_ends_right_behind_an_inserted_step_ends_without_anything_else_happening(drive, behind):
    """D6: the end is taken in the turn that hands the result over, not at the next message or restart"""

    async def shorter() -> Any:
        value = await step("x", work)
        if behind == "removed":
            removed("a", "step")
        else:
            await step("a", work)
        return value

    for crash in (False, True):
        run = recorded(drive, steps("a"), ["a"])
        run.reload(shorter, hash="v2")
        run.crash_everywhere = crash
        run.turn()
        run.turn(run.ok("x", "X"))
        assert run.result == "X"


# --- order


@pytest.mark.parametrize("crash", [False, True])
def test_a_reordered_run_goes_on_through_any_number_of_restarts_under_its_old_hash(drive, crash):
    """K131, D10: an order that fits once must fit after the next restart too"""
    run = recorded(drive, steps("a", "b", waits=1), ["a", "b"])
    run.reload(steps("b", "a", waits=2), hash="v2")
    run.crash_everywhere = crash
    run.turn()
    for n in (1, 2):
        assert run.rows.version == "v1"
        run.turn(run.signal(n, "go", n))
        if run.outcome is None:
            run.again()
    assert run.result == ["B", "A", 1, 2]
    assert run.rows.version == "v1"


def test_a_reordered_run_with_an_inserted_step_stays_changed_too(drive):
    """D10: one fact was held for the inserted step, another for no such reason"""
    run = recorded(drive, steps("a", "b", "c"), ["a", "b", "c"])
    run.reload(steps("b", "a", "x", "c"), hash="v2")
    run.turn()
    run.turn(run.ok("x", "X"))
    assert run.rows.version == "v1"
    run.again()
    assert run.outcome is None
    run.turn(run.signal(1, "go", 0))
    assert run.result == ["B", "A", "X", "C", 0]


def test_a_step_that_is_new_beside_a_reordering_does_not_make_it_fit(drive):
    """D10: the new step was under way when a fact was held, and turned out not to be inserted"""

    async def swapped() -> Any:
        for name in ("b", "a"):
            await step(name, work)
        await wait_for_signal("go")

    async def changed() -> Any:
        await asyncio.gather(step("new", work), join({"x": swapped}))

    async def old() -> Any:
        await asyncio.gather(asyncio.sleep(0), join({"x": steps("a", "b")}))

    run = recorded(drive, old, ["@1/join/x/a", "@1/join/x/b"])
    run.again(changed, hash="v2")
    released = run.released()
    assert len(released) == 1
    run.turn(run.ok(released[0]))
    assert run.rows.version == "v1"
    run.again()
    run.turn(run.signal(1, "go"))
    assert run.result is None


def test_an_inserted_step_alone_leaves_the_run_strict_under_the_new_hash(drive):
    """D10, the other direction: what was held for an inserted step is accepted by strict replay"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(steps("x", "a", "y", "b", "c", "d"), hash="v2")
    for name in "xycd":
        run.turn(run.ok(name))
    assert run.rows.version == "v2"
    run.again()
    assert run.outcome is None
    run.again(steps("x", "a", "y", "b", "d", "c"))  # unchanged code that asks in another order
    assert isinstance(run.reason, NondeterminismError)


def test_the_next_generation_of_a_chain_or_a_run_that_fits_again_has_no_old_order(drive):
    """D10: deployed back to the first order, the run is strict again and goes on"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(steps("b", "a"), hash="v2")
    run.again(steps("a", "b", waits=2), hash="v3")
    run.turn(run.signal(1, "go", 0))
    assert run.rows.version == "v3"
    run.again()
    run.turn(run.signal(2, "go", 1))
    assert run.result == ["A", "B", 0, 1]


# --- what was taken out


@pytest.mark.parametrize("where", ["root", "join", "parallel", "task"])
def test_an_inserted_step_in_front_of_removed_at_the_end_of_a_scope_completes(drive, where):
    """K132, D8, 3.9"""

    async def within(branch: Body) -> Any:
        match where:
            case "join":
                return (await join({"x": branch}))["x"]
            case "parallel":
                return (await parallel([branch]))[0]
            case "task":
                return await asyncio.create_task(branch())
            case _:
                return await branch()

    async def old() -> None:
        async def branch() -> None:
            await step("fax", work)
            await wait_for_signal("go")

        await within(branch)

    async def new() -> Any:
        async def branch() -> Any:
            value = await step("mail", work)
            removed("fax", "step")
            return value

        return await within(branch)

    at = {"root": "", "join": "join/x/", "parallel": "parallel/[0]/", "task": "@0/"}[where]
    for crash in (False, True):
        run = recorded(drive, old, [f"{at}fax"])
        run.reload(new, hash="v2")
        run.crash_everywhere = crash
        run.turn()
        assert run.outcome is None
        run.turn(run.ok(f"{at}mail", "sent"))
        assert run.result == "sent"


def test_a_construct_that_was_taken_out_at_the_end_takes_what_was_held_below_it_along(drive):
    """K132 with `removed("j", "join")`"""

    async def old() -> None:
        await join({"x": lambda: step("s", work), "y": lambda: step("s", work)}, name="j")
        await wait_for_signal("go")

    async def new() -> None:
        await step("mail", work)
        removed("j", "join")

    run = recorded(drive, old, ["j/x/s", "j/y/s"])
    run.again(new, hash="v2")
    run.turn(run.ok("mail"))
    assert run.result is None


def test_a_patch_behind_a_removed_operation_is_taken_when_nothing_else_is_left_over(drive):
    """3.9: what `removed` covers is not past history"""
    seen: list[bool] = []

    async def new() -> None:
        await step("mail", work)
        removed("fax", "step")
        seen.append(patched("p"))
        await wait_for_signal("go")

    run = recorded(drive, steps("fax"), ["fax"])
    run.again(new, hash="v2")
    run.turn(run.ok("mail"))
    assert seen == [True]
    assert run.rows.version == "v2"


def test_an_operation_that_removed_does_not_name_still_diverges_behind_an_inserted_step(drive):
    """D8, the other direction"""

    async def new() -> None:
        await step("mail", work)
        removed("fax", "step")

    run = recorded(drive, steps("fax", "bill"), ["fax", "bill"])
    run.again(new, hash="v2")
    run.turn(run.ok("mail"))
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.reason.location == "bill"
    run.again(new, hash="v2", names=frozenset({"mail", "fax"}))
    assert isinstance(run.reason, HistoryDivergedError)


# --- what the error says


def raising(*names: str, error: Exception) -> Body:
    async def body() -> None:
        for name in names:
            await step(name, work)
        raise error

    return body


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("where", ["root", "join", "parallel", "race", "task", "gather"])
def test_an_exception_in_front_of_a_recorded_operation_comes_first(drive, where, strict):
    """K134"""

    async def within(branch: Body) -> None:
        match where:
            case "join":
                await join({"x": branch})
            case "parallel":
                await parallel([branch])
            case "race":
                await race({"x": branch, "y": lambda: sleep(1)})
            case "task":
                await asyncio.create_task(branch())
            case "gather":
                await asyncio.gather(branch(), asyncio.sleep(0))
            case _:
                await branch()

    at = {"root": "", "join": "join/x/", "parallel": "parallel/[0]/", "race": "race/x/"}.get(where, "@0/")

    async def old() -> None:
        await within(steps("a", "b"))

    async def new() -> None:
        async def branch() -> None:
            await step("a", work)
            undefined_name + 1  # noqa: F821  # pyright: ignore
            await step("b", work)

        await within(branch)

    run = recorded(drive, old, [f"{at}a", f"{at}b"])
    run.again(new, hash="v1" if strict else "v2")
    error = run.reason
    assert type(error) is (NondeterminismError if strict else HistoryDivergedError)
    line = new.__code__.co_firstlineno + 3
    assert str(error).startswith(
        f"{error.code} the code raised NameError: name 'undefined_name' is not defined at {__file__}:{line} before it "
        f"came to {at}b"
    )
    assert "removed(" not in str(error)
    assert isinstance(error.__cause__, NameError)
    assert (error.location, error.recorded) == (f"{at}b", "a step")


def test_an_exception_behind_an_inserted_step_comes_first_too(drive):
    """K134, K133"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(raising("x", "a", error=ValueError("no such order")), hash="v2")
    run.turn(run.ok("x"))
    assert str(run.reason).startswith("TN104 the code raised ValueError: no such order at ")


def test_an_exception_of_the_library_is_reported_at_the_line_that_called_it(drive):
    """K134"""

    async def new() -> None:
        await step("a", work)
        await step("", work)

    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(new, hash="v2")
    assert f"at {__file__}:{new.__code__.co_firstlineno + 2} before it came to b" in str(run.reason)


def test_an_exception_with_nothing_left_over_is_the_run_s_own(drive):
    """4, the other direction"""
    run = recorded(drive, steps("a"), ["a"])
    run.again(raising("a", error=ValueError("no")), hash="v2")
    with pytest.raises(ValueError, match="no"):
        _ = run.result


@pytest.mark.parametrize("back_to", ["v1", "v3"])
def test_what_another_version_inserted_is_named_as_such(drive, back_to):
    """4: deployed back, the way out is that version, or `removed`"""
    run = recorded(drive, steps("a", "b"), ["a", "b"])
    run.again(ends("x", "a"), hash="v2")
    run.turn(run.ok("x"))
    assert isinstance(run.reason, HistoryDivergedError)
    run.again(steps("a", "b"), hash=back_to, names=frozenset({"a", "b", "signal:go"}))
    error = run.reason
    assert type(error) is (NondeterminismError if back_to == "v1" else HistoryDivergedError)
    assert error.recorded == "a step that another version of the code inserted"
    assert 'deploy that version again, or write removed("x", "step") in its place' in str(error)
    assert "clock" not in str(error)

    async def without() -> Any:
        removed("x", "step")
        return await steps("a", "b")()

    run.again(without, hash="v4")
    run.turn(run.signal(1, "go", 0))
    assert run.result == ["A", "B", 0]


def test_nondeterminism_names_its_other_common_cause(drive):
    """errors.md TN105"""
    run = recorded(drive, steps("a"), ["a"])
    run.again(steps("z"))
    assert "behind a loop, use what it returns" in str(run.reason)
