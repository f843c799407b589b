"""What those see who only look: open tasks, live workers, the schema; and that looking changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenuto.errors import StoreRefusedError, StoreUnavailableError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.port import NewRun, Park, RunFilter, RunningStep, TaskEnd
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


# --- lists of runs


async def test_a_list_goes_on_page_after_page_and_shows_each_run_once(world: Any, store: Any) -> None:
    """R082"""
    for number in range(7):
        await store.create(NewRun(f"r-{number}", "w", ()))
        world.clock.ms += number % 2  # some were made in the same instant
    seen: list[str] = []
    which = RunFilter(limit=3)
    while True:
        page = await store.listing(which)
        seen += [record.id for record in page.records]
        if page.after is None:
            break
        if len(seen) == 3:
            await store.delete([seen[-1]])  # where a page ended nothing has to be there any more
            await store.create(NewRun("r-new", "w", ()))  # and what is new does not push anything into the next one
        which = replace(which, after=page.after)
    assert seen == [f"r-{number}" for number in reversed(range(7))]
    assert [record.id for record in await store.runs(RunFilter(limit=2))] == ["r-new", "r-6"]


async def test_a_list_is_filtered_in_the_store(world: Any, store: Any) -> None:
    """R082"""
    targets = ["workflow//src/a.py//outer/old", "workflow//src/b.py//old", "old", "a/old", "workflow//src/a.py//bold"]
    for number, target in enumerate(targets):
        await store.create(NewRun(f"r-{number}", target, ()))
    for number in range(20):
        await store.create(NewRun(f"noise-{number}", "workflow//src/a.py//noise", ()))
    await store.terminate("noise-3", None)

    async def listed(**which: Any) -> list[str]:
        return [record.id for record in (await store.listing(RunFilter(**which))).records]

    assert await listed(name="old") == ["r-2", "r-1", "r-0"]
    assert await listed(name="workflow//src/b.py//old") == ["r-1"]
    assert await listed(target="old") == ["r-2"]
    assert await listed(name="old%") == []
    assert await listed(status="closed") == ["noise-3"]
    assert len(await listed(status="open")) == 24
    assert await listed(status="stuck") == []
    assert await store.count(RunFilter()) == {"pending": 24, "terminated": 1}
    assert await store.count(RunFilter("open", name="noise")) == {"pending": 19}
    assert await store.page(RunFilter("closed", limit=9), "", world.clock.ms) == [("noise-3", "terminated")]


async def test_runs_that_lost_too_many_workers_are_listed_as_stuck(world: Any, store: Any) -> None:
    for run_id, reason in (("a", "TN110 lost"), ("b", "TN104 at x"), ("c", None)):
        await store.create(NewRun(run_id, "w", ()))
        if reason is not None:
            lease = await store.claim(run_id)
            # As the sweep does: what a store says by itself is not sealed.
            await getattr(store, "_store", store).commit(Park(lease, reason=reason))
    assert [record.id for record in await store.runs(RunFilter("stuck"))] == ["a"]
    assert await store.count(RunFilter("stuck")) == {"parked": 1}


def test_a_status_that_no_run_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'nope'"):
        RunFilter("nope")


async def test_one_row_of_several_runs_is_read_in_one_look(store: Any) -> None:
    await store.create(NewRun("a", "w", ((b"k", b"1"), (b"k2", b"x"))))
    await store.create(NewRun("b", "w", ((b"k", b"2"),)))
    await store.create(NewRun("c", "w", ()))
    assert await store.rows_at(["a", "b", "c", "nobody"], b"k") == {"a": b"1", "b": b"2"}


# --- steps under way


async def test_steps_under_way_are_noted_replaced_and_taken_back(world: Any, store: Any) -> None:
    """R073"""
    await store.create(NewRun("r", "w", ()))
    first, second = (RunningStep("r", place, 1, world.clock.ms, "w-1") for place in ("pack", "join/a/pack"))
    await store.note_under_way([first, second, RunningStep("gone", "x", 1, 1, "w-1")], [])
    assert sorted(await store.steps_under_way("r")) == sorted([first, second])
    assert await store.steps_under_way("gone") == []
    await store.keep_details("r:0:pack", "r", b"[1]")  # heartbeats are no notes
    again = first._replace(attempt=2, worker="w-2")
    await store.note_under_way([again], [second])
    assert await store.steps_under_way("r") == [again]
    assert await store.details("r:0:pack") == b"[1]"
    await store.delete(["r"])
    assert await store.steps_under_way("r") == []


async def test_who_has_the_lease_of_a_run_is_told(world: Any, store: Any) -> None:
    await world.worker()
    await store.create(NewRun("r", "w", ()))
    assert await store.holder("r") is None
    assert await store.holder("nobody") is None
    await store.claim_runs("w", ["w"], 5)
    assert await store.holder("r") == "w"
