"""Workers that are killed: how soon others take over, and that one run that kills them stops no other."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import Tenuto

LIMIT = "90s"

SCRIPT = Path(__file__).with_name("dying.py")


def _load() -> Any:
    if "tenuto_dying" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_dying", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_dying"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["tenuto_dying"]


dying = _load()


class Workers:
    """Worker processes, one after the other."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self.begun = folder / "begun"
        self.begun.mkdir()
        self._mine: list[subprocess.Popen[str]] = []

    async def start(self, pause: float) -> subprocess.Popen[str]:
        command = [sys.executable, str(SCRIPT), self._url, str(self.begun), str(pause)]
        worker = await asyncio.to_thread(subprocess.Popen[str], command, stdout=subprocess.PIPE, text=True)
        self._mine.append(worker)
        assert worker.stdout is not None
        await asyncio.to_thread(worker.stdout.readline)
        return worker

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.kill()
        worker.wait()

    def end_all(self) -> None:
        for worker in self._mine:
            self.kill(worker)
            assert worker.stdout is not None
            worker.stdout.close()

    def begun_times(self) -> int:
        return sum(len(path.read_text(encoding="utf-8")) for path in self.begun.iterdir())


@pytest.fixture
def workers(lasting_url: str, tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(lasting_url, tmp_path)
    yield workers
    workers.end_all()


async def until_begun(workers: Workers, times: int) -> None:
    async with asyncio.timeout(30):
        while workers.begun_times() < times:
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_run_that_kills_its_workers_is_parked_and_all_others_end(lasting_url: str, workers: Workers) -> None:
    """R019: they were claimed with it and lost with it, again and again."""
    async with Tenuto(lasting_url, worker=False) as app:
        await app.start(dying.killer, id="killer")
        others = [await app.start(dying.innocent, n, id=f"i{n}") for n in range(20)]
        others += [await app.start(dying.patient, n, id=f"p{n}") for n in range(5)]
        lives = 0

        async def parked() -> bool:
            return await app.get("killer").status() == "parked"

        async with asyncio.timeout(90):
            while not await parked():
                worker = await workers.start(2.0)
                lives += 1
                while worker.poll() is None and not await parked():
                    await asyncio.sleep(0.02)
        results = [await run.result(timeout=LIMIT) for run in others]
        assert results == [*range(20), *range(5)]
        record = await app.store.get("killer")
        assert record is not None
        assert record.reason is not None
        assert record.reason.startswith("stuck: ")
        assert "3 workers" in record.reason
        assert "at die" in record.reason
        assert lives <= 12


async def test_runs_whose_worker_was_lost_once_all_go_on_at_once(lasting_url: str, workers: Workers) -> None:
    """R019, R078: a dead process of this machine is lost at once, and its runs are no suspects."""
    async with Tenuto(lasting_url, worker=False) as app:
        runs = [await app.start(dying.patient, n, id=f"p{n}") for n in range(100)]
        first = await workers.start(60.0)
        await until_begun(workers, 100)
        workers.kill(first)
        await workers.start(0.1)
        ready = time.monotonic()
        await until_begun(workers, 200)
        assert time.monotonic() - ready < 3  # a second, on a machine with nothing else to do; a lease has thirty
        assert [await run.result(timeout=LIMIT) for run in runs] == [*range(100)]


async def test_a_worker_that_nobody_has_waited_for_is_dead(lasting_url: str, workers: Workers) -> None:
    """R078: killed, and its parent has not looked: it still has its pid."""
    async with Tenuto(lasting_url, worker=False) as app:
        run = await app.start(dying.patient, 1, id="p")
        first = await workers.start(60.0)
        await until_begun(workers, 1)
        os.kill(first.pid, signal.SIGKILL)
        await workers.start(0.1)
        assert await run.result(timeout="10s") == 1


async def test_a_worker_whose_process_is_there_keeps_its_runs(lasting_url: str, workers: Workers) -> None:
    """R078: whoever starts beside it on the same machine."""
    async with Tenuto(lasting_url, worker=False) as app:
        await app.start(dying.patient, 1, id="p")
        await workers.start(60.0)
        await until_begun(workers, 1)
        (owner,) = await app.store.live_workers()
        await workers.start(0.1)
        assert owner.id in [worker.id for worker in await app.store.live_workers()]
        assert workers.begun_times() == 1
