"""Messages that are wrong, and handlers that are: a clear error with its code, nothing lost, and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenuto import (
    NoReply,
    Reply,
    RunHandle,
    Stop,
    Tenuto,
    Update,
    publish_state,
    receive,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import (
    EncodingError,
    HandlerReturnError,
    InvalidNameError,
    ReceiveConfigError,
    RunClosedError,
    RunFailedError,
    RunNotFoundError,
    TenutoError,
    UpdateFailedError,
    UpdateRejectedError,
)

LIMIT = "20s"


def add(state: list[Any], item: Any) -> Reply[list[Any]]:
    return Reply(len(state) + 1, [*state, item])


def append(state: list[Any], item: Any) -> NoReply[list[Any]]:
    return NoReply([*state, item])


def finish(state: list[Any]) -> Stop[list[Any]]:
    return Stop(state, reply="finished")


def wrong_kind(state: list[Any], what: str) -> Any:
    state.append("spoilt")
    return {"nothing": None, "text": "done", "no reply": NoReply(["spoilt"])}[what]


def wrong_signal(state: list[Any]) -> Any:
    state.append("spoilt")
    return Reply("nobody asked", ["spoilt"])


def unstorable_reply(state: list[Any]) -> Reply[list[Any]]:
    return Reply(object(), ["spoilt"])


def unstorable_last_reply(state: list[Any]) -> Stop[list[Any]]:
    return Stop(["spoilt"], reply=object())


def broken(state: list[Any]) -> Reply[list[Any]]:
    state.append("spoilt")
    raise KeyError("no such item")


def mutating(state: list[Any], item: Any) -> None:
    state.append("spoilt by the validator")


def picky(state: list[Any], item: Any) -> None:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is no text")


@workflow
async def serve() -> list[Any]:
    received = await receive(
        [],
        updates={
            "add": add,
            "finish": finish,
            "wrong": wrong_kind,
            "unstorable": unstorable_reply,
            "unstorable last": unstorable_last_reply,
            "broken": broken,
            "add validated": Update(add, mutating),
            "add text": Update(add, picky),
        },
        signals={"append": append, "wrong": wrong_signal},
    )
    return received.state


@pytest.fixture
async def run(app: Tenuto) -> RunHandle[list[Any]]:
    """A run that accepts messages and has one item."""
    run = await app.start(serve)
    assert await run.update("add", "violin", retry_for=LIMIT, timeout=LIMIT) == 1
    return run


async def goes_on(run: RunHandle[list[Any]], *items: Any) -> None:
    """The run takes the next messages, and has lost and gained nothing else."""
    assert await run.update("add", "bow", timeout=LIMIT) == len(items) + 2
    assert await run.update("finish", timeout=LIMIT) == "finished"
    assert await run.result(timeout=LIMIT) == ["violin", *items, "bow"]


async def refused(error: type[TenutoError], code: str, asking: Awaitable[Any]) -> Any:
    with pytest.raises(error) as raised:
        await asking
    assert raised.value.code == code
    return raised.value


async def suspended(app: Tenuto, run: RunHandle[Any]) -> None:
    async def reached() -> bool:
        return await run.status() == "suspended"

    await app.wait_until(reached, LIMIT)


# --- updates


async def test_an_unknown_update_is_rejected_and_leaves_no_trace(app: Tenuto, run: RunHandle[list[Any]]) -> None:
    await suspended(app, run)
    before = await app.store.rows(run.id)
    error = await refused(UpdateRejectedError, "TN210", run.update("nonsense", 1, timeout=LIMIT))
    assert error.why == "not_accepting"
    await suspended(app, run)
    assert await app.store.rows(run.id) == before
    await goes_on(run)


async def test_a_rejected_update_may_be_sent_again_under_its_id(run: RunHandle[list[Any]]) -> None:
    await refused(UpdateRejectedError, "TN210", run.update("nonsense", id="u", timeout=LIMIT))
    assert await run.update("add", "rosin", id="u", timeout=LIMIT) == 2
    await goes_on(run, "rosin")


async def test_an_update_to_a_finished_run_is_closed_and_changes_nothing(
    app: Tenuto, run: RunHandle[list[Any]]
) -> None:
    await goes_on(run)
    before = await app.store.rows(run.id)
    error = await refused(UpdateRejectedError, "TN210", run.update("add", "late", timeout=LIMIT))
    assert error.why == "closed"
    assert await app.store.rows(run.id) == before
    assert await run.result(timeout=LIMIT) == ["violin", "bow"]


@pytest.mark.parametrize("what", ["nothing", "text", "no reply"])
async def test_a_handler_that_returns_the_wrong_kind_fails_its_update_only(
    run: RunHandle[list[Any]], what: str
) -> None:
    error = await refused(UpdateFailedError, "TN211", run.update("wrong", what, timeout=LIMIT))
    assert error.why == "handler"
    assert isinstance(error.__cause__, HandlerReturnError)
    assert error.__cause__.code == "TN108"
    await goes_on(run)


async def test_a_signal_handler_that_returns_the_wrong_kind_changes_nothing(run: RunHandle[list[Any]]) -> None:
    await run.signal("wrong")
    await run.signal("append", "rosin")
    await goes_on(run, "rosin")


async def test_a_handler_that_raises_fails_its_update_only(run: RunHandle[list[Any]]) -> None:
    error = await refused(UpdateFailedError, "TN211", run.update("broken", id="u", timeout=LIMIT))
    assert isinstance(error.__cause__, KeyError)
    again = await refused(UpdateFailedError, "TN211", run.update("broken", id="u", timeout=LIMIT))
    assert str(again.__cause__) == str(error.__cause__)
    await goes_on(run)


async def test_wrong_arguments_fail_the_update_only(run: RunHandle[list[Any]]) -> None:
    error = await refused(UpdateFailedError, "TN211", run.update("add", timeout=LIMIT))
    assert isinstance(error.__cause__, TypeError)
    await goes_on(run)


@pytest.mark.parametrize("name", ["unstorable", "unstorable last"])
async def test_a_reply_that_cannot_be_stored_fails_its_update_only(run: RunHandle[list[Any]], name: str) -> None:
    error = await refused(UpdateFailedError, "TN211", run.update(name, timeout=LIMIT))
    assert isinstance(error.__cause__, EncodingError)
    assert error.__cause__.code == "TN129"
    await goes_on(run)


# --- validators


async def test_a_validator_that_mutates_its_state_changes_nothing(run: RunHandle[list[Any]]) -> None:
    assert await run.update("add validated", "rosin", timeout=LIMIT) == 2
    await goes_on(run, "rosin")


async def test_any_error_of_a_validator_rejects_with_its_text(run: RunHandle[list[Any]]) -> None:
    error = await refused(UpdateRejectedError, "TN210", run.update("add text", 5, timeout=LIMIT))
    assert error.why == "validator"
    assert "5 is no text" in (error.reason or "")
    await goes_on(run)


async def test_an_async_validator_is_refused_when_receive_is_entered(app: Tenuto) -> None:
    async def late(state: list[Any], item: Any) -> None: ...

    @workflow
    async def tries() -> str:
        try:
            await receive([], updates={"add": Update(add, late)})  # type: ignore[arg-type]
        except ReceiveConfigError as error:
            publish_state(error.code)
        return await wait_for_signal("go")

    run = await app.start(tries)
    await run.signal("go", "went on")
    assert await run.result(timeout=LIMIT) == "went on"
    assert await run.query() == "TN107"
    assert [entry.location for entry in await run.history()] == ["signal:go"]


async def test_a_run_that_does_not_catch_a_wrong_receive_fails_with_it(app: Tenuto) -> None:
    async def late(state: list[Any], item: Any) -> None: ...

    @workflow
    async def tries() -> None:
        await receive([], updates={"add": Update(add, late)})  # type: ignore[arg-type]

    run = await app.start(tries)
    error = await refused(RunFailedError, "TN201", run.result(timeout=LIMIT))
    assert isinstance(error.__cause__, ReceiveConfigError)


async def test_a_validator_that_blocks_delays_the_run_and_loses_nothing(app: Tenuto) -> None:
    rounds: list[int] = []

    def slow(state: list[Any], item: Any) -> None:
        rounds.append(sum(range(2_000_000)))  # workflow code cannot sleep; it can only take long

    @workflow
    async def wait() -> list[Any]:
        return (await receive([], updates={"add": Update(add, slow), "finish": finish})).state

    run = await app.start(wait)
    await suspended(app, run)
    answers = await asyncio.gather(*(run.update("add", "x", timeout=LIMIT) for _ in range(2)))
    assert sorted(answers) == [1, 2]
    assert len(rounds) == 2
    await run.update("finish", timeout=LIMIT)
    assert await run.result(timeout=LIMIT) == ["x", "x"]


# --- at the sender


async def test_a_signal_argument_that_cannot_be_stored_is_refused_at_the_sender(
    app: Tenuto, run: RunHandle[list[Any]]
) -> None:
    error = await refused(EncodingError, "TN129", run.signal("append", {"it": object()}))
    assert "object" in str(error)
    assert await app.store.mail(run.id, 0) == []
    await goes_on(run)


async def test_an_update_argument_that_cannot_be_stored_is_refused_at_the_sender(run: RunHandle[list[Any]]) -> None:
    await refused(EncodingError, "TN129", run.update("add", object(), id="u", timeout=LIMIT))
    assert await run.update("add", "rosin", id="u", timeout=LIMIT) == 2
    await goes_on(run, "rosin")


MESSAGES: dict[str, Callable[[RunHandle[Any]], Awaitable[Any]]] = {
    "signal": lambda run: run.signal("append", 1),
    "update": lambda run: run.update("add", 1, timeout=LIMIT),
    "query": lambda run: run.query("state"),
    "cancel": lambda run: run.cancel(),
    "result": lambda run: run.result(timeout=LIMIT),
}


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_message_to_an_unknown_run_says_so(app: Tenuto, message: str) -> None:
    error = await refused(RunNotFoundError, "TN204", MESSAGES[message](app.get("nobody")))
    assert "nobody" in str(error)
    assert [record.id async for record in app.runs()] == []


async def test_a_signal_to_a_finished_run_is_refused(app: Tenuto, run: RunHandle[list[Any]]) -> None:
    await goes_on(run)
    await refused(RunClosedError, "TN205", run.signal("append", "late"))
    assert await app.store.mail(run.id, 0) == []


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"], ids=["empty", "long", "no text"])
async def test_a_name_that_cannot_be_one_is_refused_at_the_sender(run: RunHandle[list[Any]], name: str) -> None:
    await refused(InvalidNameError, "TN217", run.signal(name))
    await refused(InvalidNameError, "TN217", run.update(name, timeout=LIMIT))
    await goes_on(run)


async def test_an_update_that_was_not_decided_when_the_run_was_terminated_is_answered(app: Tenuto) -> None:
    """P8, R056: behind a handler that never ends it stays undecided, and hears `closed` from the run's end."""
    busy = asyncio.Event()

    @step
    async def hang() -> None:
        busy.set()
        await asyncio.Event().wait()

    async def slow(state: int) -> Reply[int]:
        await hang()
        return Reply(None, state)

    @workflow
    async def wait() -> None:
        await receive(0, updates={"slow": slow})

    run = await app.start(wait)
    first = asyncio.create_task(run.update("slow", retry_for=LIMIT, timeout=LIMIT))
    await busy.wait()
    second = asyncio.create_task(run.update("slow", id="second", timeout=LIMIT))

    async def stored() -> bool:
        return bool(await app.store.mail(run.id, 0))

    await app.wait_until(stored, LIMIT)
    await run.terminate()
    with pytest.raises(UpdateRejectedError) as refused:
        await second
    assert refused.value.why == "closed"
    with pytest.raises(UpdateFailedError):
        await first
