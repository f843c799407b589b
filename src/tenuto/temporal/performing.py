"""What a run's commands mean on Temporal: activities, timers, child workflows, signals. Their ends come back as facts.

Runs in workflow code, on Temporal's loop, after a turn has come to rest. Everything here happens again on replay, in
the same order; an end that comes of an eviction (no `Exception`) is nobody's business.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine, Mapping
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
from tenuto.errors import ChildCancelledError, ChildStartError
from tenuto.host.runner import perform
from tenuto.kernel.commands import EnqueueTask, RegisterHook, RunRollback, RunStep, SendSignal, StartChild, StartTimer
from tenuto.kernel.facts import Done, Fact, TimerGone
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Err, Ok, StepOp, StepSpec, TimedOut
from tenuto.model.definitions import Workflow
from tenuto.model.options import reference_of
from tenuto.model.steps import Attempt
from tenuto.temporal.activities import Order
from tenuto.temporal.closures import Closure, forget, keep, stop
from tenuto.temporal.names import MEMO_OWNER, activity_id, shown
from tenuto.temporal.outcomes import child_error, outcome_of, plain_outcome, step_outcome
from tenuto.temporal.payloads import ours, value_of
from tenuto.temporal.portions import Kind, Portions
from tenuto.temporal.programs import memo_of
from tenuto.temporal.run import INLINE, ClosureCall, TemporalRun, is_findable
from tenuto.temporal.settings import Site

__all__ = ["Performer"]

FOR_EVER: Final = timedelta(days=3650)
GRACE: Final = timedelta(seconds=10)  # the activity ends itself at its step's timeout; this is the net below
NEXT_TASK: Final = 0.001  # seconds; a timer of none is none to the SDK
IN_PORTIONS: Final = "tenuto.portions"  # patches
_ONCE: Final = RetryPolicy(maximum_attempts=1)


@dataclass(slots=True)
class _Work:
    """An activity, or a timer before one."""

    handle: asyncio.Task[Any]
    kind: Kind | None  # what it is open as; a step that is delayed is not yet
    outlives: bool = False  # of `Task.run`: it is executed even if the run ends


@dataclass(slots=True)
class _Start:
    """A child on its way: what is meant for it waits until it is there."""

    run: str
    over: asyncio.Event
    detached: bool
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

    def __init__(
        self, run: TemporalRun, teller: Teller, site: Site, definition: Workflow[..., Any], *, is_marked: bool
    ) -> None:
        self._run = run
        self._workflow = definition
        self._site = site
        self._outcome_of = partial(outcome_of, plain_is_ours=not is_marked)
        self._teller = teller
        self._tell = teller.tell
        self._info = workflow.info()
        self._work: dict[Location, _Work] = {}
        self._timers: dict[Location, asyncio.Task[None]] = {}
        self._children: dict[Location, asyncio.Task[Any]] = {}  # handles of those that have started
        self._starting: dict[Location, _Start] = {}  # children on their way
        self._others: set[asyncio.Task[Any]] = set()
        self._held: dict[Location, bool] = {}  # steps that have not begun, and whether they outlive the run
        self._portions = Portions(
            lambda: workflow.info().get_current_history_length(),
            lambda: workflow.patched(IN_PORTIONS),
            self._after_this_task,
        )

    def _after_this_task(self, go_on: Callable[[], None]) -> None:
        timer = asyncio.create_task(workflow.sleep(NEXT_TASK, summary="next portion"))

        def fired(_: asyncio.Task[None]) -> None:
            if not timer.cancelled() and timer.exception() is None:
                go_on()
                self._teller.wake()

        timer.add_done_callback(fired)
        self._hold(timer)

    # --- the end

    @property
    def holds_the_end(self) -> bool:
        """True if something must end, or begin, before the workflow may close."""
        return bool(self._starting) or self._portions.are_waiting or any(work.outlives for work in self._work.values())

    @property
    def has_tasks(self) -> bool:
        """True if steps are open that outlive the run."""
        return any(self._held.values()) or any(work.outlives for work in self._work.values())

    def abandon(self, *, tasks: bool = False) -> None:
        """The run has ended: nobody waits for its own steps and timers any more; or for its tasks either."""
        for location, outlives in list(self._held.items()):
            if tasks or not outlives:
                self.cancel_work(location)
        for location, work in list(self._work.items()):
            if tasks or not work.outlives:
                self.cancel_work(location)
        for location in list(self._timers):
            self.stop_timer(location)
        for location, start in list(self._starting.items()):
            if not start.detached:
                self._take_back(location)

    def make_room(self, size: int) -> None:
        """The end of the run travels in a message, too: it waits for one that has room for it."""
        self._portions.hand("other", "end", size, self._teller.wake)

    def reply(self, update_id: str, size: int, answer: Callable[[], None]) -> None:
        """Answers travel in the message of a task like everything else."""
        self._portions.hand("other", ("update", update_id), size, answer)

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
        names = tuple(item if isinstance(item, str) else item.__name__ for item in spec.no_retry)
        order = Order(command.id, spec.name, spec.max_attempts, names, spec.timeout_ms, spec.heartbeat_ms)
        policy = RetryPolicy(
            initial_interval=timedelta(milliseconds=2 * spec.backoff_ms),
            backoff_coefficient=2,
            maximum_interval=timedelta(milliseconds=max(spec.backoff_max_ms, 2 * spec.backoff_ms)),
            maximum_attempts=spec.max_attempts,
        )
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
        run_id = self._info.workflow_id

        async def mint(_: Attempt) -> Ok:
            return Ok(f"{urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secrets.token_urlsafe(24)}".encode())

        order = Order(command.key, "hook", 1)
        handle = self._call_here(activity_id(command.location), "hook", order, _ONCE, mint)

        def minted(_: asyncio.Task[Any]) -> None:
            if not handle.cancelled() and handle.exception() is None:
                self._run.hooks.add(value_of(handle.result(), plain_is_ours=True).decode())

        handle.add_done_callback(minted)
        self._follow(command.location, handle, "other", plain_outcome)

    # --- timers

    def start_timer(self, command: StartTimer) -> None:
        fire = partial(self._tell, TimerGone(command.location))
        begin = partial(self.wake_at, command.deadline, command.location, fire)
        self._portions.hand("other", ("timer", command.location), 0, begin)

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
        self._portions.withdraw(("timer", location))
        timer = self._timers.pop(location, None)
        if timer is not None:
            timer.cancel()

    # --- other runs

    def start_child(self, command: StartChild) -> None:
        start = self._starting[command.location] = _Start(command.run, asyncio.Event(), command.detached)
        memo = {**memo_of(self._site.registry, command.target, self._workflow), MEMO_OWNER: self._site.task_queue}
        size = len(command.input) + sum(len(text) for text in memo.values())

        def begin() -> None:
            self._hold(asyncio.create_task(self._child(command, start, memo)))

        self._portions.hand("child", ("child", command.location), size, begin)

    async def _child(self, command: StartChild, start: _Start, memo: Mapping[str, str]) -> None:
        policy = workflow.ParentClosePolicy
        location = command.location
        try:
            handle = await workflow.start_child_workflow(
                command.target,
                args=[ours(command.input)],
                id=command.run,
                task_queue=self._site.task_queue_of(command.queue),
                result_type=RawValue,
                parent_close_policy=policy.ABANDON if command.detached else policy.REQUEST_CANCEL,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo=memo,
                priority=priority_of(command.priority),
            )
        except WorkflowAlreadyStartedError:
            self._portions.ended("child")
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
        if error is None or isinstance(error, Exception):
            self._portions.ended("child")
        if command.detached:
            return
        if error is None:
            self._tell(Done(command.location, 0, self._outcome_of(handle.result())))
        elif isinstance(error, Exception):
            self._tell(Done(command.location, 0, Err(dump(child_error(command.run, error)))))

    def cancel_child(self, location: Location) -> None:
        start = self._starting.get(location)
        if start is not None:
            start.cancelled = True
            if self._take_back(location):
                ended = ChildCancelledError(f"child run {start.run} was cancelled before it began")
                fact = Done(location, 0, Err(dump(ended)))
                asyncio.get_running_loop().call_soon(self._tell, fact)
        handle = self._children.get(location)
        if handle is not None:
            handle.cancel()

    def _take_back(self, location: Location) -> bool:
        """True if this child had not begun: now it never does."""
        if not self._portions.withdraw(("child", location)):
            return False
        self._starting.pop(location).over.set()
        return True

    def send(self, command: SendSignal) -> None:
        if command.run == self._info.workflow_id:
            asyncio.get_running_loop().call_soon(self._send_here, command)
        else:
            self._portions.hand(
                "signal",
                ("signal", command.location),
                len(command.payload),
                lambda: self._hold(asyncio.create_task(self._send(command))),
            )

    def _send_here(self, command: SendSignal) -> None:
        self._teller.deliver(command.name, command.payload)
        self._tell(Done(command.location, 0, Ok(b"")))

    async def _send(self, command: SendSignal) -> None:
        outcome: Ok | Err = Ok(b"")
        for start in list(self._starting.values()):
            if start.run == command.run:
                await start.over.wait()
        try:
            await workflow.get_external_workflow_handle(command.run).signal(command.name, args=[ours(command.payload)])
        except ApplicationError as error:
            self._run.report(f"signal at {text(command.location)} was dropped: {error.message}")
            outcome = Err(dump(LookupError("no open run has that id")))
        self._portions.ended("signal")
        self._tell(Done(command.location, 0, outcome))

    def _hold(self, task: asyncio.Task[Any]) -> None:
        self._others.add(task)
        task.add_done_callback(self._others.discard)


def _kind_of(site: Site, target: str) -> Kind:
    """What a step or undo handler is open as: an activity; or a local one, of which the server knows nothing."""
    return "activity" if is_findable(site.registry, target) else "other"


def _size_of(command: EnqueueTask) -> int:
    return len(command.input) + len(command.id)


def priority_of(priority: int) -> Priority:
    """Ours grows with urgency from 0; Temporal's keys go from 5, the least urgent, to 1."""
    return Priority(priority_key=min(5, max(1, 3 - priority))) if priority else Priority.default
