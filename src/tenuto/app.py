"""The user's handle on everything: `Tenuto` starts runs, finds them, and runs a worker in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    TypeVarTuple,
    cast,
    overload,
)

from tenuto.codec.rows import ERROR_KEY, OUTPUT_KEY, decode_rows, update_key
from tenuto.codec.values import dump, load
from tenuto.errors import (
    ConfigError,
    DefinitionNotFoundError,
    HookNotFoundError,
    RunCancelledError,
    RunClosedError,
    RunFailedError,
    RunIdConflictError,
    RunNotFoundError,
    RunStateError,
    RunTerminatedError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.host.blocking import Blocking, LoopThread
from tenuto.host.definitions import Definitions
from tenuto.host.effects import first_rows, gather, token_hash
from tenuto.host.explain import Explanation, explain
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.waiters import Ending, Waiters
from tenuto.host.watching import RunEvent, watch
from tenuto.host.worker import Worker
from tenuto.kernel.location import check_name, parse
from tenuto.kernel.records import Mail, MailKind, Rows, UpdateStatus
from tenuto.kernel.rewind import Undone, recover, rewind
from tenuto.model import registry
from tenuto.model.definitions import Bound, Workflow, encode_call
from tenuto.model.durations import Duration, milliseconds, moment
from tenuto.model.ids import short_name
from tenuto.model.marking import startable
from tenuto.model.state import answer_query
from tenuto.store.port import CLOSED, Lease, NewRun, RunFilter, RunRecord, Store, TurnCommit
from tenuto.store.urls import DEFAULT_URL, store_of

__all__ = ["RunHandle", "SyncRunHandle", "SyncTenuto", "Tenuto"]

Q = ParamSpec("Q")
R = TypeVar("R")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")

Attributes = Mapping[str, str | int | float | bool]
IfExists = Literal["same", "attach", "error", "restart_failed", "restart_closed"]


class Tenuto:
    """Runs, and a worker for them, on one store.

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
        self.store: Store = store_of(url if url is not None else DEFAULT_URL)
        self.definitions = Definitions()
        self._waiters = Waiters(self.store, lambda: self._worker is not None and self._worker.busy)
        self._worker: Worker | None = None
        self._with_worker = worker
        self._options: dict[str, Any] = {
            "queues": queues,
            "concurrency": concurrency,
            "lease_ms": milliseconds(lease),
            "block_limit": milliseconds(block_limit) / 1000,
            "grace": milliseconds(grace) / 1000,
            "max_reclaims": max_reclaims,
        }

    @classmethod
    def sync(cls, url: str | None = None, /, **options: Any) -> SyncTenuto:
        """The same app without `await`, for synchronous programs; use it as a context manager."""
        return SyncTenuto(url, **options)

    async def __aenter__(self) -> Self:
        await self.store.open()
        if self._with_worker:
            self._worker = Worker(self.store, tell=self._waiters.tell, **self._options)
            await self._worker.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._worker is not None:
            await self._worker.stop()
        await self._waiters.close()
        await self.store.close()

    # --- starting and finding

    @overload
    async def start(
        self,
        workflow: Bound[R],
        /,
        *,
        id: str | None = None,  # the public name
        if_exists: IfExists = "same",
        attributes: Attributes | None = None,
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: Callable[[*Ts], Coroutine[Any, Any, R]],
        /,
        *args: *Ts,
        id: str | None = None,
        if_exists: IfExists = "same",
        attributes: Attributes | None = None,
    ) -> RunHandle[R]: ...
    @overload
    async def start(
        self,
        workflow: str,
        /,
        *args: object,
        id: str | None = None,
        if_exists: IfExists = "same",
        attributes: Attributes | None = None,
    ) -> RunHandle[Any]: ...
    async def start(  # type: ignore[misc]  # mypy does not see that *args takes what *Ts takes
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002
        if_exists: IfExists = "same",
        attributes: Attributes | None = None,
    ) -> RunHandle[Any]:
        """Starts a run; it is stored when this returns.

        The same id with the same workflow and input gives the run that has it, whatever its status; `if_exists` says
        what else may happen to an id that is in use.
        """
        target, args, kwargs = _what(workflow, args)
        call = encode_call(args, kwargs)
        definition = self.definitions.named(target)
        run_id = check_name(id) if id is not None else f"{short_name(target)}-{secrets.token_hex(8)}"
        rows = first_rows(definition, call, await self.store.now())
        new = NewRun(run_id, target, rows, definition=definition.hash, attributes=attributes or {})
        while not await self.store.create(new):
            if await self._is_same(new, call, if_exists):
                return RunHandle(self, run_id)
        self.poke()
        return RunHandle(self, run_id)

    async def _is_same(self, new: NewRun, call: bytes, if_exists: IfExists) -> bool:
        """Whether the run that has the id is the one asked for; False: it is gone now, the id is free."""
        record = await self.store.get(new.id)
        if record is None:
            return False
        restarts = {"restart_failed": record.status == "failed", "restart_closed": record.status in CLOSED}
        if restarts.get(if_exists, False):
            await self.store.delete([new.id])
            return False
        same_workflow = record.target == new.target
        if if_exists != "error" and same_workflow:
            if if_exists == "attach":
                return True
            rows, _ = decode_rows(new.id, await self.store.rows(new.id))
            if rows.input == call:
                return True
        raise RunIdConflictError(f"run id {new.id!r} belongs to another start: {record.target}, {record.status}")

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
    ) -> AsyncIterator[RunRecord]:
        """The runs that fit, newest first."""
        target = None if workflow is None else registry.find(workflow, "workflow").id
        which = RunFilter(status, target, None if since is None else moment(since), attributes or {}, limit)
        for record in await self.store.runs(which):
            yield record

    async def send_hook(self, token: str, /, *args: object) -> None:
        """Sends a payload to whoever has a hook with this token."""
        owner = await self.store.hook_owner(token_hash(token))
        if owner is None:
            raise HookNotFoundError("no open hook has this token")
        mail = Mail(MailKind.SIGNAL, f"hook:{token}", None, dump(list(args)), None, 0, await self.store.now())
        await self.store.send(owner, mail)
        self.poke()

    # --- for handles

    def poke(self) -> None:
        """Lets this process's own worker look for work at once."""
        if self._worker is not None:
            self._worker.poke()

    async def wait_until(
        self,
        reached: Callable[[], Awaitable[bool]],
        timeout: Duration | None,
        run_id: str = "",
        *,
        or_ended: bool = False,
    ) -> Ending | None:
        """Waits until something is true (of a run); `TimeoutError`. `or_ended`: or a worker here tells of its end."""
        limit = None if timeout is None else milliseconds(timeout) / 1000
        async with asyncio.timeout(limit):
            return await self._waiters.until(run_id, reached, or_ended=or_ended)


class RunHandle(Generic[T_co]):
    """One run: what can be asked of it and done to it."""

    def __init__(self, app: Tenuto, run_id: str) -> None:
        self._app = app
        self._store = app.store
        self.id = run_id

    # --- looking

    async def status(self) -> str:
        """scheduled, pending, running, suspended, paused, parked, or how it ended."""
        return (await self._record()).status

    async def result(self, *, timeout: Duration | None = None) -> T_co:
        """Its value, once it has ended; `RunFailedError`, `RunCancelledError`, `RunTerminatedError` if it ended so."""

        status = ""

        async def ended() -> bool:
            nonlocal status
            status = await self.status()
            return status in CLOSED

        ending = await self._app.wait_until(ended, timeout, self.id, or_ended=True)
        if ending is None:
            key = {"completed": OUTPUT_KEY, "failed": ERROR_KEY}.get(status)
            ending = Ending(status, b"" if key is None else await self._single(key))
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
        return history_of(await self._rows())

    async def explain(self) -> Explanation:
        """Why the run is where it is: what it waits for, and what would wake it. Reads only."""
        return await explain(self._store, await self._record(), self._app.definitions)

    def watch(self) -> AsyncIterator[RunEvent]:
        """What happens to the run, as it happens; what is there already comes first."""
        return watch(self._store, self.id)

    @overload
    async def query(self, /) -> Any: ...
    @overload
    async def query(self, query: str, /, *args: object) -> Any: ...
    @overload
    async def query(self, query: Callable[Concatenate[Any, Q], V], /, *args: Q.args, **kwargs: Q.kwargs) -> V: ...
    async def query(self, query: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        """The published state, or what a query makes of it. Read from the store: no worker, also after the end."""
        published = (await self._rows()).published
        if query is None:
            return None if published is None else load(published)
        target = (await self._record()).target
        workflow = registry.get(target)
        if not isinstance(workflow, Workflow):
            raise DefinitionNotFoundError(f"{target} is not loaded here, and its queries with it")
        return answer_query(cast("Workflow[..., Any]", workflow), published, query, args, kwargs)

    # --- messages

    async def signal(self, name: str, /, *args: object, id: str | None = None) -> None:  # noqa: A002  # the public name
        """Sends a signal; it is stored when this returns. The same id again is the same signal."""
        mail = Mail(MailKind.SIGNAL, check_name(name), id, dump(list(args)), None, 0, await self._store.now())
        await self._store.send(self.id, mail, id)
        self._app.poke()

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
        key = check_name(id) if id is not None else secrets.token_hex(8)
        until = await self._store.now() + milliseconds(retry_for)
        while True:
            try:
                return await self._ask(check_name(name), key, dump(list(args)), timeout)
            except UpdateRejectedError as error:
                if error.why != "not_accepting" or await self._store.now() >= until:
                    raise
            await asyncio.sleep(0.05)

    async def _ask(self, name: str, key: str, args: bytes, timeout: Duration | None) -> Any:
        if not await self._store.rows(self.id, update_key(key)):
            await self._store.forget_answer(self.id, key)
            try:
                mail = Mail(MailKind.UPDATE, name, key, args, None, 0, await self._store.now())
                await self._store.send(self.id, mail, f"update:{key}")
            except RunClosedError:
                raise UpdateRejectedError("closed") from None
            self._app.poke()
        await self._app.wait_until(lambda: self._answered(key), timeout, self.id)
        rejection = await self._store.answer(self.id, key)
        if rejection is not None:
            raise load(rejection)
        update = (await self._rows()).updates[key]
        if update.status is UpdateStatus.COMPLETED:
            return load(update.result or b"")
        raise load(update.error) if update.error is not None else UpdateFailedError("closed")

    async def _answered(self, key: str) -> bool:
        if await self._store.answer(self.id, key) is not None:
            return True
        update = (await self._rows()).updates.get(key)
        return update is not None and update.status is not UpdateStatus.ACCEPTED

    # --- control

    async def cancel(self, reason: str | None = None, *, within: Duration | None = None) -> None:
        """Asks the run to stop; it may clean up, at most `within`. Asking a run that has ended changes nothing."""
        now = await self._store.now()
        deadline = None if within is None else now + milliseconds(within)
        try:
            await self._store.send(self.id, Mail(MailKind.CANCEL, "", None, dump([reason, deadline]), None, 0, now))
        except RunClosedError:
            return
        self._app.poke()

    async def terminate(self, reason: str | None = None) -> None:
        """Closes the run at once; none of its code runs any more."""
        if not await self._store.terminate(self.id, reason):
            raise RunClosedError(f"run {self.id} has ended")

    async def pause(self) -> None:
        """Holds the run after the work under way; messages and timers wait."""
        if not await self._store.pause(self.id):
            raise RunStateError(f"run {self.id} is {await self.status()}")

    async def resume(self) -> None:
        """Lets a paused or parked run go on; otherwise without effect."""
        await self._store.release(self.id)
        self._app.poke()

    async def wake(self) -> None:
        """Gives the run a turn; nothing fires early."""
        await self._store.wake(self.id)
        self._app.poke()

    async def recover(self) -> None:
        """Runs a failed run on from the step that failed it."""
        await self._go_back(lambda rows: recover(rows, load=load))

    async def rewind(self, *, to: str, drop_updates: bool = False) -> None:
        """Takes the run back to a place, given as `history()` prints it; what came after is done again."""
        location = parse(to)
        await self._go_back(lambda rows: rewind(rows, location, drop_updates=drop_updates, dump=dump))

    async def _go_back(self, undo: Callable[[Rows], Undone]) -> None:
        stored = await self._store.rows(self.id)
        rows, encoder = decode_rows(self.id, stored)
        undone = undo(rows)
        effects = gather(self.id, undone.commands, {}, self._app.definitions.named, await self._store.now())
        await self._store.reopen(
            TurnCommit(
                Lease(self.id, 0),
                "suspended",
                encoder.encode(undone.batch),
                cancelled_tasks=tuple(effects.cancelled_tasks),
                stopped_timers=tuple(effects.stopped_timers),
            )
        )
        self._app.poke()

    async def supply(self, location: str, value: object) -> None:
        """Gives the open step at a location this value as its result, marked as supplied."""
        parse(location)
        mail = Mail(MailKind.RESULT, location, "supplied", dump(value), None, 0, await self._store.now())
        await self._store.send(self.id, mail)
        self._app.poke()

    # --- inside

    async def _record(self) -> RunRecord:
        record = await self._store.get(self.id)
        if record is None:
            raise RunNotFoundError(f"there is no run {self.id!r}")
        return record

    async def _single(self, key: bytes) -> bytes:
        """A row there is one of, without the history around it."""
        return dict(await self._store.rows(self.id, key)).get(key, b"")

    async def _rows(self) -> Rows:
        return decode_rows(self.id, await self._store.rows(self.id))[0]


def _what(workflow: Any, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    """The id of what is to be started, and its arguments."""
    if isinstance(workflow, Bound):
        bound = cast("Bound[Any]", cast("object", workflow))
        return bound.definition.id, bound.args, bound.kwargs
    if isinstance(workflow, str):
        if workflow.startswith("workflow//"):
            return workflow, args, {}
        return registry.find(workflow, "workflow").id, args, {}
    known, args = startable(workflow, args)
    return known.id, args, {}


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
