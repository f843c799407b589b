"""Attempts under way: their limits, their heartbeats, and stopping them."""

from __future__ import annotations

import asyncio
from typing import Final

from tenuto.errors import EnvironmentFault
from tenuto.host.certainty import insist
from tenuto.host.runner import perform
from tenuto.kernel.commands import RunRollback, RunStep
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.model.steps import Attempt
from tenuto.store.port import Store
from tenuto.system import REAL, System

__all__ = ["HostedAttempt", "Workplace"]


WRITE_EVERY: Final = 1.0  # seconds between two heartbeats that are stored


class Workplace:
    """What the attempts of one worker share."""

    __slots__ = ("entropy", "pace", "runner", "store", "system")

    def __init__(self, store: Store, system: System = REAL) -> None:
        self.store = store
        self.system = system
        self.entropy = system.entropy
        self.pace = system.pace
        self.runner = system.runner()


class HostedAttempt(Attempt):
    """An attempt of a worker. What its last heartbeat said is kept for the next one, wherever that runs.

    `owner`: a task without a run, whose details go with it.
    """

    __slots__ = ("_beats", "_command", "_loop", "_owner", "_place", "began")

    def __init__(
        self,
        place: Workplace,
        command: RunStep | RunRollback,
        run_id: str | None,
        owner: str | None = None,
    ) -> None:
        self.of = self._command = command  # all of it is set here: one is made for every step
        self.run_id = run_id
        self.details = None
        self.cancelled = False
        self._place = place
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.began = self._loop.time()
        self._beats: _Heartbeats | None = None  # once one came, or where silence has a limit

    def heard(self, details: bytes) -> None:
        self._loop.call_soon_threadsafe(self._note, details)

    def _note(self, details: bytes) -> None:
        if self._beats is None:
            self._beats = self._listen()
        self._beats.note(details)

    def _listen(self) -> _Heartbeats:
        return _Heartbeats(self._place.store, self._command.key, self._owner or self.run_id)

    async def outcome(self) -> Ok | Err | TimedOut:
        """How it ended. To be awaited in a context of its own."""
        command = self._command
        if isinstance(command, RunStep):
            timeout_ms, heartbeat_ms = command.spec.timeout_ms, command.spec.heartbeat_ms
            if command.attempt > 1 or heartbeat_ms is not None:
                await self._recall(command.key)
        else:
            timeout_ms, heartbeat_ms = command.timeout_ms, None
        outcome: Ok | Err | TimedOut
        if timeout_ms is None and heartbeat_ms is None:
            try:
                outcome = await perform(command, self, self._place.runner)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        else:
            outcome = await self._limited(timeout_ms, heartbeat_ms)
        if not isinstance(outcome, Ok):
            await asyncio.sleep(0)  # what the step's thread has just said is on its way
            if self._beats is not None:
                await self._beats.flush()
        return outcome

    async def _recall(self, key: str) -> None:
        store = self._place.store
        what = f"the details of {key} could not be read"
        self.details = await insist(what, lambda: store.details(key), self._place.pace.retry)

    async def _limited(self, timeout_ms: int | None, heartbeat_ms: int | None) -> Ok | Err | TimedOut:
        """Cancelled at its timeout or after too long a silence. Cancelled from outside it raises."""
        beats = self._beats = self._listen()
        work = asyncio.create_task(perform(self._command, self, self._place.runner))
        silence = asyncio.create_task(beats.silence(heartbeat_ms))
        timeout = None if timeout_ms is None else timeout_ms / 1000
        try:
            await asyncio.wait({work, silence}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self.cancelled = True
            return TimedOut()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            silence.cancel()
            work.cancel()


class _Heartbeats:
    """What an attempt says while it runs: noticed at once, its details stored now and then for the next one."""

    def __init__(self, store: Store, key: str, owner: str | None) -> None:
        self._store = store
        self._key = key
        self._owner = owner  # with whom the details go: the run, or a task by itself
        self._beat = asyncio.Event()
        self._said: bytes | None = None  # details that are not stored yet
        self._stored_at = -WRITE_EVERY
        self._writing: asyncio.Task[None] | None = None

    def note(self, details: bytes) -> None:
        self._beat.set()
        self._said = details
        now = asyncio.get_running_loop().time()
        if self._owner is not None and self._writing is None and now - self._stored_at >= WRITE_EVERY:
            self._writing = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Everything said so far is stored; one write after the other, or an older one could come last."""
        if self._writing is not None:
            await self._writing
        await self._write()

    async def _write(self) -> None:
        """Stores what was said last, if it is not stored yet."""
        said, self._said = self._said, None
        try:
            if said is not None and self._owner is not None:
                await self._store.keep_details(self._key, self._owner, said)
                self._stored_at = asyncio.get_running_loop().time()
        except EnvironmentFault:
            if self._said is None:  # the next heartbeat, or the end of the attempt, tries again
                self._said = said
        finally:
            self._writing = None

    async def silence(self, heartbeat_ms: int | None) -> None:
        """Ends when no heartbeat came for that long; never without a limit."""
        if heartbeat_ms is None:
            await asyncio.Event().wait()
            return
        try:
            while True:
                async with asyncio.timeout(heartbeat_ms / 1000):
                    await self._beat.wait()
                self._beat.clear()
        except TimeoutError:
            return
