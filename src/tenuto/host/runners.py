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
from typing import Any, Protocol

__all__ = ["Call", "Runners", "Work"]


class Work(Protocol):
    """Something to be done in a runner's task."""

    cancelled: bool  # before it has begun: it never begins
    task: asyncio.Task[None] | None  # while it is being done

    def run(self) -> Coroutine[Any, Any, None]:
        """What is to be done."""
        ...

    def cancel(self) -> None:
        """Stops it."""
        ...


class Call:
    """The call of a coroutine function, as work."""

    __slots__ = ("_function", "cancelled", "task")

    def __init__(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._function = function
        self.task: asyncio.Task[None] | None = None
        self.cancelled = False

    def run(self) -> Coroutine[Any, Any, None]:
        return self._function()

    def cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class Runners:
    """The tasks in which work is done. Of one event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context  # copied for each
        self._line: deque[Work] = deque()
        self._next: asyncio.Task[None] | None = None  # takes from the line; one that waits is not it any more
        self._busy: set[asyncio.Task[None]] = set()  # the loop itself keeps tasks only weakly

    def start(self, work: Work) -> None:
        """Begins work in the loop's next pass."""
        self._line.append(work)
        if self._next is None:
            self._open()

    def _open(self) -> None:
        task = self._next = asyncio.create_task(self._run(), context=self._context)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this one
        line = self._line
        try:
            while self._next is task and line and not task.cancelling():  # its code may have cancelled it
                work = line.popleft()
                if work.cancelled:
                    continue
                work.task = task
                context = self._context.copy()
                doing = work.run()
                try:
                    waits_for: Any = context.run(doing.send, None)
                except StopIteration:
                    pass
                else:
                    await self._go_on(doing, waits_for, context, task)
                work.task = None
        finally:
            if self._next is task:
                self._leave()

    @coroutine
    def _go_on(
        self, doing: Coroutine[Any, Any, None], waits_for: Any, context: Context, task: asyncio.Task[None]
    ) -> Generator[Any, Any, None]:
        """Runs a coroutine that waits to its end, in its context. Meanwhile another task takes from the line."""
        try:
            while True:
                if self._next is task:
                    self._leave()
                try:
                    value: Any = yield waits_for
                except BaseException as error:  # noqa: BLE001  # whatever the task is told, its code is told
                    self._return(task)
                    waits_for = context.run(doing.throw, error)
                else:
                    self._return(task)
                    waits_for = context.run(doing.send, value)
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
