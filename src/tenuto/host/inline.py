"""What a held run has under way in this process: attempts of inline steps and rollback handlers, hooks being opened."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tenuto.codec.values import dump
from tenuto.errors import HookTakenError
from tenuto.host.attempts import HostedAttempt, Workplace
from tenuto.host.certainty import insist
from tenuto.host.effects import token_hash
from tenuto.host.runners import Call, Runners, Work
from tenuto.kernel.commands import RegisterHook, RunRollback, RunStep
from tenuto.kernel.facts import Done
from tenuto.kernel.location import Location
from tenuto.kernel.operations import Err, Ok

__all__ = ["InlineWork"]

Told: TypeAlias = Callable[[Done], None]


class InlineWork:
    """The work of one run; `done` is given how each of it ended. What is stopped says nothing any more."""

    __slots__ = ("_runners", "_under_way", "place")

    def __init__(self, place: Workplace, runners: Runners) -> None:
        self.place = place
        self._runners = runners
        self._under_way: dict[tuple[Location, int], Work] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def attempt(self, run_id: str, command: RunStep | RunRollback, done: Told) -> None:
        work = self._under_way[command.location, command.attempt] = _Attempt(self, run_id, command, done)
        self._runners.start(work)

    def open_hook(self, run_id: str, command: RegisterHook, done: Told) -> None:
        work = self._under_way[command.location, 0] = Call(partial(self._open_hook, run_id, command, done))
        self._runners.start(work)

    def stop(self, location: Location) -> None:
        """Stops what is under way for one operation."""
        for key in [key for key in self._under_way if key[0] == location]:
            self._under_way.pop(key).cancel()

    def under_way(self) -> list[tuple[Location, int, float]]:
        """The attempts of steps under way: where, which, and since when by the loop's clock."""
        return [
            (key[0], key[1], work.began)
            for key, work in self._under_way.items()
            if isinstance(work, _Attempt) and isinstance(work.of, RunStep)
        ]

    def stop_all(self) -> None:
        for started in self._under_way.values():
            started.cancel()
        self._under_way.clear()

    async def _open_hook(self, run_id: str, command: RegisterHook, done: Told) -> None:
        """The lookup row holds a hash; the token itself lives only in history. Minted here, never by workflow code."""
        place = self.place
        token = command.token if command.token is not None else urlsafe_b64encode(place.entropy.token(24)).decode()
        digest = token_hash(token)
        opened = await insist(
            f"a hook of run {run_id} could not be opened",
            lambda: place.store.open_hook(run_id, command.key, digest),
            place.pace.retry,
        )
        outcome = Ok(token.encode()) if opened else Err(dump(HookTakenError(f"another open run has {token!r}")))
        self.end(Done(command.location, 0, outcome), done)

    def end(self, fact: Done, done: Told) -> None:
        """Tells how something ended that nobody has stopped."""
        if self._under_way.pop((fact.location, fact.attempt), None) is not None:
            done(fact)


class _Attempt(HostedAttempt):
    """An attempt of a step, or of a rollback handler, as work of a run."""

    __slots__ = ("_done", "_work", "task")

    def __init__(self, of: InlineWork, run_id: str, command: RunStep | RunRollback, done: Told) -> None:
        super().__init__(of.place, command, run_id)
        self.task: asyncio.Task[None] | None = None
        self._work = of
        self._done = done

    async def run(self) -> None:
        command = self._command
        outcome = await self.outcome()
        self._work.end(Done(command.location, command.attempt, outcome), self._done)

    def cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()
