"""Where the bodies of steps run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

__all__ = ["LOOP_THREADS", "Runner", "ThreadRunner", "own_threads"]

T = TypeVar("T")


class Runner(Protocol):
    """Runs what users wrote: `def` bodies so that they block nobody, `async` ones on the event loop."""

    def sync(self, call: Callable[[], T]) -> Awaitable[T]:
        """Run a function that may block."""
        ...

    def coroutine(self, body: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Run a coroutine, in the context of whoever awaits it."""
        ...

    def close(self) -> None:
        """Take nothing more; what has begun goes on to its end."""
        ...


class ThreadRunner:
    """Threads for `def` bodies; coroutines run where they are awaited. None: the threads that the event loop has."""

    def __init__(self, threads: Executor | None = None) -> None:
        self._threads = threads

    def sync(self, call: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def coroutine(self, body: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return body

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


LOOP_THREADS: Final[Runner] = ThreadRunner()


def own_threads(at_most: int | None = None) -> Runner:
    """Return a runner with threads of its own."""
    return ThreadRunner(ThreadPoolExecutor(at_most, thread_name_prefix="tenuto-step"))
