"""Stores that several apps can open one after another, and a hand that edits what is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def edit(lasting_url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Runs one statement behind the engine's back; parameters are written `?`."""

    def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
        if lasting_url.startswith("sqlite"):
            import apsw

            database: Any = apsw.Connection(lasting_url.removeprefix("sqlite:///"))
            database.set_busy_timeout(5_000)
            try:
                return list(database.execute(statement, values))
            finally:
                database.close()
        import psycopg

        with psycopg.connect(lasting_url, autocommit=True) as connection:
            found = connection.execute(statement.replace("?", "%s"), values)  # type: ignore[arg-type]
            return list(found) if found.description is not None else []

    return run
