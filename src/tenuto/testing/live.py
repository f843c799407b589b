"""A run that is in memory, and the attempts under way for it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import load
from tenuto.kernel.commands import EnqueueTask, RunRollback, RunStep
from tenuto.kernel.facts import Fact
from tenuto.kernel.location import Location
from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.kernel.retries import GiveUp, Retry, judge
from tenuto.kernel.turn import Run, Turn
from tenuto.model.definitions import Step, Workflow
from tenuto.model.registry import default
from tenuto.store.port import Lease

__all__ = ["Job", "JobKey", "Live", "judged"]

JobKey: TypeAlias = tuple[str, Location, int]  # run, location, attempt


@dataclass(slots=True, eq=False)
class Job:
    """One attempt under way: an inline step, a rollback handler, or a task."""

    command: RunStep | RunRollback
    work: asyncio.Task[Ok | Err]
    run_id: str
    deadline: int | None  # of its timeout, on virtual time
    task: EnqueueTask | None = None


@dataclass(slots=True, eq=False)
class Live:
    """One run in memory."""

    run: Run
    encoder: RunEncoder
    lease: Lease
    seen_mail: int
    workflow: Workflow[..., Any]  # what it is executed by
    facts: deque[Fact] = field(default_factory=deque[Fact])
    fresh: bool = True  # has not taken a turn yet
    last: Turn | None = None


def judged(task: EnqueueTask, location: str, attempt: int, outcome: Err | TimedOut) -> Retry | GiveUp:
    """Say what follows a failed attempt of a task."""
    # As it was queued: `step.options(...)` may have said something else than the step itself.
    spec = replace(
        cast("Step[..., Any]", default.get(task.target)).spec,
        max_attempts=task.max_attempts,
        backoff_ms=task.backoff_ms,
        backoff_max_ms=task.backoff_max_ms,
    )
    if isinstance(outcome, TimedOut):
        return judge(spec, location, attempt, TimeoutError("the attempt ran out of time"), timed_out=True)
    error = load(outcome.error)
    return judge(spec, location, attempt, error, unencodable=outcome.unencodable, after_ms=outcome.after_ms)
