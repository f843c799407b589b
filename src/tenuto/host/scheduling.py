"""What clients can do with schedules and with names, on a store of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tenuto.errors import DefinitionNotFoundError
from tenuto.host.certainty import made_certain
from tenuto.host.definitions import Definitions
from tenuto.host.programs import Programs
from tenuto.host.schedules import Rule, ScheduleOptions, ScheduleSummary, check_schedule, summary_of
from tenuto.model import registry
from tenuto.model.definitions import encode_call
from tenuto.store.housekeeping import ScheduleRecord
from tenuto.store.port import Store

__all__ = ["Scheduling"]


class Scheduling:
    """The verbs of the native engine about schedules, and what a name in text means."""

    store: Store
    definitions: Definitions
    _programs: Programs

    async def resolve(self, name: str) -> str:
        """The id that a text means: itself, or the one with that last part: registered here, else by any worker."""
        if name.startswith("workflow//"):
            return name
        try:
            return self.definitions.registry.find(name, "workflow").id
        except DefinitionNotFoundError:
            found = registry.among(name, "workflow", await self.store.defined())
            if found is None:
                raise
            return found

    async def schedule(
        self, name: str, target: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: ScheduleOptions
    ) -> None:
        """Stores a schedule; the same rule again keeps its times, another one is armed from now."""
        workflow = self.definitions.workflow(target)
        if workflow is not None:
            workflow.accept(args, kwargs)
        if workflow is not None and workflow.provider is not None:
            await self._programs.keep()  # its runs need the text, whoever starts them
        queue = "default" if workflow is None else workflow.queue
        call = encode_call(tuple(args), kwargs)
        record = check_schedule(name, target, call, queue, options, await self.store.now())
        await made_certain(lambda: self.store.put_schedule(record))

    async def schedules(self) -> list[ScheduleSummary]:
        """All of them, by name."""
        return [summary_of(record) for record in await self.store.schedules()]

    async def pause_schedule(self, name: str) -> None:
        """Nothing is started until it is resumed."""
        while True:
            record = await self._schedule(name)
            if record.paused or await self.store.set_schedule(name, record.revision, True, record.next_at):
                return

    async def resume_schedule(self, name: str) -> None:
        """Goes on from now: what fell into the pause is not made up for."""
        while True:
            record = await self._schedule(name)
            if not record.paused:
                return
            next_at = Rule.of(record).after(await self.store.now())
            if await self.store.set_schedule(name, record.revision, False, next_at):
                return

    async def delete_schedule(self, name: str) -> None:
        """Nothing more is started; runs that were started stay."""
        if not await self.store.delete_schedule(name):
            await self._schedule(name)

    async def _schedule(self, name: str) -> ScheduleRecord:
        record = await self.store.get_schedule(name)
        if record is None:
            known = [item.name for item in await self.store.schedules()]
            near = get_close_matches(name, known, n=3)
            raise DefinitionNotFoundError(
                f"no schedule is called {name!r}" + (f"; near it: {', '.join(near)}" if near else ""),
                "`tenuto schedules list` has the names",
            )
        return record
