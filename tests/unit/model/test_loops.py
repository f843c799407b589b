"""Loops and checkpoints of `receive`: long lives in bounded history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import (
    Async,
    Break,
    Continue,
    NoReply,
    Reply,
    Stop,
    loop,
    publish_state,
    receive,
    step,
    update_state,
    wait_for_signal,
    workflow,
)
from tenuto.errors import EncodingError, RunFailedError
from tenuto.testing import Engine

from .conftest import locations


@step
async def echo(n: int) -> int:
    return n


async def test_a_loop_keeps_its_state_and_trims_its_history(engine: Engine) -> None:
    async def body(n: int) -> Continue[int] | Break[str]:
        await echo(n)
        return Continue(n + 1) if n < 10 else Break(f"after {n}")

    @workflow
    async def go() -> str:
        return await loop("count", 0, body, commit_interval=2)

    run = await engine.start(go)
    assert await run.result() == "after 10"
    assert [place for place in await locations(run) if "~" in place] == ["count/~9/echo", "count/~10/echo"]


async def test_a_loop_without_state_goes_on_with_none(engine: Engine) -> None:
    rounds: list[int] = []

    async def body(state: None) -> Break[None] | None:
        return Break() if await wait_for_signal("s") == "stop" else None

    @workflow
    async def go() -> None:
        await loop("wait", None, body)
        rounds.append(1)

    run = await engine.start(go)
    for text in ("go", "go", "stop"):
        await run.signal("s", text)
    assert await run.result() is None


async def test_a_body_that_returns_nothing_for_a_state_is_a_type_error(engine: Engine) -> None:
    async def body(state: int) -> None: ...

    @workflow
    async def go() -> None:
        await loop("forgetful", 0, body)

    with pytest.raises(RunFailedError) as raised:
        await (await engine.start(go)).result()
    assert "forgetful" in str(raised.value.__cause__)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
async def test_wrong_settings_are_refused_at_the_call(engine: Engine, wrong: Any) -> None:  # M105
    async def body(state: int) -> Break[None]:
        return Break()

    @workflow
    async def go() -> None:
        for setting in ("commit_interval", "history_every", "history_keep"):
            with pytest.raises(ValueError, match=setting):
                loop("l", 0, body, **{setting: wrong})
        with pytest.raises(ValueError, match="checkpoint_every"):
            receive(0, timeout=1, checkpoint_every=wrong)
        with pytest.raises(EncodingError):
            loop("l", object(), body)  # type: ignore[arg-type, misc]
        with pytest.raises(EncodingError):
            receive(object(), timeout=1, checkpoint_every=1)

    run = await engine.start(go)
    await run.result()
    assert await run.history() == []


async def test_loops_nest(engine: Engine) -> None:
    async def inner(state: int) -> Continue[int] | Break[int]:
        await echo(state)
        return Continue(state + 1) if state < 3 else Break(state)

    async def outer(total: int) -> Continue[int] | Break[int]:
        total += await loop("inner", 0, inner, commit_interval=2)
        return Continue(total) if total < 12 else Break(total)

    @workflow
    async def go() -> int:
        return await loop("outer", 0, outer, commit_interval=3)

    assert await (await engine.start(go)).result() == 12


# --- receive with checkpoints


def stop(state: Any) -> Stop[Any]:
    return Stop(state)


async def test_only_what_came_after_a_checkpoint_is_handled_again(engine: Engine) -> None:  # M102
    handled: list[int] = []

    async def count(state: int, n: int) -> NoReply[int]:
        handled.append(n)
        await echo(n)
        return NoReply(state + 1)

    @workflow
    async def serve() -> Any:
        return (await receive(0, signals={"count": count, "stop": stop}, checkpoint_every=3)).state

    run = await engine.start(serve)
    for n in range(1, 8):
        await run.signal("count", n)
    await engine.settle()
    engine.crash()
    handled.clear()
    await engine.settle()
    assert set(handled) == {7}
    await run.signal("stop")
    assert await run.result() == 7


async def test_there_is_no_checkpoint_while_an_async_function_is_in_flight(engine: Engine) -> None:  # M103
    gate = asyncio.Event()

    @step
    async def slow() -> None:
        await gate.wait()

    def count(state: int) -> NoReply[int]:
        return NoReply(state + 1)

    def begin(state: int) -> Async[int]:
        async def go_on() -> None:
            await slow()
            update_state(lambda now: (None, now + 100))

        return Async(go_on, state)

    @workflow
    async def serve() -> Any:
        handlers = {"count": count, "begin": begin, "stop": stop}
        return (await receive(0, signals=handlers, checkpoint_every=3)).state

    run = await engine.start(serve)
    await run.signal("count")
    await run.signal("begin")
    for _ in range(5):
        await run.signal("count")
    await engine.settle()
    assert "receive/count!0" in await locations(run)
    gate.set()
    await engine.settle()
    assert [place for place in await locations(run) if "!" in place] == []
    engine.crash()
    await run.signal("stop")
    assert await run.result() == 106


async def test_a_checkpoint_keeps_answers_snapshots_and_the_buffer(engine: Engine) -> None:  # M104
    handled: list[str] = []

    def note(state: list[str], text: str) -> Reply[list[str]]:
        handled.append(text)
        publish_state({"notes": [*state, text]})
        return Reply(f"noted {text}", [*state, text])

    @workflow
    async def serve() -> Any:
        state = (await receive([], updates={"note": note}, signals={"stop": stop}, checkpoint_every=1)).state
        return state, await wait_for_signal("other"), await wait_for_signal("other")

    run = await engine.start(serve)
    await run.signal("other", 1)
    assert await run.update("note", "a", id="u") == "noted a"
    await run.signal("other", 2)
    await engine.settle()
    engine.crash()
    assert await run.update("note", "a", id="u") == "noted a"
    assert await run.query() == {"notes": ["a"]}
    await run.signal("stop")
    assert await run.result() == (["a"], 1, 2)
    assert handled == ["a"]


async def test_a_state_kept_by_a_handler_cannot_reach_behind_a_checkpoint(engine: Engine) -> None:
    kept: list[Any] = []

    def keep(state: tuple[int, set[int]]) -> NoReply[tuple[int, set[int]]]:
        state[1].add(state[0])
        kept.append(state)
        return NoReply((state[0] + 1, state[1]))

    def spoil(state: Any) -> NoReply[Any]:
        kept[-1][1].add("spoilt")
        return NoReply(state)

    @workflow
    async def serve() -> Any:
        handlers = {"keep": keep, "spoil": spoil, "stop": stop}
        return (await receive((0, set[int]()), signals=handlers, checkpoint_every=1)).state

    run = await engine.start(serve)
    for name in ("keep", "keep", "spoil", "stop"):
        await run.signal(name)
    assert await run.result() == (2, {0, 1})
