"""Turns that are ready together, in one transaction: one sync of the disk for many steps."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from tenuto.errors import CommitUnknownError
from tenuto.store.port import Store, TurnCommit, TurnResult

__all__ = ["Committer"]

TURNS_PER_GROUP: Final = 256


class Committer:
    """Takes all turns that are ready as soon as the commit before has ended; never waits to fill a group."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[TurnCommit, asyncio.Future[TurnResult]]] = deque()
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, commit: TurnCommit) -> TurnResult:
        """What became of the turn, once it is durable."""
        future: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        try:
            while self._waiting:
                group = [self._waiting.popleft() for _ in range(min(TURNS_PER_GROUP, len(self._waiting)))]
                await self._commit(group)
        finally:
            self._flushing = None

    async def _commit(self, group: list[tuple[TurnCommit, asyncio.Future[TurnResult]]]) -> None:
        try:
            results = await self._store.commit_group([commit for commit, _ in group])
        except CommitUnknownError as error:  # done or not: each run is loaded again, nothing is repeated blindly
            for _, future in group:
                _fail(future, error)
            return
        except Exception as error:  # noqa: BLE001  # edge 2 of 3: whatever the store raised goes to the run's own task
            if len(group) == 1:
                _fail(group[0][1], error)
                return
            for member in group:  # nothing of the group was written; one of them may be to blame, the rest must go on
                await self._commit([member])
            return
        for (_, future), result in zip(group, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(future: asyncio.Future[TurnResult], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
