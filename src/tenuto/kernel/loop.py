"""The deterministic asyncio loop a run lives on: a deque of handles, drained synchronously.

Rules:

1. Handles run first in, first out; nothing else decides an order. Tasks and futures hash by creation number, so the
   sets in which the standard library keeps them have the same order in every process.
2. Time is the run's; waiting is a durable timer of the run. Everything that would touch the outside raises
   `ForeignCallError`.
3. `drain` may be called from a task of the host's own running loop: running loop, current task and hooks are put aside
   before it and back after it.
4. Closing runs every task's coroutine to its end in its own context, never the garbage collector's.
5. Whatever a task or a callback raises, `SystemExit` and `KeyboardInterrupt` included, is an error of this run; only
   what a signal of the process put there is passed on.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from inspect import currentframe
from traceback import format_exception
from types import CodeType
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar, TypeVarTuple
from weakref import WeakSet

from tenuto.errors import Evicted, ForeignCallError, RunawayTurnError
from tenuto.kernel.closing import close
from tenuto.kernel.interrupts import is_imposed
from tenuto.kernel.scope import Scope, current_scope
from tenuto.kernel.tasks import Awaited, Future, Handle, Task, TimerHandle, forget, is_coroutine

__all__ = ["Loop", "LoopOwner", "drop_generators"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HANDLES_PER_DRAIN: Final = 1_000_000

Hooks: TypeAlias = tuple[Any, Any]
Before: TypeAlias = "tuple[asyncio.AbstractEventLoop | None, asyncio.Task[Any] | None, Hooks | None]"
_enter_task: Final = asyncio.tasks._enter_task
_leave_task: Final = asyncio.tasks._leave_task
_get_running_loop: Final = asyncio._get_running_loop
_set_running_loop: Final = asyncio._set_running_loop
# Since 3.14 a thread has one current task, whatever its loop, and none can be entered beside it.
_swap_current_task: Final[Callable[[Any, Any], asyncio.Task[Any] | None] | None] = (
    getattr(asyncio.tasks, "_swap_current_task", None) if sys.version_info >= (3, 14) else None
)

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

    async def end_scope(self, scope: Scope, raised: BaseException | None) -> None:
        """Ends a scope whose function has ended, by that exception if any (G6, D8)."""
        ...

    def report(self, message: object) -> None: ...

    def evict(self) -> None:
        """Raises `Evicted`, at the first two calls of a task; then the caller goes on with something harmless."""
        ...

    fault: Exception | None  # why the turn is to be dropped
    inert: bool  # the run is being closed
    evictions: int  # of the task that is being closed


class Loop(asyncio.AbstractEventLoop):
    """See the rules above."""

    def __init__(self, owner: LoopOwner) -> None:
        self._owner = owner
        self._created = 0
        self.ready: deque[Handle] = deque()
        self.alive: dict[int, Task[Any]] = {}
        self.refused = False  # code of this run did not let itself be closed
        self._failed: WeakSet[Task[Any]] | None = None  # tasks that ended with an error

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
        handle = TimerHandle(deadline / 1000)
        if self._owner.inert:
            self._owner.evict()
            return handle
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
        self, coro: Awaited[T], *, name: str | None = None, context: Context | None = None, **options: Any
    ) -> asyncio.Task[T]:
        if not is_coroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}; for a handle: asyncio.ensure_future(handle)")
        caller = _calling_construct()
        if caller is _AS_COMPLETED and _AS_COMPLETED is not _WAIT_FOR:
            coro.close()
            refused = ForeignCallError("asyncio.as_completed on bare coroutines")
            refused.fix = "pass it tasks, asyncio.create_task(...): of coroutines it makes a set, whose order changes"
            raise refused
        parent = current_scope.get()
        context = context if context is not None else copy_context()
        if self._owner.inert:
            coro.close()
            self._owner.evict()
            return self._start(coro, None, parent, name, context)  # never stepped
        if caller is _WAIT_FOR:
            task = self._start(coro, None, parent, name, context)
            task.begun = True
            task.stands_for = asyncio.current_task(self)
            task.add_done_callback(forget, context=_NO_CONTEXT)
            return task
        scope = parent.enter_task()
        return self._start(self._in_scope(scope, coro), coro, parent, name, context)

    def get_task_factory(self) -> None:
        """None: anyio asks for it."""

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
        raised: BaseException | None = None
        try:
            return await coro
        except BaseException as error:
            raised = error
            if not isinstance(error, asyncio.CancelledError):
                self._note_failed(task)
            raise
        finally:
            ended, raised = self._owner.end_scope(scope, raised), None  # a frame that keeps its error is a cycle
            await ended
            self.forget(task)
            del task  # its error's traceback would lead back to it: then nobody would see that nobody awaits it

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
        if not self._owner.inert:
            self._owner.report(_Report(str(context.get("message")), context.get("exception")))

    # --- errors that nobody awaits

    def _note_failed(self, task: Task[Any]) -> None:
        if self._failed is None:
            self._failed = WeakSet()
        self._failed.add(task)

    def report_failed(self) -> None:
        """The run has ended: nobody will await what its failed tasks raised. (asyncio reports those that are gone.)"""
        for task in self._failed or ():
            if task.done() and getattr(task, "_log_traceback", False):
                error = task.exception()  # from now on it counts as awaited
                self.call_exception_handler(
                    {"message": f"{task.get_name()} failed, and nobody awaited it", "exception": error}
                )
        self._failed = None

    # --- what the run does with it

    def enter(self) -> Before:
        """Makes this the running loop, without a current task; `leave` puts back what was before."""
        outer = _get_running_loop()
        # While the outer loop is the running one: the current task of another cannot be exchanged.
        task = _swap_current_task(outer, None) if _swap_current_task is not None and outer is not None else None
        _set_running_loop(self)
        return outer, task, drop_generators()

    def leave(self, before: Before) -> None:
        outer, task, hooks = before
        if hooks is not None:
            sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(outer)
        if task is not None and _swap_current_task is not None:
            _swap_current_task(outer, task)

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
            except BaseException as error:  # noqa: BLE001  # a callback of call_soon may raise anything (rule 5)
                self._raised(handle, error)
            if owner.fault is not None:
                ready.clear()

    def _raised(self, handle: Handle, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt | SystemExit) and is_imposed(error):
            raise error
        if isinstance(error, Evicted) or _is_task(handle.callback):
            return  # the turn is being dropped; or asyncio has made it the task's outcome already
        self.call_exception_handler({"message": "a callback raised", "exception": error})

    def close_tasks(self) -> list[str]:
        """Closes every task's coroutine, oldest first, in its own context; what refused to close."""
        self.ready.clear()
        refused: list[str] = []
        before = self.enter()
        try:
            for task in list(self.alive.values()):
                if task.done():
                    continue
                self._owner.evictions = 0
                _enter_task(self, task)  # or a timeout, or a task group, would fail at once instead of waiting
                closed = [close(task.context, coro) for coro in (task.get_coro(), task.inner) if coro is not None]
                _leave_task(self, task)
                if not all(closed):
                    refused.append(task.get_name())
        finally:
            self.leave(before)
        self.ready.clear()
        self.alive.clear()
        self.refused = bool(refused)
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


class _Report:
    """A message with the traceback of its error.

    It becomes a text later: the garbage collector may report a task in the midst of anything, and a traceback parses
    source.
    """

    def __init__(self, message: str, error: BaseException | None) -> None:
        self._message = message
        self._error = error

    def __str__(self) -> str:
        if self._error is None:
            return self._message
        return f"{self._message}:\n{''.join(format_exception(self._error)).rstrip()}"


_NO_CONTEXT: Final = Context()


def _is_task(callback: Any) -> bool:
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def _ignore(_: object) -> None:
    return None


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
