"""What a run's commands mean on Temporal: activities, timers, child workflows, signals. Their ends come back as facts.

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
from typing import Any, Final, Protocol, cast

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    WorkflowAlreadyStartedError,
)

from tenuto.codec.values import dump
from tenuto.errors import (
    ChildStartError,
)
from tenuto.host.runner import perform
from tenuto.kernel.commands import EnqueueTask, RegisterHook, RunRollback, RunStep, SendSignal, StartChild, StartTimer
from tenuto.kernel.facts import Done, Fact, TimerGone
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Err, Ok, StepSpec, TimedOut
from tenuto.model.definitions import Workflow
from tenuto.model.options import reference_of
from tenuto.model.steps import Attempt
from tenuto.temporal.activities import Order
from tenuto.temporal.closures import Closure, forget, keep, stop
from tenuto.temporal.names import activity_id, shown
from tenuto.temporal.outcomes import child_error, plain_outcome, step_outcome
from tenuto.temporal.payloads import value_of
from tenuto.temporal.programs import memo_of
from tenuto.temporal.run import INLINE, ClosureCall, TemporalRun, is_findable
from tenuto.temporal.settings import Site

__all__ = ["Performer"]

FOR_EVER: Final = timedelta(days=3650)
GRACE: Final = timedelta(seconds=10)  # the activity ends itself at its step's timeout; this is the net below
_ONCE: Final = RetryPolicy(maximum_attempts=1)


@dataclass(slots=True)
class _Work:
    """An activity, or a timer before one."""

    handle: asyncio.Task[Any]
    outlives: bool  # of `Task.run`: it is executed even if the run ends


@dataclass(slots=True)
class _Start:
    """A child on its way: what is meant for it waits until it is there."""

    run: str
    over: asyncio.Event
    cancelled: bool = False


class Teller(Protocol):
    """Whoever takes the turns."""

    def tell(self, fact: Fact) -> None:
        """One fact, one turn."""
        ...

    def deliver(self, name: str, payload: bytes) -> None:
        """A signal to this run, from itself."""
        ...

    def wake(self) -> None:
        """What the end may have waited for has changed."""
        ...


class Performer:
    """What one run has asked of Temporal and not got yet."""

    def __init__(self, run: TemporalRun, teller: Teller, site: Site, definition: Workflow[..., Any]) -> None:
        self._run = run
        self._workflow = definition
        self._site = site
        self._teller = teller
        self._tell = teller.tell
        self._info = workflow.info()
        self._work: dict[Location, _Work] = {}
        self._timers: dict[Location, asyncio.Task[None]] = {}
        self._children: dict[Location, asyncio.Task[Any]] = {}  # handles of those that have started
        self._starting: dict[Location, _Start] = {}  # children on their way
        self._others: set[asyncio.Task[Any]] = set()

    # --- the end

    @property
    def holds_the_end(self) -> bool:
        """Whether something must end, or begin, before the workflow may close."""
        return bool(self._starting) or any(work.outlives for work in self._work.values())

    def abandon(self) -> None:
        """The run has ended: nobody waits for its own steps and timers any more."""
        for location, work in list(self._work.items()):
            if not work.outlives:
                self.cancel_work(location)
        for location in list(self._timers):
            self.stop_timer(location)

    # --- steps

    def start_step(self, command: EnqueueTask) -> None:
        pending = self._run.pending_at(command.location)
        spec: StepSpec = pending.op.spec
        names = tuple(item if isinstance(item, str) else item.__name__ for item in spec.no_retry)
        order = Order(command.id, spec.name, spec.max_attempts, names, spec.timeout_ms, spec.heartbeat_ms)
        policy = RetryPolicy(
            initial_interval=timedelta(milliseconds=2 * spec.backoff_ms),
            backoff_coefficient=2,
            maximum_interval=timedelta(milliseconds=max(spec.backoff_max_ms, 2 * spec.backoff_ms)),
            maximum_attempts=spec.max_attempts,
        )
        if not is_findable(command.target):
            call = RunStep(command.location, 1, pending.op.call, StepSpec(spec.name), command.id)
            begin = partial(
                self._call_here, activity_id(command.location), spec.name, order, policy, partial(perform, call)
            )
        else:
            begin = partial(self._call_there, command, spec, order, policy)
        handle = asyncio.create_task(self._delayed(command, begin)) if command.delay_ms else begin()
        self._follow(command.location, handle, partial(step_outcome, spec, text(command.location)))
        self._work[command.location].outlives = spec.queue != INLINE

    async def _delayed(self, command: EnqueueTask, begin: Callable[[], asyncio.Task[Any]]) -> Any:
        await workflow.sleep(command.delay_ms / 1000, summary=shown(text(command.location)))
        return await begin()

    def _call_there(self, command: EnqueueTask, spec: StepSpec, order: Order, policy: RetryPolicy) -> asyncio.Task[Any]:
        """An activity that any worker of its task queue can run."""
        limit = FOR_EVER if spec.timeout_ms is None else timedelta(milliseconds=spec.timeout_ms) + GRACE
        return workflow.start_activity(
            command.target,
            args=[command.input, order.encode()],
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
            args=[b"", order.encode()],
            activity_id=identity,
            result_type=RawValue,
            start_to_close_timeout=FOR_EVER,
            retry_policy=policy,
            summary=shown(name),
        )
        handle.add_done_callback(lambda _: forget(key))
        return handle

    def run_side_effect(self, command: RunStep) -> None:
        run = cast("ClosureCall", command.call).run

        async def attempt(_: Attempt) -> Ok | Err:
            return run()

        order = Order(command.key, command.name, 1)
        handle = self._call_here(activity_id(command.location), command.name, order, _ONCE, attempt)
        self._follow(command.location, handle, plain_outcome)

    def run_rollback(self, command: RunRollback) -> None:
        """One attempt; the kernel counts them and waits between them."""
        undo = reference_of(cast("Any", command.handler))
        order = Order(command.key, command.name, 1, timeout_ms=command.timeout_ms, undo=undo or None)
        identity = f"{activity_id(command.location)}:rollback"
        if is_findable(undo):
            handle: asyncio.Task[Any] = workflow.start_activity(
                undo,
                args=[command.result, order.encode()],
                activity_id=identity,
                result_type=RawValue,
                start_to_close_timeout=FOR_EVER,
                heartbeat_timeout=self._site.lease,
                retry_policy=_ONCE,
                summary=shown(f"undo {command.name}"),
            )
        else:
            handle = self._call_here(identity, f"undo {command.name}", order, _ONCE, partial(perform, command))
        self._follow(command.location, handle, plain_outcome, command.attempt)

    def _follow(
        self,
        location: Location,
        handle: asyncio.Task[Any],
        outcome: Callable[[BaseException], tuple[Ok | Err | TimedOut, int]],
        attempt: int = 0,
    ) -> None:
        work = self._work[location] = _Work(handle, False)

        def ended(_: asyncio.Task[Any]) -> None:
            if self._work.get(location) is work:
                del self._work[location]
            if handle.cancelled():
                return
            error = handle.exception()
            if error is None:
                self._tell(Done(location, attempt, Ok(value_of(handle.result()))))
            elif isinstance(error, Exception):
                result, attempts = outcome(error)
                self._tell(Done(location, attempt, result, attempts=attempts))

        handle.add_done_callback(ended)

    def cancel_work(self, location: Location) -> None:
        work = self._work.pop(location, None)
        if work is not None:
            work.handle.cancel()
            if not workflow.unsafe.is_replaying():
                stop((self._info.run_id, activity_id(location)))

    # --- hooks

    def register_hook(self, command: RegisterHook) -> None:
        """The token leads to this run, and its second half is a secret, made outside of workflow code and recorded."""
        run_id = self._info.workflow_id

        async def mint(_: Attempt) -> Ok:
            return Ok(f"{urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secrets.token_urlsafe(24)}".encode())

        order = Order(command.key, "hook", 1)
        handle = self._call_here(activity_id(command.location), "hook", order, _ONCE, mint)

        def minted(_: asyncio.Task[Any]) -> None:
            if not handle.cancelled() and handle.exception() is None:
                self._run.hooks.add(value_of(handle.result()).decode())

        handle.add_done_callback(minted)
        self._follow(command.location, handle, plain_outcome)

    # --- timers

    def start_timer(self, command: StartTimer) -> None:
        self.wake_at(command.deadline, command.location, lambda: self._tell(TimerGone(command.location)))

    def wake_at(self, deadline: int, location: Location, fire: Callable[[], None]) -> None:
        """A durable timer; P4: it is never early, whatever became of the fractions."""
        delay = max(0, deadline - workflow.time_ns() // 1_000_000)
        timer = asyncio.create_task(workflow.sleep(delay / 1000, summary=shown(text(location)) or "cancel"))
        self._timers[location] = timer

        def fired(_: asyncio.Task[None]) -> None:
            if self._timers.get(location) is timer:
                del self._timers[location]
            if not timer.cancelled() and timer.exception() is None:
                fire()

        timer.add_done_callback(fired)

    def stop_timer(self, location: Location) -> None:
        timer = self._timers.pop(location, None)
        if timer is not None:
            timer.cancel()

    # --- other runs

    def start_child(self, command: StartChild) -> None:
        start = self._starting[command.location] = _Start(command.run, asyncio.Event())
        self._hold(asyncio.create_task(self._child(command, start)))

    async def _child(self, command: StartChild, start: _Start) -> None:
        policy = workflow.ParentClosePolicy
        location = command.location
        try:
            handle = await workflow.start_child_workflow(
                command.target,
                args=[command.input],
                id=command.run,
                task_queue=self._site.task_queue_of(command.queue),
                result_type=RawValue,
                parent_close_policy=policy.ABANDON if command.detached else policy.REQUEST_CANCEL,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo=memo_of(command.target, self._workflow) or None,
                priority=priority_of(command.priority),
            )
        except WorkflowAlreadyStartedError:
            self._tell(Done(location, 0, Err(dump(ChildStartError(f"run id {command.run!r} is in use")))))
            return
        finally:
            self._starting.pop(location, None)
            start.over.set()
        handle.add_done_callback(partial(self._child_ended, command))
        self._children[location] = cast("asyncio.Task[Any]", handle)
        if command.detached:
            self._tell(Done(location, 0, Ok(b"")))
        elif start.cancelled:
            self.cancel_child(location)
        self._teller.wake()

    def _child_ended(self, command: StartChild, handle: asyncio.Task[Any]) -> None:
        self._children.pop(command.location, None)
        if handle.cancelled():
            return
        error = handle.exception()
        if command.detached:
            return
        if error is None:
            self._tell(Done(command.location, 0, Ok(value_of(handle.result()))))
        elif isinstance(error, Exception):
            self._tell(Done(command.location, 0, Err(dump(child_error(command.run, error)))))

    def cancel_child(self, location: Location) -> None:
        if location in self._starting:
            self._starting[location].cancelled = True
        handle = self._children.get(location)
        if handle is not None:
            handle.cancel()

    def send(self, command: SendSignal) -> None:
        if command.run == self._info.workflow_id:
            asyncio.get_running_loop().call_soon(self._send_here, command)
        else:
            self._hold(asyncio.create_task(self._send(command)))

    def _send_here(self, command: SendSignal) -> None:
        self._teller.deliver(command.name, command.payload)
        self._tell(Done(command.location, 0, Ok(b"")))

    async def _send(self, command: SendSignal) -> None:
        outcome: Ok | Err = Ok(b"")
        for start in list(self._starting.values()):
            if start.run == command.run:
                await start.over.wait()
        try:
            await workflow.get_external_workflow_handle(command.run).signal(command.name, args=[command.payload])
        except ApplicationError as error:
            self._run.report(f"signal at {text(command.location)} was dropped: {error.message}")
            outcome = Err(dump(LookupError("no open run has that id")))
        self._tell(Done(command.location, 0, outcome))

    def _hold(self, task: asyncio.Task[Any]) -> None:
        self._others.add(task)
        task.add_done_callback(self._others.discard)


def priority_of(priority: int) -> Priority:
    """Ours grows with urgency from 0; Temporal's keys go from 5, the least urgent, to 1."""
    return Priority(priority_key=min(5, max(1, 3 - priority))) if priority else Priority.default
