"""Schedules, background leases and retention in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.store.connection import Connection, Row
from tenuto.store.housekeeping import DueSchedule, Fired, Firing, ScheduleRecord
from tenuto.store.port import NewRun
from tenuto.store.sqlite_mail import deliver
from tenuto.store.sqlite_runs import create, delete, get

__all__ = ["SqliteHousekeeping"]

T = TypeVar("T")


class SqliteHousekeeping:
    """The part of the store that works by the clock. See `store.housekeeping`."""

    if TYPE_CHECKING:

        async def _write(self, work: Callable[[Connection], T]) -> T: ...
        async def _read(self, work: Callable[[Connection], T]) -> T: ...

    async def put_schedule(self, record: ScheduleRecord) -> None:
        await self._write(lambda connection: connection.run("put_schedule", _values(record)))

    async def schedules(self) -> list[ScheduleRecord]:
        found = await self._read(lambda connection: connection.all("all_schedules"))
        return [_schedule_of(row) for row in found]

    async def get_schedule(self, name: str) -> ScheduleRecord | None:
        found = await self._read(lambda connection: connection.one("get_schedule", {"name": name}))
        return None if found is None else _schedule_of(found)

    async def set_schedule(self, name: str, revision: int, paused: bool, next_at: int | None) -> bool:
        values = {"name": name, "revision": revision, "paused": int(paused), "next_at": next_at}
        return await self._write(lambda connection: connection.one("set_schedule", values)) is not None

    async def delete_schedule(self, name: str) -> bool:
        return await self._write(lambda connection: connection.one("delete_schedule", {"name": name})) is not None

    async def due_schedules(self, limit: int, after: str = "") -> tuple[list[DueSchedule], int | None]:
        return await self._read(lambda connection: _due(connection, limit, after))

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[Fired]:
        return await self._write(lambda connection: [_fire(connection, firing) for firing in firings])

    async def take_background(self, names: Sequence[str], owner: str, ttl_ms: int) -> list[str]:
        return await self._write(lambda connection: _take(connection, names, owner, ttl_ms))

    async def delete_expired(self, retention_ms: int, limit: int) -> int:
        values = {"retention": retention_ms, "limit": limit}
        if await self._read(lambda connection: connection.one("expired", values)) is None:
            return 0  # a look first: nearly always there is nothing, and looking costs no commit
        return await self._write(lambda connection: _delete_expired(connection, values))

    async def update_statistics(self) -> int:
        # Without statistics SQLite takes the index that fits best, which is what every statement is written for. With
        # them it reads whole tables that were small when they were made: what this is there to prevent.
        return 0

    async def recreate(self, run: NewRun, statuses: Sequence[str]) -> bool:
        return await self._write(lambda connection: _recreate(connection, run, statuses))

    async def identity(self) -> str:
        ((store_id,),) = await self._read(lambda connection: connection.all("identity"))
        return str(store_id)

    async def defined(self) -> list[str]:
        return [name for (name,) in await self._read(lambda connection: connection.all("defined"))]


def _values(record: ScheduleRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "target": record.target,
        "args": record.input,
        "queue": record.queue,
        "cron": record.cron,
        "every": record.every_ms,
        "tz": record.tz,
        "overlap": record.overlap,
        "catch_up": record.catch_up,
        "start_at": record.start_at,
        "end_at": record.end_at,
        "anchor": record.anchor,
        "next_at": record.next_at,
    }


def _schedule_of(row: Row) -> ScheduleRecord:
    values = list(row[:17])
    values[15] = bool(values[15])
    return ScheduleRecord(*values)


def _due(connection: Connection, limit: int, after: str) -> tuple[list[DueSchedule], int | None]:
    found = connection.all("due_schedules", {"limit": limit, "after": after})
    following = connection.one("next_schedule")
    return [DueSchedule(_schedule_of(row), bool(row[17])) for row in found], None if following is None else following[0]


def _fire(connection: Connection, firing: Firing) -> Fired:
    seen = {"name": firing.name, "revision": firing.revision}
    if connection.one("fire_schedule", {**seen, "next_at": firing.next_at, "waiting_at": firing.waiting_at}) is None:
        return Fired(False)
    for outgoing in firing.outgoing:
        deliver(connection, outgoing)
    own = [run for run in firing.runs if create(connection, run) or _is_own(connection, run)]
    if own:
        connection.run("note_last_run", {"name": firing.name, "last_id": own[-1].id})
    return Fired(True, tuple(run.id for run in firing.runs if run not in own))


def _is_own(connection: Connection, run: NewRun) -> bool:
    """True if the run that has the id was started for the same time."""
    known = get(connection, run.id)
    return known is not None and known.parent == run.parent


def _take(connection: Connection, names: Sequence[str], owner: str, ttl_ms: int) -> list[str]:
    values = {"owner": owner, "ttl": ttl_ms}
    return [name for name in names if connection.one("take_background", {**values, "name": name}) is not None]


def _delete_expired(connection: Connection, values: dict[str, int]) -> int:
    ids = [found for (found,) in connection.all("expired", values)]
    delete(connection, ids)
    return len(ids)


def _recreate(connection: Connection, run: NewRun, statuses: Sequence[str]) -> bool:
    known = get(connection, run.id)
    if known is not None and known.status not in statuses:
        return False
    if known is not None:
        keyed = connection.one("keyed", {"queue": run.queue, "key": run.key}) if run.key is not None else None
        if keyed is not None and keyed[0] != run.id:
            return False  # its key is another's: the old run stays
        delete(connection, (run.id,))
    return create(connection, run)
