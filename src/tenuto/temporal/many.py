"""Verbs for many runs of a cluster: each is done to one run after the other, and to the app's own runs only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from tenuto.errors import RunClosedError, RunNotFoundError
from tenuto.store.port import CLOSED, RunFilter
from tenuto.temporal.connection import Connection
from tenuto.temporal.looking import Found, Looking

__all__ = ["Many"]

MANY: Final = 1_000_000  # runs that a verb for many is done to at most


class Many:
    """Of one app."""

    def __init__(self, connection: Connection, looking: Looking) -> None:
        self._connection = connection
        self._looking = looking

    async def do(self, which: RunFilter, verb: Callable[[Found], Awaitable[None]], *, to_closed: bool = False) -> int:
        """To the runs that fit and are open (or closed), as the cluster's list has them; to how many it was done."""
        many = replace(which, status=which.status or ("closed" if to_closed else "open"), limit=MANY)
        async with self._connection.asking(""):
            found = [item async for item in self._looking.ours(many, decide=False)]
        done = 0
        for item in found:
            if (item.summary.status in CLOSED) == to_closed:
                with suppress(RunClosedError, RunNotFoundError):
                    await verb(item)
                    done += 1
        return done

    async def delete(self, which: RunFilter) -> int:
        return await self.do(which, self._delete, to_closed=True)

    async def _delete(self, found: Found) -> None:
        """That execution and no other: a run that was started anew under the id is not the one on the list."""
        client, run_id = self._connection.client, found.summary.id
        execution = WorkflowExecution(workflow_id=run_id, run_id=found.execution)
        request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
        async with self._connection.asking(run_id):
            await client.workflow_service.delete_workflow_execution(request)
