"""A TWF run outlives the process that runs it: killed by the system, taken up by the next."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenuto import Tenuto

PROGRAM = """workflow Pay(n: int) -> (int):
    activity Double(n) -> d
    await timer(1500ms)
    close d + 1

activity Double(x: int) -> (int):
    # bound
"""
BINDINGS = """from pathlib import Path

from tenuto.twf import Bindings

bindings = Bindings()


@bindings.activity("Double")
def double(x: int) -> int:
    with Path("calls.log").open("a") as log:
        log.write("x")
    return x * 2
"""


async def test_t002_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "pay.twf").write_text(PROGRAM)
    (tmp_path / "pay_bindings.py").write_text(BINDINGS)
    command = [sys.executable, "-m", "tenuto.cli", "twf", "run", "pay.twf", "--arg", "n=3", "--id", "pay-1", "--json"]
    command += ["--bindings", "pay_bindings", "--store", "sqlite:///pay.db"]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)  # noqa: ASYNC220  # to be killed
    try:
        async with Tenuto(f"sqlite:///{tmp_path / 'pay.db'}", worker=False) as client, asyncio.timeout(30):
            while not await _sleeps(client):
                await asyncio.sleep(0.01)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    (tmp_path / "pay.twf").write_text(PROGRAM.replace("d + 1", "d + 1000"))
    second = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
    )
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["result"] == 7  # by the text it started with
    assert (tmp_path / "calls.log").read_text() == "x"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
async def test_told_to_stop_it_gives_its_run_back_and_the_next_goes_on_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "pay.twf").write_text(PROGRAM)
    (tmp_path / "pay_bindings.py").write_text(BINDINGS)
    command = [sys.executable, "-m", "tenuto.cli", "twf", "run", "pay.twf", "--arg", "n=3", "--id", "pay-1"]
    command += ["--bindings", "pay_bindings", "--store", "sqlite:///pay.db", "--lease", "10m"]
    first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220  # to be told
    async with Tenuto(f"sqlite:///{tmp_path / 'pay.db'}", worker=False) as client, asyncio.timeout(30):
        while not await _sleeps(client):
            await asyncio.sleep(0.01)
        first.send_signal(number)
        _, said = await asyncio.to_thread(first.communicate, None, 20)
        assert first.returncode == 130, said
        assert "goes on with the next worker" in said
        assert "Traceback" not in said
    second = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (second.returncode, second.stdout.strip()) == (0, "7"), second.stderr
    assert (tmp_path / "calls.log").read_text() == "x"


async def _sleeps(client: Tenuto) -> bool:
    """Whether the run has done its activity and waits for its timer."""
    record = await client.store.get("pay-1")
    return record is not None and record.status == "suspended"
