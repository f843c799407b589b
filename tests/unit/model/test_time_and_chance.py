"""Durable waiting, run time and replayable chance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenuto import now, random, run_info, sleep, sleep_until, step, uuid4, workflow
from tenuto.testing import Engine


@step
async def tick() -> None: ...


async def test_a_sleep_survives_the_worker_and_ends_when_it_would_have(engine: Engine) -> None:  # M008
    @workflow
    async def nap() -> float:
        began = now()
        await sleep(5)
        return (now() - began).total_seconds()

    run = await engine.start(nap)
    await engine.advance(2)
    engine.crash()
    await engine.advance(2)
    assert await run.status() == "suspended"
    assert await run.result() == 5


async def test_sleeping_for_nothing_is_recorded(engine: Engine) -> None:  # M009
    @workflow
    async def nap() -> None:
        await sleep(0)
        await sleep_until(datetime(2000, 1, 1, tzinfo=UTC), name="past")

    run = await engine.start(nap)
    await run.result()
    assert [(entry.location, entry.kind, entry.status) for entry in await run.history()] == [
        ("sleep", "sleep", "completed"),
        ("past", "sleep", "completed"),
    ]


async def test_sleep_until_waits_for_that_moment(engine: Engine) -> None:
    @workflow
    async def nap(when: datetime) -> datetime:
        await sleep_until(when)
        return now()

    when = datetime(2026, 2, 1, tzinfo=UTC)
    assert await (await engine.start(nap, when)).result() == when


async def test_time_stands_still_between_two_facts(engine: Engine) -> None:  # M010
    @workflow
    async def look() -> bool:
        return now() == now()

    assert await (await engine.start(look)).result() is True


async def test_uuids_differ_and_are_the_same_on_replay(engine: Engine) -> None:  # M011
    seen: list[Any] = []

    @workflow
    async def draw() -> None:
        seen.append((uuid4(), uuid4()))
        await tick()

    await (await engine.start(draw)).result()
    assert seen[0][0] != seen[0][1]
    assert set(seen) == {seen[0]}


async def test_chance_belongs_to_its_scope(engine: Engine) -> None:
    from tenuto import parallel

    async def draw_two() -> list[float]:
        first = random().random()
        await tick()
        return [first, random().random()]

    @workflow
    async def draw() -> Any:
        before = random().random()
        branches = await parallel([draw_two, draw_two])
        return [before, random().random(), *branches]

    run = await engine.start(draw, id="order-42")
    result = await run.result()
    assert result[:2] == [0.5599633321671352, 0.7950298126308439]  # the stream goes on where it was
    assert len({*result[:2], *result[2], *result[3]}) == 6


@pytest.mark.parametrize("wrong", ["soon", float("nan")])
async def test_a_wrong_duration_is_refused_at_the_call_and_takes_no_place(engine: Engine, wrong: Any) -> None:
    @workflow
    async def nap() -> None:
        with pytest.raises(ValueError):  # noqa: PT011  # any text
            sleep(wrong)
        with pytest.raises(ValueError, match="time zone"):
            sleep_until(datetime(2026, 1, 1))  # noqa: DTZ001  # the point
        await sleep(timedelta(seconds=1))

    run = await engine.start(nap)
    await run.result()
    assert [entry.location for entry in await run.history()] == ["sleep"]


async def test_a_run_knows_itself(engine: Engine) -> None:
    @workflow
    async def know() -> Any:
        info = run_info()
        return info.id, info.workflow, info.run_no, info.parent_id, info.started_at == now()

    run = await engine.start(know, id="me")
    assert await run.result() == ("me", know.id, 1, None, True)
