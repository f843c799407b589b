"""An engine takes clocks, entropy, threads and pace from the system it is given, and from nowhere else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tenuto import hook, step, workflow
from tenuto.codec.values import load
from tenuto.host.engine import NativeEngine
from tenuto.host.leases import Renewal
from tenuto.host.options import WorkerOptions
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Store
from tenuto.store.sqlite import SqliteStore
from tenuto.system import REAL, Clock, Pace, System

T = TypeVar("T")

OPTIONS: WorkerOptions = {
    "queues": None,
    "concurrency": 10,
    "lease_ms": 30_000,
    "block_limit": 10.0,
    "grace": 1.0,
    "max_reclaims": 3,
    "retention_ms": None,
    "cache_bytes": 2**20,
}


class Counting:
    """Entropy that can be foreseen."""

    def __init__(self) -> None:
        self.given = 0

    def token(self, size: int, /) -> bytes:
        self.given += 1
        return self.given.to_bytes(size, "big")


class LoopLane:
    """Does its work on the event loop that puts it."""

    def __init__(self, name: str) -> None:
        self._left = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, work: Callable[[], None]) -> None:
        self._left += 1
        self._idle.clear()
        asyncio.get_running_loop().call_soon(self._do, work)

    def _do(self, work: Callable[[], None]) -> None:
        work()
        self._left -= 1
        if not self._left:
            self._idle.set()

    def may_inline(self) -> bool:
        return False

    async def close(self) -> None:
        await self._idle.wait()


class LoopControl:
    """Runs beside user code, as a task."""

    def start(self, beat: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.create_task(beat())

    def post(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def main_stack(self) -> str:
        return "the stack"

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class LoopRunner:
    """Calls `def` bodies where they are awaited."""

    async def sync(self, call: Callable[[], T]) -> T:
        return call()

    def coroutine(self, body: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return body

    def close(self) -> None:
        """Nothing to do."""


def on_the_loop(entropy: Counting, clock: Clock = REAL.clock, pace: Pace | None = None) -> System:
    return System(clock, entropy, pace or Pace(), LoopLane, LoopControl, LoopRunner)


@step
def where() -> str:
    return threading.current_thread().name


@workflow
async def tells() -> list[Any]:
    opened = await hook()
    return [opened.token, await where()]


def store_of(kind: str, folder: Path, system: System) -> Store:
    if kind == "memory":
        return MemoryStore(system=system)
    return SqliteStore(folder / "x.db", sync="normal", system=system)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_on_another_system_makes_no_thread_and_asks_nobody_else_for_ids(kind: str, tmp_path: Path) -> None:
    told: list[tuple[str, list[Any], str]] = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        system = on_the_loop(Counting())
        engine = NativeEngine(store_of(kind, tmp_path / str(number), system), OPTIONS, system=system)
        before = set(threading.enumerate())
        await engine.open()
        run_id = await engine.start(tells.id, (), {}, {})
        ending = await engine.ending(run_id, "20s")
        assert set(threading.enumerate()) == before
        told.append((run_id.rpartition("-")[2][11:], load(ending.value), await engine.store.identity()))
        await engine.close()
    assert told[0] == told[1]
    assert told[0][1][1] == threading.current_thread().name


class Beats:
    """A store that renews leases as long as it is told to."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers = answers
        self.asked = asyncio.Event()

    async def heartbeat(self, worker_id: str, lease_ms: int) -> bool:
        if len(self.answers) == 1:
            self.asked.set()
        return self.answers.pop(0)


class Leaping:
    """A clock that is a lease further at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    def wall_ms(self) -> int:
        return 0

    def pause(self, seconds: float, /) -> None:
        raise AssertionError("no lane is used")


async def test_a_lease_is_renewed_by_the_clock_of_the_system_until_it_is_lost() -> None:
    lost = asyncio.Event()
    store: Any = Beats([True, True, False])
    system = on_the_loop(Counting(), Leaping(), Pace(beat=0.0))
    renewal = Renewal(store, "w", 300, 60.0, lost.set, system)
    renewal.start()
    async with asyncio.timeout(10):
        await lost.wait()
    assert store.answers == []
    await renewal.stop()


async def test_at_a_quiet_pace_no_lease_is_renewed() -> None:
    store: Any = Beats([True])
    renewal = Renewal(store, "w", 300, 60.0, lambda: None, on_the_loop(Counting(), pace=Pace.quiet()))
    renewal.start()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not store.asked.is_set()
    await renewal.stop()
