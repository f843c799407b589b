"""What a held run has under way in this process: attempts of inline steps and rollback handlers, hooks being opened."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeAlias

from tenuto.codec.values import dump
from tenuto.errors import HookTakenError
from tenuto.host.attempts import run_limited
from tenuto.host.certainty import insist
from tenuto.host.effects import token_hash
from tenuto.host.runners import Runners, Stoppable
from tenuto.kernel.commands import RegisterHook, RunRollback, RunStep
from tenuto.kernel.facts import Done
from tenuto.kernel.location import Location
from tenuto.kernel.operations import Err, Ok
from tenuto.store.port import Store

__all__ = ["InlineWork"]

Told: TypeAlias = Callable[[Done], None]


class InlineWork:
    """The work of one run; `done` is given how each of it ended. What is stopped says nothing any more."""

    __slots__ = ("_runners", "_store", "_threads", "_under_way")

    def __init__(self, store: Store, runners: Runners, threads: Executor) -> None:
        self._store = store
        self._runners = runners
        self._threads = threads
        self._under_way: dict[tuple[Location, int], Stoppable] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def attempt(self, run_id: str, command: RunStep | RunRollback, done: Told) -> None:
        key = (command.location, command.attempt)
        self._under_way[key] = self._runners.start(partial(self._attempt, run_id, command, done))

    def open_hook(self, run_id: str, command: RegisterHook, done: Told) -> None:
        key = (command.location, 0)
        self._under_way[key] = self._runners.start(partial(self._open_hook, run_id, command, done))

    def stop(self, location: Location) -> None:
        """Stops what is under way for one operation."""
        for key in [key for key in self._under_way if key[0] == location]:
            self._under_way.pop(key).cancel()

    def stop_all(self) -> None:
        for started in self._under_way.values():
            started.cancel()
        self._under_way.clear()

    async def _attempt(self, run_id: str, command: RunStep | RunRollback, done: Told) -> None:
        outcome = await run_limited(self._store, command, run_id, self._threads)
        self._end(Done(command.location, command.attempt, outcome), done)

    async def _open_hook(self, run_id: str, command: RegisterHook, done: Told) -> None:
        """The lookup row holds a hash; the token itself lives only in history. Minted here, never by workflow code."""
        token = command.token if command.token is not None else secrets.token_urlsafe(24)
        digest = token_hash(token)
        opened = await insist(
            f"a hook of run {run_id} could not be opened", lambda: self._store.open_hook(run_id, command.key, digest)
        )
        outcome = Ok(token.encode()) if opened else Err(dump(HookTakenError(f"another open run has {token!r}")))
        self._end(Done(command.location, 0, outcome), done)

    def _end(self, fact: Done, done: Told) -> None:
        if self._under_way.pop((fact.location, fact.attempt), None) is not None:
            done(fact)
