"""The kernel against plain asyncio, as ratios within one run: the machines are shared and noisy.

    python bench/kernel.py [--json]

Each figure is the median of interleaved rounds. The claims:

1. Replaying 5,000 recorded sequential steps costs at most 8 times the same coroutine awaiting 5,000 finished futures on
   plain asyncio.
2. A step costs at most 1.3 times as much at 20,000 entries as at 100.
3. A join of 1,000 one-step branches writes O(1,000) rows in a handful of batches.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

from tenuto import join, step
from tenuto.codec.rows import RunEncoder, decode_rows
from tenuto.codec.values import dump, load
from tenuto.kernel.commands import RunStep
from tenuto.kernel.facts import Done
from tenuto.kernel.operations import Ok
from tenuto.kernel.turn import Definition, Run, create
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main

ROUNDS = 15
STEPS = 5_000
NOW = 1_700_000_000_000


@step
async def fetch(number: int) -> int:
    return number


async def in_a_row(count: int, work: Callable[[int], Awaitable[int]] = fetch) -> int:
    """The coroutine both sides run."""
    total = 0
    for number in range(count):
        total += await work(number)
    return total


async def side_by_side(count: int) -> int:
    return sum((await join({str(number): lambda number=number: fetch(number) for number in range(count)})).values())


class Store:
    """One run's rows in a dictionary, and the run."""

    def __init__(self, body: Callable[..., Awaitable[int]], count: int) -> None:
        self.workflow = Workflow(body, id="bench", name="bench")  # type: ignore[arg-type]
        self.rows: dict[bytes, bytes] = {}
        self.encoder = RunEncoder()
        self.batches = 0
        self.rows.update(self.encoder.encode(create(Definition("v"), dump([[count], {}]), NOW)).puts)
        self.load()

    def load(self) -> Run:
        rows, self.encoder = decode_rows("bench", sorted(self.rows.items()))
        self.run = Run.load_rows(
            rows, Definition("v"), lambda port: run_main(self.workflow, port, rows.input, None), dump, load
        )
        return self.run

    def turn(self, *facts: Done) -> tuple[RunStep, ...]:
        turn = self.run.take_turn(facts, NOW)
        if not turn.batch.empty:
            self.batches += 1
            self.rows.update(self.encoder.encode(turn.batch).puts)
        return tuple(command for command in turn.commands if isinstance(command, RunStep))


def run_in_a_row(count: int) -> tuple[Store, list[float]]:
    """Executes a run of `count` steps; the time each one took."""
    store = Store(in_a_row, count)
    commands = store.turn()
    times: list[float] = []
    while commands:
        began = time.perf_counter()
        commands = store.turn(Done(commands[0].location, 1, Ok(dump(1))))
        times.append(time.perf_counter() - began)
    return store, times


async def plain(count: int) -> float:
    loop = asyncio.get_running_loop()

    async def finished(number: int) -> int:
        future = loop.create_future()
        future.set_result(number)
        return await future

    began = time.perf_counter()
    await in_a_row(count, finished)
    return time.perf_counter() - began


def unfinished(count: int) -> Store:
    """A store whose run has recorded `count` steps and waits in the next."""
    store = Store(in_a_row, count + 1)
    commands = store.turn()
    for _ in range(count):
        commands = store.turn(Done(commands[0].location, 1, Ok(dump(1))))
    return store


def measure_replay() -> dict[str, float]:
    store = unfinished(STEPS)
    replays: list[float] = []
    loads: list[float] = []
    plains: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        plains.append(asyncio.run(plain(STEPS)))
        gc.collect()
        began = time.perf_counter()
        run = store.load()
        loaded = time.perf_counter()
        run.take_turn((), NOW)
        replays.append(time.perf_counter() - loaded)
        loads.append(loaded - began)
        run.close()
    return {
        "plain asyncio, us per await": median(plains) / STEPS * 1e6,
        "replay, us per step": median(replays) / STEPS * 1e6,
        "reading rows, us per step": median(loads) / STEPS * 1e6,
        "replay / plain asyncio (at most 8)": median(a / b for a, b in zip(replays, plains, strict=True)),
    }


def measure_growth() -> dict[str, float]:
    ratios: list[float] = []
    for _ in range(3):
        gc.collect()
        _, times = run_in_a_row(20_000)
        ratios.append(median(times[-1000:]) / median(times[50:1050]))
    return {"step at 20,000 entries / step at 100 (at most 1.3)": median(ratios)}


def measure_join() -> dict[str, float]:
    store = Store(side_by_side, 1_000)
    commands = store.turn()
    before = len(store.rows)
    store.turn(*(Done(command.location, 1, Ok(dump(1))) for command in commands))
    return {
        "rows written by a join of 1,000 one-step branches": float(len(store.rows) - before),
        "batches it took": float(store.batches),
    }


def main() -> None:
    figures = measure_replay() | measure_growth() | measure_join()
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=1))
        return
    for name, figure in figures.items():
        print(f"{figure:10.2f}  {name}")


if __name__ == "__main__":
    main()
