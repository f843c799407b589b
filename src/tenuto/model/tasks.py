"""Steps sent through a queue by themselves, and waiting for any number of handles."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, TypeVarTuple, Unpack, cast, overload

from tenuto.errors import AnyError
from tenuto.kernel.operations import SleepOp, StepOp
from tenuto.model import registry
from tenuto.model.definitions import Bound, Step, encode_call
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.handles import Handle, WorkHandle
from tenuto.model.ids import short_name
from tenuto.model.options import QueueOptions, queue_fields, spec_named
from tenuto.model.place import current
from tenuto.model.steps import Implementation, StepCall
from tenuto.model.waiting import Endings

__all__ = ["Elsewhere", "Finished", "Handle", "Task", "Won", "queued_step"]

R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Won(Generic[T_co]):
    """The item of a `Task.any` that succeeded first."""

    item_id: str
    result: T_co


@dataclass(frozen=True, slots=True)
class Finished(Generic[T_co]):
    """The item of a `Task.race` that ended first, one way or the other."""

    item_id: str
    status: Literal["completed", "failed"]
    result: T_co | None
    error: Exception | None


class Task:
    """Tasks and timers as handles, and waiting for several of them.

    reports = [Task.run(build_report, month) for month in months]
    done = await Task.race([*reports, Task.delay("10m")])
    """

    @overload
    @staticmethod
    def run(task: Bound[R], /, **options: Unpack[QueueOptions]) -> Handle[R]: ...
    @overload
    @staticmethod
    def run(
        task: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[QueueOptions]
    ) -> Handle[R]: ...
    @overload
    @staticmethod
    def run(task: str, /, *args: object, **options: Unpack[QueueOptions]) -> Handle[Any]: ...
    @staticmethod  # type: ignore[misc]  # mypy cannot match an implementation with *Ts
    def run(task: Any, /, *args: Any, **options: Any) -> Handle[Any]:
        """Queues a step at once and gives a handle on it. Un-awaited it runs all the same, even if this run ends.

        `queue`, else the step's own, else `"default"`. If its `key` is open there, the handle follows that item.
        """
        place = current("Task.run()")
        operation = queued_step("Task.run", task, args, options)
        future = place.port.issue(operation)
        return WorkHandle(place, operation.spec.name, place.port.operation_key(future), future)

    @staticmethod
    def delay(duration: Duration, /) -> Handle[None]:
        """A handle that succeeds with `None` when that time has passed."""
        place = current("Task.delay()")
        future = place.port.issue(SleepOp("timer", duration_ms=milliseconds(duration)))
        return _Delay(place, "timer", place.port.operation_key(future), future)

    @staticmethod
    def all(items: Sequence[Handle[T]], /) -> Coroutine[Any, Any, list[T]]:
        """The values of all items, in their order. The first recorded failure raises at once; the others go on."""
        return _all(_handles("Task.all()", items))

    @staticmethod
    def any(items: Sequence[Handle[T]], /, *, cancel_losers: bool = False) -> Coroutine[Any, Any, Won[T]]:
        """The first item that succeeds; `AnyError` with each cause if none does. Losing timers are withdrawn."""
        return _any(_handles("Task.any()", items, at_least_one=True), cancel_losers)

    @staticmethod
    def race(items: Sequence[Handle[T]], /, *, cancel_losers: bool = False) -> Coroutine[Any, Any, Finished[T]]:
        """The first item that ends, a failure included, which is returned and not raised."""
        return _race(_handles("Task.race()", items, at_least_one=True), cancel_losers)


class _Delay(WorkHandle[None]):
    """A timer: it is withdrawn when it loses."""


def queued_step(call: str, task: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> StepOp:
    """What `Task.run` and `app.enqueue` put into a queue. `call`: who says so in an error."""
    if isinstance(task, Bound):
        if args:
            raise TypeError(f"{call}: a bound step has its arguments already")
        bound = cast("Bound[Any]", task)  # type: ignore[redundant-cast]  # not to pyright
        return _step_operation(call, bound.definition, bound.args, bound.kwargs, options)
    if isinstance(task, str):
        known = registry.current()
        found = task if "//" in task else known.find_id(task, "step")
        task = known.get(found) or Elsewhere(found)
    if isinstance(task, Elsewhere):  # not loaded here; a worker of its queue will know it
        spec = spec_named(short_name(task.id))
        spec = replace(spec, **queue_fields(spec, options, call))
        return StepOp(spec, StepCall(task, None, encode_call(args, {})))
    return _step_operation(call, task, args, {}, options)


def _step_operation(call: str, step: Any, args: Sequence[Any], kwargs: Any, options: Mapping[str, Any]) -> StepOp:
    if not isinstance(step, Step):
        runs = "spawn()" if call == "Task.run" else "app.start()"
        raise TypeError(f"{call} takes a step, a bound step or a step's name, not {step!r}; runs are started by {runs}")
    known = cast("Step[..., Any]", step)
    if "<locals>" in cast("Any", known).__qualname__ and known.closure is None:
        raise ValueError(f"{known!r} lives in a function: another process could not find it for a queue")
    return StepOp(replace(known.spec, **queue_fields(known.spec, options, call)), known.call(args, kwargs))


class Elsewhere:
    """A step that only its id is known of."""

    __slots__ = ("id",)

    def __init__(self, step_id: str) -> None:
        self.id = step_id

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        return encode_call(args, {})

    def implementation(self) -> Implementation:
        raise LookupError(self.id)


# --- waiting


def _handles(call: str, items: Sequence[Any], *, at_least_one: bool = False) -> list[WorkHandle[Any]]:
    current(call)
    handles = list(items)
    if at_least_one and not handles:
        raise ValueError(f"{call} needs at least one item")
    for item in handles:
        if not isinstance(item, WorkHandle):
            raise TypeError(f"{call} takes handles (of Task.run, Task.delay, spawn), not {item!r}")
    return handles


class _Settling:
    """Handles in the order in which they were settled."""

    def __init__(self, handles: Sequence[WorkHandle[Any]]) -> None:
        self._by_future = {handle.future: handle for handle in handles}
        settled = sorted((handle for handle in handles if handle.order), key=lambda handle: handle.order)
        self._endings = Endings([handle.future for handle in settled])
        for handle in handles:
            if not handle.order:
                self._endings.watch(handle.future)
        self._left = len(self._by_future)

    async def next(self) -> WorkHandle[Any] | None:
        if self._left == 0:
            return None
        self._left -= 1
        try:
            return self._by_future[await self._endings.next()]
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        self._endings.forget()


def _error(handle: WorkHandle[Any]) -> Exception | None:
    if handle.future.cancelled():
        return handle.cancelled_error()
    error = handle.future.exception()
    return cast("Exception | None", error)


async def _all(handles: list[WorkHandle[Any]]) -> list[Any]:
    current("Task.all()")
    settling = _Settling(handles)
    while (handle := await settling.next()) is not None:
        error = _error(handle)
        if error is not None:
            settling.forget()
            raise error
    return [handle.value() for handle in handles]


async def _any(handles: list[WorkHandle[Any]], cancel_losers: bool) -> Won[Any]:
    current("Task.any()")
    settling = _Settling(handles)
    errors: dict[str, Exception] = {}
    while (handle := await settling.next()) is not None:
        error = _error(handle)
        if error is None:
            settling.forget()
            _withdraw_losers(handles, cancel_losers)
            return Won(handle.id, handle.value())
        errors[handle.id] = error
    raise AnyError(errors)


async def _race(handles: list[WorkHandle[Any]], cancel_losers: bool) -> Finished[Any]:
    current("Task.race()")
    settling = _Settling(handles)
    first = cast("WorkHandle[Any]", await settling.next())
    settling.forget()
    _withdraw_losers(handles, cancel_losers)
    error = _error(first)
    if error is not None:
        return Finished(first.id, "failed", None, error)
    return Finished(first.id, "completed", first.value(), None)


def _withdraw_losers(handles: list[WorkHandle[Any]], cancel_losers: bool) -> None:
    for handle in handles:
        if (cancel_losers or isinstance(handle, _Delay)) and not handle.future.done():
            handle.cancel()
