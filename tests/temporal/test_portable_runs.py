"""Starting, chains, children and cancellation: the same on every engine."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, SHORT, Stage, fresh, held, hold, note, stop

from tenuto import (
    ContinueAsNew,
    FatalError,
    NoReply,
    Reply,
    Tenuto,
    Workflow,
    detach,
    partial_state,
    patched,
    publish_state,
    receive,
    run_info,
    shield,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import (
    AmbiguousNameError,
    ChildCancelledError,
    ChildFailedError,
    ChildStartError,
    DefinitionNotFoundError,
    RunCancelledError,
    RunClosedError,
    RunFailedError,
    RunIdConflictError,
    RunNotFoundError,
    RunTerminatedError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.model.registry import default


@workflow
async def doubles(number: int, by: int = 2) -> int:
    return number * by


@workflow
async def waits() -> Any:
    publish_state("waiting")
    return await wait_for_signal("go")


@step
async def works_the_second_time(key: str) -> str:
    EFFECTS[key].append(1)
    if len(EFFECTS[key]) == 1:
        raise FatalError("at first")
    return "then"


@workflow
async def fails_at_first(key: str) -> str:
    return await works_the_second_time(key)


async def test_the_same_start_gives_the_same_run_and_another_one_a_conflict(stage: Stage) -> None:
    run_id = fresh("start")
    run = await stage.start(doubles, 21, id=run_id)
    assert await run.result(timeout=LIMIT) == 42
    assert (await stage.start(doubles, 21, id=run_id)).id == run_id
    assert (await stage.start(doubles, 1, id=run_id, if_exists="attach")).id == run_id
    for options in ({}, {"if_exists": "error"}):
        with pytest.raises(RunIdConflictError):
            await stage.start(doubles, 1, id=run_id, **options)
    with pytest.raises(RunIdConflictError):
        await stage.start(waits, id=run_id)
    assert await stage.run(doubles.bind(5, by=3)) == 15
    assert await stage.run(doubles.id, 4) == 8


async def test_a_failed_run_can_be_started_again_under_its_id(stage: Stage) -> None:
    run_id, key = fresh("again"), fresh("again")
    run = await stage.start(fails_at_first, key, id=run_id)
    with pytest.raises(RunFailedError):
        await run.result(timeout=LIMIT)
    assert await stage.run(fails_at_first, key, id=run_id, if_exists="restart_failed") == "then"
    assert EFFECTS[key] == [1, 1]
    assert (await stage.start(fails_at_first, key, id=run_id, if_exists="restart_failed")).id == run_id


async def test_a_run_that_is_nowhere_is_said_to_be(stage: Stage) -> None:
    nobody = stage.app.get("nobody-has-this-id")
    for ask in (nobody.status, nobody.history, nobody.explain, nobody.query, nobody.cancel, nobody.terminate):
        with pytest.raises(RunNotFoundError):
            await ask()
    with pytest.raises(RunNotFoundError):
        await nobody.result(timeout=LIMIT)


@workflow(name="portable.renamed")
async def renamed() -> str:
    return run_info().workflow


async def test_a_workflow_is_started_by_its_id_or_the_last_part_of_it(stage: Stage) -> None:
    """M106"""
    assert await stage.run("portable.renamed") == "portable.renamed"
    assert await stage.run(doubles.id, 2) == 4


async def test_a_start_may_be_delayed(stage: Stage) -> None:
    run = await stage.start(doubles, 1, delay="1s")
    assert await run.status() == "scheduled"
    assert await run.result(timeout=LIMIT) == 2


async def test_runs_are_listed_with_what_was_said_about_them(stage: Stage) -> None:
    tag = fresh("tag")
    run = await stage.start(waits, attributes={"tag": tag, "n": 1})
    ended = await stage.start(doubles, 1, attributes={"tag": tag})
    await ended.result(timeout=LIMIT)

    async def are_listed() -> bool:
        found = [summary async for summary in stage.app.runs(attributes={"tag": tag})]
        return {summary.id: summary.status == "completed" for summary in found} == {run.id: False, ended.id: True}

    await stage.until(are_listed)
    (summary,) = [summary async for summary in stage.app.runs(attributes={"tag": tag, "n": 1})]
    assert (summary.workflow, dict(summary.attributes), summary.run_no) == (waits.id, {"tag": tag, "n": 1}, 1)
    (done,) = [summary async for summary in stage.app.runs(status="completed", attributes={"tag": tag})]
    assert done.id == ended.id
    assert done.completed_at is not None


async def test_a_run_can_be_watched_to_its_end(stage: Stage) -> None:
    gate = held(name := fresh("watched"))
    run = await stage.start(held_once, name)
    await gate.until_entered()

    async def watch() -> list[tuple[str, str]]:
        return [(event.location, event.status) async for event in run.watch()]

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    gate.gate.set()
    async with asyncio.timeout(30):
        seen = await watching
    assert ("hold", "completed") in seen
    assert seen[-1] == ("", "completed")


@workflow
async def held_once(name: str) -> Any:
    return await hold(name)


# --- chains


@workflow
async def counts_down(number: int) -> Any:
    info = run_info()
    if number:
        return ContinueAsNew(number - 1)
    return info.run_no, info.id


async def test_a_run_continues_as_new_under_its_id(stage: Stage) -> None:
    """M085"""
    run = await stage.start(counts_down, 1)
    assert await run.result(timeout=LIMIT) == (2, run.id)
    assert await run.history() == []


@workflow
async def hands_over(more: bool) -> Any:
    if more:
        publish_state("from the first")
        await wait_for_signal("go")
        return ContinueAsNew(False)

    def one(state: list[Any], item: Any) -> NoReply[list[Any]]:
        return NoReply([*state, item])

    await wait_for_signal("begin")
    return (await receive([], signals={"s": one, "stop": stop}, updates={"u": reply})).state


def reply(state: list[Any], item: Any) -> Reply[list[Any]]:
    return Reply(len(state), [*state, item])


async def test_unconsumed_signals_and_published_state_go_to_the_next_run_of_the_chain(stage: Stage) -> None:
    """M086, M087"""
    run = await stage.start(hands_over, True)
    for number in range(3):
        await run.signal("s", number)
    await run.signal("go")
    await stage.until_waiting_for(run, "begin")
    assert await run.query() == "from the first"
    await run.signal("begin")
    assert await run.update("u", "x", retry_for=LIMIT, timeout=LIMIT) == 3
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [0, 1, 2, "x"]


# --- children


@workflow
async def child_fails() -> None:
    raise KeyError("no stock")


@workflow
async def parent() -> list[Any]:
    child = await spawn(doubles, 4)
    seen: list[Any] = [await child, await child, child.id]
    try:
        await (await spawn(child_fails))
    except ChildFailedError as error:
        seen.append(repr(error.__cause__))
    return seen


async def test_a_child_gives_its_value_or_its_error(stage: Stage) -> None:
    """M089"""
    run = await stage.start(parent)
    assert await run.result(timeout=LIMIT) == [8, 8, f"{run.id}:0:child:doubles", "KeyError('no stock')"]


@workflow
async def leaves_children(spawned: str, detached: str) -> str:
    await spawn(waits, id=spawned)
    return await detach(waits, id=detached)


async def test_at_a_parents_end_the_spawned_child_is_cancelled_and_the_detached_one_goes_on(stage: Stage) -> None:
    """M090"""
    spawned, detached = fresh("spawned"), fresh("detached")
    assert await stage.run(leaves_children, spawned, detached) == detached
    with pytest.raises(RunCancelledError):
        await stage.app.get(spawned).result(timeout=LIMIT)
    await stage.until_published(stage.app.get(detached), "waiting")
    await stage.app.get(detached).signal("go", "on")
    assert await stage.app.get(detached).result(timeout=LIMIT) == "on"


@workflow
async def spawns_as(child_id: str) -> list[str]:
    seen: list[str] = []
    child = await spawn(doubles, 1, id=child_id)
    try:
        await child
    except ChildStartError as error:
        seen.append(error.code)
    try:
        await detach(doubles, 1, id=child_id)
    except ChildStartError as error:
        seen.append(error.code)
    return seen


async def test_a_child_cannot_have_the_id_of_another_run(stage: Stage) -> None:
    """M091, without attaching"""
    other = await stage.start(waits, id=fresh("other"))
    assert await stage.run(spawns_as, other.id) == ["TN127", "TN127"]
    ended = await stage.start(doubles, 1)
    await ended.result(timeout=LIMIT)
    assert await stage.run(spawns_as, ended.id) == ["TN127", "TN127"]


@workflow
async def talks_to_its_child() -> Any:
    child = await spawn(waits)
    await child.signal("go", "hello")
    first = await child
    other = await spawn(waits)
    other.cancel()
    try:
        await other
    except ChildCancelledError as error:
        return first, error.code


async def test_a_parent_signals_and_cancels_its_children(stage: Stage) -> None:
    assert await stage.run(talks_to_its_child) == ("hello", "TN125")


# --- cancellation


async def test_a_cancelled_run_ends_cancelled_and_its_step_is_asked_to_stop(stage: Stage) -> None:
    """M094"""
    gate = held(name := fresh("cancelled"))
    run = await stage.start(held_once, name)
    await gate.until_entered()
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    await gate.until_asked_to_stop()
    assert await run.status() == "cancelled"
    await run.cancel()  # changes nothing any more


@workflow
async def cleans_up(key: str, instead: str) -> str:
    try:
        await wait_for_signal("never")
    except CancelledError:
        await note(key, "clean")
        if instead == "return":
            return "changed its mind"
        if instead == "raise":
            raise ValueError("while cleaning up") from None
        raise
    return ""


async def test_clean_up_is_done_before_the_run_ends_as_its_code_decides(stage: Stage) -> None:
    """M095"""
    for instead, error in (("", RunCancelledError), ("return", None), ("raise", RunFailedError)):
        run = await stage.start(cleans_up, key := fresh("clean"), instead)
        await stage.until_waiting_for(run, "never")
        await run.cancel()
        if error is None:
            assert await run.result(timeout=LIMIT) == "changed its mind"
        else:
            with pytest.raises(error):
                await run.result(timeout=LIMIT)
        assert EFFECTS[key] == ["clean"]
        assert "note" in [entry.location for entry in await run.history()]


@workflow
async def shielded(name: str, key: str) -> None:
    async with shield():
        await hold(name)
        await note(key, "in the block")
        publish_state("end of the block")
    publish_state("after the block")


async def test_a_shield_holds_a_cancellation_back_until_its_end(stage: Stage) -> None:
    """M096"""
    gate, key = held(name := fresh("shield")), fresh("shield")
    run = await stage.start(shielded, name, key)
    await gate.until_entered()
    await run.cancel()
    with pytest.raises(TimeoutError):
        await run.result(timeout=SHORT)
    gate.gate.set()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    assert EFFECTS[key] == ["in the block"]
    assert await run.query() == "end of the block"


@workflow
async def cancelled_in_receive(name: str, key: str) -> None:
    def count(state: int) -> NoReply[int]:
        return NoReply(state + 1)

    async def blocked(state: int) -> Reply[int]:
        await hold(name)
        return Reply("never", state + 100)

    try:
        await receive(0, signals={"count": count}, updates={"blocked": blocked, "behind": blocked})
    except CancelledError as error:
        await note(key, partial_state(error))
        raise


async def test_a_cancelled_receive_keeps_the_state_so_far_and_settles_its_updates(stage: Stage) -> None:
    """M097"""
    gate, key = held(name := fresh("receive")), fresh("receive")
    run = await stage.start(cancelled_in_receive, name, key)
    await run.signal("count")
    running = stage.ask(run, "blocked", retry_for=LIMIT)
    await gate.until_entered()
    behind = stage.ask(run, "behind")
    if stage.on_temporal:
        await until_accepted(stage, run.id, 2)
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(behind), 0.2)
    await run.cancel()
    with pytest.raises(UpdateFailedError, match="cancelled"):
        await running
    with pytest.raises(UpdateRejectedError, match="cancelled"):
        await behind
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    assert EFFECTS[key] == [1]


async def until_accepted(stage: Stage, run_id: str, count: int) -> None:
    from temporalio.api.enums.v1 import EventType

    async def are_accepted() -> bool:
        history = await stage.app.engine._connection.handle(run_id).fetch_history()
        accepted = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
        return sum(event.event_type == accepted for event in history.events) == count

    await stage.until(are_accepted)


async def test_a_run_cancelled_before_its_first_turn_never_starts(stage: Stage) -> None:
    """M098"""
    if stage.engine == "memory":
        pytest.skip("what is in memory has one app only")
    key = fresh("never")
    if stage.on_temporal:
        queue = fresh("later")
        run = await stage.start(never_runs, key, queue=queue)
        await run.cancel()
        assert await run.status() == "pending"
        async with Tenuto(stage.url, grace=1, queues=[queue]):
            with pytest.raises(RunCancelledError):
                await run.result(timeout=LIMIT)
    else:
        run = await stage.start(never_runs, key, delay="300ms")
        await run.cancel()
        with pytest.raises(RunCancelledError):
            await run.result(timeout=LIMIT)
    assert EFFECTS[key] == []


@workflow
async def never_runs(key: str) -> None:
    EFFECTS[key].append("ran")


@workflow
async def dawdles() -> None:
    try:
        await wait_for_signal("never")
    finally:
        await sleep("1h")


async def test_clean_up_ends_when_its_time_is_over(stage: Stage) -> None:
    run = await stage.start(dawdles)
    await stage.until_waiting_for(run, "never")
    await run.cancel(within="1h")
    with pytest.raises(TimeoutError):
        await run.result(timeout=SHORT)
    await run.cancel(within="100ms")
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)


@workflow
async def swallows() -> str:
    try:
        await sleep("1h")
    except Exception:  # noqa: BLE001
        return "caught"
    return "slept"


async def test_a_suspended_run_is_never_caught_by_its_own_handlers(stage: Stage) -> None:
    """M099"""
    run = await stage.start(swallows)
    await stage.until_is(run, "suspended")
    with pytest.raises(TimeoutError):
        await run.result(timeout=SHORT)
    await run.terminate("enough")
    with pytest.raises(RunTerminatedError):
        await run.result(timeout=LIMIT)
    assert await run.status() == "terminated"
    with pytest.raises(RunClosedError):
        await run.terminate()


@workflow
async def serves_in_a_chain(more: bool) -> Any:
    received = await receive([], updates={"u": reply}, signals={"stop": stop})
    return ContinueAsNew(False) if more else received.state


async def test_an_update_id_is_remembered_by_the_whole_chain(stage: Stage) -> None:
    run = await stage.start(serves_in_a_chain, True)
    assert await run.update("u", "a", id="once", retry_for=LIMIT, timeout=LIMIT) == 0
    assert await run.update("u", "b", id="twice", timeout=LIMIT) == 1
    await run.signal("stop")
    assert await run.update("u", "c", id="new", retry_for=LIMIT, timeout=LIMIT) == 0
    assert await run.update("u", "b", id="twice", timeout=LIMIT) == 1
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["c"]


@workflow
async def takes_a_patch() -> Any:
    return [patched("p") for _ in range(10)], [patched("q"), patched("p")]


async def test_a_new_run_takes_a_patch_and_decides_once(stage: Stage) -> None:
    """M024"""
    run = await stage.start(takes_a_patch)
    assert await run.result(timeout=LIMIT) == ([True] * 10, [True, True])
    assert [entry.location for entry in await run.history()] == ["?p", "?q"]


@pytest.fixture
def twins() -> Iterator[tuple[str, str]]:
    """Two workflows of the same name in two files."""
    ids = "workflow//a.py//twin", "workflow//b.py//twin"

    async def twin() -> None: ...

    for identity in ids:
        default.register(Workflow(twin, id=identity, name="twin"))
    yield ids
    for identity in ids:
        default.forget(identity)


async def test_a_name_that_two_workflows_have_starts_neither(stage: Stage, twins: tuple[str, str]) -> None:
    """M100"""
    with pytest.raises(AmbiguousNameError) as ambiguous:
        await stage.app.start("twin")
    assert all(identity in str(ambiguous.value) for identity in twins)
    with pytest.raises(DefinitionNotFoundError):
        await stage.app.start("nobody_is_called_so")
