"""`receive`: dispatch, handlers, validators, answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import (
    NoReply,
    Received,
    Reject,
    Reply,
    Stop,
    Update,
    publish_state,
    receive,
    run_info,
    sleep,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import HandlerReturnError, ReceiveConfigError, UpdateFailedError, UpdateRejectedError
from tenuto.model.timers import now
from tenuto.testing import Engine

from .conftest import Ask, locations


def stop(state: Any) -> Stop[Any]:
    return Stop(state)


def append(state: list[Any], item: Any) -> NoReply[list[Any]]:
    return NoReply([*state, item])


def add(state: list[Any], item: Any) -> Reply[list[Any]]:
    return Reply(len(state) + 1, [*state, item])


@workflow
async def collect() -> list[Any]:
    received = await receive([], updates={"add": add}, signals={"append": append, "stop": stop})
    return received.state


async def test_a_signal_handler_threads_the_state(engine: Engine) -> None:  # M029
    run = await engine.start(collect)
    for n in range(3):
        await run.signal("append", n)
    await run.signal("stop")
    assert await run.result() == [0, 1, 2]


async def test_stop_ends_receive_and_the_next_line_runs(engine: Engine) -> None:  # M030
    @workflow
    async def wait() -> Any:
        return tuple(await receive(5, signals={"stop": stop})), "next line"

    run = await engine.start(wait)
    await run.signal("stop")
    assert await run.result() == ((5, False), "next line")


async def test_an_update_is_answered_and_receive_goes_on(engine: Engine) -> None:  # M031
    run = await engine.start(collect)
    assert await run.update("add", "x") == 1
    assert await run.update("add", "y") == 2
    await run.signal("stop")
    assert await run.result() == ["x", "y"]


async def test_an_update_may_stop_with_an_answer(engine: Engine) -> None:  # M032
    def finish(state: int, by: int) -> Stop[int]:
        return Stop(state + by, reply="bye")

    @workflow
    async def wait() -> int:
        return (await receive(1, updates={"finish": finish})).state

    run = await engine.start(wait)
    assert await run.update("finish", 4) == "bye"
    assert await run.result() == 5


async def test_buffered_signals_are_dispatched_first_in_order_over_names(engine: Engine) -> None:  # M033
    def noted(name: str) -> Any:
        return lambda state, n: NoReply([*state, (name, n)])

    @workflow
    async def wait() -> Any:
        await sleep(1)
        handlers = {"a": noted("a"), "b": noted("b"), "stop": stop}
        return (await receive([], signals=handlers)).state

    run = await engine.start(wait)
    for n, name in enumerate(("b", "a", "b")):
        await run.signal(name, n)
    await run.signal("stop")
    assert await run.result() == [("b", 0), ("a", 1), ("b", 2)]


async def test_a_signal_nobody_handles_stays_for_a_later_wait(engine: Engine) -> None:  # M034
    @workflow
    async def wait() -> Any:
        await receive(0, signals={"stop": stop})
        return await wait_for_signal("other")

    run = await engine.start(wait)
    await run.signal("other", 7)
    await run.signal("stop")
    assert await run.result() == 7


async def test_messages_wait_for_the_handler_before_them(engine: Engine) -> None:  # M035
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    async def take(state: list[Any], item: Any) -> NoReply[list[Any]]:
        if item == 0:
            await slow()
        return NoReply([*state, item])

    @workflow
    async def wait() -> Any:
        return (await receive([], signals={"take": take, "stop": stop})).state

    run = await engine.start(wait)
    for n in range(3):
        await run.signal("take", n)
    await run.signal("stop")
    await engine.settle()
    assert await run.status() == "running"
    gate.set()
    assert await run.result() == [0, 1, 2]


@pytest.mark.parametrize("is_async", [False, True])
async def test_def_and_async_def_handlers_do_the_same(engine: Engine, is_async: bool) -> None:  # M036
    async def append_async(state: list[Any], item: Any) -> NoReply[list[Any]]:
        return append(state, item)

    @workflow
    async def wait() -> Any:
        handlers: Any = {"append": append_async if is_async else append, "stop": stop}
        return (await receive([], signals=handlers)).state

    run = await engine.start(wait)
    await run.signal("append", 1)
    await run.signal("append", 2)
    await run.signal("stop")
    assert await run.result() == [1, 2]


async def test_a_handler_that_raises_leaves_the_state_and_is_logged_once(engine: Engine) -> None:  # M037
    def spoil(state: list[Any]) -> NoReply[list[Any]]:
        state.append("spoilt")
        raise ValueError("no")

    @workflow
    async def wait() -> Any:
        return (await receive([1], signals={"spoil": spoil, "append": append, "stop": stop})).state

    run = await engine.start(wait)
    for name, args in (("spoil", ()), ("append", (2,)), ("stop", ())):
        await run.signal(name, *args)
    assert await run.result() == [1, 2]
    assert len([notice for notice in engine.notices if "spoil" in notice]) == 1


async def test_the_same_facts_give_the_same_history_byte_for_byte() -> None:  # M038
    stored: list[Any] = []
    for crash in (False, True, False):
        engine = Engine(crash_everywhere=crash)
        run = await engine.start(collect, id="r")
        await run.signal("append", 1)
        await run.update("add", 2, id="u")
        await run.signal("append", 3)
        await run.signal("stop")
        await run.result()
        stored.append(await engine.store.rows("r"))
        engine.close()
    assert stored[0] == stored[1] == stored[2]


async def test_an_update_outside_receive_is_rejected_and_leaves_no_trace(engine: Engine) -> None:  # M039
    @workflow
    async def linear() -> None:
        await wait_for_signal("go")

    run = await engine.start(linear)
    await engine.settle()
    before = await engine.store.rows(run.id)
    with pytest.raises(UpdateRejectedError) as raised:
        await run.update("add", 1)
    assert raised.value.why == "not_accepting"
    assert await engine.store.rows(run.id) == before


def refuse(state: Any, *args: Any) -> None:
    raise Reject("no")


async def test_a_validator_rejects_before_anything_is_written(engine: Engine) -> None:  # M040
    called: list[int] = []

    def handler(state: int) -> Reply[int]:
        called.append(1)
        return Reply(None, state)

    @workflow
    async def wait() -> None:
        await receive(0, updates={"u": Update(handler, refuse)}, signals={"stop": stop})

    run = await engine.start(wait)
    await engine.settle()
    before = await engine.store.rows(run.id)
    with pytest.raises(UpdateRejectedError) as raised:
        await run.update("u")
    assert (raised.value.why, raised.value.reason) == ("validator", "no")
    assert called == []
    assert await engine.store.rows(run.id) == before


async def test_the_acceptance_of_an_update_precedes_what_its_handler_does(engine: Engine) -> None:  # M041
    @step
    async def work() -> None: ...

    async def handler(state: int) -> Reply[int]:
        await work()
        return Reply("done", state)

    @workflow
    async def wait() -> None:
        await receive(0, updates={"u": handler})

    run = await engine.start(wait)
    assert await run.update("u", id="one") == "done"
    entries = {entry.location: entry.seq for entry in await run.history()}
    accepted = (await engine.rows(run.id)).updates["one"]
    assert accepted.seq < entries["receive/u!0/work"]


async def test_a_validator_is_not_called_on_replay_and_cannot_change_the_state(engine: Engine) -> None:  # M042, M043
    asked: list[Any] = []

    def validate(state: list[Any], item: Any) -> None:
        asked.append((now(), run_info().id))
        state.append("spoilt")

    @workflow
    async def wait() -> Any:
        return (await receive([], updates={"add": Update(add, validate)}, signals={"stop": stop})).state

    run = await engine.start(wait)
    assert await run.update("add", 1) == 1
    await engine.settle()
    engine.crash()
    await run.signal("stop")
    assert await run.result() == [1]
    assert len(asked) == 1


async def test_a_validator_that_publishes_rejects_and_publishes_nothing(engine: Engine) -> None:  # M044
    def publish(state: Any) -> None:
        publish_state("spoilt")

    @workflow
    async def wait() -> None:
        await receive(0, updates={"u": Update(stop, publish)})

    run = await engine.start(wait)
    with pytest.raises(UpdateRejectedError) as raised:
        await run.update("u")
    assert raised.value.why == "validator"
    assert await run.query() is None


async def test_an_async_validator_is_refused_when_receive_is_called(engine: Engine) -> None:  # M045
    async def validate(state: Any) -> None: ...

    @workflow
    async def wait() -> None:
        with pytest.raises(ReceiveConfigError):
            receive(0, updates={"u": Update(stop, validate)})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    run = await engine.start(wait)
    await run.result()
    assert await run.history() == []


async def test_a_validator_sees_the_state_that_its_handler_would_get(engine: Engine, ask: Ask) -> None:  # M046
    gate = asyncio.Event()

    @step
    async def pack() -> None:
        await gate.wait()

    def any_left(stock: int) -> None:
        if not stock:
            raise Reject("sold out")

    async def take(stock: int) -> Reply[int]:
        await pack()
        return Reply("yours", stock - 1)

    @workflow
    async def sell() -> None:
        await receive(1, updates={"take": Update(take, any_left)})

    run = await engine.start(sell)
    first = await ask(run, "take", id="first")
    second = await ask(run, "take", id="second")
    gate.set()
    assert await first() == "yours"
    with pytest.raises(UpdateRejectedError, match="sold out"):
        await second()
    assert "second" not in (await engine.rows(run.id)).updates


async def test_an_update_sent_twice_is_handled_once(engine: Engine) -> None:  # M047
    run = await engine.start(collect)
    assert await run.update("add", "x", id="same") == 1
    assert await run.update("add", "x", id="same") == 1
    await run.signal("stop")
    assert await run.result() == ["x"]


async def test_an_update_to_an_ended_run_is_closed(engine: Engine) -> None:  # M048
    run = await engine.start(collect)
    await run.signal("stop")
    await run.result()
    with pytest.raises(UpdateRejectedError) as raised:
        await run.update("add", 1)
    assert raised.value.why == "closed"
    assert await run.query() is None


@pytest.mark.parametrize("wrong", [NoReply(1), None, "done"])
async def test_an_update_handler_that_returns_what_it_may_not_fails_the_update(
    engine: Engine, wrong: Any
) -> None:  # M050
    def handler(state: Any) -> Any:
        return wrong

    @workflow
    async def wait() -> Any:
        return (await receive(0, updates={"u": handler}, signals={"stop": stop})).state

    run = await engine.start(wait)
    with pytest.raises(UpdateFailedError) as raised:
        await run.update("u")
    assert raised.value.why == "handler"
    assert isinstance(raised.value.__cause__, HandlerReturnError)
    await run.signal("stop")
    assert await run.result() == 0


async def test_an_update_handler_that_raises_or_gives_what_cannot_be_stored_fails_the_update(engine: Engine) -> None:
    def broken(state: Any) -> Reply[Any]:
        raise KeyError("x")

    def unstorable(state: Any) -> Reply[Any]:
        return Reply(object(), "spoilt")

    @workflow
    async def wait() -> Any:
        return (await receive(0, updates={"broken": broken, "bad": unstorable}, signals={"stop": stop})).state

    run = await engine.start(wait)
    for name, cause in (("broken", "KeyError"), ("bad", "EncodingError")):
        with pytest.raises(UpdateFailedError) as raised:
            await run.update(name)
        assert type(raised.value.__cause__).__name__ == cause
    await run.signal("stop")
    assert await run.result() == 0


async def test_a_task_left_running_in_a_handler_is_cancelled_and_awaited(engine: Engine) -> None:  # M082
    @step
    async def clean_up() -> None: ...

    async def background() -> None:
        try:
            await wait_for_signal("never")
        finally:
            await clean_up()

    async def handler(state: int) -> NoReply[int]:
        asyncio.get_running_loop().create_task(background())
        await asyncio.sleep(0)
        return NoReply(state + 1)

    @workflow
    async def wait() -> Any:
        return (await receive(0, signals={"go": handler, "stop": stop})).state

    run = await engine.start(wait)
    await run.signal("go")
    await run.signal("stop")
    assert await run.result() == 1
    places = await locations(run)
    assert places.index("receive/go!0/@0/clean_up") < places.index("receive/stop!1")


async def test_a_task_left_running_in_the_run_is_closed_without_a_trace(engine: Engine) -> None:  # M082
    @step
    async def clean_up() -> None: ...

    async def background() -> None:
        try:
            await wait_for_signal("never")
        finally:
            await clean_up()

    @workflow
    async def leave() -> str:
        task = asyncio.get_running_loop().create_task(background())
        await asyncio.sleep(0)
        return "left" if not task.done() else ""

    run = await engine.start(leave)
    assert await run.result() == "left"
    assert await locations(run) == []


# --- how it ends


@pytest.fixture
def draining() -> tuple[asyncio.Event, Any]:
    """A run whose two async functions wait for a gate."""
    from tenuto import Async, update_state

    gate = asyncio.Event()

    @step
    async def slow(n: int) -> int:
        await gate.wait()
        return n

    def begin(state: list[Any], n: int) -> Async[list[Any]]:
        async def go_on() -> int:
            value = await slow(n)
            update_state(lambda now: (None, [*now, value]))
            return value

        return Async(go_on, state)

    @workflow
    async def wait() -> Any:
        received = await receive([], updates={"begin": begin}, signals={"stop": stop})
        return received.state, await wait_for_signal("stop")

    return gate, wait


async def test_stop_waits_for_async_functions_in_flight(
    engine: Engine, ask: Ask, draining: tuple[asyncio.Event, Any]
) -> None:  # M061, M062
    gate, wait = draining
    run = await engine.start(wait)
    answers = [await ask(run, "begin", n, id=f"u{n}") for n in range(2)]
    await run.signal("stop")
    await engine.settle()
    late = await ask(run, "begin", 9, id="late")
    with pytest.raises(UpdateRejectedError) as raised:
        await late()
    assert raised.value.why == "not_accepting"
    await run.signal("stop", "later")
    await engine.settle()
    gate.set()
    assert [await answer() for answer in answers] == [0, 1]
    state, later = await run.result()
    assert (sorted(state), later) == ([0, 1], "later")


async def test_undispatched_signals_go_to_the_next_receive_in_order(engine: Engine) -> None:  # M063
    @workflow
    async def twice() -> Any:
        await sleep(1)
        first = await receive([], signals={"append": append, "stop": stop})
        second = await receive([], signals={"append": append, "stop": stop})
        return first.state, second.state

    run = await engine.start(twice)
    for name, args in (("stop", ()), ("append", (1,)), ("append", (2,)), ("append", (3,)), ("stop", ())):
        await run.signal(name, *args)
    assert await run.result() == ([], [1, 2, 3])
    assert "receive#2/append!0" in await locations(run)


async def test_receive_ends_when_its_time_is_up(engine: Engine) -> None:  # M064
    @workflow
    async def wait() -> Any:
        began = now()
        received = await receive("s", timeout=10)
        return tuple(received), (now() - began).total_seconds()

    assert await (await engine.start(wait)).result() == (("s", True), 10)


async def test_stop_withdraws_the_timer(engine: Engine) -> None:  # M065
    @workflow
    async def wait() -> Any:
        received: Received[int] = await receive(0, signals={"stop": stop}, timeout=10)
        await wait_for_signal("go")
        return received.timed_out

    run = await engine.start(wait)
    await engine.settle()
    assert "receive/timer" in await locations(run)
    await run.signal("stop")
    await engine.settle()
    record = await engine.store.get(run.id)
    assert record is not None
    assert record.alarm is None
    await run.signal("go")
    assert await run.result() is False
    assert "receive/timer" not in await locations(run)


async def test_a_timeout_waits_for_async_functions_in_flight(engine: Engine, ask: Ask) -> None:  # M066
    from tenuto import Async, update_state

    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    def begin(state: int) -> Async[int]:
        async def go_on() -> str:
            await slow()
            update_state(lambda now: (None, now + 1))
            return "done"

        return Async(go_on, state)

    @workflow
    async def wait() -> Any:
        return tuple(await receive(0, updates={"begin": begin}, timeout=10))

    run = await engine.start(wait)
    answer = await ask(run, "begin")
    await engine.advance(11)
    assert await run.status() == "running"
    gate.set()
    assert await answer() == "done"
    assert await run.result() == (1, True)


async def test_a_handler_that_runs_when_time_is_up_still_counts(engine: Engine, ask: Ask) -> None:  # M067
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    async def finish(state: int) -> Stop[int]:
        await slow()
        return Stop(state + 1, reply="answered")

    @workflow
    async def wait() -> Any:
        return tuple(await receive(0, updates={"finish": finish}, timeout=10))

    run = await engine.start(wait)
    answer = await ask(run, "finish")
    await engine.advance(11)
    gate.set()
    assert await answer() == "answered"
    assert await run.result() == (1, True)


async def test_buffered_signals_are_handled_even_without_any_time(engine: Engine) -> None:
    @workflow
    async def wait() -> Any:
        await sleep(1)
        return tuple(await receive([], signals={"append": append}, timeout=0))

    run = await engine.start(wait)
    for n in range(3):
        await run.signal("append", n)
    assert await run.result() == ([0, 1, 2], True)


@pytest.mark.parametrize("checkpoint_every", [None, 1, 2])
async def test_signals_sent_before_the_first_turn_are_handled_without_any_time(
    engine: Engine, checkpoint_every: int | None
) -> None:
    @workflow
    async def wait() -> Any:
        received = await receive([], signals={"append": append}, timeout=0, checkpoint_every=checkpoint_every)
        await sleep(1)
        return tuple(received)

    run = await engine.start(wait)
    for n in range(3):
        await run.signal("append", n)
    assert await run.result() == ([0, 1, 2], True)


async def test_a_handler_that_waits_when_time_is_up_leaves_the_rest_for_later(engine: Engine) -> None:
    async def slow(state: list[Any], item: Any) -> NoReply[list[Any]]:
        await sleep(1)
        return NoReply([*state, item])

    @workflow
    async def wait() -> Any:
        received = await receive([], signals={"append": slow}, timeout=0)
        return [*received, await wait_for_signal("append")]

    run = await engine.start(wait)
    for n in range(2):
        await run.signal("append", n)
    assert await run.result() == [[0], True, 1]


async def test_receive_without_handlers_and_timeout_is_refused(engine: Engine) -> None:  # M068
    @workflow
    async def wait() -> None:
        with pytest.raises(ReceiveConfigError):
            receive(0)
        with pytest.raises(ReceiveConfigError):
            receive(0, signals={"s": 5})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]

    run = await engine.start(wait)
    await run.result()
    assert await run.history() == []
