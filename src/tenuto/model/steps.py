"""A function whose result is recorded: the durable call, and what a runner does with it.

`durable` is the path of every replayed step, so it asks for its place once, issues one operation and decodes one
value; everything a replay does not need (encoding plain arguments, finding the function) waits until it is asked for.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, NoneType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from tenuto.codec.values import dump, load
from tenuto.errors import NestingError, NotInWorkflowError
from tenuto.kernel.operations import StepOp, StepSpec
from tenuto.model.place import Place, here, refuse
from tenuto.system import LOOP_THREADS, Runner

__all__ = [
    "Attempt",
    "Implementation",
    "StepCall",
    "StepInfo",
    "Subject",
    "captured",
    "durable",
    "heartbeat",
    "is_async",
    "is_plain",
    "plain_call",
    "run_attempt",
    "run_rollback",
    "step_info",
]

_INT64: Final = 2**63
_SHORT: Final = 256
# Builds a named tuple in half the time that calling its class takes.
_make_op = cast("Callable[[type[StepOp], tuple[StepSpec, Any]], StepOp]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_NOTHING: Final[Mapping[str, Any]] = {}
_ALWAYS_PLAIN: Final = frozenset({float, bool, NoneType})


# --- the call


Implementation: TypeAlias = tuple[Callable[..., Any], bool]  # a function, and whether it is async


class Callee(Protocol):
    """Whose call it is: a step, or a function that was named in place."""

    @property
    def id(self) -> str: ...

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        """The encoded call with plain arguments (`is_plain`)."""
        ...

    def implementation(self) -> Implementation:
        """The function that attempts run, and whether it is async."""
        ...


class StepCall:
    """One call of a step with its arguments, as they were when it was made."""

    __slots__ = ("_args", "_callee", "_input")

    def __init__(self, callee: Callee, args: tuple[Any, ...] | None, encoded: bytes | None = None) -> None:
        """Either arguments that nothing can change (`is_plain`), or the encoded call."""
        self._callee = callee
        self._args = args
        self._input = encoded

    @property
    def target(self) -> str:
        """The step's id; "" for a function named in place."""
        return self._callee.id

    @property
    def input(self) -> bytes:
        """Encoded [args, kwargs], with captured values as a third item where there are any."""
        if self._input is None:
            self._input = self._callee.record_plain(self._args or ())
        return self._input

    def prepare(self) -> tuple[Implementation, Sequence[Any], Mapping[str, Any], Mapping[str, Any]]:
        """Function, arguments, keyword arguments and captured values: every attempt gets a copy of its own."""
        implementation = self._callee.implementation()
        if self._args is not None:
            return implementation, self._args, _NOTHING, _NOTHING
        args, kwargs, *rest = load(self.input)
        return implementation, args, kwargs, rest[0] if rest else _NOTHING


def is_plain(args: tuple[Any, ...]) -> bool:
    """Whether nothing can change these arguments and encoding them cannot fail, so that it can wait."""
    for value in args:
        sort = type(value)  # pyright: ignore[reportUnknownVariableType]  # the user's own
        if sort is int:
            if not -_INT64 <= value < _INT64:
                return False
        elif sort is str:
            if len(value) > _SHORT or not value.isascii():
                return False
        elif sort not in _ALWAYS_PLAIN:
            return False
    return True


async def durable(spec: StepSpec, call: StepCall) -> Any:
    """The value of a step: recorded, or gained now and then recorded."""
    place = here.get()
    if place is None or not place.open:
        raise refuse(f"step {spec.name!r}", place)
    port = place.port
    if port.inert:
        port.evict()
    issued = port.perform(_make_op(StepOp, (spec, call)))
    return port.decode(issued if isinstance(issued, bytes) else await issued)


def plain_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Coroutine[Any, Any, Any]:
    """The function itself, called where no run is: awaitable, also for `def`."""
    if inspect.iscoroutinefunction(function):
        return cast("Coroutine[Any, Any, Any]", function(*args, **kwargs))
    return _awaited(function, args, kwargs)


async def _awaited(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    value = function(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


# --- the attempt


class Attempted(Protocol):
    """What is attempted: a command of a run, or a `Subject`."""

    @property
    def name(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def key(self) -> str: ...


class Subject(NamedTuple):
    """What is attempted, where no command says it."""

    name: str
    attempt: int  # 1 is the first
    key: str  # idempotency key


class Attempt:
    """What a runner provides while it runs one attempt of a step."""

    __slots__ = ("cancelled", "details", "of", "on_heartbeat", "run_id")

    def __init__(
        self,
        of: Attempted,
        run_id: str | None,
        *,
        details: bytes | None = None,
        on_heartbeat: Callable[[bytes], None] | None = None,
    ) -> None:
        self.of = of
        self.run_id = run_id
        self.details = details  # of the last heartbeat of an earlier attempt, encoded
        self.on_heartbeat = on_heartbeat
        self.cancelled = False  # set by the runner when the step is asked to stop

    def heard(self, details: bytes) -> None:
        """A heartbeat with its encoded details. Called from the step's own thread."""
        if self.on_heartbeat is not None:
            self.on_heartbeat(details)


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What a step's body can know about the attempt it is."""

    name: str
    run_id: str | None  # None for a task without a workflow
    attempt: int  # 1 for the first
    idempotency_key: str  # the same on every attempt and every worker; give it to whom you call
    details: Any  # of the last heartbeat, of this attempt or one before
    _attempt: Attempt = field(repr=False, compare=False)

    def cancelled(self) -> bool:
        """Whether the step was asked to stop; for `def` steps, which nothing can interrupt."""
        return self._attempt.cancelled


captured: ContextVar[Mapping[str, Any]] = ContextVar("tenuto_captured")
_attempt: ContextVar[Attempt | None] = ContextVar("tenuto_attempt", default=None)
_BODY: Final = Place("step", cast("Any", None), cast("Any", None))


def step_info() -> StepInfo:
    """The attempt that this step body is: its number, its idempotency key, the last heartbeat's details.

    @step
    async def charge(card: str, cents: int) -> str:
        return await bank.charge(card, cents, idempotency_key=step_info().idempotency_key)
    """
    attempt = _this_attempt("step_info()")
    details = None if attempt.details is None else load(attempt.details)
    of = attempt.of
    return StepInfo(of.name, attempt.run_id, of.attempt, of.key, details, attempt)


def heartbeat(details: object = None, /) -> None:
    """Says that the step is alive, and keeps details for its next attempt.

    Raises `CancelledError` when the step was asked to stop.

        @step(heartbeat_timeout="30s")
        def import_rows(path: str) -> int:
            start = (step_info().details or {}).get("row", 0)
            for row in rows(path, start):
                store(row)
                heartbeat({"row": row.number})
    """
    attempt = _this_attempt("heartbeat()")
    if attempt.cancelled:
        raise CancelledError
    attempt.heard(dump(details))


def _this_attempt(call: str) -> Attempt:
    attempt = _attempt.get()
    place = here.get()
    if place is not None and place.kind != "step":
        raise NestingError(f"{call} was called in workflow code; it belongs in the body of a step")
    if attempt is None:
        raise NotInWorkflowError(f"{call} was called where no step of a run is being executed")
    return attempt


def run_attempt(call: StepCall, attempt: Attempt, runner: Runner = LOOP_THREADS) -> Coroutine[Any, Any, Any]:
    """The body of a step; awaited, it gives what the step returned.

    To be called in a context of the attempt's own: the context is the step's from now on.
    """
    (function, inline), args, kwargs, values = call.prepare()
    here.set(_BODY)
    _attempt.set(attempt)
    if values:
        captured.set(values)
    return runner.coroutine(function(*args, **kwargs)) if inline else _sync(function, args, kwargs, runner)


def run_rollback(
    handler: Callable[[Any], object], result: bytes, attempt: Attempt, runner: Runner = LOOP_THREADS
) -> Coroutine[Any, Any, Any]:
    """Undoes a step: its handler is run with a copy of its result, as `run_attempt` runs a step."""
    function: Callable[..., Any] = getattr(handler, "fn", handler)
    here.set(_BODY)
    _attempt.set(attempt)
    if is_async(function):
        return runner.coroutine(function(load(result)))
    return _sync(function, (load(result),), {}, runner)


async def _sync(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], runner: Runner) -> Any:
    value = await runner.sync(partial(_call, copy_context(), function, args, kwargs))
    if type(value) is _Raised:
        raise value.error  # of `StopIteration` Python makes a `RuntimeError` here, as in every coroutine
    return await runner.coroutine(_coroutine(value)) if inspect.isawaitable(value) else value


async def _coroutine(value: Awaitable[Any]) -> Any:
    return await value


class _Raised(NamedTuple):
    """What no future carries out of a thread: it refuses `StopIteration`, and `GeneratorExit` closes who awaits it."""

    error: BaseException


def _call(context: Context, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return context.run(function, *args, **kwargs)
    except (StopIteration, GeneratorExit) as error:
        return _Raised(error)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine and blocks nobody."""
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # whether its __call__ is async, not whether it has one
