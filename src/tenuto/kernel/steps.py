"""Steps: attempts, retries, markers, tasks.

Rules:

1. A plain inline step writes nothing before it has settled; with `max_attempts=1` a STARTED marker is committed before
   the attempt, and a marker found on load means: outcome unknown, never run again.
2. A failed attempt is recorded with its retry time; when that time comes the next attempt is released and nothing is
   written. Exhaustion is found in the turn of the last failure.
3. Tasks are retried by the host: the kernel sees their final outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from tenuto.errors import StepFailedError, StepOutcomeUnknownError
from tenuto.kernel.commands import CancelStep, CancelTask, CancelTimer, EnqueueTask, RunStep, StartTimer
from tenuto.kernel.core import Core
from tenuto.kernel.facts import Done
from tenuto.kernel.history import Node
from tenuto.kernel.operations import Err, Ok, StepOp, StepSpec, TimedOut
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import Entry, Flag, Metadata, Removed, Step, StepStatus
from tenuto.kernel.retries import GiveUp, Retry, judge
from tenuto.kernel.scope import current_scope

__all__ = ["IssuedSteps", "Steps"]

# Builds a named tuple in half the time that calling its class takes.
_make_step = cast("Callable[[type[Step], tuple[object, ...]], Step]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_make_command = cast("Callable[[type[RunStep], tuple[object, ...]], RunStep]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_COMPLETED: Final = StepStatus.COMPLETED
INPUT_BYTES: Final = 4096  # of arguments kept for people to look at


class Steps:
    """The steps of one run."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.undoers: dict[Node, StepSpec] = {}  # specs of steps whose rollback is at hand

    def perform(self, op: StepOp) -> asyncio.Future[bytes] | bytes:
        """A step that is awaited at once.

        If the next recorded fact is this very step and nothing else is ready to run, its code would suspend, the
        drain would come to rest, and this fact would be fed: the same as going on with the value now.
        """
        core = self._core
        if core.inert:
            return core.evicted()
        spec = op.spec
        node = current_scope.get().take(spec.name)
        entry = node.entry
        if entry is None or entry.seq != core.next_seq or core.loop.ready or not entry.seq:
            return self._issue(op, node)
        kind = entry.kind
        if type(kind) is not Step:
            core.diverge(node, "a step")
        if spec.rollback is not None:
            self.undoers[node] = spec
        if node.due:
            node.due = False
            core.history.left_over -= 1
        core.cursor = cursor = core.cursor + 1
        core.next_seq = core.history.facts[cursor][0]
        journal = core.journal
        if entry.at > journal.time:
            journal.time = entry.at
        if kind.output is None:
            raise core.decode(kind.error or b"")
        return kind.output

    def issue(self, op: StepOp) -> asyncio.Future[bytes]:
        return self._issue(op, current_scope.get().take(op.spec.name))

    def _issue(self, op: StepOp, node: Node) -> asyncio.Future[bytes]:
        core = self._core
        entry = node.entry
        if op.spec.rollback is not None:
            self.undoers[node] = op.spec
        if entry is None or type(entry.kind) is Removed:
            pending = core.pend(node, None, op, self.withdraw)
            core.start(pending, self._begin)
            return pending.future
        if type(entry.kind) is not Step:
            core.diverge(node, "a step")
        core.history.reach(node)
        pending = core.pend(node, entry, op, self.withdraw)
        if not entry.seq:
            self._resume(pending, entry, entry.kind)
        return pending.future

    def deliver(self, pending: Pending, kind: Step) -> None:
        """Feeds the recorded outcome."""
        self._core.close_pending(pending)
        if kind.status is StepStatus.COMPLETED:
            pending.give(kind.output)
        else:
            pending.fail(self._core.decode(kind.error or b""))
        pending.future.pending = None  # nobody withdraws it any more: no circle for the collector

    # --- attempts

    def _begin(self, pending: Pending) -> None:
        core = self._core
        spec = pending.op.spec
        if spec.queue is not None:
            self._write(pending, StepStatus.QUEUED)
            core.journal.command(
                pending.node, EnqueueTask.of(pending.op, pending.node.location, core.key(pending.node))
            )
            return
        if spec.max_attempts == 1:
            self._write(pending, StepStatus.STARTED)
        self.release(pending)

    def release(self, pending: Pending) -> None:
        """Lets the host run the next attempt."""
        core = self._core
        node = pending.node
        spec, call = pending.op
        location = node.location
        core.inline[node] = location, "step"
        core.journal.commands[node, RunStep] = _make_command(
            RunStep, (location, pending.attempt, call, spec, core.origin)
        )

    def _resume(self, pending: Pending, entry: Entry, kind: Step) -> None:
        """Takes up a step that was under way when the run was last stored."""
        core = self._core
        if entry.flags & Flag.CANCELLED:
            core.start(pending, self._begin)  # the code withdraws it again, or has changed its mind
        elif kind.status is StepStatus.STARTED:
            core.start(pending, lambda pending: core.internally(pending, self._unknown))
        elif kind.status is StepStatus.WAITING and (metadata := pending.node.metadata) is not None:
            pending.attempt = metadata.attempts + 1
            pending.error = metadata.error
            core.timers.start(metadata.retry_at or 0, pending.order, pending.node)

    # --- outcomes

    def done(self, pending: Pending, fact: Done) -> None:
        """An attempt ended, or a task."""
        _, attempt, outcome, supplied, attempts, _, _ = fact
        spec: StepSpec = pending.op.spec
        if spec.queue is None and not supplied:
            if attempt != pending.attempt or pending.node not in self._core.inline:
                return  # an older attempt, too late
        elif spec.queue is not None:
            pending.attempt = max(attempts, 1)
        flags = pending.flags | (Flag.SUPPLIED if supplied else Flag.NONE)
        if isinstance(outcome, Ok):
            self._complete(pending, outcome.value, flags)
        else:
            self._failed(pending, outcome)

    def _complete(self, pending: Pending, value: bytes, flags: int) -> None:
        core = self._core
        journal = core.journal
        spec: StepSpec = pending.op.spec
        if journal.commands or pending.attempt > 1:
            self._stop_waiting(pending)
        kind = _make_step(Step, (_COMPLETED, value, None, spec.undo, self._input(pending.op)))
        journal.settle(pending.node, kind, pending.started, flags, force=not spec.ephemeral)
        if pending.attempt > 1:
            journal.describe(pending.node, Metadata(pending.attempt, journal.now, None, pending.error))
        core.close_pending(pending)
        pending.give(value)
        pending.future.pending = None  # as above

    def _failed(self, pending: Pending, outcome: Err | TimedOut) -> None:
        core = self._core
        spec: StepSpec = pending.op.spec
        attempts = pending.attempt
        if isinstance(outcome, TimedOut):
            limit = f"{spec.timeout_ms} ms" if spec.timeout_ms is not None else "its limit"
            error: Exception = TimeoutError(f"attempt {attempts} of step {spec.name!r} ran longer than {limit}")
        else:
            error = core.decode(outcome.error)
        if spec.queue is not None and isinstance(error, StepFailedError):
            return self._give_up(pending, error)  # the host knows better: interrupted, cancelled
        verdict = judge(
            spec if spec.queue is None else _final(spec, attempts),
            pending.node.text,
            attempts,
            error,
            unencodable=isinstance(outcome, Err) and outcome.unencodable,
            timed_out=isinstance(outcome, TimedOut),
            after_ms=outcome.after_ms if isinstance(outcome, Err) else None,
        )
        match verdict:
            case GiveUp(error=failure):
                self._give_up(pending, failure)
            case Retry(after_ms=after_ms):
                pending.error = outcome.error if isinstance(outcome, Err) else core.dump(error)
                self._wait(pending, core.journal.now + after_ms)

    def _wait(self, pending: Pending, retry_at: int) -> None:
        core = self._core
        node = pending.node
        self._write(pending, StepStatus.WAITING)
        core.journal.describe(node, Metadata(pending.attempt, core.journal.now, retry_at, pending.error))
        pending.attempt += 1
        core.inline.pop(node, None)
        core.timers.start(retry_at, pending.order, node)
        core.journal.command(node, StartTimer(node.location, retry_at, "retry"))

    def _give_up(self, pending: Pending, error: StepFailedError) -> None:
        core = self._core
        self._stop_waiting(pending)
        dumped = core.dump(error)
        kind = Step(StepStatus.FAILED, None, dumped, pending.op.spec.undo, self._input(pending.op))
        core.journal.settle(pending.node, kind, pending.started, pending.flags, force=not pending.op.spec.ephemeral)
        core.journal.describe(pending.node, Metadata(error.attempts, core.journal.now))
        core.close_pending(pending)
        pending.fail(core.decode(dumped))

    def _unknown(self, pending: Pending) -> None:
        spec: StepSpec = pending.op.spec
        self._give_up(pending, StepOutcomeUnknownError(spec.name, pending.node.text, 1, "interrupted"))

    def withdraw(self, pending: Pending) -> None:
        """The code no longer wants it: its late result will be ignored."""
        core = self._core
        node = pending.node
        asked = core.journal.unask(node, RunStep) or core.journal.unask(node, EnqueueTask)
        running = node in core.inline
        core.close_pending(pending)
        entry = node.entry
        open_here = entry is not None and not entry.seq and not entry.flags & Flag.CANCELLED
        if asked and not node.stored:
            core.journal.delete(node)
        elif entry is not None and type(entry.kind) is Step:
            if open_here:
                self._cancelled_entry(pending, entry.kind)
            elif entry.seq and pending.flags & Flag.INSERTED:
                core.pass_over(node)  # recorded before the code could withdraw it (D6): its fact is not asked for
        elif pending.flags & Flag.INSERTED:
            self._cancelled_entry(pending, Step(StepStatus.WAITING))
        if asked or core.inert:
            return
        if pending.op.spec.queue is not None:
            if open_here:  # not when replay withdraws it once more
                core.journal.command(node, CancelTask(node.location, core.key(node)))
        elif running:
            core.journal.command(node, CancelStep(node.location))
        elif open_here:
            self._forget_timer(node)

    def _cancelled_entry(self, pending: Pending, kind: Step) -> None:
        flags = pending.flags | Flag.CANCELLED
        self._core.journal.put(pending.node, Entry(0, 0, pending.started, flags, kind), force=True)

    # --- writing

    def _write(self, pending: Pending, status: StepStatus) -> None:
        kind = Step(status, None, None, pending.op.spec.undo, self._input(pending.op))
        self._core.journal.put(pending.node, Entry(0, 0, pending.started, pending.flags, kind), force=True)

    @staticmethod
    def _input(op: StepOp) -> bytes | None:
        if not op.spec.record_input:
            return None
        data = op.call.input
        return data if len(data) <= INPUT_BYTES else None

    def _stop_waiting(self, pending: Pending) -> None:
        """The outcome came while a retry was pending (supplied), or before this turn's attempt was released (mail
        found on load): neither happens any more."""
        self._core.journal.unask(pending.node, RunStep)
        if pending.node not in self._core.inline and pending.attempt > 1:
            self._forget_timer(pending.node)

    def _forget_timer(self, node: Node) -> None:
        metadata = node.metadata
        if metadata is None or metadata.retry_at is None:
            return
        if not self._core.journal.unask(node, StartTimer):
            self._core.journal.command(node, CancelTimer(node.location))


def _final(spec: StepSpec, attempts: int) -> StepSpec:
    """A task's policy once the host has given up: no attempts are left."""
    return StepSpec(spec.name, max_attempts=attempts, no_retry=spec.no_retry)


class IssuedSteps(Steps):
    """The steps of a run in which a step that is awaited at once is issued as any other (TENUTO_SLOW=replay)."""

    def perform(self, op: StepOp) -> asyncio.Future[bytes] | bytes:
        core = self._core
        return core.evicted() if core.inert else self.issue(op)
