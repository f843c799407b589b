"""Strands: code of a run that goes on beside other code of it.

Rules:

1. A strand begins at once: starting it runs it to its first suspension before the starter goes on. That is what
   "started in source order, each to its first suspension" means, and asyncio's tasks would begin later.
2. Cancelling is immediate too: what the strand waits for is withdrawn and its code unwound before `cancel` returns.
   Programs have no clean-up of their own, so unwinding never waits.
3. A strand has a context of its own, and with it its own scope in the kernel.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from tenuto.errors import Evicted

__all__ = ["Strand", "first_of"]


class Strand:
    """One line of code under way. Ends with a value, an error, or cancelled."""

    __slots__ = ("_context", "_coro", "_on_end", "_running", "_waits", "cancelled", "done", "error", "value")

    def __init__(self, coro: Coroutine[Any, Any, Any], on_end: Callable[[Strand], None]) -> None:
        self._coro = coro
        self._on_end = on_end
        self._context = copy_context()
        self._waits: Future[Any] | None = None
        self._running = False
        self.done = False
        self.cancelled = False
        self.value: Any = None
        self.error: Exception | None = None

    def start(self) -> None:
        """Runs the code to its first suspension."""
        self._context.run(self._advance, None)

    def cancel(self) -> None:
        """Withdraws what it waits for and unwinds it. Of a strand that has ended: nothing."""
        if self.done or self._running:
            return
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.cancel()
        self._context.run(self._advance, CancelledError())

    def close(self) -> None:
        """The run leaves memory: its code is closed in its own context."""
        if not self.done and not self._running:
            self.done = True
            with suppress(Evicted):  # what it asks of the engine on its way out; the others are closed all the same
                self._context.run(self._coro.close)

    def _wake(self, future: Future[Any]) -> None:
        if self._waits is future:
            self._waits = None
            self._advance(None)

    def _advance(self, thrown: BaseException | None) -> None:
        self._running = True
        try:
            while True:
                awaited: Any = self._coro.send(None) if thrown is None else self._coro.throw(thrown)
                thrown = None
                if awaited is None:  # a bare yield: there is nothing to wait for
                    continue
                future: Future[Any] = awaited
                future._asyncio_future_blocking = False  # as a task does: the future knows that it is awaited
                self._waits = future
                future.add_done_callback(self._wake, context=self._context)
                return
        except StopIteration as stop:
            self.value = stop.value
        except CancelledError:
            self.cancelled = True
        except Exception as error:  # noqa: BLE001  # part of the contract: the code may raise anything; whoever started it decides
            self.error = error
        finally:
            self._running = False
        self.done = True
        self._on_end(self)


async def first_of(futures: list[Future[Any]]) -> None:
    """Returns when one of them is done; cancelling the wait leaves them alone."""
    if any(future.done() for future in futures):
        return
    waiter: Future[None] = asyncio.get_running_loop().create_future()

    def note(_: Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    for future in futures:
        future.add_done_callback(note)
    try:
        await waiter
    finally:
        for future in futures:
            future.remove_done_callback(note)
