"""The edges of user code: what it raises is the failure of that attempt, update, query or run, and of nothing else."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tenuto import (
    NoReply,
    Received,
    Reply,
    Task,
    Update,
    publish_state,
    receive,
    side_effect,
    sleep,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.codec.classes import register_class
from tenuto.errors import (
    EncodingError,
    QueryFailedError,
    RemoteError,
    RunFailedError,
    SideEffectError,
    StepFailedError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.testing import Engine

RAISED = [SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit]
attempts: list[str] = []


def fail(name: str) -> None:
    if name == "sys.exit":
        sys.exit(2)
    raise {kind.__name__: kind for kind in RAISED}[name]("told so")


@step(backoff="1ms", name="edges.plain")
def plain(name: str) -> None:
    attempts.append(name)
    fail(name)


@step(backoff="1ms", name="edges.coroutine")
async def coroutine(name: str) -> None:
    attempts.append(name)
    fail(name)


@step(backoff="1ms", queue="edges", name="edges.queued_plain")
def queued_plain(name: str) -> None:
    attempts.append(name)
    fail(name)


@step(backoff="1ms", queue="edges", name="edges.queued_coroutine")
async def queued_coroutine(name: str) -> None:
    attempts.append(name)
    fail(name)


@workflow(name="edges.beside")
async def beside() -> str:
    await sleep("1s")
    return await wait_for_signal("go")


async def is_untouched(engine: Engine, other: Any) -> None:
    await other.signal("go", "fine")
    assert await other.result() == "fine"


@pytest.mark.parametrize("name", ["sys.exit", *(kind.__name__ for kind in RAISED)])
@pytest.mark.parametrize(
    "failing", [plain, coroutine, queued_plain, queued_coroutine], ids=["def", "async", "queued def", "queued async"]
)
async def test_whatever_a_step_raises_is_a_failed_attempt(engine, failing, name):
    """M110"""
    attempts.clear()

    @workflow(name="edges.steps")
    async def steps() -> Any:
        try:
            await failing(name)
        except StepFailedError as error:
            cause = error.__cause__
            return [error.kind, error.attempts, isinstance(cause, RemoteError), str(cause)]

    other = await engine.start(beside)
    run = await engine.start(steps)
    kind, counted, remote, cause = await run.result()
    assert (kind, counted, len(attempts)) == ("exhausted", 3, 3)
    assert remote == (name != "StopIteration")  # of which Python itself makes a RuntimeError
    assert ("SystemExit" if name == "sys.exit" else name) in cause
    await is_untouched(engine, other)


@pytest.mark.parametrize("name", ["sys.exit", *(kind.__name__ for kind in RAISED)])
async def test_an_ephemeral_step_and_a_step_with_a_limit_fail_alike(engine, name):
    """M110"""

    @workflow(name="edges.ephemeral")
    async def ephemeral() -> list[str]:
        kinds: list[str] = []
        for options in ({"ephemeral": True, "max_attempts": 2}, {"timeout": "5s", "max_attempts": 1}):
            for function in (plain.fn, coroutine.fn):
                try:
                    await step("failing", function, name, backoff="1ms", **options)
                except StepFailedError as error:
                    kinds.append(error.kind)
        return kinds

    assert await (await engine.start(ephemeral)).result() == ["exhausted"] * 4


@pytest.mark.parametrize("name", ["sys.exit", *(kind.__name__ for kind in RAISED)])
@pytest.mark.parametrize("where", ["run", "branch", "task"])
async def test_whatever_the_workflow_raises_fails_its_run(engine, name, where):
    """M110, T9"""

    @workflow(name="edges.fails")
    async def fails() -> None:
        async def inner() -> None:
            await sleep("1s")
            fail(name)

        match where:
            case "task":
                await asyncio.create_task(inner())
            case "branch":
                await asyncio.gather(inner(), sleep("2s"))
            case _:
                await inner()

    other = await engine.start(beside)
    run = await engine.start(fails)
    with pytest.raises(RunFailedError) as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, RuntimeError if name == "StopIteration" else RemoteError)
    await is_untouched(engine, other)


@pytest.mark.parametrize("kind", RAISED)
async def test_a_rollback_handler_that_raises_anything_is_tried_again_and_given_up(engine, kind):
    """M110"""
    attempts.clear()

    def undo(result: Any) -> None:
        attempts.append("undo")
        raise kind

    async def undo_async(result: Any) -> None:
        attempts.append("undo")
        raise kind

    @workflow(name="edges.rollback")
    async def rollback() -> None:
        await step("one", lambda: 1, rollback=undo, max_attempts=2, backoff="1ms")
        await step("two", lambda: 2, rollback=undo_async, max_attempts=2, backoff="1ms")
        raise ValueError("undo it")

    with pytest.raises(RunFailedError) as failed:
        await (await engine.start(rollback)).result()
    assert isinstance(failed.value.__cause__, ValueError)
    assert attempts == ["undo"] * 4


@pytest.mark.parametrize("kind", RAISED)
async def test_a_side_effect_that_raises_anything_is_recorded(engine, kind):
    """M110"""

    def effect() -> None:
        raise kind

    @workflow(name="edges.effect")
    async def effects() -> str:
        try:
            await side_effect(effect)
        except SideEffectError as error:
            return str(error)
        return "nothing"

    assert kind.__name__ in await (await engine.start(effects)).result()


@pytest.mark.parametrize("kind", RAISED)
async def test_handlers_validators_and_queries_that_raise_anything_fail_by_themselves(engine, ask, kind):
    """M110"""

    def raises(*_: Any) -> Any:
        raise kind("told so")

    async def raises_later(state: Any) -> Any:
        await sleep("1s")
        raise kind("told so")

    @workflow(name="edges.handlers")
    async def handlers() -> Any:
        publish_state(1)
        received: Received[Any] = await receive(
            0,
            updates={
                "plain": raises,
                "later": raises_later,
                "checked": Update(lambda state: Reply(1, state), validator=raises),
            },
            signals={"poke": raises, "count": lambda state: NoReply(state + 1)},
            timeout="1h",
        )
        return received.state

    handlers.query("broken")(raises)
    run = await engine.start(handlers)
    for name in ("plain", "later"):
        with pytest.raises(UpdateFailedError) as failed:
            await (await ask(run, name, id=name))()
        assert failed.value.why == "handler"
        assert failed.value.__cause__ is not None
    with pytest.raises(UpdateRejectedError) as rejected:
        await (await ask(run, "checked", id="checked"))()
    assert rejected.value.why == "validator"
    await run.signal("poke")
    with pytest.raises(QueryFailedError):
        await run.query("broken")
    await run.signal("count")
    assert await run.result() == 1


# --- what the process does is not the code's


def interrupted(handler: Any, body: Callable[[], Any]) -> type[BaseException] | None:
    """What comes out of a turn in whose midst a signal arrives."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        body()
    except BaseException as error:  # noqa: BLE001
        return type(error)
    finally:
        signal.signal(signal.SIGINT, before)
    return None


def raising(number: int, frame: Any) -> None:
    raise SystemExit(1)


@pytest.mark.skipif(sys.platform == "emscripten", reason="no signals")
@pytest.mark.parametrize(
    ("handler", "kind"), [(signal.default_int_handler, KeyboardInterrupt), (raising, SystemExit)], ids=["ctrl-c", "own"]
)
@pytest.mark.parametrize("where", ["workflow", "step"])
def test_what_a_signal_of_the_process_raises_is_not_recorded(handler, kind, where):
    """G11: the turn or attempt is dropped, shutdown goes on"""
    engine = Engine()

    @step(name="edges.interrupted", max_attempts=1)
    async def interrupting() -> None:
        signal.raise_signal(signal.SIGINT)

    @workflow(name="edges.signalled")
    async def signalled() -> None:
        if where == "step":
            await interrupting()
        signal.raise_signal(signal.SIGINT)

    async def body() -> None:
        run = await engine.start(signalled, id="r")
        await run.result()

    loop = asyncio.new_event_loop()
    assert interrupted(handler, lambda: loop.run_until_complete(body())) is kind
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    assert loop.run_until_complete(engine.get("r").status()) in ("pending", "running", "suspended")
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    engine.close()


# --- values that cannot be read back


@dataclass
class Picky:
    """Takes what it is given, changes it, and does not take that again."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("negative")
        self.n = -1


def unserialize(data: Any) -> Any:
    raise SystemExit


class Odd:
    pass


register_class("edges.Picky", Picky)
register_class("edges.Odd", Odd, serialize=lambda value: 1, deserialize=unserialize)


def picky() -> Picky:
    return Picky(1)


async def picky_later() -> list[Any]:
    return [{"in": Picky(1)}]


def odd() -> Odd:
    return Odd()


@pytest.mark.parametrize("make", [picky, picky_later, odd])
async def test_a_value_that_cannot_be_read_back_fails_its_step_while_it_is_at_hand(engine, make):
    """3.3: kind `encode`, one attempt"""

    @workflow(name="edges.picky")
    async def values() -> Any:
        try:
            await step("make", make)
        except StepFailedError as error:
            cause = error.__cause__
            return [error.kind, error.attempts, isinstance(cause, EncodingError), str(cause)]

    kind, counted, encoding, text = await (await engine.start(values)).result()
    assert (kind, counted, encoding) == ("encode", 1, True)
    assert "read back" in text


@step(queue="edges", name="edges.queued_picky")
def queued_picky() -> Picky:
    return Picky(1)


async def test_a_value_of_a_task_that_cannot_be_read_back_fails_it(engine):
    """3.3"""

    @workflow(name="edges.queued_values")
    async def values() -> list[Any]:
        found: list[Any] = []
        for call in (queued_picky, lambda: Task.run(queued_picky)):
            try:
                await call()
            except StepFailedError as error:
                found.append([error.kind, error.attempts])
        try:
            await side_effect(picky)
        except SideEffectError:
            found.append("side effect")
        return found

    run = await engine.start(values)
    assert await run.result() == [["encode", 1], ["encode", 1], "side effect"]


# --- calls that a step may not make


@step(name="edges.publishes")
async def publishes() -> None:
    attempts.append("publishes")
    publish_state(1)


@step(name="edges.sleeps", queue="edges")
def sleeps() -> Any:
    attempts.append("sleeps")
    return sleep(1)


async def test_a_step_that_makes_a_call_of_the_model_is_tried_once(engine):
    """3.3: kind `fatal`, however often it may be tried"""
    attempts.clear()

    @workflow(name="edges.calls")
    async def calls() -> list[Any]:
        found: list[Any] = []
        for call in (publishes, sleeps):
            try:
                await call()
            except StepFailedError as error:
                found.append([error.kind, error.attempts, type(error.__cause__).__name__])
        return found

    assert await (await engine.start(calls)).result() == [["fatal", 1, "NotInWorkflowError"]] * 2
    assert attempts == ["publishes", "sleeps"]
