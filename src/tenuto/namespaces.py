"""Runs in other namespaces: a workflow here stands for a run there.

`nexus "pay" workflow C(…)` starts a child of the workflow below, which starts C in the store of the namespace under
its own id, follows it to its end, and ends the same way. Asked to cancel, it asks the run there. So a remote run has
everything a child has, and is started once per place however often this process dies.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from typing import Any, Final, cast

from tenuto.codec.values import load
from tenuto.errors import ChildCancelledError, ChildTerminatedError, TwfError
from tenuto.host.engine import NativeEngine
from tenuto.kernel.location import check_name
from tenuto.model.concurrency import shield
from tenuto.model.decorators import step, workflow
from tenuto.model.definitions import ContinueAsNew, Step, Workflow
from tenuto.model.ids import short_name
from tenuto.model.info import run_info
from tenuto.model.port import current_port
from tenuto.model.registry import Registry, default
from tenuto.model.timers import sleep
from tenuto.store.urls import store_of
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run.library import library
from tenuto.twf.run.targets import NEXUS

__all__ = ["Namespaces"]

_FOLLOW: Final = "20s"  # one step waits no longer: then it is recorded that the run has not ended
_LOOKS: Final = 200  # after so many the history begins anew
_PATIENT: Final = 1_000_000


class Namespaces:
    """The other stores that an app was given, by name."""

    def __init__(self, urls: Mapping[str, str], registry: Registry) -> None:
        self._registry = registry
        self._urls = {check_name(name): url for name, url in urls.items()}

    @property
    def _clients(self) -> dict[str, NativeEngine]:
        return self._registry.provided(TwfProvider).library.namespaces

    async def open(self) -> None:
        for name, url in self._urls.items():
            client = NativeEngine(store_of(url), None)
            await client.open()
            self._clients[name] = client
        if self._urls:
            self._registry.register(cast("Workflow[..., Any]", remote_run))
            for known in (start_there, follow_there, cancel_there):
                self._registry.register(cast("Step[..., Any]", known))

    async def close(self) -> None:
        for name in self._urls:
            client = self._clients.pop(name, None)
            if client is not None:
                await client.close()
        if not self._clients:
            self._registry.forget(NEXUS)


def _client(namespace: str) -> NativeEngine:
    """Of the app whose code asks."""
    return cast("NativeEngine", library().namespaces[namespace])


@step(name="tenuto.nexus.start", max_attempts=_PATIENT)
async def start_there(namespace: str, name: str, args: list[Any], kwargs: dict[str, Any], run_id: str) -> None:
    """Starts the run there; the same id with the same input is the same run."""
    client = _client(namespace)
    known = await client.store.defined()
    target = name if name in known else next((one for one in known if short_name(one) == name), name)
    await client.start(target, args, kwargs, {"id": run_id})


@step(name="tenuto.nexus.follow", max_attempts=_PATIENT)
async def follow_there(namespace: str, run_id: str) -> tuple[str, bytes] | None:
    """How the run there ended; None if it has not for a while."""
    try:
        ending = await _client(namespace).ending(run_id, _FOLLOW)
    except TimeoutError:
        return None
    return ending.status, ending.value


@step(name="tenuto.nexus.cancel", max_attempts=_PATIENT)
async def cancel_there(namespace: str, run_id: str) -> None:
    await _client(namespace).cancel(run_id, "its parent asked", None)


@workflow(name=NEXUS)
async def remote_run(namespace: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The run of another namespace, as this store sees it."""
    clients = library().namespaces
    if namespace not in clients:
        known = ", ".join(sorted(clients)) or "none"
        message = f'namespace "{namespace}" is not known here (known: {known})'
        current_port.get().park(TwfError("TWF604", "TWF604", message))
    run_id = run_info().id
    await start_there(namespace, name, args, kwargs, run_id)
    try:
        for _ in range(_LOOKS):
            ending = await follow_there(namespace, run_id)
            if ending is not None:
                return _ended(run_id, *ending)
            await sleep("1s")
    except CancelledError:
        async with shield():
            await cancel_there(namespace, run_id)
        raise
    return ContinueAsNew(namespace, name, args, kwargs)


def _ended(run_id: str, status: str, value: bytes) -> Any:
    match status:
        case "completed":
            return load(value)
        case "failed":
            raise load(value)
        case "cancelled":
            raise ChildCancelledError(f"run {run_id} was cancelled there")
        case _:
            raise ChildTerminatedError(f"run {run_id} was terminated there")


for _definition in (remote_run, start_there, follow_there, cancel_there):
    default.forget(_definition.id)  # known only while an app has namespaces: nobody else may claim such a run
