"""An order that survives the death of its worker: `python examples/demo.py`.

Starts an order on a SQLite file, kills the worker's process with SIGKILL between two steps, starts another one, and
shows which steps were reused from history and which ran. The file stays behind, to be looked at.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tenuto import FatalError, RunHandle, Tenuto, sleep, step, wait_for_signal, workflow

DATABASE = Path(".tenuto") / "demo.db"
URL = f"sqlite:///{DATABASE}"


@step
async def reserve(sku: str) -> str:
    return f"{sku} reserved by process {os.getpid()}"


@step
async def charge(card: str, cents: int) -> str:
    if cents <= 0:
        raise FatalError("nothing to charge")
    return f"{cents / 100:.2f} charged to {card} by process {os.getpid()}"


@step
async def ship(sku: str) -> str:
    return f"{sku} shipped by process {os.getpid()}"


@workflow
async def order(sku: str, card: str, cents: int) -> list[str]:
    done = [await reserve(sku), await charge(card, cents)]
    await sleep("2s")  # the bank settles; the worker dies meanwhile
    approved_by = await wait_for_signal("approve")
    done.append(f"approved by {approved_by}")
    done.append(await ship(sku))
    return done


async def work() -> None:
    """What the worker process does."""
    async with Tenuto(URL, lease="2s"):
        await asyncio.Event().wait()


def start_worker() -> subprocess.Popen[bytes]:
    worker = subprocess.Popen([sys.executable, __file__, "worker"])
    print(f"  worker started, process {worker.pid}")
    return worker


async def main() -> None:
    DATABASE.parent.mkdir(mode=0o700, exist_ok=True)
    for leftover in DATABASE.parent.glob("demo.db*"):
        leftover.unlink()
    print(f"An order on {URL}")
    async with Tenuto(URL, worker=False) as app:
        first = start_worker()
        run = await app.start(order, "violin", "tok_visa", 129_900, id="order-42")
        print(f"  {run.id} started")
        while len([entry for entry in await run.history() if entry.status == "completed"]) < 2:
            await asyncio.sleep(0.05)
        await show(run)
        print(f"  killing process {first.pid} with SIGKILL")
        first.send_signal(signal.SIGKILL)
        first.wait()
        await run.signal("approve", "Ada")
        print("  approved by signal, while no worker is alive")
        second = start_worker()
        try:
            print("\nThe result:")
            for line in await run.result(timeout="25s"):
                print(f"  {line}")
        finally:
            second.terminate()
            second.wait()
        print(f"\nsteps of process {first.pid} were reused from history; process {second.pid} ran only what was left")


async def show(run: RunHandle[list[str]]) -> None:
    for entry in await run.history():
        print(f"    {entry.location:12} {entry.status}" + (f"  {entry.value}" if entry.value else ""))


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["worker"] else main())
