"""Many workers, senders, timers and lost leases at once: nothing is lost, nothing is done twice.

Each worker has a store object with connections of its own, as a process would. The store's clock runs a hundred times
as fast as ours, so that leases end and timers fall due while the test goes on. Now and then a transaction is held open
before its commit, so that others meet it half way.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch, mail_key
from tenuto.host.classify import narrowed
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.connection import Connection
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Full, NewRun, NewTimer, Outgoing, TaskEnd
from tenuto.store.postgres import PostgresStore
from tenuto.store.postgres_connection import Transaction
from tenuto.store.sqlite import SqliteStore

RUNS = int(os.environ.get("TENUTO_STRESS_RUNS", "150"))
TASKS, SIGNALS, TIMERS = 6, 3, 2
WORKERS, COMPLETERS = 4, 6
LEASE = 20_000  # 200 ms of ours
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
                if not await self.take_turns(me):
                    break  # it died: what it holds is swept, and it comes back under a new id
                await asyncio.sleep(0)

    async def take_turns(self, me: str) -> bool:
        suspects = await self.store.claim_suspects(me, (["wf"], []), None, (4, 4), 0)  # lost again: claimed apart
        for claim in [*await self.store.claim_runs(me, ["wf"], 4), *suspects.runs]:
            fate = self.draw.random()
            if fate < 0.04:
                return False
            late = fate < 0.10
            while await self.turn(me, claim.lease, late):
                pass
        return True

    async def turn(self, me: str, lease: Any, late: bool) -> bool:
        """One turn; whether another one follows at once."""
        store, run = self.store, lease.run_id
        await store.absorb(me, [run])
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
        commit = narrowed(
            Full(
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
        )
        if late:  # beyond its lease: by the time it commits somebody else may have the run
            await asyncio.sleep(1.5 * LEASE / 100_000)
        (result,) = await store.commit_group([commit])
        if result.verdict == "stale":
            self.stale.append(run)
        return result.verdict == "committed" and result.kept


async def complete_tasks(number: int, store: Any, done: asyncio.Event) -> None:
    """Ends tasks, one after the other; now and then it dies with some of them."""
    draw = random.Random(number)
    lives = 0
    while not done.is_set():
        lives += 1
        me = f"c{number}-{lives}"
        await store.register(me, LEASE, "c", {"wf": "h", "step": "h"})
        while not done.is_set() and await store.heartbeat(me, LEASE):
            suspects = await store.claim_suspects(me, ([], ["step"]), None, (4, 4), 0)
            for claimed in [*await store.claim_tasks(me, ["step"], None, 4), *suspects.tasks]:
                if draw.random() < 0.02:
                    break
                await store.end_task(TaskEnd(claimed.id, claimed.epoch, b"out", None, claimed.attempt))
            else:
                await asyncio.sleep(0.005)
                continue
            break


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


def hold_commits_open(patch: pytest.MonkeyPatch, seed: int) -> None:
    """One commit in eight waits a little: its writes are there, and nobody sees them yet."""
    draw = random.Random(seed)
    run_sqlite, run_postgres = Connection.run, Transaction.run

    def slow_sqlite(self: Any, name: str, *values: Any) -> Any:
        if name == "commit" and draw.random() < 0.125:
            time.sleep(draw.uniform(0, 0.02))
        return run_sqlite(self, name, *values)

    async def slow_postgres(self: Any, name: str, *values: Any) -> Any:
        if name == "commit" and draw.random() < 0.125:
            await asyncio.sleep(draw.uniform(0, 0.02))
        return await run_postgres(self, name, *values)

    patch.setattr(Connection, "run", slow_sqlite)
    patch.setattr(Transaction, "run", slow_postgres)


def stores_of(kind: str, count: int, request: pytest.FixtureRequest, path: Path) -> list[Any]:
    if kind == "memory":
        return [MemoryStore(clock)] * count
    if kind == "sqlite":
        return [SqliteStore(path / "x.db", clock=clock, sync="normal") for _ in range(count)]
    url = str(request.getfixturevalue("postgres_url"))
    return [PostgresStore(url, clock=clock) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("TENUTO_STRESS_ROUNDS", "1"))))
async def test_every_run_ends_and_every_message_is_consumed_once(
    kind: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST1, ST2, ST3: no lost wake-up, no double advance, every commit of a lost worker refused."""
    hold_commits_open(monkeypatch, seed)
    stores = stores_of(kind, WORKERS + 2, request, tmp_path)
    for store in dict.fromkeys(stores):
        await store.open()
    for n in range(RUNS):
        await stores[0].create(NewRun(f"r{n}", "wf", ()))
    done, stale = asyncio.Event(), list[str]()
    workers = [Worker(seed * 10 + n, stores[n], stale) for n in range(WORKERS)]
    completers = [complete_tasks(seed * 100 + n, stores[WORKERS + n % 2], done) for n in range(COMPLETERS)]
    async with asyncio.timeout(120):
        await asyncio.gather(
            *(worker.live(done) for worker in workers),
            *completers,
            send_all(stores[0], seed),
            all_completed(stores[1], done),
        )
    for n in range(RUNS):
        state = json.loads(dict(await stores[0].rows(f"r{n}"))[STATE])
        assert sorted(number for number, _ in state["got"]) == list(range(1, TASKS + SIGNALS + 1))
        assert [sort for _, sort in state["got"]].count("SIGNAL") == SIGNALS
    for store in dict.fromkeys(stores):
        await store.close()
