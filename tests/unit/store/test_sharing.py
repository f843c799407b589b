"""Looks that many ask for at once are made once."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.store.sharing import SharedLook


class Answer:
    """Something to be looked up; counts how often that is done."""

    def __init__(self) -> None:
        self.known = False
        self.looks = 0
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def look(self) -> None:
        self.looks += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        self.known = True


async def test_many_who_ask_at_once_cost_one_look() -> None:
    shared, answer = SharedLook(), Answer()
    asking = [asyncio.create_task(shared.until(lambda: answer.known, answer.look)) for _ in range(100)]
    await asyncio.sleep(0)
    answer.may_answer.set()
    await asyncio.gather(*asking)
    assert answer.looks == 1


async def test_who_gives_up_does_not_end_the_look_of_the_others() -> None:
    shared, answer = SharedLook(), Answer()
    first, second, third = (asyncio.create_task(shared.until(lambda: answer.known, answer.look)) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    first.cancel()  # the one that looks: another takes over
    answer.may_answer.set()
    await third
    assert answer.known


async def test_an_error_is_raised_to_each_who_looked_and_asked_again_by_the_next() -> None:
    shared, answer = SharedLook(), Answer()
    answer.may_answer.set()
    answer.error = OSError("down")
    with pytest.raises(OSError, match="down"):
        await shared.until(lambda: answer.known, answer.look)
    answer.error = None
    await shared.until(lambda: answer.known, answer.look)
    assert answer.looks == 2
