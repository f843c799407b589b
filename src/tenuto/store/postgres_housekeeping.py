"""Schedules, background leases and retention in Postgres."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.store.housekeeping import DueSchedule, Firing, ScheduleRecord
from tenuto.store.port import NewRun
from tenuto.store.postgres_connection import Database, Row, Transaction
from tenuto.store.postgres_mail import deliver, lock
from tenuto.store.postgres_runs import LATEST, delete, new_run

__all__ = ["PostgresHousekeeping"]

T = TypeVar("T")
log = logging.getLogger("tenuto.store")


class PostgresHousekeeping:
    """The part of the store that works by the clock. See `store.housekeeping`."""

    _complained = False  # of tables whose statistics are not ours to keep

    if TYPE_CHECKING:
        _database: Database

        async def _here(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
        async def _write(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
        async def _transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T: ...

    async def put_schedule(self, record: ScheduleRecord) -> None:
        await self._write(lambda: self._database.write("put_schedule", _values(record)))

    async def schedules(self) -> list[ScheduleRecord]:
        return [_schedule_of(row) for row in await self._here(lambda: self._database.read("all_schedules"))]

    async def get_schedule(self, name: str) -> ScheduleRecord | None:
        found = await self._here(lambda: self._database.read("get_schedule", {"name": name}))
        return _schedule_of(found[0]) if found else None

    async def set_schedule(self, name: str, revision: int, paused: bool, next_at: int | None) -> bool:
        values = {"name": name, "revision": revision, "paused": paused, "next_at": next_at}
        return bool(await self._write(lambda: self._database.write("set_schedule", values)))

    async def delete_schedule(self, name: str) -> bool:
        return bool(await self._write(lambda: self._database.write("delete_schedule", {"name": name})))

    async def due_schedules(self, limit: int) -> tuple[list[DueSchedule], int | None]:
        found = await self._here(lambda: self._database.read("due_schedules", {"limit": limit}))
        following, now = (await self._here(lambda: self._database.read("next_schedule")))[0]
        self._database.learn(now)  # what was found due is not after this
        return [DueSchedule(_schedule_of(row), bool(row[17])) for row in found], following

    async def fire_schedule(self, firing: Firing) -> bool:
        return await self._transact(lambda transaction: _fire(transaction, firing))

    async def take_background(self, names: Sequence[str], owner: str, ttl_ms: int) -> list[str]:
        values = {"names": sorted(names), "owner": owner, "ttl": ttl_ms}
        # Nobody waits for this: no news for others.
        taken = await self._here(lambda: self._database.write("take_background", values))
        held = {name for (name,) in taken}
        return [name for name in names if name in held]

    async def delete_expired(self, retention_ms: int, limit: int) -> int:
        values = {"retention": retention_ms, "limit": limit}
        if not await self._here(lambda: self._database.read("expired", values)):
            return 0
        return await self._transact(lambda transaction: _delete_expired(transaction, values))

    async def update_statistics(self) -> int:
        if self._database.read_only:
            return 0
        outgrown = await self._here(lambda: self._database.read("outgrown"))
        ours = [name for name, is_ours in outgrown if is_ours]
        if len(ours) < len(outgrown) and not self._complained:
            self._complained = True
            others = ", ".join(name for name, is_ours in outgrown if not is_ours)
            log.warning("only their owner can keep the statistics of %s up to date; autovacuum will, later", others)
        for name in ours:
            await self._here(partial(self._database.write, f"analyze_{name}"))
        return len(ours)

    async def recreate(self, run: NewRun, statuses: Sequence[str]) -> bool:
        return await self._transact(lambda transaction: _recreate(transaction, run, statuses))

    async def identity(self) -> str:
        ((store_id,),) = await self._here(lambda: self._database.read("identity"))
        return str(store_id)

    async def defined(self) -> list[str]:
        return [name for (name,) in await self._here(lambda: self._database.read("defined"))]


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
        "start_at": _moment(record.start_at),
        "end_at": _moment(record.end_at),
        "anchor": record.anchor,
        "next_at": _moment(record.next_at),
    }


def _moment(at: int | None) -> int | None:
    return None if at is None else min(at, LATEST)


def _schedule_of(row: Row) -> ScheduleRecord:
    name, target, args, *rest = row[:17]
    return ScheduleRecord(name, target, bytes(args), *rest)


async def _fire(transaction: Transaction, firing: Firing) -> bool:
    seen = {"name": firing.name, "revision": firing.revision}
    if await transaction.one("lock_schedule", seen) is None:
        return False  # another loop has it, or had it
    cancelled = [outgoing.run_id for outgoing in firing.outgoing]
    if cancelled:
        await lock(transaction, cancelled, ending=cancelled)
        await deliver(transaction, firing.outgoing)
    for run in sorted(firing.runs, key=lambda run: run.id):
        await transaction.run("insert_run", new_run(run))  # one that is there was started for the same time
    moved = {"next_at": _moment(firing.next_at), "waiting_at": firing.waiting_at, "last_id": firing.last_id}
    await transaction.run("move_schedule", {**seen, **moved})
    return True


async def _delete_expired(transaction: Transaction, values: dict[str, int]) -> int:
    found = {run_id for (run_id,) in await transaction.all("expired", values)}
    await lock(transaction, found, closing=list(found))
    # Again, now that nobody can open one of them: recover and rewind wait for the lock.
    still = [run_id for (run_id,) in await transaction.all("expired", values) if run_id in found]
    if still:
        await delete(transaction, still)
    return len(still)


async def _recreate(transaction: Transaction, run: NewRun, statuses: Sequence[str]) -> bool:
    known = (await lock(transaction, (run.id,), closing=(run.id,))).get(run.id)
    if known is not None:
        if known[2] not in statuses:
            return False
        if run.key is not None:
            keyed = await transaction.one("keyed", {"queue": run.queue, "key": run.key})
            if keyed is not None and keyed[0] != run.id:
                return False  # its key is another's: the old run stays
        await delete(transaction, (run.id,))
    return await transaction.one("insert_run", new_run(run)) is not None
