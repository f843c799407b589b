"""Queues in Postgres: what they were told, what they have, and what their limits let begin.

A claim of limited work is one transaction: it locks the rows of its queues (others skip them), counts, picks with SKIP
LOCKED, and leases. Nobody else takes a slot of these queues until it commits; giving one back needs no lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenuto.kernel.commands import EnqueueTask
from tenuto.store.changes import Changes
from tenuto.store.listing import filter_values
from tenuto.store.port import ClaimedTask, RunFilter
from tenuto.store.postgres_connection import Database, Row, Transaction
from tenuto.store.postgres_mail import lock
from tenuto.store.postgres_runs import claims_of
from tenuto.store.postgres_tasks import cancel_tasks, queue_tasks
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

__all__ = ["PostgresQueueing"]

T = TypeVar("T")
SKIPPED_MS: Final = 20  # after so long another claimer is done with a queue it had locked


class PostgresQueueing:
    """The part of the store that knows queues. See `store.queues`."""

    _limited: LimitedNames | None = None

    if TYPE_CHECKING:
        _database: Database
        _changes: Changes

        async def _here(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
        async def _write(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
        async def _transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T: ...

    def limit_messages(self, per_run: int) -> None:
        self._database.buffered_messages = per_run

    async def set_queue(self, limits: QueueLimits) -> None:
        values = columns_of_limits(limits)
        await self._write(lambda: self._database.write("set_queue", values))
        self._limited = None

    async def queues(self) -> list[QueueRecord]:
        found = await self._here(lambda: self._database.read("list_queues"))
        return [QueueRecord(limits_of_row(row), *row[7:10]) for row in found]

    async def limited(self) -> frozenset[str]:
        if self._limited is None:
            self._limited = LimitedNames(self._read_limited, self._database.system.clock)
        return await self._limited.get()

    async def _read_limited(self) -> frozenset[str]:
        return frozenset(name for (name,) in await self._here(lambda: self._database.read("limited_queues")))

    async def place(self, item_id: str) -> QueuePlace | None:
        found = await self._here(lambda: self._database.read("queue_place", {"id": item_id}))
        if not found:
            return None
        row = found[0]
        limits = limits_of_row(row)
        state = QueueState(limits, *row[7:10]) if limits.limited else None
        return QueuePlace(row[0], row[10], state, *row[11:15])

    async def keyed(self, queue: str, key: str) -> str | None:
        found = await self._here(lambda: self._database.read("find_keyed", {"queue": queue, "key": key}))
        return found[0][0] if found else None

    async def enqueue(self, task: EnqueueTask) -> str:
        (task_id,) = await self._transact(lambda transaction: queue_tasks(transaction, ((task, None),)))
        return task_id

    async def task(self, task_id: str) -> TaskState | None:
        found = await self._here(lambda: self._database.read("get_task", {"id": task_id}))
        return TaskState(*found[0]) if found else None

    async def cancel_task(self, task_id: str) -> bool:
        return await self._transact(lambda transaction: _cancel(transaction, task_id))

    async def flagged_tasks(self, worker_id: str) -> list[str]:
        found = await self._here(lambda: self._database.read("flagged_tasks", {"worker": worker_id}))
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
        # A look first: mostly the queues are full or empty, and a look locks nothing.
        served = {"queues": None if queues is None else list(queues)}
        states = _states(await self._here(lambda: self._database.read("queue_states", served)))
        wanted = [state for state in states if state.room(here.get(state.limits.name, 0)) != 0]
        if not wanted:
            return LimitedClaims(again_at=_again(states))
        claimer = _Claimer(self._database, worker_id, workflows, steps, here, room)
        names = [state.limits.name for state in wanted]
        # Not as news for others where nothing was claimed: a full partition would keep everybody looking.
        claimed = await self._here(
            lambda: self._database.transact(lambda transaction: claimer.claim(transaction, names))
        )
        if claimed.runs or claimed.tasks:
            self._changes.happened()
        return claimed

    async def page(self, which: RunFilter, after: str, until: int) -> list[tuple[str, str]]:
        values = {**filter_values(which), "limit": which.limit, "after": after, "until": until}
        found = await self._here(lambda: self._database.read("page_runs", values))
        return [(run_id, status) for run_id, status in found]


async def _cancel(transaction: Transaction, task_id: str) -> bool:
    await lock(transaction, (), ending=(task_id,))
    row = await transaction.one("get_task", {"id": task_id})
    if row is None or row[0] not in ("scheduled", "pending", "running"):
        return False
    await cancel_tasks(transaction, (task_id,))
    await transaction.run("notify")
    return True


def _states(rows: Sequence[Row]) -> list[QueueState]:
    return [QueueState(limits_of_row(row), *row[7:10]) for row in rows]


def _again(states: Sequence[QueueState]) -> int | None:
    return min((at for state in states if (at := state.again_at()) is not None), default=None)


class _Claimer:
    """One claim of limited work. It may be repeated as a whole, so it keeps nothing between."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        workflows: Sequence[str],
        steps: Sequence[str],
        here: Mapping[str, int],
        room: tuple[int, int],
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._workflows = workflows
        self._steps = steps
        self._here = here
        self._room = room

    async def claim(self, transaction: Transaction, names: Sequence[str]) -> LimitedClaims:
        locked = [name for (name,) in await transaction.all("lock_queues", {"queues": list(names)})]
        runs, tasks = self._room
        chosen: list[Ready] = []
        for state in _states(await transaction.all("queue_states", {"queues": locked})):
            free = state.room(self._here.get(state.limits.name, 0))
            if free == 0:
                continue
            picked = choose(await self._ready(transaction, state.limits, free, runs, tasks), free, runs, tasks)
            runs -= sum(item.is_run for item in picked)
            tasks -= sum(not item.is_run for item in picked)
            if picked and state.limits.rate is not None:
                values = {"queue": state.limits.name, "period": state.limits.rate[1], "starts": len(picked)}
                await transaction.run("note_starts", values)
            chosen.extend(picked)
        started = await self._lease(transaction, "lease_starts", [item.id for item in chosen if item.is_run])
        attempts = await self._lease(transaction, "lease_tasks", [item.id for item in chosen if not item.is_run])
        again = _again(_states(await transaction.all("queue_states", {"queues": list(names)})))
        if len(locked) < len(names):
            soon = transaction.now + SKIPPED_MS
            again = soon if again is None else min(again, soon)
        claims = claims_of(self._database, started)
        return LimitedClaims(claims, [ClaimedTask(*row[:13]) for row in attempts], again)

    async def _ready(
        self, transaction: Transaction, limits: QueueLimits, free: int | None, runs: int, tasks: int
    ) -> list[Ready]:
        """What could begin; of each partition only as many as it has room for."""
        known = [*(self._workflows if runs else ()), *(self._steps if tasks else ())]
        wanted = runs + tasks if free is None else min(free, runs + tasks)
        values: dict[str, Any] = {"queue": limits.name, "known": known, "limit": wanted}
        if limits.partition_concurrency is None:
            rows = await transaction.all("pick_limited", values)
        else:
            rows = await transaction.all("pick_keyless", values)
            partitioned = {**values, "partition_concurrency": limits.partition_concurrency}
            rows += await transaction.all("pick_partitioned", partitioned)
        return [Ready(-priority, ready_at, item_id, is_run) for item_id, priority, ready_at, is_run in rows]

    async def _lease(self, transaction: Transaction, statement: str, ids: Sequence[str]) -> list[Row]:
        if not ids:
            return []
        return await transaction.all(statement, {"worker": self._worker_id, "ids": list(ids), "slots": True})
