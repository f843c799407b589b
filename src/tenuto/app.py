"""The user's handle on everything: `Tenuto` starts runs, finds them, and runs a worker in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    overload,
)

from tenuto.codec.sealing import Codec
from tenuto.codec.values import load
from tenuto.engines import Engine, engine_of
from tenuto.errors import ConfigError, RunCancelledError, RunFailedError, RunTerminatedError, StepFailedError
from tenuto.host.blocking import Blocking, LoopThread
from tenuto.host.engine import NativeEngine
from tenuto.host.explain import Explanation
from tenuto.host.faults import failure_text, noted, with_frames
from tenuto.host.history import HistoryEntry
from tenuto.host.limits import Limits
from tenuto.host.opened import Opened
from tenuto.host.options import Attributes, StartOptions, WorkerOptions, check_start_options
from tenuto.host.queueing import LimitOptions
from tenuto.host.schedules import ScheduleOptions, ScheduleSummary
from tenuto.host.summaries import RunSummary
from tenuto.host.watching import RunEvent
from tenuto.kernel.location import check_name
from tenuto.model.definitions import Bound, Workflow
from tenuto.model.durations import Duration, milliseconds, moment
from tenuto.model.marking import startable
from tenuto.model.options import QueueOptions
from tenuto.model.registry import Registry, default
from tenuto.store.housekeeping import CatchUp, Overlap
from tenuto.store.port import RunFilter, Store
from tenuto.store.queues import QueueRecord
from tenuto.store.urls import DEFAULT_URL

if TYPE_CHECKING:
    from tenuto.namespaces import Namespaces

__all__ = [
    "EachRun",
    "RunHandle",
    "SyncEachRun",
    "SyncRunHandle",
    "SyncTaskHandle",
    "SyncTenuto",
    "TaskHandle",
    "Tenuto",
]

Q = ParamSpec("Q")
R = TypeVar("R")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")

Call: TypeAlias = tuple[str, tuple[Any, ...], Mapping[str, Any]]  # the id of a workflow, and its arguments


class Tenuto:
    """Runs, and a worker for them, on one engine.

        async with Tenuto() as app:                        # a file in .tenuto, and a worker in this process
            run = await app.start(checkout, "tok_1", 4200, id="order-42")
            print(await run.result())

    `worker=False` makes it a client only. With the same id `start` gives the same run again. `retention`: how long
    closed runs are kept (None: for ever). `codec`: `Compression()` or `Encryption(keys)` of what the store is given.
    `namespaces`: other stores by name, whose workflows TWF programs call by `nexus "name" workflow W(…)`.
    `registry`: the definitions it knows (None: what decorators and the import hook have registered).

    Of its worker: `queues`, which it serves (None: all); `concurrency`, how many runs at once; `lease`, how long its
    runs stay its own when nothing is heard of it; `block_limit`, for how long code that blocks the event loop is still
    taken for alive; `grace`, how long work under way may take at the end; `max_reclaims`, how many workers that had a
    run and nothing else may be lost before it is parked as stuck; `cache_bytes`, how much of suspended runs stays in
    memory.
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
        max_reclaims: int = 3,
        retention: Duration | None = "30d",
        cache_bytes: int = 2**28,
        limits: Limits | None = None,
        codec: Codec | None = None,
        namespaces: Mapping[str, str] | None = None,
        registry: Registry | None = None,
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
            "retention_ms": None if retention is None else milliseconds(retention),
            "cache_bytes": cache_bytes,
        }
        where = url if url is not None else DEFAULT_URL
        if where.startswith("temporal://"):
            _refuse_for_a_cluster(
                retention=retention, max_reclaims=max_reclaims, cache_bytes=cache_bytes, block_limit=block_limit
            )
        self.registry = default if registry is None else registry
        self.engine: Engine = engine_of(where, options if worker else None, limits, codec, self.registry)
        self._namespaces = _namespaces(namespaces, self.registry) if namespaces else None
        self._opened = Opened()

    @classmethod
    def sync(cls, url: str | None = None, /, **options: Any) -> SyncTenuto:
        """The same app without `await`, for synchronous programs; use it as a context manager."""
        return SyncTenuto(url, **options)

    async def __aenter__(self) -> Self:
        self._opened.begin(self.engine)
        try:
            if self._namespaces is not None:
                await self._namespaces.open()
            await self.engine.open()
        except BaseException:
            self._opened.end()
            raise
        return self

    @property
    def verbs(self) -> Engine:
        """What the engine can do, while the app is open; `ConfigError` before and after."""
        return cast("Engine", self._opened)

    async def __aexit__(self, *exc: object) -> None:
        if not self._opened:
            return
        try:
            await self.engine.close()
        finally:
            self._opened.end()
            if self._namespaces is not None:
                await self._namespaces.close()

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
        what else may happen to an id that is in use. A call that is cancelled, or whose answer is lost, may have
        started the run all the same: with an id it is safe to repeat.
        """
        check_start_options(options)
        if isinstance(workflow, str):
            call: Call = await self.verbs.resolve(workflow), args, {}
        else:
            call = _call_of(workflow, args)
        return RunHandle(self, await self.verbs.start(*call, options))

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
        """The runs that fit, newest first; at most `limit` of them. `each` does something to all.

        `status`: one that a run can have, or `open`, `closed`, `stuck`, which stand for several; another is a
        `ValueError`.
        """
        which = await self._filter(status, workflow, attributes, since, limit)
        for summary in await self.verbs.runs(which):
            yield summary

    def each(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        attributes: Attributes | None = None,
        since: datetime | None = None,
    ) -> EachRun:
        """All the runs that fit, to do the same to each of them.

        await app.each(workflow="checkout", status="failed").recover()
        """
        RunFilter(status)  # a wrong one is said here, not when something is done to them
        return EachRun(self.verbs, lambda: self._filter(status, workflow, attributes, since, 0))

    async def _filter(
        self,
        status: str | None,
        workflow: str | None,
        attributes: Attributes | None,
        since: datetime | None,
        limit: int,
    ) -> RunFilter:
        target = None if workflow is None else await self.verbs.resolve(workflow)
        return RunFilter(status, target, None if since is None else moment(since), attributes or {}, limit)

    # --- queues

    @overload
    async def enqueue(self, task: Bound[R], /, **options: Unpack[QueueOptions]) -> TaskHandle[R]: ...
    @overload
    async def enqueue(
        self, task: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[QueueOptions]
    ) -> TaskHandle[R]: ...
    @overload
    async def enqueue(self, task: str, /, *args: object, **options: Unpack[QueueOptions]) -> TaskHandle[Any]: ...
    async def enqueue(  # type: ignore[misc]  # as for start
        self, task: Any, /, *args: Any, **options: Unpack[QueueOptions]
    ) -> TaskHandle[Any]:
        """Puts a step into a queue by itself, without a workflow; it is stored when this returns.

        `queue`, else the step's own, else `"default"`. While an item with its `key` is open there, that one is given.
        """
        return TaskHandle(self, await self.verbs.enqueue(task, args, options))

    def task(self, task_id: str, /) -> TaskHandle[Any]:
        """A handle on a task."""
        return TaskHandle(self, check_name(task_id))

    async def queue(
        self,
        name: str,
        /,
        *,
        concurrency: int | None = None,
        worker_concurrency: int | None = None,
        partition_concurrency: int | None = None,
        rate: tuple[int, Duration] | None = None,
        paused: bool = False,
    ) -> None:
        """Says how much of a queue may run; what is not said has no limit. It holds for all workers of the store.

        `concurrency`: items at once; `worker_concurrency`: in one process; `partition_concurrency`: of one partition;
        `rate`: so many starts in any window of that length, retries included; `paused`: nothing more begins.
        """
        options: LimitOptions = {
            "concurrency": concurrency,
            "worker_concurrency": worker_concurrency,
            "partition_concurrency": partition_concurrency,
            "rate": rate,
            "paused": paused,
        }
        await self.verbs.set_queue(name, options)

    async def queues(self) -> AsyncIterator[QueueRecord]:
        """The queues that were told something and those that have work: their limits, what waits and what runs."""
        for record in await self.verbs.queues():
            yield record

    async def send_hook(self, token: str, /, *args: object) -> None:
        """Sends a payload to whoever has a hook with this token."""
        await self.verbs.send_hook(token, args)

    # --- schedules

    async def schedule(
        self,
        name: str,
        workflow: Bound[Any] | Workflow[[], Any] | str,
        /,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        overlap: Overlap = "skip",
        catch_up: CatchUp = "one",
        start_at: datetime | None = None,
        end_at: datetime | None = None,
    ) -> None:
        """Starts runs of a workflow at the times of a cron line, or at intervals; stored when this returns.

        A run's id is `name@<its time in UTC>`. `overlap`: what happens while the run before is open. `catch_up`: what
        becomes of times that nobody was there for. Storing a schedule again changes it; another rule counts from now.
        """
        if isinstance(workflow, str):
            call: Call = await self.verbs.resolve(workflow), (), {}
        else:
            call = _call_of(workflow, ())
        options: ScheduleOptions = {
            "cron": cron,
            "every": every,
            "tz": tz,
            "overlap": overlap,
            "catch_up": catch_up,
            "start_at": start_at,
            "end_at": end_at,
        }
        await self.verbs.schedule(name, *call, options)

    async def schedules(self) -> AsyncIterator[ScheduleSummary]:
        """All schedules, by name."""
        for summary in await self.verbs.schedules():
            yield summary

    async def pause_schedule(self, name: str, /) -> None:
        """Starts nothing until the schedule is resumed."""
        await self.verbs.pause_schedule(name)

    async def resume_schedule(self, name: str, /) -> None:
        """Lets a paused schedule go on from now; what fell into the pause is not made up for."""
        await self.verbs.resume_schedule(name)

    async def delete_schedule(self, name: str, /) -> None:
        """Removes a schedule; the runs it has started stay."""
        await self.verbs.delete_schedule(name)

    async def wait_until(self, reached: Callable[[], Awaitable[bool]], timeout: Duration | None) -> None:
        """Waits until something is true, asking again whenever anything was stored; `TimeoutError`."""
        await self.verbs.wait_until(reached, timeout)


class RunHandle(Generic[T_co]):
    """One run: what can be asked of it and done to it."""

    def __init__(self, app: Tenuto, run_id: str) -> None:
        self._engine = app.verbs
        self._registry = app.registry
        self.id = run_id

    # --- looking

    async def status(self) -> str:
        """scheduled, pending, running, suspended, paused, parked, or how it ended."""
        return await self._engine.status(self.id)

    async def result(self, *, timeout: Duration | None = None) -> T_co:
        """Its value, once it has ended; `RunFailedError`, `RunCancelledError`, `RunTerminatedError` if it ended so."""
        ending = await self._engine.ending(self.id, timeout)
        with self._registry.in_force():  # a value may name a definition
            match ending.status:
                case "completed":
                    return cast("T_co", load(ending.value))
                case "failed":
                    error = with_frames(load(ending.value))
                    raise noted(RunFailedError(failure_text(self.id, error)), ending.notes) from error
                case "cancelled":
                    raise noted(RunCancelledError(f"run {self.id} was cancelled"), ending.notes)
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


class TaskHandle(Generic[T_co]):
    """One task without a workflow: what can be asked of it and done to it."""

    def __init__(self, app: Tenuto, task_id: str) -> None:
        self._engine = app.verbs
        self._registry = app.registry
        self.id = task_id

    async def status(self) -> str:
        """scheduled, pending, running, or how it ended: completed, failed, cancelled."""
        return await self._engine.task_status(self.id)

    async def result(self, *, timeout: Duration | None = None) -> T_co:
        """Its value, once it has ended; the `StepFailedError` it ended with, of kind `cancelled` if it was."""
        ending = await self._engine.task_ending(self.id, timeout)
        with self._registry.in_force():  # as for runs
            if ending.status == "completed":
                return cast("T_co", load(ending.value))
            error = with_frames(load(ending.value)) if ending.value else None
        if isinstance(error, StepFailedError):
            raise error
        raise RunFailedError(f"run {self.id}, which had the key, is {ending.status}") from error

    async def cancel(self) -> None:
        """Withdraws the task, or asks it to stop if it has begun. Asking one that has ended changes nothing."""
        await self._engine.cancel_task(self.id)


class EachRun:
    """The runs that fit a filter when a verb is called; each verb gives how many runs it was done to.

    Runs that have ended, or gone on, by the time their turn comes are left alone.
    """

    def __init__(self, engine: Engine, which: Callable[[], Awaitable[RunFilter]]) -> None:
        self._engine = engine
        self._which = which

    async def cancel(self, reason: str | None = None) -> int:
        """Asks open runs to stop."""
        return await self._engine.for_each(await self._which(), "cancel", reason)

    async def terminate(self, reason: str | None = None) -> int:
        """Closes open runs at once; none of their code runs any more."""
        return await self._engine.for_each(await self._which(), "terminate", reason)

    async def pause(self) -> int:
        """Holds open runs after the work under way."""
        return await self._engine.for_each(await self._which(), "pause", None)

    async def resume(self) -> int:
        """Lets paused and parked runs go on."""
        return await self._engine.for_each(await self._which(), "resume", None)

    async def recover(self) -> int:
        """Runs failed runs on from the step that failed them, where that is possible."""
        return await self._engine.for_each(await self._which(), "recover", None)

    async def delete(self) -> int:
        """Removes closed runs with everything that belongs to them."""
        return await self._engine.for_each(await self._which(), "delete", None)


def _namespaces(urls: Mapping[str, str], registry: Registry) -> Namespaces:
    from tenuto.namespaces import Namespaces  # few apps have any, and it brings the interpreter along

    return Namespaces(urls, registry)


def _call_of(workflow: Any, args: tuple[Any, ...]) -> Call:
    """What is to be started, unless its name was given."""
    if isinstance(workflow, Bound):
        bound = cast("Bound[Any]", cast("object", workflow))
        return bound.definition.id, bound.args, bound.kwargs
    known, args = startable(workflow, args)
    return known.id, args, {}


# What only our own engines have, and what a cluster has instead.
_NOT_ON_A_CLUSTER: Final = {
    "retention": "the namespace has its own: temporal operator namespace update --retention",
    "max_reclaims": "Temporal tries the task of a run again and again; nothing is parked as stuck",
    "cache_bytes": "say how many runs stay in memory, by ?cache= of the URL",
    "block_limit": "the SDK has a limit of its own",
}


def _refuse_for_a_cluster(**given: Any) -> None:
    """`ConfigError` for an option that would go nowhere."""
    defaults = signature(Tenuto).parameters
    for name, value in given.items():
        if value != defaults[name].default:
            raise ConfigError(f"{name}= is for our own stores, on a Temporal cluster: {_NOT_ON_A_CLUSTER[name]}")


# --- for synchronous programs


class SyncRunHandle(Blocking, of=RunHandle):
    """Each method of `RunHandle`, without `await`."""


class SyncTaskHandle(Blocking, of=TaskHandle):
    """Each method of `TaskHandle`, without `await`."""


class SyncEachRun(Blocking, of=EachRun):
    """Each method of `EachRun`, without `await`."""


class SyncTenuto(Blocking, of=Tenuto):
    """Each method of `Tenuto`, without `await`; made by `Tenuto.sync()`, used as a context manager.

    with Tenuto.sync() as app:
        print(app.start(checkout, "tok_1", 4200).result(timeout="30s"))
    """

    def __init__(self, url: str | None = None, /, **options: Any) -> None:
        super().__init__(Tenuto(url, **options), LoopThread())

    def __enter__(self) -> Self:
        began = self._thread.start()
        try:
            self._thread.run(self._target.__aenter__())
        except BaseException:
            if began:
                self._thread.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._thread.runs:
            return
        try:
            self._thread.run(self._target.__aexit__(*exc))
        finally:
            self._thread.stop()
