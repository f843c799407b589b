"""Where Temporal forces a difference (X1 to X6), and what is the same all the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, add, add_numbers, fresh, held, hold, note, stop

from tenuto import (
    NoReply,
    Reject,
    Reply,
    RunHandle,
    Task,
    Tenuto,
    Update,
    deprecate_patch,
    hook,
    patched,
    publish_state,
    receive,
    removed,
    side_effect,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import StoreUnavailableError, UnsupportedError, UpdateFailedError, UpdateRejectedError


async def events(stage: Stage, run: RunHandle[Any]) -> list[str]:
    """The types of the run's events, shortened."""
    from temporalio.api.enums.v1 import EventType

    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]


# --- X1


@workflow
async def sells_the_last(name: str) -> int:
    def in_stock(stock: int) -> None:
        if not stock:
            raise Reject("sold out")

    async def take(stock: int) -> Reply[int]:
        await hold(name)
        return Reply("sold", stock - 1)

    return (await receive(1, updates={"take": Update(take, in_stock)}, signals={"stop": stop})).state


async def test_an_update_that_no_longer_holds_when_its_turn_comes_fails_as_stale(temporal_stage: Stage) -> None:
    """X1, M046: our own engines reject it"""
    stage = temporal_stage
    gate = held(name := fresh("stock"))
    run = await stage.start(sells_the_last, name)
    await stage.until_accepting(run, "take")
    first = stage.ask(run, "take")
    await gate.until_entered()
    second = stage.ask(run, "take")

    async def both_accepted() -> bool:
        return (await events(stage, run)).count("WORKFLOW_EXECUTION_UPDATE_ACCEPTED") == 2

    await stage.until(both_accepted)
    gate.gate.set()
    assert await first == "sold"
    with pytest.raises(UpdateFailedError) as failed:
        await second
    assert failed.value.why == "stale"
    assert isinstance(failed.value.__cause__, UpdateRejectedError)
    assert failed.value.__cause__.reason == "sold out"
    with pytest.raises(UpdateRejectedError):
        await run.update("take", timeout=LIMIT)
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 0


async def test_a_rejected_update_writes_nothing(temporal_stage: Stage) -> None:
    """M039, M040"""
    stage = temporal_stage
    run = await stage.start(sells_the_last, fresh("unused"))
    await stage.until_accepting(run, "take")
    before = await events(stage, run)
    with pytest.raises(UpdateRejectedError, match="not_accepting"):
        await run.update("unheard of", timeout=LIMIT)
    assert await events(stage, run) == before
    await run.terminate()


async def test_the_same_update_id_twice_gives_one_accepted_event(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(adds_up)
    assert await run.update("add", 1, id="same", retry_for=LIMIT, timeout=LIMIT) == 1
    assert await run.update("add", 1, id="same", timeout=LIMIT) == 1
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [1]
    assert (await events(stage, run)).count("WORKFLOW_EXECUTION_UPDATE_ACCEPTED") == 1


@workflow
async def adds_up() -> Any:
    return (await receive([], updates={"add": add}, signals={"stop": stop})).state


@workflow
async def validates_once(key: str, name: str) -> Any:
    def check(state: list[Any], item: Any) -> None:
        EFFECTS[key].append(item)

    received = await receive([], updates={"add": Update(add, check)}, signals={"stop": stop})
    await hold(name)
    return received.state


async def test_an_accepted_update_is_not_validated_again_on_replay(forgetful_stage: Stage) -> None:
    """M042, of an update that did not have to wait"""
    stage = forgetful_stage
    key, gate = fresh("validates"), held(name := fresh("validates"))
    run = await stage.start(validates_once, key, name)
    assert await run.update("add", 1, retry_for=LIMIT, timeout=LIMIT) == 1
    await run.signal("stop")
    await gate.until_entered()
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == [1]
    assert EFFECTS[key] == [1]


# --- X2


@workflow
async def computes(key: str) -> Any:
    def compute() -> int:
        EFFECTS[key].append(1)
        return len(EFFECTS[key])

    value = await side_effect(compute)
    await note(key, "step")
    await wait_for_signal("go")
    return value


async def test_a_recorded_side_effect_is_not_computed_again_on_replay(forgetful_stage: Stage) -> None:
    """X2"""
    stage = forgetful_stage
    run = await stage.start(computes, key := fresh("computes"))
    await stage.until_waiting_for(run, "go")
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == 1
    assert EFFECTS[key] == [1, "step"]
    assert "MARKER_RECORDED" in await events(stage, run)


# --- X3


async def test_a_query_needs_a_worker(temporal_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """X3, M022 with and without a worker"""
    monkeypatch.setattr("tenuto.temporal.connection.ANSWER_WITHIN", timedelta(seconds=2))
    url = f"temporal://{temporal_server}/default?task_queue={fresh('lonely')}"
    async with Tenuto(url, grace=1) as app:
        run = await app.start(publishes)
        await run.result(timeout=LIMIT)
        assert await run.query() == {"n": 3}
    async with Tenuto(url, worker=False) as client:
        with pytest.raises(StoreUnavailableError, match="worker"):
            await client.get(run.id).query()


@workflow
async def publishes() -> None:
    publish_state({"n": 3})


# --- X4, X6: code that changed

DEPLOYED: dict[str, int] = {}  # which version of the code a case has deployed


async def until_at_rest(stage: Stage, run: RunHandle[Any]) -> None:
    """Until it waits and nothing it did is still to be recorded: what is deployed now meets a history."""
    await stage.until_waiting_for(run, "go")
    await stage.until_is(run, "suspended")


@workflow
async def changes(key: str) -> Any:
    seen: list[Any] = []
    if DEPLOYED[key] == 2:
        seen.append(await add_numbers(0, 0))
    seen.append(await note(key, 1))
    if DEPLOYED[key] == 3:
        seen.append(patched("p"))
    await wait_for_signal("go")
    if DEPLOYED[key] == 3:
        seen.append(patched("p"))
    return seen


async def test_an_inserted_step_parks_the_run_until_the_code_fits_again(forgetful_stage: Stage) -> None:
    """X4, X6"""
    stage = forgetful_stage
    stage.tasks_may_fail = True
    key = fresh("inserted")
    DEPLOYED[key] = 1
    run = await stage.start(changes, key)
    await until_at_rest(stage, run)
    DEPLOYED[key] = 2
    await run.signal("go")
    await stage.until_is(run, "parked")
    explained = await run.explain()
    assert explained.status == "parked"
    assert explained.reason is not None
    assert "ondeterminism" in explained.reason
    DEPLOYED[key] = 1
    assert await run.result(timeout="60s") == [1]


async def test_a_patch_is_refused_by_runs_that_are_past_it(forgetful_stage: Stage) -> None:
    """M025"""
    stage = forgetful_stage
    key = fresh("past")
    DEPLOYED[key] = 1
    run = await stage.start(changes, key)
    await until_at_rest(stage, run)
    DEPLOYED[key] = 3
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [1, False, False]


@workflow
async def patches(key: str) -> Any:
    await note(key, "before")
    if DEPLOYED[key] == 1:
        taken = [patched("p") for _ in range(10)]
    elif DEPLOYED[key] == 2:
        deprecate_patch("p")
        taken = ["deprecated"]
    else:
        taken = []
    await wait_for_signal("go")
    return taken


async def test_a_patch_is_taken_by_new_runs_and_decided_once(forgetful_stage: Stage) -> None:
    """M024, M026, M027"""
    stage = forgetful_stage
    key = fresh("taken")
    DEPLOYED[key] = 1
    run = await stage.start(patches, key)
    await until_at_rest(stage, run)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [True] * 10
    assert (await events(stage, run)).count("MARKER_RECORDED") == 1
    assert [entry.location for entry in await run.history() if entry.kind == "patch"] == ["?p"]


async def test_a_deprecated_patch_goes_on_with_both_histories(forgetful_stage: Stage) -> None:
    stage = forgetful_stage
    for first in (1, 2):
        key = fresh("deprecated")
        DEPLOYED[key] = first
        run = await stage.start(patches, key)
        await until_at_rest(stage, run)
        DEPLOYED[key] = 2
        await run.signal("go")
        assert await run.result(timeout=LIMIT) == ["deprecated"]


async def test_a_patch_that_is_gone_from_the_code_parks_the_run(forgetful_stage: Stage) -> None:
    """M028"""
    stage = forgetful_stage
    stage.tasks_may_fail = True
    key = fresh("gone")
    DEPLOYED[key] = 1
    run = await stage.start(patches, key)
    await until_at_rest(stage, run)
    before = (await events(stage, run)).count("ACTIVITY_TASK_SCHEDULED")
    DEPLOYED[key] = 3
    await run.signal("go")
    await stage.until_is(run, "parked")
    assert "p" in str((await run.explain()).reason)
    assert (await events(stage, run)).count("ACTIVITY_TASK_SCHEDULED") == before
    await run.terminate()


# --- X5: what Temporal cannot do


async def test_verbs_that_temporal_does_not_have_say_what_to_use_instead(temporal_server: str) -> None:
    async with Tenuto(f"temporal://{temporal_server}/default?task_queue={fresh('verbs')}", worker=False) as app:
        run = await app.start(publishes)
        calls = (
            run.pause,
            run.resume,
            run.wake,
            run.recover,
            lambda: run.rewind(to="note"),
            lambda: run.supply("note", 1),
            lambda: app.start(publishes, key="k"),
            lambda: app.start(publishes, partition="p"),
        )
        for call in calls:
            with pytest.raises(UnsupportedError, match="Temporal"):
                await call()
        await run.terminate()


@workflow
async def asks_for_too_much(other: str) -> list[str]:
    async def attach() -> None:
        await spawn(publishes, id=other, if_exists="attach")

    async def own_token() -> None:
        await hook("my-own-token")

    async def key() -> None:
        Task.run(add_numbers, 1, 2, key="k")

    async def gone() -> None:
        removed("note", "step")

    async def once() -> None:
        await step("once", lambda: 1, max_attempts=1)

    seen: list[str] = []
    for ask in (attach, own_token, key, gone, once):
        try:
            await ask()
        except UnsupportedError as error:
            seen.append(f"{ask.__name__} {error.code}")
    await sleep(0)
    return seen


async def test_what_a_workflow_cannot_have_on_temporal_is_refused_at_the_call(temporal_stage: Stage) -> None:
    """X5, M091 and M107 in part"""
    refused = ["attach TN220", "own_token TN220", "key TN220", "gone TN220", "once TN220"]
    run = await temporal_stage.start(asks_for_too_much, "other")
    assert await run.result(timeout=LIMIT) == refused
    assert [entry.location for entry in await run.history()] == ["sleep"]


# --- what both tools show


@workflow
async def sums(left: int, right: int) -> int:
    return await add_numbers(left, right)


@workflow
async def has_an_urgent_child() -> int:
    return await (await spawn(sums, 1, 2, priority=2))


async def test_the_cluster_gets_the_priority_of_a_child(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(has_an_urgent_child)
    assert await run.result(timeout=LIMIT) == 3
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    started = [event.start_child_workflow_execution_initiated_event_attributes for event in history.events]
    assert [one.priority.priority_key for one in started if one.workflow_id] == [1]  # the highest there is


async def test_activities_and_timers_are_called_by_their_locations(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(has_places, key := fresh("places"))
    assert await run.result(timeout=LIMIT) == 1
    history = await stage.app.engine._connection.handle(run.id).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    assert [(item.activity_id, item.activity_type.name) for item in scheduled if item.activity_id] == [
        ("note", note.id),
        ("note#2", note.id),
    ]
    timers = [
        event.user_metadata.summary.data for event in history.events if event.HasField("timer_started_event_attributes")
    ]
    assert timers == [b'"sleep"']
    assert history.events[0].workflow_execution_started_event_attributes.workflow_type.name == has_places.id
    assert EFFECTS[key] == [1, 1]


@workflow
async def has_places(key: str) -> int:
    await note(key, 1)
    await sleep("10ms")
    return await note(key, 1)


@workflow
async def talks_to_strangers(first: Any, second: int) -> Any:
    publish_state({"first": first})
    said = await wait_for_signal("say")
    return [first, second, said, (await receive([], updates={"add": add}, signals={"stop": stop})).state]


@talks_to_strangers.query("first")
def first_of(state: Any) -> Any:
    return state["first"]


async def test_a_client_of_another_language_can_start_signal_query_and_update(temporal_stage: Stage) -> None:
    from temporalio.client import Client

    stage = temporal_stage
    address = stage.app.engine._connection.address
    client = await Client.connect(address.host)
    handle = await client.start_workflow(
        talks_to_strangers.id, args=[{"a": 1}, 2], id=fresh("stranger"), task_queue=address.task_queue
    )
    stage.started.append(handle.id)
    assert await handle.query("first") == {"a": 1}
    await handle.signal("say", args=["hello", 3])
    run = stage.app.get(handle.id)
    await stage.until_accepting(run, "add")
    await handle.execute_update("add", {"b": 2})
    await handle.signal("stop")
    assert await run.result(timeout=LIMIT) == [{"a": 1}, 2, ("hello", 3), [{"b": 2}]]


async def test_a_run_without_its_definition_waits_for_a_deploy(temporal_stage: Stage) -> None:
    stage = temporal_stage
    stage.tasks_may_fail = True
    run = await stage.start("workflow//elsewhere.py//unheard_of")
    await stage.until_is(run, "parked")
    assert "unheard_of" in str((await run.explain()).reason)
    await run.terminate()


async def test_a_step_that_no_worker_knows_is_said_so(temporal_stage: Stage) -> None:
    stage = temporal_stage
    run = await stage.start(calls_the_unknown)
    await asyncio.sleep(0)

    async def has_failed_once() -> bool:
        description = await stage.app.engine._connection.handle(run.id).describe()
        pending = description.raw_description.pending_activities
        return bool(pending) and "does not know" in pending[0].last_failure.message

    await stage.until(has_failed_once)
    await run.terminate()


@workflow
async def calls_the_unknown() -> Any:
    return await Task.run("step//elsewhere.py//unheard_of", 1)


@workflow
async def looks_at_once() -> Any:
    def count(state: int) -> NoReply[int]:
        return NoReply(state + 1)

    return await receive(0, signals={"count": count}, timeout=0)


async def test_signals_of_before_the_first_task_are_there_when_the_run_looks_at_once(temporal_stage: Stage) -> None:
    stage = temporal_stage
    queue = fresh("before")
    run = await stage.start(looks_at_once, queue=queue)
    for _ in range(3):
        await run.signal("count")
    async with Tenuto(stage.url, grace=1, queues=[queue]):
        assert await run.result(timeout=LIMIT) == (3, True)


def test_programs_without_await_use_a_cluster_too(temporal_server: str) -> None:
    with Tenuto.sync(f"temporal://{temporal_server}/default?task_queue={fresh('sync')}", grace=1) as app:
        run = app.start(has_places, fresh("sync"))
        assert run.result(timeout=LIMIT) == 1
        assert run.status() == "completed"


@workflow
async def handles_with_a_step(key: str) -> Any:
    async def take(state: list[Any], item: Any) -> Reply[list[Any]]:
        return Reply(await note(key, item), [*state, item])

    return (await receive([], updates={"take": take}, signals={"stop": stop})).state


async def test_an_acceptance_precedes_everything_its_handler_does(temporal_stage: Stage) -> None:
    """M041"""
    stage = temporal_stage
    run = await stage.start(handles_with_a_step, fresh("precedes"))
    assert await run.update("take", 1, retry_for=LIMIT, timeout=LIMIT) == 1
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [1]
    seen = [event for event in await events(stage, run) if "UPDATE" in event or "ACTIVITY" in event]
    assert seen == [
        "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
        "ACTIVITY_TASK_SCHEDULED",
        "ACTIVITY_TASK_STARTED",
        "ACTIVITY_TASK_COMPLETED",
        "WORKFLOW_EXECUTION_UPDATE_COMPLETED",
    ]
