"""Steps that only another process has, named by the last part of their id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tenuto import Task, Tenuto, workflow
from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError, RunFailedError
from tenuto.model.registry import default

LIMIT = "20s"
DEFINED = {"step//tasks.py//label": "h", "named": "h", "step//a.py//twice": "h", "step//b.py//twice": "h"}


@workflow
async def naming(name: str) -> None:
    await Task.run(name, 1, queue="tasks")


@pytest.fixture
def elsewhere() -> Iterator[None]:
    yield
    assert not default._elsewhere  # a worker that has stopped knows nothing any more


async def known(app: Tenuto) -> None:
    """Another process registers its steps; this worker has read of them."""
    await app.store.register("other", 60_000, "c", DEFINED, ["tasks"])
    async with asyncio.timeout(20):
        while not any("named" in ids for ids in default._elsewhere.values()):
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("name", "target"), [("label", "step//tasks.py//label"), ("named", "named")])
async def test_a_step_of_another_process_is_found_by_its_name(url: str, name: str, target: str) -> None:
    async with Tenuto(url, grace=1, queues=["default"]) as app:
        await known(app)
        run = await app.start(naming, name)

        async def queued() -> bool:
            return bool(await app.store.open_tasks(run.id))

        await app.wait_until(queued, LIMIT)
        (task,) = await app.store.open_tasks(run.id)
        assert (task.target, task.queue) == (target, "tasks")
        handle = await app.enqueue(name, 1, queue="tasks")
        found = await app.store.task(handle.id)
        assert found is not None
        assert found.target == target


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("name", "error"),
    [("twice", AmbiguousNameError), ("nope", DefinitionNotFoundError), ("naming", DefinitionNotFoundError)],
)
async def test_a_name_of_none_or_of_several_is_refused(url: str, name: str, error: type[Exception]) -> None:
    async with Tenuto(url, grace=1, queues=["default"]) as app:
        await known(app)
        run = await app.start(naming, name)
        with pytest.raises(RunFailedError) as failed:
            await run.result(timeout=LIMIT)
        assert isinstance(failed.value.__cause__, error)
        with pytest.raises(error):
            await app.enqueue(name, 1)
