"""How much of each workload is done, and the ratios that are wanted.

A peer does less of the same: rates compare, and nobody waits for minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "WANTED", "Amounts", "Plan", "Wanted"]


@dataclass(frozen=True, slots=True)
class Amounts:
    """What one contestant does in a round."""

    row: int  # W1: steps
    runs: int  # W2: runs of ten steps
    idle: int  # W3: samples
    at_once: int  # W4: steps
    recorded: int  # W5: steps
    signals: int  # W6: samples
    parked: int  # W7: runs
    parked_seconds: float  # W7: until they are due


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run of the bench."""

    rounds: int
    replays: int  # rounds of W5
    long_row: int  # W1: steps of the run whose last thousand is held against its first
    raw_seconds: float
    tenuto: Amounts
    peer: Amounts


FULL = Plan(
    rounds=3,
    replays=3,
    long_row=20_000,
    raw_seconds=0.5,
    tenuto=Amounts(1_000, 1_000, 15, 1_000, 5_000, 15, 10_000, 20.0),
    peer=Amounts(100, 20, 9, 100, 500, 5, 200, 10.0),
)
QUICK = Plan(
    rounds=1,
    replays=1,
    long_row=0,
    raw_seconds=0.3,
    tenuto=Amounts(300, 300, 9, 1_000, 2_000, 9, 1_000, 5.0),
    peer=Amounts(50, 10, 5, 50, 300, 3, 50, 5.0),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of the table: how one figure stands to another, and what it should at least, or at most, be."""

    workload: str
    what: str
    mine: str  # a figure's name
    theirs: str | None  # None: the figure itself
    bound: float
    at_least: bool


def _on(database: str, name: str, row: float, runs: float, idle: float, fan: float) -> tuple[Wanted, ...]:
    tenuto, dbos = f"tenuto-{database}", f"dbos-{database}"
    return (
        Wanted("W1", f"steps in a row, {name}: of the raw commit rate", f"W1 {tenuto}", f"raw {database}", 0.5, True),
        Wanted("W1", f"steps in a row, {name}: x DBOS", f"W1 {tenuto}", f"W1 {dbos}", row, True),
        Wanted("W1", f"last 1,000 of 20,000 steps / the first, {name}", f"W1 growth {tenuto}", None, 1.2, False),
        Wanted("W2", f"runs of 10 steps, {name}: x DBOS", f"W2 {tenuto}", f"W2 {dbos}", runs, True),
        Wanted("W3", f"idle start to result, {name}: of DBOS", f"W3 {tenuto}", f"W3 {dbos}", idle, False),
        Wanted("W4", f"steps at once, {name}: x DBOS", f"W4 {tenuto}", f"W4 {dbos}", fan, True),
        Wanted("W5", f"replay of a step, {name}: of DBOS", f"W5 {tenuto}", f"W5 {dbos}", 1 / 50, False),
    )


WANTED = (
    *_on("sqlite", "SQLite", 6, 60, 1 / 4, 100),
    Wanted("W6", "signal, SQLite: of DBOS as it comes", "W6 tenuto-sqlite", "W6 dbos-sqlite", 1 / 100, False),
    Wanted("W6", "signal, SQLite: of DBOS polling fastest", "W6 tenuto-sqlite", "W6 dbos-sqlite-fast", 1 / 5, False),
    Wanted("W7", "parking, SQLite: x DBOS on Postgres", "W7 tenuto-sqlite", "W7 dbos-postgres", 40, True),
    Wanted("W7", "last wake-up after it was due, SQLite, s", "W7 late tenuto-sqlite", None, 5, False),
    Wanted("W7", "memory of all parked runs, SQLite, MB", "W7 memory tenuto-sqlite", None, 60, False),
    *_on("postgres", "Postgres", 4, 40, 1 / 3, 50),
    Wanted("W2", "two worker processes / one, Postgres", "W2 two tenuto-postgres", "W2 tenuto-postgres", 1.5, True),
    Wanted("W6", "signal, Postgres: of DBOS", "W6 tenuto-postgres", "W6 dbos-postgres", 1 / 2.5, False),
    Wanted("W7", "parking, Postgres: x DBOS", "W7 tenuto-postgres", "W7 dbos-postgres", 40, True),
    Wanted("W7", "last wake-up after it was due, Postgres, s", "W7 late tenuto-postgres", None, 5, False),
    Wanted("W7", "memory of all parked runs, Postgres, MB", "W7 memory tenuto-postgres", None, 60, False),
)
