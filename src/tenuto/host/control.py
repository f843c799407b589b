"""What operators do to runs: stopping and holding them, taking them back, and giving open steps their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tenuto.codec.rows import decode_rows
from tenuto.codec.values import dump, load
from tenuto.errors import RecoverError, RunClosedError, RunStateError
from tenuto.host.certainty import made_certain
from tenuto.host.definitions import Definitions
from tenuto.host.effects import gather
from tenuto.host.explain import Explanation
from tenuto.host.hooks import check_tokens, hooks_of, open_again
from tenuto.host.limits import Limits, under_limits
from tenuto.host.timers import open_timers
from tenuto.kernel.location import parse, text
from tenuto.kernel.records import Mail, MailKind, Rows
from tenuto.kernel.rewind import Undone, recover, rewind
from tenuto.model.durations import Duration, milliseconds
from tenuto.store.port import CLOSED, Full, Lease, RunRecord, Store
from tenuto.system import System

__all__ = ["Controlling"]

LOOK_AGAIN: Final = 0.1  # seconds between two looks for a step that another process may have begun


class Controlling:
    """The verbs of the native engine that change where a run is."""

    store: Store
    limits: Limits
    system: System
    definitions: Definitions

    if TYPE_CHECKING:

        def poke(self) -> None: ...
        def tell(self, run_id: str) -> None: ...
        async def status(self, run_id: str) -> str: ...
        async def explain(self, run_id: str) -> Explanation: ...
        async def _record(self, run_id: str) -> RunRecord: ...
        async def _rows(self, run_id: str) -> Rows: ...

    async def cancel(self, run_id: str, reason: str | None, within: Duration | None) -> None:
        now = await self.store.now()
        deadline = None if within is None else now + milliseconds(within)
        mail = Mail(MailKind.CANCEL, "", None, dump([reason, deadline]), None, 0, now)
        try:
            await made_certain(lambda: self.store.send(run_id, mail))  # twice is the same as once
        except RunClosedError:
            return
        self.poke()

    async def terminate(self, run_id: str, reason: str | None) -> None:
        if not await self.store.terminate(run_id, reason):
            raise RunClosedError(f"run {run_id} has ended")
        self.tell(run_id)

    async def pause(self, run_id: str) -> None:
        if not await self.store.pause(run_id):
            raise RunStateError(f"run {run_id} is {await self.status(run_id)}")

    async def resume(self, run_id: str) -> None:
        record = await self._record(run_id)
        if record.status == "paused" and not record.epoch:  # nobody here ever had it: it came from another store
            hooks = hooks_of(await self._rows(run_id))
            await check_tokens(self.store, run_id, hooks)
            await open_again(self.store, run_id, hooks)
        await self.store.release(run_id)
        self.poke()

    async def wake(self, run_id: str) -> None:
        await self.store.wake(run_id)
        self.poke()

    # --- going back

    async def recover(self, run_id: str) -> None:
        def undo(rows: Rows, status: str) -> Undone:
            if status != "failed":
                raise RecoverError(f"run {run_id} is {status}, not failed")
            return recover(rows, load=load)

        await self._go_back(run_id, undo)

    async def rewind(self, run_id: str, to: str, drop_updates: bool) -> None:
        location = parse(to)
        await self._go_back(run_id, lambda rows, _: rewind(rows, location, drop_updates=drop_updates, dump=dump))

    async def _go_back(self, run_id: str, undo: Callable[[Rows, str], Undone]) -> None:
        while not await self._reopen(await self._record(run_id), undo):
            pass  # somebody else was faster: what there is to undo is another thing now

    async def _reopen(self, record: RunRecord, undo: Callable[[Rows, str], Undone]) -> bool:
        """Whether the run was still as its record has it, and is open again."""
        run_id = record.id
        rows, encoder = decode_rows(run_id, await self.store.rows(run_id))
        undone = undo(rows, record.status)
        hooks = hooks_of(rows, undone.batch.deleted_entries)
        await check_tokens(self.store, run_id, hooks)
        effects = gather(run_id, undone.commands, {}, self.definitions.named, await self.store.now())
        reopened = await self.store.reopen(
            Full(
                lease=Lease(run_id, record.epoch),
                status="suspended",
                rows=encoder.encode(undone.batch),
                cancelled_tasks=tuple(effects.cancelled_tasks),
                stopped_timers=tuple(effects.stopped_timers),
                timers=open_timers(rows, undone.batch),
            )
        )
        if reopened:
            await open_again(self.store, run_id, hooks)
            self.poke()
        return reopened

    # --- results by hand

    @under_limits
    async def supply(self, run_id: str, location: str, value: object) -> None:
        place = text(parse(location))
        given = dump(value)
        await self._check_open(run_id, place)
        mail = Mail(MailKind.RESULT, place, "supplied", given, None, 0, await self.store.now())
        await self.store.send(run_id, mail)
        self.poke()

    async def _check_open(self, run_id: str, place: str) -> None:
        """`RunStateError` unless a step or task is open there.

        A step that another process has just begun, and whose code is not loaded here, is seen once it was noted.
        """
        until = asyncio.get_running_loop().time() + 2 * self.system.pace.notes
        while True:
            explanation = await self.explain(run_id)
            if explanation.status in CLOSED:
                raise RunClosedError(f"run {run_id} is {explanation.status}")
            begun = explanation.status not in ("scheduled", "pending")  # else it says what the run would begin with
            steps = [found.location for found in explanation.pending if begun and found.kind == "step"]
            if place in steps:
                return
            record = await self._record(run_id)
            may_be_noted = record.status == "running" and self.definitions.workflow(record.target) is None
            if not may_be_noted or asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(LOOK_AGAIN)
        known = f"open are {', '.join(steps)}" if steps else f"none is open; the run is {explanation.status}"
        raise RunStateError(f"no step of run {run_id} is open at {place or '(root)'}: {known}")
