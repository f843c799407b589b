"""Schedules of a cluster in our words. What we were told is kept in the schedule's note, where lists show it too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from tenuto.errors import DefinitionNotFoundError
from tenuto.host.schedules import ScheduleOptions, ScheduleSummary, check_schedule
from tenuto.model.definitions import encode_call
from tenuto.model.durations import point
from tenuto.store.housekeeping import Overlap, ScheduleRecord
from tenuto.temporal.connection import Connection
from tenuto.temporal.names import MEMO_OWNER
from tenuto.temporal.payloads import ours
from tenuto.temporal.programs import memo_of

__all__ = ["Schedules"]

_OVERLAPS: Final[Mapping[Overlap, ScheduleOverlapPolicy]] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "queue_one": ScheduleOverlapPolicy.BUFFER_ONE,
    "allow": ScheduleOverlapPolicy.ALLOW_ALL,
    "cancel": ScheduleOverlapPolicy.CANCEL_OTHER,
}
_SHORTEST_WINDOW: Final = timedelta(seconds=10)  # the server's own
_LONG_WINDOW: Final = timedelta(days=365)
_MARK: Final = "tenuto"


class Schedules:
    """The verbs about schedules."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(
        self,
        name: str,
        target: str,
        queue: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: ScheduleOptions,
    ) -> None:
        """Stores a schedule; one that is there is changed, and stays paused if it was."""
        now = int(datetime.now(UTC).timestamp() * 1000)
        record = check_schedule(name, target, encode_call(tuple(args), kwargs), queue, options, now)
        new = self._schedule(record)
        async with self._connection.asking(name):
            try:
                await self._connection.client.create_schedule(name, new)
            except ScheduleAlreadyRunningError:
                await self._connection.client.get_schedule_handle(name).update(lambda old: _changed(old, new))

    def _schedule(self, record: ScheduleRecord) -> Schedule:
        note = {
            _MARK: 1,
            "cron": record.cron,
            "every_ms": record.every_ms,
            "tz": record.tz,
            "overlap": record.overlap,
            "catch_up": record.catch_up,
            "start_at": record.start_at,
            "end_at": record.end_at,
        }
        return Schedule(
            action=ScheduleActionStartWorkflow(
                record.target,
                args=[ours(record.input)],
                id=record.name,
                task_queue=self._connection.address.task_queue_of(record.queue),
                memo={
                    **memo_of(self._connection.registry, record.target),
                    MEMO_OWNER: self._connection.address.task_queue,
                },
            ),
            spec=ScheduleSpec(
                cron_expressions=[] if record.cron is None else [record.cron],
                intervals=[] if record.every_ms is None else [_interval(record.every_ms, record.anchor)],
                start_at=None if record.start_at is None else point(record.start_at),
                end_at=None if record.end_at is None else point(record.end_at),
                time_zone_name=record.tz,
            ),
            policy=SchedulePolicy(
                overlap=_OVERLAPS[record.overlap],
                catchup_window=_SHORTEST_WINDOW if record.catch_up == "none" else _LONG_WINDOW,
            ),
            state=ScheduleState(note=json.dumps(note)),
        )

    async def list(self) -> list[ScheduleSummary]:
        """Ours, by name; the cluster's list may be a moment behind."""
        found: list[ScheduleSummary] = []
        async with self._connection.asking(""):
            async for listed in await self._connection.client.list_schedules():
                summary = _summary(listed)
                if summary is not None:
                    found.append(summary)
        return sorted(found, key=lambda summary: summary.name)

    async def pause(self, name: str) -> None:
        handle = await self._find(name)
        await handle.pause(note=await self._note(handle))

    async def resume(self, name: str) -> None:
        handle = await self._find(name)
        await handle.unpause(note=await self._note(handle))

    async def delete(self, name: str) -> None:
        await (await self._find(name)).delete()

    async def _find(self, name: str) -> ScheduleHandle:
        handle = self._connection.client.get_schedule_handle(name)
        try:
            await handle.describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                async with self._connection.asking(name):
                    raise
            fix = "`tenuto schedules list` has the names"
            raise DefinitionNotFoundError(f"no schedule is called {name!r}", fix) from None
        return handle

    async def _note(self, handle: ScheduleHandle) -> str | None:
        """Pausing writes a note of its own: ours goes along."""
        return (await handle.describe()).schedule.state.note


def _changed(old: ScheduleUpdateInput, new: Schedule) -> ScheduleUpdate:
    new.state.paused = old.description.schedule.state.paused
    return ScheduleUpdate(schedule=new)


def _interval(every_ms: int, anchor: int) -> ScheduleIntervalSpec:
    """The server counts intervals from 1970."""
    return ScheduleIntervalSpec(
        every=timedelta(milliseconds=every_ms), offset=timedelta(milliseconds=anchor % every_ms)
    )


def _summary(listed: ScheduleListDescription) -> ScheduleSummary | None:
    schedule, info = listed.schedule, listed.info
    if schedule is None or info is None:
        return None
    try:
        said: Any = json.loads(schedule.state.note or "")
    except ValueError:
        return None  # somebody else's
    if not isinstance(said, dict) or _MARK not in said:
        return None
    started = [str(getattr(action.action, "workflow_id", "")) for action in info.recent_actions]
    told = cast("dict[str, Any]", said)
    every_ms = told["every_ms"]
    return ScheduleSummary(
        name=listed.id,
        workflow=getattr(schedule.action, "workflow", ""),
        rule=told["cron"] if told["cron"] is not None else f"every {every_ms / 1000:g}s",
        tz=told["tz"],
        overlap=told["overlap"],
        catch_up=told["catch_up"],
        paused=schedule.state.paused,
        next_at=next(iter(info.next_action_times), None),
        last_id=started[-1] if started else None,
        start_at=None if told["start_at"] is None else point(told["start_at"]),
        end_at=None if told["end_at"] is None else point(told["end_at"]),
    )
