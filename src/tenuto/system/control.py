"""The control plane of a worker: lease renewal in a thread of its own, which user code cannot hold up."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

__all__ = ["Control", "ThreadControl"]

JOIN_SECONDS = 5.0


class Control(Protocol):
    """Runs one coroutine beside the event loop that user code runs on."""

    def start(self, beat: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin it. Made on the event loop that it watches."""
        ...

    def post(self, callback: Callable[[], None]) -> None:
        """Call something on the event loop that it watches, as soon as that is free."""
        ...

    def main_stack(self) -> str:
        """Return the stack of the code that the watched event loop is executing."""
        ...

    async def stop(self) -> None:
        """End it, and wait until it has ended."""
        ...


class ThreadControl:
    """A thread with an event loop of its own."""

    def __init__(self) -> None:
        self._watched = asyncio.get_running_loop()
        self._watched_thread = threading.get_ident()
        self._own: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, beat: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._thread = threading.Thread(target=self._run, args=(beat,), name="tenuto-leases", daemon=True)
        self._thread.start()
        self._ready.wait()

    def post(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # that loop is closed
            self._watched.call_soon_threadsafe(callback)

    def main_stack(self) -> str:
        frame = sys._current_frames().get(self._watched_thread)  # pyright: ignore[reportPrivateUsage]  # documented
        return "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"

    async def stop(self) -> None:
        thread, own, task = self._thread, self._own, self._task
        if thread is None or own is None or task is None:
            return
        with suppress(RuntimeError):  # it has ended by itself
            own.call_soon_threadsafe(task.cancel)
        await asyncio.to_thread(thread.join, JOIN_SECONDS)

    def _run(self, beat: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._beat(beat))

    async def _beat(self, beat: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._own, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._ready.set()
        await beat()
