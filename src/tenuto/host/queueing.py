"""Queues, tasks without a workflow, and verbs for many runs, as clients of a store have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict

from tenuto.errors import CallerFault, DefinitionNotFoundError, RunIdConflictError, RunNotFoundError
from tenuto.host.certainty import made_certain
from tenuto.host.definitions import Definitions
from tenuto.host.limits import Limits, under_limits
from tenuto.host.waiters import Ending
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.location import check_name
from tenuto.model import registry
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.ids import short_name
from tenuto.model.options import QueueOptions, flag, whole
from tenuto.model.tasks import Elsewhere, queued_step
from tenuto.store.endings import cancelled_task
from tenuto.store.port import CLOSED, OPEN, NewRun, RunFilter, Store
from tenuto.store.queues import QueueLimits, QueueRecord
from tenuto.system import System

__all__ = ["LimitOptions", "Queueing", "Verb"]

Verb: TypeAlias = Literal["cancel", "terminate", "pause", "resume", "recover", "delete"]

AT_ONCE: Final = 50  # runs that a verb for many works on together: their writes share commits
NAME_CHARACTERS: Final = 50  # of a step's name in the ids of its tasks

# The runs a verb for many is meant for. The others would refuse it, and may come to fit or not while it is at work.
FITTING: Final[dict[Verb, frozenset[str]]] = {
    "cancel": OPEN,
    "terminate": OPEN,
    "pause": frozenset({"scheduled", "pending", "running", "suspended"}),
    "resume": frozenset({"paused", "parked"}),
    "recover": frozenset({"failed"}),
    "delete": CLOSED,
}


class LimitOptions(TypedDict):
    """What `app.queue` is told."""

    concurrency: int | None
    worker_concurrency: int | None
    partition_concurrency: int | None
    rate: tuple[int, Duration] | None
    paused: bool


class Queueing:
    """The verbs of the native engine about queues, tasks and many runs."""

    store: Store
    definitions: Definitions
    limits: Limits
    system: System
    page_size: int = 500

    if TYPE_CHECKING:

        def poke(self) -> None: ...
        async def wait_until(
            self, reached: Callable[[], Awaitable[bool]], timeout: Duration | None, run_id: str = ""
        ) -> object: ...
        async def ending(self, run_id: str, timeout: Duration | None) -> Ending: ...
        async def cancel(self, run_id: str, reason: str | None, within: Duration | None) -> None: ...
        async def terminate(self, run_id: str, reason: str | None) -> None: ...
        async def pause(self, run_id: str) -> None: ...
        async def resume(self, run_id: str) -> None: ...
        async def recover(self, run_id: str) -> None: ...

    # --- queues

    async def set_queue(self, name: str, options: LimitOptions) -> None:
        """Keeps the limits of a queue, in place of those it had."""
        await self.store.set_queue(
            QueueLimits(
                check_name(name),
                _at_least_one("concurrency", options["concurrency"]),
                _at_least_one("worker_concurrency", options["worker_concurrency"]),
                _at_least_one("partition_concurrency", options["partition_concurrency"]),
                _rate(options["rate"]),
                flag("paused", options["paused"]),
            )
        )
        self.poke()

    async def queues(self) -> list[QueueRecord]:
        """The queues that were told something, and those that have work."""
        return await self.store.queues()

    async def _holder(self, new: NewRun) -> str | None:
        """The open run that has the key of a new one, and so stands in its place."""
        if new.key is None:
            return None
        holder = await self.store.keyed(new.queue, new.key)
        if holder is None or holder == new.id:
            return None
        if await self.store.task(holder) is not None:
            raise RunIdConflictError(f"key {new.key!r} of queue {new.queue!r} belongs to task {holder}, which is open")
        return holder

    # --- tasks by themselves

    @under_limits
    async def enqueue(self, task: Any, args: Sequence[Any], options: QueueOptions) -> str:
        """Stores a task, or finds the open item that has its key; its id."""
        if isinstance(task, str) and "//" not in task:
            task = await self._step_named(task)
        operation = queued_step("app.enqueue", task, tuple(args), options)
        task_id = f"{short_name(operation.call.target)[:NAME_CHARACTERS]}-{self.system.entropy.token(8).hex()}"
        new = EnqueueTask.of(operation, (operation.spec.name,), task_id)
        stored = await made_certain(lambda: self.store.enqueue(new))
        self.poke()
        return stored

    async def _step_named(self, name: str) -> Any:
        """The step that a text names: one that is registered here, or the id of one that any worker has."""
        try:
            return self.definitions.registry.find(name, "step")
        except DefinitionNotFoundError:
            found = registry.among(name, "step", await self.store.defined())
            if found is None or self.definitions.registry.get(found) is not None:  # it is here, and no step
                raise
        return Elsewhere(found)

    async def task_status(self, task_id: str) -> str:
        """Of a task, or of the run that had its key."""
        task = await self.store.task(task_id)
        if task is not None:
            return task.status
        run = await self.store.get(task_id)
        if run is None:
            raise RunNotFoundError(f"there is no task {task_id!r}")
        return run.status

    async def task_ending(self, task_id: str, timeout: Duration | None) -> Ending:
        """How a task ended, once it has. A failed or cancelled one has an error that says so."""

        async def ended() -> bool:
            return await self.task_status(task_id) in CLOSED

        await self.wait_until(ended, timeout, task_id)
        task = await self.store.task(task_id)
        if task is None:
            return await self.ending(task_id, timeout)  # a run had its key
        if task.status == "completed":
            return Ending(task.status, task.output or b"")
        withdrawn = cancelled_task(task.target, task.location, task.attempts)
        return Ending(task.status, task.error or withdrawn)

    async def cancel_task(self, task_id: str) -> None:
        """Withdraws a task, or asks it to stop. One that has ended stays as it is."""
        if not await self.store.cancel_task(task_id) and await self.store.get(task_id) is not None:
            await self.cancel(task_id, None, None)
        self.poke()

    # --- many runs

    async def for_each(self, which: RunFilter, verb: Verb, reason: str | None) -> int:
        """Does something to all runs that fit and are there now, page by page; to how many it was done."""
        until = await self.store.now()
        after = ""
        done = 0
        while True:
            page = await self.store.page(replace(which, limit=self.page_size), after, until)
            fitting = [run_id for run_id, status in page if status in FITTING[verb]]
            if verb == "delete":
                await self.store.delete(fitting)
                done += len(fitting)
            else:
                for first in range(0, len(fitting), AT_ONCE):
                    some = fitting[first : first + AT_ONCE]
                    done += sum(await asyncio.gather(*(self._do(verb, run_id, reason) for run_id in some)))
            if len(page) < self.page_size:
                return done
            after = page[-1][0]

    async def _do(self, verb: Verb, run_id: str, reason: str | None) -> bool:
        try:
            match verb:
                case "cancel":
                    await self.cancel(run_id, reason, None)
                case "terminate":
                    await self.terminate(run_id, reason)
                case "pause":
                    await self.pause(run_id)
                case "resume":
                    await self.resume(run_id)
                case _:
                    await self.recover(run_id)
        except CallerFault:
            return False  # it has ended, or gone on, since it was listed; or it cannot be recovered
        return True


def _at_least_one(option: str, value: int | None) -> int | None:
    return None if value is None else whole(option, value, at_least=1)


def _rate(rate: tuple[int, Duration] | None) -> tuple[int, int] | None:
    if rate is None:
        return None
    match rate:
        case (starts, period):
            pass
        case _:
            raise TypeError(f"rate= is how many starts in what time, for example (10, '1s'), not {rate!r}")
    period_ms = milliseconds(period)
    if period_ms == 0:
        raise ValueError(f"rate={rate!r}: starts are counted in a window of some length")
    return whole("rate", starts, at_least=1), period_ms
