"""Signals, hooks, published state and queries: the same on every engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenuto_portable import LIMIT, SHORT, Stage, fresh, held, hold, stop

from tenuto import Async, NoReply, hook, parallel, publish_state, receive, signal, sleep, wait_for_signal, workflow
from tenuto.errors import (
    HookNotFoundError,
    QueryFailedError,
    QueryNotFoundError,
    ReadOnlyError,
    RunClosedError,
    RunNotFoundError,
)


@workflow
async def takes(*names: str) -> list[Any]:
    return [await wait_for_signal(name) for name in names]


async def test_buffered_signals_are_taken_in_order_of_arrival(stage: Stage) -> None:
    """M012"""
    run = await stage.start(takes, "go", "s", "s", "s")
    for number in range(3):
        await run.signal("s", number)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [None, 0, 1, 2]


async def test_a_wait_leaves_other_names_alone(stage: Stage) -> None:
    """M013"""
    run = await stage.start(takes, "s", "t")
    await run.signal("t", "T")
    with pytest.raises(TimeoutError):
        await run.result(timeout=SHORT)
    assert (await run.explain()).signals == ("s",)
    await run.signal("s", "S")
    assert await run.result(timeout=LIMIT) == ["S", "T"]


@workflow
async def two_tasks_wait() -> list[Any]:
    woken: list[Any] = []

    async def wait(who: str) -> None:
        woken.append([who, await wait_for_signal("s")])
        publish_state(len(woken))

    tasks = [asyncio.create_task(wait(who)) for who in ("first", "second")]
    await asyncio.gather(*tasks)
    return woken


async def test_waiters_are_served_in_the_order_they_began_to_wait(stage: Stage) -> None:
    """M014"""
    run = await stage.start(two_tasks_wait)
    await run.signal("s", 1)
    await stage.until_published(run, 1)
    await run.signal("s", 2)
    assert await run.result(timeout=LIMIT) == [["first", 1], ["second", 2]]


@workflow
async def times_out() -> Any:
    try:
        await wait_for_signal("s", timeout="30ms")
    except TimeoutError:
        publish_state("timed out")
    return await wait_for_signal("s")


async def test_a_wait_that_timed_out_consumes_nothing(stage: Stage) -> None:
    """M015"""
    run = await stage.start(times_out)
    await stage.until_published(run, "timed out")
    await run.signal("s", "late")
    assert await run.result(timeout=LIMIT) == "late"


async def test_a_signal_gives_nothing_a_value_or_a_tuple(stage: Stage) -> None:
    """M016"""
    run = await stage.start(takes, "s", "s", "s")
    await run.signal("s")
    await run.signal("s", [1])
    await run.signal("s", 1, 2)
    assert await run.result(timeout=LIMIT) == [None, [1], (1, 2)]


@workflow
async def steps_then_takes(name: str) -> Any:
    await hold(name)
    return await wait_for_signal("s")


async def test_a_signal_that_came_during_a_step_is_there_afterwards(stage: Stage) -> None:
    """M017"""
    gate = held(name := fresh("during"))
    run = await stage.start(steps_then_takes, name)
    await gate.until_entered()
    await run.signal("s", 7)
    gate.gate.set()
    assert await run.result(timeout=LIMIT) == 7


async def test_a_signal_to_an_ended_or_unknown_run_is_refused(stage: Stage) -> None:
    """M018"""
    run = await stage.start(takes)
    assert await run.result(timeout=LIMIT) == []
    with pytest.raises(RunClosedError):
        await run.signal("s", 1)
    with pytest.raises(RunNotFoundError):
        await stage.app.get("nobody").signal("s")


async def test_the_same_signal_id_again_is_the_same_signal(stage: Stage) -> None:
    run = await stage.start(takes, "s", "t")
    for _ in range(3):
        await run.signal("s", 1, id="once")
    await run.signal("t", 2)
    assert await run.result(timeout=LIMIT) == [1, 2]


# --- published state


@workflow
async def publishes() -> None:
    state: dict[str, int] = {}
    publish_state(state)
    state["x"] = 1
    await wait_for_signal("go")


async def test_a_snapshot_is_what_was_published_not_what_became_of_it(stage: Stage) -> None:
    """M019"""
    run = await stage.start(publishes)
    await stage.until_waiting_for(run, "go")
    assert await run.query() == {}


@workflow
async def publishes_everywhere(name: str) -> None:
    def sync_handler(state: int) -> NoReply[int]:
        publish_state("handler")
        return NoReply(state)

    def async_handler(state: int) -> Async[int]:
        async def go_on() -> None:
            publish_state("async")
            await hold(name)

        return Async(go_on, state)

    async def branch() -> None:
        publish_state("branch")
        await wait_for_signal("next")

    publish_state("run")
    await wait_for_signal("next")
    await parallel([branch])
    await receive(0, signals={"sync": sync_handler, "async": async_handler, "stop": stop})


async def test_state_can_be_published_from_everywhere(stage: Stage) -> None:
    """M020"""
    gate = held(name := fresh("publish"))
    run = await stage.start(publishes_everywhere, name)
    await stage.until_published(run, "run")
    for sent, state in (("next", "branch"), ("next", "branch"), ("sync", "handler"), ("async", "async")):
        await run.signal(sent)
        await stage.until_published(run, state)
    gate.gate.set()
    await run.signal("stop")
    await run.result(timeout=LIMIT)
    assert await run.query() == "async"


@workflow
async def is_asked() -> str:
    await wait_for_signal("go")
    publish_state({"n": 3})
    return "went on"


@is_asked.query("n")
def n_plus(state: Any, number: int) -> int:
    return (0 if state is None else state["n"]) + number


@is_asked.query("is_none")
def is_none(state: Any) -> bool:
    return state is None


@is_asked.query("broken")
def broken(state: Any) -> Any:
    return state["x"]


@is_asked.query("naughty")
def naughty(state: Any) -> Any:
    return sleep(1)


async def test_queries_work_on_the_last_snapshot_also_after_the_end(stage: Stage) -> None:
    """M021, M022, M023, M048 (the query)"""
    run = await stage.start(is_asked)
    assert await run.query("is_none") is True
    await stage.until_waiting_for(run, "go")
    assert await run.query(is_none) is True
    for query, cause in ((broken, TypeError), (naughty, ReadOnlyError)):
        with pytest.raises(QueryFailedError) as failed:
            await run.query(query)
        assert isinstance(failed.value.__cause__, cause)
    with pytest.raises(QueryNotFoundError):
        await run.query("unheard of")
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == "went on"
    assert (await run.query("n", 4), await run.query(n_plus, 5)) == (7, 8)
    with pytest.raises(RunNotFoundError):
        await stage.app.get("nobody").query()


# --- to others


@workflow
async def waits_for_two() -> list[Any]:
    return [await wait_for_signal("go"), await wait_for_signal("go")]


@workflow
async def sends(to: str) -> str:
    await signal(to, "go", 1)
    await signal("nobody-has-this-id", "go", name="lost")
    await signal(to, "go", 2)
    return "went on"


async def test_a_signal_to_another_run_is_delivered_and_a_lost_one_is_noted(stage: Stage) -> None:
    """M092"""
    receiver = await stage.start(waits_for_two)
    run = await stage.start(sends, receiver.id)
    assert await run.result(timeout=LIMIT) == "went on"
    assert await receiver.result(timeout=LIMIT) == [1, 2]
    outcomes = [(entry.location, entry.status) for entry in await run.history()]
    assert outcomes == [("send:go", "completed"), ("lost", "failed"), ("send:go#2", "completed")]


@workflow
async def writes_to_itself(own: str) -> Any:
    await signal(own, "echo", "hello")
    return await wait_for_signal("echo")


async def test_a_run_can_send_to_itself(stage: Stage) -> None:
    assert await stage.run(writes_to_itself, own := fresh("self"), id=own) == "hello"


@workflow
async def called_back() -> list[Any]:
    opened = await hook()
    publish_state(opened.token)
    await wait_for_signal("go")
    got = [await opened, await opened]
    opened.close()
    publish_state("closed")
    await wait_for_signal("end")
    return got


async def test_payloads_sent_to_a_hook_before_its_first_await_are_taken_in_order(stage: Stage) -> None:
    """M093"""
    run = await stage.start(called_back)

    async def is_open() -> bool:
        return await run.query() is not None

    await stage.until(is_open)
    token = await run.query()
    await stage.app.send_hook(token, {"n": 1})
    await stage.app.send_hook(token, {"n": 2})
    with pytest.raises(HookNotFoundError):
        await stage.app.send_hook(token[:-1] + "?", 3)
    await run.signal("go")
    await stage.until_published(run, "closed")
    with pytest.raises(HookNotFoundError):
        await stage.app.send_hook(token, 4)
    await run.signal("end")
    assert await run.result(timeout=LIMIT) == [{"n": 1}, {"n": 2}]
    for unknown in (token, "unheard-of", "", "a.b"):
        with pytest.raises((HookNotFoundError, ValueError)):
            await stage.app.send_hook(unknown, 5)
