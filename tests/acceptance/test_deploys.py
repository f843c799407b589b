"""Deploys on runs that are under way, on real stores: every version in an app of its own, as after a restart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenuto import Tenuto, now, removed, step, wait_for_signal, workflow
from tenuto.model.registry import default
from tenuto.testing import Engine

LIMIT = "30s"
PERFORMED: list[str] = []


@step(name="deploy-a")
async def a() -> str:
    PERFORMED.append("a")
    return "A"


@step(name="deploy-b")
async def b() -> str:
    PERFORMED.append("b")
    return "B"


@step(name="deploy-x")
async def x() -> str:
    PERFORMED.append("x")
    return "X"


@step(name="deploy-y", queue="default")
async def y() -> str:
    PERFORMED.append("y")
    return "Y"


Body = Callable[[], Awaitable[str]]


class Deploys:
    """One store, and one version of the workflow after another on it."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url = url
        self._monkeypatch = monkeypatch
        self._version = 0

    @asynccontextmanager
    async def version(self, body: Body) -> AsyncGenerator[Tenuto]:
        """An app whose workflow has this body."""
        self._version += 1
        self._monkeypatch.setenv("TENUTO_APP_VERSION", str(self._version))
        async with self.restarted(body) as app:
            yield app

    @asynccontextmanager
    async def restarted(self, body: Body) -> AsyncGenerator[Tenuto]:
        """The same version once more."""
        default.forget("deploys")

        @workflow(name="deploys")
        async def deployed() -> str:
            return await body()

        async with Tenuto(self._url, grace=1) as app:
            run = await app.start(deployed, id="r", if_exists="attach")
            if await run.status() == "suspended":
                await run.wake()  # a turn of this version
            yield app


@pytest.fixture
def deploys(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    PERFORMED.clear()
    yield Deploys(lasting_url, monkeypatch)
    default.forget("deploys")


async def reached(app: Tenuto, *statuses: str) -> None:
    async def is_there() -> bool:
        return await app.get("r").status() in statuses

    await app.wait_until(is_there, LIMIT)


async def reason(app: Tenuto) -> str:
    (summary,) = [run async for run in app.runs()]
    assert summary.reason is not None
    return summary.reason


async def _a_then_b() -> str:
    result = await a() + await b()
    await wait_for_signal("go")
    return result


@pytest.mark.parametrize("inserted", [x, y], ids=["inline", "queued"])
async def test_neither_resume_nor_a_restart_performs_an_inserted_step_again(deploys: Deploys, inserted: Any) -> None:
    """K133, P2"""

    async def shorter() -> str:
        result = str(await inserted()) + await a()
        if now().year > 2000:
            return result  # b is still in the text, and is not reached
        return result + await b()

    async def mended() -> str:
        result = str(await inserted()) + await a() + await b()
        await wait_for_signal("go")
        return result

    performed = [inserted.name[-1]]
    async with deploys.version(_a_then_b) as app:
        await reached(app, "suspended")
    PERFORMED.clear()
    async with deploys.version(shorter) as app:
        await reached(app, "parked")
        assert "deploy-b" in await reason(app)
        for _ in range(3):
            await app.get("r").resume()
            await reached(app, "parked")
        assert performed == PERFORMED
    async with deploys.restarted(shorter) as app:
        await app.get("r").resume()
        await reached(app, "parked")
        assert performed == PERFORMED
    async with deploys.version(mended) as app:
        await app.get("r").signal("go")
        assert await app.get("r").result(timeout=LIMIT) == f"{inserted.name[-1].upper()}AB"
        assert performed == PERFORMED


async def test_a_run_whose_steps_were_swapped_goes_on_through_restarts(deploys: Deploys) -> None:
    """K131"""

    async def swapped() -> str:
        result = await b() + await a()
        await wait_for_signal("go")
        await wait_for_signal("go")
        return result

    async with deploys.version(_a_then_b) as app:
        await reached(app, "suspended")
    async with deploys.version(swapped) as app:
        await app.get("r").signal("go")
        await reached(app, "suspended")
    async with deploys.restarted(swapped) as app:
        await reached(app, "suspended")
    async with deploys.restarted(swapped) as app:
        await app.get("r").signal("go")
        assert await app.get("r").result(timeout=LIMIT) == "BA"
    assert PERFORMED == ["a", "b"]


async def test_a_step_in_front_of_removed_at_the_end_of_a_run_lets_it_complete(deploys: Deploys) -> None:
    """K132"""

    async def old() -> str:
        await a()
        return str(await wait_for_signal("go"))

    async def new() -> str:
        await x()
        removed("deploy-a", "step")
        return "done"

    async with deploys.version(old) as app:
        await reached(app, "suspended")
    async with deploys.version(new) as app:
        assert await app.get("r").result(timeout=LIMIT) == "done"
    assert PERFORMED == ["a", "x"]


async def test_a_run_that_ends_right_behind_an_inserted_step_ends_at_once(deploys: Deploys) -> None:
    """D6: no message and no restart is needed"""

    async def old() -> str:
        await a()
        return str(await wait_for_signal("go"))

    async def new() -> str:
        return await x() + await a()

    async with deploys.version(old) as app:
        await reached(app, "suspended")
    async with deploys.version(new) as app:
        assert await app.get("r").result(timeout=LIMIT) == "XA"
    assert PERFORMED == ["a", "x"]


async def test_a_run_parked_by_an_exception_of_new_code_says_so_first(deploys: Deploys) -> None:
    """K134"""

    async def broken() -> str:
        result = await a()
        undefined_name + 1  # noqa: F821  # pyright: ignore
        return result + await b()

    async with deploys.version(_a_then_b) as app:
        await reached(app, "suspended")
    async with deploys.version(broken) as app:
        await reached(app, "parked")
        line = broken.__code__.co_firstlineno + 2
        assert f"the code raised NameError: name 'undefined_name' is not defined at {__file__}:{line}" in await reason(
            app
        )
        assert "removed" not in await reason(app)
    async with deploys.version(_a_then_b) as app:
        await app.get("r").signal("go")
        assert await app.get("r").result(timeout=LIMIT) == "AB"


@pytest.mark.parametrize("kind", ["engine", "crashing_engine"])
async def test_the_engine_of_tests_takes_swapped_and_inserted_steps_as_the_stores_do(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K131, K133"""
    engine: Engine = request.getfixturevalue(kind)
    PERFORMED.clear()

    async def swapped() -> str:
        result = await b() + await a()
        await wait_for_signal("go")
        await wait_for_signal("go")
        return result

    async def shorter() -> str:
        return await x() + await a()

    def version(number: int, body: Body) -> Any:
        default.forget("deploys")
        monkeypatch.setenv("TENUTO_APP_VERSION", str(number))

        @workflow(name="deploys")
        async def deployed() -> str:
            return await body()

        return deployed

    run = await engine.start(version(1, _a_then_b), id="r")
    other = await engine.start(version(1, _a_then_b), id="other")
    await engine.settle()
    for _ in range(2):
        engine.reload(version(2, swapped))
        await run.signal("go")
        await engine.settle()
    assert await run.result() == "BA"
    PERFORMED.clear()
    for _ in range(3):
        engine.reload(version(3, shorter))
        await engine.settle()
    assert await other.status() == "parked"
    assert PERFORMED == ["x"]
    default.forget("deploys")


SHOP = """
import logging
from deploy_helpers import prepare
from tenuto import step, wait_for_signal, workflow

log = logging.getLogger(__name__)
performed = []


def fetch(order):
    return order.strip().upper()


@step
async def charge(order):
    performed.append("charge")
    return order


async def main(app):
    run = await app.start(shop, " a ")
    return await run.result()


@workflow(name="deploy-shop")
async def shop(order):
    log.info("charging %s", order.strip())
    await prepare(order)
    await charge(await step("fetch", fetch, order))
    return await wait_for_signal("go")
"""
HELPERS = """
from tenuto import step


@step(name="deploy-prepare")
async def prepared(order): ...


async def prepare(order):
    await prepared(order.strip())
"""


async def test_a_renamed_step_of_an_ordinary_module_is_noticed_before_it_runs(
    lasting_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K135: a logger, methods of an argument, a helper of another file, a named function, a `main()`"""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "deploy_helpers.py").write_text(HELPERS)

    def version(name: str, text: str) -> Any:
        default.forget("deploy-shop")
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    try:
        first = version("deploy_shop_1", SHOP)
        async with Tenuto(lasting_url, grace=1) as app:
            await app.start(first.shop, " a ", id="r")
            await reached(app, "suspended")
        assert first.performed == ["charge"]
        second = version("deploy_shop_2", SHOP.replace("charge(", "charge_card("))
        async with Tenuto(lasting_url, grace=1) as app:
            await app.get("r").wake()
            await reached(app, "parked")
            assert "TN104 at charge: history has a step" in await reason(app)
        assert second.performed == []
        third = version("deploy_shop_3", SHOP)
        async with Tenuto(lasting_url, grace=1) as app:
            await app.get("r").resume()
            await app.get("r").signal("go", 1)
            assert await app.get("r").result(timeout=LIMIT) == 1
        assert third.performed == []
    finally:
        for name in ("deploy_helpers", "deploy_shop_1", "deploy_shop_2", "deploy_shop_3"):
            sys.modules.pop(name, None)
        for step_ in default.definitions("step"):
            if step_.id == "deploy-prepare" or "deploy_shop_" in step_.id:
                default.forget(step_.id)
        default.forget("deploy-shop")
