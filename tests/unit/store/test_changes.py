"""Waiting for commits."""

from __future__ import annotations

import asyncio

from tenuto.store.changes import Changes
from tenuto.system import REAL


class Standing:
    """A clock that stands still."""

    monotonic = staticmethod(lambda: 5.0)
    wall_ms = REAL.clock.wall_ms
    pause = REAL.clock.pause


async def test_waiters_are_woken_in_the_order_in_which_they_began_to_wait() -> None:
    """A set would wake them in order of their addresses."""
    changes, woken = Changes(), list[int]()

    async def wait(number: int) -> None:
        await changes.after(0, 10)
        woken.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(200)]
    await asyncio.sleep(0)
    changes.happened()
    await asyncio.gather(*waiting)
    assert woken == list(range(200))


async def test_one_that_waits_no_more_is_not_woken_and_holds_up_nobody() -> None:
    changes = Changes()
    first, second = (asyncio.create_task(changes.after(0, 10)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    changes.happened()
    assert await second == 1


async def test_how_long_to_wait_is_told_by_the_clock_of_the_system() -> None:
    changes = Changes(clock=Standing())
    waiting = asyncio.create_task(changes.after(0, 1e-6))
    _, late = await asyncio.wait({waiting}, timeout=0.05)
    assert late, "the time is never over by a clock that stands still"
    changes.happened()
    assert await waiting == 1
