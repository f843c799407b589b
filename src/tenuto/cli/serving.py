"""Processes that serve: a worker in this one until it is told to stop, and several of them watched over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tenuto.app import Tenuto
from tenuto.cli.connect import Place
from tenuto.cli.output import safe, say
from tenuto.errors import ConfigError
from tenuto.host.engine import NativeEngine
from tenuto.model.ids import short_name
from tenuto.model.registry import default

__all__ = ["Processes", "Stopping", "serve", "start_ourselves"]

STOPS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
RESTART_AFTER: Final = 1.0  # seconds: a process that dies at once must not be started in a loop
QUICKLY: Final = 5.0  # seconds in which a death counts as one at the start


class Stopping:
    """Hears SIGINT, SIGTERM and SIGHUP, from when it is made. Of one event loop."""

    def __init__(self) -> None:
        self._told = asyncio.Event()
        self._actions: list[Callable[[], None]] = []
        for number in STOPS:
            with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
                asyncio.get_running_loop().add_signal_handler(number, self._hear)

    def then(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """What to do when told once, and when told again."""
        self._actions = [first, second]

    @property
    def told(self) -> bool:
        return self._told.is_set()

    async def wait(self) -> None:
        """Until told to stop."""
        await self._told.wait()

    def _hear(self) -> None:
        self._told.set()
        if self._actions:
            self._actions.pop(0)()


async def serve(place: Place, **options: Any) -> None:
    """Runs a worker in this process until it is told to stop; then it finishes what is under way, and leaves."""
    known = default.definitions("workflow")
    if not known and not default.definitions("step"):
        loaded = ", ".join(map(safe, place.apps))
        raise ConfigError(f"nothing to work on: {loaded} defines no workflow and no step; name your code with --app")
    stopping = Stopping()  # before there is a worker: one that was told meanwhile leaves in good order, too
    names = ", ".join(safe(short_name(workflow.id)) for workflow in known) or "no workflows"
    app = Tenuto(place.url, codec=place.loaded_codec(), **options)
    stopping.then(
        lambda: say("stopping: finishing what is under way", err=True),
        lambda: _hurry(app),
    )
    async with app:
        say(f"worker is ready: {names}", err=True)
        await stopping.wait()
    say("worker has left", err=True)


def _hurry(app: Tenuto) -> None:
    say("told again: not waiting for what is under way", err=True)
    if isinstance(app.engine, NativeEngine):
        app.engine.hurry()


def start_ourselves(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Another process of this command line. What is secret is in its environment, never among its arguments."""
    # In a group of its own: Ctrl-C is for the one who watches, which then tells it, once.
    group = 0 if os.name == "posix" else None
    command = [sys.executable, "-m", "tenuto.cli", *arguments]
    return subprocess.Popen(command, process_group=group, env=environment)  # noqa: S603  # ourselves


@dataclass(slots=True)
class Processes:
    """Worker processes of one command line, started again when they die, told to stop together."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    count: int
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list["subprocess.Popen[bytes]"])
    _stopping: bool = False

    def start_one(self) -> subprocess.Popen[bytes]:
        process = start_ourselves(self.arguments, self.environment)
        self._running.append(process)
        return process

    async def run(self) -> int:
        """Until told to stop, or until one could not even start; the exit code."""
        stopping = Stopping()
        stopping.then(self._stop, self._stop)
        watchers = [asyncio.create_task(self._keep()) for _ in range(self.count)]
        told = asyncio.create_task(stopping.wait())
        await asyncio.wait([told, *watchers], return_when=asyncio.FIRST_COMPLETED)
        if not stopping.told:  # one of them cannot start: the others go with it
            self._stop()
        codes = await asyncio.gather(*watchers)
        told.cancel()
        return max(codes)

    async def _keep(self) -> int:
        """One process, and the next when it dies; one that cannot start is not tried again."""
        while True:
            process = self.start_one()
            began = asyncio.get_running_loop().time()
            code = await asyncio.to_thread(process.wait)
            self._running.remove(process)
            if self._stopping:
                return 0
            if code > 0 and asyncio.get_running_loop().time() - began < QUICKLY:
                say(f"worker process {process.pid} could not start, and ended with {code}", err=True)
                return code
            say(f"worker process {process.pid} ended with {code}; another takes its place", err=True)
            await asyncio.sleep(RESTART_AFTER)

    def _stop(self) -> None:
        """Tells every process, once for each time that we are told."""
        self._stopping = True
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()
