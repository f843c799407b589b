"""`show`, `explain` and `runs` for eight situations people meet, as snapshots.

Real runs, executed by a real worker on a SQLite file whose clock the test sets; ids and times are the same every time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tenuto import Retry, RunHandle, Task, Tenuto, publish_state, sleep, step, wait_for_signal, workflow
from tenuto.cli.loading import load_apps
from tenuto.model.registry import default
from tenuto.store.port import Store
from tenuto.store.urls import store_of

SITUATIONS = ("sleeping", "waiting", "retrying", "stuck", "diverged", "unserved", "cancelled", "finished")


@dataclass
class Clock:
    """Milliseconds that stand still unless something moves them."""

    now: int = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@dataclass
class Shop:
    """A store with one run in each situation."""

    url: str
    clock: Any


class Ticking:
    """The clock that steps move: work takes time here."""

    clock: Any = None


@step
async def pack(what: str) -> str:
    Ticking.clock.advance(1.5)
    return f"{what}, packed"


@step(retry=Retry(max_attempts=5, base="1h", cap="1h"))
async def charge(cents: int) -> str:
    Ticking.clock.advance(0.25)
    raise ConnectionError("the bank is closed\x1b[31m")


@step(queue="gpu")
async def render(what: str) -> str:
    return what


@workflow
async def sleeping(what: str) -> str:
    packed = await pack(what)
    await sleep("1h")
    return packed


@workflow
async def waiting(what: str) -> Any:
    await pack(what)
    publish_state({"stage": "approval", "items": 1})
    return await wait_for_signal("approve")


@workflow
async def retrying(cents: int) -> str:
    return await charge(cents)


@workflow
async def unserved(what: str) -> str:
    await pack(what)
    return await Task.run(render, what)


@workflow
async def finished(what: str, *, gift: bool = False) -> dict[str, Any]:
    packed = await pack(what)
    await sleep("10s")
    return {"parcel": packed, "gift": gift, "note": "\x1b]0;owned\x07"}


DEPLOYED = """
from tenuto import step, wait_for_signal, workflow

@step(name="{name}")
async def {name}(what: str) -> str:
    return what

@workflow(name="diverged")
async def diverged(what: str) -> str:
    done = await {name}(what)
    await wait_for_signal("go")
    return done
"""


def load_deployed(folder: Path, name: str) -> None:
    """Loads a workflow whose first step has this name: before the deploy one, after it another."""
    file = folder / f"deployed_{name}.py"
    file.write_text(DEPLOYED.format(name=name), encoding="utf-8")
    default.forget("diverged")
    load_apps([str(file)])


async def reached(run: RunHandle[Any], status: str, entries: int = 0) -> None:
    async with asyncio.timeout(20):
        while await run.status() != status or len(await run.history()) < entries:
            await asyncio.sleep(0.005)


async def settle(app: Tenuto, clock: Any) -> None:
    """Starts what comes to rest while a worker is there."""
    await reached(
        await app.start(sleeping, "violin", id="order-sleeping", attributes={"shop": "vienna"}), "suspended", 2
    )
    await reached(await app.start(waiting, "cello", id="order-waiting"), "suspended", 1)
    await reached(await app.start(retrying, 4200, id="order-retrying"), "suspended", 1)
    await reached(await app.start("diverged", "harp", id="order-diverged"), "suspended", 1)
    await reached(await app.start(unserved, "poster", id="order-unserved"), "suspended", 2)
    cancelled = await app.start(waiting, "flute", id="order-cancelled")
    await reached(cancelled, "suspended", 1)
    await cancelled.cancel("the customer left")
    await reached(cancelled, "cancelled")
    done = await app.start(finished.bind("drum", gift=True), id="order-finished")
    await reached(done, "suspended", 2)
    clock.advance(10)
    await done.wake()
    assert await done.result(timeout="20s")


async def get_stuck(store: Store, app: Tenuto, clock: Any) -> None:
    """Every worker that takes this run dies."""
    await app.start(sleeping, "tuba", id="order-stuck")
    for number in range(6):
        await store.register(f"w-{number}", 1_000, "same", {}, None)
        await store.claim_runs(f"w-{number}", [sleeping.id], 1)
        await store.claim_suspects(f"w-{number}", ([sleeping.id], []), None, (1, 1), 0)
        clock.advance(2)
        await store.sweep(3, 100)
        clock.advance(40)
        await store.fire_timers(100)
        if (await app.get("order-stuck").status()) == "parked":
            return


async def deploy(url: str) -> None:
    """The step of one workflow is called otherwise from now on."""
    async with Tenuto(url, queues=["default"], grace=1) as app:
        run = app.get("order-diverged")
        await run.signal("go", 1)
        await reached(run, "parked")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    clock = Ticking.clock = Clock()
    url = f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("path", "meta_path"):  # what loading code does to this process is undone
            patch.setattr(sys, name, list(getattr(sys, name)))
        patch.setattr("tenuto.engines.store_of", lambda given, *_, **options: store_of(given, clock, **options))
        patch.setattr("tenuto.cli.connect.system_clock", clock)
        folder = tmp_path_factory.mktemp("code")
        load_deployed(folder, "weigh")
        asyncio.run(_settle(url, clock))
        load_deployed(folder, "measure")
        asyncio.run(_go_wrong(url, clock))
        clock.advance(60)
        yield Shop(url, clock)
    for name in ("diverged", "weigh", "measure"):
        default.forget(name)


async def _settle(url: str, clock: Any) -> None:
    async with Tenuto(url, queues=["default"], grace=1) as app:
        await settle(app, clock)


async def _go_wrong(url: str, clock: Any) -> None:
    await deploy(url)
    async with Tenuto(url, worker=False) as app:
        await get_stuck(app.store, app, clock)
        await app.store.register("w-alive", 10**9, "same", {}, ["default"])


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_shown_as_in_the_snapshot(
    situation: str, shop: Shop, tenuto: Callable[..., Result], golden: Callable[[str, str], None]
) -> None:
    shown = tenuto("show", f"order-{situation}", "--url", shop.url)
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.output
    golden(f"show/{situation}", shown.stdout)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_run_is_explained_as_in_the_snapshot(
    situation: str, shop: Shop, tenuto: Callable[..., Result], golden: Callable[[str, str], None]
) -> None:
    """R073"""
    explained = tenuto("explain", f"order-{situation}", "--url", shop.url)
    assert explained.exit_code == 0, explained.output
    golden(f"explain/{situation}", explained.stdout)


def test_the_list_of_runs_is_the_one_in_the_snapshot(
    shop: Shop, tenuto: Callable[..., Result], golden: Callable[[str, str], None]
) -> None:
    listed = tenuto("runs", "--url", shop.url)
    assert listed.exit_code == 0, listed.output
    golden("runs/all", listed.stdout)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--status", "stuck"], {"order-stuck"}),
        (["--status", "parked"], {"order-stuck", "order-diverged"}),
        (["--status", "closed"], {"order-cancelled", "order-finished"}),
        (["--workflow", "waiting"], {"order-waiting", "order-cancelled"}),
        (["--workflow", "waiting", "--status", "open"], {"order-waiting"}),
        (["--attribute", "shop=vienna"], {"order-sleeping"}),
        (["--limit", "1", "--status", "open"], {"order-stuck"}),
        (["--since", "1s"], set()),
    ],
)
def test_runs_are_filtered(arguments: list[str], expected: set[str], shop: Shop, tenuto: Callable[..., Result]) -> None:
    listed = tenuto("runs", *arguments, "--json", "--url", shop.url)
    assert listed.exit_code == 0, listed.output
    assert {run["id"] for run in json.loads(listed.stdout)} == expected


def test_a_page_says_as_json_what_it_says_in_text(shop: Shop, tenuto: Callable[..., Result]) -> None:
    page = json.loads(tenuto("show", "order-finished", "--json", "--url", shop.url).stdout)
    assert page["summary"]["status"] == "completed"
    assert page["result"] == {"parcel": "drum, packed", "gift": True, "note": "\x1b]0;owned\x07"}
    assert [entry["location"] for entry in page["history"]] == ["pack", "sleep"]
    waiting_for = json.loads(tenuto("explain", "order-waiting", "--json", "--url", shop.url).stdout)
    assert waiting_for["signals"] == ["approve"]


def test_the_published_state_is_read_without_a_worker(shop: Shop, tenuto: Callable[..., Result]) -> None:
    asked = tenuto("query", "order-waiting", "--url", shop.url)
    assert asked.stdout == '{"stage": "approval", "items": 1}\n'


def test_looking_leaves_the_file_as_it_is(shop: Shop, tenuto: Callable[..., Result]) -> None:
    file = Path(shop.url.removeprefix("sqlite:///"))
    before = file.read_bytes()
    for words in (["runs"], ["show", "order-waiting"], ["explain", "order-stuck"], ["query", "order-waiting"]):
        assert tenuto(*words, "--url", shop.url).exit_code == 0
    assert file.read_bytes() == before
