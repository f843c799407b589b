"""A worker process killed with SIGKILL in the middle: its runs finish on another one."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tenuto_portable import LIMIT, fresh

from tenuto import Tenuto

SCRIPT = Path(__file__).with_name("killed.py")
WORKFLOWS = ("retries", "unsure", "named", "sleeps", "serves")


def _load_definitions() -> None:
    if "tenuto_killed" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_killed", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_killed"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class Workers:
    """Worker processes of our own; each is ended by its id."""

    def __init__(self, url: str, log: Path) -> None:
        self._command = [sys.executable, str(SCRIPT), url, str(log)]
        self._alive: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._alive.append(subprocess.Popen(self._command, stderr=subprocess.DEVNULL))

    def kill(self) -> None:
        worker = self._alive.pop(0)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def end(self) -> None:
        while self._alive:
            self.kill()


@pytest.fixture
def workers(temporal_server: str, tmp_path: Path) -> Iterator[tuple[str, Path, Workers]]:
    url, log = f"temporal://{temporal_server}/default?task_queue={fresh('killed')}-{tmp_path.name}", tmp_path / "log"
    log.touch()
    found = Workers(url, log)
    try:
        yield url, log, found
    finally:
        found.end()


@pytest.mark.slow
async def test_runs_of_a_killed_worker_finish_on_another_one(
    workers: tuple[str, Path, Workers], replays: Callable[[str, Any], Awaitable[None]]
) -> None:
    """M004, M007 and M008 on another worker; P1, P2, P3"""
    url, log, processes = workers
    _load_definitions()
    processes.start()
    async with Tenuto(url, worker=False) as app:
        runs = {name: await app.start(f"killed.{name}") for name in WORKFLOWS}
        serves = runs["serves"]
        assert await serves.update("add", 1, id="u", retry_for=LIMIT, timeout=LIMIT) == 1
        await serves.signal("append", 2)

        async def all_are_in() -> bool:
            return all(f"in {name}" in log.read_text() for name in WORKFLOWS)

        await app.wait_until(all_are_in, LIMIT)
        processes.kill()
        await serves.signal("append", 3)
        await serves.signal("last", "words")
        processes.start()
        assert await serves.update("add", 1, id="u", timeout=LIMIT) == 1
        await serves.signal("stop")
        assert await serves.result(timeout="60s") == ([1, 2, 3], "words")
        assert await runs["sleeps"].result(timeout="60s") == "woke"
        assert await runs["retries"].result(timeout="60s") == (2, {"row": 40})
        assert await runs["unsure"].result(timeout="60s") == "interrupted after 1"
        assert await runs["named"].result(timeout="60s") == "again"
    said = log.read_text().splitlines()
    assert said.count("in unsure") == 1
    assert said.count("in retries") == 1
    assert len({line for line in said if line.startswith("ready")}) == 2
    processes.end()
    await replays(url, SimpleNamespace(started=[run.id for run in runs.values()], tasks_may_fail=False))
