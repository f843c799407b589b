"""The example that uses nothing but directives: it runs, survives crashes, and its tools see the user's own lines."""

from __future__ import annotations

import asyncio
import bdb
import importlib
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from tenuto.directives import install
from tenuto.errors import RunFailedError
from tenuto.testing import Engine

EXAMPLE = Path(__file__).parents[3] / "examples" / "directives"


@pytest.fixture
def orders(project: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example's main module, compiled."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    install()
    yield importlib.import_module("parcels.orders")
    for name in [name for name in sys.modules if name.partition(".")[0] == "parcels"]:
        del sys.modules[name]


def parcel(orders: ModuleType, to: str = "Ghent", grams: int = 1500) -> Any:
    return orders.Parcel(to, grams)


EXPECTED = {"receipt": "receipt-ada-600", "tracking": "P-ada-600@Ghent", "days": 2}


@pytest.mark.parametrize("crash_everywhere", [False, True])
async def test_an_order_runs_to_its_end_also_if_every_turn_is_followed_by_a_crash(
    orders: ModuleType, crash_everywhere: bool
) -> None:
    engine = Engine(crash_everywhere=crash_everywhere)
    run = await engine.start(orders.ship, "ada", parcel(orders))
    assert await run.result() == EXPECTED
    engine.close()


async def test_an_order_that_is_killed_between_steps_resumes_where_it_was(orders: ModuleType) -> None:
    engine = Engine()
    run = await engine.start(orders.ship, "ada", parcel(orders))
    await engine.settle()
    before = list(orders.carrier.LOG)
    assert before == ["quote Ghent", "charge ada", "hand over P-ada-600"]
    engine.crash()
    assert await run.result() == EXPECTED
    assert [*before, "notify ada: P-ada-600@Ghent has arrived"] == orders.carrier.LOG
    engine.close()


async def test_static_methods_are_steps_of_a_run(orders: ModuleType) -> None:
    engine = Engine()
    run = await engine.start(orders.ship_all, "ada", [parcel(orders, grams=g) for g in (1, 2)])
    assert await run.result() == [19_999, 19_998]
    engine.close()


async def test_a_failure_shows_the_lines_of_the_example(orders: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    run = await engine.start(orders.ship, "ada", "no parcel")
    with pytest.raises(RunFailedError) as caught:
        await run.result()
    text = "".join(str(v) for e in _chain(caught.value) for v in vars(e).values())
    line = 1 + next(i for i, t in enumerate(_source("carrier.py")) if 'LOG.append(f"quote' in t)
    assert f'parcels/carrier.py", line {line}, in quote' in text
    call = 1 + next(i for i, t in enumerate(_source("orders.py")) if "await carrier.quote" in t)
    assert f'parcels/orders.py", line {call}, in ship' in text
    engine.close()


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _source(name: str) -> list[str]:
    return (EXAMPLE / "parcels" / name).read_text(encoding="utf-8").splitlines()


def test_a_breakpoint_stops_at_the_line_where_it_was_set(orders: ModuleType) -> None:
    file = str(EXAMPLE / "parcels" / "orders.py")
    lines = _source("orders.py")
    wanted = {1 + i for i, text in enumerate(lines) if "receipt = await" in text or 'return f"{prefix}' in text}

    class Debugger(bdb.Bdb):
        stopped: set[int] = set()  # noqa: RUF012  # one test, one debugger

        def user_line(self, frame: FrameType) -> None:
            if self.break_here(frame):
                self.stopped.add(frame.f_lineno)
            self.set_continue()

    debugger = Debugger()
    for line in wanted:
        assert debugger.set_break(file, line) is None

    async def main() -> None:
        engine = Engine()
        await (await engine.start(orders.ship, "ada", parcel(orders))).result()
        engine.close()

    debugger.runcall(asyncio.run, main())
    assert debugger.stopped == wanted


def test_getsource_gives_the_source(orders: ModuleType) -> None:
    assert inspect.getsource(orders.charge).startswith("@step_options(max_attempts=5")
    assert inspect.getsource(orders.ship).splitlines()[2] == '    "use workflow"'
    assert inspect.getsource(orders.Depot.capacity).strip().startswith("@staticmethod")
    assert inspect.getsourcelines(orders.ship.fn)[1] == inspect.getsourcelines(orders.ship)[1]


def test_the_main_program_runs_by_tenuto_run() -> None:
    start = "from tenuto.cli import main; main(['run', 'main.py'])"
    done = subprocess.run([sys.executable, "-B", "-c", start], cwd=EXAMPLE, capture_output=True, text=True, check=True)
    assert done.stdout == f"{EXPECTED}\n"


DRIVER = """\
import asyncio, os, sys
from parcels import carrier
from parcels.models import Parcel
from parcels.orders import ship
from tenuto import Tenuto

async def main():
    async with Tenuto(sys.argv[1], lease="300ms", grace=1) as app:
        run = await app.start(ship, "ada", Parcel("Ghent", 1500), "400ms", id="order-1")
        if sys.argv[2] == "die":
            while not any(entry.location == "sleep" for entry in await run.history()):
                await asyncio.sleep(0)
            print(carrier.LOG, flush=True)
            os._exit(9)
        print(await run.result(), carrier.LOG)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_process_leaves_an_order_that_another_one_finishes(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    shutil.copytree(EXAMPLE / "parcels", tmp_path / "parcels", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pyproject.toml").write_text("[tool.tenuto]\n")
    start = "import sys; from tenuto.cli import main; main(['run', 'driver.py', *sys.argv[1:]])"
    command = [sys.executable, "-c", start, f"sqlite:///{tmp_path / 'orders.db'}"]
    first = subprocess.run([*command, "die"], cwd=tmp_path, capture_output=True, text=True)
    assert (first.returncode, first.stderr) == (9, "")
    assert first.stdout == "['quote Ghent', 'charge ada', 'hand over P-ada-600']\n"
    second = subprocess.run([*command, "live"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert second.returncode == 0, second.stderr
    expected = {**EXPECTED, "days": 0}
    assert second.stdout == f"{expected} ['notify ada: P-ada-600@Ghent has arrived']\n"
