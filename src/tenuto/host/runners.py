"""Runs coroutines that mostly never wait, many of them in one asyncio task.

Rules:

1. What is started begins in the loop's next pass, in order, each in a context of its own. While none of them waits,
   one task runs them all: a task for each would cost more than most steps do.
2. One that waits keeps the task it is in to its end, so that what its code learned of it (`current_task`, a timeout)
   stays true; while it waits, another task takes the rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Protocol, TypeAlias

__all__ = ["Runners", "Stoppable"]

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Stoppable(Protocol):
    """Something under way that can be told to stop."""

    def cancel(self) -> object: ...


class _Started:
    """Work that waits for its turn, or is being done."""

    __slots__ = ("cancelled", "task", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.task: asyncio.Task[None] | None = None  # once it has begun
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class Runners:
    """The tasks in which work is done. Of one event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context  # copied for each
        self._line: deque[_Started] = deque()
        self._next: asyncio.Task[None] | None = None  # takes from the line; one that waits is not it any more
        self._busy: set[asyncio.Task[None]] = set()  # the loop itself keeps tasks only weakly

    def start(self, work: Work) -> Stoppable:
        """Begins work in the loop's next pass. Cancelled before that, it never begins."""
        started = _Started(work)
        self._line.append(started)
        if self._next is None:
            self._open()
        return started

    def _open(self) -> None:
        task = self._next = asyncio.create_task(self._run(), context=self._context)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this one
        try:
            while self._next is task and self._line and not task.cancelling():  # its code may have cancelled it
                started = self._line.popleft()
                if not started.cancelled:
                    started.task = task
                    await self._do(started.work(), self._context.copy(), task)
                    started.task = None
        finally:
            if self._next is task:
                self._leave()

    @coroutine
    def _do(
        self, work: Coroutine[Any, Any, None], context: Context, task: asyncio.Task[None]
    ) -> Generator[Any, Any, None]:
        """Runs a coroutine in its context. While it waits, another task takes from the line."""
        try:
            waits_for: Any = context.run(work.send, None)
            while True:
                if self._next is task:
                    self._leave()
                try:
                    value: Any = yield waits_for
                except BaseException as error:  # noqa: BLE001  # whatever the task is told, its code is told
                    self._return(task)
                    waits_for = context.run(work.throw, error)
                else:
                    self._return(task)
                    waits_for = context.run(work.send, value)
        except StopIteration:
            return

    def _leave(self) -> None:
        """The task that took from the line waits, or has ended."""
        self._next = None
        if self._line:
            self._open()

    def _return(self, task: asyncio.Task[None]) -> None:
        """A task that waited goes on: what is started now need not wait for a new one."""
        if self._next is None:
            self._next = task
