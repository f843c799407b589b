"""Client and worker in different processes, on one store."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tenuto import Tenuto, step, workflow
from tenuto.errors import StoreUnavailableError

WORKER = """
import asyncio, sys
from tenuto import Tenuto, sleep, step, workflow, step_info

@step(name="p-note", max_attempts={attempts})
async def note(path: str) -> int:
    with open(path, "a") as file:
        file.write("x")
    await asyncio.sleep({pause})
    return 1

@workflow(name="p-noting")
async def noting(path: str) -> int:
    return await note(path) + await note(path)

async def main() -> None:
    async with Tenuto(sys.argv[1], lease="1s", grace=0.1):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def _worker(tmp_path: Path, url: str, *, attempts: int = 3, pause: float = 0.0) -> subprocess.Popen[str]:
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(attempts=attempts, pause=pause), encoding="utf-8")
    worker = subprocess.Popen([sys.executable, str(script), url], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shared.db'}"


async def test_a_run_started_here_is_executed_there_and_its_result_seen_here(url: str, tmp_path: Path) -> None:
    """R065"""
    worker = _worker(tmp_path, url)
    try:
        async with Tenuto(url, worker=False) as app:
            run = await app.start(_target(), str(tmp_path / "notes"), id="n")
            assert await run.result(timeout="20s") == 2
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()  # type: ignore[union-attr]


def _target() -> str:
    """The same definition as in the worker, so that its name is known here."""

    @step(name="p-note")
    async def note(path: str) -> int:
        return 1

    @workflow(name="p-noting")
    async def noting(path: str) -> int:
        return await note(path) + await note(path)

    return noting.id


async def test_a_step_that_may_run_once_is_not_repeated_after_its_worker_was_killed(url: str, tmp_path: Path) -> None:
    """M004, P2: the outcome is unknown, and the body did not run again."""
    notes = tmp_path / "notes"
    worker = _worker(tmp_path, url, attempts=1, pause=60)
    async with Tenuto(url, worker=False) as app:
        run = await app.start(_target(), str(notes), id="once")
        while not notes.exists():
            await asyncio.sleep(0.01)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()  # type: ignore[union-attr]
        second = _worker(tmp_path, url, attempts=1, pause=0)
        try:
            with pytest.raises(Exception, match="failed") as failed:
                await run.result(timeout="30s")
        finally:
            second.kill()
            second.wait()
            second.stdout.close()  # type: ignore[union-attr]
    assert type(failed.value.__cause__).__name__ == "StepOutcomeUnknownError"
    assert notes.read_text(encoding="utf-8") == "x"


async def test_a_worker_that_slept_past_its_lease_cannot_write(url: str, tmp_path: Path) -> None:
    """R014, P5: stopped and continued, it finds its runs taken; history is the new owner's."""
    notes = tmp_path / "notes"
    first = _worker(tmp_path, url, pause=0.4)
    async with Tenuto(url, worker=False) as app:
        run = await app.start(_target(), str(notes), id="stopped")
        while not notes.exists():
            await asyncio.sleep(0.01)
        await _stop_between_transactions(first, tmp_path / "shared.db")
        second = _worker(tmp_path, url)
        try:
            assert await run.result(timeout="30s") == 2
            before = await app.store.rows(run.id)
            first.send_signal(signal.SIGCONT)
            await asyncio.sleep(1.5)  # the time in which it would write, if it could
            assert await app.store.rows(run.id) == before
        finally:
            for worker in (first, second):
                worker.kill()
                worker.wait()
                worker.stdout.close()  # type: ignore[union-attr]


async def _stop_between_transactions(worker: subprocess.Popen[str], file: Path) -> None:
    """Stops a process while it has no lock: in the middle of a transaction it would keep the file for itself."""
    async with asyncio.timeout(20):
        while True:
            worker.send_signal(signal.SIGSTOP)
            look = apsw.Connection(str(file))
            try:
                look.execute("BEGIN IMMEDIATE; ROLLBACK")
                return
            except apsw.BusyError:
                worker.send_signal(signal.SIGCONT)
            finally:
                look.close(True)
            await asyncio.sleep(0.001)


async def test_a_file_that_cannot_be_opened_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(StoreUnavailableError):
        async with Tenuto(f"sqlite:///{tmp_path / 'file' / 'x.db'}"):
            pass
