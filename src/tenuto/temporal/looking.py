"""Looking at runs: what the server says of them, and what their own memory says, through a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingWorkflowTaskState
from temporalio.api.history.v1 import HistoryEvent
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
from tenuto.host.explain import Explanation, PendingOperation
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.summaries import RunSummary
from tenuto.host.watching import RunEvent
from tenuto.kernel.records import Rows
from tenuto.model.definitions import Workflow
from tenuto.store.port import CLOSED, RunFilter
from tenuto.temporal.connection import Connection
from tenuto.temporal.live import MEMO_RUN_NO, ROWS
from tenuto.temporal.programs import MEMO_PROGRAM, workflow_of

__all__ = ["MEMO_ATTRIBUTES", "Looking", "status_of"]

MEMO_ATTRIBUTES: Final = "tenuto_attributes"
_ENDS: Final = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
}
_QUERIES: Final = {
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
}


class _Memory(NamedTuple):
    """What a run has in memory, as its worker told."""

    rows: Rows
    signals: tuple[str, ...]
    updates: tuple[str, ...]


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
            description = await self._connection.handle(run_id).describe()
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
        found: list[RunSummary] = []
        async for execution in self._connection.client.list_workflows(_list_query(which)):
            summary = await self._summary(execution)
            if all(summary.attributes.get(key) == value for key, value in which.attributes.items()):
                found.append(summary)
            if len(found) >= which.limit:
                break
        return found

    async def _summary(self, execution: Listed) -> RunSummary:
        memo = await execution.memo()
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
        return workflow_of(described.workflow_type, source)

    # --- its own memory

    async def _memory(self, run_id: str) -> _Memory:
        rows, signals, updates = load(await self._connection.query(run_id, ROWS))
        decoded, _ = decode_rows(run_id, [(row[0], row[1]) for row in rows])
        return _Memory(decoded, tuple(signals), tuple(updates))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return history_of((await self._memory(run_id)).rows)

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
        pending = [
            PendingOperation(entry.location, entry.kind, _WHAT.get(entry.kind, "is under way"))
            for entry in history_of(memory.rows)
            if entry.status == "pending" and entry.kind in _WHAT
        ]
        causes = [f"signal {name!r}" for name in memory.signals] + [f"update {name!r}" for name in memory.updates]
        causes += [operation.location for operation in pending]
        wakes = ", ".join(causes) or "a worker of its task queue"
        return Explanation(run_id, status, reason, tuple(pending), memory.signals, memory.updates, wakes)

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


def _list_query(which: RunFilter) -> str:
    """The filter in the language of Temporal's lists. Text is quoted by doubling its quotes."""
    parts: list[str] = []
    if which.status is not None:
        parts.append(f"ExecutionStatus = '{_QUERIES.get(which.status, 'Running')}'")
    if which.target is not None:
        parts.append("WorkflowType = '{}'".format(which.target.replace("'", "''")))
    if which.since is not None:
        parts.append(f"StartTime >= '{datetime.fromtimestamp(which.since / 1000, UTC).isoformat()}'")
    parts.append("ExecutionStatus != 'ContinuedAsNew'")
    return " AND ".join(parts)
