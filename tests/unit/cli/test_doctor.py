"""`tenuto doctor` says what is wrong with a store, and what could be better."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from click.testing import Result

from tenuto.cli import doctor
from tenuto.store.port import NewRun
from tenuto.store.sqlite import SqliteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"

    async def make() -> None:
        store = SqliteStore(path, sync="normal")
        await store.open()
        await store.create(NewRun("r", "wf", tuple((b"\x15" + bytes([n]), b"x" * 4_000) for n in range(200))))
        await store.delete(["r"])
        await store.close()

    asyncio.run(make())
    return path


def test_a_schema_of_another_state_of_this_version_is_said_to_be_wrong(
    tenuto: Callable[..., Result], file: Path
) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("DROP INDEX executions_ready")
    connection.close()
    done = tenuto("doctor", "--url", f"sqlite:///{file}")
    assert done.exit_code == 1
    assert "made by another state of version 1" in done.output
    assert "all is well" not in done.output


def test_a_file_that_is_mostly_unused_is_said_to_be_worth_a_vacuum(
    tenuto: Callable[..., Result], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "VACUUM" not in tenuto("doctor", "--url", f"sqlite:///{file}").output
    monkeypatch.setattr(doctor, "MUCH_UNUSED", 100_000)
    done = tenuto("doctor", "--url", f"sqlite:///{file}")
    assert done.exit_code == 0
    assert "VACUUM it while no worker runs" in done.output
