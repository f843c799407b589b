"""What a session must be and keep: its own, with our names and our clock, whoever else may create in the database."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, LiteralString
from urllib.parse import quote

import pytest

if find_spec("psycopg") is None and os.environ.get("TENUTO_REQUIRE") != "all":
    pytest.skip("the Postgres store needs psycopg, which is not installed", allow_module_level=True)

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenuto import Tenuto, step, workflow
from tenuto.errors import StoreRefusedError
from tenuto.store.port import NewRun
from tenuto.store.postgres import PostgresStore
from tenuto.store.postgres_connection import Database
from tenuto.store.postgres_wire import Wire

SSL, GSS, CANCEL = 80877103, 80877104, 80877102


class Session:
    """A session of the server, which a pooler gives to one client after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


class Pooler:
    """As little of a pooler as shows what pooling does: sessions of the server, given out in one of two orders."""

    def __init__(self, socket: str, mode: str, last_first: bool, sessions: int) -> None:
        self._socket = socket
        self._mode = mode
        self._last_first = last_first
        self._count = sessions
        self._idle: list[Session] = []
        self._made: list[Session] = []
        self._greeting = b""
        self._freed = asyncio.Condition()
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for session in self._made:
            session.writer.close()
            with suppress(OSError):
                await session.writer.wait_closed()

    async def _connect(self, startup: bytes) -> Session:
        session = Session(*await asyncio.open_unix_connection(self._socket))
        self._made.append(session)
        session.writer.write(startup)
        greeting = b""
        while not greeting.endswith(b"Z\0\0\0\5I"):
            greeting += await _message(session.reader)
        self._greeting = greeting
        return session

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await self._client(reader, writer)
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length = await reader.readexactly(4)
            startup = length + await reader.readexactly(struct.unpack("!i", length)[0] - 4)
            code = struct.unpack("!i", startup[4:8])[0]
            if code == CANCEL:
                return
            if code not in (SSL, GSS):
                break
            writer.write(b"N")
        async with self._freed:
            own = await self._connect(startup) if self._mode == "session" else None
            while own is None and self._count:
                self._idle.append(await self._connect(startup))
                self._count -= 1
        writer.write(self._greeting)
        while True:
            first = await _message(reader)
            if first[:1] == b"X":
                return
            session = own or await self._take()
            try:
                await self._transaction(session, first, reader, writer)
            finally:
                if own is None:
                    async with self._freed:
                        self._idle.append(session)
                        self._freed.notify_all()

    async def _take(self) -> Session:
        async with self._freed:
            await self._freed.wait_for(lambda: self._idle)
            return self._idle.pop(-1 if self._last_first else 0)

    async def _transaction(
        self, session: Session, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until the session is idle again."""
        while True:
            session.writer.write(message)
            if message[:1] in b"QS":
                while True:
                    answer = await _message(session.reader)
                    writer.write(answer)
                    if answer[:1] == b"Z":
                        break
                if answer[5:] == b"I":
                    return
            message = await _message(reader)


@pytest.fixture
async def pooled(postgres_url: str) -> AsyncIterator[Callable[..., Any]]:
    """The URL of a pooler in front of the test's database."""
    poolers: list[Pooler] = []
    place = conninfo_to_dict(postgres_url)

    async def start(mode: str, *, last_first: bool = True, sessions: int = 2) -> str:
        pooler = Pooler(f"{place['host']}/.s.PGSQL.5432", mode, last_first, sessions)
        poolers.append(pooler)
        port = await pooler.start()
        options = quote(str(place["options"]))
        return f"postgresql://{place['user']}@127.0.0.1:{port}/{place['dbname']}?options={options}&sslmode=disable"

    yield start
    for pooler in poolers:
        await pooler.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("last_first", "sessions"), [(True, 1), (True, 2), (False, 2), (False, 3), (False, 4)])
async def test_a_pooler_that_pools_transactions_is_refused(
    pooled: Callable[..., Any], postgres_url: str, last_first: bool, sessions: int, read_only: bool
) -> None:
    """However it gives its sessions out."""
    made = PostgresStore(postgres_url)
    await made.open()
    await made.close()
    url = await pooled("transaction", last_first=last_first, sessions=sessions)
    with pytest.raises(StoreRefusedError, match="does not keep a session"):
        await PostgresStore(url, read_only=read_only).open()


async def test_a_pooler_that_pools_sessions_is_taken_for_the_server(pooled: Callable[..., Any]) -> None:
    store = PostgresStore(await pooled("session"))
    await store.open()
    assert await store.create(NewRun("r", "wf", ()))
    await store.close()


# --- prepared statements


async def test_a_prepared_statement_is_named_after_its_text(postgres_url: str) -> None:
    """So that no name means another statement, whoever shares the session."""
    names: list[dict[str, bytes]] = []
    database = Database(postgres_url)
    texts: tuple[tuple[LiteralString, ...], ...] = (("SELECT 1", "SELECT 2"), ("SELECT 2", "SELECT 1"))
    for statements in texts:
        wire = Wire(await database.connect())
        for statement in statements:
            await wire.execute(statement)
        found = await wire.execute("SELECT name, statement FROM pg_prepared_statements WHERE name LIKE 'tenuto_%%'")
        names.append({text: name for name, text in found if text.startswith("SELECT ") and len(text) == 8})
        wire.rest()
        await wire.connection.close()
    assert names[0] == names[1]
    assert len(set(names[0].values())) == 2


async def test_a_statement_that_was_forgotten_is_prepared_under_a_name_the_server_does_not_know(
    postgres_url: str,
) -> None:
    database = Database(postgres_url)
    wire = Wire(await database.connect())
    for _ in range(3):
        assert await wire.execute("SELECT 1") == [(1,)]
        wire.forget()
    wire.rest()
    await wire.connection.close()


# --- names and the clock


@pytest.fixture
async def admin(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        yield connection


async def test_what_others_make_in_an_earlier_schema_does_not_stand_in_for_ours(
    postgres_url: str, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Names are looked for where our tables are, whatever the URL, the role or the database says of the search_path."""
    (own,) = await (await admin.execute("SELECT current_schema()")).fetchone() or ("",)
    await admin.execute(f"CREATE SCHEMA {own}_early".encode())
    try:
        place = conninfo_to_dict(postgres_url)
        both = make_conninfo("", **{**place, "options": f"-csearch_path={own}_early,{own}"})
        first = PostgresStore(postgres_url)
        await first.open()
        await first.close()
        store = PostgresStore(both)
        await store.open()
        await admin.execute(
            f"CREATE FUNCTION {own}_early.tenuto_now() RETURNS timestamptz LANGUAGE sql"
            " AS $$ SELECT timestamptz '2001-01-01' $$".encode()
        )
        await admin.execute(f"CREATE TABLE {own}_early.executions (id text)".encode())
        assert await store.create(NewRun("r", "wf", ()))
        record = await store.get("r")
        assert record is not None
        assert record.created_at > 1_600_000_000_000
        assert await store.heartbeat("nobody", 1_000) is False
        await store.close()
    finally:
        await admin.execute(f"DROP SCHEMA {own}_early CASCADE".encode())


async def test_the_clock_of_tests_cannot_be_set_by_a_url(postgres_url: str) -> None:
    place = conninfo_to_dict(postgres_url)
    options = f"{place['options']} -ctenuto.fake_now=2001-01-01"
    store = PostgresStore(make_conninfo("", **{**place, "options": options}))
    await store.open()
    assert await store.create(NewRun("r", "wf", ()))
    record = await store.get("r")
    assert record is not None
    assert record.created_at > 1_600_000_000_000
    await store.close()


async def test_a_search_path_without_a_schema_is_refused(postgres_url: str) -> None:
    place = conninfo_to_dict(postgres_url)
    with pytest.raises(StoreRefusedError, match="no schema of the search_path is there"):
        await PostgresStore(make_conninfo("", **{**place, "options": "-csearch_path=nowhere"})).open()


async def test_a_role_that_may_only_read_and_write_rows_can_work(
    postgres_url: str, admin: psycopg.AsyncConnection[Any]
) -> None:
    """As docs/howto/postgres.md says: the owner migrates, workers have a role of their own."""
    owner = PostgresStore(postgres_url)
    await owner.open()
    await owner.close()
    (own,) = await (await admin.execute("SELECT current_schema()")).fetchone() or ("",)
    role = f"{own}_work"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {own} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {own} TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {own} TO {role}",
    ):
        await admin.execute(statement.encode())
    try:
        async with Tenuto(make_conninfo_url(postgres_url, role), grace=1) as app:
            assert await (await app.start(doubled, 4)).result(timeout="30s") == 8
        store = PostgresStore(make_conninfo_url(postgres_url, role))
        await store.open()
        await store.update_statistics()
        await store.close()
    finally:
        await admin.execute(f"DROP OWNED BY {role}".encode())
        await admin.execute(f"DROP ROLE {role}".encode())


def make_conninfo_url(url: str, user: str) -> str:
    """The same database for another user."""
    place = conninfo_to_dict(url)
    host, options = quote(str(place["host"]), safe=""), quote(str(place["options"]))
    return f"postgresql://{user}@/{place['dbname']}?host={host}&options={options}"


@step(name="role-twice", queue="role")
async def twice(n: int) -> int:
    return 2 * n


@workflow(name="role-doubled")
async def doubled(n: int) -> int:
    return await twice(n)
