"""Changing code while runs are open."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tenuto import Workflow, deprecate_patch, join, patched, removed, step, wait_for_signal, workflow
from tenuto.testing import Engine


@step
async def a() -> str:
    return "a"


@step
async def b() -> str:
    return "b"


def version(fn: Callable[..., Coroutine[Any, Any, Any]]) -> Workflow[..., Any]:
    """One of several versions of the same workflow."""
    return Workflow(fn, id="versioned", name="versioned")


@pytest.fixture
def deploy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a version in place of the one before, as a deploy does: with another hash."""
    versions: dict[Any, str] = {}

    def definition_of(workflow: Workflow[..., Any]) -> tuple[str, None]:
        return versions.setdefault(workflow.fn, f"v{len(versions)}"), None

    monkeypatch.setattr("tenuto.testing.engine.definition_of", definition_of)
    return engine.reload


async def test_a_new_run_takes_the_patch_and_records_it_once(engine: Engine) -> None:  # M024
    @workflow
    async def new() -> list[bool]:
        answers = [patched("p") for _ in range(5)]
        await a()
        return answers + [patched("p") for _ in range(5)]

    run = await engine.start(new)
    assert await run.result() == [True] * 10
    assert sorted(entry.location for entry in await run.history()) == ["?p", "a"]


async def test_a_run_recorded_before_the_patch_refuses_it_for_good(
    engine: Engine, deploy: Callable[..., None]
) -> None:  # M025
    async def old() -> Any:
        await a()
        await wait_for_signal("go")

    async def new() -> Any:
        before = patched("p")
        await a()
        await wait_for_signal("go")
        await b()
        return before, patched("p")

    run = await engine.start(version(old))
    await engine.settle()
    deploy(version(new))
    await run.signal("go")
    assert await run.result() == (False, False)
    assert [entry.location for entry in await run.history()].count("?p") == 1


async def test_a_recorded_patch_is_repeated(engine: Engine) -> None:  # M026
    seen: list[bool] = []

    @workflow
    async def new() -> None:
        seen.append(patched("p"))
        await a()

    run = await engine.start(new)
    await engine.settle()
    engine.crash()
    await run.result()
    assert set(seen) == {True}


async def test_a_run_that_has_just_not_reached_the_patch_takes_it(
    engine: Engine, deploy: Callable[..., None]
) -> None:  # M027
    async def old() -> Any:
        await a()
        await wait_for_signal("go")
        return "old"

    async def new() -> Any:
        await a()
        return await wait_for_signal("go") if not patched("p") else "new"

    run = await engine.start(version(old))
    await engine.settle()
    deploy(version(new))
    assert await run.result() == "new"


async def test_a_patch_that_is_gone_from_the_code_parks_the_run(
    engine: Engine, deploy: Callable[..., None]
) -> None:  # M028
    async def old() -> Any:
        patched("charge-in-cents")
        await a()
        await wait_for_signal("go")

    async def new() -> Any:
        await a()

    run = await engine.start(version(old))
    await engine.settle()
    before = await engine.store.rows(run.id)
    deploy(version(new))
    await engine.settle()
    assert await run.status() == "parked"
    assert "charge-in-cents" in (await run.reason() or "")
    assert await engine.store.rows(run.id) == before


async def test_a_deprecated_patch_accepts_runs_with_and_without_it(engine: Engine, deploy: Callable[..., None]) -> None:
    async def old() -> Any:
        patched("p")
        await a()
        await wait_for_signal("go")

    async def new() -> Any:
        deprecate_patch("p")
        await a()
        await wait_for_signal("go")
        return "done"

    run = await engine.start(version(old))
    await engine.settle()
    deploy(version(new))
    await run.signal("go")
    assert await run.result() == "done"
    fresh = await engine.start(version(new), id="fresh")
    await fresh.signal("go")
    assert await fresh.result() == "done"


async def test_a_removed_construct_is_passed_with_all_below_it(
    engine: Engine, deploy: Callable[..., None]
) -> None:  # M107
    async def old() -> Any:
        await join({"x": a, "y": b}, name="j")
        await wait_for_signal("go")

    async def new() -> Any:
        removed("j", "join")
        await wait_for_signal("go")
        return "done"

    run = await engine.start(version(old))
    await engine.settle()
    deploy(version(new))
    await run.signal("go")
    assert await run.result() == "done"


async def test_an_unknown_kind_cannot_be_removed(engine: Engine) -> None:
    @workflow
    async def wrong() -> None:
        with pytest.raises(ValueError, match="kind"):
            removed("x", "stepp")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    run = await engine.start(wrong)
    await run.result()
    assert await run.history() == []
