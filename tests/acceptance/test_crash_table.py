"""Every row of the crash table: a worker killed with SIGKILL at that very point, and another that takes over."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import RunHandle, Tenuto
from tenuto.codec.rows import update_key
from tenuto.errors import RunCancelledError, UpdateRejectedError

SCRIPT = Path(__file__).with_name("crashing.py")
LIMIT = "30s"
READY = 2  # processes kept ready: importing takes longer than the rest

pytestmark = pytest.mark.slow


def _load() -> Any:
    if "tenuto_crashing" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_crashing", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_crashing"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["tenuto_crashing"]


crashing = _load()


class Processes:
    """Worker processes of our own, started before they are needed; each is ended by its id."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self._ready = [self._start() for _ in range(READY)]

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def take(self, url: str, marks: Path) -> subprocess.Popen[str]:
        process = self._ready.pop(0)
        self._ready.append(self._start())
        assert process.stdin is not None
        process.stdin.write(json.dumps({"url": url, "marks": str(marks)}) + "\n")
        process.stdin.flush()
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
        self._started.remove(process)

    def end_all(self) -> None:
        for process in list(self._started):
            self.end(process)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.end_all()


class World:
    """A client on a store of its own, and one worker process after the other."""

    def __init__(self, app: Tenuto, url: str, marks: Path, processes: Processes) -> None:
        self.app = app
        self._url = url
        self._marks = marks
        self._processes = processes
        self._mine: list[subprocess.Popen[str]] = []

    def worker(self) -> subprocess.Popen[str]:
        process = self._processes.take(self._url, self._marks)
        self._mine.append(process)
        return process

    async def has_died(self, process: subprocess.Popen[str]) -> None:
        assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL

    def executed(self, name: str) -> list[str]:
        """What was noted under this name, by all processes."""
        log = self._marks / f"{name}.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def command(self) -> None:
        """Lets steps that wait for it die, the first time, or go on."""
        (self._marks / "now").touch()

    def end(self) -> None:
        for process in self._mine:
            self._processes.end(process)

    # --- waiting

    async def until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        await self.app.wait_until(reached, LIMIT)

    async def until_suspended(self, run: RunHandle[Any]) -> None:
        async def reached() -> bool:
            return await run.status() == "suspended"

        await self.until(reached)

    async def until_mail(self, run: RunHandle[Any], count: int) -> None:
        async def reached() -> bool:
            return len(await self.app.store.mail(run.id, 0)) == count

        await self.until(reached)

    async def is_admitted(self, run: RunHandle[Any], update_id: str) -> bool:
        return bool(await self.app.store.rows(run.id, update_key(update_id)))


@pytest.fixture
async def world(lasting_url: str, tmp_path: Path, processes: Processes) -> AsyncIterator[World]:
    async with Tenuto(lasting_url, worker=False) as app:
        world = World(app, lasting_url, tmp_path, processes)
        yield world
        world.end()


async def locations(run: RunHandle[Any], status: str = "completed") -> list[str]:
    return [entry.location for entry in await run.history() if entry.status == status]


def asked(run: RunHandle[Any], name: str, *args: object, id: str) -> asyncio.Task[Any]:  # noqa: A002
    """An update under way, whose caller waits through every crash."""
    return asyncio.create_task(run.update(name, *args, id=id, timeout=LIMIT))


async def test_a_run_that_was_only_started_runs_from_the_top(world: World) -> None:
    """start recorded, nothing run"""
    run = await world.app.start(crashing.starting, "hello")
    await world.has_died(world.worker())
    assert await run.history() == []
    world.worker()
    assert await run.result(timeout=LIMIT) == "hello"
    assert len(world.executed("start")) == 2


async def test_signals_that_were_not_consumed_keep_their_places(world: World) -> None:
    """signal stored, not consumed"""
    run = await world.app.start(crashing.buffering)
    await run.signal("s", 1)
    await run.signal("s", 2)
    await run.signal("go")
    await world.has_died(world.worker())
    await run.signal("s", 3)
    world.worker()
    assert await run.result(timeout=LIMIT) == [1, 2, 3]


async def test_an_update_nobody_looked_at_is_decided_by_the_next_worker(world: World) -> None:
    """update stored, not looked at"""
    run = await world.app.start(crashing.entering)
    await run.signal("go")
    answer = asked(run, "grow", 4, id="u")
    await world.until_mail(run, 2)
    await world.has_died(world.worker())
    assert not await world.is_admitted(run, "u")
    assert not answer.done()
    world.worker()
    assert await answer == 5
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 5


async def test_an_update_validated_in_a_lost_turn_is_validated_again(world: World) -> None:
    """validator passed, turn not committed"""
    run = await world.app.start(crashing.admitting)
    first = world.worker()
    await world.until_suspended(run)
    before = await world.app.store.rows(run.id)
    answer = asked(run, "take", id="u")
    await world.has_died(first)
    assert await world.app.store.rows(run.id) == before
    assert len(world.executed("handler")) == 1
    world.worker()
    with pytest.raises(UpdateRejectedError, match="too late") as rejected:
        await answer
    assert rejected.value.why == "validator"
    assert len(world.executed("validator")) == 2
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 0


async def test_the_handler_of_an_accepted_update_goes_on_from_its_recorded_steps(world: World) -> None:
    """accepted, handler in a step"""
    run = await world.app.start(crashing.accepting)
    first = world.worker()
    await world.until_suspended(run)
    answer = asked(run, "take", id="u")
    await world.has_died(first)
    assert await world.is_admitted(run, "u")
    world.worker()
    assert await answer == ["first done", "second done"]
    assert len(world.executed("validator")) == 1
    assert len(world.executed("first")) == 1
    assert len(world.executed("second")) == 2
    await run.signal("stop")
    assert await run.result(timeout=LIMIT) == 1


async def test_a_reply_that_was_committed_is_given_again(world: World) -> None:
    """reply committed, answer lost"""
    run = await world.app.start(crashing.replying)
    first = world.worker()
    await world.until_suspended(run)
    lost = asked(run, "last", id="u")
    await world.has_died(first)
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    assert await run.update("last", id="u", timeout=LIMIT) == "handled done"  # with no worker alive
    world.worker()
    assert await run.result(timeout=LIMIT) == "after done"
    assert await run.update("last", id="u", timeout=LIMIT) == "handled done"
    assert len(world.executed("handled")) == 1


async def test_a_step_whose_result_was_lost_runs_again_under_its_key(world: World) -> None:
    """step ran, result not committed"""
    run = await world.app.start(crashing.stepping)
    await world.has_died(world.worker())
    assert await locations(run) == []
    world.worker()
    assert await run.result(timeout=LIMIT) == "step done"
    first, second = world.executed("step")
    assert first == second


async def test_a_side_effect_that_was_lost_is_computed_again_and_then_fixed(world: World) -> None:
    """side effect computed, not committed"""
    run = await world.app.start(crashing.drawing)
    await world.has_died(world.worker())
    assert await run.history() == []
    await world.has_died(world.worker())
    assert await locations(run) == ["side_effect"]
    world.worker()
    lost, kept = world.executed("drawn")
    assert await run.result(timeout=LIMIT) == kept != lost
    assert world.executed("drawn") == [lost, kept]


async def test_queries_see_the_snapshot_of_the_last_commit(world: World) -> None:
    """`publish_state` called, turn not committed"""
    run = await world.app.start(crashing.publishing)
    first = world.worker()
    await world.until_suspended(run)
    await run.signal("go")
    await world.has_died(first)
    assert await run.query() == "first"
    world.worker()
    await run.signal("end")
    await run.result(timeout=LIMIT)
    assert await run.query() == "second"


async def test_a_receive_that_stopped_waits_for_exactly_the_functions_in_flight(world: World) -> None:
    """`Stop` returned, async functions in flight"""
    run = await world.app.start(crashing.draining)
    first = world.worker()
    await world.until_suspended(run)
    answers = [asked(run, "begin", name, id=name) for name in ("a", "b")]
    for name in ("a", "b"):
        await world.until(lambda name=name: world.is_admitted(run, name))  # type: ignore[misc]
    assert await run.update("drain", timeout=LIMIT) == "draining"
    late = asked(run, "begin", "late", id="late")
    with pytest.raises(UpdateRejectedError):
        await late
    world.command()
    await world.has_died(first)
    assert await run.query() is None
    world.worker()
    assert await asyncio.gather(*answers) == ["a done", "b done"]
    assert await run.result(timeout=LIMIT) == ["a done", "b done"]
    assert world.executed("late") == []


async def test_a_timer_that_came_due_meanwhile_fires_after_the_messages_before_it(world: World) -> None:
    """timer due, not processed"""
    run = await world.app.start(crashing.timing)
    first = world.worker()
    await world.until_suspended(run)
    record = await world.app.store.get(run.id)
    assert record is not None
    deadline = record.alarm
    assert deadline is not None
    await run.signal("append", "deadly")
    await world.has_died(first)
    await run.signal("append", "in time")
    assert await world.app.store.now() < deadline

    async def is_due() -> bool:
        return await world.app.store.now() > deadline

    await world.until(is_due)
    assert await run.status() not in ("completed", "failed")
    world.worker()
    assert await run.result(timeout=LIMIT) == (["deadly", "in time"], True)


async def test_branches_that_finished_keep_their_results(world: World) -> None:
    """`parallel` half done"""
    run = await world.app.start(crashing.branching)
    first = world.worker()

    async def half_done() -> bool:
        return any("crash-work" in location for location in await locations(run))

    await world.until(half_done)
    world.command()
    await world.has_died(first)
    world.worker()
    assert await run.result(timeout=LIMIT) == ["quick done", "slow done"]
    assert len(world.executed("quick")) == 1
    assert len(world.executed("slow")) == 2


async def test_a_run_continues_as_new_once(world: World) -> None:
    """continue-as-new not committed / committed"""
    run = await world.app.start(crashing.continuing, 1)
    first = world.worker()
    await world.until_suspended(run)
    await run.signal("go")
    await world.has_died(first)
    assert await locations(run) == ["crash-work"]  # not committed: the first run is there, with its history
    await world.has_died(world.worker())
    assert len(world.executed("first run")) == 2
    assert len(world.executed("before")) == 1
    assert await run.history() == []  # committed: only the next run exists
    world.worker()
    assert await run.result(timeout=LIMIT) == (2, 2, "behind done")
    assert len(world.executed("first run")) == 2
    assert len(world.executed("second run")) == 2


async def test_a_clean_up_that_was_cut_short_goes_on_and_is_cancelled_once(world: World) -> None:
    """cancel stored, clean-up half done"""
    run = await world.app.start(crashing.cancelled)
    first = world.worker()
    await world.until_suspended(run)
    await run.cancel("enough")
    await world.has_died(first)
    assert await run.status() != "cancelled"
    world.worker()
    with pytest.raises(RunCancelledError):
        await run.result(timeout=LIMIT)
    assert len(world.executed("half")) == 1
    assert len(world.executed("other half")) == 2
    assert world.executed("delivered twice") == []


async def test_a_signal_and_a_start_that_were_committed_happen_once(world: World) -> None:
    """M092, 4.9: the sender dies before it has heard that both were committed."""
    receiver = await world.app.start(crashing.taking)
    run = await world.app.start(crashing.sending, receiver.id)
    await world.has_died(world.worker())
    world.worker()
    assert await run.result(timeout=LIMIT) == "sent"
    assert await world.app.get("detached").result(timeout=LIMIT) == "detached done"
    await receiver.signal("s", "from outside")
    assert await receiver.result(timeout=LIMIT) == ["from the sender", "from outside"]
    assert len(world.executed("detached")) == 1
    assert await locations(run) == ["send:s", "child:crash-starting-late"]
