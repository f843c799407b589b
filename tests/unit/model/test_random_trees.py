"""Any nesting of constructs gives the same with and without crashes."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tenuto import (
    Async,
    Break,
    Continue,
    Failed,
    NoReply,
    Stop,
    Task,
    join,
    loop,
    parallel,
    race,
    receive,
    sleep,
    step,
    update_state,
    wait_for_signal,
    workflow,
)
from tenuto.testing import Engine

LEAVES = ("step", "sleep", "wait", "task", "raise", "delay")
NODES = ("parallel", "join", "race", "loop", "gather", "sequence")


def grow(random: Random, depth: int) -> Any:
    """A tree of constructs, as plain data."""
    if depth == 0 or random.random() < 0.3:
        return [random.choice(LEAVES), random.randint(0, 5)]
    return [random.choice(NODES), [grow(random, depth - 1) for _ in range(random.randint(1, 3))]]


@step
async def echo(n: int) -> int:
    return n


@step(max_attempts=2)
async def broken(n: int) -> int:
    raise KeyError(n)


async def walk(tree: Any, order: list[Any]) -> Any:
    kind, inner = tree
    if kind in LEAVES:
        order.append(kind)
        value = await leaf(kind, inner)
        order.append((kind, inner))
        return value
    match kind:
        case "parallel":
            results = await parallel([lambda t=t: walk(t, order) for t in inner], limit=2)  # type: ignore[misc]
            return ["failed" if isinstance(item, Failed) else item for item in results]
        case "join":
            return await join({str(n): (lambda t=t: walk(t, order)) for n, t in enumerate(inner)})  # type: ignore[misc]
        case "race":
            won = await race({str(n): (lambda t=t: walk(t, order)) for n, t in enumerate(inner)})  # type: ignore[misc]
            return [won.winner, won.value]
        case "gather":
            return await asyncio.gather(*(walk(t, order) for t in inner), return_exceptions=True) and "gathered"
        case "loop":

            async def body(n: int) -> Continue[int] | Break[int]:
                await walk(inner[n % len(inner)], order)
                return Continue(n + 1) if n < 4 else Break(n)

            return await loop("l", 0, body, commit_interval=2)
        case _:
            return [await walk(t, order) for t in inner]


async def leaf(kind: str, n: int) -> Any:
    match kind:
        case "step":
            return await echo(n)
        case "sleep":
            await sleep(n)
        case "wait":
            try:
                return await wait_for_signal("s", timeout=n)
            except TimeoutError:
                return "nothing"
        case "task":
            return await Task.run(echo, n)
        case "delay":
            return await Task.delay(n)
        case _:
            return await broken(n)


@workflow
async def climb(tree: Any) -> Any:
    order: list[Any] = []
    try:
        result = await walk(tree, order)
    except Exception as error:  # noqa: BLE001  # whatever the tree raises is its result
        result = type(error).__name__
    return [result, [] if "loop" in str(tree) else order]  # what a body changes outside its state is lost at a commit


@pytest.mark.parametrize("seed", range(40))
async def test_a_tree_of_constructs_ends_alike_with_crashes_everywhere(seed: int) -> None:
    tree = grow(Random(seed), 3)
    results: list[Any] = []
    for crash in (False, True):
        engine = Engine(crash_everywhere=crash, patience=0.01)
        run = await engine.start(climb, tree, id="r")
        for n in range(3):
            await run.signal("s", n)
        results.append(await run.result())
        engine.close()
    assert results[0] == results[1]


@workflow
async def serve(script: Any) -> Any:
    """A receive whose handlers climb trees."""

    async def handle(state: list[Any], tree: Any) -> NoReply[list[Any]]:
        order: list[Any] = []
        return NoReply([*state, await walk(tree, order)])

    def begin(state: list[Any], tree: Any) -> Async[list[Any]]:
        async def go_on() -> None:
            value = await walk(tree, [])
            update_state(lambda now: (None, [*now, value]))

        return Async(go_on, state)

    def stop(state: list[Any]) -> Stop[list[Any]]:
        return Stop(state)

    handlers: Any = {"handle": handle, "begin": begin, "stop": stop}
    received = await receive([], signals=handlers, timeout="1h", checkpoint_every=script)
    return received.state


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
async def test_a_receive_of_such_trees_ends_alike_with_crashes_everywhere(seed: int) -> None:
    random = Random(seed)
    messages = [(random.choice(("handle", "begin")), grow(random, 2)) for _ in range(6)]
    results: list[Any] = []
    for crash, every in ((False, None), (True, None), (True, 2), (False, 1)):
        engine = Engine(crash_everywhere=crash, patience=0.01)
        run = await engine.start(serve, every, id="r")
        for name, tree in messages:
            await run.signal(name, tree)
        await run.signal("stop")
        results.append(await run.result())
        engine.close()
    assert results[0] == results[1] == results[2] == results[3]
