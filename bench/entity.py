"""An entity that has handled 100,000 signals against one that has handled 10,000, as ratios within one run.

    python bench/entity.py [--json]

The entity is the counter of the examples: a `receive` whose state is a number, driven through the kernel one signal per
turn, its rows kept in a dictionary. Each stops just before its next checkpoint, where there is most to replay.
The claims:

1. With `checkpoint_every=100`, what is stored, the time to reload and replay the run, and its memory afterwards are the
   same at 100,000 signals as at 10,000 (time at most 1.5 times, sizes at most 1.1 times).
2. They follow the interval, not the signals: ten times the interval costs about ten times as much.
3. A run that is never reloaded stays as small and as fast: it grows by at most 20 bytes per signal, and a signal costs
   at most 1.3 times as much at the end as at the beginning.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from tenuto import NoReply, publish_state, receive
from tenuto.codec.records import encode_mail
from tenuto.codec.rows import RunEncoder, decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.kernel.batch import Batch
from tenuto.kernel.facts import Signal
from tenuto.kernel.records import Mail, MailKind
from tenuto.kernel.turn import Definition, Run, create
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main

ROUNDS = 21
MANY = 100_000
FEW = 10_000
INTERVAL = 100
NOW = 1_700_000_000_000
ONE = dump([1])
STORED = encode_mail(Mail(MailKind.SIGNAL, "increment", None, ONE, None, 0, NOW))


def increment(total: int, by: int) -> NoReply[int]:
    publish_state(total + by)
    return NoReply(total + by)


def counter(checkpoint_every: int | None) -> Callable[[], Coroutine[Any, Any, int]]:
    async def count() -> int:
        total, _ = await receive(0, signals={"increment": increment}, checkpoint_every=checkpoint_every)
        return total

    return count


class Entity:
    """One run, its rows in a dictionary, and what its signals cost."""

    def __init__(self, checkpoint_every: int | None) -> None:
        self.workflow = Workflow(counter(checkpoint_every), id="entity", name="entity")
        self.rows: dict[bytes, bytes] = {}
        self.encoder = RunEncoder()
        self.signals = 0
        self.apply(create(Definition("v"), dump([[], {}]), NOW))
        self.run = self.load()
        self.apply(self.run.take_turn((), NOW).batch)

    def apply(self, batch: Batch) -> None:
        encoded = self.encoder.encode(batch)
        for start, end in encoded.range_deletes:
            for key in [key for key in self.rows if start <= key < end]:
                del self.rows[key]
        for key in encoded.deletes:
            self.rows.pop(key, None)
        self.rows.update(encoded.puts)

    def load(self) -> Run:
        rows, self.encoder = decode_rows("entity", sorted(self.rows.items()))
        workflow = self.workflow
        return Run.load_rows(rows, Definition("v"), lambda port: run_main(workflow, port, rows.input, None), dump, load)

    def signal(self) -> None:
        """A sender stores a signal; the run takes a turn with it."""
        self.signals += 1
        self.rows[mail_key(self.signals)] = STORED
        self.apply(self.run.take_turn((Signal(self.signals, "increment", ONE),), NOW).batch)

    def signal_until(self, count: int) -> float:
        """Seconds per signal."""
        began, first = time.perf_counter(), self.signals
        while self.signals < count:
            self.signal()
        return (time.perf_counter() - began) / max(1, count - first)

    def reload(self) -> float:
        """Drops the run and builds it again from its rows; the seconds that took."""
        self.run.close()
        gc.collect()
        began = time.perf_counter()
        self.run = self.load()
        self.run.take_turn((), NOW)
        return time.perf_counter() - began

    def reloaded_bytes(self) -> int:
        """What the run takes in memory after a reload."""
        self.run.close()
        del self.run
        gc.collect()
        tracemalloc.start()
        self.run = self.load()
        self.run.take_turn((), NOW)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size

    @property
    def total(self) -> Any:
        published = decode_rows("entity", sorted(self.rows.items()))[0].published
        return None if published is None else load(published)

    @property
    def stored_bytes(self) -> int:
        return sum(len(key) + len(value) for key, value in self.rows.items())


def grown(signals: int, checkpoint_every: int | None) -> Entity:
    """An entity that has handled about so many; one more would make a checkpoint."""
    entity = Entity(checkpoint_every)
    entity.signal_until(signals + (checkpoint_every or 1) - 1)
    return entity


def growth(entity: Entity) -> float:
    """Bytes by which a run that stays in memory grows, and does not shrink again, per signal."""
    tracemalloc.start()
    gc.collect()
    entity.signal_until(entity.signals + INTERVAL)
    before, _ = tracemalloc.get_traced_memory()
    entity.signal_until(entity.signals + 10 * INTERVAL)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return max(0, after - before) / (10 * INTERVAL)


def measure_a_life() -> tuple[Entity, dict[str, float]]:
    """One run that is never reloaded, from its first signal to its hundred-thousandth."""
    entity = Entity(INTERVAL)
    entity.signal_until(1_000)
    early = [entity.signal_until(entity.signals + 10 * INTERVAL) for _ in range(5)]
    began, first = time.perf_counter(), entity.signals
    middle = [entity.signal_until(signals) for signals in range(first + 1_000, 2 * FEW, 1_000)]
    if median(middle[-5:]) > 2 * median(early):
        raise SystemExit("claim 3 is broken: a signal at 20,000 costs twice as much; the rest would take minutes")
    entity.signal_until(MANY - 5 * 10 * INTERVAL - 11 * INTERVAL)
    seconds = (time.perf_counter() - began) / (entity.signals - first)
    late = [entity.signal_until(entity.signals + 10 * INTERVAL) for _ in range(5)]
    left = growth(entity)
    entity.signal_until(MANY + INTERVAL - 1)
    return entity, {
        "us per signal, one turn each": seconds * 1e6,
        "signal at 100,000 / signal at 1,000 (at most 1.3)": median(late) / median(early),
        "bytes by which the live run grows per signal (at most 20)": left,
    }


def measure_reloads(many: Entity) -> dict[str, float]:
    few = grown(FEW, INTERVAL)
    wide = grown(FEW, 10 * INTERVAL)
    endless = grown(FEW, None)
    entities = (many, few, wide, endless)
    for entity in entities:
        assert entity.total == entity.signals
    times: list[list[float]] = [[] for _ in entities]
    for round_no in range(ROUNDS):
        for entity, taken in zip(entities, times, strict=True):
            if entity is not endless or round_no < 5:
                taken.append(entity.reload())
    many_s, few_s, wide_s, endless_s = (median(taken) for taken in times)
    many_b, few_b, wide_b, endless_b = (entity.reloaded_bytes() for entity in entities)
    stored = {
        "rows stored at 100,000 signals": float(len(many.rows)),
        "rows stored at 10,000": float(len(few.rows)),
        "rows stored at 10,000 without checkpoints": float(len(endless.rows)),
        "bytes stored, 100,000 / 10,000 (at most 1.1)": many.stored_bytes / few.stored_bytes,
    }
    for entity in entities:  # what was reloaded goes on
        entity.signal()
        assert entity.total == entity.signals
        entity.run.close()
    return stored | {
        "reload and replay at 100,000, ms": many_s * 1e3,
        "reload and replay at 10,000, ms": few_s * 1e3,
        "reload and replay at 10,000, ten times the interval, ms": wide_s * 1e3,
        "reload and replay at 10,000 without checkpoints, ms": endless_s * 1e3,
        "replay, 100,000 / 10,000 (at most 1.5)": median(a / b for a, b in zip(times[0], times[1], strict=True)),
        "replay, ten times the interval / the interval (about 10)": wide_s / few_s,
        "replay without checkpoints / with": endless_s / few_s,
        "run in memory after a reload at 100,000, KiB": many_b / 1024,
        "run in memory, 100,000 / 10,000 (at most 1.1)": many_b / few_b,
        "run in memory, ten times the interval / the interval": wide_b / few_b,
        "run in memory without checkpoints / with": endless_b / few_b,
    }


def main() -> None:
    entity, figures = measure_a_life()
    figures |= measure_reloads(entity)
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=1))
        return
    for name, figure in figures.items():
        print(f"{figure:10.2f}  {name}")


if __name__ == "__main__":
    main()
