"""Handles on work that goes on elsewhere: tasks, timers and children."""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, Protocol, TypeVar, cast

from tenuto.errors import ChildCancelledError, StepFailedError
from tenuto.model.place import Place, current
from tenuto.model.waiting import any_done, quiet

__all__ = ["ChildHandle", "ChildWork", "Handle", "WorkHandle"]

T_co = TypeVar("T_co", covariant=True)


class Handle(Awaitable[T_co], Protocol[T_co]):
    """Work that was started. Awaiting gives its outcome, and again the same outcome."""

    @property
    def id(self) -> str:
        """What it is called in the store: a task's id, a run's, a timer's location."""
        ...

    @property
    def done(self) -> bool:
        """Whether it has an outcome."""
        ...

    def cancel(self) -> None:
        """Asks it to stop; awaiting it then raises."""
        ...


class ChildHandle(Handle[T_co], Protocol[T_co]):
    """A child run. Its `id` is the child's run id."""

    def signal(self, name: str, /, *args: object) -> Coroutine[Any, Any, None]:
        """Sends the child a signal."""
        ...


class WorkHandle(Generic[T_co]):
    """What is behind every handle: an operation's future, and the order in which it was settled."""

    def __init__(self, place: Place, name: str, identity: str, future: Future[bytes]) -> None:
        self._port = place.port
        self._run = place.run
        self._name = name
        self._id = identity
        self.future = future
        self.order = 0  # among the settled handles of the run; 0: not settled
        future.add_done_callback(self._settled)

    def _settled(self, future: Future[bytes]) -> None:
        self._run.settled += 1
        self.order = self._run.settled
        quiet(future)  # un-awaited work may fail: that is recorded, and no cause for a warning

    @property
    def id(self) -> str:
        return self._id

    @property
    def done(self) -> bool:
        if self._port.inert:
            self._port.evict()
        return self.future.done()

    def cancel(self) -> None:
        current("Handle.cancel()")
        self.future.cancel()

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._outcome().__await__()

    async def _outcome(self) -> T_co:
        current("awaiting a handle")
        await self._wait()
        return self.value()

    async def _wait(self) -> None:
        await any_done(self.future)  # cancelling whoever waits leaves the work alone

    def value(self) -> T_co:
        """The outcome, once it is there."""
        if self.future.cancelled():
            raise self.cancelled_error()
        encoded = self.future.result()
        value: Any = self._port.decode(encoded) if encoded else None
        return cast("T_co", value)

    def cancelled_error(self) -> Exception:
        """What awaiting it raises after `cancel()`: an error, not a cancellation, which would be the waiter's own."""
        return StepFailedError(self._name, self._id, 0, "cancelled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id}>"


class ChildWork(WorkHandle[T_co]):
    """A child run that this run started or follows."""

    async def _wait(self) -> None:
        try:
            await any_done(self.future)
        except CancelledError:
            self.future.cancel()  # the child gets a cancel request
            raise

    def cancelled_error(self) -> Exception:
        return ChildCancelledError(f"child {self._id} was asked to stop by this run")
