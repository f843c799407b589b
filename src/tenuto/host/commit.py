"""Turns that are ready together, in one transaction: one sync of the disk for many steps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tenuto.errors import CommitUnknownError
from tenuto.host.collector import CollectorHold, CollectorPaused
from tenuto.host.runners import Call, Runners
from tenuto.store.port import Commit, Store, TurnResult

__all__ = ["Committer"]

TURNS_PER_GROUP: Final = 256
BYTES_PER_GROUP: Final = 4 << 20
SPLIT: Final = 16  # a group of fewer is not worth two

Answer: TypeAlias = Callable[[TurnResult | Exception], None]
Member: TypeAlias = tuple[Commit, Answer, int]  # and the bytes of its rows


class Committer:
    """Takes all turns that are ready as soon as a commit before has ended; never waits to fill a group.

    A store whose work is done elsewhere (`commits_at_once` > 1) gets the next group while it is busy with the last: a
    group is told in two halves, so that there are two in turn.
    """

    def __init__(self, store: Store, runners: Runners, hold: CollectorHold) -> None:
        self._store = store
        self._runners = runners
        self._hold = hold
        self._at_once = store.commits_at_once
        self._waiting: deque[Member] = deque()
        self._free = self._at_once  # how many more groups may be under way

    def add(self, commit: Commit, size: int = 0) -> asyncio.Future[TurnResult]:
        """What becomes of the turn, once it is durable. `size`: the bytes of its rows, where they may be many."""
        future: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self.hand_in(commit, lambda answer: _settle(future, answer), size)
        return future

    def hand_in(self, commit: Commit, answer: Answer, size: int) -> None:
        """The same for who needs no future: `answer` is called with the result, or with what the store raised."""
        self._waiting.append((commit, answer, size))
        if self._free and len(self._waiting) == 1:
            self._free -= 1
            self._runners.start(Call(self._flush))

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._take())
                self._hold.end()
        finally:
            self._free += 1
            self._hold.end()

    def _take(self) -> list[Member]:
        waiting = self._waiting
        group = [waiting.popleft()]
        left = BYTES_PER_GROUP - group[0][2]
        while waiting and len(group) < TURNS_PER_GROUP:
            left -= waiting[0][2]
            if left < 0:
                break
            group.append(waiting.popleft())
        return group

    async def _commit(self, group: list[Member]) -> None:
        try:
            results = await self._store.commit_group([commit for commit, _, _ in group])
        except CommitUnknownError as error:  # done or not: each run is loaded again, nothing is repeated blindly
            for _, answer, _ in group:
                answer(error)
            return
        except Exception as error:  # noqa: BLE001  # edge 2 of 3: whatever the store raised goes to the run's own task
            if len(group) == 1:
                group[0][1](error)
                return
            for member in group:  # nothing of the group was written; one of them may be to blame, the rest must go on
                await self._commit([member])
            return
        half = len(group) // 2 if self._at_once > 1 and len(group) >= SPLIT else 0
        if half:
            _tell(group[:half], results[:half])
            await asyncio.sleep(0)  # they take their next turns,
            await asyncio.sleep(0)  # which are on their way before the others take theirs
        _tell(group[half:], results[half:])


def _tell(group: Sequence[Member], results: Sequence[TurnResult]) -> None:
    with CollectorPaused():
        for (_, answer, _), result in zip(group, results, strict=True):
            answer(result)


def _settle(future: asyncio.Future[TurnResult], answer: TurnResult | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
