"""Handles, futures and tasks of a run's loop. Futures and tasks hash by creation number (`loop`, rule 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import CodeType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar

if TYPE_CHECKING:
    from tenuto.kernel.scope import Scope

__all__ = ["Awaited", "Future", "Handle", "Task", "TimerHandle", "forget", "is_coroutine"]

T = TypeVar("T")

Awaited: TypeAlias = Generator[Any, None, T] | Coroutine[Any, Any, T]

_AWAITABLE: Final = 0x100  # CO_ITERABLE_COROUTINE: a generator that can be awaited
_NO_CONTEXT: Final = Context()


class Handle(asyncio.Handle):
    """A callback in its context. Lighter than asyncio's: one is made for every resumption of every task."""

    __slots__ = ("args", "callback", "context", "dropped")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def __repr__(self) -> str:
        return f"<Handle {self.callback!r}>"


class TimerHandle(asyncio.TimerHandle):
    """A durable timer of `call_later` and `call_at`."""

    __slots__ = ("deadline", "dropped", "withdraw")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.dropped = False
        self.withdraw: Callable[[], None] | None = None

    def cancel(self) -> None:
        if not self.dropped and self.withdraw is not None:
            self.withdraw()
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.deadline

    def __repr__(self) -> str:
        return f"<TimerHandle {self.deadline}>"

    __hash__ = object.__hash__


class Future(asyncio.Future[T]):
    """A future that hashes by creation number."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class Task(asyncio.Task[T]):
    """A task that hashes by creation number, and has its context and the coroutine it was made for."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        number: int,
        inner: Coroutine[Any, Any, T] | None,
        loop: asyncio.AbstractEventLoop,
        name: str,
        context: Context,
    ) -> None:
        # asyncio keeps all tasks of the process in one weak set, which asks for the hash now and remembers it. The
        # first tasks of all runs would have one and the same there, and each be compared with all others.
        self.number = id(self)
        self.context = context
        self.inner = inner
        self.scope: Scope | None = None  # that it was created in, while it has not ended
        self.begun = False  # its code has been entered
        self.stands_for: asyncio.Task[Any] | None = None  # whose code it runs, where `wait_for` made it
        super().__init__(coro, loop=loop, name=name, context=context)
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.begun and not self.done():
            # Its code may never be entered then, which is what forgets it otherwise.
            self.add_done_callback(forget, context=_NO_CONTEXT)
        return super().cancel(msg)


class _Forgets(Protocol):
    def forget(self, task: Task[Any], /) -> None: ...


def forget(task: Any) -> None:
    """A done callback of tasks whose code may not have been entered."""
    loop: _Forgets = task.get_loop()
    loop.forget(task)
    if task.inner is not None:
        task.inner.close()  # cancelled before its first step: as asyncio does, it is not left unawaited


def is_coroutine(value: Awaited[T]) -> TypeGuard[Coroutine[Any, Any, T]]:
    """True if a task can be made of it, and awaits it: a coroutine, or a generator that `types.coroutine` marked.

    asyncio of 3.11 wraps other awaitables in such generators, later versions wrap them in coroutines.
    """
    if type(value) is CoroutineType:
        return True
    if isinstance(value, GeneratorType):
        code: CodeType = value.gi_code
        return bool(code.co_flags & _AWAITABLE)
    return isinstance(value, Coroutine)
