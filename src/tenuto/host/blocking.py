"""Async classes without `await`: derived mechanically, never written twice."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from tenuto.errors import ConfigError

__all__ = ["Blocking", "LoopThread"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, on which blocking callers run coroutines to their end."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        return self._loop is not None

    def start(self) -> bool:
        """Whether it was at rest, and runs now."""
        if self._loop is not None:
            return False
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="tenuto-app", daemon=True)
        self._thread.start()
        return True

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise ConfigError("this app is not open: use it inside `with Tenuto.sync(...) as app:`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T:
            return await anext(items)

        while True:
            try:
                yield self.run(following())
            except StopAsyncIteration:
                return

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Blocking:
    """Gives a class the public methods of another: same names, same arguments, run to their end on the loop thread."""

    _blocking_of: dict[type[Any], type[Blocking]] = {}  # noqa: RUF012  # one for all: which class stands for which

    def __init__(self, target: Any, thread: LoopThread) -> None:
        self._target = target
        self._thread = thread

    def __init_subclass__(cls, of: type[Any], **options: Any) -> None:
        super().__init_subclass__(**options)
        Blocking._blocking_of[of] = cls
        for name, method in vars(of).items():
            if not name.startswith("_") and inspect.isfunction(method) and name not in vars(cls):
                setattr(cls, name, _without_await(name, method))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._target, name)

    def _given(self, outcome: Any) -> Any:
        """What a blocking caller gets for what an async one would."""
        if inspect.iscoroutine(outcome):
            outcome = self._thread.run(outcome)
        wrapper = self._blocking_of.get(outcome.__class__)
        if wrapper is not None:
            return wrapper(outcome, self._thread)
        if isinstance(outcome, AsyncIterator):
            return self._thread.iterate(cast("AsyncIterator[Any]", cast("object", outcome)))
        return outcome


def _without_await(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Blocking, *args: Any, **kwargs: Any) -> Any:
        return self._given(getattr(self._target, name)(*args, **kwargs))  # pyright: ignore[reportPrivateUsage]  # its own

    return call
