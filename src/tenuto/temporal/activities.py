"""Attempts of steps as Temporal activities, whatever their type: one dynamic activity looks the step up by it.

Rules:

1. The activity heartbeats for the step, so that a lost worker is noticed by its silence; a step's own heartbeats carry
   its details, and only their silence is measured against the step's `heartbeat_timeout`.
2. What the step raised becomes data, judged here as it would be by our own kernel: final, or to be tried again.
3. A cancelled attempt ends when the server says so: ended earlier it would look like a failure, and be tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextvars import copy_context
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tenuto.codec.values import dump, load
from tenuto.errors import DefinitionNotFoundError
from tenuto.host.definitions import Definitions
from tenuto.host.limits import Limits
from tenuto.host.runner import perform
from tenuto.kernel.commands import RunRollback, RunStep
from tenuto.kernel.operations import Err, Ok, StepSpec, TimedOut
from tenuto.kernel.retries import Retry, judge
from tenuto.model.registry import Registry
from tenuto.model.steps import Attempt, StepCall, Subject
from tenuto.system import Runner
from tenuto.temporal.payloads import cut, ours, record_of
from tenuto.temporal.runs.closures import kept, under_way

__all__ = ["INTERRUPTED", "TIMED_OUT", "Activities", "Order", "pulse_of"]

log = logging.getLogger("tenuto.temporal")

TIMED_OUT: Final = "tenuto.TimedOut"
INTERRUPTED: Final = "tenuto.Interrupted"
UNKNOWN_STEP_DELAY: Final = timedelta(seconds=10)  # before another worker may have it
LONGEST_PULSE: Final = 5.0  # seconds
LONGEST_SILENCE: Final = 3600.0  # of the server, which is to confirm that an attempt was stopped
_orphans: set[asyncio.Task[Any]] = set()  # attempts that were told to stop and have not yet


@dataclass(frozen=True, slots=True)
class Order:
    """What an activity is told beside its step's arguments."""

    key: str  # idempotency key
    name: str
    max_attempts: int
    no_retry: tuple[str, ...] = ()  # names of classes
    timeout_ms: int | None = None
    heartbeat_ms: int | None = None
    undo: str | None = None  # the name of an undo handler, whose argument is the step's result

    def encode(self) -> bytes:
        return dump(asdict(self))


def pulse_of(lease: timedelta) -> float:
    """Seconds between two heartbeats of the activity itself; also how late it may hear that it was cancelled."""
    return min(LONGEST_PULSE, max(0.05, lease.total_seconds() / 6))


class Activities:
    """The activities of one worker. `runner` runs its steps."""

    def __init__(self, runner: Runner, limits: Limits, registry: Registry) -> None:
        self._runner = runner
        self._definitions = Definitions(registry)
        self._limits = limits

    @activity.defn(dynamic=True)
    async def attempt(self, values: Sequence[RawValue]) -> RawValue:
        """One attempt; its value, encoded."""
        self._limits.apply()
        self._definitions.registry.apply()  # for this task, and what it starts
        info = activity.info()
        order = Order(**load(values[1].payload.data))
        closure = kept(_key(info)) if info.is_local else None
        beats = _Beats(info, None if closure is None else closure.details)
        subject = Subject(order.name, info.attempt, order.key)
        attempt = Attempt(subject, info.workflow_id, details=beats.details, on_heartbeat=beats.heard)
        if closure is not None:
            coroutine = closure.attempt(attempt)
        else:
            coroutine = self._found(info, order, values[0].payload.data, attempt)
        try:
            outcome = await self._limited(info, order, attempt, beats, coroutine)
        finally:
            if closure is not None:
                closure.details = beats.details
        match outcome:
            case Ok(value):
                return ours(value)
            case TimedOut():
                raise ApplicationError(f"attempt {info.attempt} ran out of time", b"", info.attempt, type=TIMED_OUT)
            case Err():
                raise _failure(order, info.attempt, outcome)

    def _found(self, info: activity.Info, order: Order, data: bytes, attempt: Attempt) -> Coroutine[Any, Any, Ok | Err]:
        """The attempt of what is registered here under the activity's type."""
        if order.undo is not None:
            handler = self._definitions.handler(order.undo)
            if handler is None:
                raise _unknown(f"undo handler {order.undo!r}")
            undo = RunRollback((), info.attempt, handler, data, None, order.key, order.name)
            return perform(undo, attempt, self._runner)
        step = self._definitions.step(info.activity_type)
        if step is None:
            raise _unknown(f"step {info.activity_type!r}")
        call = StepCall(step, None, data)
        command = RunStep((), info.attempt, call, StepSpec(order.name), order.key)
        return perform(command, attempt, self._runner)

    async def _limited(
        self,
        info: activity.Info,
        order: Order,
        attempt: Attempt,
        beats: _Beats,
        coroutine: Coroutine[Any, Any, Ok | Err | TimedOut],
    ) -> Ok | Err | TimedOut:
        """How the attempt ended; raises when it is to be neither a result nor a failure."""
        work = asyncio.create_task(coroutine)
        silence = asyncio.create_task(beats.silence(order.heartbeat_ms))
        pulse = asyncio.create_task(beats.pulse()) if not info.is_local else None
        timeout = None if order.timeout_ms is None else order.timeout_ms / 1000
        try:
            with under_way(_key(info), work):
                await asyncio.wait({work, silence}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                if work.done() and not work.cancelled():
                    await asyncio.sleep(0)  # what the step's thread has just said is on its way
                    return work.result()
                attempt.cancelled = True
                if not work.done():
                    return TimedOut()
                # Told to stop from within this process, ahead of the server: it will say the same.
                await asyncio.sleep(LONGEST_SILENCE)
                raise ApplicationError("stopped", type=INTERRUPTED)
        except asyncio.CancelledError:
            attempt.cancelled = True
            if activity.is_worker_shutdown():
                raise ApplicationError("its worker was shut down", b"", info.attempt, type=INTERRUPTED) from None
            raise
        finally:
            for task in (silence, pulse):
                if task is not None:
                    task.cancel()
            if not work.done():
                work.cancel()
                _orphans.add(work)
                work.add_done_callback(_gone)


class _Beats:
    """The heartbeats of one attempt."""

    def __init__(self, info: activity.Info, details: bytes | None) -> None:
        earlier: Sequence[Any] = info.heartbeat_details
        self.details = details if details is not None else (earlier[0] if earlier else None)
        self._is_local = info.is_local
        self._lease = info.heartbeat_timeout or timedelta(seconds=30)
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._beat = asyncio.Event()

    def heard(self, details: bytes) -> None:
        """Called from the step's own thread."""
        self._loop.call_soon_threadsafe(self._note, details, context=self._context.copy())

    def _note(self, details: bytes) -> None:
        self._beat.set()
        self.details = details
        self._send()

    def _send(self) -> None:
        if not self._is_local:
            activity.heartbeat(*([] if self.details is None else [self.details]))

    async def pulse(self) -> None:
        while True:
            self._send()
            await asyncio.sleep(pulse_of(self._lease))

    async def silence(self, limit_ms: int | None) -> None:
        """Ends when no heartbeat of the step came for that long; never without a limit."""
        if limit_ms is None:
            await asyncio.Event().wait()
            return
        try:
            while True:
                async with asyncio.timeout(limit_ms / 1000):
                    await self._beat.wait()
                self._beat.clear()
        except TimeoutError:
            return


def _key(info: activity.Info) -> tuple[str, str]:
    return info.workflow_run_id or "", info.activity_id


def _gone(work: asyncio.Task[Any]) -> None:
    _orphans.discard(work)
    if not work.cancelled() and (error := work.exception()) is not None:
        log.warning("an attempt that was told to stop raised %r", error)


def _failure(order: Order, attempt: int, outcome: Err) -> ApplicationError:
    error: Exception = load(outcome.error)
    spec = StepSpec(order.name, max_attempts=order.max_attempts, no_retry=order.no_retry)
    verdict = judge(spec, "", attempt, error, unencodable=outcome.unencodable, after_ms=outcome.after_ms)
    after = timedelta(milliseconds=outcome.after_ms) if outcome.after_ms is not None else None
    return ApplicationError(
        cut(str(error) or type(error).__name__),
        record_of(error, outcome.error),
        attempt,
        outcome.unencodable,
        type=type(error).__name__,
        non_retryable=not isinstance(verdict, Retry),
        next_retry_delay=after,
    )


def _unknown(what: str) -> ApplicationError:
    error = DefinitionNotFoundError(f"a worker of this task queue does not know {what}")
    details = dump(error), activity.info().attempt, False
    return ApplicationError(str(error), *details, type=type(error).__name__, next_retry_delay=UNKNOWN_STEP_DELAY)
