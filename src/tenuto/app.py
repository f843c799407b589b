"""The user's handle on everything: `Tenuto` starts runs, finds them, and runs a worker in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, TypeVarTuple, Unpack, cast, overload

from tenuto.codec.values import load
from tenuto.errors import ConfigError, RunCancelledError, RunFailedError, RunTerminatedError
from tenuto.host.blocking import Blocking, LoopThread
from tenuto.host.engine import NativeEngine
from tenuto.host.explain import Explanation
from tenuto.host.history import HistoryEntry
from tenuto.host.options import Attributes, StartOptions, WorkerOptions
from tenuto.host.summaries import RunSummary
from tenuto.host.waiters import Ending
from tenuto.host.watching import RunEvent
from tenuto.kernel.location import check_name
from tenuto.model import registry
from tenuto.model.definitions import Bound
from tenuto.model.durations import Duration, milliseconds, moment
from tenuto.model.marking import startable
from tenuto.store.port import RunFilter, Store
from tenuto.store.urls import DEFAULT_URL, store_of

__all__ = ["Engine", "RunHandle", "SyncRunHandle", "SyncTenuto", "Tenuto"]

Q = ParamSpec("Q")
R = TypeVar("R")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")


class Engine(Protocol):
    """What runs the runs: ours on a store, or a Temporal cluster. Every verb of `Tenuto` and `RunHandle`, by run id."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def wait_until(self, reached: Callable[[], Awaitable[bool]], timeout: Duration | None) -> object: ...
    async def start(
        self, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions
    ) -> str: ...
    async def runs(self, which: RunFilter) -> list[RunSummary]: ...
    async def send_hook(self, token: str, args: Sequence[object]) -> None: ...
    async def status(self, run_id: str) -> str: ...
    async def ending(self, run_id: str, timeout: Duration | None) -> Ending: ...
    async def history(self, run_id: str) -> list[HistoryEntry]: ...
    async def explain(self, run_id: str) -> Explanation: ...
    def watch(self, run_id: str) -> AsyncIterator[RunEvent]: ...
    async def query(self, run_id: str, query: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any: ...
    async def signal(self, run_id: str, name: str, args: Sequence[object], message_id: str | None) -> None: ...
    async def update(
        self,
        run_id: str,
        name: str,
        args: Sequence[object],
        update_id: str | None,
        timeout: Duration | None,
        retry_for: Duration,
    ) -> Any: ...
    async def cancel(self, run_id: str, reason: str | None, within: Duration | None) -> None: ...
    async def terminate(self, run_id: str, reason: str | None) -> None: ...
    async def pause(self, run_id: str) -> None: ...
    async def resume(self, run_id: str) -> None: ...
    async def wake(self, run_id: str) -> None: ...
    async def recover(self, run_id: str) -> None: ...
    async def rewind(self, run_id: str, to: str, drop_updates: bool) -> None: ...
    async def supply(self, run_id: str, location: str, value: object) -> None: ...


class Tenuto:
    """Runs, and a worker for them, on one engine.

        async with Tenuto() as app:                        # a file in .tenuto, and a worker in this process
            run = await app.start(checkout, "tok_1", 4200, id="order-42")
            print(await run.result())

    `worker=False` makes it a client only. With the same id `start` gives the same run again.
    """

    def __init__(
        self,
        url: str | None = None,
        /,
        *,
        queues: Sequence[str] | None = None,
        worker: bool = True,
        concurrency: int = 100,
        lease: Duration = "30s",
        block_limit: Duration = "5m",
        grace: Duration = "30s",
        max_reclaims: int = 5,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: a worker needs room for at least one run")
        options: WorkerOptions = {
            "queues": queues,
            "concurrency": concurrency,
            "lease_ms": milliseconds(lease),
            "block_limit": milliseconds(block_limit) / 1000,
            "grace": milliseconds(grace) / 1000,
            "max_reclaims": max_reclaims,
        }
        self.engine: Engine = _engine_of(url if url is not None else DEFAULT_URL, options if worker else None)

    @classmethod
    def sync(cls, url: str | None = None, /, **options: Any) -> SyncTenuto:
        """The same app without `await`, for synchronous programs; use it as a context manager."""
        return SyncTenuto(url, **options)

    async def __aenter__(self) -> Self:
        await self.engine.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.close()

    @property
    def store(self) -> Store:
        """Where the runs are kept; a Temporal cluster has none of ours."""
        if not isinstance(self.engine, NativeEngine):
            raise ConfigError("this app's runs are on a Temporal cluster: there is no store of ours")
        return self.engine.store

    # --- starting and finding

    @overload
    async def start(self, workflow: Bound[R], /, **options: Unpack[StartOptions]) -> RunHandle[R]: ...
    @overload
    async def start(
        self, workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[StartOptions]
    ) -> RunHandle[R]: ...
    @overload
    async def start(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> RunHandle[Any]: ...
    async def start(  # type: ignore[misc]  # mypy does not see that *args takes what *Ts takes
        self, workflow: Any, /, *args: Any, **options: Unpack[StartOptions]
    ) -> RunHandle[Any]:
        """Starts a run; it is stored when this returns.

        The same id with the same workflow and input gives the run that has it, whatever its status; `if_exists` says
        what else may happen to an id that is in use.
        """
        target, args, kwargs = _what(workflow, args)
        return RunHandle(self, await self.engine.start(target, args, kwargs, options))

    def get(self, run_id: str, /) -> RunHandle[Any]:
        """A handle on a run."""
        return RunHandle(self, check_name(run_id))

    async def runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        attributes: Attributes | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> AsyncIterator[RunSummary]:
        """The runs that fit, newest first."""
        target = None if workflow is None else _target(workflow)
        which = RunFilter(status, target, None if since is None else moment(since), attributes or {}, limit)
        for summary in await self.engine.runs(which):
            yield summary

    async def send_hook(self, token: str, /, *args: object) -> None:
        """Sends a payload to whoever has a hook with this token."""
        await self.engine.send_hook(token, args)

    async def wait_until(self, reached: Callable[[], Awaitable[bool]], timeout: Duration | None) -> None:
        """Waits until something is true, asking again whenever anything was stored; `TimeoutError`."""
        await self.engine.wait_until(reached, timeout)


class RunHandle(Generic[T_co]):
    """One run: what can be asked of it and done to it."""

    def __init__(self, app: Tenuto, run_id: str) -> None:
        self._engine = app.engine
        self.id = run_id

    # --- looking

    async def status(self) -> str:
        """scheduled, pending, running, suspended, paused, parked, or how it ended."""
        return await self._engine.status(self.id)

    async def result(self, *, timeout: Duration | None = None) -> T_co:
        """Its value, once it has ended; `RunFailedError`, `RunCancelledError`, `RunTerminatedError` if it ended so."""
        ending = await self._engine.ending(self.id, timeout)
        match ending.status:
            case "completed":
                return cast("T_co", load(ending.value))
            case "failed":
                raise RunFailedError(f"run {self.id} failed") from load(ending.value)
            case "cancelled":
                raise RunCancelledError(f"run {self.id} was cancelled")
            case _:
                raise RunTerminatedError(f"run {self.id} was terminated")

    async def history(self) -> list[HistoryEntry]:
        """What is recorded, in the order it settled; what is under way last."""
        return await self._engine.history(self.id)

    async def explain(self) -> Explanation:
        """Why the run is where it is: what it waits for, and what would wake it. Reads only."""
        return await self._engine.explain(self.id)

    def watch(self) -> AsyncIterator[RunEvent]:
        """What happens to the run, as it happens; what is there already comes first."""
        return self._engine.watch(self.id)

    @overload
    async def query(self, /) -> Any: ...
    @overload
    async def query(self, query: str, /, *args: object) -> Any: ...
    @overload
    async def query(self, query: Callable[Concatenate[Any, Q], V], /, *args: Q.args, **kwargs: Q.kwargs) -> V: ...
    async def query(self, query: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        """The published state, or what a query makes of it. Read from the store: no worker, also after the end."""
        return await self._engine.query(self.id, query, args, kwargs)

    # --- messages

    async def signal(self, name: str, /, *args: object, id: str | None = None) -> None:  # noqa: A002  # the public name
        """Sends a signal; it is stored when this returns. The same id again is the same signal."""
        await self._engine.signal(self.id, name, args, id)

    async def update(
        self,
        name: str,
        /,
        *args: object,
        id: str | None = None,  # noqa: A002
        timeout: Duration | None = None,
        retry_for: Duration = 0,
    ) -> Any:
        """Sends an update and waits for its answer; `UpdateRejectedError`, `UpdateFailedError`."""
        return await self._engine.update(self.id, name, args, id, timeout, retry_for)

    # --- control

    async def cancel(self, reason: str | None = None, *, within: Duration | None = None) -> None:
        """Asks the run to stop; it may clean up, at most `within`. Asking a run that has ended changes nothing."""
        await self._engine.cancel(self.id, reason, within)

    async def terminate(self, reason: str | None = None) -> None:
        """Closes the run at once; none of its code runs any more."""
        await self._engine.terminate(self.id, reason)

    async def pause(self) -> None:
        """Holds the run after the work under way; messages and timers wait."""
        await self._engine.pause(self.id)

    async def resume(self) -> None:
        """Lets a paused or parked run go on; otherwise without effect."""
        await self._engine.resume(self.id)

    async def wake(self) -> None:
        """Gives the run a turn; nothing fires early."""
        await self._engine.wake(self.id)

    async def recover(self) -> None:
        """Runs a failed run on from the step that failed it."""
        await self._engine.recover(self.id)

    async def rewind(self, *, to: str, drop_updates: bool = False) -> None:
        """Takes the run back to a place, given as `history()` prints it; what came after is done again."""
        await self._engine.rewind(self.id, to, drop_updates)

    async def supply(self, location: str, value: object) -> None:
        """Gives the open step at a location this value as its result, marked as supplied."""
        await self._engine.supply(self.id, location, value)


def _engine_of(url: str, options: WorkerOptions | None) -> Engine:
    return NativeEngine(store_of(url), options)


def _what(workflow: Any, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    """The id of what is to be started, and its arguments."""
    if isinstance(workflow, Bound):
        bound = cast("Bound[Any]", cast("object", workflow))
        return bound.definition.id, bound.args, bound.kwargs
    if isinstance(workflow, str):
        return _target(workflow), args, {}
    known, args = startable(workflow, args)
    return known.id, args, {}


def _target(name: str) -> str:
    """The id that a text means: itself, or the one registered here under that short name."""
    return name if name.startswith("workflow//") else registry.find(name, "workflow").id


# --- for synchronous programs


class SyncRunHandle(Blocking, of=RunHandle):
    """Each method of `RunHandle`, without `await`."""


class SyncTenuto(Blocking, of=Tenuto):
    """Each method of `Tenuto`, without `await`; made by `Tenuto.sync()`, used as a context manager.

    with Tenuto.sync() as app:
        print(app.start(checkout, "tok_1", 4200).result(timeout="30s"))
    """

    def __init__(self, url: str | None = None, /, **options: Any) -> None:
        super().__init__(Tenuto(url, **options), LoopThread())

    def __enter__(self) -> Self:
        self._thread.run(self._target.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._thread.run(self._target.__aexit__(*exc))
        finally:
            self._thread.stop()
