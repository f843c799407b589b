"""A run that is in memory, and the attempts under way for it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tenuto.codec.rows import RunEncoder
from tenuto.kernel.commands import EnqueueTask, RunRollback, RunStep
from tenuto.kernel.facts import Fact
from tenuto.kernel.location import Location
from tenuto.kernel.operations import Err, Ok
from tenuto.kernel.turn import Run, Turn
from tenuto.model.definitions import Workflow
from tenuto.store.port import Lease

__all__ = ["Job", "JobKey", "Live"]

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
