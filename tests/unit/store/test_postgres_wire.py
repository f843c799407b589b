"""What can happen to a statement that is sent without the driver's cursor."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("psycopg") is None and os.environ.get("TENUTO_REQUIRE") != "all":
    pytest.skip("the Postgres store needs psycopg, which is not installed", allow_module_level=True)

import psycopg
from psycopg import errors

from tenuto.store.postgres import PostgresStore
from tenuto.store.postgres_arrays import Blobs, Integers, Texts
from tenuto.store.postgres_connection import Database
from tenuto.store.postgres_wire import Wire, dollars

LARGE = 40_000_000  # more than a socket takes at once


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    opened = Database(postgres_url, connections=1)
    yield opened
    await opened.close()


@pytest.fixture
async def migrated(database: Database) -> Database:
    store = PostgresStore(database.url)
    await store.open()
    await store.close()
    return database


@pytest.fixture
async def wire(database: Database) -> AsyncIterator[Wire]:
    opened = Wire(await database.connect())
    yield opened
    opened.rest()
    await opened.connection.close()


# --- statements and values


def test_a_name_that_stands_twice_is_one_parameter() -> None:
    statement = dollars("SELECT %(b)s::text, %(a)s % 2, '100%%' LIKE %(b)s")
    assert statement.text == b"SELECT $1::text, $2 % 2, '100%' LIKE $1"
    assert statement.names == ("b", "a")


@pytest.mark.parametrize(
    ("cast", "given", "found"),
    [
        ("text", "é", "é"),
        ("text", None, None),
        ("bytea", b"\0\xff", b"\0\xff"),
        ("bigint", -(2**63), -(2**63)),
        ("smallint", 3, 3),
        ("boolean", True, True),
        ("float8", 0.1, 0.1),
        ("jsonb", '{"a": [1]}', {"a": [1]}),
        ("text[]", ["a", None], ["a", None]),
        ("text[]", [], []),
        ("bigint[]", [1, None], [1, None]),
        ("bytea[]", [b"\0"], [b"\0"]),
        ("text[]", Texts(["a", None]), ["a", None]),
        ("bytea[]", Blobs([]), []),
        ("bigint[]", Integers([2**62]), [2**62]),
    ],
)
async def test_values_arrive_and_come_back_as_the_driver_has_them(
    wire: Wire, cast: str, given: Any, found: Any
) -> None:
    text: Any = f"SELECT %(given)s::{cast}"
    for _ in range(2):  # prepared first, and then known
        assert await wire.execute(text, {"given": given, "left out": 1}) == [(found,)]
    wire.rest()
    cursor = wire.connection.cursor(binary=True)
    await cursor.execute(text, {"given": given})
    assert await cursor.fetchall() == [(found,)]


async def test_a_value_larger_than_the_socket_takes_goes_there_and_back(wire: Wire) -> None:
    large = os.urandom(1000) * (LARGE // 1000)
    assert await wire.execute("SELECT %(data)s::bytea", {"data": large}) == [(large,)]


async def test_a_statement_without_rows_has_none_and_a_notice_is_no_answer(wire: Wire) -> None:
    assert await wire.execute("DO $$ BEGIN RAISE NOTICE 'look'; END $$") == []
    assert await wire.execute("SELECT 1 WHERE false") == []


# --- what the server refuses


async def test_an_error_has_the_drivers_class_and_the_next_statement_works(wire: Wire) -> None:
    with pytest.raises(errors.DivisionByZero, match="division by zero"):
        await wire.execute("SELECT 1 / %(n)s", {"n": 0})
    with pytest.raises(errors.UndefinedTable):
        await wire.execute("SELECT 1 FROM nowhere")
    with pytest.raises(psycopg.DataError, match="NUL"):
        await wire.execute("SELECT %(text)s::text", {"text": "a\0b"})
    assert await wire.execute("SELECT 1 / %(n)s", {"n": 1}) == [(1,)]


async def test_a_commit_that_fails_after_the_rows_were_sent_is_an_error(wire: Wire) -> None:
    await wire.execute("CREATE TEMPORARY TABLE numbers (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    assert await wire.execute("INSERT INTO numbers VALUES (1) RETURNING n") == [(1,)]
    with pytest.raises(errors.UniqueViolation):
        await wire.execute("INSERT INTO numbers VALUES (1) RETURNING n")
    assert await wire.execute("SELECT n FROM numbers") == [(1,)]


@pytest.mark.parametrize("gone", ["DEALLOCATE ALL", "DISCARD ALL"])
async def test_statements_that_the_server_forgot_are_prepared_again(wire: Wire, gone: Any) -> None:
    for _ in range(2):
        assert await wire.execute("SELECT 1") == [(1,)]
        assert await wire.execute("SELECT 2") == [(2,)]
        wire.rest()
        await wire.connection.execute(gone)


async def test_a_statement_whose_table_got_another_column_is_prepared_again(wire: Wire) -> None:
    await wire.execute("CREATE TEMPORARY TABLE things AS SELECT 1 AS a")
    assert await wire.execute("SELECT * FROM things") == [(1,)]
    await wire.execute("ALTER TABLE things ADD COLUMN b text DEFAULT 'x'")
    assert await wire.execute("SELECT * FROM things") == [(1, "x")]


# --- together with the driver


async def test_the_driver_and_the_wire_use_a_connection_in_turns(migrated: Database) -> None:
    async def work(transaction: Any) -> Any:
        return await transaction.one("read_settings")

    for _ in range(3):
        assert [await migrated.transact(work)] == await migrated.read("read_settings")


async def test_statements_are_found_again_after_a_transaction_was_rolled_back(migrated: Database) -> None:
    async def fail(transaction: Any) -> None:
        await transaction.run("read_settings")
        raise KeyError

    before = await migrated.read("read_settings")
    with pytest.raises(KeyError):
        await migrated.transact(fail)
    assert await migrated.read("read_settings") == before


# --- connections that break, callers that leave


async def test_a_connection_lost_while_sending_leaves_the_event_loop_in_order(database: Database, wire: Wire) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    values = {"data": b"small"}
    await wire.execute("SELECT %(data)s::bytea", values)
    values["data"] = b"x" * LARGE
    sending = asyncio.create_task(wire.execute("SELECT %(data)s::bytea", values))
    await asyncio.sleep(0)  # it has sent what the socket takes
    number = wire.connection.pgconn.socket
    with socket.socket(fileno=os.dup(number)) as same:
        same.shutdown(socket.SHUT_RDWR)
    with pytest.raises(psycopg.OperationalError):
        await sending
    assert wire.connection.broken
    assert complaints == []
    assert await database.read("read_settings")  # on a connection whose socket has the same number, or another


async def test_a_caller_that_leaves_costs_nothing_but_its_own_statement(wire: Wire) -> None:
    await wire.execute("SELECT pg_sleep(%(seconds)s)", {"seconds": 0.0})
    leaving = asyncio.create_task(wire.execute("SELECT pg_sleep(%(seconds)s)", {"seconds": 60.0}))
    await asyncio.sleep(0)  # it has begun
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await wire.execute("SELECT 1") == [(1,)]


async def test_a_connection_whose_statement_cannot_be_cancelled_is_not_used_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(self: Any, *, timeout: float) -> None:
        raise psycopg.OperationalError("no")

    monkeypatch.setattr(psycopg.AsyncConnection, "cancel_safe", cannot)
    before = await database.read("read_settings")
    leaving = asyncio.create_task(database.read("read_settings"))
    await asyncio.sleep(0)  # it has begun
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await database.read("read_settings") == before


async def test_an_idle_connection_that_ends_does_not_keep_the_event_loop_busy(
    wire: Wire, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, left = asyncio.get_running_loop(), asyncio.Event()

    def leave(number: int) -> bool:
        if number == watched:
            left.set()
        return False

    ((pid,),) = await wire.execute("SELECT pg_backend_pid()")
    watched = wire.connection.pgconn.socket
    monkeypatch.setattr(loop, "remove_writer", leave)  # the last thing that is done
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    async with asyncio.timeout(20):
        await left.wait()
    assert not loop.remove_reader(watched)
