"""Queues as a user has them: tasks by themselves, limits, keys, verbs for many runs; in several processes too."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import Task, Tenuto, heartbeat, sleep, spawn, step, step_info, wait_for_signal, workflow
from tenuto.errors import RunIdConflictError, StepExhaustedError, StepFailedError

LIMIT = "30s"
gates: dict[str, asyncio.Event] = {}
under_way: dict[str, int] = {}
most: dict[str, int] = {}
order: list[str] = []
attempts: dict[str, int] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for kept in (gates, under_way, most, order, attempts):
        kept.clear()


@pytest.fixture
async def client(url: str) -> AsyncIterator[Tenuto]:
    """An app whose worker serves no queue that these tests use, so that they say when work may begin."""
    async with Tenuto(url, queues=["nothing"], grace=1) as app:
        yield app


async def eventually(reached: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await reached():
            await asyncio.sleep(0.005)


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


@step
async def twice_over(n: int) -> int:
    return 2 * n


@step
async def counted(name: str) -> str:
    """Says how many of its kind run at once."""
    order.append(name)
    under_way["now"] = under_way.get("now", 0) + 1
    most["at once"] = max(most.get("at once", 0), under_way["now"])
    await asyncio.sleep(0.01)
    under_way["now"] -= 1
    return name


@step
async def held(name: str) -> str:
    """Runs until its gate opens."""
    order.append(name)
    await gate(name).wait()
    return name


@step(max_attempts=3, backoff="1ms")
async def flaky(name: str) -> int:
    attempts[name] = attempts.get(name, 0) + 1
    if attempts[name] < 3:
        raise ConnectionError("not yet")
    return attempts[name]


@step(max_attempts=2, backoff="1ms")
async def hopeless() -> None:
    raise ConnectionError("never")


@step(max_attempts=2, backoff="1ms")
async def remembers() -> Any:
    if step_info().attempt == 1:
        heartbeat({"row": 7})
        raise ConnectionError("again")
    return step_info().details


@workflow
async def waits(name: str) -> str:
    order.append(name)
    await wait_for_signal("go")
    return name


@workflow
async def naps(name: str) -> str:
    order.append(name)
    await sleep("1h")
    return name


@workflow
async def follows(name: str) -> str:
    return await Task.run(held, name, queue="shared", key="k")


@workflow
async def queues_one(name: str) -> str:
    return await Task.run(held, name, queue="narrow")


@workflow
async def fails(name: str) -> str:
    attempts[name] = attempts.get(name, 0) + 1
    if attempts[name] == 1:
        raise ValueError("first time")
    return name


# --- tasks by themselves


async def test_a_step_is_put_into_a_queue_without_a_workflow(app: Tenuto) -> None:
    task = await app.enqueue(twice_over, 21)
    assert await task.result(timeout=LIMIT) == 42
    assert await task.status() == "completed"
    assert await app.task(task.id).result() == 42
    assert await (await app.enqueue(twice_over.bind(n=4), queue="other", priority=3)).result(timeout=LIMIT) == 8
    assert await (await app.enqueue("twice_over", 5)).result(timeout=LIMIT) == 10
    assert await (await app.enqueue(twice_over.id, 6)).result(timeout=LIMIT) == 12


async def test_a_task_that_fails_is_tried_again_and_gives_up_as_its_step_says(app: Tenuto) -> None:
    """R046, without a workflow."""
    assert await (await app.enqueue(flaky, "a")).result(timeout=LIMIT) == 3
    task = await app.enqueue(hopeless)
    with pytest.raises(StepExhaustedError) as failed:
        await task.result(timeout=LIMIT)
    assert (failed.value.attempts, str(failed.value.__cause__)) == (2, "never")
    assert await task.status() == "failed"
    once = await app.enqueue(flaky.options(max_attempts=1).bind("b"))
    with pytest.raises(StepFailedError):
        await once.result(timeout=LIMIT)
    assert attempts["b"] == 1


async def test_what_a_heartbeat_said_reaches_the_next_attempt_of_a_task(app: Tenuto) -> None:
    assert await (await app.enqueue(remembers)).result(timeout=LIMIT) == {"row": 7}


async def test_a_task_is_not_awaited_longer_than_one_likes(app: Tenuto) -> None:
    task = await app.enqueue(held, "slow")
    with pytest.raises(TimeoutError):
        await task.result(timeout="50ms")
    gate("slow").set()
    assert await task.result(timeout=LIMIT) == "slow"


async def test_a_task_that_waits_is_cancelled_at_once(client: Tenuto) -> None:
    for options in ({}, {"delay": "1h"}):
        task = await client.enqueue(twice_over, 1, **options)  # type: ignore[arg-type]
        await task.cancel()
        assert await task.status() == "cancelled"
        with pytest.raises(StepFailedError) as failed:
            await task.result(timeout=LIMIT)
        assert failed.value.kind == "cancelled"
        await task.cancel()  # changes nothing


async def test_a_task_under_way_is_stopped(app: Tenuto) -> None:
    task = await app.enqueue(held, "endless")
    await eventually(lambda: _begun("endless"))
    await task.cancel()
    with pytest.raises(StepFailedError) as failed:
        await task.result(timeout=LIMIT)
    assert (failed.value.kind, failed.value.name) == ("cancelled", "held")
    assert await task.status() == "cancelled"


async def _begun(name: str) -> bool:
    return name in order


async def test_what_is_no_step_is_refused(app: Tenuto) -> None:
    with pytest.raises(TypeError, match=r"app\.enqueue takes a step.*app\.start"):
        await app.enqueue(waits, "x")
    with pytest.raises(TypeError, match=r"app\.enqueue has no option 'colour'"):
        await app.enqueue(twice_over, 1, colour="red")  # type: ignore[call-overload]


async def test_numbers_that_no_store_can_hold_and_values_of_other_types_are_refused(app: Tenuto) -> None:
    """At the call, on every store alike; nothing is stored."""
    for wrong in (2**31, -(2**31), 2**63):
        with pytest.raises(ValueError, match="priority= is at"):
            await app.start(waits, "w", id="too-large", priority=wrong)
        with pytest.raises(ValueError, match="priority= is at"):
            await app.enqueue(twice_over, 1, priority=wrong)
    with pytest.raises(ValueError, match="concurrency= is at most"):
        await app.queue("q", concurrency=2**63)
    with pytest.raises(ValueError, match="rate= is at most"):
        await app.queue("q", rate=(2**63, "1s"))
    for rate in (10, (10,), (10, "1s", 3)):
        with pytest.raises(TypeError, match=r"rate= is how many starts in what time"):
            await app.queue("q", rate=rate)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="paused= is True or False"):
        await app.queue("q", paused="no")  # type: ignore[arg-type]
    assert [run async for run in app.runs()] == []
    assert [queue async for queue in app.queues()] == []
    await (await app.start(waits, "w", priority=2**31 - 1)).terminate()


def test_the_same_without_await(tmp_path: Path) -> None:
    with Tenuto.sync(f"sqlite:///{tmp_path / 'x.db'}") as app:
        app.queue("slow", concurrency=1)
        task = app.enqueue(twice_over, 4, queue="slow")
        assert task.result(timeout=LIMIT) == 8
        assert [(queue.limits.name, queue.limits.concurrency) for queue in app.queues()] == [("slow", 1)]
        app.start(waits, "w")
        assert app.each(workflow=waits.id).terminate() == 1


# --- limits


async def test_no_more_than_its_concurrency_run_at_once(app: Tenuto) -> None:
    """R041, in one process."""
    await app.queue("narrow", concurrency=2)
    tasks = [await app.enqueue(counted, f"t{n}", queue="narrow") for n in range(12)]
    await asyncio.gather(*(task.result(timeout=LIMIT) for task in tasks))
    assert most["at once"] == 2


async def test_one_slot_serves_by_priority_then_age(lasting_url: str) -> None:
    """R040."""
    async with Tenuto(lasting_url, worker=False) as app:
        await app.queue("one", concurrency=1)
        tasks = []
        for name, priority in (("low", 0), ("first", 5), ("second", 5)):
            tasks.append(await app.enqueue(counted, name, queue="one", priority=priority))
            before = await app.store.now()
            await eventually(lambda before=before: _later(app, before))
        async with Tenuto(lasting_url):
            await asyncio.gather(*(task.result(timeout=LIMIT) for task in tasks))
        assert order == ["first", "second", "low"]


async def _later(app: Tenuto, before: int) -> bool:
    """Whether a millisecond has passed: of two items of one instant none is the older."""
    return await app.store.now() > before


async def test_a_suspended_run_keeps_its_slot_and_a_paused_one_gives_it_up(app: Tenuto) -> None:
    await app.queue("runs", concurrency=1)
    first = await app.start(waits, "first", queue="runs")
    second = await app.start(waits, "second", queue="runs")
    await app.wait_until(lambda: _is(first, "suspended"), LIMIT)
    assert (await second.status(), order) == ("pending", ["first"])
    said = await second.explain()
    assert "queue 'runs' has 1 of 1 at once" in said.wakes  # R073
    await first.pause()
    await app.wait_until(lambda: _is(second, "suspended"), LIMIT)
    await first.resume()  # it goes on without a slot
    await first.signal("go")
    assert await first.result(timeout=LIMIT) == "first"


async def _is(handle: Any, status: str) -> bool:
    return bool(await handle.status() == status)


async def test_a_rate_holds_in_every_window(app: Tenuto) -> None:
    """R042: by the store's clock, retries included."""
    await app.queue("calm", rate=(4, "200ms"))
    began = time.monotonic()
    tasks = [await app.enqueue(flaky, f"f{n}", queue="calm") for n in range(4)]
    await asyncio.gather(*(task.result(timeout=LIMIT) for task in tasks))
    assert sum(attempts.values()) == 12
    assert time.monotonic() - began >= 0.4


async def test_a_blocked_partition_holds_nobody_else_up(app: Tenuto) -> None:
    """R045."""
    await app.queue("parts", partition_concurrency=1)
    blocked = [await app.enqueue(held, "a0", queue="parts", partition="A", priority=9)]
    await eventually(lambda: _begun("a0"))
    blocked += [await app.enqueue(held, f"a{n}", queue="parts", partition="A", priority=9) for n in range(1, 50)]
    assert await (await app.enqueue(counted, "b", queue="parts", partition="B")).result(timeout=LIMIT) == "b"
    assert order == ["a0", "b"]
    said = [queue for queue in [queue async for queue in app.queues()] if queue.limits.name == "parts"]
    assert [(queue.waiting, queue.running, queue.slots) for queue in said] == [(49, 1, 1)]
    for task in blocked:
        await task.cancel()


async def test_a_process_has_no_more_than_it_may(app: Tenuto) -> None:
    await app.queue("local", worker_concurrency=3)
    tasks = [await app.enqueue(counted, f"t{n}", queue="local") for n in range(12)]
    await asyncio.gather(*(task.result(timeout=LIMIT) for task in tasks))
    assert 1 <= most["at once"] <= 3


async def test_a_paused_queue_waits(app: Tenuto) -> None:
    await app.queue("closed", paused=True)
    task = await app.enqueue(twice_over, 1, queue="closed")
    run = await app.start(waits, "r", queue="closed")
    assert "queue 'closed' is paused" in (await run.explain()).wakes
    other = await app.enqueue(twice_over, 2)
    assert await other.result(timeout=LIMIT) == 4
    assert (await task.status(), await run.status()) == ("pending", "pending")
    await app.queue("closed")
    assert await task.result(timeout=LIMIT) == 2


@workflow
async def notes(name: str) -> None:
    order.append(name)


@workflow
async def has_children() -> None:
    ordinary = await spawn(notes, "ordinary", queue="children")
    urgent = await spawn(notes, "urgent", queue="children", priority=5)
    await ordinary
    await urgent


async def test_a_child_goes_by_its_priority(app: Tenuto) -> None:
    await app.queue("children", paused=True)
    run = await app.start(has_children)

    async def both_wait() -> bool:
        return len([child async for child in app.runs(workflow="notes", status="pending")]) == 2

    await eventually(both_wait)
    await app.queue("children", concurrency=1)
    await run.result(timeout=LIMIT)
    assert order == ["urgent", "ordinary"]


async def test_a_limit_of_another_process_is_heard_of_within_the_poll(lasting_url: str) -> None:
    async with Tenuto(lasting_url) as worker, Tenuto(lasting_url, worker=False) as client:
        await (await worker.enqueue(twice_over, 1)).result(timeout=LIMIT)
        await client.queue("late", concurrency=1)
        tasks = [await client.enqueue(counted, f"t{n}", queue="late") for n in range(4)]
        await asyncio.gather(*(task.result(timeout=LIMIT) for task in tasks))
        assert most["at once"] == 1


@workflow(name="q-counting")
async def counting(name: str) -> str:
    return await counted(name)


async def test_a_limit_of_another_process_holds_from_its_commit_on(lasting_url: str) -> None:
    """R041: also for a worker that has looked a moment ago, and begins what it starts itself."""
    async with Tenuto(lasting_url) as worker, Tenuto(lasting_url, worker=False) as client:
        for n in range(5):
            queue = f"late{n}"
            assert queue not in await worker.store.limited()
            await client.queue(queue, concurrency=1)  # which the worker will look for in a second
            runs = [await worker.start(counting, f"r{n}", queue=queue) for _ in range(4)]
            await asyncio.gather(*(run.result(timeout=LIMIT) for run in runs))
            assert most["at once"] == 1


async def test_a_worker_begins_only_what_its_queues_have(lasting_url: str) -> None:
    async with Tenuto(lasting_url, queues=["a"]) as app:
        other = await app.start(waits, "other", queue="b")
        mine = await app.start(waits, "mine", queue="a")
        await app.wait_until(lambda: _is(mine, "suspended"), LIMIT)
        assert await other.status() == "pending"
        async with Tenuto(lasting_url, queues=["b"]):
            await app.wait_until(lambda: _is(other, "suspended"), LIMIT)
        await other.signal("go")  # what has begun is anybody's to go on with
        assert await other.result(timeout=LIMIT) == "other"


async def test_a_signal_to_a_run_behind_a_limit_waits_with_it(app: Tenuto) -> None:
    """R036."""
    await app.queue("one", concurrency=1)
    first = await app.start(waits, "first", queue="one")
    second = await app.start(waits, "second", queue="one")
    await second.signal("go")
    await app.wait_until(lambda: _is(first, "suspended"), LIMIT)
    assert (await second.status(), order) == ("pending", ["first"])
    await first.signal("go")
    assert await second.result(timeout=LIMIT) == "second"


async def test_a_delayed_item_begins_when_its_time_has_come(app: Tenuto) -> None:
    """R043: until then no claim sees it."""
    task = await app.enqueue(twice_over, 3, delay="100ms")
    run = await app.start(waits, "later", delay="100ms")
    assert (await task.status(), await run.status()) == ("scheduled", "scheduled")
    assert await task.result(timeout=LIMIT) == 6
    await app.wait_until(lambda: _is(run, "suspended"), LIMIT)


async def test_a_step_that_waits_behind_a_limit_says_so(app: Tenuto) -> None:
    """R073."""
    await app.queue("narrow", concurrency=1)
    first = await app.start(queues_one, "x")
    await eventually(lambda: _begun("x"))
    second = await app.start(queues_one, "y")

    async def told() -> bool:
        return any("1 of 1 at once" in operation.what for operation in (await second.explain()).pending)

    await app.wait_until(told, LIMIT)
    gate("x").set()
    gate("y").set()
    assert (await first.result(timeout=LIMIT), await second.result(timeout=LIMIT)) == ("x", "y")


# --- keys


async def test_an_open_key_gives_the_item_that_has_it(app: Tenuto) -> None:
    """R044."""
    first = await app.enqueue(held, "one", queue="shared", key="k")
    assert (await app.enqueue(held, "two", queue="shared", key="k")).id == first.id
    runs = [await app.start(follows, name) for name in ("three", "four")]
    await asyncio.gather(*(app.wait_until(lambda run=run: _is(run, "suspended"), LIMIT) for run in runs))
    gate("one").set()
    assert await first.result(timeout=LIMIT) == "one"
    assert [await run.result(timeout=LIMIT) for run in runs] == ["one", "one"]
    assert order == ["one"]
    again = await app.enqueue(held, "five", queue="shared", key="k")
    assert again.id != first.id
    gate("five").set()
    await again.result(timeout=LIMIT)


async def test_an_open_key_gives_the_run_that_has_it(app: Tenuto) -> None:
    """R044."""
    first = await app.start(waits, "one", key="k")
    assert (await app.start(waits, "two", key="k")).id == first.id
    assert (await app.start(waits, "two", id="asked", key="k")).id == first.id
    assert (await app.start(waits, "two", queue="other", key="k")).id != first.id
    task = await app.enqueue(held, "x", key="k")
    assert task.id == first.id
    await first.signal("go")
    assert await task.result(timeout=LIMIT) == "one"
    assert (await app.start(waits, "three", key="k")).id != first.id


async def test_a_run_cannot_stand_in_the_place_of_a_task(app: Tenuto) -> None:
    task = await app.enqueue(held, "x", key="k")
    with pytest.raises(RunIdConflictError, match=f"belongs to task {task.id}"):
        await app.start(waits, "y", key="k")
    gate("x").set()
    await task.result(timeout=LIMIT)


# --- many runs


async def test_verbs_for_many_runs_do_what_they_say_to_those_that_fit(app: Tenuto) -> None:
    runs = [await app.start(naps, f"n{n}", attributes={"team": n % 2}) for n in range(6)]
    failed = [await app.start(fails, f"f{n}") for n in range(3)]
    await asyncio.gather(*(app.wait_until(lambda run=run: _is(run, "suspended"), LIMIT) for run in runs))
    await asyncio.gather(*(app.wait_until(lambda run=run: _is(run, "failed"), LIMIT) for run in failed))
    assert await app.each(attributes={"team": 1}).pause() == 3
    assert await app.each(workflow=naps.id).pause() == 3
    assert await app.each(status="paused", attributes={"team": 0}).resume() == 3
    assert await app.each(status="failed").recover() == 3
    assert [await run.result(timeout=LIMIT) for run in failed] == ["f0", "f1", "f2"]
    assert await app.each(workflow=naps.id, attributes={"team": 1}).cancel("over") == 3
    assert await app.each(workflow=naps.id, attributes={"team": 0}).terminate("over") == 3
    await asyncio.gather(*(app.wait_until(lambda run=run: _is(run, "cancelled"), LIMIT) for run in runs[1::2]))
    assert [await run.status() for run in runs[::2]] == ["terminated"] * 3
    assert await app.each().pause() == 0
    assert await app.each(workflow=naps.id).delete() == 6
    assert {summary.workflow async for summary in app.runs()} == {fails.id}


async def test_verbs_for_many_runs_go_through_all_pages_while_runs_change(
    client: Tenuto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.engine, "page_size", 7)
    await asyncio.gather(*(client.start(naps, "x", id=f"r{n:02}") for n in range(30)))

    async def meddle() -> None:
        for n in range(0, 30, 3):
            await client.get(f"r{n:02}").cancel()
            await client.start(naps, "late", id=f"z{n}")

    cancelled, _ = await asyncio.gather(client.each(workflow=naps.id, status="pending").cancel(), meddle())
    statuses = {summary.id: summary.status async for summary in client.runs(limit=100)}
    assert all(statuses[f"r{n:02}"] == "cancelled" for n in range(30))
    assert 20 <= cancelled <= 40
    assert await client.each(status="cancelled").delete() == sum(status == "cancelled" for status in statuses.values())


# --- several processes

WORKER = """
import asyncio, os, sys, time
from tenuto import Tenuto, step

@step(name="q-work", max_attempts=5, backoff="10ms")
async def work(folder: str, seconds: float) -> None:
    mark = os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}")
    open(mark, "w").close()
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(f"{len(os.listdir(folder)) - 1}\\n")
    await asyncio.sleep(seconds)
    os.unlink(mark)

async def main() -> None:
    async with Tenuto(sys.argv[1], lease="1s", grace=0.1):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@step(name="q-work", max_attempts=5, backoff="10ms")
async def work(folder: str, seconds: float) -> None:
    """The same definition as in the workers, so that its name is known here."""


class Workers:
    """Worker processes on one store."""

    def __init__(self, tmp_path: Path, url: str) -> None:
        self._script = tmp_path / "worker.py"
        self._script.write_text(WORKER, encoding="utf-8")
        self._url = url
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        started = [
            subprocess.Popen([sys.executable, str(self._script), self._url], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        self.processes += started
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def workers(tmp_path: Path, lasting_url: str) -> Any:
    made = Workers(tmp_path, lasting_url)
    yield made
    made.stop()


@pytest.mark.slow
async def test_three_processes_never_run_three_at_once(workers: Workers, lasting_url: str, tmp_path: Path) -> None:
    """R041."""
    folder = tmp_path / "marks"
    folder.mkdir()
    async with Tenuto(lasting_url, worker=False) as app:
        await app.queue("narrow", concurrency=2)
        tasks = [await app.enqueue(work, str(folder), 0.02, queue="narrow") for _ in range(30)]
        workers.start()
        await asyncio.gather(*(task.result(timeout="60s") for task in tasks))
    assert {int(line) for line in (folder / "log").read_text(encoding="utf-8").split()} <= {1, 2}


@pytest.mark.slow
async def test_the_slot_of_a_killed_process_is_free_after_the_sweep(
    workers: Workers, lasting_url: str, tmp_path: Path
) -> None:
    """R041."""
    folder = tmp_path / "marks"
    folder.mkdir()
    async with Tenuto(lasting_url, worker=False) as app:
        await app.queue("narrow", concurrency=1)
        stuck = await app.enqueue(work, str(folder), 3600.0, queue="narrow")
        workers.start()
        await eventually(lambda: _marked(folder))
        (mark,) = [path for path in folder.iterdir() if path.name != "log"]
        waiting = await app.enqueue(work, str(folder), 0.0, queue="narrow", priority=5)
        owner = int(mark.name.split("-")[0])
        (killed,) = [process for process in workers.processes if process.pid == owner]
        assert await waiting.status() == "pending"
        workers.kill(killed)
        mark.unlink()
        await waiting.result(timeout="30s")
        await stuck.cancel()


async def _marked(folder: Path) -> bool:
    return (folder / "log").exists()
