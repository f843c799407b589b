"""The deterministic asyncio loop a run lives on: a deque of handles, drained synchronously.

Rules:

1. Handles run first in, first out; nothing else decides an order. Tasks and futures hash by creation number, so the
   sets in which the standard library keeps them have the same order in every process.
2. Time is the run's; waiting is a durable timer of the run. Everything that would touch the outside raises
   `ForeignCallError`.
3. `drain` may be called from a task of the host's own running loop: running loop and hooks are put back after it.
4. Closing runs every task's coroutine to its end in its own context, never the garbage collector's.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from inspect import currentframe
from types import CodeType
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar, TypeVarTuple

from tenuto.errors import Evicted, ForeignCallError, RunawayTurnError
from tenuto.kernel.scope import Scope, current_scope

__all__ = ["Loop", "LoopOwner", "Task", "drop_generators"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HANDLES_PER_DRAIN: Final = 1_000_000

Hooks: TypeAlias = tuple[Any, Any]
Before: TypeAlias = "tuple[asyncio.AbstractEventLoop | None, Hooks | None]"
_get_running_loop: Final = asyncio._get_running_loop
_set_running_loop: Final = asyncio._set_running_loop

# Python 3.11 runs the awaitable of `wait_for` in a task of its own, later versions do not: such a task must not be a
# scope, or locations would depend on the version.
_WAIT_FOR: Final[CodeType] = asyncio.wait_for.__code__
_TASKS: Final = asyncio.wait_for.__globals__  # of the module that has them
_AS_COMPLETED: Final[CodeType] = (
    asyncio.as_completed.__code__ if hasattr(asyncio.as_completed, "__code__") else _WAIT_FOR
)


class LoopOwner(Protocol):
    """What the loop needs of its run."""

    def now(self) -> int: ...

    def start_timer(self, deadline: int, fire: Callable[[], None]) -> Callable[[], None]:
        """Starts a durable timer in the current scope; gives what withdraws it."""
        ...

    async def end_scope(self, scope: Scope, *, withdrawn: bool) -> None:
        """Ends a scope whose function has ended (G6, D8)."""
        ...

    def report(self, message: str) -> None: ...

    fault: Exception | None  # why the turn is to be dropped


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

    def __init__(self, number: int, *, loop: Loop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class Task(asyncio.Task[T]):
    """A task that hashes by creation number, and knows its context and the coroutine it was made for."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        number: int,
        inner: Coroutine[Any, Any, T] | None,
        loop: Loop,
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
            self.add_done_callback(_forget, context=_NO_CONTEXT)
        return super().cancel(msg)


class Loop(asyncio.AbstractEventLoop):
    """See the rules above."""

    def __init__(self, owner: LoopOwner) -> None:
        self._owner = owner
        self._created = 0
        self.ready: deque[Handle] = deque()
        self.alive: dict[int, Task[Any]] = {}
        self.lenient = False  # a side effect's closure is running: it may touch the outside
        self._inert = False

    # --- what workflow code uses

    def time(self) -> float:
        return self._owner.now() / 1000

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> Handle:
        handle = Handle(callback, args, context if context is not None else copy_context())
        self.ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at(self._owner.now() + math.ceil(delay * 1000), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # A float of seconds since 1970 is exact to a quarter of a microsecond: less than that is noise.
        return self._call_at(math.ceil(when * 1000 - 0.002), callback, args, context)

    def _call_at(
        self, deadline: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> TimerHandle:
        if self._inert:
            raise Evicted
        handle = TimerHandle(deadline / 1000)
        context = context if context is not None else copy_context()

        def fire() -> None:
            if not handle.dropped:
                handle.withdraw = None
                self.call_soon(callback, *args, context=context)

        if deadline <= self._owner.now():
            self.call_soon(fire)
        else:
            handle.withdraw = self._owner.start_timer(deadline, fire)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        self._created += 1
        return Future(self._created, loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        assert isinstance(coro, Coroutine)  # noqa: S101  # asyncio.create_task checks; generators ended with 3.11
        caller = _calling_construct()
        if caller is _AS_COMPLETED and _AS_COMPLETED is not _WAIT_FOR:
            coro.close()
            raise ForeignCallError("asyncio.as_completed on bare coroutines (their order is that of a set)")
        if self._inert:
            coro.close()
            raise Evicted
        parent = current_scope.get()
        context = context if context is not None else copy_context()
        if caller is _WAIT_FOR:
            task = self._start(coro, None, parent, name, context)
            task.begun = True
            task.stands_for = asyncio.current_task(self)
            task.add_done_callback(_forget, context=_NO_CONTEXT)
            return task
        scope = parent.enter_task()
        return self._start(self._in_scope(scope, coro), coro, parent, name, context)

    def _start(
        self,
        coro: Coroutine[Any, Any, T],
        inner: Coroutine[Any, Any, T] | None,
        parent: Scope,
        name: str | None,
        context: Context,
    ) -> Task[T]:
        self._created += 1
        number = self._created
        task = Task(coro, number=number, inner=inner, loop=self, name=name or f"task-{number}", context=context)
        task.scope = parent
        self.alive[number] = task
        parent.tasks[task] = None
        return task

    async def _in_scope(self, scope: Scope, coro: Coroutine[Any, Any, T]) -> T:
        """What a task runs: its code in a scope of its own, and the end of both."""
        task = asyncio.current_task(self)
        assert isinstance(task, Task)  # noqa: S101  # made by `_start`
        task.begun = True
        current_scope.set(scope)  # in the task's own context: there is nothing to go back to
        withdrawn = False
        try:
            return await coro
        except asyncio.CancelledError:
            withdrawn = True
            raise
        finally:
            await self._owner.end_scope(scope, withdrawn=withdrawn)
            self.forget(task)

    def forget(self, task: Task[Any]) -> None:
        """The task has ended: nothing has to be done with it when its scope ends, or the run."""
        self.alive.pop(task.number, None)
        if task.scope is not None:
            task.scope.tasks.pop(task, None)
            task.scope = None

    def start_root(self, coro: Coroutine[Any, Any, T], scope: Scope) -> Task[T]:
        """The run's main task: its scope is the root, its context empty."""
        context = Context()
        context.run(current_scope.set, scope)
        self._created += 1
        number = self._created
        task = Task(coro, number=number, inner=None, loop=self, name="main", context=context)
        self.alive[number] = task
        return task

    # --- what the standard library asks

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._inert:
            error = context.get("exception")
            self._owner.report(f"{context.get('message')}: {error!r}" if error else str(context.get("message")))

    # --- what the run does with it

    def enter(self) -> Before:
        """Makes this the running loop; `leave` puts back what was before."""
        before = _get_running_loop(), drop_generators()
        _set_running_loop(self)
        return before

    def leave(self, before: Before) -> None:
        loop, hooks = before
        if hooks is not None:
            sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(loop)

    def drain(self) -> None:
        """Runs handles until none is ready, or the owner says stop. Only between `enter` and `leave`."""
        ready = self.ready
        owner = self._owner
        budget = HANDLES_PER_DRAIN
        while ready:
            handle = ready.popleft()
            if handle.dropped:
                continue
            budget -= 1
            if budget < 0:
                raise RunawayTurnError(f"more than {HANDLES_PER_DRAIN:,} callbacks ran in one turn")
            try:
                handle.context.run(handle.callback, *handle.args)
            except SystemExit:
                pass  # asyncio has made it the task's outcome already; a workflow cannot end the worker
            except Exception as error:  # noqa: BLE001  # a callback of call_soon may raise anything; asyncio logs it too
                self.call_exception_handler({"message": "a callback raised", "exception": error})
            if owner.fault is not None:
                ready.clear()

    def close_tasks(self) -> list[str]:
        """Closes every task's coroutine, oldest first, in its own context; what refused to close."""
        self._inert = True
        self.ready.clear()
        refused: list[str] = []
        before = self.enter()
        try:
            for task in list(self.alive.values()):
                if task.done():
                    continue
                for coro in (task.get_coro(), task.inner):
                    if coro is not None and not _close(task.context, coro):
                        refused.append(task.get_name())
        finally:
            self.leave(before)
        self.ready.clear()
        self.alive.clear()
        return refused


def drop_generators() -> Hooks | None:
    """From now on an abandoned async generator is dropped, not finalised on the loop whenever the collector comes by.

    Gives the hooks that were there, for `sys.set_asyncgen_hooks`; None if it is so already. Who takes many turns asks
    for it once: setting hooks is an audited event, a microsecond and more each time.
    """
    hooks = sys.get_asyncgen_hooks()
    if hooks[0] is _ignore:
        return None
    sys.set_asyncgen_hooks(_ignore, _ignore)
    return hooks


_NO_CONTEXT: Final = Context()


def _forget(task: Any) -> None:
    task.get_loop().forget(task)
    if task.inner is not None:
        task.inner.close()  # cancelled before its first step: as asyncio does, it is not left unawaited


def _ignore(_: object) -> None:
    return None


def _close(context: Context, coro: Any) -> bool:
    try:
        context.run(coro.close)
    except RuntimeError:
        return False  # it awaited something else in its finally
    except BaseException:  # noqa: BLE001  # code being closed may raise anything, Evicted first of all; nobody is left to hear it
        return True
    return True


def _calling_construct() -> CodeType | None:
    """Which of the two constructs that need care called create_task, if any."""
    frame = currentframe()
    frame = frame.f_back if frame is not None else None  # create_task
    frame = frame.f_back if frame is not None else None  # who called it
    while frame is not None and frame.f_globals is _TASKS:
        if frame.f_code is _WAIT_FOR or frame.f_code is _AS_COMPLETED:
            return frame.f_code
        frame = frame.f_back
    return None


# --- the outside

# What people call it, for loop methods they never see.
_KNOWN_AS: Final = {
    "run_in_executor": "asyncio.to_thread / loop.run_in_executor",
    "create_connection": "asyncio.open_connection / loop.create_connection",
    "create_unix_connection": "asyncio.open_unix_connection / loop.create_unix_connection",
    "create_server": "asyncio.start_server / loop.create_server",
    "create_unix_server": "asyncio.start_unix_server / loop.create_unix_server",
    "subprocess_exec": "asyncio.create_subprocess_exec / loop.subprocess_exec",
    "subprocess_shell": "asyncio.create_subprocess_shell / loop.subprocess_shell",
}


def _foreign(name: str) -> Callable[..., NoReturn]:
    def method(self: Loop, *args: object, **kwargs: object) -> NoReturn:
        raise ForeignCallError(_KNOWN_AS.get(name, f"loop.{name}"))

    method.__name__ = name
    return method


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(Loop):
        setattr(Loop, _name, _foreign(_name))
