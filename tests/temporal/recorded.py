"""Workflows whose histories are kept in `histories/`: recorded once, and replayed by every release after it (P9).

`python recorded.py HOST:PORT` records those that are missing, with the code as it is then. Those of `first/` were
recorded before payloads carried a mark of their own and before commands were handed over in portions.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tenuto import (
    ContinueAsNew,
    Reply,
    RunHandle,
    Stop,
    Task,
    Tenuto,
    hook,
    parallel,
    publish_state,
    receive,
    side_effect,
    sleep,
    spawn,
    step,
    wait_for_signal,
    workflow,
)
from tenuto.errors import RunCancelledError

HISTORIES = Path(__file__).with_name("histories")
LIMIT = "120s"


@step(name="recorded.twice")
async def twice(value: Any) -> Any:
    return value + value


@step(name="recorded.length")
async def length(value: bytes) -> int:
    return len(value)


@step(name="recorded.lasts")
async def lasts(seconds: float) -> None:
    await asyncio.sleep(seconds)  # the work of this step


@workflow(name="recorded.leaf")
async def leaf(number: int) -> int:
    return await twice(number)


@workflow(name="recorded.everything")
async def everything(rounds: int) -> Any:
    publish_state({"rounds": rounds})

    async def here() -> str:
        return "here"

    def add(state: list[Any], item: Any) -> Reply[list[Any]]:
        return Reply(len(state) + 1, [*state, item])

    def stop(state: list[Any]) -> Stop[list[Any]]:
        return Stop(state)

    seen: list[Any] = [await twice(rounds), await step("named", here), await side_effect(partial(int, 7))]
    await sleep("10ms")
    seen.append(await wait_for_signal("say"))
    seen.append(await (await spawn(leaf, 4)))
    seen.append(await Task.run(twice, "x"))
    token = await hook()
    publish_state({"token": token.token})
    seen.append(await token)
    received = await receive([], updates={"add": add}, signals={"stop": stop})
    if rounds:
        return ContinueAsNew(rounds - 1)
    return [*seen, received.state, await wait_for_signal("kept")]


@workflow(name="recorded.wide")
async def wide(count: int) -> int:
    return sum(await parallel([partial(twice, number) for number in range(count)]))


@workflow(name="recorded.large")
async def large(count: int, size: int) -> int:
    return sum(await parallel([partial(length, b"x" * size) for _ in range(count)]))


@workflow(name="recorded.awaits_a_task")
async def awaits_a_task() -> None:
    await Task.run(lasts, 2)


async def _drive_everything(app: Tenuto, run: RunHandle[Any]) -> Any:
    await run.signal("kept", "from the first")
    for _ in range(2):
        await run.signal("say", ("a", 1))

        async def token_is_there() -> bool:
            return "token" in (await run.query() or {})

        await app.wait_until(token_is_there, LIMIT)
        await app.send_hook((await run.query())["token"], "sent")
        assert await run.update("add", {"b": 2}, retry_for=LIMIT, timeout=LIMIT) == 1
        await run.signal("stop")
        await app.wait_until(partial(_is_past, run), LIMIT)
    return await run.result(timeout=LIMIT)


async def _is_past(run: RunHandle[Any]) -> bool:
    return await run.status() == "completed" or "token" not in (await run.query() or {})


async def record(app: Tenuto, name: str) -> RunHandle[Any]:
    """One run to its end."""
    run: RunHandle[Any]
    match name:
        case "everything":
            run = await app.start(everything, 1)
            await _drive_everything(app, run)
        case "wide":
            run = await app.start(wide, 1550)
            await run.result(timeout=LIMIT)
        case "large":
            run = await app.start(large, 3, 1_100_000)
            await run.result(timeout=LIMIT)
        case _:
            run = await app.start(awaits_a_task)
            await app.wait_until(partial(_has_begun, run), LIMIT)
            await run.cancel("enough", within="500ms")
            with suppress(RunCancelledError):
                await run.result(timeout=LIMIT)
    return run


async def _has_begun(run: RunHandle[Any]) -> bool:
    return await run.status() == "running" and bool((await run.explain()).pending)


async def main(host: str, folder: str) -> None:
    from temporalio.client import Client

    client = await Client.connect(host)
    into = HISTORIES / folder
    into.mkdir(parents=True, exist_ok=True)
    for name in ("everything", "wide", "large", "awaits_a_task"):
        if list(into.glob(f"{name}*")):
            continue
        async with Tenuto(f"temporal://{host}/default?task_queue=recorded-{name}", grace=1) as app:
            run = await record(app, name)
        number = 0
        async for execution in client.list_workflows(f"WorkflowId = '{run.id}'"):
            handle = client.get_workflow_handle(run.id, run_id=execution.run_id)
            history = await handle.fetch_history()
            text = re.sub(rf"\d+@{re.escape(socket.gethostname())}[\w-]*", "recorder", history.to_json())
            (into / f"{name}-{number}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            number += 1


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
