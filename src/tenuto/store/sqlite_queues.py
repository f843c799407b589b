"""Queues in SQLite: what they were told, what they have, and what their limits let begin.

Every write transaction is alone in the file, so what is counted in one statement still holds in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenuto.kernel.commands import EnqueueTask
from tenuto.store import sqlite_runs
from tenuto.store.connection import Connection, Settings
from tenuto.store.port import RunFilter
from tenuto.store.queues import (
    LimitedClaims,
    LimitedNames,
    QueueLimits,
    QueuePlace,
    QueueRecord,
    QueueState,
    Ready,
    TaskState,
    choose,
    columns_of_limits,
    limits_of_row,
)
from tenuto.store.sqlite_mail import listed
from tenuto.store.sqlite_runs import lease
from tenuto.store.sqlite_tasks import cancel_tasks, lease_tasks, queue_task

__all__ = ["SqliteQueueing"]

T = TypeVar("T")


class SqliteQueueing:
    """The part of the store that knows queues. See `store.queues`."""

    _limited: LimitedNames | None = None

    if TYPE_CHECKING:
        _settings: Settings

        async def _write(self, work: Callable[[Connection], T]) -> T: ...
        async def _read(self, work: Callable[[Connection], T]) -> T: ...

    def limit_messages(self, per_run: int) -> None:
        self._settings.buffered_messages = per_run

    async def set_queue(self, limits: QueueLimits) -> None:
        values = columns_of_limits(limits)
        await self._write(lambda connection: connection.run("set_queue", values))
        self._limited = None

    async def queues(self) -> list[QueueRecord]:
        found = await self._read(lambda connection: connection.all("list_queues"))
        return [QueueRecord(limits_of_row(row), *row[7:10]) for row in found]

    async def limited(self) -> frozenset[str]:
        if self._limited is None:
            self._limited = LimitedNames(self._read_limited, self._settings.system.clock)
        return await self._limited.get()

    async def _read_limited(self) -> frozenset[str]:
        return frozenset(name for (name,) in await self._read(lambda connection: connection.all("limited_queues")))

    async def place(self, item_id: str) -> QueuePlace | None:
        row = await self._read(lambda connection: connection.one("queue_place", {"id": item_id}))
        if row is None:
            return None
        limits = limits_of_row(row)
        state = QueueState(limits, *row[7:10]) if limits.limited else None
        return QueuePlace(row[0], row[10], state, *row[11:15])

    async def keyed(self, queue: str, key: str) -> str | None:
        row = await self._read(lambda connection: connection.one("keyed", {"queue": queue, "key": key}))
        return None if row is None else row[0]

    async def enqueue(self, task: EnqueueTask) -> str:
        return await self._write(lambda connection: queue_task(connection, task, None))

    async def task(self, task_id: str) -> TaskState | None:
        row = await self._read(lambda connection: connection.one("get_task", {"id": task_id}))
        return None if row is None else TaskState(*row)

    async def cancel_task(self, task_id: str) -> bool:
        return await self._write(lambda connection: _cancel(connection, task_id))

    async def flagged_tasks(self, worker_id: str) -> list[str]:
        found = await self._read(lambda connection: connection.all("flagged_tasks", {"worker": worker_id}))
        return [task_id for (task_id,) in found]

    async def claim_limited(
        self,
        worker_id: str,
        workflows: Sequence[str],
        steps: Sequence[str],
        queues: Sequence[str] | None,
        here: Mapping[str, int],
        room: tuple[int, int],
    ) -> LimitedClaims:
        # A look first: mostly the queues are full or empty, and a look costs no commit.
        states = await self._read(lambda connection: _states(connection, queues))
        if all(state.room(here.get(state.limits.name, 0)) == 0 for state in states):
            return LimitedClaims(again_at=_again(states))
        known = (workflows, steps)
        return await self._write(lambda connection: _claim(connection, worker_id, known, queues, here, room))

    async def page(self, which: RunFilter, after: str, until: int) -> list[tuple[str, str]]:
        return await self._read(lambda connection: sqlite_runs.page(connection, which, after, until))


def _cancel(connection: Connection, task_id: str) -> bool:
    row = connection.one("get_task", {"id": task_id})
    if row is None or row[0] not in ("scheduled", "pending", "running"):
        return False
    cancel_tasks(connection, (task_id,))
    return True


def _states(connection: Connection, queues: Sequence[str] | None) -> list[QueueState]:
    served = None if queues is None else listed(queues)
    rows = connection.all("queue_states", {"queues": served})
    return [QueueState(limits_of_row(row), *row[7:10]) for row in rows]


def _again(states: Sequence[QueueState]) -> int | None:
    return min((at for state in states if (at := state.again_at()) is not None), default=None)


def _claim(
    connection: Connection,
    worker_id: str,
    known: tuple[Sequence[str], Sequence[str]],
    queues: Sequence[str] | None,
    here: Mapping[str, int],
    room: tuple[int, int],
) -> LimitedClaims:
    runs, tasks = room
    chosen: list[Ready] = []
    for state in _states(connection, queues):
        free = state.room(here.get(state.limits.name, 0))
        if free == 0:
            continue
        wanted = runs + tasks if free is None else min(free, runs + tasks)
        workflows, steps = known[0] if runs else (), known[1] if tasks else ()
        picked = choose(_ready(connection, state.limits, workflows, steps, wanted), free, runs, tasks)
        runs -= sum(item.is_run for item in picked)
        tasks -= sum(not item.is_run for item in picked)
        _begin(connection, state.limits, picked)
        chosen.extend(picked)
    chosen.sort(key=lambda item: item[:3])
    claimed = lease(connection, worker_id, [item.id for item in chosen if item.is_run])
    claimed_tasks = lease_tasks(connection, worker_id, [item.id for item in chosen if not item.is_run])
    return LimitedClaims(claimed, claimed_tasks, _again(_states(connection, queues)))


def _ready(
    connection: Connection, limits: QueueLimits, workflows: Sequence[str], steps: Sequence[str], wanted: int
) -> list[Ready]:
    """What could begin; of each partition only as many as it has room for."""
    partitioned = limits.partition_concurrency is not None
    found: list[Ready] = []
    for sort, known in (("workflow", listed(workflows)), ("task", listed(steps))):
        values = {"queue": limits.name, "type": sort, "known": known, "limit": wanted, "suspects": True}
        rows = connection.all("pick_keyless", values) if partitioned else connection.all("pick_ready", values)
        found.extend(Ready(-row[1], row[2], row[0], sort == "workflow") for row in rows)
    if limits.partition_concurrency is None:
        return found
    known = listed([*workflows, *steps])
    for partition, slots in connection.all("waiting_partitions", {"queue": limits.name}):
        left = min(limits.partition_concurrency - slots, wanted)
        if left > 0:
            values = {"queue": limits.name, "partition": partition, "known": known, "limit": left}
            rows = connection.all("pick_partition", values)
            found.extend(Ready(-priority, ready_at, key, bool(is_run)) for key, priority, ready_at, is_run in rows)
    return found


def _begin(connection: Connection, limits: QueueLimits, picked: Sequence[Ready]) -> None:
    """Slots and starts, in the transaction that leases."""
    if not picked:
        return
    connection.run("take_slots", {"ids": listed(item.id for item in picked)})
    if limits.rate is not None:
        connection.run("forget_starts", {"queue": limits.name, "period": limits.rate[1]})
        connection.many("note_start", [(limits.name,)] * len(picked))
