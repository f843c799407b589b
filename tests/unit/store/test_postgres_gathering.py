"""Reads of many who ask at once, made once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tenuto.store.postgres_gathering import Gathering


class Shelf:
    """What is read, and what was asked for each time. Reading ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def read(self, keys: Sequence[int]) -> dict[int, str]:
        self.asked.append(sorted(keys))
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return {key: str(key) for key in keys if key < 10}


@pytest.fixture
async def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def gathering(shelf: Shelf) -> Gathering[int, str]:
    return Gathering(shelf.read, "nothing")


async def test_those_who_ask_in_one_pass_share_a_read(shelf: Shelf, gathering: Gathering[int, str]) -> None:
    shelf.open.set()
    found = await asyncio.gather(*(gathering.get(key) for key in (3, 1, 3, 12)))
    assert found == ["3", "1", "3", "nothing"]
    assert shelf.asked == [[1, 3, 12]]


async def test_who_asks_later_is_not_given_what_was_read_before(shelf: Shelf, gathering: Gathering[int, str]) -> None:
    first = asyncio.create_task(gathering.get(1))
    while not shelf.asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(gathering.get(1))
    while len(shelf.asked) < 2:
        await asyncio.sleep(0)
    shelf.open.set()
    assert [await first, await second] == ["1", "1"]


async def test_who_gives_up_takes_nothing_from_the_others(shelf: Shelf, gathering: Gathering[int, str]) -> None:
    impatient, patient = (asyncio.create_task(gathering.get(key)) for key in (1, 2))
    while not shelf.asked:
        await asyncio.sleep(0)
    impatient.cancel()
    shelf.open.set()
    assert await patient == "2"
    assert impatient.cancelled()


async def test_a_read_that_fails_fails_for_all_and_not_for_the_next(
    shelf: Shelf, gathering: Gathering[int, str]
) -> None:
    shelf.error = OSError("gone")
    shelf.open.set()
    found = await asyncio.gather(gathering.get(1), gathering.get(2), return_exceptions=True)
    assert found == [shelf.error, shelf.error]
    shelf.error = None
    assert await gathering.get(1) == "1"
