"""What only the SQLite store has: its settings, its threads, its file, and other processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenuto.codec.rows import EncodedBatch
from tenuto.codec.values import load
from tenuto.errors import CommitUnknownError, StoreRefusedError, StoreTooNewError, StoreUnavailableError
from tenuto.host.classify import narrowed
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store import connection as connection_module
from tenuto.store import writer as writer_module
from tenuto.store.connection import STATEMENTS, Connection, refuse_network_file
from tenuto.store.port import Commit, Full, Lease, NewRun, NewTimer, Outgoing, TaskEnd
from tenuto.store.queues import QueueLimits
from tenuto.store.sqlite import SqliteStore

CONTROL = {"begin", "commit", "rollback", "savepoint", "release", "rollback_request"}
TASK = EnqueueTask(("pack",), "t", "step", b"in", "default", 0, 0, None, None, 3, 100.0, 30_000.0, None, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "tenuto.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, clock=lambda: 1_000_000, sync="normal")
    await opened.open()
    yield opened
    await opened.close()


def snapshot(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, read past the store. Ids of resumes are drawn by lot and left out."""
    with database(path) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {table: [list(row) for row in db.execute(f"SELECT * FROM {table}")] for table in tables}  # noqa: S608
    for row in rows["executions"]:
        row[0] = "resume" if row[2] == "builtin.resume_workflow" else row[0]
    return {table: sorted(map(repr, found)) for table, found in rows.items()}


@contextmanager
def database(path: Path) -> Iterator[Any]:
    db = apsw.Connection(str(path))
    try:
        yield db
    finally:
        db.close()


def python(script: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# --- settings and files


@pytest.mark.parametrize(("sync", "level"), [("full", 2), ("normal", 1)])
async def test_the_file_is_used_with_the_settings_the_promises_rest_on(path: Path, sync: Any, level: int) -> None:
    """P1."""
    store = SqliteStore(path, sync=sync)
    await store.open()
    assert store._writer is not None
    assert await store._writer.do(lambda db: db.one("read_sync"), quiet=True) == (level,)
    assert await store._writer.do(lambda db: db.one("read_foreign_keys"), quiet=True) == (1,)
    assert await store._writer.do(lambda db: db.one("wal"), quiet=True) == ("wal",)
    await store.close()


@pytest.mark.parametrize(
    ("name", "weaker"),
    [
        ("sync_full", "PRAGMA synchronous = OFF"),
        ("foreign_keys", "PRAGMA foreign_keys = OFF"),
        ("wal", "SELECT 'delete'"),
    ],
)
async def test_a_setting_that_does_not_hold_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, weaker: str
) -> None:
    """P1."""
    monkeypatch.setattr(connection_module, "STATEMENTS", {**STATEMENTS, name: weaker})
    with pytest.raises(StoreRefusedError):
        await SqliteStore(path).open()


async def test_the_directories_it_makes_are_private(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "one" / "two" / "x.db")
    await store.open()
    await store.close()
    assert [place.stat().st_mode & 0o777 for place in (tmp_path / "one", tmp_path / "one" / "two")] == [0o700, 0o700]


def test_a_file_on_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nserver:/x /mnt/with\\040space nfs4 rw 0 0\n")
    refuse_network_file(Path("/mnt/else/x.db"), mounts)
    with pytest.raises(StoreRefusedError, match="nfs4"):
        refuse_network_file(Path("/mnt/with space/x.db"), mounts)
    refuse_network_file(Path("/x.db"), tmp_path / "no such file")


async def test_a_directory_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="file"):
        await SqliteStore(tmp_path / "file" / "x.db").open()


@pytest.fixture
def no_database(path: Path) -> Path:
    path.parent.mkdir()
    path.write_bytes(b"no database" * 100)
    return path


async def test_a_file_that_is_no_database_is_refused_with_its_cause(no_database: Path) -> None:
    with pytest.raises(StoreRefusedError) as refused:
        await SqliteStore(no_database).open()
    assert isinstance(refused.value.__cause__, apsw.Error)


async def test_a_store_that_is_not_open_says_so(path: Path, store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailableError, match="not open"):
        await SqliteStore(path).get("r")
    await store.close()
    with pytest.raises(StoreUnavailableError, match="not open"):
        await store.create(NewRun("r", "wf", ()))
    await store.open()
    assert await store.create(NewRun("r", "wf", ()))


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Takes the right to write away: from a superuser by being somebody else for a while."""
    if os.geteuid() == 0:
        for place in (path, *path.parents[:-1]):
            place.chmod(place.stat().st_mode | 0o055)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        path.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            yield
        finally:
            path.parent.chmod(0o755)
            path.chmod(0o644)


async def test_a_read_only_file_is_unavailable_and_works_when_it_is_writable_again(path: Path) -> None:
    store = SqliteStore(path, busy_ms=10, busy_limit_ms=50)
    await store.open()
    await store.close()
    with read_only(path), pytest.raises(StoreUnavailableError):
        await store.open()
    await store.open()
    assert await store.create(NewRun("r", "wf", ()))
    await store.close()


async def test_a_connection_that_became_read_only_is_replaced_by_itself(store: SqliteStore) -> None:
    assert store._writer is not None
    await store._writer.do(lambda db: db.script("PRAGMA query_only = ON"), quiet=True)
    with pytest.raises(StoreUnavailableError) as refused:
        await store.create(NewRun("r", "wf", ()))
    assert isinstance(refused.value.__cause__, apsw.ReadOnlyError)
    assert await store.create(NewRun("r", "wf", ()))


# --- locks


async def test_callers_wait_while_another_process_holds_the_lock(path: Path) -> None:
    """R066: longer than SQLite itself waits."""
    store = SqliteStore(path, busy_ms=10, busy_limit_ms=60_000, sync="normal")
    await store.open()
    with database(path) as other:
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.create(NewRun("r", "wf", ())))
        done, _ = await asyncio.wait({call}, timeout=0.1)
        assert not done
        assert await store.get("r") is None  # readers do not wait
        other.execute("ROLLBACK")
    assert await call
    await store.close()


async def test_a_lock_held_beyond_the_limit_is_unavailable_and_work_goes_on_after_it(path: Path) -> None:
    store = SqliteStore(path, busy_ms=5, busy_limit_ms=30, sync="normal")
    await store.open()
    with database(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError) as refused:
            await store.create(NewRun("r", "wf", ()))
        assert isinstance(refused.value.__cause__, apsw.BusyError)
        other.execute("ROLLBACK")
    assert await store.create(NewRun("r", "wf", ()))
    await store.close()


# --- group commit


async def test_what_is_queued_during_a_commit_is_committed_together(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    run = Connection.run
    monkeypatch.setattr(Connection, "run", lambda self, name, *rest: statements.append(name) or run(self, name, *rest))
    async with writer_held(store):
        creates = [asyncio.create_task(store.create(NewRun(f"r{n % 19}", "wf", ()))) for n in range(20)]
        await asyncio.sleep(0)  # they are queued
        statements.clear()
    assert [await create for create in creates] == [True] * 19 + [False]
    assert statements.count("commit") == 2  # of the one that was held, and of all others
    assert statements.count("begin") == 1


async def test_nothing_is_acknowledged_whose_commit_fails(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """P1."""
    run = Connection.run

    def fail(self: Connection, name: str, *rest: Any) -> None:
        if name == "commit":
            monkeypatch.undo()
            raise apsw.FullError("database or disk is full")
        run(self, name, *rest)

    before = snapshot(path)
    monkeypatch.setattr(Connection, "run", fail)
    with pytest.raises(StoreUnavailableError, match="full"):
        await store.create(NewRun("r", "wf", ()))
    assert snapshot(path) == before
    assert await store.create(NewRun("r", "wf", ()))


async def test_a_commit_whose_sync_failed_is_neither_done_nor_not_done(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: the caller is told that nobody knows, and repeating the call is safe."""
    run = Connection.run

    def fail(self: Connection, name: str, *rest: Any) -> None:
        run(self, name, *rest)
        if name == "commit":
            monkeypatch.undo()
            error = apsw.IOError("disk I/O error")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error

    monkeypatch.setattr(Connection, "run", fail)
    with pytest.raises(CommitUnknownError):
        await store.create(NewRun("r", "wf", ()))
    assert not await store.create(NewRun("r", "wf", ()))  # here it was done


@asynccontextmanager
async def writer_held(store: SqliteStore) -> AsyncIterator[None]:
    """The writer's thread is busy inside the block."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        begun.set()
        go_on.wait(30)

    assert store._writer is not None
    held = asyncio.create_task(store._writer.do(hold))
    await asyncio.to_thread(begun.wait, 30)
    try:
        yield
    finally:
        go_on.set()
        await held


async def test_a_caller_that_gave_up_waiting_does_not_disturb_the_others(store: SqliteStore) -> None:
    async with writer_held(store):
        call = asyncio.create_task(store.create(NewRun("a", "wf", ())))
        await asyncio.sleep(0)
        call.cancel()
        other = asyncio.create_task(store.create(NewRun("b", "wf", ())))
    assert await other
    assert call.cancelled()


async def test_a_commit_that_meets_nobody_is_done_at_once(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "FAST", 60.0)  # whatever the disk is like here
    created = asyncio.create_task(store.create(NewRun("a", "wf", ())))
    await asyncio.sleep(0)
    assert created.done()


async def test_on_a_slow_disk_the_event_loop_never_waits_for_a_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    run = Connection.run

    def slow(self: Connection, name: str, *rest: Any) -> None:
        if name == "commit":
            used.append(threading.current_thread().name)
            threading.Event().wait(0.02)
        run(self, name, *rest)

    monkeypatch.setattr(Connection, "run", slow)
    for number in range(4):
        await store.create(NewRun(f"r{number}", "wf", ()))
    assert used[-1] == "tenuto-writer"


async def test_the_event_loop_goes_on_while_another_process_has_the_lock(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    created = asyncio.create_task(store.create(NewRun("r", "wf", ())))
    await asyncio.sleep(0)
    assert not created.done()  # and yet we are here
    other.execute("COMMIT")
    other.close()
    assert await created


async def test_the_log_does_not_grow_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CHECKPOINT_PAGES", 1_000)
    store = SqliteStore(path, sync="normal")
    await store.open()
    log = path.with_name(path.name + "-wal")
    await store.create(NewRun("r", "wf", ()))
    lease = await store.claim("r")
    for number in range(60):
        rows = EncodedBatch((), (), tuple((b"k%d-%d" % (number, n), b"x" * 3_000) for n in range(100)))
        await store.commit(narrowed(Full(lease, "running", rows)))
    assert log.stat().st_size < 3 * 1_000 * 4_096  # of about 6,000 pages written
    await store.close()


async def test_two_event_loops_may_use_one_store(store: SqliteStore) -> None:
    async def elsewhere() -> bool:
        return await store.create(NewRun("there", "wf", ()))

    assert await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
    assert await store.get("there") is not None


# --- crashes


class Crash(Exception):
    """Stands for the death of the process between two statements."""


async def prepared(store: SqliteStore) -> Any:
    """A world in which every operation below has something to do."""
    await store.register("w", 30_000, "c", {"wf": "h", "step": "h"})
    for run in ("parent", "other"):
        await store.create(NewRun(run, "wf", ()))
    await store.create(NewRun("r", "wf", ((b"k", b"v"),), parent=("parent", "op")))
    leases = {claim.record.id: claim.lease for claim in await store.claim_runs("w", ["wf"], 10)}
    timers = (NewTimer("due", 999_999, "delay"), NewTimer("due too", 999_998, "delay"))
    await store.commit(narrowed(Full(leases["r"], "running", tasks=(TASK, TASK._replace(id="late", delay_ms=9)))))
    await store.commit(narrowed(Full(leases["other"], "suspended", timers=timers, alarm=999_998)))
    await store.send("r", Mail(MailKind.UPDATE, "add", "u", b"", None, 0, 0))
    (task,) = await store.claim_tasks("w", ["step"], None, 1)
    return leases["r"], task


async def everything(store: SqliteStore, lease: Any, status: str) -> None:
    """A turn that has something of every kind."""
    signal = Mail(MailKind.SIGNAL, "go", None, b"", None, 0, 0)
    await store.commit_group(
        [
            narrowed(
                Full(
                    lease,
                    status,
                    EncodedBatch(((b"a", b"b"),), (b"k",), ((b"n", b"v"), (b"m", b"v"))),
                    alarm=2_000_000,
                    runs=(NewRun("child", "wf", ((b"k", b"v"),), ("r", "c")), NewRun("other", "wf", (), ("r", "d"))),
                    tasks=(TASK._replace(id="t2"),),
                    cancelled_tasks=("late",),
                    outgoing=(Outgoing("other", signal, "s"), Outgoing("nobody", signal, "s")),
                    answers=(("u", b"no"),),
                    seen=1,
                    mail_done=(1,),
                    timers=(NewTimer("x", 2_000_000, "delay"),),
                    stopped_timers=("y",),
                )
            )
        ]
    )


OPERATIONS: dict[str, Any] = {
    "a turn that goes on": lambda store, lease, task: everything(store, lease, "running"),
    "a turn that waits": lambda store, lease, task: everything(store, lease, "suspended"),
    "a turn that ends": lambda store, lease, task: everything(store, lease, "completed"),
    "the end of a task": lambda store, lease, task: store.end_task(TaskEnd("t", task.epoch, b"out", None, 1)),
    "a retry": lambda store, lease, task: store.end_task(TaskEnd("t", task.epoch, None, b"bad", 1, 2_000_000)),
    "due timers": lambda store, lease, task: store.fire_timers(10),
    "a termination": lambda store, lease, task: store.terminate("r", "x"),
    "a signal": lambda store, lease, task: store.send("r", Mail(MailKind.SIGNAL, "go", None, b"", None, 0, 0), "s"),
    "a claim": lambda store, lease, task: store.claim_runs("v", ["wf"], 10),
    "a worker that leaves": lambda store, lease, task: store.deregister("w"),
    "a deletion": lambda store, lease, task: store.delete(["r"]),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_crash_at_any_statement_leaves_all_or_nothing(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """K010, R001, R026, R038: whatever the statement, the file is as it was before."""
    lease, task = await prepared(store)
    if operation in ("due timers", "a claim"):
        await store.wake("other")
    before = snapshot(path)
    crash_at, calls = 0, 0

    def guarded(original: Any) -> Any:
        def call(self: Connection, name: str, *rest: Any) -> Any:
            nonlocal calls
            if name not in CONTROL:
                calls += 1
                if calls == crash_at:
                    raise Crash(name)
            return original(self, name, *rest)

        return call

    for name in ("run", "one", "all", "many", "count"):
        monkeypatch.setattr(Connection, name, guarded(getattr(Connection, name)))
    while True:
        crash_at, calls = crash_at + 1, 0
        try:
            await OPERATIONS[operation](store, lease, task)
        except Crash:
            assert snapshot(path) == before
            continue
        break
    assert crash_at > 2
    assert snapshot(path) != before


async def test_a_child_is_told_with_the_rows_it_was_ended_with(store: SqliteStore, path: Path) -> None:
    """R001, as the file shows it: one pending resume in queue system, priority 10, its run as argument."""
    lease, task = await prepared(store)
    await store.commit(narrowed(Full(lease, "suspended", seen=1)))
    await store.end_task(TaskEnd("t", task.epoch, b"out", None, 1))
    with database(path) as db:
        found = db.execute(
            "SELECT queue, priority, args, parent_workflow_id FROM executions"
            " WHERE target_name = 'builtin.resume_workflow' AND status = 'pending'"
        ).fetchall()
    assert [(queue, priority, load(args), run) for queue, priority, args, run in found] == [("system", 10, ["r"], "r")]


async def test_a_heartbeat_writes_one_row_whatever_its_worker_holds(store: SqliteStore) -> None:
    """R017."""
    await store.register("w", 30_000, "c", {"wf": "h"})
    for n in range(100):
        await store.create(NewRun(f"r{n}", "wf", ()))
    assert len(await store.claim_runs("w", ["wf"], 1_000)) == 100
    assert store._writer is not None
    before = await store._writer.do(lambda db: db.total_changes(), quiet=True)
    assert await store.heartbeat("w", 30_000)
    assert await store._writer.do(lambda db: db.total_changes(), quiet=True) == before + 1


async def test_a_timer_row_deleted_by_hand_wakes_its_run_at_the_next_sweep(store: SqliteStore, path: Path) -> None:
    """R027."""
    await store.register("w", 30_000, "c", {"wf": "h"})
    await store.create(NewRun("r", "wf", ()))
    (claim,) = await store.claim_runs("w", ["wf"], 1)
    timers = (NewTimer("nap", 2_000_000, "delay"),)
    await store.commit(narrowed(Full(claim.lease, "suspended", timers=timers, alarm=2_000_000)))
    await store.sweep(5, 10)
    assert await store.claim_runs("w", ["wf"], 1) == []
    with database(path) as db:
        db.execute("DELETE FROM timer_tasks")
    await store.sweep(5, 10)
    assert len(await store.claim_runs("w", ["wf"], 1)) == 1


async def test_the_usual_turn_is_one_statement(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await store.claim((await _started(store)).id)
    await store.commit(narrowed(Full(lease, "running")))
    statements: list[str] = []
    for name in ("run", "one", "all", "many", "count"):
        call = getattr(Connection, name)
        monkeypatch.setattr(
            Connection, name, lambda self, said, *rest, call=call: statements.append(said) or call(self, said, *rest)
        )
    await store.commit_group([narrowed(Full(lease, "running", EncodedBatch((), (), ((b"k", b"v"),))))])
    assert statements == ["commit_row"]
    statements.clear()
    (late,) = await store.commit_group(
        [narrowed(Full(Lease("r", 0), "running", EncodedBatch((), (), ((b"k", b"x"),))))]
    )
    assert late.verdict == "stale"  # what the one statement refuses is looked at the longer way
    assert await store.rows("r") == [(b"k", b"v")]


async def test_a_lone_row_whose_sync_failed_is_neither_done_nor_not_done(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: as any other commit."""
    monkeypatch.setattr(writer_module, "FAST", 60.0)
    lease = await store.claim((await _started(store)).id)
    await store.commit(narrowed(Full(lease, "running")))
    count = Connection.count

    def fail(self: Connection, name: str, *rest: Any) -> int:
        count(self, name, *rest)
        monkeypatch.undo()
        error = apsw.IOError("disk I/O error")
        error.extendedresult = apsw.SQLITE_IOERR_FSYNC
        raise error

    turn = narrowed(Full(lease, "running", EncodedBatch((), (), ((b"k", b"v"),))))
    monkeypatch.setattr(Connection, "count", fail)
    with pytest.raises(CommitUnknownError):
        await store.commit_group([turn])
    assert [result.verdict for result in await store.commit_group([turn])] == ["committed"]  # on a file opened anew
    assert await store.rows("r") == [(b"k", b"v")]


async def test_a_lone_row_never_waits_on_the_event_loop_for_another_process(store: SqliteStore, path: Path) -> None:
    lease = await store.claim((await _started(store)).id)
    await store.commit(narrowed(Full(lease, "running")))
    turn = narrowed(Full(lease, "running", EncodedBatch((), (), ((b"k", b"v"),))))
    with database(path) as other:
        other.execute("BEGIN IMMEDIATE")
        committed = asyncio.create_task(store.commit_group([turn]))
        await asyncio.sleep(0)
        assert not committed.done()  # and yet we are here
        other.execute("COMMIT")
    assert [result.verdict for result in await committed] == ["committed"]
    assert await store.rows("r") == [(b"k", b"v")]


async def _various_turns(store: SqliteStore) -> list[Commit]:
    """Turns of one group: what concerns only its own run, what does not, and what finds its run otherwise."""
    await store.register("w", 30_000, "c", {"wf": "h"})
    await store.set_queue(QueueLimits("told", concurrency=1))
    known = (
        "step",
        "stale",
        "alarmed",
        "end",
        "failed",
        "cancelled first",
        "stale end",
        "signalled",
        "sender",
        "taken",
    )
    for run in known:
        await store.create(NewRun(run, "wf", ((b"a", b"first"),)))
    leases = {claim.record.id: claim.lease for claim in await store.claim_runs("w", ["wf"], 20)}
    await store.claim("stale")
    await store.claim("stale end")
    await store.send("cancelled first", Mail(MailKind.CANCEL, "", None, b"", None, 0, 0))
    await store.send("signalled", Mail(MailKind.SIGNAL, "go", None, b"", None, 0, 0))
    rows = EncodedBatch((), (), tuple((b"k%d" % number, b"v") for number in range(20)))
    signal = Outgoing("step", Mail(MailKind.SIGNAL, "go", None, b"", None, 0, 0), "s")

    def born(run_id: str, status: str, worker: str | None = "w", queue: str = "default", **more: Any) -> Commit:
        new = NewRun(run_id, "wf", ((b"k0", b"old"), (b"z", b"z")), definition="h", queue=queue, worker=worker)
        return narrowed(Full(Lease(run_id, 1), status, rows if worker else EncodedBatch((), (), ()), new=new, **more))

    nap = NewTimer("nap", 2_000_000, "delay")
    return [
        narrowed(Full(leases["step"], "running", rows)),
        narrowed(Full(leases["stale"], "running", rows)),
        narrowed(Full(leases["alarmed"], "running", rows, alarm=2_000_000)),
        narrowed(Full(leases["end"], "completed", rows, timers=(nap,))),
        narrowed(Full(leases["failed"], "failed", rows, definition="other")),
        narrowed(Full(leases["cancelled first"], "completed", rows)),
        narrowed(Full(leases["stale end"], "completed", rows)),
        narrowed(Full(leases["signalled"], "completed", rows)),
        narrowed(Full(leases["sender"], "suspended", rows, outgoing=(signal,))),
        born("taken", "running"),
        born("begun", "running"),
        born("told", "running", queue="told"),
        born("asleep", "suspended", alarm=2_000_000, timers=(nap,)),
        born("alarmed at once", "running", alarm=2_000_000),
        born("over at once", "completed"),
        born("waiting", "pending", worker=None),
    ]


async def test_the_turns_of_a_group_fare_as_each_would_alone(tmp_path: Path) -> None:
    """P5: what is written together is what each of them would have written."""
    results, files = [], []
    for name in ("together", "alone"):
        store = SqliteStore(tmp_path / name, clock=lambda: 1_000_000, sync="normal")
        await store.open()
        turns = await _various_turns(store)
        groups = [turns] if name == "together" else [[turn] for turn in turns]
        results.append([result for group in groups for result in await store.commit_group(group)])
        await store.close()
        files.append(snapshot(tmp_path / name))
        files[-1].pop("tenuto_meta")
        files[-1]["workers"] = []  # they say when they began
    assert results[0] == results[1]
    assert files[0] == files[1]
    refused = {turn.lease.run_id: result.verdict for turn, result in zip(turns, results[0], strict=True)}
    assert {run: verdict for run, verdict in refused.items() if verdict != "committed"} == {
        "stale": "stale",
        "cancelled first": "cancel_first",
        "stale end": "stale",
        "taken": "taken",
        "told": "taken",
    }


async def _started(store: SqliteStore) -> NewRun:
    run = NewRun("r", "wf", ())
    await store.create(run)
    return run


# --- other processes


async def test_a_commit_of_another_process_ends_the_wait_for_a_change(store: SqliteStore, path: Path) -> None:
    """R065, as far as a store shows it."""
    other = SqliteStore(path, sync="normal")
    await other.open()
    mark = await store.changed(-1, 0.0)
    waiting = asyncio.create_task(store.changed(mark, 30.0))
    await asyncio.sleep(0)
    await other.create(NewRun("r", "wf", ()))
    assert await waiting > mark
    assert await store.get("r") is not None
    await other.close()


def test_a_store_opened_before_a_fork_is_refused_in_the_child(path: Path) -> None:
    script = """
        import asyncio, os, sys
        from tenuto.errors import StoreRefusedError
        from tenuto.store.port import NewRun
        from tenuto.store.sqlite import SqliteStore

        async def child(store):
            for call in (store.create(NewRun("c", "wf", ())), store.get("p")):
                try:
                    await call
                except StoreRefusedError:
                    print("refused", flush=True)

        loop = asyncio.new_event_loop()
        store = SqliteStore(sys.argv[1])
        loop.run_until_complete(store.open())
        loop.run_until_complete(store.create(NewRun("p", "wf", ())))
        pid = os.fork()
        if pid == 0:
            asyncio.new_event_loop().run_until_complete(child(store))
            os._exit(0)
        os.waitpid(pid, 0)
        print(loop.run_until_complete(store.get("p")).id)
        loop.run_until_complete(store.close())
    """
    out, _ = python(script, path).communicate(timeout=60)
    assert out.split() == ["refused", "refused", "p"]


@pytest.mark.slow
def test_of_processes_that_migrate_at_once_one_does_and_the_others_wait(path: Path) -> None:
    """R069."""
    script = """
        import asyncio, sys
        from tenuto.store.port import NewRun
        from tenuto.store.sqlite import SqliteStore

        async def main():
            store = SqliteStore(sys.argv[1])
            print("ready", flush=True)
            sys.stdin.readline()
            await store.open()
            assert await store.create(NewRun(sys.argv[2], "wf", ()))
            await store.close()

        asyncio.run(main())
    """
    processes = [python(script, path, f"r{n}") for n in range(3)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with database(path) as db:
        assert db.execute("SELECT schema_version, oldest_release FROM tenuto_meta").fetchall() == [(1, 1)]
        assert db.execute("SELECT count(*) FROM executions").fetchall() == [(3,)]
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_schema_that_needs_newer_code_is_refused_and_one_that_does_not_is_used(
    path: Path, store: SqliteStore
) -> None:
    """R074."""
    await store.close()
    with database(path) as db:
        db.execute("UPDATE tenuto_meta SET schema_version = 2, oldest_release = 1")
    await store.open()
    await store.close()
    with database(path) as db:
        db.execute("UPDATE tenuto_meta SET schema_version = 9, oldest_release = 9")
    with pytest.raises(StoreTooNewError, match="schema 9"):
        await store.open()
    with database(path) as db:
        db.execute("UPDATE tenuto_meta SET schema_version = 1, oldest_release = 1")
    await store.open()


@pytest.mark.slow
def test_a_full_disk_is_unavailable_loses_nothing_acknowledged_and_works_when_there_is_room(path: Path) -> None:
    """P1; the size of files is limited by the system, then no more."""
    script = """
        import asyncio, resource, signal, sys
        from tenuto.errors import StoreUnavailableError
        from tenuto.store.port import NewRun
        from tenuto.store.sqlite import SqliteStore

        async def main():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            store = SqliteStore(sys.argv[1])
            await store.open()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            acknowledged = 0
            try:
                for n in range(1000):
                    await store.create(NewRun(f"r{n}", "wf", ((b"k", bytes(20_000)),)))
                    acknowledged += 1
            except StoreUnavailableError as error:
                print(type(error.__cause__).__name__)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print(await store.create(NewRun("again", "wf", ((b"k", bytes(20_000)),))))
            print(acknowledged > 10, len(await store.runs()) == acknowledged + 1)
            await store.close()

        asyncio.run(main())
    """
    out, _ = python(script, path).communicate(timeout=60)
    cause, *rest = out.split()
    assert cause in ("FullError", "IOError")
    assert rest == ["True", "True", "True"]
    with database(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
