"""`tenuto` on a cluster: what it prints, where it prints it, and how it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tenuto_portable import LIMIT, fresh

from tenuto import Tenuto

PATIENT = "90s"  # processes start slowly where many do
SHOP = """
from tenuto import publish_state, step, wait_for_signal, workflow

@step(name="cli.add")
async def add(a: int, b: int) -> int:
    return a + b

@step(name="cli.other")
async def other(a: int, b: int) -> int:
    return a - b

@workflow(name="cli.shop")
async def shop(n: int) -> int:
    total = await {STEP}(n, 1)
    publish_state({{"total": total}})
    return total + await wait_for_signal("more")
"""


class Place:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def write(self, step: str) -> None:
        (self.folder / "shop.py").write_text(SHOP.format(STEP=step))

    def call(self, *args: str, app: bool = False) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tenuto.cli", *args]
        if "--against" not in args:
            command += ["--url", self.url]
        if app:
            command += ["--app", str(self.folder / "shop.py")]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=150, env=environment)


@pytest.fixture
def place(temporal_server: str, tmp_path: Path) -> Place:
    found = Place(f"temporal://{temporal_server}/default?task_queue={fresh('cli')}-{tmp_path.name}", tmp_path)
    found.write("add")
    return found


def _worker(place: Place) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tenuto.cli", "worker", "--app", "shop.py", "--url", place.url, "--grace", "1s"]
    return subprocess.Popen(command, cwd=place.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _waiting_run(place: Place) -> tuple[str, subprocess.Popen[bytes]]:
    """A run that waits for its signal, and the worker that has it."""
    worker = _worker(place)
    async with Tenuto(place.url, worker=False) as app:
        started = place.call("start", "cli.shop", "2", "--id", run_id := fresh("cli-run"), app=True)
        assert started.returncode == 0, started.stderr

        async def waits() -> bool:
            return "more" in (await app.get(run_id).explain()).signals

        await app.wait_until(waits, PATIENT)
    return run_id, worker


@pytest.mark.slow
async def test_the_commands_that_look_work_on_a_cluster(place: Place) -> None:
    run_id, worker = await _waiting_run(place)
    try:
        shown = place.call("show", run_id)
        assert shown.returncode == 0, shown.stderr
        assert "cli.add" in shown.stdout
        assert "'more'" in shown.stdout
        view = json.loads(place.call("show", run_id, "--json").stdout)
        assert view["published"] == {"total": 3}
        assert [entry["location"] for entry in view["history"]][:1] == ["cli.add"]
        assert json.loads(place.call("query", run_id, "--json").stdout) == {"total": 3}
        assert place.call("signal", run_id, "more", "4").returncode == 0
        async with Tenuto(place.url, worker=False) as app:
            assert await app.get(run_id).result(timeout=LIMIT) == 7
        ended = json.loads(place.call("show", run_id, "--json").stdout)
        assert ended["result"] == 7
        assert ended["summary"]["status"] == "completed"
    finally:
        worker.terminate()
        worker.wait()


@pytest.mark.slow
async def test_check_replays_the_open_runs_of_a_cluster_with_the_code_here(place: Place) -> None:
    """X4, before a deploy instead of after it"""
    run_id, worker = await _waiting_run(place)
    worker.terminate()
    worker.wait()

    def checked(*more: str) -> tuple[int, Any]:
        done = place.call("check", "--against", place.url, "--json", *more, app=True)
        return done.returncode, json.loads(done.stdout)

    code, fits = checked()
    assert (code, fits["outcomes"]) == (0, {"fits": 1})
    place.write("other")
    code, diverges = checked()
    assert (code, diverges["outcomes"]) == (1, {"diverges": 1})
    (finding,) = diverges["findings"]
    assert finding["run_id"] == run_id
    assert "cli.add" in finding["message"]
    assert "patched" in finding["message"]
    (place.folder / "shop.py").write_text("")
    code, unknown = checked()
    assert (code, unknown["outcomes"]) == (1, {"unknown": 1})
    async with Tenuto(place.url, worker=False) as app:
        await app.get(run_id).terminate()


@pytest.mark.slow
async def test_a_command_leaves_with_its_own_exit_code(place: Place) -> None:
    """The SDK's threads may abort an interpreter that shuts down"""
    codes = {place.call("show", "no-such-run").returncode for _ in range(4)}
    assert codes == {3}
    done = place.call("runs")
    assert (done.returncode, done.stdout.strip()) == (0, "no runs")
