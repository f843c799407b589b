"""The event loop of a run: ordinary asyncio, deterministic, without an outside."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenuto import now, sleep, step
from tenuto.errors import ForeignCallError, RunawayTurnError
from tenuto.kernel.commands import CancelTimer
from tenuto.kernel.facts import CancelAsked
from tenuto.kernel.location import text
from tenuto.kernel.operations import Cancelled
from tenuto.kernel.records import Sleep

START = 1_700_000_000_000


def work(*args: Any) -> None: ...


# --- ordinary asyncio


async def everything() -> Any:
    """Every primitive of asyncio that waits for something inside the run, around steps, over one shared list."""
    log: list[Any] = []
    event = asyncio.Event()

    async def waits(name: str) -> None:
        await event.wait()
        log.append(name)

    async def sets() -> None:
        log.append(await step("set", work))
        event.set()

    async def locked(lock: asyncio.Lock, name: str) -> None:
        async with lock:
            log.append(await step(name, work))
            await asyncio.sleep(0)
            log.append(f"{name} unlocks")

    async def limited(semaphore: asyncio.Semaphore, name: str) -> None:
        async with semaphore:
            log.append(await step(name, work))

    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    async def produce(name: str) -> None:
        await queue.put(await step(name, work))
        log.append(f"put {name}")

    async def consume() -> None:
        for _ in range(3):
            log.append(f"got {await queue.get()}")
            await step("eaten", work)

    lock, semaphore = asyncio.Lock(), asyncio.Semaphore(2)
    async with asyncio.TaskGroup() as group:
        for name in ("w1", "w2"):
            group.create_task(waits(name))
        group.create_task(sets())
        for name in ("l1", "l2", "l3"):
            group.create_task(locked(lock, name))
        for n in range(4):
            group.create_task(limited(semaphore, f"s{n}"))
        group.create_task(consume())
        for name in ("p1", "p2", "p3"):
            group.create_task(produce(name))
    log.append(await asyncio.gather(*(step(f"g{n}", work) for n in range(3))))
    return log


def drive_in_order(run: Any, seed: int) -> Any:
    """Completes what is in flight in an order drawn from a seed, the same for equal sets of released steps."""
    chance = random.Random(seed)
    run.turn()
    while run.outcome is None:
        keys = sorted(run.in_flight, key=lambda key: text(key[0]))
        run.turn(run.attempt(chance.choice(keys), _Echo()), now=run.now + 1)
    return run.result


class _Echo(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return lambda attempt: name


@pytest.mark.parametrize("seed", range(12))
def test_asyncio_works_as_written_and_survives_a_crash_after_every_turn(drive, seed):
    """K029"""
    plain, crashed = drive(everything), drive(everything, crash=True)
    assert drive_in_order(plain, seed) == drive_in_order(crashed, seed)
    assert plain.history_without_began == crashed.history_without_began


def test_asyncio_sleep_is_a_durable_timer_and_sleep_zero_is_nothing(drive):
    """K030"""

    async def body() -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(5)
        return asyncio.get_running_loop().time()

    run = drive(body)
    run.turn()
    assert {at: type(entry.kind) for at, entry in run.history.items()} == {"timer": Sleep}
    assert run.alarm == 5_000
    run.turn(now=5_000)
    assert run.result == (START + 5_000) / 1000


def test_a_timeout_that_is_not_needed_leaves_no_timer(drive):
    """K031"""

    async def body() -> Any:
        async with asyncio.timeout(60):
            await step("a", work)
        return await step("b", work)

    run = drive(body)
    run.turn()
    assert (set(run.history), run.alarm) == ({"timer"}, 60_000)
    run.turn(run.ok("a"))
    assert set(run.history) == {"a"}
    assert run.commands_of(CancelTimer) == ["timer"]
    assert run.alarm is None
    run.again()
    assert run.alarm is None
    run.turn(run.ok("b", "end"))
    assert run.result == "end"


def test_a_timeout_that_passes_is_a_timeout_error_also_after_a_reload(drive):
    """K032"""
    caught = []

    async def body() -> Any:
        try:
            async with asyncio.timeout(1):
                await sleep(10)
        except TimeoutError:
            caught.append(now())
        return await step("a", work)

    run = drive(body)
    run.turn()
    assert run.alarm == 1_000
    run.turn(now=1_000)
    assert run.released() == ["a"]
    assert set(run.history) == {"timer"}
    run.again()
    assert run.released() == ["a"]
    assert len(caught) == 2
    assert caught[0] == caught[1]


def test_call_later_and_its_cancelling_are_durable(drive):
    """1.7"""
    called = []

    async def body() -> Any:
        loop = asyncio.get_running_loop()
        loop.call_later(1, called.append, "one")
        handle = loop.call_later(2, called.append, "two")
        await step("a", work)
        handle.cancel()
        await sleep(5)

    run = drive(body)
    run.turn()
    assert set(run.history) == {"timer", "timer#2"}
    run.turn(run.ok("a"), now=10)
    assert set(run.history) == {"timer", "a", "sleep"}
    run.turn(now=6_000)
    assert called == ["one"]
    assert run.result is None


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("to_thread", lambda: asyncio.to_thread(work)),
        ("open_connection", lambda: asyncio.open_connection("localhost", 1)),
        ("run_in_executor", lambda: asyncio.get_running_loop().run_in_executor(None, work)),
        ("create_subprocess_exec", lambda: asyncio.create_subprocess_exec("true")),
        ("create_subprocess_shell", lambda: asyncio.create_subprocess_shell("true")),
        ("start_server", lambda: asyncio.start_server(work, port=1)),
        ("call_soon_threadsafe", lambda: asyncio.get_running_loop().call_soon_threadsafe(work)),
        ("add_reader", lambda: asyncio.get_running_loop().add_reader(0, work)),
        ("add_signal_handler", lambda: asyncio.get_running_loop().add_signal_handler(1, work)),
        ("set_task_factory", lambda: asyncio.get_running_loop().set_task_factory(None)),
        ("run_forever", lambda: asyncio.get_running_loop().run_forever()),
        ("getaddrinfo", lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1)),
    ],
)
def test_what_touches_the_outside_says_so_and_the_run_goes_on(drive, name, call):
    """K033"""
    caught: list[ForeignCallError] = []

    async def body() -> Any:
        try:
            await call()
        except ForeignCallError as error:
            caught.append(error)
        return await step("a", work)

    run = drive(body)
    run.turn()
    assert run.released() == ["a"]
    [error] = caught
    assert isinstance(error, RuntimeError)
    assert error.code == "TN106"
    assert name in str(error)
    assert "put it in a step" in str(error)


def test_a_future_of_another_loop_is_refused_where_it_is_awaited(drive):
    """K034"""
    other = asyncio.new_event_loop()
    foreign = other.create_future()
    lines = []

    async def body() -> Any:
        try:
            await foreign
        except RuntimeError as error:
            lines.append(error)
        return await step("a", work)

    run = drive(body)
    run.turn()
    assert run.released() == ["a"]
    assert len(lines) == 1
    run.turn(run.ok("a", 1))
    assert run.result == 1
    other.close()


ORDER_OF_A_SET = """
import asyncio, importlib.util, sys
spec = importlib.util.spec_from_file_location("driving", sys.argv[1])
driving = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driving)
ballast = [object() for _ in range(int(sys.argv[2]))]
from tenuto import step

async def one(n):
    await step("s", print)
    return n

async def body():
    tasks = [asyncio.create_task(one(n)) for n in range(12)]
    done, _ = await asyncio.wait(tasks)
    first = [task.result() for task in done]
    tasks = [asyncio.create_task(one(n)) for n in range(12)]
    second = [await task for task in asyncio.as_completed(tasks)]
    return [first, second]

run = driving.Driver(body)
run.turn()
run.turn(*(run.ok(f"@{n}/s") for n in (5, 3, 11, 0, 1, 2, 4, 6, 7, 8, 9, 10)))
run.turn(*(run.ok(f"@{n + 12}/s") for n in (5, 3, 11, 0, 1, 2, 4, 6, 7, 8, 9, 10)))
print(run.result)
"""


def test_sets_of_tasks_have_the_same_order_in_every_process():
    """K035"""
    conftest = str(Path(__file__).with_name("conftest.py"))
    found = {
        subprocess.run(
            [sys.executable, "-c", ORDER_OF_A_SET, conftest, str(ballast)],
            env={"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed, ballast in ((1, 0), (2, 777))
    }
    assert len(found) == 1
    first, second = eval(found.pop())  # noqa: S307  # two lists of numbers
    assert sorted(first) == list(range(12))
    assert second == [5, 3, 11, 0, 1, 2, 4, 6, 7, 8, 9, 10]


async def lost() -> None:
    raise ValueError("lost")


@pytest.mark.parametrize("kept", [False, True])
def test_the_error_of_a_task_that_nobody_awaits_is_logged_once_and_not_while_replaying(drive, kept):
    """K138: when the task is gone, or when the run ends"""

    async def body() -> Any:
        task = asyncio.create_task(lost())
        if not kept:
            del task
        await sleep(1)
        await sleep(1)

    run = drive(body)
    run.turn()
    run.reload()
    run.turn(now=1_000)
    run.turn(now=2_000)
    assert run.result is None
    [notice] = [notice for turn in run.turns for notice in turn.notices]
    assert "Traceback" in notice
    assert "in lost" in notice
    assert "ValueError: lost" in notice


def test_an_error_that_was_awaited_after_all_is_not_logged(drive):
    """1.7"""

    async def body() -> Any:
        tasks = [asyncio.create_task(lost()) for _ in range(3)]
        await sleep(1)
        try:
            await tasks[0]
        except ValueError:
            await asyncio.gather(*tasks, return_exceptions=True)

    run = drive(body)
    run.turn()
    run.turn(now=1_000)
    assert run.result is None
    assert [turn.notices for turn in run.turns] == [(), ()]


def test_an_error_is_said_even_if_the_garbage_collector_finds_its_task(drive):
    """1.7: a traceback parses source, which must not happen wherever the collector comes by"""

    async def body() -> Any:
        async def lost_in_a_circle() -> None:
            here = asyncio.current_task()
            assert here is not None
            raise ValueError("lost")

        asyncio.create_task(lost_in_a_circle())  # noqa: RUF006
        await sleep(1)

    run = drive(body)
    run.turn()
    gc.collect()
    run.turn(now=1_000)
    [notice] = [notice for turn in run.turns for notice in turn.notices]
    assert "in lost_in_a_circle" in notice


def test_a_turn_that_does_not_end_parks_the_run(drive, monkeypatch):
    """K036, T10"""
    monkeypatch.setattr("tenuto.kernel.loop.HANDLES_PER_DRAIN", 10_000)

    async def body() -> Any:
        await step("a", work)
        while True:  # that is the mistake
            await asyncio.sleep(0)

    run = drive(body)
    run.turn()
    before = dict(run.kv)
    run.turn(run.ok("a"))
    error = run.reason
    assert isinstance(error, RunawayTurnError)
    assert error.code == "TN109"
    assert run.kv == before


def test_wait_for_opens_no_scope_of_its_own(drive):
    """K037: on Python 3.11 it makes a task, on later versions not; the locations are the same"""

    async def body() -> Any:
        value = await asyncio.wait_for(step("a", work), 5)
        task = asyncio.create_task(step("b", work))
        return value, await asyncio.wait_for(task, 5)

    run = drive(body)
    run.turn()
    assert run.released() == ["a"]
    assert set(run.history) == {"timer"}
    run.turn(run.ok("a", 1))
    assert run.released() == ["@0/b"]
    run.turn(run.ok("@0/b", 2))
    assert run.result == (1, 2)
    assert set(run.history) == {"a", "@0/b"}


def test_wait_for_withdraws_what_took_too_long(drive):
    """K037"""

    async def body() -> Any:
        try:
            await asyncio.wait_for(sleep(10), 1)
        except TimeoutError:
            return "timed out"

    run = drive(body, crash=True)
    run.turn()
    run.turn(now=1_000)
    assert run.result == "timed out"
    assert set(run.history) == {"timer"}


async def test_the_hosts_loop_and_task_are_the_same_after_a_turn(drive):
    """K038"""
    seen = []

    async def body() -> Any:
        seen.append((asyncio.get_running_loop(), asyncio.current_task()))
        await step("a", work)

    run = drive(body)
    loop, task, hooks = asyncio.get_running_loop(), asyncio.current_task(), sys.get_asyncgen_hooks()
    run.turn()
    assert asyncio.get_running_loop() is loop
    assert asyncio.current_task() is task
    assert sys.get_asyncgen_hooks() == hooks
    await asyncio.sleep(0)  # the host's task can still be suspended and resumed
    assert seen[0][0] is not loop
    assert seen[0][1] is not task
    run.turn(run.ok("a"))
    assert run.result is None
    assert asyncio.current_task() is task


def test_an_abandoned_async_generator_is_not_finalised_on_the_loop(drive):
    """1.7"""
    finalised = []

    async def numbers() -> Any:
        try:
            for n in range(9):
                yield n
        finally:
            finalised.append("on the loop")
            await step("late", work)

    async def body() -> Any:
        async for n in numbers():
            if n == 2:
                break
        gc.collect()
        await step("a", work)

    run = drive(body)
    run.turn()
    assert run.released() == ["a"]
    assert finalised in ([], ["on the loop"])  # CPython may close it on the spot; it may not issue anything
    run.again()
    assert run.released() == ["a"]


def test_an_exception_of_a_forgotten_task_is_a_notice_and_not_a_failure(drive):
    """1.7: as asyncio does"""

    async def fails() -> None:
        raise ValueError("nobody looks")

    async def body() -> Any:
        task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        del task
        gc.collect()
        return await step("a", work)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a", 1))
    assert run.result == 1


def test_system_exit_in_workflow_code_fails_the_run_and_not_the_worker(drive):
    """T9"""

    async def body() -> Any:
        await step("a", work)
        raise SystemExit(3)

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"


def test_a_cancelled_error_nobody_asked_for_fails_the_run(drive):
    """T9"""

    async def body() -> Any:
        await step("a", work)
        raise asyncio.CancelledError

    run = drive(body)
    run.turn()
    run.turn(run.ok("a"))
    assert run.rows.state == "failed"


def test_as_completed_refuses_bare_coroutines(drive):
    """1.7: it would make tasks of them in the order of a set"""

    async def body() -> Any:
        bare = [step("a", work), step("b", work)]
        try:
            for first in asyncio.as_completed(bare):
                await first
        except ForeignCallError as error:
            for left in bare:
                left.close()
            return str(error)

    run = drive(body)
    run.turn()
    assert "as_completed" in run.result
    assert run.history == {}


def test_what_a_cancelled_root_left_behind_is_closed_with_the_run(drive):
    """The root is known as ended by then; the one task that is left is not it."""
    closed: list[str] = []

    async def left() -> None:
        try:
            await step("never", work)
        finally:
            closed.append("left")

    async def body() -> None:
        task = asyncio.create_task(left())
        await sleep("1h")
        await task

    run = drive(body)
    run.turn()
    assert isinstance(run.turn(CancelAsked(1)).outcome, Cancelled)
    run.close()
    assert closed == ["left"]
