"""Recorded histories held against present code."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import join, removed, sleep, step, wait_for_signal, workflow
from tenuto.errors import DecodingError, HistoryDivergedError, NondeterminismError
from tenuto.model.definitions import Workflow
from tenuto.testing import Recorded, check_replay

calls: list[str] = []


@step(name="recorded.pack")
async def pack(what: str) -> str:
    calls.append(what)
    return what


@step(name="recorded.ship")
async def ship(what: str) -> str:
    calls.append(what)
    return what


@workflow(name="recorded.order")
async def order(item: str) -> Any:
    packed = await pack(item)
    await join({"truck": lambda: ship(packed), "wait": lambda: sleep("1h")})
    return await wait_for_signal("received", timeout="1 day")


def body_of_order(body: Any) -> Workflow[..., Any]:
    """Other code under the same id."""
    return Workflow(body, id="recorded.order", name="recorded.order")


@pytest.fixture
def changed(monkeypatch) -> Any:
    """The same, deployed: these tests are one module, so its hash alone does not tell."""
    monkeypatch.setenv("TENUTO_APP_VERSION", "the next one")
    return body_of_order


@pytest.fixture
async def recorded(engine) -> Recorded:
    """An order on its way: packed, shipped, not yet received."""
    run = await engine.start(order, "book", id="order-1")
    await engine.advance("2h")
    calls.clear()
    return await run.record()


async def test_unchanged_code_replays_and_executes_nothing(recorded):
    check_replay(order, recorded)
    assert calls == []


async def test_a_recording_survives_its_file(recorded, tmp_path):
    path = tmp_path / "order.json"
    recorded.save(path)
    again = Recorded.read(path)
    assert again == recorded
    check_replay(order, again)


async def test_a_finished_run_is_replayed_to_its_end(engine):
    run = await engine.start(order, "book")
    await engine.advance("2h")
    await run.signal("received", "yes")
    assert await run.result() == "yes"
    check_replay(order, await run.record())


async def test_code_that_lost_a_step_is_named_with_the_place(recorded, changed):
    async def shorter(item: str) -> Any:
        await pack(item)
        return "shipped by hand"

    with pytest.raises(HistoryDivergedError) as diverged:
        check_replay(changed(shorter), recorded)
    assert diverged.value.location.startswith("join")
    assert "removed" in str(diverged.value)
    assert calls == []


async def test_a_removed_construct_replays(recorded, changed):
    async def without(item: str) -> Any:
        await pack(item)
        removed("join", "join")
        return await wait_for_signal("received", timeout="1 day")

    check_replay(changed(without), recorded)


async def test_an_inserted_step_replays_and_is_not_executed(recorded, changed):
    async def longer(item: str) -> Any:
        packed = await pack(item)
        await ship("inserted")
        await join({"truck": lambda: ship(packed), "wait": lambda: sleep("1h")})
        return await wait_for_signal("received", timeout="1 day")

    check_replay(changed(longer), recorded)
    assert calls == []


async def test_code_that_is_not_deterministic_is_told_apart_from_changed_code(recorded):
    async def other(item: str) -> Any:
        await ship(item)

    with pytest.raises(NondeterminismError) as diverged:
        check_replay(body_of_order(other), recorded)
    assert diverged.value.location == "recorded.pack"


async def test_a_value_that_cannot_be_read_any_more_is_reported(recorded):
    rows = tuple(
        (key, value.replace(b"dbook", b"\xd9t\x0b\x00\x00") if key[:2] == b"\x15\x02" else value)
        for key, value in recorded.rows
    )
    with pytest.raises(DecodingError):
        check_replay(order, Recorded(recorded.id, recorded.target, rows))


async def test_a_finished_run_that_would_go_on_is_reported(engine, changed):
    run = await engine.start(order, "book")
    await engine.advance("2h")
    await run.signal("received", "yes")
    await run.result()

    async def longer(item: str) -> Any:
        packed = await pack(item)
        await join({"truck": lambda: ship(packed), "wait": lambda: sleep("1h")})
        value = await wait_for_signal("received", timeout="1 day")
        await ship("after all")
        return value

    with pytest.raises(AssertionError, match="goes on"):
        check_replay(changed(longer), await run.record())
