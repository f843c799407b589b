"""Undoing: rollback handlers after an error or a cancellation has left the root.

Rules:

1. Handlers of completed steps run highest `seq` first, one at a time, over all scopes. A checkpoint is a point of no
   return for the steps of its scope, and of scopes below it, that completed before it.
2. A handler has its step's retry policy. After a final failure the remaining ones still run; the run's own error stays.
3. What is finished is in the step's metadata and not repeated after a reload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenuto.errors import RollbackUnavailableError
from tenuto.kernel.commands import RunRollback, StartTimer
from tenuto.kernel.core import Core
from tenuto.kernel.facts import Done
from tenuto.kernel.history import Node
from tenuto.kernel.location import name_of
from tenuto.kernel.operations import Err, Ok, StepSpec
from tenuto.kernel.records import Checkpoint, Entry, Metadata, Rollback, Step, StepStatus
from tenuto.kernel.retries import GiveUp, Retry, judge
from tenuto.kernel.steps import Steps

__all__ = ["Unwinding", "is_compensated"]


class Unwinding:
    """The handlers of one run that are still to be run."""

    __slots__ = ("_attempt", "_core", "_find_handler", "_steps", "_todo")

    def __init__(self, core: Core, steps: Steps, find_handler: Callable[[str], Callable[[Any], object] | None]) -> None:
        self._core = core
        self._steps = steps
        self._find_handler = find_handler
        self._todo: list[Node] = []
        self._attempt = 1

    def begin(self) -> bool:
        """Starts undoing; whether there is anything to undo."""
        points: dict[Node, int] = {}  # scope -> seq of its last checkpoint
        for node in self._core.history.root.walk():
            if node.entry is not None and type(node.entry.kind) is Checkpoint and node.parent is not None:
                points[node.parent] = max(points.get(node.parent, 0), node.entry.seq)
        todo = [
            node
            for node in self._core.history.root.walk()
            if node.entry is not None and _undoable(node.entry) and not _finished(node) and not _covered(node, points)
        ]
        self._todo = sorted(todo, key=lambda node: node.entry.seq if node.entry is not None else 0)
        return bool(self._todo)

    @property
    def over(self) -> bool:
        return not self._todo

    def next(self) -> None:
        """Releases the next handler, unless it waits for its retry."""
        core = self._core
        while self._todo:
            node = self._todo[-1]
            rollback = node.metadata.rollback if node.metadata is not None else None
            self._attempt = (rollback.attempts if rollback is not None else 0) + 1
            handler, spec = self._handler(node)
            if handler is None:
                error = core.dump(
                    RollbackUnavailableError(f"the rollback handler of {node.text} is a closure of a trimmed iteration")
                )
                core.journal.notices.append(f"the rollback handler of {node.text} cannot be found")
                self._finish(node, Rollback(0, None, core.journal.now, error))
                continue
            if rollback is not None and rollback.retry_at is not None and rollback.retry_at > core.journal.now:
                core.timers.start(rollback.retry_at, core.next_order(), node)
                return
            self.release(node, handler, spec)
            return

    def fired(self, node: Node) -> None:
        """A handler's retry time has come."""
        handler, spec = self._handler(node)
        if handler is not None:
            self.release(node, handler, spec)

    def release(self, node: Node, handler: Callable[[Any], object], spec: StepSpec) -> None:
        core = self._core
        entry = node.entry
        assert entry is not None and type(entry.kind) is Step  # noqa: PT018, S101  # chosen by begin
        core.inline[node] = node.location, "step"
        core.journal.command(
            node,
            RunRollback(
                location=node.location,
                attempt=self._attempt,
                handler=handler,
                result=entry.kind.output or b"",
                timeout_ms=spec.timeout_ms,
                key=f"{core.key(node)}:rollback",
                name=spec.name,
            ),
        )

    def done(self, fact: Done) -> None:
        core = self._core
        node = core.history.find(fact.location)
        if node is None or self.over or node is not self._todo[-1] or node not in core.inline:
            return
        if fact.attempt != self._attempt:
            return
        core.inline.pop(node, None)
        core.journal.unask(node, RunRollback)
        now = core.journal.now
        if isinstance(fact.outcome, Ok):
            self._finish(node, Rollback(self._attempt, None, now))
            self.next()
            return
        timed_out = not isinstance(fact.outcome, Err)
        error = core.decode(fact.outcome.error) if isinstance(fact.outcome, Err) else TimeoutError("rollback handler")
        _, spec = self._handler(node)
        after = fact.outcome.after_ms if isinstance(fact.outcome, Err) else None
        match judge(spec, node.text, self._attempt, error, timed_out=timed_out, after_ms=after):
            case GiveUp(error=failure):
                # Without its text: a log must not say what an encrypted store hides (I19).
                core.journal.notices.append(f"the rollback handler of {node.text} failed: {type(error).__name__}")
                self._finish(node, Rollback(self._attempt, None, now, core.dump(failure)))
                self.next()
            case Retry(after_ms=after_ms):
                retry_at = now + after_ms
                self._note(node, Rollback(self._attempt, retry_at))
                self._attempt += 1
                core.timers.start(retry_at, core.next_order(), node)
                core.journal.command(node, StartTimer(node.location, retry_at, "retry"))

    def _handler(self, node: Node) -> tuple[Callable[[Any], object] | None, StepSpec]:
        spec = self._steps.undoers.get(node)
        if spec is not None:
            return spec.rollback, spec
        # An iteration behind its loop's commit: its body did not run again, only a named handler can be found.
        entry = node.entry
        undo = entry.kind.undo if entry is not None and type(entry.kind) is Step else None
        return (self._find_handler(undo) if undo else None), StepSpec(name_of(node.segment))

    def _finish(self, node: Node, rollback: Rollback) -> None:
        self._note(node, rollback)
        self._todo.pop()

    def _note(self, node: Node, rollback: Rollback) -> None:
        entry = node.entry
        before = node.metadata or Metadata(1, entry.at if entry is not None else 0)
        self._core.journal.describe(node, before._replace(rollback=rollback))


def _undoable(entry: Entry) -> bool:
    kind = entry.kind
    return type(kind) is Step and kind.status is StepStatus.COMPLETED and kind.undo is not None


def _finished(node: Node) -> bool:
    rollback = node.metadata.rollback if node.metadata is not None else None
    return rollback is not None and rollback.done_at is not None


def is_compensated(metadata: Metadata) -> bool:
    """Whether a step has been undone."""
    rollback = metadata.rollback
    return rollback is not None and rollback.done_at is not None and rollback.error is None


def _covered(step: Node, points: dict[Node, int]) -> bool:
    """Whether a checkpoint of this scope, or of one above it, came after the step."""
    seq = step.entry.seq if step.entry is not None else 0
    scope = step.parent
    while scope is not None:
        if points.get(scope, 0) > seq:
            return True
        scope = scope.parent
    return False
