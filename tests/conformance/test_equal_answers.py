"""The same random calls on every store: equal answers and equal contents at every step."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch, mail_key, update_key
from tenuto.errors import TenutoError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store import connection, postgres_connection
from tenuto.store.commits import Commit, End, Full, Lease, NewRun, NewTimer, Outgoing, Own, Park, Rows, Start, full
from tenuto.store.full import widened
from tenuto.store.memory import MemoryStore
from tenuto.store.port import RunFilter, TaskEnd
from tenuto.store.postgres import PostgresStore
from tenuto.store.queues import QueueLimits
from tenuto.store.sqlite import SqliteStore

STEPS = 150
FUZZ = os.environ.get("TENUTO_FUZZ") == "1"
RUNS = [f"r{n}" for n in range(10)]
WORKERS = ["w0", "w1", "w2"]
LEASE = 500

# The kinds of which one group of turns consists: of each row of the table of ways, and mixed.
SHAPES: list[tuple[type[Commit], ...]] = [
    (Rows,),
    (Rows,),
    (Rows, End),
    (Start,),
    (Start,),
    (Rows, End, Own),
    (Rows, End, Own, Start, Park, Full),
    (Full, Park),
]
KINDS: list[type[Commit]] = [Rows, Start, End, Own, Park, Full]


class Caller:
    """Draws calls. What a call needs from earlier answers (leases, tasks) it takes from those answers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 1_700_000_000_000
        self.leases: list[Any] = []
        self.tasks: list[Any] = []
        self.minted = 0

    def clock(self) -> int:
        return self.now

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
                *[self.commit] * 10,
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
                self.claim_suspects,
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

    def claim_suspects(self) -> Any:
        worker, queues = self.draw.choice(WORKERS), self.draw.choice((None, None, ["a"]))
        group, waited = self.draw.choice(((16, 16), (8, 1), (100, 100))), self.draw.choice((0, 0, 0, 50))
        lost = self.draw.choice((*WORKERS, None, None))

        async def claim(store: Any) -> Any:
            await store.declare_lost([] if lost is None else [lost])
            await store.sweep(3, 100)
            waits = await store.has_suspects(waited)
            claimed = await store.claim_suspects(worker, (["wf"], ["step"]), queues, group, waited)
            assert waits or not (claimed.runs or claimed.tasks)
            runs = sorted(claimed.runs, key=lambda claim: claim.lease.run_id)
            return [*runs, *sorted(claimed.tasks, key=lambda task: task.id)]

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
        """A group of turns. Its shape is drawn first, then the kind of each: stores have ways of their own for some."""
        kinds = self.draw.choice(SHAPES)
        leases = {lease.run_id: lease for lease in self.leases[-20:]}  # the latest of each run
        commits: list[Commit] = []
        for kind in [self.draw.choice(kinds) for _ in range(self.draw.choice((1, 2, 3, 4)))]:
            if kind is Start:
                commits.append(self.start())
            elif leases:
                lease = leases[self.draw.choice(sorted(leases))]
                if self.draw.random() < 0.9:  # else two turns of one run may be in the group
                    del leases[lease.run_id]
                commits.append(self.turn(kind, lease))
        if not commits:
            return self.claim_runs()

        async def commit_group(store: Any) -> Any:
            results = await store.commit_group(commits)
            return [(type(commit), commit.lease, result) for commit, result in zip(commits, results, strict=True)]

        return commit_group

    def start(self) -> Start:
        """A run that is stored together with its first turn, or without any."""
        draw = self.draw
        run_id, status = draw.choice(RUNS), draw.choice(("running", "running", "suspended", "suspended", "pending"))
        at = self.now + draw.choice((5, 100, 700)) if status == "suspended" and draw.random() < 0.8 else None
        new = NewRun(
            run_id,
            "wf",
            ((b"\x15\x01", b"first"),),
            worker=None if status == "pending" else draw.choice(WORKERS),
            definition="h",
            key=draw.choice((None, None, None, "k")),
            queue=draw.choice(("default", "a")),
        )
        return Start(
            new=new,
            status=status,
            puts=() if status == "pending" else ((b"\x16\x01", b"v"),),
            alarm=at,
            timers=() if at is None else (NewTimer("n1", at, "delay"),),
        )

    def turn(self, kind: type[Commit], lease: Lease) -> Commit:
        draw = self.draw
        seen = draw.choice((0, 2, 10_000, 10_000))
        puts = tuple((bytes([0x16, draw.randrange(6)]), b"v") for _ in range(draw.choice((1, 1, 2))))
        alarm = self.now + draw.choice((5, 100, 700)) if draw.random() < 0.4 else None
        if kind is Rows:
            return Rows(lease=lease, puts=puts, alarm=alarm, seen=seen)
        if kind is End:
            status = draw.choice(("completed", "failed", "cancelled"))
            return End(lease=lease, status=status, puts=puts if draw.random() < 0.9 else (), seen=seen)
        if kind is Park:
            return Park(lease=lease, reason="why", capability="cap0", seen=seen)
        return self.own(lease, alarm, seen) if kind is Own else self.full(lease, alarm, seen)

    def own(self, lease: Lease, alarm: int | None, seen: int) -> Own:
        """A turn that changes whatever belongs to its run, and concerns no other."""
        draw = self.draw
        key = bytes([0x16, draw.randrange(6)])
        status = draw.choice(("running", "suspended", "suspended", "suspended", "completed"))
        answered = draw.random() < 0.1
        timers = (NewTimer(draw.choice(("n1", "n2")), alarm, "delay"),) if alarm and draw.random() < 0.8 else ()
        stops = draw.random() < 0.3 and not any(timer.location == "n1" for timer in timers)
        return Own(
            lease=lease,
            status=status,
            rows=EncodedBatch(
                (),
                (mail_key(draw.randrange(1, 6)),) if draw.random() < 0.4 else (),
                ((key, b"v"), *(((update_key("u1"), b"done"),) if answered else ())) if draw.random() < 0.7 else (),
            ),
            alarm=None if status == "completed" else alarm,
            seen=seen,
            mail_done=tuple(range(1, draw.randrange(2, 8))) if draw.random() < 0.5 and status != "completed" else (),
            timers=timers,
            stopped_timers=("n1",) if stops else (),
            definition="h2" if draw.random() < 0.1 else None,
            notify=answered,
        )

    def full(self, lease: Lease, alarm: int | None, seen: int) -> Full:
        draw = self.draw
        own = full(self.own(lease, alarm, seen))
        assert isinstance(own, Full)
        ranges = ((b"\x16\x00", b"\x16\x03"),) if draw.random() < 0.2 else ()
        return own._replace(
            rows=own.rows._replace(range_deletes=ranges),
            runs=(NewRun(draw.choice(RUNS), "wf", (), ("r2", draw.choice(("c", "d")))),) if draw.random() < 0.3 else (),
            tasks=(self.task(),) if draw.random() < 0.6 else (),
            cancelled_tasks=(f"t{draw.randrange(1, self.minted + 2):04}",) if draw.random() < 0.2 else (),
            outgoing=(Outgoing(draw.choice(RUNS), self.mail()[0], self.mint()),) if draw.random() < 0.4 else (),
            answers=(("u2", b"no"),) if draw.random() < 0.2 else (),
            continued=own.status == "running" and draw.random() < 0.2,
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
        begun = [task.id for task in self.tasks]
        back = self.full(Lease(run, 0), None, 0)._replace(status="suspended", continued=False)
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
                lambda store: store.deregister(worker, begun),
                lambda store: store.delete([run]),
                lambda store: store.open_hook(run, run, "token"),
                lambda store: taken_back(store, back),
                lambda store: store.reopen(back),  # of an epoch that most runs have left
            )
        )


async def taken_back(store: Any, back: Full) -> Any:
    """What `reopen` says to somebody who has looked."""
    record = await store.get(back.lease.run_id)
    epoch = 0 if record is None else record.epoch
    return await store.reopen(back._replace(lease=Lease(back.lease.run_id, epoch)))


async def answer_of(store: Any, call: Any) -> Any:
    try:
        return await call(store)
    except TenutoError as error:
        return type(error).__name__


async def contents(store: Any) -> Any:
    """What anybody can see of a store."""
    # Sorted: which of two runs of one millisecond is listed first is nobody's promise.
    found: list[Any] = sorted(await store.runs(RunFilter()), key=lambda record: record.id)
    runs = list(found)
    found += [await store.hook_owner("token"), await store.queues()]
    found += [await store.flagged_tasks(worker) for worker in WORKERS]
    for record in runs:
        found.append((await store.rows(record.id), await store.mail(record.id, 0), await store.timers(record.id)))
        found.append([await store.answer(record.id, update) for update in ("u1", "u2")])
        found.append(await store.place(record.id))
    return found


class Counted(dict[str, Any]):
    """The statements of a store, and how often each was executed."""

    def __init__(self, statements: Mapping[str, Any]) -> None:
        super().__init__(statements)
        self.used: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Any:
        self.used[name] += 1
        return super().__getitem__(name)


# Each cell of the table of ways (docs/internals/commits.md), by the statement that only this way executes.
SQLITE_WAYS = ("commit_row", "running_turns", "begin_run", "turn_run")
POSTGRES_WAYS = ("commit_row", "commit_rows", "end_runs", "begin_runs", "commit_turns", "lock_runs")


@pytest.mark.fuzz
async def test_the_same_calls_have_the_same_answers_in_memory_and_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST7, in one process; and a way of its own has the answers of the full one."""
    counted = Counted(connection.STATEMENTS)
    monkeypatch.setattr(connection, "STATEMENTS", counted)
    drawn: Counter[type[Commit]] = Counter()
    for seed in range(300 if FUZZ else 25):
        caller = Caller(seed)
        file = SqliteStore(tmp_path / f"{seed}.db", clock=caller.clock, sync="normal")
        stores: list[Any] = [MemoryStore(caller.clock), file]
        if seed % 5 == 0:
            counting, counted.used = counted.used, Counter()
            stores.append(widened(SqliteStore(tmp_path / f"{seed} full.db", clock=caller.clock, sync="normal")))
        drawn += await compare(seed, caller, *stores)
        if seed % 5 == 0:
            counted.used = counting  # what the widened store executed says nothing of ways
    assert_every_kind(drawn)
    assert min(counted.used[name] for name in SQLITE_WAYS) >= 20, counted.used


@pytest.mark.slow
@pytest.mark.fuzz
async def test_the_same_calls_have_the_same_answers_in_memory_and_on_postgres(
    new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST7, in one process; and a way of its own has the answers of the full one."""
    counted = Counted(postgres_connection.STATEMENTS)
    monkeypatch.setattr(postgres_connection, "STATEMENTS", counted)
    drawn: Counter[type[Commit]] = Counter()
    for seed in range(200, 260) if FUZZ else range(100, 110):
        caller = Caller(seed)
        server = PostgresStore(new_postgres_url(), clock=caller.clock)
        stores: list[Any] = [MemoryStore(caller.clock), server]
        if seed % 10 == 0:
            counting, counted.used = counted.used, Counter()
            stores.append(widened(PostgresStore(new_postgres_url(), clock=caller.clock)))
        drawn += await compare(seed, caller, *stores)
        if seed % 10 == 0:
            counted.used = counting
    assert_every_kind(drawn)
    assert min(counted.used[name] for name in POSTGRES_WAYS) >= 20, {n: counted.used[n] for n in POSTGRES_WAYS}


def assert_every_kind(drawn: Counter[type[Commit]]) -> None:
    """Each kind was committed often enough for the comparison to mean something."""
    for kind in KINDS:
        assert drawn[kind] >= 0.05 * drawn.total(), drawn


async def compare(seed: int, caller: Caller, *stores: Any) -> Counter[type[Commit]]:
    """The kinds of turns that were committed."""
    committed: Counter[type[Commit]] = Counter()
    for store in stores:
        await store.open()
    for _ in range(STEPS):
        call = caller.next()
        answers = [await answer_of(store, call) for store in stores]
        assert answers[1:] == answers[:-1], (seed, call.__qualname__)
        seen = [await contents(store) for store in stores]
        for parts in zip(*seen, strict=True):
            assert parts[1:] == parts[:-1], (seed, call.__qualname__)
        if isinstance(answers[0], list):
            caller.leases.extend(answer.lease for answer in answers[0] if hasattr(answer, "lease"))
            caller.tasks.extend(answer for answer in answers[0] if hasattr(answer, "backoff_ms"))
        if call.__name__ == "commit_group":
            committed.update(kind for kind, _, answer in answers[0] if answer.verdict == "committed")
            caller.leases.extend(lease for kind, lease, answer in answers[0] if kind is Start and answer.kept)
    for store in stores:
        await store.close()
    return committed
