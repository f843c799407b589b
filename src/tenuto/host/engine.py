"""The native engine: what clients can do with runs on a store, and the worker that runs them in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from tenuto.codec.records import decode_metadata
from tenuto.codec.rows import (
    ERROR_KEY,
    METADATA_PREFIX,
    OUTPUT_KEY,
    VERSION_KEY,
    RunEncoder,
    decode_rows,
    is_first_input,
)
from tenuto.codec.values import dump, load
from tenuto.errors import (
    CommitUnknownError,
    DecodingError,
    DefinitionNotFoundError,
    EnvironmentFault,
    HookNotFoundError,
    RecordError,
    RunIdConflictError,
    RunNotFoundError,
    UpdateRejectedError,
)
from tenuto.host.certainty import again, made_certain
from tenuto.host.control import Controlling
from tenuto.host.definitions import Definitions
from tenuto.host.effects import token_hash
from tenuto.host.explain import Explanation, explain
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.limits import Limits, under_limits
from tenuto.host.options import IfExists, StartOptions, WorkerOptions, place_in_queue
from tenuto.host.programs import Programs, version_of
from tenuto.host.queueing import Queueing
from tenuto.host.scheduling import Scheduling
from tenuto.host.summaries import RunSummary, summary_of
from tenuto.host.undoing import has_failed, notes_of
from tenuto.host.updates import Asked
from tenuto.host.waiters import Ending, Waiters
from tenuto.host.watching import RunEvent, watch
from tenuto.host.worker import Worker
from tenuto.kernel.batch import Batch
from tenuto.kernel.location import check_name
from tenuto.kernel.records import Mail, MailKind, Rows
from tenuto.kernel.turn import create
from tenuto.model.definitions import Workflow, encode_call
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.ids import short_name
from tenuto.model.registry import Registry, default
from tenuto.model.state import answer_query
from tenuto.store.endings import SINGLES
from tenuto.store.port import CLOSED, NewRun, RunFilter, RunRecord, Store
from tenuto.system import REAL, Entropy, System

__all__ = ["NativeEngine"]


_prefix = lru_cache(maxsize=1024)(short_name)  # of the ids that are made for runs


def _new_id(target: str, now: int, entropy: Entropy) -> str:
    """An id for a run without one. It begins with the time, so that runs of one moment lie together in the store's
    trees: with chance alone, every turn of a group would write a page of its own."""
    return f"{_prefix(target)}-{now:011x}{entropy.token(6).hex()}"


class NativeEngine(Scheduling, Queueing, Controlling):
    """Every verb of the app, on a store of ours."""

    def __init__(
        self,
        store: Store,
        options: WorkerOptions | None,
        limits: Limits | None = None,
        registry: Registry = default,
        system: System = REAL,
    ) -> None:
        self.store = store
        self.system = system
        self.registry = registry
        self.limits = limits if limits is not None else Limits()
        self.page_size = self.limits.page
        store.limit_messages(self.limits.buffered_messages)
        self.definitions = Definitions(registry)
        self._programs = Programs(store, self.definitions)
        self._waiters = Waiters(store, self._is_busy, self._will_be_told, system.pace)
        self._worker: Worker | None = None
        self._options = options  # None: a client only

    async def open(self) -> None:
        await self.store.open()
        if self._options is not None:
            self._worker = Worker(
                self.store, self.system, self.registry, tell=self._waiters.tell, limits=self.limits, **self._options
            )
            try:
                with self.limits.in_force(), self.registry.in_force():  # in all that it starts
                    await self._worker.start()
            except BaseException:
                await self.store.close()
                raise

    async def close(self) -> None:
        try:
            if self._worker is not None:
                await self._worker.stop()
            await self._waiters.close()
        finally:
            await self.store.close()

    def hurry(self) -> None:
        """Lets a worker that is being closed not wait for work in flight."""
        if self._worker is not None:
            self._worker.hurry()

    def _is_busy(self) -> bool:
        return self._worker is not None and self._worker.busy

    def _will_be_told(self, run_id: str) -> bool:
        return self._worker is not None and self._worker.will_tell(run_id)

    def tell(self, run_id: str) -> None:
        """Lets those who wait for something about a run in this process look again."""
        self._waiters.tell(run_id)

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
        async with asyncio.timeout(None if timeout is None else milliseconds(timeout) / 1000):
            return await self._waiters.until(run_id, reached, or_ended=or_ended)

    # --- starting and finding

    async def start(self, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions) -> str:
        """Stores a run, or finds the one that has its id; its id.

        What may be another's already is looked for first: no code of a run that is known is run again. An id that is
        made here cannot be.
        """
        workflow = self.definitions.workflow(target)
        now = self.store.clock()
        first = self._first(workflow, tuple(args), kwargs, now if now is not None else await self.store.now())
        if workflow is not None and workflow.provider is not None:
            await self._programs.keep()
        new = self._new(target, workflow, first, options)
        if_exists = options.get("if_exists", "same")
        if self._worker is not None and (options.get("id") is not None or new.key is not None):
            known = await self._known(new, first.input, if_exists)
            if known is not None:
                return known
        while True:
            try:
                # A worker of this process may begin with it at once.
                created = await (self.store.create(new) if self._worker is None else self._worker.begin(new, first))
            except CommitUnknownError as unknown:
                created = await again(unknown, lambda: self.store.create(new))
                self.poke()
                if if_exists == "error":
                    if_exists = "same"  # nobody knew what became of the first attempt: what is there may be ours
            if created:
                return new.id
            if (known := await self._known(new, first.input, if_exists)) is not None:
                return known

    async def _known(self, new: NewRun, call: bytes | None, if_exists: IfExists) -> str | None:
        """The run that is there in place of a new one: the same start, or what has its key; None: there is none."""
        return new.id if await self._is_same(new, call, if_exists) else await self._holder(new)

    def _first(self, workflow: Workflow[..., Any] | None, args: Any, kwargs: Mapping[str, Any], now: int) -> Batch:
        """What a run begins with; `TypeError` for arguments that do not fit."""
        with self.limits.in_force():
            if workflow is not None:
                workflow.accept(args, kwargs)
            call = encode_call(args, kwargs)
        return create(self.definitions.definition(workflow), call, now)

    def _new(self, target: str, workflow: Workflow[..., Any] | None, first: Batch, options: StartOptions) -> NewRun:
        """A run to be, as the options have it."""
        asked = options.get("id")
        assert first.counters is not None  # noqa: S101  # as `create` makes it
        return NewRun(
            check_name(asked) if asked is not None else _new_id(target, first.counters.started_at, self.system.entropy),
            target,
            RunEncoder().encode(first).puts,
            definition=first.version or "",
            attributes=options.get("attributes") or {},
            **place_in_queue(options, "default" if workflow is None else workflow.queue),
        )

    async def _is_same(self, new: NewRun, call: bytes | None, if_exists: IfExists) -> bool:
        """Whether the run that has the id is the one asked for; False: it is gone now, the id is free."""
        record = await self.store.get(new.id)
        if record is None:
            return False
        restarts = {"restart_failed": record.status == "failed", "restart_closed": record.status in CLOSED}
        if restarts.get(if_exists, False):
            return await self._replace(record, new)
        same_workflow = record.target == new.target
        if if_exists != "error" and same_workflow:
            if if_exists == "attach":
                return True
            try:
                stored = dict(await self.store.rows(new.id, SINGLES))
            except RunNotFoundError:
                return False  # it was deleted in between
            if is_first_input(stored, call):
                return True
        raise RunIdConflictError(f"run id {new.id!r} belongs to another start: {record.target}, {record.status}")

    async def _replace(self, old: RunRecord, new: NewRun) -> bool:
        """Puts a new run in the place of a closed one; False: somebody else was faster."""
        try:
            replaced = await self.store.recreate(new, [old.status])
        except CommitUnknownError as unknown:
            try:
                now = await self.store.get(new.id)
            except EnvironmentFault as error:
                raise unknown from error
            replaced = now is not None and (now.created_at, now.status) != (old.created_at, old.status)
        if replaced:
            self.poke()
        return replaced

    async def runs(self, which: RunFilter) -> list[RunSummary]:
        """The runs that fit, newest first; read page after page."""
        found: list[RunSummary] = []
        while len(found) < which.limit:
            page = await self.store.listing(replace(which, limit=min(which.limit - len(found), self.limits.page)))
            failed = [record.id for record in page.records if record.status == "failed"]
            errors = await self.store.rows_at(failed, ERROR_KEY) if failed else {}
            found += [summary_of(record, errors.get(record.id)) for record in page.records]
            if page.after is None:
                break
            which = replace(which, after=page.after)
        return found

    @under_limits
    async def send_hook(self, token: str, args: Sequence[object]) -> None:
        """Sends a payload to whoever has a hook with this token."""
        owner = await self.store.hook_owner(token_hash(token))
        if owner is None:
            raise HookNotFoundError("no open hook has this token")
        mail = Mail(MailKind.SIGNAL, f"hook:{token}", None, dump(list(args)), None, 0, await self.store.now())
        await self.store.send(owner, mail)
        self.poke()

    # --- looking

    async def status(self, run_id: str) -> str:
        return (await self._record(run_id)).status

    async def ending(self, run_id: str, timeout: Duration | None) -> Ending:
        """How a run ended, once it has."""
        look = _Look(self, run_id)
        if timeout is None:  # without another coroutine in between: thousands may wait
            ending = await self._waiters.until(run_id, look.has_ended, or_ended=True)
        else:
            ending = await self.wait_until(look.has_ended, timeout, run_id, or_ended=True)
        if ending is None:
            key = {"completed": OUTPUT_KEY, "failed": ERROR_KEY}.get(look.status)
            row = b"" if key is None else dict(await self.store.rows(run_id, key)).get(key, b"")
            ending = Ending(look.status, row)
        if ending.status in ("failed", "cancelled"):
            ending = ending._replace(notes=await self._undone_badly(run_id, ending.status))
        return ending

    async def _undone_badly(self, run_id: str, status: str) -> tuple[str, ...]:
        """Which rollback handlers failed, for the error of a run that ended so. Looked for in few rows first."""
        with suppress(EnvironmentFault, RunNotFoundError):  # how it ended is known: no note is worth another error
            if any(has_failed(decode_metadata(value)) for _, value in await self.store.rows(run_id, METADATA_PREFIX)):
                return notes_of(await self._rows(run_id), status)
        return ()

    @under_limits
    async def history(self, run_id: str) -> list[HistoryEntry]:
        return history_of(await self._rows(run_id))

    @under_limits
    async def explain(self, run_id: str) -> Explanation:
        record = await self._record(run_id)
        with suppress(DecodingError, RecordError):  # rows that cannot be read are a cause that it names
            await self._programs.fetch(version_of(await self.store.rows(run_id, VERSION_KEY)), record.target)
        here = [] if self._worker is None else await self._worker.steps_of(run_id)
        return await explain(self.store, record, self.definitions, here)

    def watch(self, run_id: str) -> AsyncIterator[RunEvent]:
        return watch(self.store, run_id)

    @under_limits
    async def query(self, run_id: str, query: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The published state, or what a query makes of it. Read from the store: no worker, also after the end."""
        target = (await self._record(run_id)).target
        workflow = await self._queried(run_id, target)
        published = (await self._rows(run_id)).published
        if query is None:
            return None if published is None else load(published)
        if not isinstance(workflow, Workflow):
            raise DefinitionNotFoundError(f"{target} is not loaded here, and its queries with it")
        return answer_query(cast("Workflow[..., Any]", workflow), published, query, tuple(args), kwargs)

    async def _queried(self, run_id: str, target: str) -> Any:
        """Whose queries answer: the definition that the run is pinned to, once its first turn was taken."""
        current = self.definitions.workflow(target)
        if current is not None and current.provider is None:
            return current
        digest = version_of(await self.store.rows(run_id, VERSION_KEY))
        await self._programs.fetch(digest, target)
        if current is None and self.definitions.loaded(target, digest) is None:
            return None

        async def has_begun() -> bool:
            return await self.status(run_id) not in ("pending", "scheduled")

        await self.wait_until(has_begun, None, run_id)
        return self.definitions.pinned(target, digest, current)

    # --- messages

    @under_limits
    async def signal(self, run_id: str, name: str, args: Sequence[object], message_id: str | None) -> None:
        await self._programs.check_signal(run_id, name, args)
        mail = Mail(MailKind.SIGNAL, check_name(name), message_id, dump(list(args)), None, 0, await self.store.now())
        if message_id is None:
            await self._signal(run_id, mail, None)  # sent again it would be another signal
        else:
            await made_certain(lambda: self._signal(run_id, mail, message_id))

    async def _signal(self, run_id: str, mail: Mail, message_id: str | None) -> None:
        if self._worker is None:
            await self.store.send(run_id, mail, message_id)
        else:
            await self._worker.signal(run_id, mail, message_id)

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
        """Sends an update and waits for its answer; `UpdateRejectedError`, `UpdateFailedError`."""
        key = check_name(update_id) if update_id is not None else self.system.entropy.token(8).hex()
        until = await self.store.now() + milliseconds(retry_for)
        while True:
            try:
                return await self._ask(run_id, check_name(name), key, dump(list(args)), timeout)
            except UpdateRejectedError as error:
                if error.why != "not_accepting" or await self.store.now() >= until:
                    raise
            await asyncio.sleep(0.05)

    async def _ask(self, run_id: str, name: str, key: str, args: bytes, timeout: Duration | None) -> Any:
        asked = Asked(self.store, run_id, name, key, args)
        await asked.send()
        self.poke()
        await self.wait_until(asked.is_answered, timeout, run_id)
        return asked.answer()

    # --- inside

    async def _record(self, run_id: str) -> RunRecord:
        record = await self.store.get(run_id)
        if record is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return record

    async def _rows(self, run_id: str) -> Rows:
        return decode_rows(run_id, await self.store.rows(run_id))[0]


class _Look:
    """Looks whether a run has ended, and remembers its status."""

    __slots__ = ("_engine", "_run_id", "status")

    def __init__(self, engine: NativeEngine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self.status = ""

    async def has_ended(self) -> bool:
        self.status = await self._engine.status(self._run_id)
        return self.status in CLOSED
