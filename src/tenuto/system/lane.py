"""Blocking work of one connection, done in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Protocol, TypeVar

__all__ = ["Lane", "Lock", "ThreadLane", "done_on"]

T = TypeVar("T")

Lock: Final = threading.Lock  # for the few instructions in which a lane and an event loop must not meet


class Lane(Protocol):
    """Does work one piece after the other, off the event loop."""

    def put(self, work: Callable[[], None]) -> None:
        """Add work to the end of the line. It raises nothing."""
        ...

    def may_inline(self) -> bool:
        """True if a caller that has nothing in the line may do brief work itself instead."""
        ...

    async def close(self) -> None:
        """Finish what is in the line, and take nothing more."""
        ...


class ThreadLane:
    """A thread that takes from a queue."""

    def __init__(self, name: str) -> None:
        self._line: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        self._line.put(work)

    def may_inline(self) -> bool:
        return True

    async def close(self) -> None:
        self._line.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while (work := self._line.get()) is not None:
            work()


async def done_on(lane: Lane, call: Callable[[], T]) -> T:
    """Call something on a lane and return what it returns."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return  # nobody waits any more
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # no error: the call has returned it

    def work() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = call()
        except StopIteration as error:  # no future carries it; a coroutine would make the same of it
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        except BaseException as error:  # noqa: BLE001  # raised again where it was asked for
            failure = error
        with suppress(RuntimeError):  # that loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, failure)

    lane.put(work)
    return await answer
