"""Starting branches, waiting for them, and leaving none behind: what `parallel`, `join` and `race` share."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError, Task
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

from tenuto.errors import HandlerReturnError, LimitError
from tenuto.kernel.location import Segment
from tenuto.kernel.records import Branch as BranchRecord
from tenuto.kernel.records import BranchStatus
from tenuto.model.definitions import ContinueAsNew
from tenuto.model.place import Place, here
from tenuto.model.replies import HANDLER_RESULTS
from tenuto.model.waiting import Endings, cancel_all, ended

__all__ = ["FAN_OUT", "Branch", "Branches", "check_branches", "discard", "fan_out"]

T = TypeVar("T")
Branch: TypeAlias = Callable[[], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T]
"""A branch of `join`, `race` or `parallel`: an `async def` without arguments, a `partial` of one, or a coroutine."""

FAN_OUT: Final = 10_000
fan_out: Final = ContextVar("tenuto_fan_out", default=FAN_OUT)  # of the run: how many branches one construct may have


def check_branches(construct: str, branches: Sequence[Any]) -> None:
    """Refuses what cannot be a branch, before anything is started."""
    limit = fan_out.get()
    if len(branches) > limit:
        raise LimitError(f"branches of {construct}", limit, len(branches))
    for branch in branches:
        if not callable(branch) and not inspect.isawaitable(branch):
            raise TypeError(
                f"a branch of {construct} is an async function without arguments or a coroutine, not {branch!r}"
            )


def discard(branches: Iterable[Any]) -> None:
    """Closes coroutines that nobody has begun to await; the others are their task's to close, in its context."""
    for branch in branches:
        if inspect.iscoroutine(branch) and inspect.getcoroutinestate(branch) == inspect.CORO_CREATED:
            branch.close()


class Branches:
    """The branches of one construct while it runs. Made inside the construct's scope."""

    def __init__(self, place: Place, branches: Sequence[tuple[Segment, str, Any]]) -> None:
        self._place = place.inside("branch")
        self._waiting = list(reversed(branches))
        self._names = [name for _, name, _ in branches]
        self._endings: Endings[Task[Any]] = Endings()
        self._running = 0
        self.tasks: list[Task[Any]] = []

    def start(self, limit: int | None = None) -> None:
        """Starts branches in order: all, or until that many run."""
        while self._waiting and (limit is None or self._running < limit):
            segment, _, branch = self._waiting.pop()
            # The scope is made here, below the construct; the task enters it instead of a scope of its own.
            scope = self._place.port.scope(segment)
            task = asyncio.get_running_loop().create_task(self._run(scope, branch))
            self.tasks.append(task)
            self._endings.watch(task)
            self._running += 1

    async def _run(self, scope: AbstractAsyncContextManager[None], branch: Any) -> Any:
        async with scope:
            here.set(self._place)
            made: Any = branch() if callable(branch) else branch
            value: Any = await made
        if type(value) in (*HANDLER_RESULTS, ContinueAsNew):
            raise HandlerReturnError(f"a branch returned {type(value).__name__}, which only handlers and runs return")
        return value

    async def next_ended(self) -> Task[Any] | None:
        """The next branch that ended; None when all have. A cancellation ends them all first."""
        if not self._endings:
            return None
        try:
            task = await self._endings.next()
        except CancelledError:
            await self.stop()
            raise
        self._running -= 1
        return task

    async def stop(self) -> None:
        """Cancels the branches that still run, in creation order, and returns when they have ended."""
        self._waiting.clear()
        stopped = [task for task in self.tasks if not task.done()]
        cancel_all(stopped)
        try:
            await ended(stopped)
        finally:
            for task in stopped:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    self._place.port.log(f"a cancelled branch raised {type(error).__name__}: {error}")

    def statuses(self, beaten: Iterable[Task[Any]] = ()) -> tuple[BranchRecord, ...]:
        """How each branch ended, in order. `beaten` ones were cancelled, however their clean-up ended."""
        lost = set(beaten)
        ends = [BranchStatus.CANCELLED if task in lost else _status(task) for task in self.tasks]
        ends += [BranchStatus.CANCELLED] * (len(self._names) - len(ends))  # never started
        return tuple(BranchRecord(name, end) for name, end in zip(self._names, ends, strict=True))


def _status(task: Task[Any]) -> BranchStatus:
    if not task.done():
        return BranchStatus.RUNNING
    if task.cancelled():
        return BranchStatus.CANCELLED
    return BranchStatus.COMPLETED if task.exception() is None else BranchStatus.FAILED
