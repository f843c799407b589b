"""Hears what other processes committed.

Notifications come in the transaction of their cause, but correctness never rests on them: where one was lost, the
server's snapshot tells within a second that something was written (R064). After every connect a look comes first,
since nobody knows what was missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

from tenuto.errors import StoreUnavailableError
from tenuto.store.postgres_connection import STATEMENTS, Database, Row

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["Listener"]

NET: Final = 1.0  # seconds


class Listener:
    """One listening connection, from the first call of `begin` on."""

    def __init__(self, database: Database, happened: Callable[[], None]) -> None:
        self._database = database
        self._happened = happened
        self._task: asyncio.Task[None] | None = None
        self._hears = asyncio.Event()

    async def begin(self) -> None:
        """Returns when what is committed from now on will be noticed."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="tenuto-listener")
        await self._hears.wait()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _listen(self) -> None:
        while True:
            try:
                connection = await self._database.connect()
                async with connection:
                    await connection.execute(STATEMENTS["listen"])
                    await self._hear(connection)
            except (StoreUnavailableError, psycopg.Error):
                # Without the server nothing is committed; whoever waits looks, and finds out.
                self._hears.set()
                self._happened()
            await asyncio.sleep(NET)

    async def _hear(self, connection: AsyncConnection[Row]) -> None:
        before = await _snapshot(connection)
        self._hears.set()
        self._happened()
        while True:
            heard = False
            async for _ in connection.notifies(timeout=NET, stop_after=1):
                heard = True
            after = before if heard else await _snapshot(connection)
            if heard or after != before:
                before = after
                self._happened()


async def _snapshot(connection: AsyncConnection[Row]) -> str:
    row = await (await connection.execute(STATEMENTS["snapshot"])).fetchone()
    return "" if row is None else str(row[0])
