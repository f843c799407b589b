"""Real worker processes, killed with SIGKILL while runs of mixed shape are under way."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenuto import Tenuto

RUNS = int(os.environ.get("TENUTO_CHAOS_RUNS", "60"))
KILLS = int(os.environ.get("TENUTO_CHAOS_KILLS", "6"))
SCRIPT = Path(__file__).with_name("mixed.py")


class Workers:
    """Worker processes of our own; each is ended by its id."""

    def __init__(self, url: str, effects: Path, count: int) -> None:
        self._command = [sys.executable, str(SCRIPT), url, str(effects)]
        self._alive = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def kill_one(self, chance: random.Random) -> None:
        victim = chance.randrange(len(self._alive))
        self._alive[victim].send_signal(signal.SIGKILL)
        self._alive[victim].wait()
        self._alive[victim] = self._start()

    def end(self) -> None:
        for worker in self._alive:
            worker.kill()
            worker.wait()


@contextmanager
def _workers(url: str, effects: Path, count: int) -> Iterator[Workers]:
    workers = Workers(url, effects, count)
    try:
        yield workers
    finally:
        workers.end()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'chaos.db'}"


@pytest.mark.slow
async def test_runs_end_whatever_is_killed_and_nothing_acknowledged_is_lost(
    url: str, mixed: Any, tmp_path: Path
) -> None:
    """R013, R033, R063: every run ends, every recorded step once, no signal or start lost, no update unanswered."""
    effects = tmp_path / "effects.log"
    chance = random.Random(20261115)
    async with Tenuto(url, worker=False) as app:
        with _workers(url, effects, 2) as workers:
            killing = asyncio.create_task(_kill_now_and_then(workers, chance))
            started = []
            for number in range(RUNS):
                shape, args, expected = list(mixed.SHAPES.values())[number % len(mixed.SHAPES)]
                started.append((await app.start(shape, *args, id=f"run-{number}"), expected))
            waiting = [await app.start(mixed.signals, 5, id=f"signals-{number}") for number in range(5)]
            for number in range(5):
                for run in waiting:
                    await run.signal("go", number, id=f"go-{number}")
            counters = [await app.start(mixed.counter, id=f"counter-{number}") for number in range(5)]
            answers = [
                await run.update("add", 2, id=f"add-{number}", retry_for="60s", timeout="60s")
                for run in counters
                for number in range(3)
            ]
            await killing
            for run, expected in started:
                assert await run.result(timeout="90s") == expected, run.id
            for run in waiting:
                assert await run.result(timeout="60s") == [0, 1, 2, 3, 4]
            assert answers == [2, 4, 6] * 5
            for run in counters:
                assert await run.update("stop", timeout="60s", retry_for="60s") == 6
                assert await run.result(timeout="60s") == 6
        await _check_history(app, effects)


async def _kill_now_and_then(workers: Workers, chance: random.Random) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.3, 1.2))
        workers.kill_one(chance)


async def _check_history(app: Tenuto, effects: Path) -> None:
    """P2: every recorded step was executed at least once, under its own key."""
    executed = {line.split()[0] for line in effects.read_text(encoding="utf-8").splitlines()}
    async for record in app.runs(limit=500):
        run = app.get(record.id)
        locations = [entry.location for entry in await run.history()]
        assert len(locations) == len(set(locations))
        for entry in await run.history():
            if entry.kind == "step" and entry.status == "completed":
                assert f"{record.id}:0:{entry.location}" in executed
