"""Attempts under way: their limits, their heartbeats, and stopping them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any, Final

from tenuto.errors import EnvironmentFault
from tenuto.host.certainty import insist
from tenuto.host.runner import perform
from tenuto.kernel.commands import RunRollback, RunStep
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.model.steps import Attempt
from tenuto.store.port import Store

__all__ = ["run_limited"]


WRITE_EVERY: Final = 1.0  # seconds between two heartbeats that are stored


class HostedAttempt(Attempt):
    """An attempt of a worker: heartbeats are noticed at once, their details stored now and then for the next one."""

    __slots__ = ("_loop", "_owner", "_said", "_store", "_stored_at", "_writing", "beat")

    def __init__(
        self, store: Store, command: RunStep | RunRollback, run_id: str | None, owner: str | None = None
    ) -> None:
        super().__init__(command, run_id)
        self.beat: asyncio.Event | None = None  # set by each heartbeat, where silence has a limit
        self._store = store
        self._owner = owner or run_id  # with whom the details go: the run, or a task by itself
        self._loop = asyncio.get_running_loop()
        self._said: bytes | None = None  # details that are not stored yet
        self._stored_at = -WRITE_EVERY
        self._writing: asyncio.Task[None] | None = None

    def heard(self, details: bytes) -> None:
        self._loop.call_soon_threadsafe(self._note, details)

    def _note(self, details: bytes) -> None:
        if self.beat is not None:
            self.beat.set()
        self._said = details
        if self._owner is not None and self._writing is None and self._loop.time() - self._stored_at >= WRITE_EVERY:
            self._writing = asyncio.create_task(self.store())

    async def flush(self) -> None:
        """Everything said so far is stored; one write after the other, or an older one could come last."""
        if self._writing is not None:
            await self._writing
        await self.store()

    async def store(self) -> None:
        """Stores what was said last, if it is not stored yet."""
        said, self._said = self._said, None
        try:
            if said is not None and self._owner is not None:
                await self._store.keep_details(self.of.key, self._owner, said)
                self._stored_at = self._loop.time()
        except EnvironmentFault:
            if self._said is None:  # the next heartbeat, or the end of the attempt, tries again
                self._said = said
        finally:
            self._writing = None


async def run_limited(
    store: Store, command: RunStep | RunRollback, run_id: str | None, threads: Executor | None, owner: str | None = None
) -> Ok | Err | TimedOut:
    """One attempt, with what its last heartbeat said kept for the next one, wherever that runs.

    `owner`: a task without a run, whose details go with it.
    """
    attempt = HostedAttempt(store, command, run_id, owner)
    heartbeat_ms: int | None = None
    if isinstance(command, RunStep):
        heartbeat_ms = command.spec.heartbeat_ms
        if command.attempt > 1 or heartbeat_ms is not None:
            key = command.key
            attempt.details = await insist(f"the details of {key} could not be read", lambda: store.details(key))
    outcome: Ok | Err | TimedOut
    if command.timeout_ms is None and heartbeat_ms is None:
        try:
            outcome = await perform(command, attempt, threads)
        except asyncio.CancelledError:
            attempt.cancelled = True
            raise
    else:
        attempt.beat = asyncio.Event()
        outcome = await _limited(command, attempt, _silence(attempt.beat, heartbeat_ms), threads)
    if not isinstance(outcome, Ok):
        await asyncio.sleep(0)  # what the step's thread has just said is on its way
        await attempt.flush()
    return outcome


async def _limited(
    command: RunStep | RunRollback,
    attempt: Attempt,
    too_silent: Coroutine[Any, Any, None],
    threads: Executor | None,
) -> Ok | Err | TimedOut:
    """Cancelled at its timeout or after too long a silence. Cancelled from outside it raises."""
    work = asyncio.create_task(perform(command, attempt, threads))
    silence = asyncio.create_task(too_silent)
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
