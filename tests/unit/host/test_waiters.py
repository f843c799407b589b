"""Who waits for a run hears of its end once, and costs the store little until then."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.host.waiters import Ending, Waiters
from tenuto.store.memory import MemoryStore
from tenuto.store.port import NewRun


class Question:
    """Something that may be true of a run; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = False

    async def __call__(self) -> bool:
        self.asked += 1
        return self.answer


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_end_told_here_is_given_without_another_look() -> None:
    waiters, question = Waiters(MemoryStore(), lambda: True), Question()
    waiting = asyncio.create_task(waiters.until("r", question, or_ended=True))
    await _settle()
    waiters.tell("other", Ending("failed", b""))
    waiters.tell("r", Ending("completed", b"value"))
    assert await waiting == Ending("completed", b"value")
    assert question.asked == 1
    await waiters.close()


async def test_who_does_not_wait_for_the_end_looks_again_when_it_is_told() -> None:
    waiters, question = Waiters(MemoryStore(), lambda: True), Question()
    waiting = asyncio.create_task(waiters.until("r", question))
    await _settle()
    question.answer = True
    waiters.tell("r", Ending("completed", b"value"))
    assert await waiting is None
    await waiters.close()


async def test_what_others_committed_is_noticed_with_the_next_commit() -> None:
    store, question = MemoryStore(), Question()
    waiters = Waiters(store, lambda: True)
    waiting = asyncio.create_task(waiters.until("r", question))
    await _settle()
    question.answer = True
    await store.create(NewRun("x", "wf", ()))
    async with asyncio.timeout(0.5):  # less than the poll that would notice it anyway
        await waiting
    await waiters.close()


async def test_many_who_wait_are_not_all_asked_at_every_commit_while_the_worker_is_busy() -> None:
    store, question = MemoryStore(), Question()
    waiters = Waiters(store, lambda: True)
    waiting = [asyncio.create_task(waiters.until(f"r{number}", question)) for number in range(1000)]
    await _settle()
    for number in range(100):
        await store.create(NewRun(f"x{number}", "wf", ()))
        await asyncio.sleep(0)
    assert question.asked < 5_000  # one look each at first; not a hundred thousand
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await waiters.close()


async def test_an_error_of_a_look_is_raised_where_somebody_waits() -> None:
    store, failing = MemoryStore(), False

    async def look() -> bool:
        if failing:
            raise LookupError("gone")
        return False

    waiters = Waiters(store, lambda: False)
    waiting = asyncio.create_task(waiters.until("r", look))
    await _settle()
    failing = True
    await store.create(NewRun("x", "wf", ()))
    with pytest.raises(LookupError, match="gone"):
        await waiting
    await waiters.close()
