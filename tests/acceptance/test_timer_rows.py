"""Timer rows that somebody deleted by hand count as fired; nothing else fires early."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenuto import FatalError, Tenuto, sleep, step, wait_for_signal, workflow
from tenuto.errors import RunFailedError
from tenuto.store.memory import MemoryStore
from tenuto.store.sqlite import SqliteStore

LIMIT = "20s"
BROKEN = [True]


@workflow
async def long_sleeper() -> str:
    await sleep("10 days")
    return "woke"


@workflow
async def two_naps() -> list[str]:
    async def nap(name: str, length: str) -> str:
        await sleep(length)
        return name

    return list(await asyncio.gather(nap("long", "10 days"), nap("short", "200ms")))


@workflow
async def patient_sleeper() -> str:
    while True:
        try:
            return str(await wait_for_signal("go", timeout="10 days"))
        except TimeoutError:
            return "nobody came"


@step(max_attempts=1)
async def break_once() -> None:
    if BROKEN[0]:
        raise FatalError("broken")


@workflow
async def sleeping_while_broken() -> str:
    async def nap() -> str:
        await sleep("10 days")
        return "woke"

    _, answer = await asyncio.gather(break_once(), nap())
    return answer


async def delete_timers(app: Tenuto, url: str, run_id: str) -> int:
    """Deletes a run's timer rows behind the engine's back; how many."""
    store: Any = getattr(app.store, "_store", app.store)  # behind what widens its commits, if that is asked for
    if isinstance(store, MemoryStore):
        timers = store._shelf.runs[run_id].timers
        count = len(timers)
        timers.clear()
        return count
    if isinstance(store, SqliteStore):
        import apsw

        database: Any = apsw.Connection(str(Path(store.path)))
        database.set_busy_timeout(5_000)
        database.execute("DELETE FROM timer_tasks WHERE workflow_id = ?", (run_id,))
        count = int(database.changes())
        database.close()
        return count
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        deleted = connection.execute("DELETE FROM timer_tasks WHERE workflow_id = %s", (run_id,))
        return deleted.rowcount


async def is_suspended(app: Tenuto, run_id: str) -> bool:
    return await app.get(run_id).status() == "suspended"


async def test_a_sleep_whose_timer_was_deleted_ends_when_the_run_is_woken(app: Tenuto, url: str) -> None:
    """R027, `wake()`."""
    run = await app.start(long_sleeper)
    await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
    assert await delete_timers(app, url, run.id) == 1
    await run.wake()
    assert await run.result(timeout=LIMIT) == "woke"


async def test_a_sleep_whose_timer_was_deleted_ends_after_the_sweep(url: str) -> None:
    """R027, sweep: nobody wakes it."""
    async with Tenuto(url, grace=1, lease="600ms") as app:
        run = await app.start(long_sleeper)
        await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
        assert await delete_timers(app, url, run.id) == 1
        assert await run.result(timeout=LIMIT) == "woke"


async def test_a_wait_whose_timer_was_deleted_times_out_and_no_signal_is_lost(app: Tenuto, url: str) -> None:
    """R027."""
    run = await app.start(patient_sleeper)
    await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
    await delete_timers(app, url, run.id)
    await run.wake()
    assert await run.result(timeout=LIMIT) == "nobody came"


async def test_a_wake_up_with_all_timers_there_ends_no_sleep(app: Tenuto) -> None:
    """R060: the other sleep fires, wakes the run, and the long one goes on."""
    run = await app.start(two_naps)

    async def napped() -> bool:
        return any(entry.status == "completed" for entry in await run.history())

    await app.wait_until(napped, LIMIT)
    await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
    await run.wake()
    await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
    assert [entry.status for entry in await run.history()].count("pending") == 1
    assert (await run.explain()).status in ("suspended", "running")
    await run.terminate()


async def test_a_recovered_run_sleeps_on_until_its_old_deadline(app: Tenuto, url: str) -> None:
    """P4: closing the run deleted its timer, which is not the same as deleting it by hand."""
    BROKEN[0] = True
    run = await app.start(sleeping_while_broken)
    with pytest.raises(RunFailedError):
        await run.result(timeout=LIMIT)
    BROKEN[0] = False
    await run.recover()

    async def mended() -> bool:
        return await is_suspended(app, run.id) and any(entry.status == "completed" for entry in await run.history())

    await app.wait_until(mended, LIMIT)
    await run.wake()
    await app.wait_until(lambda: is_suspended(app, run.id), LIMIT)
    assert await delete_timers(app, url, run.id) == 1
    await run.wake()
    assert await run.result(timeout=LIMIT) == "woke"
