"""Undoing: which handlers run, in which order, and what survives a crash."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tenuto import Break, Continue, FatalError, RollbackError, join, loop, race, rollback_checkpoint, sleep, step
from tenuto.codec.values import load
from tenuto.errors import (
    HistoryDivergedError,
    RecoverError,
    RewindError,
    RollbackUnavailableError,
    StepExhaustedError,
    StepFailedError,
)
from tenuto.kernel.commands import RunRollback
from tenuto.kernel.location import parse
from tenuto.kernel.operations import Cancelled, Parked
from tenuto.kernel.rewind import recover, rewind


def work(*args: Any) -> None: ...


def undo(result: Any) -> None:
    """A handler that can be found by its name."""


UNDO = f"{undo.__module__}:{undo.__qualname__}"


def undoable(name: str) -> Any:
    return step(name, work, rollback=undo)


async def two_then_raise() -> Any:
    await undoable("one")
    await undoable("two")
    raise ValueError("original")


def handlers(run: Any) -> list[tuple[str, Any]]:
    """Handlers the last turn released, with the recorded results they get."""
    return [("/".join(map(str, c.location)), load(c.result)) for c in run.last.commands if isinstance(c, RunRollback)]


def undo_all(run: Any) -> list[str]:
    """Ends every released handler well; the order they were released in."""
    order = []
    while run.outcome is None:
        [(name, _)] = handlers(run)
        order.append(name)
        run.turn(run.ok(run.released()[0]))
    return order


def test_handlers_run_in_reverse_order_with_the_recorded_results(drive):
    """K089"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one", {"id": 1}))
    turn = run.turn(run.ok("two", {"id": 2}))
    assert turn.batch.state == "rolling_back"
    assert handlers(run) == [("two", {"id": 2})]
    assert turn.commands[0].key == "r:0:two:rollback"
    run.turn(run.ok("two"))
    assert handlers(run) == [("one", {"id": 1})]
    run.turn(run.ok("one"))
    assert run.rows.state == "failed"
    with pytest.raises(ValueError, match="original"):
        run.result
    assert all(metadata.rollback.done_at is not None for metadata in run.metadata.values())


def test_each_handlers_end_is_one_batch(drive):
    """3.8"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    turn = run.turn(run.ok("two"))
    assert [at for at, _ in turn.batch.metadata] == [("two",)]
    assert turn.batch.entries == ()


def test_a_checkpoint_is_a_point_of_no_return(drive):
    """K090"""

    async def body() -> Any:
        await undoable("one")
        rollback_checkpoint("point")
        await undoable("two")
        await undoable("three")
        raise ValueError("original")

    run = drive(body)
    run.turn()
    for name in ("one", "two", "three"):
        run.turn(run.ok(name))
    assert undo_all(run) == ["three", "two"]
    assert "one" not in run.metadata


def test_a_crash_between_handlers_repeats_only_the_one_that_was_cut_off(drive):
    """K091"""

    async def body() -> Any:
        for name in ("first", "second", "third"):
            await undoable(name)
        raise ValueError("original")

    run = drive(body)
    run.turn()
    for name in ("first", "second", "third"):
        run.turn(run.ok(name))
    run.turn(run.ok("third"))
    assert [name for name, _ in handlers(run)] == ["second"]
    run.again()
    assert [name for name, _ in handlers(run)] == ["second"]
    assert undo_all(run) == ["second", "first"]
    assert run.rows.state == "failed"


def test_a_failure_the_code_survived_does_not_stop_the_undoing(drive):
    """K092"""

    async def body() -> Any:
        with contextlib.suppress(StepFailedError):
            await step("bad", work)
        await undoable("one")
        await undoable("two")
        raise ValueError("original")

    run = drive(body)
    run.turn()
    run.turn(run.err("bad", FatalError("no")))
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    assert undo_all(run) == ["two", "one"]


def test_a_cancelled_run_is_undone_and_then_cancelled(drive):
    """K093"""

    async def body() -> Any:
        await undoable("one")
        await sleep("1h")

    run = drive(body)
    run.turn()
    run.turn(run.ok("one"))
    turn = run.turn(run.cancel())
    assert turn.outcome is None
    assert run.rows.state == "rolling_back"
    assert run.alarm is None
    run.again()
    assert undo_all(run) == ["one"]
    assert run.outcome == Cancelled()
    assert run.rows.state == "cancelled"


def test_changed_code_that_does_not_fit_compensates_nothing(drive):
    """K094, P6"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    assert run.rows.state == "rolling_back"
    before = dict(run.kv)

    async def without_two() -> Any:
        await undoable("one")
        raise ValueError("original")

    turn = run.again(without_two, hash="v2")
    assert isinstance(turn.outcome, Parked)
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.kv == before


def test_a_bad_deploy_of_a_healthy_run_undoes_nothing(drive):
    """section 7: bad deploy compensates or fails runs"""

    async def body() -> Any:
        await undoable("one")
        await sleep("1h")

    async def broken() -> Any:
        raise ValueError("the deploy is broken")

    run = drive(body)
    run.turn()
    run.turn(run.ok("one"))
    before = dict(run.kv)
    run.again(broken, hash="v2")
    assert isinstance(run.reason, HistoryDivergedError)
    assert run.kv == before


def test_a_compensated_run_is_never_continued(drive):
    """K095"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    undo_all(run)
    before = dict(run.kv)
    from tenuto.codec.values import dump

    with pytest.raises(RecoverError) as refused:
        recover(run.rows, load=load)
    assert refused.value.code == "TN208"
    with pytest.raises(RewindError) as refused_rewind:
        rewind(run.rows, parse("one"), dump=dump)
    assert refused_rewind.value.code == "TN209"
    assert run.kv == before


def test_a_checkpoint_in_a_branch_keeps_only_what_came_before_it_there(drive):
    """K096"""

    async def branch() -> Any:
        await undoable("b")
        rollback_checkpoint("point")
        await undoable("c")

    async def body() -> Any:
        await undoable("a")
        await join({"x": branch})
        await undoable("d")
        raise ValueError("original")

    run = drive(body)
    run.turn()
    for location in ("a", "join/x/b", "join/x/c", "d"):
        run.turn(run.ok(location))
    assert undo_all(run) == ["d", "join/x/c", "a"]


def test_handlers_run_over_all_scopes_by_order_of_completion(drive):
    """3.8, section 7: handlers in loops, joins, races not run"""

    async def one(n: int) -> Any:
        await undoable("it")
        return Break() if n == 2 else Continue(n + 1)

    async def loser() -> Any:
        await undoable("lost")
        await sleep("1h")

    async def body() -> Any:
        await loop("l", 0, one)
        await race({"loser": loser, "winner": lambda: undoable("won")})
        await join({"x": lambda: undoable("j"), "y": lambda: undoable("j")})
        raise ValueError("original")

    run = drive(body)
    run.handlers[UNDO] = undo  # iterations behind a commit do not run again: only a name finds their handlers
    run.turn()
    for location in ("l/~0/it", "l/~1/it", "l/~2/it", "race/loser/lost", "race/winner/won", "join/y/j", "join/x/j"):
        run.turn(run.ok(location))
    order = []
    while run.outcome is None:
        [location] = run.released()
        order.append(location)
        run.turn(run.ok(location))
        if run.outcome is None:
            run.again()
    assert order == [
        "join/x/j",
        "join/y/j",
        "race/winner/won",
        "race/loser/lost",
        "l/~2/it",
        "l/~1/it",
        "l/~0/it",
    ]


def test_a_handler_is_retried_like_its_step_and_its_failure_is_kept_beside_the_original(drive):
    """3.8, section 7: handler error hides the original; rollback stuck"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    run.turn(run.err("two", RuntimeError("handler 1")))
    assert run.alarm == 200
    run.again()
    assert (run.released(), run.alarm) == ([], 200)
    run.turn(now=200)
    assert run.last.commands[0].attempt == 2
    run.turn(run.err("two", RuntimeError("handler 2"), attempt=2))
    run.turn(now=600)
    run.turn(run.err("two", RuntimeError("handler 3"), attempt=3))
    assert run.released() == ["one"]
    failure = load(run.metadata["two"].rollback.error)
    assert isinstance(failure, StepExhaustedError)
    assert repr(failure.__cause__) == "RuntimeError('handler 3')"
    run.turn(run.ok("one"))
    with pytest.raises(ValueError, match="original"):
        run.result


def test_recover_runs_only_the_failed_handlers_again(drive):
    """3.12"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    run.turn(run.err("two", FatalError("no")))
    run.turn(run.ok("one"))
    assert run.rows.state == "failed"
    undone = recover(run.rows, load=load)
    run.go_back(undone)
    run.again()
    assert run.released() == ["two"]
    run.turn(run.ok("two"))
    assert run.rows.state == "failed"
    assert run.metadata["two"].rollback.error is None


def test_a_run_without_undoable_steps_fails_at_once(drive):
    """3.8"""

    async def body() -> Any:
        await step("a", work)
        raise RollbackError("give up")

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"
    assert run.last.commands == ()


async def _iterations(handler: Any) -> Any:
    async def one(n: int) -> Any:
        await step("it", work, rollback=handler)
        return Break() if n == 3 else Continue(n + 1)

    await loop("l", 0, one, commit_interval=2, history_keep=9)
    raise ValueError("original")


def test_a_named_handler_of_an_iteration_behind_the_commit_is_found(drive):
    """3.8"""

    async def body() -> Any:
        await _iterations(undo)

    run = drive(body)
    run.handlers[UNDO] = undo
    run.turn()
    for n in range(4):
        run.turn(run.ok(f"l/~{n}/it", n))
    run.again()
    assert handlers(run)[0][1] == 3
    values = []
    while run.outcome is None:
        values.append(handlers(run)[0][1])
        run.turn(run.ok(run.released()[0]))
        if run.outcome is None:
            run.again()
    assert values == [3, 2, 1, 0]


def test_a_closure_of_an_iteration_behind_the_commit_is_recorded_as_unavailable(drive):
    """3.8"""

    async def body() -> Any:
        await _iterations(lambda result: None)

    run = drive(body)
    run.turn()
    for n in range(4):
        run.turn(run.ok(f"l/~{n}/it", n))
    run.again()
    while run.outcome is None:
        run.turn(run.ok(run.released()[0]))
    errors = [load(metadata.rollback.error) for metadata in run.metadata.values() if metadata.rollback.error]
    assert errors
    assert all(isinstance(error, RollbackUnavailableError) for error in errors)
    with pytest.raises(ValueError, match="original"):
        run.result


def test_the_original_error_is_the_one_that_was_stored(drive):
    """3.8: not one that replay raised again"""
    run = drive(two_then_raise)
    run.turn()
    run.turn(run.ok("one"))
    run.turn(run.ok("two"))
    stored = run.rows.error
    run.again()
    run.turn(run.ok("two"))
    run.again()
    run.turn(run.ok("one"))
    assert run.rows.state == "failed"
    assert run.rows.error == stored


def test_no_code_runs_beside_the_handlers(drive):
    """3.8: tasks the root left behind take no message and start no timer any more"""
    import asyncio

    from tenuto import wait_for_signal

    ran: list[str] = []

    async def left_behind() -> None:
        await wait_for_signal("s")
        ran.append("got it")
        await sleep(1)

    async def body() -> Any:
        task = asyncio.create_task(left_behind())
        await undoable("one")
        raise ValueError(f"original, {task.done()}")

    run = drive(body)
    run.turn()
    run.turn(run.ok("one"))
    assert run.rows.state == "rolling_back"
    run.post(1, "s", "late")
    run.turn(run.signal(1, "s", "late"))
    assert (ran, run.mail, run.alarm) == ([], [1], None)
    run.turn(run.ok("one"))
    assert run.rows.state == "failed"
    assert run.mail == [1]
