"""Contestants from the outside: their processes, started, asked, killed."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

__all__ = ["ContestantError", "Process"]

BENCH = Path(__file__).parent.parent
PATIENCE = 180.0  # seconds for one answer


class ContestantError(Exception):
    """A contestant could not be started, or did not answer."""


class Process:
    """One contestant's process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workloads.child", name],
            cwd=BENCH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._read()

    def ask(self, what: str, *values: object) -> Any:
        """The answer to one workload."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "with": values}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select((output,), (), (), PATIENCE)
        line = output.readline() if ready else ""
        if not line:
            self.kill()
            raise ContestantError(f"{self.name} gave no answer: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else "(silence)"

    def kill(self) -> None:
        """SIGKILL, and the end of it."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Lets it close its database and go; a contestant that will not is killed."""
        try:
            self.ask("close")
        except (ContestantError, OSError):
            pass
        finally:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()
