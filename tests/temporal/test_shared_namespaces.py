"""Lists, and verbs for many runs: by the status that runs have, and never other people's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tenuto_portable import LIMIT, Stage, fresh

from tenuto import Tenuto, spawn, wait_for_signal, workflow


@workflow
async def waits_for_x() -> Any:
    return await wait_for_signal("x")


@workflow
async def has_a_child() -> Any:
    return await (await spawn(waits_for_x))


class Neighbours:
    """Open executions of others in the namespace, ended with the case."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.handles: list[Any] = []

    async def start(self, kind: str, task_queue: str, *args: Any, **options: Any) -> Any:
        run_id = fresh("theirs")
        handle = await self.client.start_workflow(kind, args=list(args), id=run_id, task_queue=task_queue, **options)
        self.handles.append(handle)
        return handle


@pytest.fixture
async def neighbours(temporal_server: str) -> AsyncIterator[Neighbours]:
    from temporalio.client import Client
    from temporalio.service import RPCError

    found = Neighbours(await Client.connect(temporal_server))
    yield found
    for handle in found.handles:
        try:
            await handle.terminate()
        except RPCError:
            continue


async def is_open(handle: Any) -> bool:
    return (await handle.describe()).status.name == "RUNNING"


async def listed(stage: Stage, **which: Any) -> list[str]:
    return [summary.id async for summary in stage.app.runs(**which)]


async def until_listed(stage: Stage, run_id: str, **which: Any) -> None:
    async def is_there() -> bool:
        return run_id in await listed(stage, **which)

    await stage.until(is_there)


async def test_a_status_that_the_list_does_not_tell_is_that_of_the_run(
    temporal_stage: Stage, neighbours: Neighbours
) -> None:
    stage = temporal_stage
    stage.tasks_may_fail = True
    theirs = await neighbours.start("SomebodyElsesGoWorkflow", fresh("their-go-queue"))
    healthy = [await stage.start(waits_for_x) for _ in range(3)]
    parked = await stage.start("workflow//elsewhere.py//unheard_of")
    pending = await stage.start(waits_for_x, queue=fresh("nobody-serves"))
    later = await stage.start(waits_for_x, delay="1h")
    for run in healthy:
        await stage.until_is(run, "suspended")
    await stage.until_is(parked, "parked")
    for run in (*healthy, parked, pending, later):
        await until_listed(stage, run.id)
    assert await listed(stage, status="parked") == [parked.id]
    assert sorted(await listed(stage, status="suspended")) == sorted(run.id for run in healthy)
    assert await listed(stage, status="pending") == [pending.id]
    assert await listed(stage, status="scheduled") == [later.id]
    assert await listed(stage, status="paused") == await listed(stage, status="stuck") == []
    assert len(await listed(stage, status="open")) == 6
    assert await listed(stage, status="closed") == []
    shown = {summary.id: (summary.status, summary.reason) async for summary in stage.app.runs()}
    assert shown[healthy[0].id] == ("suspended", None)
    assert shown[parked.id][0] == "parked"
    assert "unheard_of" in str(shown[parked.id][1])
    assert await stage.app.each(status="parked").terminate("clean up") == 1
    assert [await run.status() for run in (*healthy, parked)] == ["suspended"] * 3 + ["terminated"]
    assert await is_open(theirs)
    assert await stage.app.each(status="suspended").terminate("clean up") == 3
    assert await stage.app.each().cancel("all") >= 1
    assert await is_open(theirs)


async def test_lists_have_the_runs_of_this_app_and_of_no_other(temporal_stage: Stage, neighbours: Neighbours) -> None:
    stage = temporal_stage
    stage.tasks_may_fail = True  # those that are terminated in the middle
    here = stage.app.engine._connection.address.task_queue
    theirs = [
        await neighbours.start("SomebodyElsesGoWorkflow", fresh("their-go-queue")),
        await neighbours.start(waits_for_x.id, fresh("their-queue")),  # our workflow, elsewhere
        await neighbours.start("theirs", fresh("their-queue"), memo={"tenuto": "another app"}),
    ]
    async with Tenuto(stage.url.replace(here, other := fresh("another-app")), grace=1) as another:
        neighbour = await another.start(waits_for_x)
        mine = await stage.start(has_a_child)
        of_a_client = await neighbours.start(waits_for_x.id, here)
        await until_listed(stage, mine.id)
        await until_listed(stage, of_a_client.id)

        async def all_started() -> bool:
            return len(await listed(stage)) == 3

        await stage.until(all_started)
        found = {summary.id: summary.queue async for summary in stage.app.runs()}
        assert {handle.id for handle in theirs}.isdisjoint(found)
        assert neighbour.id not in found
        assert {mine.id, of_a_client.id} < found.keys()  # and the child
        assert await stage.app.each().terminate("all of ours") in (2, 3)  # the child may end with its parent
        assert await neighbour.status() != "terminated"
        assert all([await is_open(handle) for handle in theirs])
        assert [summary.id async for summary in another.runs()] == [neighbour.id]
        assert other != here
        await neighbour.terminate()


async def test_delete_takes_closed_runs_of_ours_only(
    temporal_stage: Stage, neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server deletes in its own time, so what it was asked for is looked at."""
    stage = temporal_stage
    connection = stage.app.engine._connection
    theirs = await neighbours.start("SomebodyElsesGoWorkflow", fresh("their-go-queue"))
    await theirs.terminate()
    run = await stage.start(waits_for_x, id=(name := fresh("again")))
    await run.signal("x", 1)
    assert await run.result(timeout=LIMIT) == 1
    ended = (await connection.handle(name).describe()).run_id
    anew = await stage.app.start(waits_for_x, id=name, if_exists="restart_closed")
    await stage.until_is(anew, "suspended")

    async def both_listed() -> bool:
        return sorted([summary.status async for summary in stage.app.runs()]) == ["completed", "suspended"]

    await stage.until(both_listed)
    asked: list[tuple[str, str]] = []

    async def note(request: Any, **_: Any) -> None:
        asked.append((request.workflow_execution.workflow_id, request.workflow_execution.run_id))

    monkeypatch.setattr(connection.client.workflow_service, "delete_workflow_execution", note)
    assert await stage.app.each(status="completed").delete() == 1
    assert await stage.app.each().delete() == 1
    assert asked == [(name, ended)] * 2  # not the one that was started anew under its id
    await anew.signal("x", 2)
    assert await anew.result(timeout=LIMIT) == 2


async def test_words_for_several_statuses_and_the_last_part_of_a_name_find_runs(temporal_stage: Stage) -> None:
    from tenuto.model.ids import short_name
    from tenuto.store.port import RunFilter

    stage = temporal_stage
    ended, waiting = await stage.start(waits_for_x), await stage.start(waits_for_x)
    await ended.signal("x", 1)
    assert await ended.result(timeout=LIMIT) == 1
    await until_listed(stage, ended.id, status="closed")
    await until_listed(stage, waiting.id, status="open")
    assert await listed(stage, status="closed") == [ended.id]
    assert await listed(stage, status="open") == [waiting.id]
    assert await listed(stage, status="stuck") == []
    with pytest.raises(ValueError, match="nope"):
        await listed(stage, status="nope")
    by_name = await stage.app.engine.runs(RunFilter(name=short_name(waits_for_x.id)))
    assert {summary.id for summary in by_name} == {ended.id, waiting.id}
    assert await stage.app.engine.runs(RunFilter(name="x")) == []
