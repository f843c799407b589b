"""What a run's commands mean on Temporal: steps, side effects, undo handlers, hooks. Their ends come back as facts.

Runs in workflow code, on Temporal's loop, after a turn has come to rest. Everything here happens again on replay, in
the same order; an end that comes of an eviction (no `Exception`) is nobody's business.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, cast

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy

from tenuto.host.runner import perform
from tenuto.kernel.commands import EnqueueTask, RegisterHook, RunRollback, RunStep
from tenuto.kernel.facts import Done
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Err, Ok, StepOp, StepSpec, TimedOut
from tenuto.model.definitions import Workflow
from tenuto.model.options import reference_of
from tenuto.model.steps import Attempt
from tenuto.temporal.activities import Order
from tenuto.temporal.names import activity_id, shown
from tenuto.temporal.payloads import ours, value_of
from tenuto.temporal.runs.closures import Closure, forget, keep, stop
from tenuto.temporal.runs.others import OtherRuns
from tenuto.temporal.runs.outcomes import outcome_of, plain_outcome, step_outcome
from tenuto.temporal.runs.portions import Kind, Portions
from tenuto.temporal.runs.run import INLINE, ClosureCall, TemporalRun, is_findable
from tenuto.temporal.runs.teller import Teller
from tenuto.temporal.runs.timers import NEXT_TASK, Timers
from tenuto.temporal.settings import Site, priority_of

__all__ = ["Performer"]

FOR_EVER: Final = timedelta(days=3650)
GRACE: Final = timedelta(seconds=10)  # the activity ends itself at its step's timeout; this is the net below
IN_PORTIONS: Final = "tenuto.portions"  # patches
_ONCE: Final = RetryPolicy(maximum_attempts=1)


@dataclass(slots=True)
class _Work:
    """An activity, or a timer before one."""

    handle: asyncio.Task[Any]
    kind: Kind | None  # what it is open as; a step that is delayed is not yet
    outlives: bool = False  # of `Task.run`: it is executed even if the run ends


class Performer:
    """What one run has asked of Temporal and not got yet."""

    def __init__(
        self, run: TemporalRun, teller: Teller, site: Site, definition: Workflow[..., Any], *, is_marked: bool
    ) -> None:
        self._run = run
        self._site = site
        self._outcome_of = partial(outcome_of, plain_is_ours=not is_marked)
        self._wake = teller.wake
        self._tell = teller.tell
        self._info = workflow.info()
        self._work: dict[Location, _Work] = {}
        self._held: dict[Location, bool] = {}  # steps that have not begun, and whether they outlive the run
        self._portions = Portions(
            lambda: workflow.info().get_current_history_length(),
            lambda: workflow.patched(IN_PORTIONS),
            self._after_this_task,
        )
        self._next_task: asyncio.Task[None] | None = None
        self.timers = Timers(teller, self._portions)
        self.others = OtherRuns(run, teller, site, definition, self._portions, is_marked=is_marked)

    def _after_this_task(self, go_on: Callable[[], None]) -> None:
        timer = self._next_task = asyncio.create_task(workflow.sleep(NEXT_TASK, summary="next portion"))

        def fired(_: asyncio.Task[None]) -> None:
            if not timer.cancelled() and timer.exception() is None:
                go_on()
                self._wake()

        timer.add_done_callback(fired)

    # --- the end

    @property
    def holds_the_end(self) -> bool:
        """True if something must end, or begin, before the workflow may close."""
        outlives = any(work.outlives for work in self._work.values())
        return outlives or self.others.are_starting or self._portions.are_waiting

    @property
    def has_tasks(self) -> bool:
        """True if steps are open that outlive the run."""
        return any(self._held.values()) or any(work.outlives for work in self._work.values())

    def abandon(self, *, tasks: bool = False) -> None:
        """The run has ended: nobody waits for its own steps and timers any more; or for its tasks either."""
        outlive = {**self._held, **{location: work.outlives for location, work in self._work.items()}}
        for location, outlives in outlive.items():
            if tasks or not outlives:
                self.cancel_work(location)
        self.timers.abandon()
        self.others.abandon()
        if tasks:
            self._wake()

    def say(self, what: str, size: int, begin: Callable[[], None]) -> None:
        """Answers and the end of the run travel in the message of a task like everything else."""
        self._portions.hand("other", ("said", what), size, begin)

    # --- steps

    def start_step(self, command: EnqueueTask) -> None:
        op: StepOp = self._run.pending_at(command.location).op
        self._held[command.location] = op.spec.queue != INLINE
        begin = partial(self._begin_step, command, op)
        if command.delay_ms:
            begin(None)
        else:
            kind = _kind_of(self._site, command.target)
            self._portions.hand(kind, command.location, _size_of(command), partial(begin, kind))

    def _begin_step(self, command: EnqueueTask, op: StepOp, kind: Kind | None) -> None:
        """`kind`: what it is open as from now on; None: it is delayed, and has its place later."""
        location, spec = command.location, op.spec
        outlives = self._held.pop(location)
        order, policy = _order_of(command, spec), _policy_of(spec)
        if is_findable(self._site.registry, command.target):
            begin = partial(self._call_there, command, spec, order, policy)
        else:
            call = RunStep(location, 1, op.call, StepSpec(spec.name), command.id)
            begin = partial(self._call_here, activity_id(location), spec.name, order, policy, partial(perform, call))
        handle = asyncio.create_task(self._delayed(command, begin)) if kind is None else begin()
        work = self._follow(location, handle, kind, partial(step_outcome, spec, text(location)))
        work.outlives = outlives

    async def _delayed(self, command: EnqueueTask, begin: Callable[[], asyncio.Task[Any]]) -> Any:
        await workflow.sleep(command.delay_ms / 1000, summary=shown(text(command.location)))
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        kind = _kind_of(self._site, command.target)

        def has_room() -> None:
            self._work[command.location].kind = kind
            room.set_result(None)

        self._portions.hand(kind, command.location, _size_of(command), has_room)
        await room
        return await begin()

    def _call_there(self, command: EnqueueTask, spec: StepSpec, order: Order, policy: RetryPolicy) -> asyncio.Task[Any]:
        """An activity that any worker of its task queue can run."""
        limit = FOR_EVER if spec.timeout_ms is None else timedelta(milliseconds=spec.timeout_ms) + GRACE
        return workflow.start_activity(
            command.target,
            args=[ours(command.input), ours(order.encode())],
            activity_id=activity_id(command.location),
            task_queue=None if spec.queue == INLINE else self._site.task_queue_of(command.queue),
            result_type=RawValue,
            start_to_close_timeout=limit,
            heartbeat_timeout=self._site.lease,
            retry_policy=policy,
            summary=shown(spec.name),
            priority=priority_of(spec.priority),
        )

    def _call_here(
        self,
        identity: str,
        name: str,
        order: Order,
        policy: RetryPolicy,
        attempt: Callable[[Attempt], Coroutine[Any, Any, Ok | Err | TimedOut]],
    ) -> asyncio.Task[Any]:
        """A local activity: it runs where the run is, because only that process has the function."""
        key = (self._info.run_id, identity)
        keep(key, Closure(attempt))
        handle = workflow.start_local_activity(
            name,
            args=[ours(b""), ours(order.encode())],
            activity_id=identity,
            result_type=RawValue,
            start_to_close_timeout=FOR_EVER,
            retry_policy=policy,
            summary=shown(name),
        )
        handle.add_done_callback(lambda _: forget(key))
        return handle

    def run_side_effect(self, command: RunStep) -> None:
        self._held[command.location] = False
        self._portions.hand("other", command.location, 0, partial(self._begin_side_effect, command))

    def _begin_side_effect(self, command: RunStep) -> None:
        del self._held[command.location]
        run = cast("ClosureCall", command.call).run

        async def attempt(_: Attempt) -> Ok | Err:
            return run()

        order = Order(command.key, command.name, 1)
        handle = self._call_here(activity_id(command.location), command.name, order, _ONCE, attempt)
        self._follow(command.location, handle, "other", plain_outcome)

    def run_rollback(self, command: RunRollback) -> None:
        """One attempt; the kernel counts them and waits between them."""
        kind = _kind_of(self._site, reference_of(cast("Any", command.handler)))
        self._portions.hand(
            kind, ("undo", command.location), len(command.result), partial(self._begin_rollback, command, kind)
        )

    def _begin_rollback(self, command: RunRollback, kind: Kind) -> None:
        undo = reference_of(cast("Any", command.handler))
        order = Order(command.key, command.name, 1, timeout_ms=command.timeout_ms, undo=undo or None)
        identity = f"{activity_id(command.location)}:rollback"
        if is_findable(self._site.registry, undo):
            handle: asyncio.Task[Any] = workflow.start_activity(
                undo,
                args=[ours(command.result), ours(order.encode())],
                activity_id=identity,
                result_type=RawValue,
                start_to_close_timeout=FOR_EVER,
                heartbeat_timeout=self._site.lease,
                retry_policy=_ONCE,
                summary=shown(f"undo {command.name}"),
            )
        else:
            handle = self._call_here(identity, f"undo {command.name}", order, _ONCE, partial(perform, command))
        self._follow(command.location, handle, kind, plain_outcome, command.attempt)

    def _follow(
        self,
        location: Location,
        handle: asyncio.Task[Any],
        kind: Kind | None,
        outcome: Callable[[BaseException], tuple[Ok | Err | TimedOut, int]],
        attempt: int = 0,
    ) -> _Work:
        work = self._work[location] = _Work(handle, kind)

        def ended(_: asyncio.Task[Any]) -> None:
            if self._work.get(location) is work:
                del self._work[location]
            if handle.cancelled():
                return
            error = handle.exception()
            if error is None:
                result = self._outcome_of(handle.result())
                if work.kind == "other" and isinstance(result, Ok):
                    self._portions.spent(len(result.value))
                self._close(work)
                self._tell(Done(location, attempt, result))
            elif isinstance(error, Exception):
                self._close(work)
                failed, attempts = outcome(error)
                self._tell(Done(location, attempt, failed, attempts=attempts))

        handle.add_done_callback(ended)
        return work

    def _close(self, work: _Work) -> None:
        """What it was open as has room for another one; once."""
        kind, work.kind = work.kind, None
        if kind is not None and kind != "other":
            self._portions.ended(kind)

    def cancel_work(self, location: Location) -> None:
        self._held.pop(location, None)
        self._portions.withdraw(location)
        self._portions.withdraw(("undo", location))
        work = self._work.pop(location, None)
        if work is not None:
            work.handle.cancel()
            self._close(work)
            if not workflow.unsafe.is_replaying():
                stop((self._info.run_id, activity_id(location)))

    # --- hooks

    def register_hook(self, command: RegisterHook) -> None:
        """The token leads to this run, and its second half is a secret, made outside of workflow code and recorded."""
        self._held[command.location] = False
        self._portions.hand("other", command.location, 0, partial(self._begin_hook, command))

    def _begin_hook(self, command: RegisterHook) -> None:
        del self._held[command.location]

        async def mint(_: Attempt) -> Ok:
            return Ok(_token(self._info.workflow_id))

        order = Order(command.key, "hook", 1)
        handle = self._call_here(activity_id(command.location), "hook", order, _ONCE, mint)

        def minted(_: asyncio.Task[Any]) -> None:
            if not handle.cancelled() and handle.exception() is None:
                self._run.hooks.add(value_of(handle.result(), plain_is_ours=True).decode())

        handle.add_done_callback(minted)
        self._follow(command.location, handle, "other", plain_outcome)


def _order_of(command: EnqueueTask, spec: StepSpec) -> Order:
    names = tuple(item if isinstance(item, str) else item.__name__ for item in spec.no_retry)
    return Order(command.id, spec.name, spec.max_attempts, names, spec.timeout_ms, spec.heartbeat_ms)


def _policy_of(spec: StepSpec) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=2 * spec.backoff_ms),
        backoff_coefficient=2,
        maximum_interval=timedelta(milliseconds=max(spec.backoff_max_ms, 2 * spec.backoff_ms)),
        maximum_attempts=spec.max_attempts,
    )


def _token(run_id: str) -> bytes:
    return f"{urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secrets.token_urlsafe(24)}".encode()


def _kind_of(site: Site, target: str) -> Kind:
    """What a step or undo handler is open as: an activity; or a local one, of which the server knows nothing."""
    return "activity" if is_findable(site.registry, target) else "other"


def _size_of(command: EnqueueTask) -> int:
    return len(command.input) + len(command.id)
