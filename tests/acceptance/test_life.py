"""The life of an app: opened once, used while it is open and where it was opened, closed for good or opened again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Tenuto, step, workflow
from tenuto.errors import ConfigError, StoreUnavailableError

LIMIT = "20s"


@step
async def short() -> int:
    return 1


@workflow
async def quick() -> int:
    return await short()


async def test_an_app_is_refused_on_another_event_loop_and_closes_all_the_same(url: str) -> None:
    """A synchronous handler, a notebook, a test client: the first waiter must not tie the app to a loop that ends."""
    refused: list[str] = []
    app = Tenuto(url, grace=1)
    async with app:
        handle = app.get("r")

        async def there() -> None:
            for call in (app.start(quick, id="r"), handle.result(timeout=LIMIT), app.get("r").cancel()):
                with pytest.raises(ConfigError) as error:
                    await call
                refused.append(str(error.value))

        await asyncio.to_thread(lambda: asyncio.run(there()))
        assert len(refused) == 3
        assert all("belongs to another event loop" in text for text in refused)
        assert [run async for run in app.runs()] == []
        assert await (await app.start(quick, id="r")).result(timeout=LIMIT) == 1
    if url != "memory://":
        with pytest.raises(StoreUnavailableError):
            await app.store.runs()


async def test_the_store_is_closed_even_if_the_worker_cannot_be_stopped(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Tenuto(url, grace=0)
    closed: list[bool] = []
    await app.__aenter__()
    close, stop = app.store.close, app.engine._worker.stop  # type: ignore[attr-defined]  # the native one

    async def closing() -> None:
        closed.append(True)
        await close()

    async def failing() -> None:
        await stop()
        raise RuntimeError("no")

    monkeypatch.setattr(app.store, "close", closing)
    monkeypatch.setattr(app.engine._worker, "stop", failing)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="no"):
        await app.__aexit__()
    assert closed == [True]


async def test_an_app_that_is_open_is_not_opened_again(url: str) -> None:
    async with Tenuto(url, grace=1) as app:
        with pytest.raises(ConfigError, match="open already"):
            async with app:
                pass
        assert await (await app.start(quick)).result(timeout=LIMIT) == 1


async def test_an_app_is_of_no_use_before_it_is_opened_and_after_it_was_closed(url: str) -> None:
    """A start that nobody will execute must not be accepted."""
    app = Tenuto(url, grace=1)
    for opened in (False, True):
        if opened:
            async with app:
                assert await (await app.start(quick)).result(timeout=LIMIT) == 1
        for call in (
            lambda: app.start(quick),
            lambda: app.get("r").signal("go"),
            lambda: app.get("r").status(),
            lambda: app.enqueue(short),
            lambda: app.schedule("s", quick, every="1h"),
            lambda: app.each().cancel(),
        ):
            with pytest.raises(ConfigError, match="not open: use it inside `async with"):
                await call()
    await app.__aexit__()  # closing it again changes nothing


async def test_an_app_can_be_opened_again(lasting_url: str) -> None:
    app = Tenuto(lasting_url, grace=1)
    for number in range(3):
        async with app:
            run = await app.start(quick, id=f"r{number}")
            assert await run.result(timeout=LIMIT) == 1
    async with app:
        assert await app.get("r2").status() == "completed"


async def test_an_app_that_could_not_be_opened_can_be_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Tenuto(url, grace=1)
    register = app.store.register

    async def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("not now")

    monkeypatch.setattr(app.store, "register", failing)
    with pytest.raises(RuntimeError, match="not now"):
        await app.__aenter__()
    with pytest.raises(ConfigError, match="not open"):
        await app.start(quick)
    monkeypatch.setattr(app.store, "register", register)
    async with app:
        assert await (await app.start(quick)).result(timeout=LIMIT) == 1


# --- synchronous programs


def test_a_synchronous_app_is_opened_closed_and_opened_again(lasting_url: str) -> None:
    app = Tenuto.sync(lasting_url, grace=1)
    for number in range(2):
        with pytest.raises(ConfigError, match=r"not open: use it inside `with Tenuto.sync"):
            app.start(quick)
        with app:
            run = app.start(quick, id=f"r{number}")
            assert run.result(timeout=LIMIT) == 1
            with pytest.raises(ConfigError, match="open already"), app:
                pass
            assert run.status() == "completed"
        app.__exit__(None, None, None)  # closing it again changes nothing
        with pytest.raises(ConfigError, match="not open"):
            run.status()
        with pytest.raises(ConfigError, match="not open"):
            list(app.runs())
