"""receive, updates and async handlers: the same on every engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenuto_portable import EFFECTS, LIMIT, Stage, add, append, fresh, held, hold, note, stop

from tenuto import (
    Async,
    ContinueAsNew,
    NoReply,
    Received,
    Reject,
    Reply,
    Stop,
    Update,
    Workflow,
    parallel,
    publish_state,
    receive,
    update_state,
    wait_for_signal,
    workflow,
)
from tenuto.errors import HandlerReturnError, NestingError, ReceiveConfigError, UpdateFailedError, UpdateRejectedError


@workflow
async def collects() -> list[Any]:
    return (await receive([], updates={"add": add}, signals={"append": append, "stop": stop})).state


async def test_signals_thread_the_state_until_stop(stage: Stage) -> None:
    """M029, M030"""
    run = await stage.start(collects)
    for number in range(3):
        await run.signal("append", number)
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [0, 1, 2]


async def test_an_update_is_answered_and_receive_goes_on_with_its_state(stage: Stage) -> None:
    """M031"""
    run = await stage.start(collects)
    assert await run.update("add", "x", retry_for=LIMIT, timeout=LIMIT) == 1
    assert await run.update("add", "y", timeout=LIMIT) == 2
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["x", "y"]


@workflow
async def finishes() -> int:
    def finish(state: int, by: int) -> Stop[int]:
        return Stop(state + by, reply="bye")

    return (await receive(1, updates={"finish": finish})).state


async def test_an_update_may_stop_with_an_answer(stage: Stage) -> None:
    """M032"""
    run = await stage.start(finishes)
    assert await run.update("finish", 4, retry_for=LIMIT, timeout=LIMIT) == "bye"
    assert await run.result(timeout=LIMIT) == 5


@workflow
async def late_receiver(key: str) -> Any:
    await wait_for_signal("go")

    def one(state: list[Any], item: Any) -> NoReply[list[Any]]:
        return NoReply([*state, f"one {item}"])

    async def two(state: list[Any], item: Any) -> NoReply[list[Any]]:
        await note(key, item)
        return NoReply([*state, f"two {item}"])

    received = await receive([], signals={"one": one, "two": two, "stop": stop})
    return received.state, await wait_for_signal("other")


async def test_buffered_messages_are_dispatched_in_order_of_arrival_over_names(stage: Stage) -> None:
    """M033, M034, M036"""
    run = await stage.start(late_receiver, fresh("late"))
    for name, item in (("one", 1), ("other", "kept"), ("two", 2), ("one", 3), ("two", 4)):
        await run.signal(name, item)
    await run.signal("go")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == (["one 1", "two 2", "one 3", "two 4"], "kept")


@workflow
async def slow_handler(name: str) -> list[Any]:
    async def slow(state: list[Any], item: Any) -> NoReply[list[Any]]:
        if not state:
            await hold(name)
        return NoReply([*state, item])

    return (await receive([], signals={"slow": slow, "stop": stop}, updates={"add": add})).state


async def test_nothing_is_dispatched_until_a_handler_has_returned(stage: Stage) -> None:
    """M035"""
    gate = held(name := fresh("slow"))
    run = await stage.start(slow_handler, name)
    await run.signal("slow", 1)
    await gate.until_entered()
    answer = stage.ask(run, "add", 2)
    await asyncio.sleep(0)
    gate.gate.set()
    assert await answer == 2
    await run.signal("slow", 3)
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == [1, 2, 3]


@workflow
async def careless() -> Any:
    def spoil(state: dict[str, int]) -> Reply[dict[str, int]]:
        state["x"] = 1
        raise ValueError("after all")

    def wrong(state: dict[str, int]) -> Any:
        return NoReply({"x": 2})

    def again(state: dict[str, int]) -> Any:
        return ContinueAsNew()

    def silent(state: dict[str, int]) -> Any:
        raise ValueError("nobody hears this")

    updates: dict[str, Any] = {"spoil": spoil, "wrong": wrong, "again": again}
    return (await receive({"x": 0}, updates=updates, signals={"silent": silent, "stop": stop})).state


async def test_what_a_handler_does_wrong_fails_its_update_and_nothing_else(stage: Stage) -> None:
    """M037, M050, M088"""
    run = await stage.start(careless)
    await run.signal("silent")
    for name, cause in (("spoil", ValueError), ("wrong", HandlerReturnError), ("again", HandlerReturnError)):
        with pytest.raises(UpdateFailedError) as failed:
            await run.update(name, retry_for=LIMIT, timeout=LIMIT)
        assert (failed.value.why, type(failed.value.__cause__)) == ("handler", cause)
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == {"x": 0}


@workflow
async def waits() -> Any:
    return await wait_for_signal("go")


async def test_an_update_outside_receive_is_rejected(stage: Stage) -> None:
    """M039, M048 (the update)"""
    run = await stage.start(waits)
    await stage.until_waiting_for(run, "go")
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", 1, id="u", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    await run.signal("go", "on")
    assert await run.result(timeout=LIMIT) == "on"
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", 1, timeout=LIMIT)
    assert rejected.value.why == "closed"


@workflow
async def guarded(key: str) -> Any:
    def handler(state: dict[str, int], by: int) -> Reply[dict[str, int]]:
        EFFECTS[key].append(by)
        return Reply(state["x"] + by, {"x": state["x"] + by})

    def check(state: dict[str, int], by: int) -> None:
        state["x"] = 99
        if by < 0:
            raise Reject("no")
        if by == 0:
            publish_state("spoilt")

    received = await receive({"x": 1}, updates={"u": Update(handler, check)}, signals={"stop": stop})
    return received.state


async def test_a_validator_rejects_and_touches_nothing(stage: Stage) -> None:
    """M040, M043, M044"""
    run = await stage.start(guarded, key := fresh("guarded"))
    await stage.until_accepting(run, "u")
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("u", -1, id="once", timeout=LIMIT)
    assert (rejected.value.why, rejected.value.reason) == ("validator", "no")
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("u", 0, timeout=LIMIT)
    assert rejected.value.why == "validator"
    assert await run.query() is None
    assert await run.update("u", 2, id="once", timeout=LIMIT) == 3  # a rejected id is forgotten
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == {"x": 3}
    assert EFFECTS[key][-1] == 2
    assert set(EFFECTS[key]) == {2}


@workflow
async def misconfigured() -> list[str]:
    async def validator(state: int) -> None: ...

    seen: list[str] = []
    for options in ({}, {"updates": {"u": Update(add, validator)}}, {"signals": {"s": 5}}):
        try:
            await receive(0, **options)
        except ReceiveConfigError as error:
            seen.append(error.code)
    try:
        await receive(0, signals={"s": stop}, checkpoint_every=0)
    except ValueError:
        seen.append("ValueError")
    return seen


async def test_a_receive_that_cannot_work_is_refused_at_the_call(stage: Stage) -> None:
    """M045, M068, M105"""
    assert await stage.run(misconfigured) == ["TN107", "TN107", "TN107", "ValueError"]


@workflow
async def takes_slowly(name: str, key: str) -> int:
    async def take(state: int, item: str) -> Reply[int]:
        await hold(name)
        await note(key, item)
        return Reply(f"{item} number {state}", state + 1)

    return (await receive(0, updates={"take": take}, signals={"stop": stop})).state


async def test_an_update_sent_twice_under_one_id_is_handled_once(stage: Stage) -> None:
    """M047"""
    gate, key = held(name := fresh("twice")), fresh("twice")
    run = await stage.start(takes_slowly, name, key)
    await stage.until_accepting(run, "take")
    answers = [stage.ask(run, "take", "violin", id="same") for _ in range(2)]
    await gate.until_entered()
    gate.gate.set()
    assert await asyncio.gather(*answers) == ["violin number 0"] * 2
    assert await run.update("take", "violin", id="same", timeout=LIMIT) == "violin number 0"
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 1
    assert await run.update("take", "violin", id="same", timeout=LIMIT) == "violin number 0"
    assert EFFECTS[key] == ["violin"]


@workflow
async def receives_after_a_step(name: str) -> Any:
    await hold(name)
    return (await receive([], updates={"add": add}, signals={"stop": stop})).state


async def test_an_update_that_may_wait_is_accepted_once_receive_is_entered(stage: Stage) -> None:
    """M049"""
    gate = held(name := fresh("waits"))
    run = await stage.start(receives_after_a_step, name)
    await gate.until_entered()
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", "too early", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    answer = stage.ask(run, "add", "x", id="patient", retry_for=LIMIT)
    gate.gate.set()
    assert await answer == 1
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["x"]


# --- async handlers


@workflow
async def orders(first: str, second: str) -> list[Any]:
    def later(state: list[Any], name: str) -> Async[list[Any]]:
        async def go_on() -> Any:
            value = await hold(name, name)
            (seen,) = await parallel([lambda: remember(value)])
            if name == second:
                raise ValueError("after all")
            return seen

        return Async(go_on, [*state, f"asked {'first' if name == first else 'second'}"])

    async def remember(value: Any) -> int:
        return update_state(lambda state: (len(state), [*state, "first" if value == first else "second"]))

    return (await receive([], updates={"later": later, "add": add}, signals={"stop": stop})).state


async def test_async_functions_go_on_while_others_are_dispatched(stage: Stage) -> None:
    """M051, M052, M053, M054, M055, M059, M061, M062"""
    names = fresh("first"), fresh("second")
    gates = [held(name) for name in names]
    run = await stage.start(orders, *names)
    await stage.until_accepting(run, "later")
    answers = []
    for name, gate in zip(names, gates, strict=True):
        answers.append(stage.ask(run, "later", name))
        await gate.until_entered()
    assert await run.update("add", "meanwhile", timeout=LIMIT) == 3
    await run.signal("stop")

    async def drains() -> bool:
        return "add" not in (await run.explain()).updates

    await stage.until(drains)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", "too late", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    gates[1].gate.set()
    with pytest.raises(UpdateFailedError, match="handler"):
        await answers[1]
    gates[0].gate.set()
    assert await answers[0] == 4
    assert await run.result(timeout=LIMIT) == ["asked first", "asked second", "meanwhile", "second", "first"]


@workflow
async def closures(key: str) -> Any:
    def change(state: int) -> Async[int]:
        async def go_on() -> list[str]:
            seen: list[str] = []
            for closure in (lambda state: state, publishing, lambda state: ("same", state)):
                try:
                    seen.append(str(update_state(closure)))
                except (HandlerReturnError, ValueError) as error:
                    seen.append(type(error).__name__)
            try:
                await receive(0, signals={"x": stop})
            except NestingError as error:
                seen.append(error.code)
            return seen

        return Async(go_on, state)

    def publishing(state: int) -> Any:
        publish_state("never")
        raise ValueError("after all")

    return (await receive(7, updates={"change": change}, signals={"stop": stop})).state


async def test_an_update_state_that_fails_changes_nothing(stage: Stage) -> None:
    """M056, M057, M058, M060"""
    run = await stage.start(closures, fresh("closures"))
    seen = await run.update("change", retry_for=LIMIT, timeout=LIMIT)
    assert seen == ["HandlerReturnError", "ValueError", "same", "TN102"]
    assert await run.query() is None
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 7


# --- the end


@workflow
async def two_receives() -> Any:
    first = await receive([], signals={"append": append, "stop": stop})
    publish_state("first over")
    second = await receive([], signals={"append": append, "stop": stop})
    return first.state, second.state


async def test_undispatched_signals_go_to_the_next_receive_in_order(stage: Stage) -> None:
    """M063"""
    run = await stage.start(two_receives)
    for item in (1, None, 2, 3, 4):
        await (run.signal("stop") if item is None else run.signal("append", item))
    await stage.until_published(run, "first over")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ([1], [2, 3, 4])


@workflow
async def patient(name: str) -> Any:
    silent = await receive(1, signals={"s": stop}, timeout="50ms")

    async def slow(state: int) -> Stop[int]:
        publish_state("in the handler")
        await hold(name)
        return Stop(state + 1)

    busy = await receive(2, updates={"slow": slow}, timeout="1500ms")
    stopped = await receive(3, signals={"s": stop}, timeout="1h")
    return silent, busy, stopped, type(silent) is Received


async def test_a_timeout_ends_receive_and_a_running_handler_still_counts(stage: Stage) -> None:
    """M064, M065, M067"""
    gate = held(name := fresh("patient"))
    run = await stage.start(patient, name)
    answer = stage.ask(run, "slow", retry_for=LIMIT)
    await gate.until_entered()
    with pytest.raises(TimeoutError):
        await run.result(timeout="1800ms")
    gate.gate.set()
    await run.signal("s")
    assert await answer is None
    assert await run.result(timeout=LIMIT) == ((1, True), (3, True), (3, False), True)


@workflow
async def leaves_a_task(key: str) -> Any:
    async def start(state: int) -> NoReply[int]:
        async def linger() -> None:
            try:
                await wait_for_signal("never")
            finally:
                await note(key, "cleaned up")

        asyncio.get_running_loop().create_task(linger())
        await asyncio.sleep(0)
        return NoReply(state + 1)

    state = (await receive(0, signals={"start": start, "stop": stop})).state
    EFFECTS[key].append("received")

    async def forgotten() -> None:
        try:
            await wait_for_signal("never")
        finally:
            EFFECTS[key].append("closed")

    asyncio.get_running_loop().create_task(forgotten())
    await note(key, "last")
    return state


async def test_tasks_left_in_a_handler_are_cleaned_up_before_receive_goes_on(stage: Stage) -> None:
    """M082"""
    run = await stage.start(leaves_a_task, key := fresh("left"))
    await run.signal("start")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 1
    assert [effect for effect in EFFECTS[key] if effect in ("cleaned up", "last")] == ["cleaned up", "last"]
    assert [entry.location for entry in await run.history() if entry.kind == "step"] == [
        "receive/start!0/@0/note",
        "note",
    ]


@workflow
async def counts() -> int:
    def one(state: int) -> NoReply[int]:
        return NoReply(state + 1)

    return (await receive(0, signals={"one": one, "stop": stop}, checkpoint_every=3)).state


async def test_a_receive_with_checkpoints_gives_the_same(stage: Stage) -> None:
    """M102, its result"""
    run = await stage.start(counts)
    for _ in range(7):
        await run.signal("one")
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 7


def test_the_workflows_of_this_file_are_named_by_it() -> None:
    assert isinstance(collects, Workflow)
    assert collects.id.endswith("tests/temporal/test_portable_receive.py//collects")


@workflow
async def times_out_with_work_in_flight(name: str) -> Any:
    def later(state: list[str]) -> Async[list[str]]:
        async def go_on() -> str:
            await hold(name)
            update_state(lambda state: (None, [*state, "in time all the same"]))
            return "answered"

        return Async(go_on, state)

    return await receive([], updates={"later": later}, timeout="500ms", checkpoint_every=1)


async def test_a_timeout_waits_for_the_functions_in_flight(stage: Stage) -> None:
    """M066, M103 (its result)"""
    gate = held(name := fresh("flight"))
    run = await stage.start(times_out_with_work_in_flight, name)
    answer = stage.ask(run, "later", retry_for=LIMIT)
    await gate.until_entered()
    with pytest.raises(TimeoutError):
        await run.result(timeout="800ms")
    gate.gate.set()
    assert await answer == "answered"
    assert await run.result(timeout=LIMIT) == (["in time all the same"], True)


@workflow
async def keeps_answers() -> Any:
    def note_it(state: list[str], text: str) -> Reply[list[str]]:
        publish_state({"notes": [*state, text]})
        return Reply(f"noted {text}", [*state, text])

    state = (await receive([], updates={"note": note_it}, signals={"stop": stop}, checkpoint_every=1)).state
    return state, await wait_for_signal("other"), await wait_for_signal("other")


async def test_a_checkpoint_keeps_answers_snapshots_and_the_buffer(stage: Stage) -> None:
    """M104"""
    run = await stage.start(keeps_answers)
    await run.signal("other", 1)
    assert await run.update("note", "a", id="u", retry_for=LIMIT, timeout=LIMIT) == "noted a"
    await run.signal("other", 2)
    assert await run.update("note", "a", id="u", timeout=LIMIT) == "noted a"
    assert await run.query() == {"notes": ["a"]}
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == (["a"], 1, 2)


@workflow
async def looks_once() -> Any:
    await wait_for_signal("go")
    first = await receive([], signals={"append": append}, timeout=0)
    second = await receive([], signals={"append": append}, timeout=0)
    return first, second


async def test_a_timeout_of_nothing_handles_all_that_is_there(stage: Stage) -> None:
    run = await stage.start(looks_once)
    for number in range(3):
        await run.signal("append", number)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == (([0, 1, 2], True), ([], True))
