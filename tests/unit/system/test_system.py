"""The machine as it is: clocks, entropy, threads."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import asdict

import pytest

from tenuto.system import REAL, Pace, done_on


async def test_the_monotonic_clock_is_that_of_the_event_loop() -> None:
    before = asyncio.get_running_loop().time()
    assert before <= REAL.clock.monotonic() <= asyncio.get_running_loop().time()


def test_tokens_have_the_size_asked_for_and_differ() -> None:
    assert [len(REAL.entropy.token(size)) for size in (0, 1, 24)] == [0, 1, 24]
    assert REAL.entropy.token(16) != REAL.entropy.token(16)


def test_at_a_quiet_pace_nothing_recurs_and_nothing_that_was_caused_is_never_done() -> None:
    quiet, usual = asdict(Pace.quiet()), asdict(Pace())
    never = {name for name, seconds in quiet.items() if seconds == math.inf}
    assert never == {"poll", "others", "beat", "renew", "sweep", "reclaim", "notes", "statistics", "ends"}
    assert all(quiet[name] in (0, usual[name]) for name in quiet.keys() - never)


async def test_a_lane_does_its_work_in_order_and_off_the_loop_and_finishes_it_when_closed() -> None:
    done: list[tuple[int, bool]] = []
    here = threading.get_ident()
    lane = REAL.lane("tenuto-test")
    held = threading.Event()
    lane.put(lambda: held.wait(5) and None)
    for number in range(3):
        lane.put(lambda number=number: done.append((number, threading.get_ident() == here)))
    held.set()
    await lane.close()
    assert done == [(0, False), (1, False), (2, False)]


async def test_what_is_called_on_a_lane_gives_its_result_or_its_error_to_the_caller() -> None:
    lane = REAL.lane("tenuto-test")
    here = threading.get_ident()
    assert await done_on(lane, threading.get_ident) != here

    def fail() -> int:
        raise StopIteration("not in a future")

    with pytest.raises(RuntimeError, match="StopIteration"):
        await done_on(lane, fail)
    with pytest.raises(ZeroDivisionError):
        await done_on(lane, lambda: 1 // 0)
    await lane.close()


async def test_a_caller_that_no_longer_waits_for_a_lane_disturbs_nobody() -> None:
    lane = REAL.lane("tenuto-test")
    held = threading.Event()
    waits = asyncio.create_task(done_on(lane, lambda: held.wait(5)))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    held.set()
    assert await done_on(lane, lambda: "next") == "next"
    await lane.close()


async def test_a_runner_keeps_blocking_bodies_off_the_loop() -> None:
    runner = REAL.runner()
    here = threading.get_ident()
    assert await runner.sync(lambda: threading.get_ident() != here)

    async def body() -> int:
        return threading.get_ident()

    assert await runner.coroutine(body()) == here
    runner.close()


async def test_the_control_plane_goes_on_while_the_loop_is_blocked_and_shows_by_what() -> None:
    control = REAL.control()
    seen: list[str] = []
    posted = asyncio.Event()
    looked, began = threading.Event(), threading.Event()

    async def beat() -> None:
        while not began.is_set():
            await asyncio.sleep(0)
        seen.append(control.main_stack())
        control.post(posted.set)
        looked.set()
        await asyncio.sleep(3600)

    control.start(beat)
    began.set()
    assert looked.wait(10)  # the loop stands still meanwhile
    await asyncio.wait_for(posted.wait(), 10)
    await control.stop()
    assert "looked.wait(10)" in seen[0]


async def test_a_control_plane_that_has_ended_by_itself_can_be_stopped() -> None:
    control = REAL.control()
    ended = threading.Event()

    async def beat() -> None:
        ended.set()

    control.start(beat)
    assert ended.wait(10)
    await control.stop()
