"""The cases of the model that a store can break, on every store with a worker in this process."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenuto import (
    Async,
    ContinueAsNew,
    NoReply,
    Reject,
    Reply,
    RunHandle,
    Stop,
    Tenuto,
    Update,
    Workflow,
    detach,
    hook,
    parallel,
    publish_state,
    receive,
    run_info,
    shield,
    signal,
    sleep,
    spawn,
    step,
    update_state,
    wait_for_signal,
    workflow,
)
from tenuto.errors import (
    AmbiguousNameError,
    ChildFailedError,
    ChildStartError,
    DuplicateIdError,
    QueryFailedError,
    ReadOnlyError,
    RunCancelledError,
    RunClosedError,
    UpdateRejectedError,
)
from tenuto.model.registry import default

LIMIT = "20s"
SHORT = "200ms"  # long enough for what must not happen to happen


# --- waiting, without sleeping


async def until(app: Tenuto, reached: Callable[[], Awaitable[bool]]) -> None:
    await app.wait_until(reached, LIMIT)


async def until_set(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()


async def until_is(app: Tenuto, run: RunHandle[Any], status: str) -> None:
    async def reached() -> bool:
        return await run.status() == status

    await until(app, reached)


async def until_published(app: Tenuto, run: RunHandle[Any], state: Any) -> None:
    async def reached() -> bool:
        return await run.query() == state

    await until(app, reached)


async def until_waiting_for(app: Tenuto, run: RunHandle[Any], signal_name: str) -> None:
    """Until the run is suspended and this signal would wake it."""

    async def reached() -> bool:
        return await run.status() == "suspended" and signal_name in (await run.explain()).signals

    await until(app, reached)


async def until_accepting(app: Tenuto, run: RunHandle[Any], update_name: str) -> None:
    async def reached() -> bool:
        return await run.status() == "suspended" and update_name in (await run.explain()).updates

    await until(app, reached)


async def until_accepted(app: Tenuto, run: RunHandle[Any], update_id: str) -> None:
    """Until the acceptance of the update is committed."""
    from tenuto.codec.rows import update_key

    async def reached() -> bool:
        return bool(await app.store.rows(run.id, update_key(update_id)))

    await until(app, reached)


async def locations(run: RunHandle[Any]) -> list[str]:
    return [entry.location for entry in await run.history()]


@asynccontextmanager
async def another_client(app: Tenuto, url: str) -> AsyncIterator[Tenuto]:
    """A client with a connection of its own; what is in memory has one only."""
    if url == "memory://":
        yield app
    else:
        async with Tenuto(url, worker=False) as client:
            yield client


def asked(run: RunHandle[Any], name: str, *args: object, **options: Any) -> asyncio.Task[Any]:
    """An update under way."""
    return asyncio.create_task(run.update(name, *args, timeout=LIMIT, **options))


# --- definitions several cases use


def stop(state: Any) -> Stop[Any]:
    return Stop(state)


def append(state: list[Any], item: Any) -> NoReply[list[Any]]:
    return NoReply([*state, item])


def add(state: list[Any], item: Any) -> Reply[list[Any]]:
    return Reply(len(state) + 1, [*state, item])


@step
async def tick() -> None: ...


@workflow
async def collect() -> list[Any]:
    return (await receive([], updates={"add": add}, signals={"append": append, "stop": stop})).state


@workflow
async def waiting() -> Any:
    return await wait_for_signal("go")


@workflow
async def double(number: int) -> int:
    return number * 2


@workflow
async def failing() -> None:
    raise KeyError("no stock")


# --- signals


async def test_buffered_signals_are_taken_in_order_of_arrival(app: Tenuto) -> None:
    """M012"""

    @workflow
    async def take() -> list[Any]:
        await wait_for_signal("go")
        return [await wait_for_signal("s") for _ in range(3)]

    run = await app.start(take)
    for number in range(3):
        await run.signal("s", number)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [0, 1, 2]


async def test_a_wait_leaves_other_names_alone(app: Tenuto) -> None:
    """M013"""

    @workflow
    async def take() -> list[Any]:
        return [await wait_for_signal("s"), await wait_for_signal("t")]

    run = await app.start(take)
    await run.signal("t", "T")
    with pytest.raises(TimeoutError):
        await run.result(timeout=SHORT)
    assert (await run.explain()).signals == ("s",)
    await run.signal("s", "S")
    assert await run.result(timeout=LIMIT) == ["S", "T"]


async def test_a_wait_that_timed_out_consumes_nothing(app: Tenuto) -> None:
    """M015"""

    @workflow
    async def take() -> Any:
        try:
            await wait_for_signal("s", timeout="30ms")
        except TimeoutError:
            publish_state("timed out")
        return await wait_for_signal("s")

    run = await app.start(take)
    await until_published(app, run, "timed out")
    await run.signal("s", "late")
    assert await run.result(timeout=LIMIT) == "late"


async def test_a_signal_gives_nothing_a_value_or_a_tuple(app: Tenuto) -> None:
    """M016"""

    @workflow
    async def take() -> list[Any]:
        return [await wait_for_signal("s") for _ in range(3)]

    run = await app.start(take)
    await run.signal("s")
    await run.signal("s", [1])
    await run.signal("s", 1, 2)
    assert await run.result(timeout=LIMIT) == [None, [1], (1, 2)]


async def test_a_signal_that_came_during_a_step_is_there_afterwards(app: Tenuto) -> None:
    """M017"""
    entered, gate = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        entered.set()
        await gate.wait()

    @workflow
    async def take() -> Any:
        await slow()
        return await wait_for_signal("s")

    run = await app.start(take)
    await until_set(entered)
    await run.signal("s", 7)
    gate.set()
    assert await run.result(timeout=LIMIT) == 7


async def test_a_signal_to_an_ended_run_is_refused_and_not_stored(app: Tenuto) -> None:
    """M018"""
    run = await app.start(double, 1)
    await run.result(timeout=LIMIT)
    before = await app.store.rows(run.id)
    with pytest.raises(RunClosedError):
        await run.signal("s", 1)
    assert await app.store.rows(run.id) == before
    assert await app.store.mail(run.id, 0) == []


# --- published state and queries


async def test_a_snapshot_is_what_was_published_not_what_became_of_it(app: Tenuto) -> None:
    """M019"""

    @workflow
    async def publish() -> None:
        state: dict[str, int] = {}
        publish_state(state)
        state["x"] = 1
        await wait_for_signal("go")

    run = await app.start(publish)
    await until_waiting_for(app, run, "go")
    assert await run.query() == {}


async def test_state_can_be_published_from_everywhere(app: Tenuto) -> None:
    """M020"""
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    def sync_handler(state: int) -> NoReply[int]:
        publish_state("handler")
        return NoReply(state)

    def async_handler(state: int) -> Async[int]:
        async def go_on() -> None:
            publish_state("async")
            await slow()

        return Async(go_on, state)

    @workflow
    async def publish() -> None:
        publish_state("run")
        await wait_for_signal("next")

        async def branch() -> None:
            publish_state("branch")
            await wait_for_signal("next")

        await parallel([branch])
        await receive(0, signals={"sync": sync_handler, "async": async_handler, "stop": stop})

    run = await app.start(publish)
    await until_published(app, run, "run")
    for name, state in (("next", "branch"), ("next", "branch"), ("sync", "handler"), ("async", "async")):
        await run.signal(name)
        await until_published(app, run, state)
    gate.set()
    await run.signal("stop")
    await run.result(timeout=LIMIT)
    assert await run.query() == "async"


async def test_a_query_before_anything_was_published_gets_none(app: Tenuto) -> None:
    """M021"""

    @workflow
    async def quiet() -> None:
        await wait_for_signal("go")

    @quiet.query("state")
    def is_none(state: Any) -> bool:
        return state is None

    run = await app.start(quiet)
    assert await run.query("state") is True
    await until_waiting_for(app, run, "go")
    assert await run.query(is_none) is True


async def test_a_query_is_answered_after_the_end_with_no_worker_alive(lasting_url: str) -> None:
    """M022"""

    @workflow
    async def publish() -> None:
        publish_state({"n": 3})

    @publish.query("n")
    def plus(state: Any, number: int) -> int:
        return state["n"] + number

    async with Tenuto(lasting_url, grace=1) as app:
        run = await app.start(publish)
        await run.result(timeout=LIMIT)
    async with Tenuto(lasting_url, worker=False) as client:
        assert await client.get(run.id).query(plus, 4) == 7
        assert await client.get(run.id).query("n", 5) == 8


async def test_a_query_that_raises_or_calls_the_model_leaves_the_run_untouched(app: Tenuto) -> None:
    """M023"""

    @workflow
    async def wait() -> str:
        await wait_for_signal("go")
        return "went on"

    @wait.query("broken")
    def broken(state: Any) -> Any:
        return state["x"]

    @wait.query("naughty")
    def naughty(state: Any) -> Any:
        return sleep(1)

    run = await app.start(wait)
    await until_waiting_for(app, run, "go")
    before = await app.store.rows(run.id)
    for query, cause in ((broken, TypeError), (naughty, ReadOnlyError)):
        with pytest.raises(QueryFailedError) as failed:
            await run.query(query)
        assert isinstance(failed.value.__cause__, cause)
    assert await app.store.rows(run.id) == before
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == "went on"


# --- updates


async def test_an_update_is_answered_and_receive_goes_on_with_its_state(app: Tenuto) -> None:
    """M031"""
    run = await app.start(collect)
    await until_accepting(app, run, "add")
    assert await run.update("add", "x", timeout=LIMIT) == 1
    assert await run.update("add", "y", timeout=LIMIT) == 2
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["x", "y"]


async def test_an_update_may_stop_with_an_answer(app: Tenuto) -> None:
    """M032"""

    def finish(state: int, by: int) -> Stop[int]:
        return Stop(state + by, reply="bye")

    @workflow
    async def wait() -> int:
        return (await receive(1, updates={"finish": finish})).state

    run = await app.start(wait)
    assert await run.update("finish", 4, retry_for=LIMIT, timeout=LIMIT) == "bye"
    assert await run.result(timeout=LIMIT) == 5


async def test_an_update_outside_receive_is_rejected_and_leaves_no_trace(app: Tenuto) -> None:
    """M039"""
    run = await app.start(waiting)
    await until_waiting_for(app, run, "go")
    before = await app.store.rows(run.id)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", 1, id="u", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    await until_is(app, run, "suspended")
    assert await app.store.rows(run.id) == before
    await run.signal("go", "on")
    assert await run.result(timeout=LIMIT) == "on"


async def test_a_validator_rejects_before_anything_is_written(app: Tenuto) -> None:
    """M040"""
    handled: list[int] = []

    def handler(state: int) -> Reply[int]:
        handled.append(1)
        return Reply(None, state)

    def refuse(state: int) -> None:
        raise Reject("no")

    @workflow
    async def wait() -> int:
        return (await receive(5, updates={"u": Update(handler, refuse)}, signals={"stop": stop})).state

    run = await app.start(wait)
    await until_accepting(app, run, "u")
    before = await app.store.rows(run.id)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("u", id="once", timeout=LIMIT)
    assert (rejected.value.why, rejected.value.reason) == ("validator", "no")
    await until_is(app, run, "suspended")
    assert await app.store.rows(run.id) == before
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 5
    assert handled == []


async def test_a_validator_that_publishes_rejects_and_publishes_nothing(app: Tenuto) -> None:
    """M044"""

    def publish(state: Any) -> None:
        publish_state("spoilt")

    @workflow
    async def wait() -> None:
        await receive(0, updates={"u": Update(stop, publish)})

    run = await app.start(wait)
    await until_accepting(app, run, "u")
    before = await app.store.rows(run.id)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("u", timeout=LIMIT)
    assert rejected.value.why == "validator"
    await until_is(app, run, "suspended")
    assert await run.query() is None
    assert await app.store.rows(run.id) == before


async def test_an_update_sent_by_two_clients_under_one_id_is_handled_once(app: Tenuto, url: str) -> None:
    """M047"""
    handled: list[str] = []
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    async def take(state: int, item: str) -> Reply[int]:
        await slow()
        handled.append(item)
        return Reply(f"{item} number {state}", state + 1)

    @workflow
    async def wait() -> int:
        return (await receive(0, updates={"take": take}, signals={"stop": stop})).state

    run = await app.start(wait)
    await until_accepting(app, run, "take")
    async with another_client(app, url) as other:
        answers = [asked(handle, "take", "violin", id="same") for handle in (run, other.get(run.id))]
        await until_accepted(app, run, "same")
        gate.set()
        assert await asyncio.gather(*answers) == ["violin number 0"] * 2
        assert await other.get(run.id).update("take", "violin", id="same", timeout=LIMIT) == "violin number 0"
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 1
    assert handled == ["violin"]


async def test_after_the_end_updates_are_closed_and_queries_answered(app: Tenuto) -> None:
    """M048"""

    @workflow
    async def publish() -> None:
        publish_state("last words")

    run = await app.start(publish)
    await run.result(timeout=LIMIT)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", 1, timeout=LIMIT)
    assert rejected.value.why == "closed"
    assert await run.query() == "last words"


async def test_an_update_that_may_wait_is_accepted_once_receive_is_entered(app: Tenuto) -> None:
    """M049"""
    entered, gate = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        entered.set()
        await gate.wait()

    @workflow
    async def wait() -> Any:
        await slow()
        return (await receive([], updates={"add": add}, signals={"stop": stop})).state

    run = await app.start(wait)
    await until_set(entered)
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", "too early", timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    answer = asked(run, "add", "x", id="patient", retry_for="5s")
    gate.set()
    assert await answer == 1
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == ["x"]


async def test_dispatch_goes_on_beside_an_async_function(app: Tenuto) -> None:
    """M052"""
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    def block(state: int) -> Async[int]:
        async def go_on() -> str:
            await slow()
            return "late"

        return Async(go_on, state)

    def quick(state: int) -> Reply[int]:
        return Reply("quick", state + 1)

    @workflow
    async def serve() -> int:
        return (await receive(0, updates={"block": block, "quick": quick}, signals={"stop": stop})).state

    run = await app.start(serve)
    await until_accepting(app, run, "block")
    late = asked(run, "block", id="late")
    await until_accepted(app, run, "late")
    assert await run.update("quick", timeout=LIMIT) == "quick"
    assert not late.done()
    gate.set()
    assert await late == "late"
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 1


async def test_a_receive_that_drains_rejects_updates_and_buffers_signals(app: Tenuto) -> None:
    """M062"""
    gate = asyncio.Event()

    @step
    async def slow(number: int) -> int:
        await gate.wait()
        return number

    def begin(state: list[int], number: int) -> Async[list[int]]:
        async def go_on() -> int:
            value = await slow(number)
            update_state(lambda now: (None, [*now, value]))
            return value

        return Async(go_on, state)

    def finish(state: list[int]) -> Stop[list[int]]:
        return Stop(state, reply="draining")

    @workflow
    async def serve() -> Any:
        received = await receive([], updates={"begin": begin, "finish": finish}, signals={"append": append})
        return sorted(received.state), await wait_for_signal("append")

    run = await app.start(serve)
    await until_accepting(app, run, "begin")
    answers = [asked(run, "begin", number, id=f"u{number}") for number in range(2)]
    for number in range(2):
        await until_accepted(app, run, f"u{number}")
    assert await run.update("finish", timeout=LIMIT) == "draining"
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("begin", 9, timeout=LIMIT)
    assert rejected.value.why == "not_accepting"
    await run.signal("append", "later")
    gate.set()
    assert await asyncio.gather(*answers) == [0, 1]
    assert await run.result(timeout=LIMIT) == ([0, 1], "later")


async def test_undispatched_signals_go_to_the_next_receive_in_order(app: Tenuto) -> None:
    """M063"""

    @workflow
    async def twice() -> Any:
        await wait_for_signal("go")
        first = await receive([], signals={"append": append, "stop": stop})
        publish_state("between")
        await wait_for_signal("go")
        second = await receive([], signals={"append": append, "stop": stop})
        return first.state, second.state

    run = await app.start(twice)
    for name, args in (("stop", ()), ("append", (1,)), ("append", (2,)), ("append", (3,)), ("go", ())):
        await run.signal(name, *args)
    await until_published(app, run, "between")
    await run.signal("stop")
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == ([], [1, 2, 3])


# --- continue as new


async def test_a_run_goes_on_under_its_id_with_an_empty_history(app: Tenuto) -> None:
    """M085"""

    @step
    async def work(number: int) -> int:
        return number

    @workflow
    async def count(number: int) -> Any | ContinueAsNew:
        await work(number)
        info = run_info()
        return ContinueAsNew(number + 1) if number < 2 else (number, info.run_no, info.id)

    run = await app.start(count, 1, id="r")
    assert await run.result(timeout=LIMIT) == (2, 2, "r")
    [entry] = await run.history()
    assert (entry.location, entry.value) == ("work", 2)


async def test_unconsumed_signals_go_over_to_the_next_run_in_order(app: Tenuto) -> None:
    """M086"""

    @workflow
    async def first(number: int) -> Any | ContinueAsNew:
        if number == 0:
            await wait_for_signal("go")
            return ContinueAsNew(1)
        return [await wait_for_signal("s"), await wait_for_signal("s")]

    run = await app.start(first, 0)
    await run.signal("s", 1)
    await run.signal("s", 2)
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [1, 2]


async def test_an_undecided_update_is_decided_by_the_next_run(app: Tenuto) -> None:
    """M087"""

    def grow(state: int, by: int) -> Stop[int]:
        return Stop(state + by, reply="grown")

    @workflow
    async def serve(number: int) -> Any | ContinueAsNew:
        if number == 0:
            await wait_for_signal("go")
            return ContinueAsNew(10)
        return (await receive(number, updates={"grow": grow})).state, run_info().run_no

    run = await app.start(serve, 0)
    await until_waiting_for(app, run, "go")
    await run.pause()  # so that both messages come in one turn
    await until_is(app, run, "paused")
    await run.signal("go")
    answer = asked(run, "grow", 5, id="undecided")

    async def both_stored() -> bool:
        return len(await app.store.mail(run.id, 0)) == 2

    await until(app, both_stored)
    await run.resume()
    assert await answer == "grown"
    assert await run.result(timeout=LIMIT) == (15, 2)


# --- other runs, the outside


async def test_a_failed_child_is_an_error_with_its_own_as_cause(app: Tenuto) -> None:
    """M089"""

    @workflow
    async def parent() -> Any:
        child = await spawn(failing)
        try:
            await child
        except ChildFailedError as error:
            return type(error.__cause__).__name__, str(error.__cause__)

    assert await (await app.start(parent)).result(timeout=LIMIT) == ("KeyError", "'no stock'")


async def test_the_end_of_a_parent_cancels_spawned_children_and_no_others(app: Tenuto) -> None:
    """M090"""

    @workflow
    async def parent() -> list[str]:
        child = await spawn(waiting, id="spawned")
        return [child.id, await detach(waiting, id="detached")]

    assert await (await app.start(parent)).result(timeout=LIMIT) == ["spawned", "detached"]
    with pytest.raises(RunCancelledError):
        await app.get("spawned").result(timeout=LIMIT)
    await until_waiting_for(app, app.get("detached"), "go")
    await app.get("detached").signal("go", "ran on")
    assert await app.get("detached").result(timeout=LIMIT) == "ran on"


@pytest.mark.parametrize("ended", [False, True], ids=["open", "closed"])
async def test_an_id_in_use_is_a_child_start_error_or_attached_to(app: Tenuto, ended: bool) -> None:
    """M091"""

    @workflow
    async def parent() -> list[Any]:
        seen: list[Any] = []
        child = await spawn(waiting, id="taken")
        try:
            await child
        except ChildStartError:
            seen.append("spawn")
        try:
            await detach(waiting, id="taken")
        except ChildStartError:
            seen.append("detach")
        other = await spawn(double, 1, id="taken", if_exists="attach")
        try:
            await other
        except ChildStartError:
            seen.append("other workflow")
        publish_state(seen)
        attached = await spawn(waiting, id="taken", if_exists="attach")
        return [*seen, await attached]

    taken = await app.start(waiting, id="taken")
    if ended:
        await taken.signal("go", "its result")
        await taken.result(timeout=LIMIT)
    run = await app.start(parent)
    if not ended:
        await until_published(app, run, ["spawn", "detach", "other workflow"])
        await taken.signal("go", "its result")
    assert await run.result(timeout=LIMIT) == ["spawn", "detach", "other workflow", "its result"]


@workflow
async def takes_two() -> list[Any]:
    return [await wait_for_signal("go"), await wait_for_signal("go")]


@workflow
async def sends(to: str, gone: str) -> str:
    await signal(to, "go", 1)
    await signal(gone, "go", 1, name="lost")
    publish_state("sent")
    await wait_for_signal("end")
    return "went on"


async def test_a_signal_to_another_run_is_delivered_once_over_a_restart(lasting_url: str) -> None:
    """M092"""
    async with Tenuto(lasting_url, grace=1) as app:
        gone = await app.start(double, 1)
        await gone.result(timeout=LIMIT)
        receiver = await app.start(takes_two, id="receiver")
        run = await app.start(sends, receiver.id, gone.id, id="sender")
        await until_published(app, run, "sent")
        await until_waiting_for(app, run, "end")
    async with Tenuto(lasting_url, grace=1) as app:
        receiver, run = app.get("receiver"), app.get("sender")
        await run.signal("end")
        assert await run.result(timeout=LIMIT) == "went on"
        await receiver.signal("go", 2)
        assert await receiver.result(timeout=LIMIT) == [1, 2]
        assert await locations(run) == ["send:go", "lost", "signal:end"]


async def test_the_sender_of_a_lost_signal_goes_on_and_its_entry_says_so(app: Tenuto) -> None:
    """M092"""
    receiver = await app.start(waiting, id="receiver")
    run = await app.start(sends, receiver.id, "nobody")
    await run.signal("end")
    assert await run.result(timeout=LIMIT) == "went on"
    assert await receiver.result(timeout=LIMIT) == 1
    sent, lost, _ = await run.history()
    assert (sent.location, sent.status) == ("send:go", "completed")
    assert (lost.location, lost.status) == ("lost", "failed")
    assert isinstance(lost.error, LookupError)


async def test_payloads_sent_to_a_hook_before_its_first_await_are_taken_in_order(app: Tenuto) -> None:
    """M093"""

    @workflow
    async def called_back() -> list[Any]:
        opened = await hook("order-42")
        publish_state("open")
        await wait_for_signal("go")
        return [await opened, await opened]

    run = await app.start(called_back)
    await until_published(app, run, "open")
    await app.send_hook("order-42", {"n": 1})
    await app.send_hook("order-42", {"n": 2})
    await run.signal("go")
    assert await run.result(timeout=LIMIT) == [{"n": 1}, {"n": 2}]


# --- cancellation


async def test_a_cancelled_run_ends_cancelled_and_its_step_is_asked_to_stop(app: Tenuto) -> None:
    """M094"""
    entered, asked_to_stop = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except CancelledError:
            asked_to_stop.set()
            raise

    @workflow
    async def go() -> None:
        await slow()

    run = await app.start(go)
    await until_set(entered)
    await run.cancel("enough")
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    await until_set(asked_to_stop)
    assert await run.status() == "cancelled"


async def test_clean_up_is_recorded_before_the_run_ends_cancelled(app: Tenuto) -> None:
    """M095"""

    @workflow
    async def go() -> None:
        try:
            await wait_for_signal("never")
        except CancelledError:
            await tick()
            raise

    run = await app.start(go)
    await until_waiting_for(app, run, "never")
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    assert "tick" in await locations(run)


async def test_a_shield_holds_a_cancellation_back_until_its_end(app: Tenuto) -> None:
    """M096"""
    entered, gate = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        entered.set()
        await gate.wait()

    @workflow
    async def go() -> None:
        async with shield():
            await slow()
            await tick()
            publish_state("end of the block")
        publish_state("after the block")

    run = await app.start(go)
    await until_set(entered)
    await run.cancel()

    async def is_taken() -> bool:
        return not await app.store.mail(run.id, 0)

    await until(app, is_taken)
    gate.set()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    assert await locations(run) == ["slow", "tick"]
    assert await run.query() == "end of the block"


async def test_a_run_cancelled_before_its_first_turn_never_starts(lasting_url: str) -> None:
    """M098"""
    ran: list[int] = []

    @workflow
    async def go() -> None:
        ran.append(1)

    async with Tenuto(lasting_url, worker=False) as client:
        run = await client.start(go)
        await run.cancel()
        async with Tenuto(lasting_url, grace=1):
            with pytest.raises(RunCancelledError):
                await run.result(timeout=LIMIT)
        assert await run.history() == []
    assert ran == []


# --- names, checkpoints


@pytest.fixture
def twins() -> Iterator[tuple[str, str]]:
    """Two workflows of the same name in two files."""
    ids = "workflow//a.py//twin", "workflow//b.py//twin"

    async def first() -> None: ...

    async def second() -> None: ...

    for identity, fn in zip(ids, (first, second), strict=True):
        default.register(Workflow(fn, id=identity, name="twin"))
    yield ids
    for identity in ids:
        default.forget(identity)


async def test_a_name_that_two_workflows_have_starts_neither(app: Tenuto, twins: tuple[str, str]) -> None:
    """M100"""

    async def one() -> int:
        return 1

    async def other() -> int:
        return 2

    first = workflow(name="only-one-of-us")(one)
    try:
        with pytest.raises(DuplicateIdError, match="only-one-of-us"):
            workflow(name="only-one-of-us")(other)
        assert await (await app.start("only-one-of-us", id="first")).result(timeout=LIMIT) == 1
    finally:
        default.forget(first.id)
    with pytest.raises(AmbiguousNameError) as ambiguous:
        await app.start("twin")
    assert all(identity in str(ambiguous.value) for identity in twins)
    assert [record.id async for record in app.runs()] == ["first"]


async def test_a_checkpoint_keeps_answers_snapshots_and_the_buffer(lasting_url: str) -> None:
    """M104"""
    handled: list[str] = []

    def note(state: list[str], text: str) -> Reply[list[str]]:
        handled.append(text)
        publish_state({"notes": [*state, text]})
        return Reply(f"noted {text}", [*state, text])

    @workflow
    async def serve() -> Any:
        state = (await receive([], updates={"note": note}, signals={"stop": stop}, checkpoint_every=1)).state
        return state, await wait_for_signal("other"), await wait_for_signal("other")

    async with Tenuto(lasting_url, grace=1) as app:
        run = await app.start(serve, id="served")
        await run.signal("other", 1)
        assert await run.update("note", "a", id="u", retry_for=LIMIT, timeout=LIMIT) == "noted a"
        await run.signal("other", 2)
        await until_accepting(app, run, "note")
    async with Tenuto(lasting_url, grace=1) as app:
        run = app.get("served")
        assert await run.update("note", "a", id="u", timeout=LIMIT) == "noted a"
        assert await run.query() == {"notes": ["a"]}
        await run.signal("stop")
        assert await run.result(timeout=LIMIT) == (["a"], 1, 2)
    assert handled == ["a"]


@workflow
async def found_by_its_name() -> str:
    return run_info().workflow


@workflow(name="shop.checkout")
async def renamed() -> str:
    return run_info().workflow


async def test_a_workflow_is_started_by_its_id_or_the_last_part_of_it(app: Tenuto) -> None:
    """M106"""
    identity = found_by_its_name.id
    assert identity.startswith("workflow//")
    assert identity.endswith("//found_by_its_name")
    for text in (identity, "found_by_its_name"):
        assert await (await app.start(text)).result(timeout=LIMIT) == identity
    assert renamed.id == "shop.checkout"
    assert await (await app.start("shop.checkout")).result(timeout=LIMIT) == "shop.checkout"


@workflow
async def glance(checkpoint_every: int | None) -> list[Any]:
    received = await receive([], signals={"append": append}, timeout=0, checkpoint_every=checkpoint_every)
    return [*received]


@pytest.mark.parametrize("checkpoint_every", [None, 1])
async def test_signals_stored_before_any_worker_came_are_received_without_any_time(
    lasting_url: str, checkpoint_every: int | None
) -> None:  # 4.5
    async with Tenuto(lasting_url, worker=False) as client:
        run = await client.start(glance, checkpoint_every)
        for n in range(3):
            await run.signal("append", n)
        async with Tenuto(lasting_url, grace=1):
            assert await run.result(timeout=LIMIT) == [[0, 1, 2], True]
