"""Small measurements of this machine, each bounded: what `tenuto bench` prints. One machine's numbers, no contest."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tenuto.app import Tenuto
from tenuto.codec.rows import decode_rows
from tenuto.host.definitions import Definitions
from tenuto.host.replaying import replay
from tenuto.model.decorators import step, workflow
from tenuto.model.receive import receive
from tenuto.model.registry import default
from tenuto.model.replies import Reply

__all__ = ["MEASURES", "Measure", "measure_all"]

MEASURES: Final = 4
RUNS: Final = 20
STEPS: Final = 50
ROUNDS: Final = 40
LONG: Final = 1_000


@dataclass(frozen=True, slots=True)
class Measure:
    """One number, and what it is."""

    name: str
    value: float
    unit: str
    what: str


@step(name="tenuto.bench.nothing", record_input=False)
async def nothing(number: int) -> int:
    """A step that does nothing: what is left is the engine."""
    return number


@workflow(name="tenuto.bench.steps")
async def steps(count: int) -> int:
    """So many steps, one after the other."""
    done = 0
    for number in range(count):
        done += await nothing(number) >= 0
    return done


@workflow(name="tenuto.bench.echo")
async def echo() -> None:
    """Answers updates until the end of the world."""
    await receive(None, updates={"echo": _echo})


async def _echo(state: None, value: int) -> Reply[None]:
    return Reply(value, state)


async def measure_all(advance: Callable[[], None]) -> list[Measure]:
    """Every measurement, on a new SQLite file at full durability."""
    with tempfile.TemporaryDirectory(prefix="tenuto-bench-") as folder:
        async with Tenuto(f"sqlite:///{Path(folder) / 'bench.db'}", grace=1) as app:
            await (await app.start(steps, 5)).result(timeout="30s")  # what is loaded once is loaded now
            found: list[Measure] = []
            for measure in (_throughput, _latency, _updates, _replay):
                found.append(await measure(app))
                advance()
            return found


async def _throughput(app: Tenuto) -> Measure:
    began = time.perf_counter()
    runs = [await app.start(steps, STEPS) for _ in range(RUNS)]
    await asyncio.gather(*(run.result(timeout="60s") for run in runs))
    rate = RUNS * STEPS / (time.perf_counter() - began)
    return Measure("steps", round(rate), "steps/s", f"{RUNS} runs of {STEPS} durable steps at once")


async def _latency(app: Tenuto) -> Measure:
    async def once() -> None:
        await (await app.start(steps, 1)).result(timeout="30s")

    return Measure("start", await _median_ms(once), "ms", "from start to result of a run with one step, median")


async def _updates(app: Tenuto) -> Measure:
    run = await app.start(echo)

    async def once() -> None:
        await run.update("echo", 1, timeout="30s", retry_for="10s")

    found = await _median_ms(once)
    await run.terminate()
    return Measure("update", found, "ms", "an update and its answer, median")


async def _replay(app: Tenuto) -> Measure:
    run = await app.start(steps, LONG)
    await run.result(timeout="60s")
    record = await app.store.get(run.id)
    assert record is not None  # noqa: S101  # it has just ended
    rows, _ = decode_rows(run.id, await app.store.rows(run.id))
    again = rows._replace(state="running", output=None)
    began = time.perf_counter()
    replay(again, record, steps, Definitions(default))
    took = (time.perf_counter() - began) * 1000
    return Measure("replay", round(took, 1), "ms", f"a history of {LONG} steps replayed")


async def _median_ms(once: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await once()
        times.append(time.perf_counter() - began)
    return round(median(times) * 1000, 2)
