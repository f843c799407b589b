"""Attempts of queued tasks that a worker has under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tenuto.codec.values import dump, load
from tenuto.host.attempts import HostedAttempt, Workplace
from tenuto.host.certainty import insist
from tenuto.host.definitions import Definitions
from tenuto.host.waiters import Ending
from tenuto.kernel.commands import RunStep
from tenuto.kernel.location import parse
from tenuto.kernel.operations import Err, Ok, StepSpec, TimedOut
from tenuto.kernel.retries import GiveUp, Retry, judge
from tenuto.model.definitions import Step
from tenuto.model.steps import Implementation, StepCall
from tenuto.store.port import ClaimedTask, TaskEnd
from tenuto.system import Lock

__all__ = ["Tasks"]


class _TaskCall(StepCall):
    """The call of a task's step; it tells when the step itself begins."""

    __slots__ = ("begins",)

    begins: Callable[[], None]

    def prepare(self) -> tuple[Implementation, Sequence[Any], Mapping[str, Any], Mapping[str, Any]]:
        (function, is_inline), args, kwargs, captured = super().prepare()

        def begin(*args: Any, **kwargs: Any) -> Any:
            self.begins()
            return function(*args, **kwargs)

        return (begin, is_inline), args, kwargs, captured


class Tasks:
    """The tasks of one worker: each is run once, and its end stored."""

    def __init__(
        self,
        place: Workplace,
        definitions: Definitions,
        tell: Callable[[str, Ending | None], None],
        ended: Callable[[], None],
    ) -> None:
        self._place = place
        self._store = place.store
        self._definitions = definitions
        self._tell = tell  # those who wait for a task
        self._ended = ended  # a place is free again
        self._claimed: dict[str, ClaimedTask] = {}
        self._attempting: set[str] = set()  # those whose step is running: only then can one be stopped
        self._stopped: set[str] = set()  # those that were asked to stop and are stopping
        self._begun: dict[str, None] = {}  # those whose step has begun, until their end is stored (P2)
        self._beginning = Lock()  # a `def` begins in a thread of its own, when one is free
        self._closed = False
        self.under_way: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self.under_way)

    def queues(self) -> Iterable[str]:
        """The queue of each task under way."""
        return (task.queue for task in self._claimed.values())

    def begin(self, task: ClaimedTask) -> None:
        """Runs an attempt that was claimed."""
        self._begun.pop(task.id, None)
        self._claimed[task.id] = task
        self.under_way[task.id] = asyncio.create_task(self._run(task))

    def close(self) -> list[str]:
        """Lets no further step begin, not even in a thread that is about to; the tasks whose step has."""
        with self._beginning:
            self._closed = True
            return list(self._begun)

    def _note_begun(self, task_id: str) -> None:
        with self._beginning:
            if self._closed:
                raise asyncio.CancelledError
            self._begun[task_id] = None

    async def give_back(self, worker_id: str) -> None:
        """Gives back what is leased by this worker and not under way: nobody knows why, so nothing runs it here."""
        kept = list(self.under_way)
        await self._store.give_back_tasks(worker_id, kept, [task for task in self._begun if task not in kept])
        self._begun = {task: None for task in self._begun if task in self.under_way}

    async def stop_flagged(self, worker_id: str) -> None:
        """Stops what was asked to stop, if its step is still running; one that has ended keeps its result."""
        for task_id in await self._store.flagged_tasks(worker_id):
            if task_id in self._attempting and task_id not in self._stopped:
                self._stopped.add(task_id)
                self.under_way[task_id].cancel()

    async def _run(self, task: ClaimedTask) -> None:
        try:
            step = self._definitions.step(task.target)
            if step is None:
                return
            await self._store_end(task, step, await self._attempt(task, step))
            self._begun.pop(task.id, None)
            self._tell(task.id, None)
        finally:
            del self.under_way[task.id]
            del self._claimed[task.id]
            self._stopped.discard(task.id)
            self._ended()

    async def _store_end(self, task: ClaimedTask, step: Step[..., Any], outcome: Ok | Err | TimedOut | None) -> None:
        """Until the store has it: the lease is this worker's, so nobody else would ever end the task."""

        async def store() -> bool:
            return await self._store.end_task(await self._ending(task, step, outcome))

        await insist(f"the end of task {task.id} could not be stored", store, self._place.pace.retry)

    async def _attempt(self, task: ClaimedTask, step: Step[..., Any]) -> Ok | Err | TimedOut | None:
        """How the attempt went; None: it was asked to stop, and has."""
        call = _TaskCall(step, None, task.input)
        call.begins = partial(self._note_begun, task.id)
        place = parse(task.location)
        spec = StepSpec(step.name, timeout_ms=task.timeout_ms, heartbeat_ms=task.heartbeat_ms)
        command = RunStep(place, task.attempt, call, spec, task.id)
        self._attempting.add(task.id)
        try:
            return await HostedAttempt(self._place, command, task.run_id, owner=task.id).outcome()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.id not in self._stopped or current is None:
                raise
            current.uncancel()  # it was the task that was cancelled, not this worker
            return None
        finally:
            self._attempting.discard(task.id)

    async def _ending(self, task: ClaimedTask, step: Step[..., Any], outcome: Ok | Err | TimedOut | None) -> TaskEnd:
        if outcome is None:
            return TaskEnd(task.id, task.epoch, None, None, task.attempt, cancelled=True)
        if isinstance(outcome, Ok):
            return TaskEnd(task.id, task.epoch, outcome.value, None, task.attempt)
        timed_out = isinstance(outcome, TimedOut)
        error = TimeoutError("the attempt ran out of time") if isinstance(outcome, TimedOut) else load(outcome.error)
        verdict = judge(
            # As it was queued: `step.options(...)` may have said something else than the step itself.
            replace(
                step.spec,
                max_attempts=task.max_attempts,
                backoff_ms=task.backoff_ms,
                backoff_max_ms=task.backoff_max_ms,
            ),
            task.location,
            task.attempt,
            error,
            unencodable=isinstance(outcome, Err) and outcome.unencodable,
            timed_out=timed_out,
            after_ms=outcome.after_ms if isinstance(outcome, Err) else None,
        )
        match verdict:
            case Retry(after_ms=after_ms):
                retry_at = await self._store.now() + after_ms
                return TaskEnd(task.id, task.epoch, None, dump(error), task.attempt, retry_at)
            case GiveUp(error=failure):
                return TaskEnd(task.id, task.epoch, None, dump(failure), task.attempt)
