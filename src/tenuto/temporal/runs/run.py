"""The kernel's `Run` as the port of a run whose history is Temporal's.

Rules:

1. Temporal replays a run by repeating its facts, so to the kernel every run is in its first life: nothing recorded is
   ever fed, and batches are dropped. Our entries live in memory, where queries read them.
2. Every step is a task to the kernel: Temporal retries it, the kernel hears of the end.
3. Timers fire when Temporal says so, never by looking at the clock: its order of messages and timers is the order. Only
   those that were over when they were asked for have no timer there; they fire after the messages of their task.
4. What needs an answer of Temporal in the middle of a turn (a patch) gets it with Temporal's loop put back for that
   call; everything else leaves the turn as a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, cast

from temporalio import workflow

from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, LimitError, UnsupportedError
from tenuto.host.definitions import Definitions
from tenuto.kernel.commands import CancelStep, RunStep
from tenuto.kernel.facts import Done, Fact, UpdateAsked
from tenuto.kernel.history import Node
from tenuto.kernel.location import Location
from tenuto.kernel.location import patch as patch_segment
from tenuto.kernel.operations import (
    ChildOp,
    Continued,
    Err,
    Failed,
    Handlers,
    Observed,
    Ok,
    Operation,
    Outcome,
    RemovedMark,
    SideEffectOp,
    StepOp,
    StepSpec,
)
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import ChildMode, Patch, PatchMark, Rows, SideEffect
from tenuto.kernel.timers import Timer
from tenuto.kernel.turn import Definition, Main, Run
from tenuto.model.definitions import Step
from tenuto.model.registry import Registry
from tenuto.temporal.programs import as_activity

__all__ = ["INLINE", "ClosureCall", "TemporalRun", "is_findable"]

INLINE: Final = ""  # the queue of a step that names none; no queue can be called so


class TemporalRun(Run):
    """One run in the memory of a Temporal worker."""

    def __init__(
        self,
        rows: Rows,
        definition: Definition,
        main: Main,
        published: bytes | None,
        excess: Callable[[bytes], LimitError | None],
        registry: Registry,
    ) -> None:
        super().__init__(rows, definition, main, dump, load, Definitions(registry).handler)
        self._registry = registry
        self._excess = excess
        self.published = published
        self.quiet = False  # Temporal is repeating what was said before
        self.clean_up_over = False  # the time that a cancellation allowed has passed
        self.firing = False  # timers that were over when they were asked for fire in this turn
        self.hooks: set[str] = set()  # tokens of those that are open
        self._sdk_loop = asyncio.get_running_loop()
        self._otherwise: tuple[str, str | None] = ("not_accepting", None)  # of updates that nobody serves
        self._vouched = False  # the update that is being dispatched has just been validated

    # --- what differs in the turn

    @property
    def replaying(self) -> bool:
        """For logs. Inside a receive it is never said: there the model decides by it whether to commit."""
        return self.quiet and self.mailbox.listener is None

    def report(self, message: object) -> None:
        if not self.quiet and not self.inert:
            self.journal.notices.append(message)

    def _fire_timers(self, before: int | None) -> None:
        """Rule 3. The limit of a cancellation has no place that a fact could name."""
        if self.clean_up_over and not self._is_over():
            self.timers.stop(None)
            self._fire(None)
        if self.firing and before is None:
            for timer in self.over():
                if timer.node in self.timers and not self._is_over():
                    self.timers.stop(timer.node)
                    self._fire(timer.node)
                    self._rest()

    def over(self) -> list[Timer]:
        """Timers that no command was given for, in their order."""
        now = self.journal.now
        found = [timer for timer in self.timers.pending() if timer.node is not None and timer.node.entry is None]
        return sorted(timer for timer in found if timer.deadline <= now)

    def _apply(self, fact: Fact) -> None:
        self._vouched = isinstance(fact, UpdateAsked)
        try:
            super()._apply(fact)
        finally:
            self._vouched = False

    def _root_outcome(self, root: asyncio.Task[Outcome]) -> Outcome:
        """A chain that leaves more to its next run than the server takes fails, and undoes what it did."""
        outcome = super()._root_outcome(root)
        excess = self._excess(outcome.input) if isinstance(outcome, Continued) else None
        return outcome if excess is None else Failed(self.dump(excess))

    def _done(self, fact: Done) -> None:
        node = self.history.find(fact.location)
        pending = None if node is None else node.pending
        if pending is not None and isinstance(pending.op, SideEffectOp):
            self._side_effect_done(pending, fact.outcome)
        else:
            super()._done(fact)

    # --- the port

    def issue(self, operation: Operation) -> asyncio.Future[bytes]:
        if self.inert:
            return self.evicted()
        match operation:
            case StepOp():
                return self.steps.issue(_as_task(self._registry, operation))
            case SideEffectOp():
                return self._side_effect(operation)
            case ChildOp(mode=ChildMode.HOOK, run=str()):
                raise UnsupportedError(
                    "hook(token): on Temporal a token leads to its run, so only minted ones work; call hook()"
                )
            case ChildOp(if_exists="attach"):
                raise UnsupportedError(
                    'if_exists="attach": Temporal gives no run the outcome of a run that another one started; '
                    "let that run send a signal"
                )
            case _:
                return super().issue(operation)

    def perform(self, step: StepOp) -> asyncio.Future[bytes] | bytes:
        return self.issue(step)

    def observe(self, mark: Observed) -> Observed:
        if isinstance(mark, RemovedMark) and not self.inert:
            raise UnsupportedError(
                "removed(): Temporal compares commands in order and keeps no places; use patched() around what goes"
            )
        return super().observe(mark)

    def listen(self, name: str | None, handlers: Handlers, why: str = "not_accepting") -> None:
        updates = {key: self._second_look(validate) for key, validate in handlers.updates.items()}
        self._otherwise = handlers.otherwise
        super().listen(name, replace(handlers, updates=updates), why)

    def publish(self, value: bytes) -> None:
        if self.inert:
            self.evict()
            return
        self.published = value

    def close_hook(self, token: str) -> None:
        if self.inert:
            self.evict()
            return
        self.hooks.discard(token)

    def patch(self, patch_id: str, *, deprecate: bool = False) -> bool:
        if self.inert:
            self.evict()
            return False
        with self._sdk():
            if deprecate:
                workflow.deprecate_patch(patch_id)
            taken = deprecate or workflow.patched(patch_id)
        node = self.history.root.child(patch_segment(patch_id))
        if node.entry is None:
            mark = PatchMark.DEPRECATED if deprecate else PatchMark.TAKEN if taken else PatchMark.REFUSED
            self.journal.note(node, Patch(mark), 0)
        return taken

    @contextmanager
    def _sdk(self) -> Generator[None]:
        ours = asyncio.get_running_loop()
        asyncio._set_running_loop(self._sdk_loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(ours)

    # --- updates

    def refusal(self, name: str, args: bytes) -> tuple[str, str | None] | None:
        """Why an update that has just arrived is refused, or None. Temporal wants to know at once."""
        listener = self.mailbox.listener
        validate = None if listener is None else listener.handlers.updates.get(name)
        if listener is None or validate is None:
            return self._otherwise
        try:
            self.load(args)
        except DecodingError as error:
            return "validator", str(error)
        reason = listener.context.run(validate, args)
        return None if reason is None else ("validator", reason)

    def _second_look(self, validate: Callable[[bytes], str | None]) -> Callable[[bytes], str | None]:
        """An update that had to wait for a handler is validated once more; one that did not has just been."""
        return lambda args: None if self._vouched else validate(args)

    # --- side effects

    def _side_effect(self, op: SideEffectOp) -> asyncio.Future[bytes]:
        node, _ = self.place(op.name, SideEffect, "a side_effect")
        pending = self.pend(node, None, op, self._withdraw_side_effect)
        self.start(pending, self._begin_side_effect)
        return pending.future

    def _begin_side_effect(self, pending: Pending) -> None:
        node = pending.node
        call = ClosureCall(pending.op.run)
        self.journal.command(node, RunStep(node.location, 1, call, StepSpec(pending.op.name), self.origin))

    def _side_effect_done(self, pending: Pending, outcome: object) -> None:
        kind = SideEffect(None, outcome.error) if isinstance(outcome, Err) else SideEffect(_value(outcome), None)
        self.journal.note(pending.node, kind, pending.flags)
        self.close_pending(pending)
        if kind.error is not None:
            pending.fail(self.decode(kind.error))
        else:
            pending.give(kind.output)

    def _withdraw_side_effect(self, pending: Pending) -> None:
        node = pending.node
        self.close_pending(pending)
        if not self.journal.unask(node, RunStep) and not self.inert:
            self.journal.command(node, CancelStep(node.location))

    # --- what the adapter asks

    def pending_at(self, location: Location) -> Pending:
        """The operation that a command of this turn is about."""
        node = self.history.find(location)
        assert node is not None and node.pending is not None  # noqa: PT018, S101  # the kernel has just asked for it
        return node.pending

    def nodes(self) -> list[Node]:
        """The places that have an entry."""
        return [node for node in self.history.root.walk() if node.entry is not None]


class ClosureCall:
    """A side effect's function in the place of a step's call."""

    def __init__(self, run: Callable[[], Ok | Err]) -> None:
        self.run = run
        self.target = ""
        self.input = b""


def _value(outcome: object) -> bytes:
    return outcome.value if isinstance(outcome, Ok) else b""


def is_findable(registry: Registry, target: str) -> bool:
    """Whether another process finds this step by its id."""
    if not target:
        return False
    step: Any = registry.get(target)
    if not isinstance(step, Step):
        return True
    known: Any = cast("Any", step)
    if target.startswith("twf//"):  # made by whoever loads the program
        return True
    return "<locals>" not in known.__qualname__ or known.closure is not None


def _as_task(registry: Registry, op: StepOp) -> StepOp:
    op = as_activity(op)
    spec = op.spec
    if spec.key is not None or spec.partition is not None:
        raise UnsupportedError(
            "Task.run(key=, partition=): Temporal's task queues have neither; give a child an id, or use a task queue"
            " per partition"
        )
    if spec.max_attempts == 1 and not is_findable(registry, op.call.target):
        raise UnsupportedError(
            f"step {spec.name!r} with max_attempts=1 is a function that only this process has: on Temporal it could run"
            " a second time when its worker is lost; make it a @step of its module"
        )
    return op if spec.queue is not None else StepOp(_inline(spec), op.call)


@lru_cache(maxsize=4096)
def _inline(spec: StepSpec) -> StepSpec:
    return replace(spec, queue=INLINE)
