"""What only a store with row locks, a network and a server can get wrong. Everything else: tests/conformance."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import pytest

if find_spec("psycopg") is None and os.environ.get("TENUTO_REQUIRE") != "all":
    pytest.skip("the Postgres store needs psycopg, which is not installed", allow_module_level=True)

import psycopg

from tenuto.codec.rows import EncodedBatch, mail_key
from tenuto.codec.values import dump
from tenuto.errors import CommitUnknownError, ConfigError, InvalidNameError, StoreTooNewError, StoreUnavailableError
from tenuto.host.classify import narrowed
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store import postgres_connection, postgres_listener, postgres_mail
from tenuto.store.port import Claim, Commit, Full, NewRun, NewTimer, Outgoing, RunRecord, TaskEnd
from tenuto.store.postgres import PostgresStore
from tenuto.store.postgres_connection import Database, Transaction
from tenuto.store.urls import store_of

LEASE = 30_000


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(postgres_url)
    await opened.open()
    await opened.register("w", LEASE, "c", {"wf": "h"})
    yield opened
    await opened.close()


@pytest.fixture
async def other(store: PostgresStore, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """Another process, as far as Postgres can tell."""
    opened = PostgresStore(postgres_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def raw(store: PostgresStore, postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A person at the database."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute("SET synchronous_commit = off")
        yield connection


async def value(connection: psycopg.AsyncConnection[Any], query: Any, values: Any = None) -> Any:
    row = await (await connection.execute(query, values)).fetchone()
    return None if row is None else row[0]


async def until(connection: psycopg.AsyncConnection[Any], query: Any, values: Any = None) -> Any:
    """Asks the server until it has an answer."""
    async with asyncio.timeout(20):
        while not (found := await value(connection, query, values)):
            await connection.execute("SELECT pg_stat_clear_snapshot()")  # inside a transaction it would stay the same
    return found


BLOCKED = """SELECT pid FROM pg_stat_activity
              WHERE application_name = 'tenuto' AND wait_event_type = 'Lock' AND state = 'active' LIMIT 1"""
IN_COMMIT = """SELECT pid FROM pg_stat_activity
                WHERE application_name = 'tenuto' AND state = 'active' AND wait_event_type = %s LIMIT 1"""


async def running(store: PostgresStore, run_id: str = "r") -> Claim:
    await store.create(NewRun(run_id, "wf", ()))
    (claim,) = await store.claim_runs("w", ["wf"], 1)
    return claim


async def suspended(store: PostgresStore, run_id: str = "r", **options: Any) -> Claim:
    claim = await running(store, run_id)
    await store.commit(narrowed(Full(claim.lease, "suspended", **options)))
    return claim


def signal(name: str = "go") -> Mail:
    return Mail(MailKind.SIGNAL, name, None, b"", None, 0, 0)


def result(location: str = "pack") -> Mail:
    return Mail(MailKind.RESULT, location, None, b"out", None, 1, 0)


def rows(*puts: tuple[bytes, bytes]) -> EncodedBatch:
    return EncodedBatch((), (), puts)


def held(
    work: Callable[[Transaction], Awaitable[Any]],
) -> tuple[Callable[[Transaction], Awaitable[None]], asyncio.Event, asyncio.Event]:
    """The same work, not committed before it is let go; and the events of its being done and of its going on."""
    done, go = asyncio.Event(), asyncio.Event()

    async def hold(transaction: Transaction) -> None:
        await work(transaction)
        await transaction.one("clock")  # its answer comes after everything before it was executed
        done.set()
        await go.wait()

    return hold, done, go


# --- locks


async def test_a_wake_up_cannot_be_claimed_before_its_cause_is_committed(
    store: PostgresStore, other: PostgresStore, postgres_url: str
) -> None:
    """R012: the completer touches the pending resume again, and holds it."""
    await suspended(store)
    await store.send("r", signal("first"))

    async def complete(transaction: Transaction) -> None:
        await postgres_mail.lock(transaction, ("r",))
        await postgres_mail.send(transaction, "r", result(), "end:t:pack")

    database = Database(postgres_url)
    work, done, go = held(complete)
    completer = asyncio.create_task(database.transact(work))
    await done.wait()
    assert await other.claim_runs("w", ["wf"], 5) == []
    go.set()
    await completer
    await database.close()
    (claim,) = await other.claim_runs("w", ["wf"], 5)
    assert [n for n, _ in await other.mail(claim.record.id, 0)] == [1, 2]


async def test_the_owner_skips_a_wake_up_that_is_not_committed_and_finds_it_later(
    store: PostgresStore, postgres_url: str
) -> None:
    await running(store)
    database = Database(postgres_url)
    await store.wake("r")

    async def complete(transaction: Transaction) -> None:
        await postgres_mail.lock(transaction, ("r",))
        await postgres_mail.send(transaction, "r", result(), None)

    work, done, go = held(complete)
    completer = asyncio.create_task(database.transact(work))
    await done.wait()
    assert await store.absorb("w", ["r"]) == []
    go.set()
    await completer
    await database.close()
    assert await store.absorb("w", ["r"]) == ["r"]


@pytest.mark.parametrize("effect", [{}, {"timers": (NewTimer("nap", 1, "delay"),)}])
async def test_a_commit_that_waits_for_a_claim_finds_its_epoch_gone(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], effect: Any
) -> None:
    """P5, on the short and on the long way: the fence is checked under the lock."""
    claim = await running(store)
    async with raw.transaction():
        await raw.execute("UPDATE executions SET epoch = epoch + 1 WHERE id = 'r'")
        commit = narrowed(Full(claim.lease, "running", rows((b"k", b"late")), **effect))
        late = asyncio.create_task(store.commit_group([commit]))
        await until(raw, BLOCKED)
    (result,) = await late
    assert (result.verdict, await store.rows("r"), await store.timers("r")) == ("stale", [], [])


async def test_turns_that_go_on_and_turns_that_end_are_one_transaction(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    claims = [await running(store, run_id) for run_id in ("on", "end", "fail")]
    statuses = ("running", "completed", "failed")
    group = [
        narrowed(Full(claim.lease, status, rows((b"k", status.encode()))))
        for claim, status in zip(claims, statuses, strict=True)
    ]
    before = await value(raw, "SELECT pg_current_xact_id()::text::bigint")
    done = await store.commit_group(group)
    assert [(one.verdict, one.kept) for one in done] == [
        ("committed", True),
        ("committed", False),
        ("committed", False),
    ]
    assert [(await store.rows(run_id, b"k"))[0][1] for run_id in ("on", "end", "fail")] == [
        b"running",
        b"completed",
        b"failed",
    ]
    records = [await store.get(run_id) for run_id in ("on", "end", "fail")]
    assert tuple(record and record.status for record in records) == statuses
    assert await value(raw, "SELECT pg_current_xact_id()::text::bigint") == before + 2


@pytest.mark.parametrize("behind", ["on", "end"])
async def test_a_turn_that_comes_too_late_takes_none_of_its_group_with_it(store: PostgresStore, behind: str) -> None:
    """P5: where the short way refuses the group, each is held against its own epoch."""
    leases = {run_id: (await running(store, run_id)).lease for run_id in ("on", "end", "good", "ended")}
    await store.claim(behind)  # somebody else has it
    statuses = {"on": "running", "end": "completed", "good": "running", "ended": "completed"}
    done = await store.commit_group(
        [narrowed(Full(leases[run_id], status, rows((b"k", b"v")))) for run_id, status in statuses.items()]
    )
    verdicts = dict(zip(statuses, (one.verdict for one in done), strict=True))
    assert verdicts == {run_id: "stale" if run_id == behind else "committed" for run_id in statuses}
    assert await store.rows(behind) == []


async def test_wake_ups_without_a_meaning_take_no_places_from_runs(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    """R006: those of runs that are not suspended are deleted, and the claim goes on to what has not begun."""
    for number in range(3):
        await suspended(store, f"paused{number}")
        await store.wake(f"paused{number}")
        await store.pause(f"paused{number}")
    await suspended(store, "woken")
    await store.wake("woken")
    for number in range(3):
        await store.create(NewRun(f"new{number}", "wf", ()))
    claims = await store.claim_runs("w", ["wf"], 3)
    assert [claim.record.id for claim in claims] == ["woken", "new0", "new1"]
    assert await value(raw, "SELECT count(*) FROM executions WHERE target_name = 'builtin.resume_workflow'") == 0


async def test_runs_that_signal_each_other_are_committed_without_a_deadlock(
    store: PostgresStore, other: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    """Every transaction locks its runs in id order, whichever it is about."""
    claims = {run_id: await running(store, run_id) for run_id in ("a", "b")}
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = await value(raw, deadlocks)
    for n in range(40):
        turns = [
            [
                narrowed(
                    Full(
                        claims[sender].lease,
                        "running",
                        rows((b"turn", b"%d" % n)),
                        outgoing=(Outgoing(receiver, signal(), f"{sender}{n}"),),
                    )
                )
            ]
            for sender, receiver in (("a", "b"), ("b", "a"))
        ]
        verdicts = await asyncio.gather(store.commit_group(turns[0]), other.commit_group(turns[1]))
        assert [result.verdict for group in verdicts for result in group] == ["committed"] * 2
    await raw.execute("SELECT pg_stat_clear_snapshot()")
    assert await value(raw, deadlocks) == before
    assert [n for n, _ in await store.mail("a", 0)] == list(range(1, 41))


async def test_a_transaction_in_a_deadlock_is_repeated_as_a_whole(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], postgres_url: str
) -> None:
    impatient = PostgresStore(postgres_url + quote(" -cdeadlock_timeout=20ms"))
    await impatient.open()
    claim = await running(store, "a")
    await running(store, "b")
    await raw.execute("SET deadlock_timeout = '1h'")  # so that the other one is chosen
    async with raw.transaction():
        await raw.execute("SELECT 1 FROM executions WHERE id = 'b' FOR UPDATE")
        commit = narrowed(Full(claim.lease, "running", rows((b"k", b"v")), outgoing=(Outgoing("b", signal(), "s"),)))
        committing = asyncio.create_task(impatient.commit_group([commit]))
        await until(raw, BLOCKED)
        await raw.execute("SELECT 1 FROM executions WHERE id = 'a' FOR UPDATE")  # against the order
    (result,) = await committing
    await impatient.close()
    assert (result.verdict, result.undelivered) == ("committed", ())
    assert [n for n, _ in await store.mail("b", 0)] == [1]


# --- time


async def test_the_workers_clock_decides_nothing(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """R029: ten minutes ahead, and nothing is early."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 600)
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + 600) * 1e9))
    deadline = await store.now() + 300_000
    await suspended(store, alarm=deadline, timers=(NewTimer("nap", deadline, "delay"),))
    assert abs(await store.now() - real() * 1000) < 60_000
    assert await store.fire_timers(10) == deadline
    assert await store.claim_runs("w", ["wf"], 5) == []


async def test_the_estimate_of_the_clock_is_never_ahead_of_the_server(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4."""
    for age in (postgres_connection.CLOCK_AGE, 0.0):
        monkeypatch.setattr(postgres_connection, "CLOCK_AGE", age)
        for _ in range(50):
            estimate = await store.now()
            assert estimate <= await value(raw, "SELECT tenuto_ms(clock_timestamp())")


async def test_a_run_claimed_after_its_timer_fired_is_not_told_an_earlier_time(store: PostgresStore) -> None:
    for _ in range(20):
        deadline = await store.now() + 2
        run_id = f"r{deadline}"
        await suspended(store, run_id, alarm=deadline, timers=(NewTimer("nap", deadline, "delay"),))
        while not (claims := await store.claim_runs("w", ["wf"], 1)):
            await store.fire_timers(10)
        assert await store.now() >= deadline
        await store.commit(narrowed(Full(claims[0].lease, "completed")))


async def test_what_the_server_computes_is_what_the_codec_would(raw: psycopg.AsyncConnection[Any]) -> None:
    for run_id in ("r", "x" * 23, "x" * 24, "é" * 127):
        assert await value(raw, "SELECT tenuto_resume_args(%s)", (run_id,)) == dump([run_id])
    for number in (1, 255, 2**40):
        assert await value(raw, "SELECT tenuto_mail_key(%s::bigint)", (number,)) == mail_key(number)
    for ms in (0, 1_700_000_000_001, 4_102_444_799_999, 253_402_300_799_999):
        assert await value(raw, "SELECT tenuto_ms(tenuto_time(%s::bigint))", (ms,)) == ms


async def test_a_deadline_beyond_all_calendars_is_kept_as_late(store: PostgresStore) -> None:
    await suspended(store, alarm=2**62, timers=(NewTimer("nap", 2**62, "delay"),))
    assert await store.fire_timers(10) == 253_402_300_799_999


# --- connections that break

BLOCK_COMMITS = """
    CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT ON workflow_execution_context
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold_commit();
"""


@pytest.mark.parametrize("effect", [{}, {"timers": (NewTimer("nap", 1, "delay"),)}])
async def test_a_commit_that_was_cut_off_and_lost_is_unknown_and_can_be_repeated(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], effect: Any
) -> None:
    """R021, not applied."""
    claim = await running(store)
    await raw.execute(BLOCK_COMMITS)
    await raw.execute("SELECT pg_advisory_lock(4711)")
    commit = narrowed(Full(claim.lease, "running", rows((b"k", b"v")), **effect))
    committing = asyncio.create_task(store.commit_group([commit]))
    pid = await until(raw, IN_COMMIT, ("Lock",))
    await raw.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(CommitUnknownError):
        await committing
    await raw.execute("SELECT pg_advisory_unlock(4711)")
    assert await store.rows("r") == []
    (result,) = await store.commit_group([commit])
    assert (result.verdict, await store.rows("r")) == ("committed", [(b"k", b"v")])


@pytest.mark.parametrize("effect", [{}, {"timers": (NewTimer("nap", 1, "delay"),)}])
async def test_a_commit_that_was_cut_off_and_applied_is_unknown_and_found(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], effect: Any
) -> None:
    """R021, applied: cut while it waited for a standby, which is after it was committed."""
    claim = await running(store)
    await raw.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    await raw.execute("SELECT pg_reload_conf()")
    try:
        waiting, written = None, 0
        while waiting is None:  # the server takes a moment to notice its setting
            written += 1
            commit = narrowed(Full(claim.lease, "running", rows((b"k", b"%d" % written)), **effect))
            committing = asyncio.create_task(store.commit_group([commit]))
            while not committing.done() and waiting is None:
                waiting = await value(raw, IN_COMMIT.replace("wait_event_type", "wait_event"), ("SyncRep",))
        await raw.execute("SELECT pg_terminate_backend(%s)", (waiting,))
        with pytest.raises(CommitUnknownError):
            await committing
    finally:
        await raw.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await raw.execute("SELECT pg_reload_conf()")
    assert await store.rows("r") == [(b"k", b"%d" % written)]


async def test_a_signal_whose_commit_was_cut_off_is_unknown_and_stored_once_when_repeated(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    """P1: the caller repeats it with the same id, whatever became of it."""
    await suspended(store)
    await raw.execute(BLOCK_COMMITS)
    await raw.execute("SELECT pg_advisory_lock(4711)")
    sending = asyncio.create_task(store.send("r", signal(), "s"))
    pid = await until(raw, IN_COMMIT, ("Lock",))
    await raw.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(CommitUnknownError):
        await sending
    await raw.execute("SELECT pg_advisory_unlock(4711)")
    assert await store.send("r", signal(), "s") == 1
    assert await store.send("r", signal(), "s") is None
    assert [n for n, _ in await store.mail("r", 0)] == [1]


async def test_a_connection_cut_while_idle_is_not_noticed_by_callers(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    await store.create(NewRun("a", "wf", ()))
    await raw.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'tenuto'")
    assert await store.create(NewRun("b", "wf", ()))
    assert await store.heartbeat("w", LEASE)


async def test_a_connection_cut_before_commit_costs_only_a_repetition(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    claim = await running(store)
    async with raw.transaction():
        await raw.execute("SELECT 1 FROM executions WHERE id = 'r' FOR UPDATE")
        commit = narrowed(Full(claim.lease, "suspended", closed_hooks=("x",)))  # more than one statement
        committing = asyncio.create_task(store.commit_group([commit]))
        pid = await until(raw, BLOCKED)
        await raw.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    (result,) = await committing
    assert result.verdict == "committed"


async def test_a_cancelled_call_gives_its_connection_back_with_nothing_done(
    raw: psycopg.AsyncConnection[Any], postgres_url: str
) -> None:
    store = PostgresStore(postgres_url, connections=1)
    await store.open()
    await store.register("w", LEASE, "c", {"wf": "h"})
    claim = await running(store)
    for status in ("suspended", "running"):
        async with raw.transaction():
            await raw.execute("SELECT 1 FROM executions WHERE id = 'r' FOR UPDATE")
            commit = narrowed(Full(claim.lease, status, rows((b"k", b"v"))))
            committing = asyncio.create_task(store.commit_group([commit]))
            await until(raw, BLOCKED)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
        assert await store.rows("r") == []
    await store.close()


async def test_a_name_that_postgres_cannot_hold_is_refused_with_its_reason(store: PostgresStore) -> None:
    with pytest.raises(InvalidNameError, match=r"U\+0000"):
        await store.create(NewRun("a\0b", "wf", ()))
    claim = await running(store)
    with pytest.raises(InvalidNameError):
        await store.commit(narrowed(Full(claim.lease, "suspended", timers=(NewTimer("a\0b", 1, "delay"),))))
    await store.commit(narrowed(Full(claim.lease, "suspended")))


async def test_a_question_that_cannot_be_asked_spoils_none_that_is_asked_with_it(store: PostgresStore) -> None:
    await running(store)
    asked = [store.get("r"), store.get("a\0b"), store.get("\ud800"), store.get("no")]
    good, nul, half, unknown = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(good, RunRecord)
    assert isinstance(nul, InvalidNameError)
    assert isinstance(half, UnicodeEncodeError)
    assert unknown is None
    found = await asyncio.gather(store.rows("r", b"k"), store.rows("r", b"\xff"), return_exceptions=True)
    assert found[0] == []
    assert isinstance(found[1], ValueError)


async def test_a_server_that_is_not_there_is_said_at_open(tmp_path: Any) -> None:
    store = PostgresStore(f"postgresql:///postgres?host={tmp_path}")
    with pytest.raises(StoreUnavailableError):
        await store.open()
    with pytest.raises(StoreUnavailableError):
        await store.get("r")
    await store.close()


@pytest.mark.slow
async def test_work_goes_on_by_itself_when_the_server_is_back(
    store: PostgresStore, postgres_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "NET", 0.05)
    await suspended(store)
    mark = await store.changed(-1, 0)
    await asyncio.to_thread(postgres_server.stop)
    try:
        for call in (store.get("r"), store.create(NewRun("x", "wf", ())), store.heartbeat("w", LEASE), store.wake("r")):
            with pytest.raises(StoreUnavailableError):
                await call
    finally:
        await asyncio.to_thread(postgres_server.ensure_postgres_running)
    assert await store.heartbeat("w", LEASE)
    await store.send("r", signal())
    assert [claim.record.id for claim in await store.claim_runs("w", ["wf"], 5)] == ["r"]
    assert await store.changed(mark, 20) > mark


# --- opening


async def test_stores_that_open_an_empty_database_at_once_migrate_it_once(postgres_url: str) -> None:
    """R069."""
    stores = [PostgresStore(postgres_url) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.create(NewRun(f"r{n}", "wf", ())) for n, store in enumerate(stores)))
    assert len(await stores[0].runs()) == 4
    await asyncio.gather(*(store.close() for store in stores))
    async with await psycopg.AsyncConnection.connect(postgres_url) as raw:
        found = await raw.execute("SELECT schema_version, oldest_release FROM tenuto_meta")
        assert await found.fetchall() == [(1, 1)]


def test_a_store_that_was_closed_can_be_opened_again_on_another_loop(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)

    async def use(run_id: str) -> int:
        await store.open()
        await store.create(NewRun(run_id, "wf", ()))
        await store.changed(-1, 0)
        found = len(await store.runs())
        await store.close()
        return found

    assert [asyncio.run(use(run_id)) for run_id in ("a", "b")] == [1, 2]


async def test_a_schema_of_a_later_release_is_refused(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], postgres_url: str
) -> None:
    """R074."""
    await raw.execute("UPDATE tenuto_meta SET schema_version = 99, oldest_release = 98")
    with pytest.raises(StoreTooNewError):
        await PostgresStore(postgres_url).open()


async def test_the_sessions_durability_does_not_depend_on_the_servers_configuration(postgres_url: str) -> None:
    """P1."""
    database = Database(postgres_url + quote(" -csynchronous_commit=off"))
    connection = await database.connect()
    assert await value(connection, "SHOW synchronous_commit") == "on"
    await connection.close()


def test_a_url_that_is_none_says_so() -> None:
    with pytest.raises(ConfigError):
        store_of("postgresql://host/db?nonsense=1")


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "tenuto.store.postgres_connection")
    with pytest.raises(ConfigError, match="psycopg"):
        importlib.import_module("tenuto.store.postgres_connection")


# --- notifications


async def test_a_commit_of_another_process_is_heard_of_at_once(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "NET", 3600.0)
    mark = await store.changed(-1, 0)
    waiting = asyncio.create_task(store.changed(mark, 20))
    await other.create(NewRun("r", "wf", ()))
    assert await waiting > mark


async def test_a_commit_whose_notification_was_lost_is_found_by_the_net(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R064."""
    monkeypatch.setattr(postgres_listener, "NET", 0.05)
    await suspended(store)
    mark = await store.changed(-1, 0)
    waiting = asyncio.create_task(store.changed(mark, 20))
    await raw.execute("UPDATE executions SET priority = 1 WHERE id = 'r'")
    assert await waiting > mark


async def test_a_transaction_notifies_once_and_only_if_there_is_something_to_do(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    for run_id in ("a", "b"):
        await suspended(store, run_id)
    claim = await running(store)
    await raw.execute("LISTEN tenuto")

    async def heard() -> int:
        await raw.execute("NOTIFY tenuto, 'end'")
        count = 0
        async for notice in raw.notifies():
            if notice.payload == "end":
                break
            count += 1
        return count

    await store.commit(narrowed(Full(claim.lease, "running", rows((b"k", b"v")))))
    await store.fire_timers(10)
    await store.claim_runs("w", ["wf"], 5)
    assert await heard() == 0
    outgoing = tuple(Outgoing(run_id, signal(), run_id) for run_id in ("a", "b"))
    await store.commit(narrowed(Full(claim.lease, "completed", rows((b"k", b"v")), outgoing=outgoing)))
    assert await heard() == 1


async def test_the_listener_comes_back_after_its_connection_was_cut(
    store: PostgresStore, raw: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "NET", 0.05)
    await store.changed(-1, 0)
    query = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenuto' AND query LIKE '%%pg_current_snapshot%%'"
    )
    first = await until(raw, query)
    mark = await store.changed(-1, 0)
    await raw.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
    assert await store.changed(mark, 20) > mark
    assert await until(raw, query + " AND pid <> %s", (first,)) != first


# --- event loops


async def test_renewal_goes_on_while_the_loop_is_blocked(store: PostgresStore) -> None:
    renewed: list[bool] = []
    thread = threading.Thread(target=lambda: renewed.append(asyncio.run(store.heartbeat("w", LEASE))))
    thread.start()
    thread.join(20)  # blocks the loop that the store was opened on
    assert renewed == [True]


async def test_a_call_from_another_loop_is_carried_over(store: PostgresStore) -> None:
    await store.create(NewRun("r", "wf", ()))
    record = await asyncio.to_thread(lambda: asyncio.run(store.get("r")))
    assert record is not None
    assert record.id == "r"


# --- everything at once


class Crowd:
    """Runs that wait for tasks, signals, a timer and each other, on several stores at once (ST1 and ST3, small)."""

    RUNS, TASKS, SIGNALS = 12, 3, 2

    def __init__(self, stores: list[PostgresStore]) -> None:
        self.stores = stores
        self.expected = self.TASKS + self.SIGNALS + 1  # and one signal of the run before
        self.got: dict[str, list[int]] = {f"run{n:02}": [] for n in range(self.RUNS)}
        self.alarms: dict[str, int | None] = {}
        self.open = set(self.got)

    async def work(self, store: PostgresStore, worker: str) -> None:
        while self.open:
            claims = await store.claim_runs(worker, ["wf"], 4)
            await self._advance(store, worker, [claim for claim in claims if claim.epoch_before > 0])
            await self._begin(store, worker, [claim for claim in claims if claim.epoch_before == 0])

    async def _begin(self, store: PostgresStore, worker: str, claims: list[Claim]) -> None:
        now = await store.now()
        turns: list[Commit] = []
        for claim in claims:
            run_id = claim.record.id
            self.alarms[run_id] = now + 20
            neighbour = f"run{(int(run_id[3:]) + 1) % self.RUNS:02}"
            turns.append(
                narrowed(
                    Full(
                        claim.lease,
                        "suspended",
                        rows((b"begun", b"")),
                        alarm=now + 20,
                        timers=(NewTimer("nap", now + 20, "delay"),),
                        tasks=tuple(task(f"{run_id}-{n}") for n in range(self.TASKS)),
                        outgoing=(Outgoing(neighbour, signal(), f"from {run_id}"),),
                    )
                )
            )
        await self._left_running(store, worker, claims, turns)

    async def _advance(self, store: PostgresStore, worker: str, claims: list[Claim]) -> None:
        turns: list[Commit] = []
        for claim in claims:
            run_id = claim.record.id
            mail = await store.mail(run_id, 0)
            alarm = self.alarms[run_id]
            if alarm is not None and await store.now() >= alarm:
                alarm = self.alarms[run_id] = None
            numbers = [number for number, _ in mail]
            self.got[run_id].extend(numbers)
            ends = len(self.got[run_id]) == self.expected and alarm is None
            signals = tuple(mail_key(number) for number, one in mail if one.kind is MailKind.SIGNAL)
            turns.append(
                narrowed(
                    Full(
                        claim.lease,
                        "completed" if ends else "suspended",
                        EncodedBatch((), signals, ((b"seen", b""),)),
                        alarm=alarm,
                        seen=max(self.got[run_id], default=0),
                        mail_done=tuple(number for number, one in mail if one.kind is not MailKind.SIGNAL),
                    )
                )
            )
            if ends:
                self.open.discard(run_id)
        await self._left_running(store, worker, claims, turns)

    async def _left_running(self, store: PostgresStore, worker: str, claims: list[Claim], turns: list[Commit]) -> None:
        if not turns:
            return
        results = await store.commit_group(turns)
        assert {result.verdict for result in results} == {"committed"}
        kept = [claim for claim, result in zip(claims, results, strict=True) if result.kept]
        if kept:  # mail came meanwhile, and the lease is ours still
            await store.absorb(worker, [claim.record.id for claim in kept])
            await self._advance(store, worker, kept)

    async def complete(self, store: PostgresStore, worker: str) -> None:
        while self.open:
            for claimed in await store.claim_tasks(worker, ["step"], None, 3):
                assert await store.end_task(TaskEnd(claimed.id, claimed.epoch, b"out", None, 1))

    async def send(self, store: PostgresStore) -> None:
        for n in range(self.SIGNALS):
            for run_id in self.got:
                await store.send(run_id, signal(), f"signal {n}")

    async def fire(self, store: PostgresStore) -> None:
        while self.open:
            await store.fire_timers(10)


def task(task_id: str) -> EnqueueTask:
    return EnqueueTask(("pack",), task_id, "step", b"", "default", 0, 0, None, None, 3, 100.0, 30_000.0, None, None)


@pytest.mark.slow
async def test_no_wake_up_is_lost_and_no_message_read_twice_in_a_crowd(
    store: PostgresStore, other: PostgresStore, raw: psycopg.AsyncConnection[Any]
) -> None:
    crowd = Crowd([store, other])
    for run_id in crowd.got:
        await store.create(NewRun(run_id, "wf", ()))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for n, used in enumerate(crowd.stores):
            for m in range(2):
                group.create_task(crowd.work(used, f"w{n}{m}"))
                group.create_task(crowd.complete(used, f"c{n}{m}"))
            group.create_task(crowd.fire(used))
        group.create_task(crowd.send(store))
    assert crowd.got == {run_id: list(range(1, crowd.expected + 1)) for run_id in crowd.got}
    assert {record.status for record in await store.runs()} == {"completed"}
    assert await value(raw, "SELECT count(*) FROM executions WHERE target_name = 'builtin.resume_workflow'") == 0
    assert await value(raw, "SELECT count(*) FROM timer_tasks") == 0
