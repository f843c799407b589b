"""What those see who only look: open tasks, live workers, the schema; and that looking changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenuto.errors import StoreRefusedError, StoreUnavailableError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.port import TaskEnd
from tenuto.store.urls import store_of

LEASE = 30_000


async def test_the_open_tasks_of_a_run_are_listed_with_their_queue_and_worker(world: Any, store: Any) -> None:
    """R073"""
    await world.worker()
    await world.suspended(tasks=(world.task("t-1", queue="gpu"), world.task("t-2", location=("other",), delay_ms=500)))
    assert await store.open_tasks("nobody") == []
    first, second = await store.open_tasks("r")
    assert (first.id, first.target, first.queue, first.status) == ("t-1", "step", "gpu", "pending")
    assert (first.location, first.attempt, first.max_attempts, first.worker) == ("pack", 0, 3, None)
    assert (second.location, second.status, second.ready_at) == ("other", "scheduled", world.clock.ms + 500)
    (claimed,) = await store.claim_tasks("w", ["step"], ["gpu"], 5)
    (running, _) = await store.open_tasks("r")
    assert (running.status, running.attempt, running.worker) == ("running", 1, "w")
    await store.end_task(TaskEnd("t-1", claimed.epoch, b"\xf6", None, 1))
    assert [task.id for task in await store.open_tasks("r")] == ["t-2"]


async def test_a_worker_is_alive_until_its_lease_is_over(world: Any, store: Any) -> None:
    await store.register("w-all", LEASE, "c", {}, None)
    world.clock.ms += 1
    await store.register("w-some", LEASE * 2, "c", {}, ["gpu", "mail"])
    assert [(worker.id, worker.queues) for worker in await store.live_workers()] == [
        ("w-all", None),
        ("w-some", ("gpu", "mail")),
    ]
    world.clock.ms += LEASE + 1
    assert [worker.id for worker in await store.live_workers()] == ["w-some"]
    await store.deregister("w-some")
    assert await store.live_workers() == []


async def test_a_store_that_was_opened_to_be_written_has_the_schema_of_this_release(store: Any) -> None:
    version, known = await store.schema()
    assert version == known


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_store_opened_for_reading_reads_and_writes_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    unmade = store_of(url, read_only=True)
    with pytest.raises((StoreUnavailableError, StoreRefusedError)):  # it is not made by looking for it
        await unmade.open()
    assert not (tmp_path / "x.db").exists()
    writing = store_of(url)
    await writing.open()
    await writing.register("w", LEASE, "c", {}, None)
    reading = store_of(url, read_only=True)
    await reading.open()
    try:
        assert [worker.id for worker in await reading.live_workers()] == ["w"]
        version, known = await reading.schema()
        assert version == known
        with pytest.raises(StoreUnavailableError):
            await reading.register("w2", LEASE, "c", {}, None)
        with pytest.raises(StoreUnavailableError):
            await reading.send("r", Mail(MailKind.SIGNAL, "s", None, b"", None, 0, 0))
        assert [worker.id for worker in await writing.live_workers()] == ["w"]
        mark = await reading.changed(-1, 0)
        await writing.register("w3", LEASE, "c", {}, None)
        assert await reading.changed(mark, 10) > mark  # and it hears of what others write
    finally:
        await reading.close()
        await writing.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_database_that_is_no_store_is_refused_by_those_who_only_look(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        import apsw

        apsw.Connection(str(tmp_path / "x.db")).execute("CREATE TABLE other (x)")
        url = f"sqlite:///{tmp_path / 'x.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    with pytest.raises(StoreRefusedError, match="TN303"):
        await store_of(url, read_only=True).open()
