"""Cancelling, evicting, rewinding, recovering, continuing as new; other runs."""

from __future__ import annotations

import asyncio
import contextlib
from hashlib import sha256
from typing import Any

import pytest

from tenuto import (
    Break,
    Continue,
    ContinueAsNew,
    FatalError,
    NoReply,
    Reply,
    detach,
    hook,
    join,
    loop,
    receive,
    signal,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.codec.values import dump, load
from tenuto.errors import (
    ChildFailedError,
    ChildStartError,
    Evicted,
    HookTakenError,
    JoinError,
    RecoverError,
    RewindError,
    StepFailedError,
    UpdateFailedError,
)
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import (
    CancelChild,
    CancelStep,
    CancelTask,
    CancelTimer,
    RegisterHook,
    ReplyUpdate,
    SendSignal,
    StartChild,
)
from tenuto.kernel.location import parse
from tenuto.kernel.operations import Cancelled, Completed, Continued
from tenuto.kernel.records import ChildMode, Flag, UpdateStatus
from tenuto.kernel.rewind import recover, rewind


def work(*args: Any) -> None: ...


@workflow(name="control-child")
async def child(n: int = 0) -> None: ...


@step(queue="elsewhere", name="control-task")
async def task() -> None: ...


def go_back(run: Any, location: str, **options: Any) -> Any:
    """Rewinds a run by hand, as a host does."""
    undone = rewind(run.rows, parse(location), dump=dump, **options)
    run.go_back(undone)
    return undone


# --- cancelling


def test_a_cancelled_run_may_clean_up_before_it_ends(drive):
    """K109"""

    async def body() -> Any:
        try:
            await step("slow", work)
        finally:
            await step("tidy", work)

    run = drive(body)
    run.turn()
    turn = run.turn(run.cancel(1))
    assert run.commands_of(CancelStep) == ["slow"]
    assert run.released() == ["tidy"]
    assert turn.batch.counters.cancel.seq == 1
    assert turn.batch.counters.cancel.reason == "because"
    second = run.turn(run.cancel(2))
    assert run.commands_of(CancelStep) == []
    assert second.batch.counters is None
    run.again()
    assert run.released() == ["tidy"]
    run.turn(run.ok("tidy"))
    assert run.outcome == Cancelled()
    assert run.rows.state == "cancelled"
    assert "tidy" in run.history


def test_code_that_catches_the_cancellation_may_complete(drive):
    """K110"""

    async def body() -> Any:
        try:
            await sleep("1h")
        except asyncio.CancelledError:
            return "caught"

    run = drive(body)
    run.turn()
    run.turn(run.cancel())
    assert run.result == "caught"
    assert isinstance(run.outcome, Completed)
    assert run.rows.state == "completed"
    assert run.alarm is None


def test_a_cancel_found_before_the_first_turn_means_the_root_never_starts(drive):
    """1.5"""
    started = []

    async def body() -> Any:
        started.append(1)

    run = drive(body)
    run.turn(run.cancel())
    assert run.outcome == Cancelled()
    assert run.rows.state == "cancelled"
    assert started == []


def test_the_time_for_cleaning_up_is_limited(drive):
    """K122"""
    code = []

    async def body() -> Any:
        await step("undoable", work, rollback=work)
        try:
            await sleep("1h")
        finally:
            code.append("tidying")
            try:
                await step("hangs", work)
            finally:
                code.append("more code")

    run = drive(body)
    run.turn()
    run.turn(run.ok("undoable"))
    run.turn(run.cancel(1, within_ms=5_000))
    assert run.alarm == 5_000
    run.again()
    assert run.alarm == 5_000
    assert code == ["tidying", "tidying"] or code == ["tidying", "more code", "tidying"]
    run.turn(now=4_999)
    assert run.outcome is None
    lines = list(code)
    turn = run.turn(now=5_000)
    assert run.outcome == Cancelled()
    assert code == lines
    assert run.released() == []
    assert turn.batch.alarm is None
    assert run.rows.state == "cancelled"


def test_a_second_cancel_may_shorten_the_time_for_cleaning_up_and_not_lengthen_it(drive):
    """K122"""

    async def body() -> Any:
        try:
            await sleep("1h")
        finally:
            await step("hangs", work)

    run = drive(body)
    run.turn()
    run.turn(run.cancel(1, within_ms=5_000))
    run.turn(run.cancel(2, within_ms=9_000))
    assert run.alarm == 5_000
    run.turn(run.cancel(3, within_ms=2_000))
    assert run.alarm == 2_000
    run.again()
    assert run.alarm == 2_000
    run.turn(now=2_000)
    assert run.outcome == Cancelled()


def test_a_cancel_is_replayed_where_it_happened(drive):
    """D1"""
    log: list[str] = []

    async def body() -> Any:
        log.append(await step("a", work))
        try:
            await step("b", work)
        except asyncio.CancelledError:
            log.append("cancelled")
        log.append(await step("c", work))
        await step("d", work)
        return list(log)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a", "A"))
    run.turn(run.cancel())
    run.turn(run.ok("c", "C"))
    log.clear()
    run.again()
    assert log == ["A", "cancelled", "C"]
    assert run.released() == ["d"]
    run.turn(run.ok("d"))
    assert run.result == ["A", "cancelled", "C"]


def test_a_finished_turn_gives_way_to_an_acknowledged_cancel(drive):
    """1.5, section 7: cancel overwritten by a running turn"""

    async def body() -> Any:
        await step("a", work)
        return "too late"

    run = drive(body)
    run.turn()
    done = run.ok("a")
    lost = run.peek(done)
    assert isinstance(lost.outcome, Completed)
    run.reload()  # the host found a cancel it had acknowledged: it drops the turn, the cancel goes first
    run.turn(run.cancel(), done)
    assert run.outcome == Cancelled()


# --- evicting


def test_an_evicted_run_writes_nothing_and_goes_on_later(drive):
    """K111, section 7: `finally` code writing during eviction"""
    ran: list[str] = []

    async def body() -> Any:
        try:
            await sleep("1h")
        finally:
            ran.append("finally")
            await step("tidy", work)
            ran.append("after the step")
        return "woke"

    run = drive(body)
    run.turn()
    before = dict(run.kv)
    run.reload()
    assert ran == ["finally"]
    assert run.kv == before
    turn = run.turn()
    assert turn.batch.entries == ()
    assert turn.commands == ()
    run.turn(now=3_600_000)
    assert run.released() == ["tidy"]
    run.turn(run.ok("tidy"))
    assert run.result == "woke"


def test_two_calls_raise_evicted_while_a_run_is_closed_in_its_own_context_and_the_third_never_returns(drive):
    """1.8"""
    from contextvars import ContextVar

    mark: ContextVar[str] = ContextVar("mark")
    seen: list[Any] = []

    async def branch(name: str) -> None:
        mark.set(name)
        try:
            await sleep("1h")
        finally:
            seen.append(mark.get())
            for call in (lambda: sleep(1), lambda: step("s", work), lambda: wait_for_signal("x"), lambda: spawn(child)):
                try:
                    await call()
                except Evicted:
                    seen.append("evicted")

    async def body() -> Any:
        await join({"p": lambda: branch("p"), "q": lambda: branch("q")})

    run = drive(body)
    run.turn()
    before = dict(run.kv)
    assert len(run.run.close()) == 2
    assert seen == ["p", *["evicted"] * 2, "q", *["evicted"] * 2]
    assert run.kv == before


def test_code_that_refuses_to_close_is_named(drive):
    """1.8"""

    async def body() -> Any:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except GeneratorExit:
                await asyncio.sleep(0)

    run = drive(body)
    run.turn()
    assert run.run.close() == ("main",)
    run.run = None


# --- rewinding


async def three() -> Any:
    return [await step(name, work) for name in ("s1", "s2", "s3", "s4")]


def test_rewinding_runs_what_came_after_again_under_new_keys(drive):
    """K112"""
    run = drive(three)
    run.turn()
    for name in ("s1", "s2", "s3"):
        run.turn(run.ok(name, f"old {name}"))
    go_back(run, "s2")
    assert set(run.history) == {"s1"}
    assert run.rows.counters.rewinds == 1
    turn = run.again()
    assert [command.key for command in turn.commands] == ["r:0:s2~1"]
    run.turn(run.ok("s2", "new s2"))
    run.turn(run.ok("s3", "new s3"))
    run.turn(run.ok("s4", "s4"))
    assert run.result == ["old s1", "new s2", "new s3", "s4"]


def test_rewinding_into_a_committed_loop_restarts_it(drive):
    """K113"""

    async def one(n: int) -> Any:
        await step("it", work)
        return Break(n) if n == 9 else Continue(n + 1)

    async def body() -> Any:
        await step("before", work)
        return await loop("l", 0, one, commit_interval=2)

    run = drive(body)
    run.turn()
    run.turn(run.ok("before"))
    for n in range(5):
        run.turn(run.ok(f"l/~{n}/it"))
    go_back(run, "l/~3/it")
    assert set(run.history) == {"before"}
    run.again()
    assert run.released() == ["l/~0/it"]


@pytest.mark.parametrize("ended", [False, True])
def test_rewinding_to_a_committed_loop_restarts_it(drive, ended):
    """K113: the target is that loop"""

    async def one(n: int) -> Any:
        await step("it", work)
        return Break(n) if n == 7 else Continue(n + 1)

    async def body() -> Any:
        await step("before", work)
        value = await loop("l", 0, one, commit_interval=2)
        await wait_for_signal("go")
        return value

    run = drive(body)
    run.turn()
    run.turn(run.ok("before"))
    for n in range(8 if ended else 5):
        run.turn(run.ok(f"l/~{n}/it"))
    go_back(run, "l")
    assert set(run.history) == {"before"}
    run.again()
    for n in range(8):
        assert run.released() == [f"l/~{n}/it"]
        run.turn(run.ok(f"l/~{n}/it"))
    run.turn(run.signal(1, "go"))
    assert run.result == 7


def test_rewinding_to_an_inner_loop_restarts_the_outermost_committed_one(drive):
    """K113, 3.12"""

    async def inner(n: int) -> Any:
        await step("it", work)
        return Break(n) if n else Continue(1)

    async def outer(n: int) -> Any:
        await loop("inner", 0, inner, commit_interval=1)
        return Break(n) if n == 3 else Continue(n + 1)

    async def body() -> Any:
        await step("before", work)
        await loop("outer", 0, outer, commit_interval=1)
        await wait_for_signal("go")

    run = drive(body)
    run.turn()
    run.turn(run.ok("before"))
    for n in range(4):
        for i in range(2):
            run.turn(run.ok(f"outer/~{n}/inner/~{i}/it"))
    go_back(run, "outer/~3/inner")
    assert set(run.history) == {"before"}
    run.again()
    assert run.released() == ["outer/~0/inner/~0/it"]


@pytest.mark.parametrize("trims", [True, False])
def test_a_loop_of_another_branch_that_loses_its_commit_starts_again(drive, trims):
    """3.12: half of it cannot be replayed, whether it has trimmed or not"""

    async def one(n: int) -> Any:
        await step("it", work)
        return Break(n) if n == 9 else Continue(n + 1)

    async def other() -> None:
        await step("s", work)
        await step("t", work)

    async def body() -> Any:
        await step("before", work)
        keep = 2 if trims else 20
        await join({"x": lambda: loop("l", 0, one, commit_interval=2, history_keep=keep), "y": other})

    run = drive(body)
    run.turn()
    run.turn(run.ok("before"))
    for n in range(5):
        run.turn(run.ok(f"join/x/l/~{n}/it"))
    run.turn(run.ok("join/y/s"))
    run.turn(run.ok("join/x/l/~5/it"))  # the next commit
    go_back(run, "join/y/s")
    run.again()
    assert sorted(run.released()) == ["join/x/l/~0/it", "join/y/s"]


def test_a_rewind_to_a_trimmed_place_says_what_is_left(drive):
    """3.12"""

    async def one(n: int) -> Any:
        await step("s", work)
        return Break(n) if n == 9 else Continue(n + 1)

    async def body() -> Any:
        await loop("l", 0, one, commit_interval=2)
        await wait_for_signal("go")

    run = drive(body)
    run.turn()
    for n in range(9):
        run.turn(run.ok(f"l/~{n}/s"))
    for place in ("l/~1/s", "l/~5/s"):
        with pytest.raises(RewindError, match=f"{place} was trimmed by loop l; the earliest is l/~6\n"):
            go_back(run, place)
    for place in ("l/~9/s", "l/~6/t", "m/~1/s", "nowhere"):
        with pytest.raises(RewindError, match=f"there is nothing settled at {place}\n"):
            go_back(run, place)


def test_rewinding_to_after_a_loops_commit_keeps_the_loop(drive):
    """3.12: only if its stored commit is at or after the target"""

    async def one(n: int) -> Any:
        await step("it", work)
        return Break(n) if n == 9 else Continue(n + 1)

    async def body() -> Any:
        return await loop("l", 0, one, commit_interval=2)

    run = drive(body)
    run.turn()
    for n in range(4):
        run.turn(run.ok(f"l/~{n}/it"))
    run.turn(run.ok("l/~4/it"))
    assert run.history["l"].kind.iteration == 4
    go_back(run, "l/~4/it")
    assert run.history["l"].kind.iteration == 4
    run.again()
    assert run.released() == ["l/~4/it"]


def test_a_signal_taken_after_the_target_is_queued_again(drive):
    """K114"""

    async def body() -> Any:
        await step("a", work)
        value = await wait_for_signal("s")
        return value, await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    run.post(7, "s", "hello")
    run.turn(run.signal(7, "s", "hello", at=0))
    assert run.mail == []
    go_back(run, "a")
    assert run.mail == [7]
    run.again()
    run.turn(run.ok("a"))
    assert run.mail == []
    run.turn(run.ok("b", 1))
    assert run.result == ("hello", 1)


def test_rewinding_cancels_what_has_not_settled(drive):
    """3.12"""

    async def body() -> Any:
        await step("a", work)
        await join(
            {
                "task": task,
                "child": _child_end,
                "nap": lambda: sleep("1h"),
                "wait": lambda: wait_for_signal("s", timeout="1h"),
                "retry": lambda: step("flaky", work),
            }
        )

    async def _child_end() -> Any:
        return await (await spawn(child))

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    run.turn(run.err("join/retry/flaky", ValueError("no")))
    undone = go_back(run, "a")
    found = {type(command).__name__: [] for command in undone.commands}
    for command in undone.commands:
        found[type(command).__name__].append(command.location[1])
    assert sorted(found) == ["CancelChild", "CancelTask", "CancelTimer"]
    assert sorted(found["CancelTimer"]) == ["nap", "retry", "wait"]
    assert run.history == {}
    assert run.metadata == {}
    assert isinstance(undone.commands[0], CancelChild | CancelTask | CancelTimer)


def test_accepted_updates_stand_in_the_way_of_a_rewind_unless_they_are_dropped(drive):
    """3.12"""

    async def body() -> Any:
        await step("a", work)
        await receive(0, updates={"add": lambda t, n: Reply(t + n, t + n), "slow": slow})

    async def slow(total: int) -> Any:
        await step("slow", work)
        return Reply(1, total)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    run.turn(run.update(1, "u1", "add", 5))
    run.turn(run.update(2, "u2", "slow"))
    before = dict(run.kv)
    with pytest.raises(RewindError, match="u1, u2"):
        go_back(run, "a")
    assert run.kv == before
    undone = go_back(run, "a", drop_updates=True)
    updates = run.rows.updates
    assert (updates["u1"].seq, updates["u1"].status, load(updates["u1"].result)) == (0, UpdateStatus.COMPLETED, 5)
    assert (updates["u2"].seq, updates["u2"].status) == (0, UpdateStatus.FAILED)
    error = load(updates["u2"].error)
    assert isinstance(error, UpdateFailedError)
    assert error.why == "rewound"
    assert [command.id for command in undone.commands if isinstance(command, ReplyUpdate)] == ["u2"]
    run.again()
    run.turn(run.ok("a"))
    turn = run.turn(run.update(3, "u1", "add", 5))
    assert [c for c in turn.commands if isinstance(c, ReplyUpdate)] == []  # the old answer is there
    assert run.rows.updates["u1"] == updates["u1"]


@pytest.mark.parametrize("location", ["nowhere", "s3", "s2#2"])
def test_rewinding_to_an_unknown_place_is_refused(drive, location):
    """3.12"""
    run = drive(three)
    run.turn()
    run.turn(run.ok("s1"))
    run.turn(run.ok("s2"))
    before = dict(run.kv)
    with pytest.raises(RewindError) as refused:
        go_back(run, location)
    assert refused.value.code == "TN209"
    assert run.kv == before


def test_a_finished_run_can_be_rewound(drive):
    """3.12: the outcome rows go"""
    run = drive(three)
    run.turn()
    for name in ("s1", "s2", "s3", "s4"):
        run.turn(run.ok(name, name))
    assert run.rows.output is not None
    go_back(run, "s4")
    assert run.rows.output is None
    assert run.rows.state == "suspended"
    run.again()
    assert run.released() == ["s4"]


# --- recovering


def test_recovering_runs_the_failed_step_again_under_its_old_key(drive):
    """3.12"""

    async def body() -> Any:
        await step("a", work)
        with contextlib.suppress(StepFailedError):
            await step("survived", work)
        return await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    run.turn(run.err("survived", FatalError("never mind")))
    run.turn(run.err("b", FatalError("broken")))
    assert run.rows.state == "failed"
    undone = recover(run.rows, load=load)
    run.go_back(undone)
    assert set(run.history) == {"a", "survived"}
    assert run.rows.error is None
    turn = run.again()
    assert [command.key for command in turn.commands] == ["r:0:b"]
    run.turn(run.ok("b", "mended"))
    assert run.result == "mended"


def test_recovering_looks_into_what_gathers_several_errors(drive):
    """3.12"""

    async def body() -> Any:
        return await join({"x": lambda: step("x", work), "y": lambda: step("y", work)})

    run = drive(body)
    run.turn()
    run.turn(run.ok("join/x/x", 1))
    run.turn(run.err("join/y/y", FatalError("broken")))
    with pytest.raises(JoinError):
        run.result
    run.go_back(recover(run.rows, load=load))
    run.again()
    assert run.released() == ["join/y/y"]
    run.turn(run.ok("join/y/y", 2))
    assert run.result == {"x": 1, "y": 2}


def test_recovering_from_an_error_of_the_code_itself_only_opens_the_run_again(drive):
    """3.12"""
    broken = True

    async def body() -> Any:
        await step("a", work)
        if broken:
            raise ValueError("a bug")
        return "mended"

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"
    run.go_back(recover(run.rows, load=load))
    broken = False
    run.again(hash="v2")
    assert run.result == "mended"
    assert run.rows.error is None


def test_only_a_failed_run_is_recovered(drive):
    """3.12"""
    run = drive(three)
    run.turn()
    with pytest.raises(RecoverError) as refused:
        recover(run.rows, load=load)
    assert refused.value.code == "TN208"


# --- continuing as new


def test_continuing_as_new_clears_history_and_keeps_messages_answers_and_what_is_published(drive):
    """1.1"""
    from tenuto import publish_state
    from tenuto.kernel.turn import create

    async def body(n: int = 0) -> Any:
        publish_state({"n": n})
        await receive(0, updates={"add": lambda t, k: Reply(t + k, t + k)}, signals={"next": lambda t: _stop(t)})
        return ContinueAsNew(n + 1)

    def _stop(total: int) -> Any:
        from tenuto import Stop

        return Stop(total)

    run = drive(body)
    run.turn()
    run.turn(run.update(1, "u", "add", 2))
    run.post(5, "later", "kept")
    run.turn(run.signal(5, "later", "kept"))
    turn = run.turn(run.signal(4, "next"))
    assert isinstance(turn.outcome, Continued)
    assert load(turn.outcome.input) == [[1], {}]
    assert turn.batch.cleared == (1, 2, 5)
    first = load(turn.batch.first_input)
    assert first == sha256(dump([[], {}])).digest()
    run.apply(create(run.definition, turn.outcome.input, 1_700_000_000_500, generation=1))
    assert run.history == {}
    assert load(run.rows.first_input) == first
    assert run.rows.updates["u"].seq == 0
    assert run.mail == [5]
    assert run.published == {"n": 0}
    run.reload()
    run.turn()
    assert run.rows.counters.generation == 1
    assert run.published == {"n": 1}


# --- other runs


def test_a_child_is_started_once_and_its_end_settles_the_entry(drive):
    """3.11, section 7: sends and starts repeated by replay"""

    async def body() -> Any:
        handle = await spawn(child, 7)
        await step("between", work)
        return handle.id, await handle

    run = drive(body)
    turn = run.turn()
    [start] = [command for command in turn.commands if isinstance(command, StartChild)]
    assert (start.run, start.target, load(start.input)) == ("r:0:child:control-child", "control-child", [[7], {}])
    entry = run.history["child:control-child"]
    assert (entry.seq, entry.kind.mode, entry.kind.accepted) == (0, ChildMode.SPAWN, 1)
    run.again()
    assert run.commands_of(StartChild) == []
    assert run.released() == ["between"]
    run.turn(run.ok("between"))
    run.turn(run.ok("child:control-child", "grown", attempt=0))
    assert run.result == ("r:0:child:control-child", "grown")
    assert run.history["child:control-child"].seq == 3


def test_a_failed_child_shows_where_its_handle_is_awaited(drive):
    """3.11"""

    async def body() -> Any:
        handle = await spawn(child)
        await step("between", work)
        try:
            await handle
        except ChildFailedError as error:
            return repr(error.__cause__)

    error = ChildFailedError("child failed")
    error.__cause__ = ValueError("theirs")
    run = drive(body, crash=True)
    run.turn()
    run.turn(run.err("child:control-child", error, attempt=0))
    run.turn(run.ok("between"))
    assert run.result == "ValueError('theirs')"


def test_a_refused_start_shows_at_the_await(drive):
    """3.11"""

    async def body() -> Any:
        handle = await spawn(child, id="taken")
        try:
            await handle
        except ChildStartError as error:
            return error.code

    run = drive(body)
    run.turn()
    run.turn(run.err("child:control-child", ChildStartError("in use"), attempt=0))
    assert run.result == "TN127"


def test_open_children_are_cancelled_when_their_run_ends(drive):
    """model: spawn"""

    async def body() -> Any:
        await spawn(child)
        await detach(child, name="free")
        return "end"

    run = drive(body)
    run.turn()
    run.turn(run.ok("free", attempt=0))
    assert run.result == "end"
    assert run.commands_of(CancelChild) == ["child:control-child"]


def test_a_send_is_one_entry_and_settles_after_its_commit(drive):
    """3.11"""

    async def body() -> Any:
        await signal("other", "hello", 1, 2)
        await step("after", work)

    run = drive(body)
    turn = run.turn()
    [send] = turn.commands
    assert isinstance(send, SendSignal)
    assert (send.run, send.name, load(send.payload), send.id) == ("other", "hello", [1, 2], "r:0:send:hello")
    run.again()  # found unsettled on load, without a refusal: it was done
    assert run.commands_of(SendSignal) == []
    assert run.released() == ["after"]
    run.again()
    run.turn(run.ok("after"))
    assert run.result is None


def test_a_signal_to_a_run_that_is_gone_is_noted_and_no_error(drive):
    """3.11"""

    async def body() -> Any:
        await signal("nobody", "hello")
        return "went on"

    run = drive(body)
    run.turn()
    run.turn(run.err("send:hello", LookupError("gone"), attempt=0))
    assert run.result == "went on"
    assert isinstance(load(run.history["send:hello"].kind.error), LookupError)


def test_a_hook_settles_with_its_token_and_is_registered_again_after_a_reload(drive):
    """3.11, 1.4"""

    async def body() -> Any:
        door = await hook()
        return door.token, await door

    run = drive(body)
    run.turn()
    assert run.commands_of(RegisterHook) == ["hook"]
    run.again()
    assert run.commands_of(RegisterHook) == ["hook"]
    run.turn(run.ok("hook", attempt=0)._replace(outcome=type(run.ok("x").outcome)(b"secret")))
    run.again()
    assert run.commands_of(RegisterHook) == []
    run.turn(run.signal(1, "hook:secret", {"yes": True}))
    assert run.result == ("secret", {"yes": True})


def test_a_token_that_is_taken_is_an_error(drive):
    """3.11"""

    async def body() -> Any:
        try:
            await hook("door")
        except HookTakenError as error:
            return error.code

    run = drive(body)
    run.turn()
    run.turn(run.err("hook", HookTakenError("taken"), attempt=0))
    assert run.result == "TN128"


def test_a_cancelled_spawn_cancels_its_child(drive):
    """3.2"""

    async def body() -> Any:
        async def branch() -> Any:
            return await (await spawn(child))

        background = asyncio.create_task(branch())
        await step("a", work)
        background.cancel()
        await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.commands_of(CancelChild) == ["@0/child:control-child"]
    assert run.history["@0/child:control-child"].flags == Flag.CANCELLED
    before = dict(run.kv)
    run.turn(run.ok("@0/child:control-child", "late", attempt=0))
    assert run.kv == before
    run.again()
    assert run.released() == ["b"]
    run.turn(run.ok("b"))
    assert run.result is None


def test_a_queued_step_that_is_cancelled_gets_its_command_in_the_same_batch(drive):
    """3.2"""

    async def body() -> Any:
        background = asyncio.create_task(task())
        await step("a", work)
        background.cancel()
        await step("b", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.commands_of(CancelTask) == ["@0/control-task"]
    assert run.history["@0/control-task"].flags == Flag.CANCELLED
    run.again()
    assert run.released() == ["b"]
    assert run.commands_of(CancelTask) == []
    run.turn(run.ok("b"))
    assert run.result is None


def test_an_empty_turn_of_a_run_that_waits_for_a_task_is_empty(drive):
    """T8"""

    async def body() -> Any:
        await task()

    run = drive(body)
    run.turn()
    assert run.rows.state == "suspended"
    turn = run.turn()
    assert (turn.batch, turn.commands) == (Batch(), ())


def test_a_supplied_result_fits_any_attempt_and_is_flagged(drive):
    """1.3"""

    async def body() -> Any:
        return await step("a", work)

    run = drive(body)
    run.turn()
    run.turn(run.err("a", ValueError("no")))
    turn = run.turn(run.ok("a", "given", attempt=0, supplied=True))
    assert run.result == "given"
    assert run.history["a"].flags == Flag.SUPPLIED
    assert run.commands_of(CancelTimer) == ["a"]
    assert turn.batch.alarm is None


def test_a_result_supplied_to_a_run_out_of_memory_lets_no_attempt_start(drive):
    """1.3, P2: recorded once, and not run besides"""

    async def body() -> Any:
        value = await step("a", work)
        await sleep("1h")
        return value

    run = drive(body)
    run.turn()
    run.reload()
    run.turn(run.ok("a", "given", attempt=0, supplied=True))
    assert run.released() == []
    assert run.history["a"].flags == Flag.SUPPLIED


def test_signal_handlers_see_a_copy_of_the_state(drive):
    """DESIGN 4.4"""

    def grow(state: list[int]) -> NoReply[list[int]]:
        state.append(1)
        return NoReply([*state])

    def reads(state: list[int]) -> Any:
        state.append(99)  # its copy: not returned, so it does not count
        return Reply(len(state), state[:-1])

    async def body() -> Any:
        state, _ = await receive([], signals={"grow": grow}, updates={"read": reads}, timeout=1)
        return state

    run = drive(body, crash=True)
    run.turn()
    run.turn(run.signal(1, "grow"), run.update(2, "u", "read"), run.signal(3, "grow"))
    run.turn(now=1_000)
    assert run.result == [1, 1]


def test_a_child_accepted_and_withdrawn_in_one_turn_is_replayed_so(drive):
    """3.11, T7: the start is not released, the code's handle is recorded"""
    from tenuto import race

    seen: list[str] = []

    async def starts() -> None:
        handle = await spawn(child)
        seen.append(handle.id)
        await handle

    async def quick() -> None:
        await sleep(0)
        await sleep(0)

    async def body() -> Any:
        seen.clear()
        winner, _ = await race({"starts": starts, "quick": quick})
        await step("after", work)
        return winner, list(seen)

    run = drive(body)
    run.turn()
    assert run.commands_of(StartChild) == []
    before = list(seen)
    assert before == ["r:0:race/starts/child:control-child"]
    run.again()
    assert seen == before
    run.turn(run.ok("after"))
    assert run.result == ("quick", before)


def test_attempts_in_flight_are_stopped_when_the_run_ends_without_them(drive):
    """1.4: nobody waits for them any more"""

    async def body() -> Any:
        background = asyncio.create_task(step("background", work))
        await step("undoable", work, rollback=work)
        if await step("a", work) == "raise":
            raise ValueError("original")
        return background.done()

    run = drive(body)
    run.turn()
    run.turn(run.ok("undoable"))
    run.turn(run.ok("a"))
    assert run.result is False
    assert run.commands_of(CancelStep) == ["@0/background"]

    run = drive(body)
    run.turn()
    run.turn(run.ok("undoable"))
    run.turn(run.ok("a", "raise"))
    assert run.rows.state == "rolling_back"
    assert run.commands_of(CancelStep) == ["@0/background"]
    assert run.released() == ["undoable"]


def test_a_task_cancelled_before_it_began_leaves_nothing_unawaited(drive):
    """1.7: as asyncio does; warnings are errors here"""

    async def never() -> None:
        await step("never", work)

    async def body() -> Any:
        background = asyncio.create_task(never())
        background.cancel()
        await asyncio.sleep(0)
        return background.cancelled()

    run = drive(body)
    run.turn()
    assert run.result is True


def test_code_that_catches_everything_cannot_swallow_a_suspension(drive):
    """section 7: a suspended run is parked on a future; nothing is raised"""
    caught: list[BaseException] = []

    async def body() -> Any:
        try:
            await sleep("1h")
        except BaseException as error:  # noqa: BLE001
            caught.append(error)
        return "woke"

    run = drive(body)
    run.turn()
    run.turn(now=10)
    assert caught == []
    run.reload()  # evicted: what it catches now is seen by nobody
    run.turn(now=3_600_000)
    assert run.result == "woke"


def test_a_detached_run_found_unsettled_on_load_was_started(drive):
    """3.11: unless the inbox has a refusal"""

    async def body() -> Any:
        try:
            return await detach(child, id="free")
        except ChildStartError as error:
            return error.code

    for refused in (False, True):
        run = drive(body)
        run.turn()
        assert run.commands_of(StartChild) == ["child:control-child"]
        run.reload()
        run.turn(*([run.err("child:control-child", ChildStartError("in use"), attempt=0)] if refused else []))
        assert run.result == ("TN127" if refused else "free")
        assert run.commands_of(StartChild) == []


def test_a_send_withdrawn_in_its_own_turn_is_not_sent(drive):
    """T7"""

    async def body() -> Any:
        background = asyncio.create_task(signal("other", "hello"))
        await asyncio.sleep(0)
        background.cancel()
        return await step("a", work)

    run = drive(body)
    turn = run.turn()
    assert run.commands_of(SendSignal) == []
    assert turn.batch.entries == ()
    run.turn(run.ok("a", 1))
    assert run.result == 1
