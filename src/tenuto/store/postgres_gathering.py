"""Reads that many ask for in one pass of the event loop, made by one statement.

A thousand may wait for as many runs, and each of them asks about its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

__all__ = ["Gathering"]

Key = TypeVar("Key")
Found = TypeVar("Found")


class Gathering(Generic[Key, Found]):
    """`read` is given all keys that were asked for together; what it does not find is `nothing`."""

    def __init__(self, read: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Found]]], nothing: Found) -> None:
        self._read = read
        self._nothing = nothing
        self._asked: dict[Key, None] = {}
        self._reading: asyncio.Task[Mapping[Key, Found]] | None = None  # that has not begun yet

    async def get(self, key: Key) -> Found:
        if self._reading is None:
            self._reading = asyncio.create_task(self._begin())
        self._asked[key] = None
        found = await asyncio.shield(self._reading)  # who gives up must not end it for all
        return found.get(key, self._nothing)

    async def _begin(self) -> Mapping[Key, Found]:
        asked, self._asked, self._reading = list(self._asked), {}, None
        return await self._read(asked)
