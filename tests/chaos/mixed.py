"""Workflows of mixed shape for crash tests, and the worker process that serves them.

    python tests/chaos/mixed.py URL EFFECTS

Every execution of a step appends a line to the file EFFECTS: what really happened, whatever history says.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tenuto import (
    Reply,
    Stop,
    Task,
    Tenuto,
    join,
    publish_state,
    race,
    receive,
    sleep,
    spawn,
    step,
    step_info,
    wait_for_signal,
    workflow,
)

EFFECTS: Path | None = None


def _effect(name: str) -> None:
    if EFFECTS is not None:
        with EFFECTS.open("a", encoding="utf-8") as log:
            log.write(f"{step_info().idempotency_key} {name} {os.getpid()}\n")


@step(name="mixed-work", max_attempts=10)
async def work(number: int) -> int:
    await asyncio.sleep(0.005)
    _effect("work")
    return number + 1


@step(name="mixed-queued", queue="default", max_attempts=10)
async def queued(number: int) -> int:
    _effect("queued")
    return number * 2


@workflow(name="mixed-row")
async def row(number: int) -> int:
    for _ in range(5):
        number = await work(number)
    return number


@workflow(name="mixed-naps")
async def naps(number: int) -> int:
    for _ in range(3):
        await sleep("30ms")
        number = await work(number)
    return number


@workflow(name="mixed-signals")
async def signals(count: int) -> list[int]:
    return [await wait_for_signal("go") for _ in range(count)]


def _add(total: int, number: int) -> Reply[int]:
    return Reply(total + number, total + number)


def _stop(total: int) -> Stop[int]:
    return Stop(total, reply=total)


@workflow(name="mixed-counter")
async def counter() -> int:
    total, _ = await receive(0, updates={"add": _add, "stop": _stop})
    publish_state(total)
    return total


@workflow(name="mixed-branches")
async def branches(number: int) -> list[int]:
    done = await join({"a": lambda: work(number), "b": lambda: work(number + 1)})
    first = await race({"slow": lambda: _slow(number), "fast": lambda: work(number)})
    tasks = await Task.all([Task.run(queued, number), Task.run(queued, number + 1)])
    return [*done.values(), first.value, *tasks]


async def _slow(number: int) -> int:
    await sleep("1h")
    return number


@workflow(name="mixed-parent")
async def parent(number: int) -> int:
    child = await spawn(row, number)
    return await child


async def main(url: str, effects: str) -> None:
    global EFFECTS
    EFFECTS = Path(effects)
    async with Tenuto(url, lease="1s", concurrency=50):
        await asyncio.Event().wait()


SHAPES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    # workflow, arguments for number n, expected result (None: the test says)
    "row": (row, (1,), 6),
    "naps": (naps, (1,), 4),
    "branches": (branches, (3,), [4, 5, 4, 6, 8]),
    "parent": (parent, (10,), 15),
}

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
