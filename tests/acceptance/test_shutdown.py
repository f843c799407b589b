"""A worker that leaves before its work has ended: what counts as tried, and what the next one does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tenuto import Tenuto, step, workflow
from tenuto.errors import RunFailedError, StepOutcomeUnknownError

LIMIT = "30s"


class Body:
    """The body of a step that runs until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = threading.Event()

    async def wait(self, name: str) -> str:
        self.begun.append(name)
        while not self.go.is_set():  # another loop may let it go
            await asyncio.sleep(0.005)
        return name

    def block(self, name: str) -> str:
        self.begun.append(name)
        self.go.wait(30)
        return name


body = Body()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    body.begun, body.go = [], threading.Event()
    yield
    body.go.set()


@step(queue="slow", max_attempts=1)
async def async_once(name: str) -> str:
    return await body.wait(name)


@step(queue="slow", max_attempts=1)
def def_once(name: str) -> str:
    return body.block(name)


@step(queue="slow", max_attempts=2, backoff="1ms")
async def async_twice(name: str) -> str:
    return await body.wait(name)


@step(queue="slow", max_attempts=2, backoff="1ms")
def def_twice(name: str) -> str:
    return body.block(name)


@workflow(name="leaving")
async def leaving(kind: str) -> str:
    called = {"async once": async_once, "def once": def_once, "async twice": async_twice, "def twice": def_twice}
    return await called[kind]("x")


async def until(reached: Any) -> None:
    async with asyncio.timeout(20):
        while not reached():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("kind", ["async once", "def once"])
async def test_a_queued_step_that_may_run_once_is_not_run_again_after_a_shutdown(lasting_url: str, kind: str) -> None:
    """R067, P2: begun before the grace time ended, so nobody knows its outcome."""
    async with Tenuto(lasting_url, grace="10ms") as app:
        await app.start(leaving, kind, id="r")
        await until(lambda: body.begun)
    async with Tenuto(lasting_url) as app:
        with pytest.raises(RunFailedError) as failed:
            await app.get("r").result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, StepOutcomeUnknownError)
    assert failed.value.__cause__.kind == "interrupted"
    assert body.begun == ["x"]


@pytest.mark.parametrize("kind", ["async twice", "def twice"])
async def test_a_queued_step_with_attempts_left_is_tried_again_after_a_shutdown(lasting_url: str, kind: str) -> None:
    """R067: the attempt that was cut short counts."""
    async with Tenuto(lasting_url, grace="10ms") as app:
        await app.start(leaving, kind, id="r")
        await until(lambda: body.begun)
    async with Tenuto(lasting_url, grace="10ms") as app:
        await until(lambda: len(body.begun) == 2)
    async with Tenuto(lasting_url) as app:
        with pytest.raises(RunFailedError) as failed:
            await app.get("r").result(timeout=LIMIT)
    assert isinstance(failed.value.__cause__, StepOutcomeUnknownError)
    assert body.begun == ["x", "x"]


async def test_a_task_that_waits_for_a_thread_is_run_by_the_next_worker_as_if_untried(lasting_url: str) -> None:
    """R067: claimed and not begun: a `def` step begins when a thread takes it up, and not before."""
    tasks = 40  # more than there are threads
    async with Tenuto(lasting_url, grace="10ms") as app:
        handles = [await app.enqueue(def_once, str(n)) for n in range(tasks)]
        ids = [handle.id for handle in handles]

        async def all_claimed() -> bool:
            return [await handle.status() for handle in handles] == ["running"] * tasks

        await app.wait_until(all_claimed, LIMIT)
        await until(lambda: body.begun)
    begun = set(body.begun)
    assert 0 < len(begun) < tasks
    body.go.set()
    async with Tenuto(lasting_url) as app:

        async def statuses() -> list[str]:
            return [await app.engine.task_status(task_id) for task_id in ids]

        async def all_ended() -> bool:
            return set(await statuses()) <= {"completed", "failed"}

        await app.wait_until(all_ended, LIMIT)
        assert await statuses() == ["failed" if str(n) in begun else "completed" for n in range(tasks)]
    assert sorted(body.begun, key=int) == [str(n) for n in range(tasks)]
