"""The engine on a Temporal cluster: every verb of the app, said to its server, and the workers of this process."""

from __future__ import annotations

import asyncio
import secrets
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NoReturn

from temporalio.client import (
    WorkflowFailureError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TerminatedError, WorkflowAlreadyStartedError

from tenuto.codec.values import dump, load
from tenuto.errors import (
    HookNotFoundError,
    QueryFailedError,
    RunClosedError,
    RunIdConflictError,
    RunNotFoundError,
    StepFailedError,
    UnsupportedError,
)
from tenuto.host.checking import Verdict
from tenuto.host.explain import Explanation
from tenuto.host.history import HistoryEntry
from tenuto.host.limits import Limits, under_limits
from tenuto.host.looking import RunView
from tenuto.host.options import IfExists, StartOptions, WorkerOptions, place_in_queue
from tenuto.host.queueing import LimitOptions, Verb
from tenuto.host.schedules import ScheduleOptions, ScheduleSummary
from tenuto.host.summaries import RunSummary
from tenuto.host.waiters import Ending
from tenuto.host.watching import RunEvent
from tenuto.kernel.location import check_name
from tenuto.model.definitions import Workflow, encode_call
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.ids import short_name
from tenuto.model.options import QueueOptions
from tenuto.model.registry import Registry
from tenuto.model.state import answer_query
from tenuto.model.tasks import queued_step
from tenuto.store.port import CLOSED, RunFilter
from tenuto.store.queues import QueueRecord
from tenuto.temporal.checking import check_runs, open_runs
from tenuto.temporal.connection import Connection
from tenuto.temporal.looking import MEMO_ATTRIBUTES, Found, Looking
from tenuto.temporal.many import Many
from tenuto.temporal.messages import Messages
from tenuto.temporal.names import CANCEL_WITHIN, HOOK_IS_OPEN, MEMO_OWNER, PUBLISHED
from tenuto.temporal.owners import own_queue
from tenuto.temporal.payloads import carried_error, ours, value_of
from tenuto.temporal.programs import memo_of
from tenuto.temporal.schedules import Schedules
from tenuto.temporal.settings import Address, limits_of, priority_of
from tenuto.temporal.tasks import TASK, task_arguments
from tenuto.temporal.worker import Workers

__all__ = ["TemporalEngine"]

POLL: Final = 0.05  # seconds between two looks of `wait_until`
NAME_CHARACTERS: Final = 40  # of a step's name in the id of its task


class TemporalEngine:
    """Every verb of the app, on a Temporal cluster."""

    def __init__(self, url: str, options: WorkerOptions | None, limits: Limits | None, registry: Registry) -> None:
        self.limits, self.registry = limits_of(limits), registry
        self._connection = Connection(Address.parse(url), registry)
        self._looking = Looking(self._connection)
        self._many = Many(self._connection, self._looking)
        self._schedules = Schedules(self._connection)
        self._messages = Messages(self._connection, self._looking)
        self._workers = None if options is None else Workers(self._connection, options, self.limits)

    async def open(self) -> None:
        await self._connection.open()
        if self._workers is not None:
            await self._workers.start()

    async def close(self) -> None:
        if self._workers is not None:
            await self._workers.stop()

    async def wait_until(self, reached: Callable[[], Awaitable[bool]], timeout: Duration | None) -> None:
        """Asks again and again: the server tells nobody that something has changed."""
        async with asyncio.timeout(_seconds(timeout)):
            while not await reached():  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(POLL)

    # --- starting and finding

    async def resolve(self, name: str) -> str:
        return name if name.startswith("workflow//") else self.registry.find(name, "workflow").id

    @under_limits
    async def start(self, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions) -> str:
        if isinstance(known := self.registry.get(target), Workflow):
            known.accept(args, kwargs)
        call = encode_call(tuple(args), kwargs)
        asked = options.get("id")
        run_id = check_name(asked) if asked is not None else f"{short_name(target)}-{secrets.token_hex(8)}"
        if_exists = options.get("if_exists", "same")
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        while True:
            try:
                await self._start(target, call, run_id, options, reuse)
                return run_id
            except WorkflowAlreadyStartedError:
                if not await self._may_replace(run_id, if_exists):
                    await self._check_same(run_id, target, call, if_exists)
                    return run_id
                reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE

    async def _start(
        self, target: str, call: bytes, run_id: str, options: StartOptions, reuse: WorkflowIDReusePolicy
    ) -> None:
        place = place_in_queue(options, own_queue(self.registry, target))
        if place["key"] is not None or place["partition"] is not None:
            _unsupported("start(key=, partition=)", "give the run an id, or use a task queue per partition")
        attributes = options.get("attributes")
        memo: dict[str, Any] = {**memo_of(self.registry, target), MEMO_OWNER: self._connection.address.task_queue}
        if attributes:
            memo[MEMO_ATTRIBUTES] = dict(attributes)
        async with self._connection.asking(run_id):
            await self._connection.client.start_workflow(
                target,
                args=[ours(call)],
                id=run_id,
                task_queue=self._connection.address.task_queue_of(place["queue"]),
                id_reuse_policy=reuse,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo=memo,
                start_delay=timedelta(milliseconds=place["delay_ms"]) if place["delay_ms"] else None,
                priority=priority_of(place["priority"]),
            )

    async def _may_replace(self, run_id: str, if_exists: IfExists) -> bool:
        if if_exists not in ("restart_failed", "restart_closed"):
            return False
        status = await self.status(run_id)
        return status == "failed" if if_exists == "restart_failed" else status in CLOSED

    async def _check_same(self, run_id: str, target: str, call: bytes, if_exists: IfExists) -> None:
        """`RunIdConflictError` unless the run that has the id is the one asked for: the first of its chain tells."""
        async with self._connection.asking(run_id):
            first = await self._first_event(run_id, None)
            if first.first_execution_run_id and first.first_execution_run_id != first.original_execution_run_id:
                first = await self._first_event(run_id, first.first_execution_run_id)
        same = first.workflow_type.name == target and if_exists != "error"
        data = [payload.data for payload in first.input.payloads]
        if not same or (if_exists != "attach" and data[:1] != [call]):
            status = await self.status(run_id)
            raise RunIdConflictError(
                f"run id {run_id!r} belongs to another start: {first.workflow_type.name}, {status}"
            )

    async def _first_event(self, run_id: str, execution: str | None) -> Any:
        handle = self._connection.client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events(page_size=1):
            return event.workflow_execution_started_event_attributes
        raise RunNotFoundError(f"there is no run {run_id!r}")

    async def runs(self, which: RunFilter) -> list[RunSummary]:
        async with self._connection.asking(""):
            return await self._looking.runs(which)

    async def for_each(self, which: RunFilter, verb: Verb, reason: str | None) -> int:
        """To the app's own runs that the cluster's list has now, one after the other; to how many it was done."""
        match verb:
            case "cancel":
                return await self._many.do(which, lambda found: self.cancel(found.summary.id, reason, None))
            case "terminate":
                return await self._many.do(which, lambda found: self.terminate(found.summary.id, reason))
            case "delete":
                return await self._many.delete(which)
            case _:
                _unsupported(f"{verb} of many runs", "`temporal workflow reset` with a query, or a signal")

    # --- tasks and queues

    @under_limits
    async def enqueue(self, task: Any, args: Sequence[Any], options: QueueOptions) -> str:
        """A run of one step, on the task's own queue."""
        operation = queued_step("app.enqueue", task, tuple(args), options)
        spec = operation.spec
        task_id = f"{short_name(operation.call.target)[:NAME_CHARACTERS]}-{secrets.token_hex(8)}"
        place: StartOptions = {"queue": spec.queue or "default", "priority": spec.priority}
        place["delay"] = spec.delay_ms / 1000
        if spec.key is not None:
            place["key"] = spec.key
        if spec.partition is not None:
            place["partition"] = spec.partition
        call = encode_call(task_arguments(operation), {})
        await self._start(TASK, call, task_id, place, WorkflowIDReusePolicy.REJECT_DUPLICATE)
        return task_id

    async def task_status(self, task_id: str) -> str:
        return await self.status(task_id)

    async def task_ending(self, task_id: str, timeout: Duration | None) -> Ending:
        ending = await self.ending(task_id, timeout)
        if ending.status in ("completed", "failed"):
            return ending
        return Ending(ending.status, dump(StepFailedError(task_id, task_id, 0, "cancelled")))

    async def cancel_task(self, task_id: str) -> None:
        await self.cancel(task_id, None, None)

    async def set_queue(self, name: str, options: LimitOptions) -> None:
        _unsupported("a limit of a queue", "`temporal task-queue config set`, or fewer workers for it")

    async def queues(self) -> list[QueueRecord]:
        _unsupported("a list of queues", "`temporal task-queue describe --task-queue NAME`")

    # --- schedules

    @under_limits
    async def schedule(
        self, name: str, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: ScheduleOptions
    ) -> None:
        await self._schedules.put(name, target, own_queue(self.registry, target), args, kwargs, options)

    async def schedules(self) -> list[ScheduleSummary]:
        return await self._schedules.list()

    async def pause_schedule(self, name: str) -> None:
        await self._schedules.pause(name)

    async def resume_schedule(self, name: str) -> None:
        await self._schedules.resume(name)

    async def delete_schedule(self, name: str) -> None:
        await self._schedules.delete(name)

    # --- hooks

    @under_limits
    async def send_hook(self, token: str, args: Sequence[object]) -> None:
        """A token leads to its run, which is asked whether it knows the secret half of it."""
        coded, _, secret = token.partition(".")
        try:
            run_id = urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
        except ValueError:
            run_id = ""
        if not run_id or not secret:
            raise HookNotFoundError("no open hook has this token")
        try:
            if load(await self._connection.query(run_id, HOOK_IS_OPEN, dump([token]))):
                await self.signal(run_id, f"hook:{token}", args, None)
                return
        except (RunNotFoundError, RunClosedError, QueryFailedError):
            pass
        raise HookNotFoundError("no open hook has this token")

    # --- looking

    async def status(self, run_id: str) -> str:
        return (await self._looking.status(run_id))[0]

    async def ending(self, run_id: str, timeout: Duration | None) -> Ending:
        async with asyncio.timeout(_seconds(timeout)), self._connection.asking(run_id):
            try:
                return Ending("completed", value_of(await self._connection.handle(run_id).result()))
            except WorkflowFailureError as failure:
                return _ending(failure.cause)

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return await self._looking.history(run_id)

    async def explain(self, run_id: str) -> Explanation:
        return await self._looking.explain(run_id)

    async def look(self, run_id: str) -> RunView:
        """Everything about a run, for `tenuto show`."""
        ending = await self.ending(run_id, None) if await self.status(run_id) in CLOSED else None
        return await self._looking.look(run_id, ending)

    async def to_check(self, workflows: Sequence[str] | None) -> list[Found]:
        """Open runs (of these workflows), for `tenuto check`."""
        async with self._connection.asking(""):
            return await open_runs(self._looking, workflows)

    def check(self, runs: Sequence[Found]) -> AsyncIterator[Verdict]:
        """What the code of this process would make of them."""
        return check_runs(self._connection, self._looking, runs)

    def watch(self, run_id: str) -> AsyncIterator[RunEvent]:
        return self._looking.watch(run_id)

    @under_limits
    async def query(self, run_id: str, query: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The published state is asked of a worker; what a query makes of it is computed here."""
        published: bytes | None = load(await self._connection.query(run_id, PUBLISHED))
        if query is None:
            return None if published is None else load(published)
        return answer_query(await self._looking.definition(run_id), published, query, tuple(args), kwargs)

    # --- messages

    @under_limits
    async def signal(self, run_id: str, name: str, args: Sequence[object], message_id: str | None) -> None:
        await self._messages.signal(run_id, name, args, message_id)

    @under_limits
    async def update(
        self,
        run_id: str,
        name: str,
        args: Sequence[object],
        update_id: str | None,
        timeout: Duration | None,
        retry_for: Duration,
    ) -> Any:
        return await self._messages.update(run_id, name, args, update_id, timeout, retry_for)

    # --- control

    async def cancel(self, run_id: str, reason: str | None, within: Duration | None) -> None:
        """How long it may take travels ahead, as a signal: Temporal's own request has no room for it."""
        with suppress(RunClosedError):
            if within is not None:
                await self.signal(run_id, CANCEL_WITHIN, [milliseconds(within)], None)
            async with self._connection.asking(run_id):
                await self._connection.handle(run_id).cancel(reason=reason or "")

    async def terminate(self, run_id: str, reason: str | None) -> None:
        async with self._connection.asking(run_id):
            await self._connection.handle(run_id).terminate(reason=reason)

    async def pause(self, run_id: str) -> None:
        _unsupported("pause", "let the workflow wait for a signal where it may be held")

    async def resume(self, run_id: str) -> None:
        _unsupported("resume", "nothing: Temporal tries the task of a parked run again by itself")

    async def wake(self, run_id: str) -> None:
        _unsupported("wake", "nothing: Temporal wakes a run for everything that happens to it")

    async def recover(self, run_id: str) -> None:
        _unsupported("recover", f"`temporal workflow reset --workflow-id {run_id} --type LastWorkflowTask`")

    async def rewind(self, run_id: str, to: str, drop_updates: bool) -> None:
        _unsupported(
            "rewind", f"`temporal workflow reset --workflow-id {run_id} --event-id …`, before the event of {to}"
        )

    async def supply(self, run_id: str, location: str, value: object) -> None:
        _unsupported(
            "supply", f"`temporal activity complete --workflow-id {run_id} --activity-id {location} --result JSON`"
        )


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else milliseconds(timeout) / 1000


def _unsupported(verb: str, instead: str) -> NoReturn:
    raise UnsupportedError(f"{verb} does not exist on Temporal; use instead: {instead}")


def _ending(cause: BaseException | None) -> Ending:
    if isinstance(cause, CancelledError):
        return Ending("cancelled", b"")
    if isinstance(cause, TerminatedError):
        return Ending("terminated", b"")
    return Ending("failed", carried_error(cause))
