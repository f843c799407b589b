"""Steps that never wait share a task; one that waits has a task of its own."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context

from tenuto.host.runners import Call, Runners

mark: ContextVar[str] = ContextVar("mark", default="none")


async def _noted(seen: list[object], *, wait: asyncio.Event | None = None) -> None:
    seen.append(asyncio.current_task())
    if wait is not None:
        await wait.wait()
        seen.append(asyncio.current_task())


async def _passes(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_work_that_never_waits_is_done_in_order_in_one_task() -> None:
    runners = Runners(copy_context())
    seen: list[object] = []
    for _ in range(5):
        runners.start(Call(lambda: _noted(seen)))
    await _passes()
    assert len(seen) == 5
    assert len(set(seen)) == 1


async def test_work_that_waits_keeps_its_task_and_holds_up_nobody() -> None:
    runners = Runners(copy_context())
    opened = asyncio.Event()
    waiting: list[object] = []
    others: list[object] = []
    runners.start(Call(lambda: _noted(waiting, wait=opened)))
    runners.start(Call(lambda: _noted(others)))
    await _passes()
    assert len(others) == 1
    assert others[0] is not waiting[0]
    opened.set()
    await _passes()
    assert waiting[0] is waiting[1]


async def test_a_timeout_begun_before_the_first_wait_ends_only_its_own_work() -> None:
    runners = Runners(copy_context())
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def too_slow() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            await ended.put("timed out")

    async def quick() -> None:
        await ended.put("done")

    runners.start(Call(too_slow))
    runners.start(Call(quick))
    assert await ended.get() == "done"
    assert await ended.get() == "timed out"


async def test_what_one_puts_into_its_context_no_other_sees() -> None:
    runners = Runners(copy_context())
    seen: list[str] = []

    async def set_and_see(value: str) -> None:
        seen.append(mark.get())
        mark.set(value)

    runners.start(Call(lambda: set_and_see("first")))
    runners.start(Call(lambda: set_and_see("second")))
    await _passes()
    assert seen == ["none", "none"]
    assert mark.get() == "none"


async def test_work_cancelled_before_it_begins_never_begins() -> None:
    runners = Runners(copy_context())
    seen: list[object] = []
    never = Call(lambda: _noted(seen))
    runners.start(never)
    never.cancel()
    runners.start(Call(lambda: _noted(seen)))
    await _passes()
    assert len(seen) == 1


async def test_work_cancelled_while_it_waits_is_told_so_and_the_rest_goes_on() -> None:
    runners = Runners(copy_context())
    told: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    started = Call(wait)
    runners.start(started)
    await _passes()
    started.cancel()
    seen: list[object] = []
    runners.start(Call(lambda: _noted(seen)))
    await _passes()
    assert told == ["cancelled"]
    assert len(seen) == 1


async def test_work_that_cancels_its_own_task_takes_no_other_with_it() -> None:
    runners = Runners(copy_context())
    seen: list[object] = []
    opened = asyncio.Event()

    async def rash() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    runners.start(Call(rash))
    runners.start(Call(lambda: _noted(seen, wait=opened)))
    await _passes()
    opened.set()
    await _passes()
    assert len(seen) == 2
