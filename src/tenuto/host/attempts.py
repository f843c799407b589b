"""Attempts under way: their limits, their heartbeats, and stopping them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from tenuto.host.runner import perform
from tenuto.kernel.commands import RunRollback, RunStep
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.model.steps import Attempt

__all__ = ["run_limited"]


async def run_limited(
    command: RunStep | RunRollback,
    run_id: str | None,
    threads: Executor | None,
    details: bytes | None = None,
    on_heartbeat: Callable[[bytes], None] | None = None,
) -> Ok | Err | TimedOut:
    """One attempt, cancelled at its timeout or after too long a silence. Cancelled from outside it raises."""
    loop = asyncio.get_running_loop()
    beat = asyncio.Event()

    def heartbeat(data: bytes) -> None:  # comes from the step's own thread
        loop.call_soon_threadsafe(beat.set)
        if on_heartbeat is not None:
            on_heartbeat(data)

    attempt = Attempt(command.name, run_id, command.attempt, command.key, details=details, on_heartbeat=heartbeat)
    heartbeat_ms = command.heartbeat_ms if isinstance(command, RunStep) else None
    if command.timeout_ms is None and heartbeat_ms is None:
        try:
            return await perform(command, attempt, threads)
        except asyncio.CancelledError:
            attempt.cancelled = True
            raise
    work = asyncio.create_task(perform(command, attempt, threads))
    silence = asyncio.create_task(_silence(beat, heartbeat_ms))
    timeout = None if command.timeout_ms is None else command.timeout_ms / 1000
    try:
        await asyncio.wait({work, silence}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        attempt.cancelled = True
        return TimedOut()
    except asyncio.CancelledError:
        attempt.cancelled = True
        raise
    finally:
        silence.cancel()
        work.cancel()


async def _silence(beat: asyncio.Event, heartbeat_ms: int | None) -> None:
    """Ends when no heartbeat came for that long; never without a limit."""
    if heartbeat_ms is None:
        await asyncio.Event().wait()
        return
    try:
        while True:
            async with asyncio.timeout(heartbeat_ms / 1000):
                await beat.wait()
            beat.clear()
    except TimeoutError:
        return
