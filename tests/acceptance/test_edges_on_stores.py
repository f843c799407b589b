"""What user code raises, and what it does when it is dropped, ends no worker: on every store, beside a healthy run."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest

from tenuto import Tenuto, sleep, step, wait_for_signal, workflow
from tenuto.errors import RemoteError, RunFailedError

LIMIT = "20s"
RAISED: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit)
}


@step(name="edges.def", backoff="1ms")
def plain(name: str) -> None:
    raise RAISED[name]("told so")


@step(name="edges.async", backoff="1ms")
async def coroutine(name: str) -> None:
    raise RAISED[name]("told so")


@step(name="edges.exit", backoff="1ms")
def exits(name: str) -> None:
    sys.exit(2)


@step(name="edges.queued", backoff="1ms", queue="default")
def queued(name: str) -> None:
    raise RAISED[name]("told so")


STEPS = [plain, coroutine, exits, queued]


@workflow(name="edges.healthy")
async def healthy() -> str:
    return await wait_for_signal("go")


@workflow(name="edges.bad_step")
async def bad_step(which: int, name: str) -> None:
    await STEPS[which](name)


@workflow(name="edges.bad_run")
async def bad_run(name: str) -> None:
    raise RAISED[name]("told so")


@pytest.mark.parametrize("name", RAISED)
async def test_runs_that_raise_anything_fail_and_nobody_else_notices(app: Tenuto, name: str) -> None:
    """M110, G11"""
    other = await app.start(healthy)
    failing = [await app.start(bad_run, name)]
    failing += [await app.start(bad_step, which, name) for which in range(len(STEPS))]
    for run in failing:
        with pytest.raises(RunFailedError) as failed:
            await run.result(timeout=LIMIT)
        cause: BaseException | None = failed.value
        while cause is not None and cause.__cause__ is not None:
            cause = cause.__cause__
        assert isinstance(cause, RemoteError | StopIteration)
    await other.signal("go", "fine")
    assert await other.result(timeout=LIMIT) == "fine"


@workflow(name="edges.stubborn")
async def stubborn(wait: str) -> None:
    while True:
        try:
            await sleep(wait)
        except:  # noqa: E722
            await asyncio.sleep(0)


@pytest.mark.parametrize("wait", ["1h", "2s"], ids=["left at the start", "kept until the shutdown"])
async def test_a_run_that_swallows_everything_holds_up_neither_its_start_nor_the_shutdown(
    url: str, wait: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K137"""
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(30), Tenuto(url) as app:
            run = await app.start(stubborn, wait)
            other: Any = await app.start(healthy)
            await other.signal("go", "fine")
            assert await other.result(timeout=LIMIT) == "fine"
            assert [entry.location for entry in await run.history()] in (["sleep"], [])
    assert any("refused to close" in record.getMessage() for record in caplog.records)
