"""Workflows and a worker process for the tests that kill it: `python killed.py URL LOG`, ready when it says so."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tenuto import (
    NoReply,
    Reply,
    Stop,
    Tenuto,
    heartbeat,
    publish_state,
    receive,
    side_effect,
    sleep,
    step,
    step_info,
    wait_for_signal,
    workflow,
)
from tenuto.errors import StepOutcomeUnknownError

LOG = Path(os.environ.get("TENUTO_KILLED_LOG", os.devnull))


def say(text: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{text}\n")


@step(name="killed.retried")
async def retried(run: str) -> Any:
    info = step_info()
    if info.attempt == 1:
        heartbeat({"row": 40})
        say(f"in {run}")
        await asyncio.Event().wait()
    return info.attempt, info.details


@step(name="killed.once", max_attempts=1)
async def once(run: str) -> None:
    say(f"in {run}")
    await asyncio.Event().wait()


@workflow(name="killed.retries")
async def retries() -> Any:
    return await retried("retries")


@workflow(name="killed.unsure")
async def unsure() -> str:
    try:
        await once("unsure")
    except StepOutcomeUnknownError as error:
        return f"{error.kind} after {error.attempts}"
    return "done"


@workflow(name="killed.named")
async def named() -> str:
    async def hang_at_first() -> str:
        say("in named")
        if LOG.read_text().count("in named") == 1:
            await asyncio.Event().wait()
        return "again"

    return await step("hang", hang_at_first)


@workflow(name="killed.sleeps")
async def sleeps() -> str:
    await side_effect(partial(say, "in sleeps"))
    await sleep("2s")
    return "woke"


@workflow(name="killed.serves")
async def serves() -> Any:
    def add(state: list[Any], item: Any) -> Reply[list[Any]]:
        publish_state([*state, item])
        return Reply(len(state) + 1, [*state, item])

    def append(state: list[Any], item: Any) -> NoReply[list[Any]]:
        return NoReply([*state, item])

    def stop(state: list[Any]) -> Stop[list[Any]]:
        return Stop(state)

    await side_effect(partial(say, "in serves"))
    received = await receive([], updates={"add": add}, signals={"append": append, "stop": stop})
    return received.state, await wait_for_signal("last")


async def main(url: str) -> None:
    async with Tenuto(url, lease="2s", grace=1):
        say(f"ready {os.getpid()}")
        await asyncio.Event().wait()


if __name__ == "__main__":
    LOG = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1]))
