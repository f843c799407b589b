"""Many workers, senders, timers and lost leases at once: nothing is lost, nothing is done twice.

Each worker of a SQLite store has connections of its own, as a process would. The store's clock runs a hundred times as
fast as ours, so that leases end and timers fall due while the test goes on.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch, mail_key
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.memory import MemoryStore
from tenuto.store.port import NewRun, NewTimer, Outgoing, TaskEnd, TurnCommit
from tenuto.store.sqlite import SqliteStore

RUNS, TASKS, SIGNALS, TIMERS = 30, 6, 3, 2
LEASE = 5_000
STATE = b"\x16\x01"


def clock() -> int:
    return 1_700_000_000_000 + int(time.monotonic() * 100_000)


class Worker:
    """Takes turns of runs that count what reaches them. Now and then it dies, or commits long after it should have."""

    def __init__(self, number: int, store: Any, stale: list[str]) -> None:
        self.draw = random.Random(number)
        self.store = store
        self.stale = stale
        self.number = number
        self.lives = 0

    async def live(self, done: asyncio.Event) -> None:
        while not done.is_set():
            self.lives += 1
            me = f"w{self.number}-{self.lives}"
            await self.store.register(me, LEASE, "c", {"wf": "h", "step": "h"})
            while not done.is_set() and await self.store.heartbeat(me, LEASE):
                await self.store.sweep(1_000, 100)
                await self.store.fire_timers(100)
                for task in await self.store.claim_tasks(me, ["step"], None, 4):
                    await self.store.end_task(TaskEnd(task.id, task.epoch, b"out", None, task.attempt))
                if not await self.take_turns(me):
                    break  # it died: what it holds is swept, and it comes back under a new id
                await asyncio.sleep(0)

    async def take_turns(self, me: str) -> bool:
        for claim in await self.store.claim_runs(me, ["wf"], 4):
            fate = self.draw.random()
            if fate < 0.04:
                return False
            late = fate < 0.10
            while await self.turn(claim.lease, late):
                pass
        return True

    async def turn(self, lease: Any, late: bool) -> bool:
        """One turn; whether another one follows at once."""
        store, run = self.store, lease.run_id
        await store.absorb([run])
        rows = dict(await store.rows(run))
        mail = await store.mail(run, 0)
        state: dict[str, Any] = json.loads(rows[STATE]) if STATE in rows else {"got": [], "at": [], "turns": 0}
        first = not state["turns"]
        state["turns"] += 1
        state["got"] += [[n, item.kind.name] for n, item in mail]
        if first:
            state["at"] = [clock() + 300 * (n + 1) for n in range(TIMERS)]
        now = await store.now()
        ended = len(state["got"]) == TASKS + SIGNALS and all(at <= now for at in state["at"])
        commit = TurnCommit(
            lease,
            "completed" if ended else "suspended",
            EncodedBatch((), tuple(mail_key(n) for n, _ in mail), ((STATE, json.dumps(state).encode()),)),
            alarm=min((at for at in state["at"] if at > now), default=None),
            tasks=tuple(task(run, n) for n in range(TASKS)) if first else (),
            timers=tuple(NewTimer(f"n{n}", at, "delay") for n, at in enumerate(state["at"])) if first else (),
            outgoing=(Outgoing(neighbour(run), signal(), f"from {run}"),) if first else (),
            seen=max((n for n, _ in mail), default=0 if first else max((n for n, _ in state["got"]), default=0)),
            mail_done=tuple(n for n, _ in mail),
        )
        if late:  # beyond its lease: by the time it commits somebody else may have the run
            await asyncio.sleep(2 * LEASE / 100_000)
        (result,) = await store.commit_group([commit])
        if result.verdict == "stale":
            self.stale.append(run)
        return result.verdict == "committed" and result.kept


def task(run: str, n: int) -> EnqueueTask:
    return EnqueueTask(
        (f"t{n}",), f"{run}:t{n}", "step", b"", "default", 0, 0, None, None, 1_000, 1.0, 10.0, None, None
    )


def signal() -> Mail:
    return Mail(MailKind.SIGNAL, "go", None, b"", None, 0, 0)


def neighbour(run: str) -> str:
    return f"r{(int(run[1:]) + 1) % RUNS}"


async def send_all(store: Any, seed: int) -> None:
    draw = random.Random(seed)
    signals = [(f"r{n}", f"s{k}") for n in range(RUNS) for k in range(SIGNALS - 1)]
    draw.shuffle(signals)
    for run, given in signals:
        await store.send(run, signal(), given)
        await store.send(run, signal(), given)  # again, as a sender that got no answer


async def all_completed(store: Any, done: asyncio.Event) -> None:
    mark = -1
    while {record.status for record in await store.runs()} != {"completed"}:
        mark = await store.changed(mark, 0.05)
    done.set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", range(3))
async def test_every_run_ends_and_every_message_is_consumed_once(kind: str, seed: int, tmp_path: Path) -> None:
    """ST1, ST2, ST3, in small."""
    memory = MemoryStore(clock)
    stores: list[Any] = [
        memory if kind == "memory" else SqliteStore(tmp_path / "x.db", clock=clock, sync="normal") for _ in range(4)
    ]
    for store in stores:
        await store.open()
    for n in range(RUNS):
        await stores[0].create(NewRun(f"r{n}", "wf", ()))
    done, stale = asyncio.Event(), list[str]()
    workers = [Worker(seed * 10 + n, store, stale) for n, store in enumerate(stores)]
    await asyncio.wait_for(
        asyncio.gather(
            *(worker.live(done) for worker in workers), send_all(stores[0], seed), all_completed(stores[1], done)
        ),
        60,
    )
    for n in range(RUNS):
        state = json.loads(dict(await stores[0].rows(f"r{n}"))[STATE])
        assert sorted(number for number, _ in state["got"]) == list(range(1, TASKS + SIGNALS + 1))
        assert [sort for _, sort in state["got"]].count("SIGNAL") == SIGNALS
    for store in stores:
        await store.close()
