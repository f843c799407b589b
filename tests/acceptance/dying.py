"""Workflows that kill their worker, and others beside them; and the worker process that serves them.

python tests/acceptance/dying.py URL FOLDER PAUSE        # one file in the folder for each step that has begun
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tenuto import Tenuto, step, workflow
from tenuto.store import endings


@step
async def die() -> None:
    os._exit(9)


@step
async def trivial(n: int) -> int:
    return n


@step
async def lengthy(n: int) -> int:
    with (Path(sys.argv[2]) / str(n)).open("a", encoding="utf-8") as begun:
        begun.write("x")
    await asyncio.sleep(float(sys.argv[3]))
    return n


@workflow(name="killer")
async def killer() -> None:
    await die()


@workflow(name="innocent")
async def innocent(n: int) -> int:
    return await trivial(n)


@workflow(name="patient")
async def patient(n: int) -> int:
    return await lengthy(n)


async def main() -> None:
    async with Tenuto(sys.argv[1]):
        print("ready", flush=True)  # noqa: T201  # the test waits for it
        await asyncio.Event().wait()


if __name__ == "__main__":
    endings.RECLAIM_DELAY_MS = 10  # type: ignore[misc]  # what was lost again waits for seconds, and then for minutes
    asyncio.run(main())
