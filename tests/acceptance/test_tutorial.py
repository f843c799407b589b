"""The tutorial's commands, carried out in its order, print what the page says they print."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tenuto import Tenuto

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-ten-minutes.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What is another on every machine: times, durations, the drawing over them.
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
DURATION = re.compile(r"\b\d+(\.\d+)?(ms|s|m|h)\b( \d+s)?")


class Page:
    """The commands of the page in order, each with the output that is shown for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: list[tuple[str, str]] = []
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if kind == "python":
                name = text.partition("\n")[0].removeprefix("# ")
                (folder / name).write_text(text.replace('sleep("20s")', 'sleep("5s")'), encoding="utf-8")
            else:
                for shown in text.removeprefix("$ ").split("\n$ "):
                    command, _, output = shown.partition("\n")
                    self._steps.append((command, output))

    def next(self, begins_with: str) -> tuple[list[str], str]:
        """The next command, as arguments, and its output."""
        command, output = self._steps.pop(0)
        assert command.startswith(begins_with), command
        words = shlex.split(command)
        return [sys.executable, *(["-m", "tenuto.cli"] if words[0] == "tenuto" else []), *words[1:]], output

    def run(self, begins_with: str) -> None:
        """Carries out the next command and compares what it prints."""
        arguments, shown = self.next(begins_with)
        done = subprocess.run(
            arguments, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        assert _rough(done.stdout) == _rough(shown)

    def start(self, begins_with: str, output: Path) -> tuple[subprocess.Popen[bytes], list[str]]:
        """Begins the next command, which goes on; what it prints goes to a file, as to a terminal."""
        arguments, shown = self.next(begins_with)
        with output.open("wb") as file:
            worker = subprocess.Popen(arguments, cwd=self._folder, stdout=file, stderr=subprocess.STDOUT)
        return worker, shown.splitlines()


def _rough(output: str) -> list[str]:
    lines = DURATION.sub("<time>", MOMENT.sub("<moment>", output)).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip() and not re.search("[█░]|0─", line)]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("TENUTO_URL", raising=False)
    return Page(tmp_path)


async def _until_stage(folder: Path, stage: str) -> None:
    async with Tenuto(f"sqlite:///{folder / '.tenuto' / 'tenuto.db'}", worker=False) as app:
        run = app.get("order-7")

        async def reached() -> bool:
            return bool((await run.query())["stage"] == stage)

        await app.wait_until(reached, "40s")


def _printed(output: Path, last: str) -> list[str]:
    """What a worker has printed, once that line is there."""
    deadline = time.monotonic() + 40
    while True:
        lines = output.read_text(encoding="utf-8").splitlines()
        if last in lines:
            return lines
        assert time.monotonic() < deadline, lines
        time.sleep(0.05)


@pytest.mark.slow
def test_the_tutorial_goes_as_it_is_told(page: Page, tmp_path: Path) -> None:
    page.run("python hello.py")
    page.run("python hello.py")
    (tmp_path / ".tenuto" / "tenuto.db").unlink()  # the page's lists show the order only
    for suffix in ("-wal", "-shm"):
        (tmp_path / ".tenuto" / f"tenuto.db{suffix}").unlink(missing_ok=True)

    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    worker, shown = page.start("tenuto worker", first)
    try:
        assert _printed(first, "worker is ready: order") == shown
        page.run("tenuto start order")
        _printed(first, "charge: attempt 3")
        asyncio.run(_until_stage(tmp_path, "settling"))
    finally:
        worker.kill()
        worker.wait()
    page.run("tenuto runs")
    page.run("tenuto query")
    page.run("tenuto show")
    page.run("tenuto signal")

    worker, shown = page.start("tenuto worker", second)
    try:
        assert _printed(second, "ship: violin") == shown  # and no charge
        asyncio.run(_until_stage(tmp_path, "done"))
    finally:
        worker.terminate()
        worker.wait(timeout=30)
    page.run("tenuto runs")
