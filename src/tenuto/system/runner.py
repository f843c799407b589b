"""Where the bodies of steps run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

__all__ = ["Runner", "ThreadRunner"]

T = TypeVar("T")


class Runner(Protocol):
    """Runs what users wrote: `def` bodies so that they block nobody, `async` ones on the event loop."""

    def sync(self, call: Callable[[], T]) -> Awaitable[T]:
        """Run a function that may block."""
        ...

    def coroutine(self, body: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Run a coroutine."""
        ...

    def close(self) -> None:
        """Take nothing more; what has begun goes on to its end."""
        ...


class ThreadRunner:
    """Threads for `def` bodies; coroutines run where they are awaited."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(thread_name_prefix="tenuto-step")

    def sync(self, call: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def coroutine(self, body: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return body

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
