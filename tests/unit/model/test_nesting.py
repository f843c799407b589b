"""Where which call is allowed: the table of nesting, cell by cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tenuto import (
    Async,
    Break,
    NoReply,
    Reply,
    Stop,
    Task,
    Update,
    deprecate_patch,
    detach,
    hook,
    join,
    loop,
    now,
    parallel,
    patched,
    publish_state,
    race,
    random,
    receive,
    removed,
    rollback_checkpoint,
    run_info,
    side_effect,
    signal,
    sleep,
    spawn,
    step,
    update_state,
    uuid4,
    wait_for_signal,
    workflow,
)
from tenuto.errors import NestingError, NotInWorkflowError, QueryFailedError, ReadOnlyError, UpdateRejectedError
from tenuto.model.state import answer_query
from tenuto.testing import Engine

from .conftest import locations


@step
async def tick() -> None: ...


@workflow
async def child() -> None: ...


async def nothing() -> None: ...


async def once(state: int) -> Break[None]:
    return Break()


OPERATIONS: dict[str, Callable[[], Any]] = {
    "step": tick,
    "named step": lambda: step("named", int),
    "sleep": lambda: sleep(0),
    "side_effect": lambda: side_effect(int),
    "publish_state": lambda: publish_state(1),
    "patched": lambda: patched("p"),
    "deprecate_patch": lambda: deprecate_patch("d"),
    "removed": lambda: removed("gone", "step"),
    "rollback_checkpoint": lambda: rollback_checkpoint("c"),
    "spawn": lambda: spawn(child),
    "detach": lambda: detach(child),
    "signal": lambda: signal("nobody", "s"),
    "Task.run": lambda: Task.run(tick),
    "Task.delay": lambda: Task.delay(0),
    "hook": hook,
    "wait_for_signal": lambda: wait_for_signal("free", timeout=0),
    "parallel": lambda: parallel([nothing]),
    "join": lambda: join({"a": nothing}),
    "race": lambda: race({"a": nothing}),
    "loop": lambda: loop("l", 0, once),
    "random": random,
    "uuid4": uuid4,
}
RECEIVE = {"receive": lambda: receive(0, timeout=0)}
UPDATE_STATE = {"update_state": lambda: update_state(lambda state: (None, state))}


async def attempt(call: Callable[[], Any]) -> str:
    """What becomes of a call: "ok", or the error it raises, and whether at the call or at the await."""
    try:
        made = call()
    except Exception as error:  # noqa: BLE001  # any
        return type(error).__name__
    try:
        if asyncio.iscoroutine(made):
            await made
    except TimeoutError:
        pass
    except Exception as error:  # noqa: BLE001  # any
        return f"{type(error).__name__} when awaited"
    return "ok"


async def attempts(calls: dict[str, Callable[[], Any]]) -> dict[str, str]:
    return {name: await attempt(call) for name, call in calls.items()}


def all_of(calls: dict[str, Any], outcome: str) -> dict[str, str]:
    return dict.fromkeys(calls, outcome)


async def test_a_run_and_a_loop_body_of_the_run_may_do_all_but_update_the_state(engine: Engine) -> None:
    async def body(state: None) -> Break[Any]:
        return Break(await attempts({**OPERATIONS, **RECEIVE, **UPDATE_STATE}))

    @workflow
    async def go() -> Any:
        return await attempts({**OPERATIONS, **RECEIVE, **UPDATE_STATE}), await loop("body", None, body)

    expected = {**all_of({**OPERATIONS, **RECEIVE}, "ok"), "update_state": "NestingError"}
    assert await (await engine.start(go)).result() == (expected, expected)


async def test_a_task_and_a_branch_may_not_receive_nor_update_the_state(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE}

    @workflow
    async def go() -> Any:
        task = asyncio.get_running_loop().create_task(attempts(calls))
        return [
            await task,
            *await parallel([lambda: attempts(calls)]),
            (await race({"a": lambda: attempts(calls)})).value,
        ]

    expected = {**all_of(OPERATIONS, "ok"), "receive": "NestingError", "update_state": "NestingError"}
    assert await (await engine.start(go)).result() == [expected] * 3


async def test_a_handler_may_not_receive_nor_update_nor_wait_for_what_receive_handles(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE, "handled": lambda: wait_for_signal("go")}

    async def go_on(state: Any) -> Stop[Any]:
        return Stop(await attempts(calls))

    @workflow
    async def go() -> Any:
        return (await receive(0, signals={"go": go_on})).state

    run = await engine.start(go)
    await run.signal("go")
    refused = all_of({**RECEIVE, **UPDATE_STATE, "handled": 0}, "NestingError")
    assert await run.result() == {**all_of(OPERATIONS, "ok"), **refused}


async def test_an_async_function_and_its_branches_may_update_the_state(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE, "handled": lambda: wait_for_signal("stop")}

    def begin(state: Any) -> Async[Any]:
        async def go_on() -> Any:
            return [await attempts(calls), *await parallel([lambda: attempts(calls)])]

        return Async(go_on, state)

    def stop(state: Any) -> Stop[Any]:
        return Stop(state)

    @workflow
    async def go() -> None:
        await receive(0, updates={"begin": begin}, signals={"stop": stop})

    run = await engine.start(go)
    allowed = all_of({**OPERATIONS, **UPDATE_STATE}, "ok")
    refused = all_of({**RECEIVE, "handled": 0}, "NestingError")
    assert await run.update("begin") == [{**allowed, **refused}] * 2


async def test_a_closure_may_only_publish(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE}

    def begin(state: Any) -> Async[Any]:
        async def go_on() -> Any:
            def closure(state: Any) -> Any:
                outcomes: dict[str, str] = {}
                for name, call in calls.items():
                    try:
                        call()
                        outcomes[name] = "ok"
                    except NestingError:
                        outcomes[name] = "NestingError"
                return outcomes, state

            return update_state(closure)

        return Async(go_on, state)

    @workflow
    async def go() -> None:
        await receive(0, updates={"begin": begin})

    run = await engine.start(go)
    outcomes: Any = await run.update("begin")
    assert outcomes == {**all_of(calls, "NestingError"), "publish_state": "ok"}
    assert await locations(run) == []


async def test_a_validator_may_only_look_at_time_and_run(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE}
    refused: dict[str, bool] = {}

    def validate(state: Any) -> None:
        assert now() == run_info().started_at
        for name, call in calls.items():
            try:
                call()
            except ReadOnlyError:
                refused[name] = True
        raise ValueError("seen")

    def handler(state: Any) -> Reply[Any]:
        return Reply(None, state)

    @workflow
    async def go() -> None:
        await receive(0, updates={"u": Update(handler, validate)})

    run = await engine.start(go)
    with pytest.raises(UpdateRejectedError, match="seen"):
        await run.update("u")
    assert set(refused) == set(calls)
    assert await locations(run) == []


async def test_a_refused_call_takes_no_place(engine: Engine) -> None:
    async def branch() -> None:
        with pytest.raises(NestingError):
            receive(0, timeout=1)
        await tick()

    def handler(state: Any) -> NoReply[Any]:
        with pytest.raises(NestingError):
            wait_for_signal("go")
        return NoReply(state)

    @workflow
    async def go() -> None:
        with pytest.raises(NestingError):
            update_state(lambda state: (None, state))
        await parallel([branch])
        await receive(0, signals={"go": handler}, timeout=5)

    run = await engine.start(go)
    await run.signal("go")
    await run.result()
    assert await locations(run) == ["parallel/[0]/tick", "parallel", "receive/go!0", "receive/timer"]


async def test_the_place_is_checked_again_where_a_call_is_awaited(engine: Engine) -> None:
    @workflow
    async def go() -> str:
        pending = receive(0, timeout=1)

        async def elsewhere() -> None:
            await pending

        try:
            await asyncio.get_running_loop().create_task(elsewhere())
        except NestingError:
            return "refused"
        return ""

    assert await (await engine.start(go)).result() == "refused"


@pytest.mark.parametrize("name", [*OPERATIONS, *RECEIVE, *UPDATE_STATE])
def test_a_query_may_only_look_at_the_state_it_was_given(name: str) -> None:
    call = {**OPERATIONS, **RECEIVE, **UPDATE_STATE}[name]
    with pytest.raises(QueryFailedError) as failed:
        answer_query(child, None, lambda state: call())
    assert isinstance(failed.value.__cause__, ReadOnlyError)


@pytest.mark.parametrize("name", [name for name in [*OPERATIONS, *RECEIVE, *UPDATE_STATE] if "step" not in name])
def test_outside_a_run_only_steps_can_be_called(name: str) -> None:
    with pytest.raises(NotInWorkflowError):
        {**OPERATIONS, **RECEIVE, **UPDATE_STATE}[name]()


async def test_in_the_body_of_a_step_only_steps_can_be_called(engine: Engine) -> None:
    calls = {**OPERATIONS, **RECEIVE, **UPDATE_STATE}

    @step
    async def body() -> dict[str, str]:
        return await attempts({name: call for name, call in calls.items() if "step" not in name})

    @workflow
    async def go() -> Any:
        return await body()

    assert set((await (await engine.start(go)).result()).values()) == {"NotInWorkflowError"}
