"""Looking at runs: what the server says of them, and what their own memory says, through a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState, PendingWorkflowTaskState
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import (
    WorkflowExecution as Listed,
)
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)

from tenuto.codec.rows import decode_rows
from tenuto.codec.values import load
from tenuto.errors import DecodingError, RemoteError, RunNotFoundError
from tenuto.host.explain import Explanation, PendingOperation
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.looking import RunView
from tenuto.host.readable import error_view_or_say, view_or_say
from tenuto.host.summaries import RunSummary
from tenuto.host.waiters import Ending
from tenuto.host.watching import RunEvent
from tenuto.kernel.records import Rows
from tenuto.model.definitions import Workflow
from tenuto.model.ids import short_name
from tenuto.store.port import CLOSED, STUCK, RunFilter
from tenuto.temporal.connection import Connection
from tenuto.temporal.names import MEMO_RUN_NO, ROWS, id_of
from tenuto.temporal.owners import is_ours
from tenuto.temporal.programs import MEMO_PROGRAM, workflow_of

__all__ = ["MEMO_ATTRIBUTES", "Found", "Looking", "status_of"]

MEMO_ATTRIBUTES: Final = "tenuto_attributes"
AT_ONCE: Final = 20  # runs that are looked at together
TOLD_BY_THE_RUN: Final = frozenset({"running", "suspended", "parked", "pending", "scheduled"})
NEVER: Final = frozenset({"paused", STUCK})  # no run of a cluster is
_ENDS: Final = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
}
_QUERIES: Final = {
    "completed": "Completed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
}


class Found(NamedTuple):
    """A run on the cluster's list, and which execution of its id it is."""

    summary: RunSummary
    execution: str


class _Memory(NamedTuple):
    """What a run has in memory, as its worker told."""

    rows: Rows
    signals: tuple[str, ...]
    updates: tuple[str, ...]
    buffered: tuple[str, ...] = ()  # names of signals nobody has taken


def status_of(execution: Listed) -> str:
    """Our word for where a run is, as far as a list tells."""
    return _ENDS.get(execution.status or WorkflowExecutionStatus.RUNNING, "running")


class Looking:
    """The verbs that only look."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # --- status

    async def status(self, run_id: str) -> tuple[str, str | None]:
        """The status, and why it is parked."""
        async with self._connection.asking(run_id):
            return await self._status_of(await self._connection.handle(run_id).describe())

    async def _status_of(self, description: WorkflowExecutionDescription) -> tuple[str, str | None]:
        ended = _ENDS.get(description.status or WorkflowExecutionStatus.RUNNING)
        if ended is not None:
            return ended, None
        raw = description.raw_description
        task = raw.pending_workflow_task if raw.HasField("pending_workflow_task") else None
        if task is not None and task.attempt > 1:
            reason = _failure(await self._last_events(description))
            if reason is not None:
                return "parked", reason
        if _starts_later(description):
            return "scheduled", None
        if task is not None and task.state != _STARTED and description.history_length <= _LAST_EVENTS:
            seen = {event.event_type for event in await self._last_events(description)}
            if EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED not in seen:
                return "pending", None
        return "running" if task is not None or raw.pending_activities else "suspended", None

    async def _last_events(self, description: WorkflowExecutionDescription) -> Sequence[HistoryEvent]:
        """Newest first."""
        client = self._connection.client
        execution = WorkflowExecution(workflow_id=description.id, run_id=description.run_id)
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace, execution=execution, maximum_page_size=_LAST_EVENTS
        )
        answer = await client.workflow_service.get_workflow_execution_history_reverse(request)
        return answer.history.events

    # --- lists

    async def runs(self, which: RunFilter) -> list[RunSummary]:
        """Those that fit, newest first, as far as the cluster's list is up to date."""
        return [found.summary async for found in self.ours(which, decide=True)]

    async def ours(self, which: RunFilter, *, decide: bool) -> AsyncIterator[Found]:
        """The app's own runs that fit, newest first. A list tells open from closed: `decide` what it does not tell."""
        left = which.limit
        async for batch in self._listed(which):
            found = [item for item in batch if _fits(which, item.summary)]
            if decide or which.status in TOLD_BY_THE_RUN:
                found = await asyncio.gather(*map(self._decided, found))
            for item in found:
                if which.statuses is None or item.summary.status in which.statuses:
                    yield item
                    left -= 1
                    if not left:
                        return

    async def _listed(self, which: RunFilter) -> AsyncIterator[list[Found]]:
        """The app's own runs on the cluster's list, some at a time."""
        if which.status in NEVER:
            return
        batch: list[Found] = []
        async for execution in self._connection.client.list_workflows(_list_query(which)):
            memo = await execution.memo()
            if is_ours(self._connection.address, self._connection.registry, execution, memo):
                batch.append(Found(self._summary(execution, memo), execution.run_id))
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
        yield batch

    async def _decided(self, found: Found) -> Found:
        """The same with the status that the run has now: a list says only that it is open."""
        summary = found.summary
        if summary.status in CLOSED:
            return found
        try:
            status, reason = await self.status(summary.id)
        except RunNotFoundError:
            return found  # deleted since
        return found._replace(summary=replace(summary, status=status, reason=reason))

    def _summary(self, execution: Listed, memo: Mapping[str, Any]) -> RunSummary:
        attributes: Mapping[str, Any] = memo.get(MEMO_ATTRIBUTES) or {}
        return RunSummary(
            id=execution.id,
            workflow=execution.workflow_type,
            status=status_of(execution),
            reason=None,
            queue=self._connection.address.queue_of(execution.task_queue),
            run_no=int(memo.get(MEMO_RUN_NO, 1)),
            created_at=execution.start_time,
            started_at=execution.execution_time,
            completed_at=execution.close_time,
            attributes=attributes,
        )

    async def definition(self, run_id: str) -> Workflow[..., Any]:
        """What a run is executed by, as far as it is loaded here; of a TWF program, the text the run has."""
        async with self._connection.asking(run_id):
            described = await self._connection.handle(run_id).describe()
            source: str | None = await described.memo_value(MEMO_PROGRAM, None)
        return workflow_of(self._connection.registry, described.workflow_type, source)

    # --- its own memory

    async def _memory(self, run_id: str) -> _Memory:
        rows, *names = load(await self._connection.query(run_id, ROWS))
        decoded, _ = decode_rows(run_id, [(row[0], row[1]) for row in rows])
        return _Memory(decoded, *map(tuple, names))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return history_of((await self._memory(run_id)).rows)

    async def look(self, run_id: str, ending: Ending | None) -> RunView:
        """Everything about a run, and how it ended."""
        memory = await self._memory(run_id)
        rows, failed = memory.rows, ending is not None and ending.status == "failed"
        async with self._connection.asking(run_id):
            described = await self._connection.handle(run_id).describe()
            summary = self._summary(described, await described.memo())
        status, reason = await self.status(run_id)
        return RunView(
            now=datetime.now(UTC),
            summary=replace(summary, status=status, reason=reason),
            input=view_or_say(rows.input),
            history=tuple(history_of(rows, view_or_say, error_view_or_say)),
            explanation=await self.explain(run_id),
            published=None if rows.published is None else view_or_say(rows.published),
            result=view_or_say(ending.value) if ending is not None and ending.status == "completed" else None,
            error=error_view_or_say(ending.value) if ending is not None and failed else None,
            buffered=memory.buffered,
            cancelled=None if rows.counters.cancel is None else rows.counters.cancel.reason or "",
        )

    async def explain(self, run_id: str) -> Explanation:
        status, reason = await self.status(run_id)
        if status in CLOSED:
            return Explanation(run_id, status, reason, (), (), (), "nothing: it has ended")
        if status == "parked":
            wakes = "a deploy that fits its history; Temporal tries its task again by itself"
            return Explanation(run_id, status, reason, (), (), (), wakes)
        if status in ("pending", "scheduled"):
            return Explanation(run_id, status, reason, (), (), (), "a worker of its task queue")
        memory = await self._memory(run_id)
        activities = await self._activities(run_id)
        pending = [
            _pending(entry, activities.get(id_of(entry.location)))
            for entry in history_of(memory.rows)
            if entry.status == "pending" and entry.kind in _WHAT
        ]
        causes = [f"signal {name!r}" for name in memory.signals] + [f"update {name!r}" for name in memory.updates]
        causes += [operation.location for operation in pending]
        wakes = ", ".join(causes) or "a worker of its task queue"
        return Explanation(run_id, status, reason, tuple(pending), memory.signals, memory.updates, wakes)

    async def _activities(self, run_id: str) -> dict[str, PendingActivityInfo]:
        """What the server knows of steps under way, by their activity's id."""
        async with self._connection.asking(run_id):
            description = await self._connection.handle(run_id).describe()
        return {activity.activity_id: activity for activity in description.raw_description.pending_activities}

    async def watch(self, run_id: str) -> AsyncIterator[RunEvent]:
        """Looks again whenever the server has recorded something."""
        seen: dict[str, str] = {}
        events = self._connection.handle(run_id).fetch_history_events(wait_new_event=True)
        async with self._connection.asking(run_id):
            async for _ in events:
                for event in await self._news(run_id, seen):
                    yield event
                if seen.get("") in CLOSED:
                    return

    async def _news(self, run_id: str, seen: dict[str, str]) -> list[RunEvent]:
        now = datetime.now(UTC)
        status, _ = await self.status(run_id)
        entries = [] if status in ("pending", "scheduled", "parked") else await self.history(run_id)
        changed = [entry for entry in entries if seen.get(entry.location) != entry.status]
        news = [RunEvent(now, entry.kind, entry.location, entry.status) for entry in changed]
        seen.update((entry.location, entry.status) for entry in changed)
        if seen.get("") != status:
            seen[""] = status
            news.append(RunEvent(now, "status", "", status))
        return news


_LAST_EVENTS: Final = 20
_STARTED: Final = PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
_OF_TASKS: Final = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
)
_WHAT: Final = {
    "step": "is under way, or waits for a worker",
    "sleep": "sleeps",
    "message": "waits for a signal",
    "child": "waits for its run",
    "detach": "is being started",
    "send": "is being sent",
    "hook": "is being opened",
    "side_effect": "is being computed",
}


def _pending(entry: HistoryEntry, activity: PendingActivityInfo | None) -> PendingOperation:
    """An operation under way; of a step, what the server says of its attempts."""
    if activity is None:
        return PendingOperation(entry.location, entry.kind, _WHAT[entry.kind])
    began = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    attempt = activity.attempt
    if not activity.HasField("last_failure"):
        what = "is being run" if began else "waits for a worker of its task queue"
        return PendingOperation(entry.location, entry.kind, what, attempt)
    error = _error_of(activity.last_failure)
    failed = f"failed {'once' if attempt == 2 else f'{attempt - 1} times'}"
    if began:
        what = f"{failed}, attempt {attempt} is being run"
        return PendingOperation(entry.location, entry.kind, what, attempt, None, error)
    again = activity.scheduled_time.ToDatetime(UTC)
    what = f"{failed}, tries again at {again:%Y-%m-%d %H:%M:%S}Z"
    return PendingOperation(entry.location, entry.kind, what, attempt, again, error)


def _error_of(failure: Failure) -> Exception:
    """What an attempt raised. The server keeps its class and message, and drops our record where that is long."""
    details = failure.application_failure_info.details.payloads
    if details:
        with suppress(DecodingError):
            recorded: Any = load(details[0].data)
            if isinstance(recorded, Exception):
                return recorded
    return RemoteError(failure.application_failure_info.type or "Exception", failure.message)


def _failure(newest_first: Sequence[HistoryEvent]) -> str | None:
    """Why the last workflow task failed, if that is the last thing that happened."""
    for event in newest_first:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return event.workflow_task_failed_event_attributes.failure.message
        if event.event_type not in _OF_TASKS:
            return None
    return None


def _starts_later(description: WorkflowExecutionDescription) -> bool:
    return description.execution_time is not None and description.execution_time > datetime.now(UTC)


def _fits(which: RunFilter, summary: RunSummary) -> bool:
    """True if a run fits what the cluster's list cannot be asked for."""
    named = which.name in (None, summary.workflow, short_name(summary.workflow))
    return named and which.attributes.items() <= summary.attributes.items()


def _list_query(which: RunFilter) -> str:
    """The filter in the language of Temporal's lists. Text is quoted by doubling its quotes."""
    parts: list[str] = []
    if which.status == "failed":  # a run has no timeout of the server's, unless somebody else started it with one
        parts.append("ExecutionStatus IN ('Failed', 'TimedOut')")
    elif which.status == "closed":
        parts.append("ExecutionStatus != 'Running'")
    elif which.status is not None:
        parts.append(f"ExecutionStatus = '{_QUERIES.get(which.status, 'Running')}'")
    if which.target is not None:
        parts.append("WorkflowType = '{}'".format(which.target.replace("'", "''")))
    if which.since is not None:
        parts.append(f"StartTime >= '{datetime.fromtimestamp(which.since / 1000, UTC).isoformat()}'")
    parts.append("ExecutionStatus != 'ContinuedAsNew'")
    return " AND ".join(parts)
