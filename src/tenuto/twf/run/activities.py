"""What an activity does: the function bound to it, or its own statements, as one step.

Statements of an activity are not durable: every attempt runs them from the top. Those that loop or call out run in a
thread, so that nothing they do keeps the worker from its other work.
"""

from __future__ import annotations

import asyncio
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import random
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tenuto.errors import TwfError
from tenuto.kernel.operations import StepSpec
from tenuto.model.definitions import encode_call
from tenuto.model.steps import Implementation, StepCall, heartbeat, is_async, is_plain, step_info

from .bindings import Bindings, BoundActivity, BoundFunction
from .failures import FinalFailure, type_and_message
from .faults import Fault, Stopped
from .frames import CALL, MEASURE_AFTER, Budget, Frame
from .library import library
from .settings import settings
from .statements import Exit
from .values import incoming, outgoing, size_of

if TYPE_CHECKING:
    from .compiled import CompiledActivity

__all__ = ["Callee", "Performer", "call_of", "callee_of", "made_call", "perform_queued"]

_LOOK_EVERY: Final = 1_000 * CALL  # units of work between two looks whether the attempt was asked to stop


class Performer:
    """Who performs an activity: a bound function before the activity's own statements."""

    __slots__ = ("_hash", "activity", "bindings", "bound", "constant")

    def __init__(self, activity: CompiledActivity, bound: BoundActivity | None, bindings: Bindings | None) -> None:
        self.activity = activity
        self.bound = bound
        self.bindings = bindings
        self.constant = activity.options.constant
        self._hash = hash((id(activity), id(bound)))

    @property
    def bound_options(self) -> Mapping[str, Any]:
        return self.bound.options if self.bound is not None else {}

    def definition_options(self, args: Sequence[Any]) -> dict[str, Any]:
        """What the activity's definition says; its strings may name its parameters."""
        options = self.activity.options
        if not options.entries:
            return {}
        variables = dict(zip(self.activity.parameters.names, args, strict=True))
        return options.values(Frame(_Body(self, ()), variables, ()))

    def missing(self) -> tuple[str, str] | None:
        """Why no attempt can be made here: code and text."""
        activity = self.activity
        if self.bound is not None:
            return None
        if activity.block is None:
            return "TWF601", f"activity {activity.name} has neither a bound function nor statements"
        for name in sorted(activity.functions):
            if library().function(name, self.bindings) is None:
                return "TWF602", f"activity {activity.name} calls {name}, which is not bound"
        return None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Performer) and other.activity is self.activity and other.bound is self.bound
        )


class Callee:
    """Whose call a step is, for the runner."""

    __slots__ = ("_no_retry", "_performer", "id")

    def __init__(self, performer: Performer, no_retry: tuple[str, ...]) -> None:
        self.id = ""
        self._performer = performer
        self._no_retry = no_retry

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        return encode_call(args, {})

    def implementation(self) -> Implementation:
        function = implementation(self._performer, self._no_retry)
        return function, is_async(function)

    def packed(self, args: list[Any]) -> bytes:
        """The input of a task; an inline step has its arguments."""
        return encode_call(args, {})


class _Queued(Callee):
    """The same through a queue: another worker finds everything in the input."""

    __slots__ = ()

    def __init__(self, performer: Performer, no_retry: tuple[str, ...]) -> None:
        super().__init__(performer, no_retry)
        self.id = f"twf//{performer.activity.name}"

    def packed(self, args: list[Any]) -> bytes:
        activity = self._performer.activity
        return encode_call([activity.program.hash, activity.name, args, list(self._no_retry)], {})


def call_of(performer: Performer, spec: StepSpec, args: list[Any]) -> StepCall:
    """The call that a step of the run makes."""
    return made_call(callee_of(performer, spec), args)


def callee_of(performer: Performer, spec: StepSpec) -> Callee:
    """Whose call it is; one serves every call with these options."""
    no_retry = tuple(item for item in spec.no_retry if isinstance(item, str))
    return Callee(performer, no_retry) if spec.queue is None else _Queued(performer, no_retry)


def made_call(callee: Callee, args: list[Any]) -> StepCall:
    """One call, with its arguments as they are now."""
    if callee.id:
        return StepCall(callee, None, callee.packed(args))
    given = tuple(args)
    return StepCall(callee, given) if is_plain(given) else StepCall(callee, None, encode_call(given, {}))


async def perform_queued(performer: Performer, args: Sequence[Any], no_retry: Sequence[str]) -> Any:
    """An attempt of a task, on the worker that claimed it."""
    run = implementation(performer, tuple(no_retry))
    try:
        return await run(*args) if is_async(run) else await asyncio.to_thread(run, *args)
    except Exception as error:
        # Whoever judges a task knows the step as it was registered, not what this call said about retrying.
        if not isinstance(error, TwfError) and any(base.__name__ in no_retry for base in type(error).__mro__):
            sort, message, details = type_and_message(error)
            raise FinalFailure("TWF500", sort, message, details=details) from error
        raise


def implementation(performer: Performer, no_retry: tuple[str, ...]) -> Callable[..., Any]:
    """What an attempt runs: a `def` where the bound function is one, so that it gets a thread."""
    bound, activity = performer.bound, performer.activity
    if bound is None:
        body = _Body(performer, no_retry)
        if activity.may_take_long:
            return body.run_aside
        return body.run_here
    known = bound
    if is_async(known.fn):

        async def call_async(*args: Any) -> Any:
            fitted, named = _fitted(known, args, activity)
            return outgoing(incoming(await known.fn(*fitted, **named)))

        return call_async

    def call(*args: Any) -> Any:
        fitted, named = _fitted(known, args, activity)
        value = known.fn(*fitted, **named)
        return value if asyncio.iscoroutine(value) else outgoing(incoming(value))

    return call


def _fitted(bound: BoundFunction, args: Sequence[Any], activity: CompiledActivity) -> tuple[list[Any], dict[str, Any]]:
    try:
        return bound.fit([incoming(value) for value in args], {})
    except Fault as fault:
        raise FinalFailure(fault.code, fault.code, fault.message, file=activity.file, line=activity.line) from None


class _Body:
    """One attempt of an activity's own statements."""

    changed = False

    def __init__(self, performer: Performer, no_retry: tuple[str, ...]) -> None:
        self._performer = performer
        self._no_retry = no_retry
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._variables: dict[str, Any] = {}
        self.budget = Budget(settings.units)

    async def run_here(self, *args: Any) -> Any:
        return self._run(args)

    async def run_aside(self, *args: Any) -> Any:
        self._loop = asyncio.get_running_loop()
        self.budget = Budget(_LOOK_EVERY)
        try:
            return await asyncio.to_thread(self._run, args)
        except CancelledError:
            self._ended = True  # the thread sees it at its next look
            raise

    def _run(self, args: Sequence[Any]) -> Any:
        activity = self._performer.activity
        block = activity.block
        assert block is not None and block.plain is not None  # noqa: PT018, S101  # activities never suspend
        try:
            values = activity.parameters.receive(args, {})
            self._variables.update(zip(activity.parameters.names, values, strict=True))
            flow = block.plain(Frame(self, self._variables, ()))
        except Fault as fault:
            raise self._final(fault.at(activity.file, activity.line)) from None
        except TwfError as error:
            raise self._judged(error) from error.__cause__
        return flow.value if isinstance(flow, Exit) else None

    def _judged(self, error: TwfError) -> TwfError:
        """A failure that retrying would only repeat, or that nobody wants retried, is final."""
        if isinstance(error, FinalFailure):
            return error
        listed = error.type in self._no_retry
        return self._final(error) if listed or error.code != "TWF500" else error

    @staticmethod
    def _final(error: TwfError) -> TwfError:
        final = FinalFailure(
            error.code, error.type, error.message, details=error.details, file=error.file, line=error.line
        )
        final.__cause__ = error.__cause__
        return final

    # --- what statements ask of their host

    def builtin(self, name: str) -> Callable[..., Any]:
        return {
            "now": lambda: datetime.now(UTC),
            "uuid": lambda: str(uuid.uuid4()),
            "random": random,
            "fail": _fail,
            "get_heartbeat_details": lambda: incoming(step_info().details),
            "activity_info": self._info,
            "heartbeat": heartbeat,
        }[name]

    def _info(self) -> dict[str, Any]:
        info = step_info()
        return {
            "name": self._performer.activity.name,
            "attempt": info.attempt,
            "workflow_id": info.run_id,
            "idempotency_key": info.idempotency_key,
        }

    def function(self, name: str) -> Callable[..., Any]:
        bound = library().function(name, self._performer.bindings)
        if bound is None:
            raise Fault("TWF602", f"{name} is not bound")

        def call(*args: Any, **kwargs: Any) -> Any:
            fitted, named = bound.fit([outgoing(value) for value in args], {k: outgoing(v) for k, v in kwargs.items()})
            value = bound.fn(*fitted, **named)
            if asyncio.iscoroutine(value):
                if self._loop is None:
                    value.close()
                    raise Fault("TWF502", f"{name} is async, which only code in a thread can wait for")
                value = asyncio.run_coroutine_threadsafe(value, self._loop).result()
            return incoming(value)

        return call

    def out_of_budget(self) -> None:
        budget = self.budget
        if budget.grown > MEASURE_AFTER:
            budget.grown = 0
            if size_of(self._variables, settings.variable_bytes)[0] > settings.variable_bytes:
                raise Stopped("TWF605", f"the variables take more than {settings.variable_bytes:,} bytes")
        if budget.left >= 0:
            return
        if self._loop is None:  # nothing else on this worker goes on meanwhile
            raise Stopped("TWF605", f"more than {budget.limit:,} units of work in one activity without a loop")
        budget.left = budget.limit
        if self._ended or step_info().cancelled():
            raise CancelledError

    def stop(self, error: TwfError) -> NoReturn:
        raise error


def _fail(message: Any = "failed", type: Any = "Failed", retryable: Any = True) -> NoReturn:  # noqa: A002  # the name programs use
    from .values import text_of, truth

    sort = text_of(type)
    if truth(retryable):
        raise TwfError("TWF500", sort, text_of(message))
    raise FinalFailure("TWF500", sort, text_of(message))
