"""Encryption at rest: nothing of a user's values shows in a table or a log, and moved values are refused."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tenuto import (
    Compression,
    Encryption,
    Reject,
    Reply,
    RetryableError,
    Stop,
    Task,
    Tenuto,
    Update,
    heartbeat,
    publish_state,
    receive,
    spawn,
    step,
    step_info,
    wait_for_signal,
    workflow,
)
from tenuto.errors import ChildFailedError, DecodingError, RunFailedError, UpdateRejectedError
from tenuto.store.port import Store
from tenuto.store.sealed import PASSED, SealedStore

LIMIT = "20s"
MARKER = "canary-7f3a91"
KEYS = {"old": b"o" * 32, "new": b"n" * 32}


@step
async def echo(text: str) -> str:
    return f"{text}!"


@step(backoff="10ms")
async def flaky(text: str) -> str:
    heartbeat(text)
    if step_info().attempt < 2:
        raise RetryableError(f"not yet: {text}", after=0.01)
    return text


@step(max_attempts=1)
async def refuse(text: str) -> None:
    raise ValueError(text)


@step(queue="jobs")
async def job(text: str) -> str:
    return text


@step(queue="jobs", max_attempts=1)
async def bad_job(text: str) -> str:
    raise ValueError(text)


@workflow
async def failing(text: str) -> None:
    await refuse(text)


@workflow
async def waiting(text: str) -> str:
    return f"{text} {await wait_for_signal('go')}"


def _check(_: list[str], item: str) -> None:
    if item.startswith("no"):
        raise Reject(item)


def _add(items: list[str], item: str) -> Reply[list[str]]:
    return Reply(item, [*items, item])


def _stop(items: list[str], item: str) -> Stop[list[str]]:
    return Stop([*items, item], reply=item)


@workflow
async def everything(text: str) -> list[Any]:
    publish_state({"secret": text})
    found: list[Any] = [await echo(text), await flaky(text), await job(text)]
    try:
        await bad_job(text)
    except Exception as error:  # noqa: BLE001  # whatever a user's code catches
        found.append(type(error).__name__)
    try:
        await (await spawn(failing, text))
    except ChildFailedError as error:
        found.append(str(error.__cause__.__cause__) if error.__cause__ else "")
    found.append(await wait_for_signal("go"))
    items, _ = await receive([text], updates={"add": Update(_add, _check), "stop": _stop})
    return [*found, *items]


@workflow
async def following(run_id: str, text: str, fails: bool) -> str:
    try:
        if fails:
            await (await spawn(failing, text, id=run_id, if_exists="attach"))
            return ""
        return str(await (await spawn(waiting, text, id=run_id, if_exists="attach")))
    except ChildFailedError as error:
        return f"failed: {error.__cause__.__cause__ if error.__cause__ is not None else None}"


@workflow
async def sharing(text: str) -> str:
    return str(await Task.run(job, text, key="shared", delay="200ms"))


async def use_everything(app: Tenuto) -> None:
    """Puts the marker everywhere a value can be, and finds it everywhere a value can be read."""
    run = await app.start(everything, MARKER, id="all")
    await run.signal("go", MARKER, id="once")
    assert await run.update("add", MARKER, timeout=LIMIT, retry_for=LIMIT) == MARKER
    with pytest.raises(UpdateRejectedError) as rejected:
        await run.update("add", f"no {MARKER}", timeout=LIMIT)
    assert rejected.value.reason == f"no {MARKER}"
    assert await run.query() == {"secret": MARKER}
    await run.update("stop", MARKER, timeout=LIMIT)
    result = await run.result(timeout=LIMIT)
    assert result == [f"{MARKER}!", MARKER, MARKER, "StepExhaustedError", MARKER, MARKER, MARKER, MARKER, MARKER]
    failed = await app.start(failing, MARKER, id="failed")
    with pytest.raises(RunFailedError):
        await failed.result(timeout=LIMIT)
    watched = await app.start(waiting, MARKER, id="watched")
    followers = [
        await app.start(following, "watched", MARKER, False),
        await app.start(following, "failed", MARKER, True),
    ]
    late = await app.start(waiting, MARKER, id="late")
    followers.append(await app.start(following, "late", MARKER, False))
    await watched.signal("go", MARKER)
    assert await followers[0].result(timeout=LIMIT) == f"{MARKER} {MARKER}"
    assert await followers[1].result(timeout=LIMIT) == f"failed: {MARKER}"
    await late.terminate()
    shared = [await app.start(sharing, MARKER) for _ in range(2)]
    assert [await one.result(timeout=LIMIT) for one in shared] == [MARKER, MARKER]
    alone = await app.enqueue(job, MARKER)
    assert await alone.result(timeout=LIMIT) == MARKER
    await app.schedule("marked", waiting.bind(MARKER), every="1h")
    assert len([schedule async for schedule in app.schedules()]) == 1
    assert any(entry.value == f"{MARKER}!" for entry in await run.history())


def occurrences(data: bytes) -> int:
    """How often the marker shows in bytes, as it is or in hexadecimal."""
    return data.count(MARKER.encode()) + data.count(MARKER.encode().hex().encode())


def sqlite_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize("codec", [None, Encryption(KEYS)], ids=["plain", "encrypted"])
async def test_a_marker_shows_nowhere_in_a_file_or_its_log(
    codec: Encryption | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tenuto")
    path = tmp_path / "app.db"
    async with Tenuto(f"sqlite:///{path}", grace=1, codec=codec) as app:
        await use_everything(app)
        found = occurrences(sqlite_bytes(path))  # with the write-ahead log, before it is folded in
    found += occurrences(sqlite_bytes(path))
    assert (found > 0) == (codec is None)  # without a codec it does show: the test would notice
    if codec is not None:
        assert occurrences(caplog.text.encode()) == 0


async def test_a_marker_shows_in_no_table_and_no_log_of_postgres(
    postgres_url: str, postgres_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    import psycopg

    caplog.set_level(logging.DEBUG, "tenuto")
    async with Tenuto(postgres_url, grace=1, codec=Encryption(KEYS)) as app:
        await use_everything(app)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            names = [
                name
                for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            ]
            assert "executions" in names
            for name in names:
                rows = connection.execute(f"SELECT t::text FROM {name} t").fetchall()  # noqa: S608
                assert occurrences(repr(rows).encode()) == 0, name
            connection.execute("CHECKPOINT")
    for file in (Path(postgres_server.pgdata) / "pg_wal").glob("0*"):
        assert occurrences(file.read_bytes()) == 0, file.name
    assert occurrences(caplog.text.encode()) == 0


async def test_everything_works_with_compression_alone(tmp_path: Path) -> None:
    async with Tenuto(f"sqlite:///{tmp_path / 'app.db'}", grace=1, codec=Compression(from_bytes=1)) as app:
        await use_everything(app)


# --- values that were touched


async def wait_for(app: Tenuto, run_id: str, status: str) -> None:
    async def reached() -> bool:
        return await app.get(run_id).status() == status

    await app.wait_until(reached, LIMIT)


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file with two runs that wait."""
    path = tmp_path / "app.db"
    async with Tenuto(f"sqlite:///{path}", grace=1, codec=Encryption(KEYS)) as app:
        for run_id in ("a", "b"):
            await app.start(waiting, f"{MARKER} {run_id}", id=run_id)
            await wait_for(app, run_id, "suspended")
    return path


def tamper(path: Path, *statements: str) -> None:
    import apsw

    database: Any = apsw.Connection(str(path))
    database.set_busy_timeout(5_000)
    for statement in statements:
        database.execute(statement)
    database.close()


async def test_a_value_moved_to_another_run_parks_that_run_and_no_other(file: Path) -> None:
    tamper(
        file,
        "UPDATE workflow_execution_context SET value = (SELECT value FROM workflow_execution_context"
        " WHERE workflow_id = 'b' AND key = x'15041505') WHERE workflow_id = 'a' AND key = x'15041505'",
    )
    async with Tenuto(f"sqlite:///{file}", grace=1, codec=Encryption(KEYS)) as app:
        for run_id in ("a", "b"):
            await app.get(run_id).signal("go", 1)
        assert await app.get("b").result(timeout=LIMIT) == f"{MARKER} b 1"
        await wait_for(app, "a", "parked")
        (summary,) = [run async for run in app.runs() if run.id == "a"]
        assert summary.reason is not None
        assert "moved from another place" in summary.reason
        assert MARKER not in summary.reason
        with pytest.raises(DecodingError):
            await app.get("a").history()


async def test_a_value_replaced_by_a_plain_one_is_refused(file: Path) -> None:
    plain = "UPDATE workflow_execution_context SET value = x'82818060' WHERE workflow_id = 'a' AND key = x'15041505'"
    tamper(file, plain)
    async with Tenuto(f"sqlite:///{file}", grace=1, codec=Encryption(KEYS)) as app:
        await app.get("a").signal("go", 1)
        await wait_for(app, "a", "parked")


async def test_mail_moved_to_another_run_is_refused(file: Path) -> None:
    async with Tenuto(f"sqlite:///{file}", worker=False, codec=Encryption(KEYS)) as client:
        await client.get("b").signal("go", "for b")
    tamper(
        file,
        "UPDATE executions SET inbox_seq = 1 WHERE id = 'a'",
        "UPDATE workflow_execution_context SET workflow_id = 'a'"
        " WHERE workflow_id = 'b' AND substr(key, 1, 2) = x'1503'",
    )
    async with Tenuto(f"sqlite:///{file}", grace=1, codec=Encryption(KEYS)) as app:
        await app.get("a").wake()
        await wait_for(app, "a", "parked")


async def test_runs_go_on_after_a_rotation_and_park_without_their_key(file: Path) -> None:
    url = f"sqlite:///{file}"
    async with Tenuto(url, grace=1, codec=Encryption({"other": b"x" * 32})) as app:
        await app.store.wake("a")
        await wait_for(app, "a", "parked")
    rotated = Encryption({**KEYS, "newest": b"z" * 32})
    async with Tenuto(url, grace=1, codec=rotated) as app:
        await app.get("a").resume()
        for run_id in ("a", "b"):
            await app.get(run_id).signal("go", 2)
            assert await app.get(run_id).result(timeout=LIMIT) == f"{MARKER} {run_id} 2"


async def test_a_store_from_before_is_read_where_that_is_asked_and_written_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with Tenuto(f"sqlite:///{path}", grace=1) as app:
        run = await app.start(waiting, "before", id="old")
        await wait_for(app, "old", "suspended")
    async with Tenuto(f"sqlite:///{path}", grace=1, codec=Encryption(KEYS, accept_plain=True)) as app:
        run = app.get("old")
        await run.signal("go", MARKER)
        assert await run.result(timeout=LIMIT) == f"before {MARKER}"
    assert occurrences(sqlite_bytes(path)) == 0


def test_every_method_of_a_store_is_either_passed_or_written_out() -> None:
    """A new method of the port that carries values cannot get past the codec unnoticed."""
    port = {name for base in Store.__mro__ for name in vars(base) if not name.startswith("_")}
    written = {name for name in vars(SealedStore) if not name.startswith("_")}
    assert port - PASSED - written == set()
    assert PASSED & written == set()


async def test_a_sealed_store_has_nothing_that_was_not_thought_of() -> None:
    async with Tenuto("memory://", worker=False, codec=Encryption(KEYS)) as app:
        with pytest.raises(AttributeError):
            app.store.finish  # type: ignore[attr-defined]
