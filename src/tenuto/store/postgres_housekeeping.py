"""Schedules, background leases and retention in Postgres."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.store.clock import LATEST
from tenuto.store.housekeeping import DueSchedule, Fired, Firing, ScheduleRecord
from tenuto.store.port import NewRun
from tenuto.store.postgres_connection import Database, Row, Transaction
from tenuto.store.postgres_mail import deliver, lock
from tenuto.store.postgres_runs import delete, new_run, record_of

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

    async def due_schedules(self, limit: int, after: str = "") -> tuple[list[DueSchedule], int | None]:
        values = {"limit": limit, "after": after}
        found = await self._here(lambda: self._database.read("due_schedules", values))
        following, now = (await self._here(lambda: self._database.read("next_schedule")))[0]
        self._database.learn(now)  # what was found due is not after this
        return [DueSchedule(_schedule_of(row), bool(row[17])) for row in found], following

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[Fired]:
        return await self._transact(lambda transaction: _fire(transaction, firings))

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


async def _fire(transaction: Transaction, firings: Sequence[Firing]) -> list[Fired]:
    names, revisions = [firing.name for firing in firings], [firing.revision for firing in firings]
    last_ids: dict[str, str | None] = dict(
        await transaction.all("lock_schedules", {"names": names, "revisions": revisions})
    )
    ours = [firing for firing in firings if firing.name in last_ids]
    outgoing = [mail for firing in ours for mail in firing.outgoing]
    if outgoing:
        cancelled = [mail.run_id for mail in outgoing]
        await lock(transaction, cancelled, ending=cancelled)
        await deliver(transaction, outgoing)
    foreign = await _start(transaction, [run for firing in ours for run in firing.runs])
    for firing in ours:
        own = [run.id for run in firing.runs if run.id not in foreign]
        moved = {"name": firing.name, "next_at": _moment(firing.next_at), "waiting_at": firing.waiting_at}
        await transaction.run("move_schedule", {**moved, "last_id": own[-1] if own else last_ids[firing.name]})
    return [
        Fired(firing.name in last_ids, tuple(run.id for run in firing.runs if run.id in foreign)) for firing in firings
    ]


async def _start(transaction: Transaction, runs: Sequence[NewRun]) -> set[str]:
    """Store the runs; return the ids that runs of others have already."""
    ordered = sorted(runs, key=lambda run: run.id)
    answers = [(run, await transaction.start("insert_run", new_run(run))) for run in ordered]
    known = {run.id: run for run, answer in answers if not await answer.fetchall()}
    if not known:
        return set()
    found = map(record_of, await transaction.all("get_runs", {"ids": list(known)}))
    return known.keys() - {record.id for record in found if record.parent == known[record.id].parent}


async def _delete_expired(transaction: Transaction, values: dict[str, int]) -> int:
    found = [run_id for (run_id,) in await transaction.all("expired", values)]
    await lock(transaction, found, closing=found)
    # Again, now that nobody can open one of them: recover and rewind wait for the lock.
    locked = set(found)
    still = [run_id for (run_id,) in await transaction.all("expired", values) if run_id in locked]
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
