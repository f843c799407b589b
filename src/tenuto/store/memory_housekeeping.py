"""Schedules, background leases and retention in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tenuto.store.changes import Changes
from tenuto.store.housekeeping import DueSchedule, Fired, Firing, ScheduleRecord
from tenuto.store.memory_mail import deliver
from tenuto.store.memory_state import Shelf, Table
from tenuto.store.memory_turns import create
from tenuto.store.port import NewRun

__all__ = ["MemoryHousekeeping"]


class MemoryHousekeeping:
    """The part of the store that works by the clock. See `store.housekeeping`."""

    if TYPE_CHECKING:
        _shelf: Shelf
        _changes: Changes

        async def delete(self, run_ids: Sequence[str]) -> None: ...

    async def put_schedule(self, record: ScheduleRecord) -> None:
        schedules = self._shelf.schedules
        known = schedules.get(record.name)
        if known is None:
            record = replace(record, waiting_at=None, last_id=None, paused=False, revision=0)
        else:
            kept = replace(record, last_id=known.last_id, paused=known.paused, revision=known.revision + 1)
            if _rule(known) == _rule(record):
                record = replace(kept, anchor=known.anchor, next_at=known.next_at, waiting_at=known.waiting_at)
            else:
                record = replace(kept, waiting_at=None)
        schedules[record.name] = record
        self._changes.happened()

    async def schedules(self) -> list[ScheduleRecord]:
        return [self._shelf.schedules[name] for name in sorted(self._shelf.schedules)]

    async def get_schedule(self, name: str) -> ScheduleRecord | None:
        return self._shelf.schedules.get(name)

    async def set_schedule(self, name: str, revision: int, paused: bool, next_at: int | None) -> bool:
        known = self._shelf.schedules.get(name)
        if known is None or known.revision != revision:
            return False
        self._shelf.schedules[name] = replace(known, paused=paused, next_at=next_at, revision=revision + 1)
        self._changes.happened()
        return True

    async def delete_schedule(self, name: str) -> bool:
        return self._shelf.schedules.pop(name, None) is not None

    async def due_schedules(self, limit: int, after: str = "") -> tuple[list[DueSchedule], int | None]:
        now = self._shelf.clock()
        armed = [record for record in self._shelf.schedules.values() if not record.paused]
        due = [DueSchedule(record, self._is_open(record.last_id)) for record in armed]
        due = [item for item in due if item.record.name > after and _has_come(item, now)]
        due.sort(key=lambda item: item.record.name)
        following = [record.next_at for record in armed if record.next_at is not None and record.next_at > now]
        return due[:limit], min(following, default=None)

    def _is_open(self, run_id: str | None) -> bool:
        run = self._shelf.runs.get(run_id or "")
        return run is not None and run.open

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[Fired]:
        for firing in firings:
            for run in firing.runs:
                Table(run.rows)  # what can fail comes before the first change
        fired = [self._fire(firing) for firing in firings]
        self._changes.happened()
        return fired

    def _fire(self, firing: Firing) -> Fired:
        known = self._shelf.schedules.get(firing.name)
        if known is None or known.revision != firing.revision or known.paused:
            return Fired(False)
        for outgoing in firing.outgoing:
            deliver(self._shelf, outgoing)
        last_id, taken = known.last_id, list[str]()
        for run in firing.runs:
            if create(self._shelf, run) or self._shelf.runs[run.id].new.parent == run.parent:
                last_id = run.id  # one that is there was started for the same time
            else:
                taken.append(run.id)
        self._shelf.schedules[firing.name] = replace(
            known,
            next_at=firing.next_at,
            waiting_at=firing.waiting_at,
            last_id=last_id,
            revision=known.revision + 1,
        )
        return Fired(True, tuple(taken))

    async def take_background(self, names: Sequence[str], owner: str, ttl_ms: int) -> list[str]:
        now = self._shelf.clock()
        leases = self._shelf.background
        taken = [name for name in names if leases.get(name, (owner, now))[0] == owner or leases[name][1] < now]
        leases.update((name, (owner, now + ttl_ms)) for name in taken)
        return taken

    async def delete_expired(self, retention_ms: int, limit: int) -> int:
        shelf = self._shelf
        until = shelf.clock() - retention_ms
        parents = {run.told[0] for run in shelf.runs.values() if run.open and run.told is not None}
        runs = [
            (run.completed_at, run.id)
            for run in shelf.runs.values()
            if run.completed_at is not None and run.completed_at <= until and run.id not in parents
        ]
        tasks = [(at, task_id) for task_id, (at, run_id) in shelf.ended_at.items() if not run_id and at <= until]
        old = [execution for _, execution in sorted([*runs, *tasks])[:limit]]
        for execution in old:
            shelf.ended.pop(execution, None)
            shelf.ended_at.pop(execution, None)
        if old:
            await self.delete([execution for execution in old if execution in shelf.runs])
        return len(old)

    async def update_statistics(self) -> int:
        return 0  # nothing is planned

    async def recreate(self, run: NewRun, statuses: Sequence[str]) -> bool:
        known = self._shelf.runs.get(run.id)
        if known is not None:
            keyed = self._shelf.keyed(run.queue, run.key)
            if known.status not in statuses or keyed not in (None, run.id):
                return False
            await self.delete((run.id,))
        created = create(self._shelf, run)
        self._changes.happened()
        return created

    async def identity(self) -> str:
        return self._shelf.identity

    async def defined(self) -> list[str]:
        return sorted(self._shelf.definitions)


def _rule(record: ScheduleRecord) -> tuple[object, ...]:
    return record.cron, record.every_ms, record.tz, record.start_at, record.end_at


def _has_come(item: DueSchedule, now: int) -> bool:
    record = item.record
    if record.next_at is not None and record.next_at <= now:
        return True
    return record.waiting_at is not None and not item.last_open
