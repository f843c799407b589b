"""The native engine: what clients can do with runs on a store, and the worker that runs them in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from tenuto.codec.rows import ERROR_KEY, OUTPUT_KEY, decode_rows, update_key
from tenuto.codec.values import dump, load
from tenuto.errors import (
    DefinitionNotFoundError,
    HookNotFoundError,
    RunClosedError,
    RunIdConflictError,
    RunNotFoundError,
    RunStateError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.host.definitions import Definitions
from tenuto.host.effects import first_rows, gather, token_hash
from tenuto.host.explain import Explanation, explain
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.options import IfExists, StartOptions, WorkerOptions, place_in_queue
from tenuto.host.summaries import RunSummary, summary_of
from tenuto.host.waiters import Ending, Waiters
from tenuto.host.watching import RunEvent, watch
from tenuto.host.worker import Worker
from tenuto.kernel.location import check_name, parse
from tenuto.kernel.records import Mail, MailKind, Rows, UpdateStatus
from tenuto.kernel.rewind import Undone, recover, rewind
from tenuto.model import registry
from tenuto.model.definitions import Workflow, encode_call
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.ids import short_name
from tenuto.model.state import answer_query
from tenuto.store.port import CLOSED, Lease, NewRun, RunFilter, RunRecord, Store, TurnCommit

__all__ = ["NativeEngine"]


class NativeEngine:
    """Every verb of the app, on a store of ours."""

    def __init__(self, store: Store, options: WorkerOptions | None) -> None:
        self.store = store
        self.definitions = Definitions()
        self._waiters = Waiters(store, lambda: self._worker is not None and self._worker.busy)
        self._worker: Worker | None = None
        self._options = options  # None: a client only

    async def open(self) -> None:
        await self.store.open()
        if self._options is not None:
            self._worker = Worker(self.store, tell=self._waiters.tell, **self._options)
            await self._worker.start()

    async def close(self) -> None:
        if self._worker is not None:
            await self._worker.stop()
        await self._waiters.close()
        await self.store.close()

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

    # --- starting and finding

    async def start(self, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions) -> str:
        """Stores a run, or finds the one that has its id; its id."""
        call = encode_call(tuple(args), kwargs)
        definition = self.definitions.named(target)
        asked = options.get("id")
        run_id = check_name(asked) if asked is not None else f"{short_name(target)}-{secrets.token_hex(8)}"
        rows = first_rows(definition, call, await self.store.now())
        workflow = self.definitions.workflow(target)
        place = place_in_queue(options, "default" if workflow is None else workflow.queue)
        attributes = options.get("attributes") or {}
        new = NewRun(run_id, target, rows, definition=definition.hash, attributes=attributes, **place)
        while not await self.store.create(new):
            if await self._is_same(new, call, options.get("if_exists", "same")):
                return run_id
        self.poke()
        return run_id

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

    async def runs(self, which: RunFilter) -> list[RunSummary]:
        """The runs that fit, newest first."""
        return [summary_of(record) for record in await self.store.runs(which)]

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
        status = ""

        async def ended() -> bool:
            nonlocal status
            status = await self.status(run_id)
            return status in CLOSED

        ending = await self.wait_until(ended, timeout, run_id, or_ended=True)
        if ending is None:
            key = {"completed": OUTPUT_KEY, "failed": ERROR_KEY}.get(status)
            ending = Ending(status, b"" if key is None else await self._single(run_id, key))
        return ending

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return history_of(await self._rows(run_id))

    async def explain(self, run_id: str) -> Explanation:
        return await explain(self.store, await self._record(run_id), self.definitions)

    def watch(self, run_id: str) -> AsyncIterator[RunEvent]:
        return watch(self.store, run_id)

    async def query(self, run_id: str, query: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The published state, or what a query makes of it. Read from the store: no worker, also after the end."""
        published = (await self._rows(run_id)).published
        if query is None:
            return None if published is None else load(published)
        target = (await self._record(run_id)).target
        workflow = registry.get(target)
        if not isinstance(workflow, Workflow):
            raise DefinitionNotFoundError(f"{target} is not loaded here, and its queries with it")
        return answer_query(cast("Workflow[..., Any]", workflow), published, query, tuple(args), kwargs)

    # --- messages

    async def signal(self, run_id: str, name: str, args: Sequence[object], message_id: str | None) -> None:
        mail = Mail(MailKind.SIGNAL, check_name(name), message_id, dump(list(args)), None, 0, await self.store.now())
        await self.store.send(run_id, mail, message_id)
        self.poke()

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
        key = check_name(update_id) if update_id is not None else secrets.token_hex(8)
        until = await self.store.now() + milliseconds(retry_for)
        while True:
            try:
                return await self._ask(run_id, check_name(name), key, dump(list(args)), timeout)
            except UpdateRejectedError as error:
                if error.why != "not_accepting" or await self.store.now() >= until:
                    raise
            await asyncio.sleep(0.05)

    async def _ask(self, run_id: str, name: str, key: str, args: bytes, timeout: Duration | None) -> Any:
        if not await self.store.rows(run_id, update_key(key)):
            await self.store.forget_answer(run_id, key)
            try:
                mail = Mail(MailKind.UPDATE, name, key, args, None, 0, await self.store.now())
                await self.store.send(run_id, mail, f"update:{key}")
            except RunClosedError:
                raise UpdateRejectedError("closed") from None
            self.poke()
        await self.wait_until(lambda: self._answered(run_id, key), timeout, run_id)
        rejection = await self.store.answer(run_id, key)
        if rejection is not None:
            raise load(rejection)
        update = (await self._rows(run_id)).updates[key]
        if update.status is UpdateStatus.COMPLETED:
            return load(update.result or b"")
        raise load(update.error) if update.error is not None else UpdateFailedError("closed")

    async def _answered(self, run_id: str, key: str) -> bool:
        if await self.store.answer(run_id, key) is not None:
            return True
        update = (await self._rows(run_id)).updates.get(key)
        return update is not None and update.status is not UpdateStatus.ACCEPTED

    # --- control

    async def cancel(self, run_id: str, reason: str | None, within: Duration | None) -> None:
        now = await self.store.now()
        deadline = None if within is None else now + milliseconds(within)
        try:
            await self.store.send(run_id, Mail(MailKind.CANCEL, "", None, dump([reason, deadline]), None, 0, now))
        except RunClosedError:
            return
        self.poke()

    async def terminate(self, run_id: str, reason: str | None) -> None:
        if not await self.store.terminate(run_id, reason):
            raise RunClosedError(f"run {run_id} has ended")

    async def pause(self, run_id: str) -> None:
        if not await self.store.pause(run_id):
            raise RunStateError(f"run {run_id} is {await self.status(run_id)}")

    async def resume(self, run_id: str) -> None:
        await self.store.release(run_id)
        self.poke()

    async def wake(self, run_id: str) -> None:
        await self.store.wake(run_id)
        self.poke()

    async def recover(self, run_id: str) -> None:
        await self._go_back(run_id, lambda rows: recover(rows, load=load))

    async def rewind(self, run_id: str, to: str, drop_updates: bool) -> None:
        location = parse(to)
        await self._go_back(run_id, lambda rows: rewind(rows, location, drop_updates=drop_updates, dump=dump))

    async def _go_back(self, run_id: str, undo: Callable[[Rows], Undone]) -> None:
        rows, encoder = decode_rows(run_id, await self.store.rows(run_id))
        undone = undo(rows)
        effects = gather(run_id, undone.commands, {}, self.definitions.named, await self.store.now())
        await self.store.reopen(
            TurnCommit(
                Lease(run_id, 0),
                "suspended",
                encoder.encode(undone.batch),
                cancelled_tasks=tuple(effects.cancelled_tasks),
                stopped_timers=tuple(effects.stopped_timers),
            )
        )
        self.poke()

    async def supply(self, run_id: str, location: str, value: object) -> None:
        parse(location)
        mail = Mail(MailKind.RESULT, location, "supplied", dump(value), None, 0, await self.store.now())
        await self.store.send(run_id, mail)
        self.poke()

    # --- inside

    async def _record(self, run_id: str) -> RunRecord:
        record = await self.store.get(run_id)
        if record is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return record

    async def _single(self, run_id: str, key: bytes) -> bytes:
        """A row there is one of, without the history around it."""
        return dict(await self.store.rows(run_id, key)).get(key, b"")

    async def _rows(self, run_id: str) -> Rows:
        return decode_rows(run_id, await self.store.rows(run_id))[0]
