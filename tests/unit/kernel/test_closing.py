"""Runs that are dropped while their code does not want to go."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenuto import (
    NoReply,
    Task,
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
    sleep,
    spawn,
    step,
    uuid4,
    wait_for_signal,
    workflow,
)

Wait = Callable[[], Coroutine[Any, Any, Any]]


@workflow(name="closing.kid")
async def kid() -> None: ...


async def child() -> Any:
    return await (await spawn(kid))


async def hooked() -> Any:
    return await (await hook())


async def limited() -> None:
    async with asyncio.timeout(5):
        await sleep("1h")


async def grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(3600))


async def stubborn() -> None:
    """The same again, one level below."""
    while True:
        with suppress(BaseException):
            await sleep("1h")


async def body(state: int) -> None:
    await sleep(1)


WAITS: dict[str, Wait] = {
    "sleep": lambda: sleep("1h"),
    "asyncio_sleep": lambda: asyncio.sleep(3600),
    "signal": lambda: wait_for_signal("x"),
    "receive": lambda: receive(None, signals={"u": lambda state: NoReply(state)}),
    "parallel": lambda: parallel([lambda: sleep(1)]),
    "join": lambda: join({"a": lambda: sleep(1)}),
    "race": lambda: race({"a": lambda: sleep(1)}),
    "loop": lambda: loop("l", 0, body),
    "child": child,
    "hook": hooked,
    "timer": lambda: Task.any([Task.delay("1h")]),
    "timeout": limited,
    "wait_for": lambda: asyncio.wait_for(sleep(3), 2),
    "task_group": grouped,
    "event": lambda: asyncio.Event().wait(),
    "queue": lambda: asyncio.Queue[int]().get(),
    "gather": lambda: asyncio.wait([asyncio.ensure_future(sleep(1))]),
    "below": stubborn,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_code_that_swallows_everything_in_a_loop_is_closed_named_and_has_written_nothing(drive, wait: Wait):
    """K137"""
    rounds = []

    async def refuses() -> None:
        while True:
            try:
                await wait()
            except:  # noqa: E722
                rounds.append(None)

    run = drive(refuses)
    run.turn()
    before = dict(run.kv)
    assert "main" in run.run.close()
    assert len(rounds) <= 4  # GeneratorExit twice, `Evicted` twice
    run.run.forget()
    assert run.kv == before
    run.run = None


CALLS: dict[str, Callable[[], object]] = {
    "now": now,
    "random": lambda: random().random(),
    "uuid4": uuid4,
    "patched": lambda: patched("p"),
    "publish_state": lambda: publish_state(1),
    "rollback_checkpoint": lambda: rollback_checkpoint("c"),
    "call_later": lambda: asyncio.get_running_loop().call_later(3, print),
    "create_task": lambda: asyncio.create_task(asyncio.sleep(1)),
    "Task.delay": lambda: Task.delay("1h"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_that_do_not_wait_hold_up_the_closing_no_longer_than_others(drive, call: Callable[[], object]):
    """K137, 1.8: what does not wait cannot end a `close`; from the third call on it lets the code come to what does"""

    async def refuses() -> None:
        while True:
            with suppress(BaseException):
                call()
                await sleep("1h")

    run = drive(refuses)
    run.turn()
    before = dict(run.kv)
    assert "main" in run.run.close()
    assert run.kv == before
    run.run = None


def test_each_task_is_told_twice(drive):
    """1.8: the calls of one task are not counted against another"""
    told: list[str] = []

    async def refuses(name: str) -> None:
        while True:
            try:
                await sleep("1h")
            except GeneratorExit:
                pass
            except BaseException as error:  # noqa: BLE001
                told.append(f"{name} {type(error).__name__}")

    async def both() -> None:
        await asyncio.gather(refuses("a"), refuses("b"))

    run = drive(both)
    run.turn()
    assert run.run.close() == ("task-2", "task-3")
    assert told == ["a Evicted", "a Evicted", "b Evicted", "b Evicted"]
    run.run = None


def test_code_that_swallows_the_end_of_its_turn_parks_the_run_all_the_same(drive):
    """1.8, D4: a fault is no more to be swallowed than an eviction"""

    async def first() -> None:
        await step("a", print)
        await sleep("1h")

    async def other() -> None:
        while True:
            with suppress(BaseException):
                await sleep(1, name="a")

    run = drive(first)
    run.turn()
    run.turn(run.ok("a"))
    run.reload(other)
    run.turn()
    assert run.reason.code == "TN105"
    run.run.close()
    run.run = None


ENDS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("driving", sys.argv[1])
driving = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driving)
from tenuto import sleep

async def body():
    while True:
        try:
            await sleep("1h")
        except:
            pass

run = driving.Driver(body)
run.turn()
print(run.run.close())
run.run.forget()
del run
"""


def test_an_interpreter_ends_though_code_has_refused_to_close():
    """1.8: kept referenced. The end of the interpreter would close it once more, outside of its context."""
    conftest = str(Path(__file__).with_name("conftest.py"))
    done = subprocess.run(
        [sys.executable, "-c", ENDS, conftest], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "('main',)"
    assert done.stderr == ""
