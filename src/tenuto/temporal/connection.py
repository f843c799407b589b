"""The connection to a cluster, and its errors in our words."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, cast

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from tenuto.errors import (
    ConfigError,
    LimitError,
    QueryFailedError,
    RunClosedError,
    RunNotFoundError,
    StoreUnavailableError,
)
from tenuto.model.registry import Registry
from tenuto.temporal.payloads import ours
from tenuto.temporal.settings import Address

__all__ = ["Connection"]

# Of a worker, when a run is asked something. A task that went down with its worker is given to another one after ten
# seconds, and until then nobody can answer for its run.
ANSWER_WITHIN = timedelta(seconds=25)
SHORTEST_WAIT: Final = 0.5  # seconds
_NO_WORKER: Final = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.CANCELLED)
_REFUSED: Final = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


class Connection:
    """A client of one namespace, once it is open."""

    def __init__(self, address: Address, registry: Registry) -> None:
        self.address = address
        self.registry = registry
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            raise ConfigError("the app is not open: use it as `async with Tenuto(...) as app:`")
        return self._client

    async def open(self) -> None:
        """Connects, and makes sure that the namespace is there."""
        address = self.address
        try:
            self._client = await Client.connect(
                address.host, namespace=address.namespace, api_key=address.api_key, tls=address.tls
            )
        except RuntimeError as error:  # what the SDK raises for everything that keeps it from connecting
            raise StoreUnavailableError(f"no Temporal server can be reached at {address.host}: {error}") from error
        try:
            await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=address.namespace)
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise ConfigError(
                    f"the Temporal server at {address.host} has no namespace {address.namespace!r}; create it with"
                    f" `temporal operator namespace create {address.namespace}`, or correct the URL"
                ) from None
            if error.status not in _REFUSED:  # some keys may use a namespace and not look at it
                raise self._translated(error) from error

    def handle(self, run_id: str) -> WorkflowHandle[object, RawValue]:
        return self.client.get_workflow_handle(run_id, result_type=RawValue)

    async def query(self, run_id: str, name: str, *args: bytes) -> bytes:
        """What a worker says about a run; `QueryFailedError` if it cannot, `StoreUnavailableError` if there is none."""
        until = time.monotonic() + ANSWER_WITHIN.total_seconds()
        async with self.asking(run_id):
            try:
                try:
                    return await self._query(run_id, name, args, until)
                except RPCError as error:
                    if error.status not in _NO_WORKER or time.monotonic() > until - SHORTEST_WAIT:
                        raise
                return await self._query(run_id, name, args, until)  # its task was lost with a worker: once more
            except WorkflowQueryFailedError as error:
                raise QueryFailedError(f"run {run_id} cannot be asked: {error}") from error
            except RPCError as error:
                if error.status not in _NO_WORKER:
                    raise
                raise no_worker(run_id) from error

    async def _query(self, run_id: str, name: str, args: Sequence[bytes], until: float) -> bytes:
        wait = timedelta(seconds=max(SHORTEST_WAIT, until - time.monotonic()))
        values = [ours(arg) for arg in args]
        handle = self.handle(run_id)
        return cast("bytes", await handle.query(name, args=values, result_type=bytes, rpc_timeout=wait))

    @asynccontextmanager
    async def asking(self, run_id: str) -> AsyncGenerator[None]:
        """While in the block, what the server refuses is said in our words."""
        try:
            yield
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise self._translated(error) from error
            if await self._exists(run_id):
                raise RunClosedError(f"run {run_id} has ended") from error
            raise RunNotFoundError(f"there is no run {run_id!r}") from None

    async def _exists(self, run_id: str) -> bool:
        try:
            await self.handle(run_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise self._translated(error) from error
        return True

    def _translated(self, error: RPCError) -> Exception:
        where = f"the Temporal server at {self.address.host}"
        if error.status in _REFUSED:
            return ConfigError(f"{where} refuses: {error.message}")
        if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
            limit = LimitError("of the Temporal server", 0, 0)
            limit.args = (f"{where} has a limit for this: {error.message}",)
            return limit
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return ConfigError(f"{where} cannot take this: {error.message}")
        return StoreUnavailableError(f"{where} did not answer ({error.status.name.lower()}): {error.message}")


def no_worker(run_id: str) -> StoreUnavailableError:
    """Nobody answered for a run."""
    error = StoreUnavailableError(
        f"no worker answers for run {run_id}: on Temporal, what a run has published is asked of a worker of its task"
        " queue"
    )
    vars(error)["engine"] = f"asked for {ANSWER_WITHIN.total_seconds():g} seconds; the run itself is not touched"
    vars(error)["fix"] = "start a worker that serves its task queue, and ask again"
    return error
