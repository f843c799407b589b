"""The same random calls on every store: equal answers and equal contents at every step."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch, mail_key, update_key
from tenuto.errors import TenutoError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Lease, NewRun, NewTimer, Outgoing, RunFilter, TaskEnd, TurnCommit
from tenuto.store.postgres import PostgresStore
from tenuto.store.queues import QueueLimits
from tenuto.store.sqlite import SqliteStore

STEPS = 150
FUZZ = os.environ.get("TENUTO_FUZZ") == "1"
RUNS = [f"r{n}" for n in range(6)]
WORKERS = ["w0", "w1", "w2"]
LEASE = 500


class Caller:
    """Draws calls. What a call needs from earlier answers (leases, tasks) it takes from those answers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 1_700_000_000_000
        self.leases: list[Any] = []
        self.tasks: list[Any] = []
        self.minted = 0

    def mint(self) -> str:
        self.minted += 1
        return f"{self.minted:04}"

    def next(self) -> Callable[[Any], Any]:
        self.now += self.draw.choice((1, 1, 1, 5, 60, 400))
        return self.draw.choice(
            (
                self.create,
                self.claim_runs,
                self.claim_runs,
                self.claim_tasks,
                self.commit,
                self.commit,
                self.commit,
                self.commit,
                self.send,
                self.send,
                self.end_task,
                self.fire,
                self.sweep,
                self.register,
                self.heartbeat,
                self.control,
                self.set_queue,
                self.claim_limited,
                self.claim_limited,
                self.cancel_task,
            )
        )()

    def create(self) -> Any:
        run = NewRun(
            self.draw.choice(RUNS),
            self.draw.choice(("wf", "wf", "other")),
            ((b"\x15\x01", b"first"),),
            self.draw.choice((None, ("r0", "op"), ("r1", "op"))),
            self.draw.random() < 0.3,
            priority=self.draw.choice((0, 0, 3)),
            delay_ms=self.draw.choice((0, 0, 0, 50)),
            key=self.draw.choice((None, None, "k")),
            queue=self.draw.choice(("default", "a")),
            partition=self.draw.choice((None, "p", "q")),
        )
        return lambda store: store.create(run)

    def claim_runs(self) -> Any:
        worker = self.draw.choice(WORKERS)

        async def claim_all(store: Any) -> Any:
            # All, and sorted: which of two wake-ups of one millisecond comes first is nobody's promise.
            return sorted(await store.claim_runs(worker, ["wf"], 100), key=lambda claim: claim.lease.run_id)

        return claim_all

    def claim_tasks(self) -> Any:
        worker, queues = self.draw.choice(WORKERS), self.draw.choice((None, ["a"], ["default"]))
        return lambda store: store.claim_tasks(worker, ["step"], queues, 2)

    def set_queue(self) -> Any:
        draw = self.draw
        limits = QueueLimits(
            draw.choice(("a", "default")),
            draw.choice((None, 1, 3)),
            draw.choice((None, 2)),
            draw.choice((None, 1, 2)),
            draw.choice((None, (2, 300))),
            draw.random() < 0.1,
        )
        return lambda store: store.set_queue(limits)

    def claim_limited(self) -> Any:
        worker, queues = self.draw.choice(WORKERS), self.draw.choice((None, None, ["a"]))
        here, room = self.draw.choice(({}, {"a": 1})), self.draw.choice(((5, 5), (1, 2), (0, 3)))

        async def claim(store: Any) -> Any:
            claimed = await store.claim_limited(worker, ["wf"], ["step"], queues, here, room)
            return [*claimed.runs, *claimed.tasks]

        return claim

    def cancel_task(self) -> Any:
        task_id = f"t{self.draw.randrange(1, self.minted + 2):04}"
        return lambda store: store.cancel_task(task_id)

    def task(self) -> EnqueueTask:
        return EnqueueTask(
            (self.draw.choice(("x", "y")),),
            f"t{self.mint()}",
            "step",
            b"in",
            self.draw.choice(("default", "a")),
            self.draw.choice((0, 2)),
            self.draw.choice((0, 0, 40)),
            self.draw.choice((None, None, "k")),
            self.draw.choice((None, "p", "q")),
            self.draw.choice((1, 3)),
            10.0,
            1_000.0,
            None,
            None,
        )

    def mail(self) -> tuple[Mail, str | None]:
        kind = self.draw.choice((MailKind.SIGNAL, MailKind.SIGNAL, MailKind.UPDATE, MailKind.CANCEL))
        ref = self.draw.choice(("u1", "u2")) if kind is MailKind.UPDATE else None
        given = self.draw.choice((None, "m1", "m2")) if kind is MailKind.SIGNAL else None
        return Mail(kind, "go", ref, b"", None, 0, self.now), given

    def commit(self) -> Any:
        if not self.leases:
            return self.claim_runs()
        commits = [self.turn(self.draw.choice(self.leases[-4:])) for _ in range(self.draw.choice((1, 1, 3)))]
        return lambda store: store.commit_group(commits)

    def turn(self, lease: Lease) -> TurnCommit:
        draw = self.draw
        status = draw.choice(("running", "running", "suspended", "suspended", "suspended", "completed", "parked"))
        at = self.now + draw.choice((5, 100, 700))
        timed = draw.random() < 0.4
        seen = draw.choice((0, 2, 10_000))
        key = bytes([0x16, draw.randrange(6)])
        updates = ((update_key("u1"), b"done"),) if draw.random() < 0.1 else ()
        return TurnCommit(
            lease,
            status,
            EncodedBatch(
                ((b"\x16\x00", b"\x16\x03"),) if draw.random() < 0.2 else (),
                (mail_key(draw.randrange(1, 6)),) if draw.random() < 0.4 else (),
                ((key, b"v"), *updates) if draw.random() < 0.7 else (),
            ),
            alarm=at if timed else None,
            reason="why" if status == "parked" else None,
            runs=(NewRun(draw.choice(RUNS), "wf", (), ("r2", draw.choice(("c", "d")))),) if draw.random() < 0.2 else (),
            tasks=(self.task(),) if draw.random() < 0.4 else (),
            cancelled_tasks=(f"t{draw.randrange(1, self.minted + 2):04}",) if draw.random() < 0.2 else (),
            outgoing=(Outgoing(draw.choice(RUNS), self.mail()[0], self.mint()),) if draw.random() < 0.3 else (),
            answers=(("u2", b"no"),) if draw.random() < 0.2 else (),
            seen=seen,
            mail_done=tuple(range(1, draw.randrange(2, 8))) if draw.random() < 0.5 else (),
            timers=(NewTimer(draw.choice(("n1", "n2")), at, "delay"),) if timed else (),
            stopped_timers=("n1",) if draw.random() < 0.3 else (),
            continued=status == "running" and draw.random() < 0.1,
            parked_by="cap0",
        )

    def send(self) -> Any:
        run, (mail, given) = self.draw.choice(RUNS), self.mail()
        return lambda store: store.send(run, mail, given)

    def end_task(self) -> Any:
        if not self.tasks:
            return self.claim_tasks()
        task = self.draw.choice(self.tasks[-3:])
        failed = self.draw.random() < 0.5
        retry_at = self.now + 30 if failed and self.draw.random() < 0.5 else None
        end = TaskEnd(
            task.id, task.epoch, None if failed else b"out", b"bad" if failed else None, task.attempt, retry_at
        )
        return lambda store: store.end_task(end)

    def fire(self) -> Any:
        return lambda store: store.fire_timers(100)

    def sweep(self) -> Any:
        return lambda store: store.sweep(3, 100)

    def register(self) -> Any:
        worker, capability = self.draw.choice(WORKERS), self.draw.choice(("cap0", "cap1"))
        return lambda store: store.register(worker, LEASE, capability, {"wf": "h", "step": "h"})

    def heartbeat(self) -> Any:
        worker = self.draw.choice(WORKERS)
        return lambda store: store.heartbeat(worker, LEASE)

    def control(self) -> Any:
        run, worker = self.draw.choice(RUNS), self.draw.choice(WORKERS)
        back = self.turn(Lease(run, 0))._replace(status="suspended", continued=False)
        return self.draw.choice(
            (
                lambda store: store.pause(run),
                lambda store: store.pause(run),
                lambda store: store.release(run),
                lambda store: store.release(run),
                lambda store: store.wake(run),
                lambda store: store.terminate(run, "x"),
                lambda store: store.absorb(worker, [run]),
                lambda store: store.deregister(worker),
                lambda store: store.delete([run]),
                lambda store: store.open_hook(run, run, "token"),
                lambda store: store.reopen(back),
            )
        )


async def answer_of(store: Any, call: Any) -> Any:
    try:
        return await call(store)
    except TenutoError as error:
        return type(error).__name__


async def contents(store: Any) -> Any:
    """What anybody can see of a store."""
    found: list[Any] = [*await store.runs(RunFilter()), await store.hook_owner("token"), await store.queues()]
    found += [await store.flagged_tasks(worker) for worker in WORKERS]
    for record in await store.runs():
        found.append((await store.rows(record.id), await store.mail(record.id, 0), await store.timers(record.id)))
        found.append([await store.answer(record.id, update) for update in ("u1", "u2")])
        found.append(await store.place(record.id))
    return found


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(300 if FUZZ else 25))
async def test_the_same_calls_have_the_same_answers_in_memory_and_in_a_file(seed: int, tmp_path: Path) -> None:
    """ST7, in one process."""
    caller = Caller(seed)
    await compare(
        caller,
        MemoryStore(lambda: caller.now),
        SqliteStore(tmp_path / "x.db", clock=lambda: caller.now, sync="normal"),
    )


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(200, 260) if FUZZ else [100, 101, 214])
async def test_the_same_calls_have_the_same_answers_in_memory_and_on_postgres(seed: int, postgres_url: str) -> None:
    """ST7, in one process."""
    caller = Caller(seed)
    await compare(caller, MemoryStore(lambda: caller.now), PostgresStore(postgres_url, clock=lambda: caller.now))


async def compare(caller: Caller, *stores: Any) -> None:
    for store in stores:
        await store.open()
    for _ in range(STEPS):
        call = caller.next()
        answers = [await answer_of(store, call) for store in stores]
        assert answers[1:] == answers[:-1], call.__qualname__
        seen = [await contents(store) for store in stores]
        for parts in zip(*seen, strict=True):
            assert parts[1:] == parts[:-1], call.__qualname__
        if isinstance(answers[0], list):
            caller.leases.extend(answer.lease for answer in answers[0] if hasattr(answer, "lease"))
            caller.tasks.extend(answer for answer in answers[0] if hasattr(answer, "backoff_ms"))
    for store in stores:
        await store.close()
