"""Signals and updates from clients."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tenuto.codec.values import dump, load
from tenuto.errors import DefinitionNotFoundError, RunClosedError, UpdateFailedError, UpdateRejectedError
from tenuto.kernel.location import check_name
from tenuto.model.durations import Duration, milliseconds
from tenuto.temporal.connection import Connection
from tenuto.temporal.looking import Looking
from tenuto.temporal.names import CANCEL_WITHIN, MEMO_RUN_NO
from tenuto.temporal.payloads import carried_error, ours, payload_of, value_of
from tenuto.twf.provider import TwfProvider

__all__ = ["Messages"]

FIRST_PAUSE: Final = 0.05  # seconds between the first two tries of an update that may wait
LONGEST_PAUSE: Final = 1.0


class Messages:
    """What clients send to runs."""

    def __init__(self, connection: Connection, looking: Looking) -> None:
        self._connection = connection
        self._looking = looking

    async def signal(self, run_id: str, name: str, args: Sequence[object], message_id: str | None) -> None:
        """The server takes a signal with the same request id once."""
        if self._connection.registry.provided(TwfProvider).in_use and name != CANCEL_WITHIN:
            await self._check_signal(run_id, name, args)
        client = self._connection.client
        payload = payload_of(dump(list(args)))
        async with self._connection.asking(run_id):
            await client.workflow_service.signal_workflow_execution(
                SignalWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run_id),
                    signal_name=check_name(name),
                    input=Payloads(payloads=[payload]),
                    identity=client.identity,
                    request_id=message_id if message_id is not None else secrets.token_hex(16),
                ),
                retry=True,
            )

    async def _check_signal(self, run_id: str, name: str, args: Sequence[object]) -> None:
        """A signal that does not fit its TWF handler is refused here."""
        with suppress(DefinitionNotFoundError):
            known = await self._looking.definition(run_id)
            if known.provider is not None:
                known.provider.accept_signal(known, name, args)

    async def update(
        self,
        run_id: str,
        name: str,
        args: Sequence[object],
        update_id: str | None,
        timeout: Duration | None,
        retry_for: Duration,
    ) -> Any:
        """Sends an update and waits for its answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + milliseconds(retry_for) / 1000
        encoded = dump(list(args))
        if update_id is not None:
            earlier = await self._earlier(run_id, check_name(update_id))
            if earlier is not None:
                return load(earlier)
        pause = FIRST_PAUSE
        while True:
            key = update_id if update_id is not None else secrets.token_hex(8)
            try:
                return load(await self._ask(run_id, check_name(name), key, encoded, timeout))
            except UpdateRejectedError as error:
                if error.why != "not_accepting" or loop.time() >= until:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)  # each try is a task for a worker

    async def _ask(self, run_id: str, name: str, key: str, args: bytes, timeout: Duration | None) -> bytes:
        handle: Any = self._connection.handle(run_id)
        limit_s = None if timeout is None else milliseconds(timeout) / 1000
        try:
            async with asyncio.timeout(limit_s) as limit, self._connection.asking(run_id):
                try:
                    return value_of(await handle.execute_update(name, args=[ours(args)], id=key, result_type=RawValue))
                except WorkflowUpdateRPCTimeoutOrCancelledError:
                    # The SDK says this also when it is we who stop waiting.
                    if limit.when() is not None and limit.expired():
                        raise TimeoutError from None
                    raise asyncio.CancelledError from None
        except RunClosedError:
            error: Exception = UpdateRejectedError("closed")
        except WorkflowUpdateFailedError as failure:
            error = _update_error(failure.cause)
        raise error

    async def _earlier(self, run_id: str, key: str) -> bytes | None:
        """The answer that this id got from an earlier run of the chain: the server itself looks at one run only."""
        client = self._connection.client
        async with self._connection.asking(run_id):
            described = await self._connection.handle(run_id).describe()
            if int(await described.memo_value(MEMO_RUN_NO, 1)) == 1:
                return None
            before = await self._run_before(run_id, described.run_id)
            while before:
                handle: Any = client.get_workflow_handle(run_id, run_id=before)
                try:
                    return value_of(await handle.get_update_handle(key, result_type=RawValue).result())
                except RPCError as error:
                    if error.status is not RPCStatusCode.NOT_FOUND:
                        raise
                except WorkflowUpdateFailedError as failure:
                    raise _update_error(failure.cause) from None
                before = await self._run_before(run_id, before)
        return None

    async def _run_before(self, run_id: str, execution: str | None) -> str:
        handle = self._connection.client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events(page_size=1):
            return event.workflow_execution_started_event_attributes.continued_execution_run_id
        return ""


def _update_error(cause: BaseException | None) -> Exception:
    error: Any = load(carried_error(cause))
    if isinstance(error, UpdateRejectedError | UpdateFailedError):
        return error
    closed = isinstance(cause, ApplicationError) and cause.type == "AcceptedUpdateCompletedWorkflow"
    failed = UpdateFailedError("closed" if closed else "handler")
    failed.__cause__ = error
    return failed
