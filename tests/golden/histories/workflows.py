"""The workflows of the golden histories. This module is never edited: its histories would be those of other code.

A new feature, or a bug that was fixed, gets a workflow in a module of its own beside this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tenuto import (
    Break,
    Continue,
    ContinueAsNew,
    FatalError,
    NoReply,
    Reply,
    Stop,
    Task,
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
    rollback_checkpoint,
    side_effect,
    signal,
    sleep,
    spawn,
    step,
    uuid4,
    wait_for_signal,
    workflow,
)
from tenuto.errors import StepFailedError
from tenuto.testing import Engine
from tenuto.twf.run import load_program

Drive: TypeAlias = Callable[[Engine, Any], Awaitable[object]]

attempts: dict[str, int] = {}


@step(name="double")
async def double(number: int) -> int:
    return 2 * number


@step(name="flaky", max_attempts=3, backoff="1s")
async def flaky(name: str) -> str:
    attempts[name] = attempts.get(name, 0) + 1
    if attempts[name] < 3:
        raise ConnectionError(f"try {attempts[name]}")
    return "at last"


@step(name="hopeless", max_attempts=2, backoff="1s")
async def hopeless() -> None:
    raise ConnectionError("never")


@step(name="fatal")
async def fatal() -> None:
    raise FatalError("no")


@step(name="once", max_attempts=1)
async def once() -> str:
    return "once"


@step(name="queued", queue="work")
async def queued(number: int) -> int:
    return number + 1


async def undo(result: int) -> None:
    attempts["undone"] = result


async def failing_undo(result: int) -> None:
    raise ValueError("cannot undo")


@workflow(name="steps")
async def steps() -> Any:
    first = await double(1)
    second = await double(first)
    peeked = await step("peek", lambda: 7, ephemeral=True)
    return [first, second, peeked, await once(), await flaky("steps")]


@workflow(name="exhausted")
async def exhausted() -> Any:
    try:
        await hopeless()
    except StepFailedError as error:
        caught = type(error).__name__
    await fatal()
    return caught


@workflow(name="undoing")
async def undoing() -> None:
    await step("kept", double, 1, rollback=undo)
    rollback_checkpoint("safe")
    await step("taken", double, 2, rollback=undo)
    await step("stuck", double, 3, rollback=failing_undo, max_attempts=1)
    raise RuntimeError("undo all of it")


@workflow(name="times")
async def times() -> Any:
    began = now()
    await sleep("1h")
    await asyncio.sleep(5)
    try:
        async with asyncio.timeout(60):
            await wait_for_signal("never")
    except TimeoutError:
        pass
    return (now() - began).total_seconds()


@workflow(name="messages")
async def messages() -> Any:
    first = await wait_for_signal("go")
    try:
        await wait_for_signal("late", timeout="1m")
        late = True
    except TimeoutError:
        late = False
    return [first, late]


@workflow(name="serving")
async def serving() -> Any:
    def add(total: int, number: int) -> Reply[int]:
        publish_state({"total": total + number})
        return Reply(total + number, total + number)

    def note(total: int, number: int) -> NoReply[int]:
        return NoReply(total + number)

    def close(total: int) -> Stop[int]:
        return Stop(total)

    return (await receive(0, updates={"add": add}, signals={"note": note, "close": close})).state


@workflow(name="entity")
async def entity() -> int:
    def note(total: int, number: int) -> NoReply[int]:
        return NoReply(total + number)

    def close(total: int) -> Stop[int]:
        return Stop(total)

    return (await receive(0, signals={"note": note, "close": close}, checkpoint_every=2)).state


@workflow(name="looping")
async def looping() -> int:
    async def body(count: int) -> Continue[int] | Break[int]:
        await double(count)
        return Break(count) if count == 7 else Continue(count + 1)

    return await loop("count", 0, body, commit_interval=3)


@workflow(name="branches")
async def branches() -> Any:
    both = await join({"a": lambda: double(1), "b": lambda: double(2)})
    listed = await parallel([lambda: double(3), lambda: fatal()])
    won = await race({"quick": lambda: double(4), "slow": lambda: sleep("1h")})
    return [both, listed[0], type(listed[1]).__name__, list(won)]


@workflow(name="tasks")
async def tasks() -> Any:
    one, two = Task.run(double, 1), Task.run(queued, 2)
    everything = await Task.all([one, two])
    first = await Task.race([Task.delay("1h"), Task.run(double, 5)])
    return [everything, first.result]


@workflow(name="plain-asyncio")
async def plain_asyncio() -> Any:
    gathered = await asyncio.gather(double(1), double(2))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(double(number)) for number in (3, 4)]
    waited = await asyncio.wait_for(double(5), 60)
    return [gathered, [task.result() for task in tasks], waited]


@workflow(name="chance")
async def chance() -> Any:
    return [random().random(), str(uuid4()), await side_effect(lambda: 42)]


@workflow(name="changed")
async def changed() -> bool:
    return patched("new-way")


@workflow(name="child")
async def child(number: int) -> int:
    return await double(number)


@workflow(name="parent")
async def parent() -> Any:
    followed = await spawn(child, 1, id="child-1")
    await detach(child, 2, id="child-2")
    await signal("messages", "go", 1)
    return await followed


@workflow(name="hooked")
async def hooked() -> Any:
    opened = await hook("token-of-a-hook")
    return await opened


@workflow(name="chain")
async def chain(left: int) -> Any:
    await double(left)
    return "end" if left == 0 else ContinueAsNew(left - 1)


@workflow(name="stopped")
async def stopped() -> None:
    await step("done", double, 1, rollback=undo)
    await sleep("1h")


PROGRAM = """
workflow GoldenOrder(cents: int) -> (map):
    signal Note(text: string):
        notes.append(text)
    query Status() -> (string):
        return status
    notes = []
    status = "charging"
    activity GoldenCharge(cents) -> receipt
    await timer(1h)
    status = "waiting"
    await all:
        activity GoldenCharge(1) -> small
        activity GoldenCharge(2) -> large
    close {receipt: receipt, sum: small + large, notes: notes}

activity GoldenCharge(cents: int) -> (int):
    return cents * 2
"""
load_program(files={"golden.twf": PROGRAM.lstrip()})


async def _nothing(engine: Engine, run: Any) -> None:
    """The run needs nobody."""


async def _talk(engine: Engine, run: Any) -> None:
    await engine.settle()
    await run.signal("go", "went")
    await engine.advance("2m")


async def _serve(engine: Engine, run: Any) -> None:
    await engine.settle()
    assert await run.update("add", 2, id="u1") == 2
    await run.signal("note", 3)
    await run.signal("close")


async def _count(engine: Engine, run: Any) -> None:
    for number in range(5):
        await run.signal("note", number)
        await engine.settle()
    await run.signal("close")


async def _call_back(engine: Engine, run: Any) -> None:
    await engine.settle()
    await run.signal("hook:token-of-a-hook", "called")


async def _note(engine: Engine, run: Any) -> None:
    await engine.settle()
    await run.signal("Note", "soon")


async def _stop(engine: Engine, run: Any) -> None:
    await engine.settle()
    await run.cancel("enough")


# Name, workflow, arguments, and what happens to the run from outside.
HISTORIES: list[tuple[str, Any, tuple[Any, ...], Drive]] = [
    ("steps", steps, (), _nothing),
    ("exhausted", exhausted, (), _nothing),
    ("undoing", undoing, (), _nothing),
    ("times", times, (), _nothing),
    ("messages", messages, (), _talk),
    ("serving", serving, (), _serve),
    ("entity", entity, (), _count),
    ("looping", looping, (), _nothing),
    ("branches", branches, (), _nothing),
    ("tasks", tasks, (), _nothing),
    ("plain-asyncio", plain_asyncio, (), _nothing),
    ("chance", chance, (), _nothing),
    ("changed", changed, (), _nothing),
    ("parent", parent, (), _nothing),
    ("hooked", hooked, (), _call_back),
    ("chain", chain, (2,), _nothing),
    ("stopped", stopped, (), _stop),
    ("twf-order", "GoldenOrder", (42,), _note),
]
