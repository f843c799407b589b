"""Queues in memory: what they were told, what they have, and what their limits let begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.location import text
from tenuto.store import memory_tasks
from tenuto.store.changes import Changes
from tenuto.store.memory_state import Shelf, fits
from tenuto.store.memory_workers import lease_run
from tenuto.store.port import RunFilter
from tenuto.store.queues import (
    LimitedClaims,
    QueueLimits,
    QueuePlace,
    QueueRecord,
    QueueState,
    Ready,
    TaskState,
    choose,
)

__all__ = ["MemoryQueueing"]


class MemoryQueueing:
    """The part of the store that knows queues. See `store.queues`."""

    if TYPE_CHECKING:
        _shelf: Shelf
        _changes: Changes

    def limit_messages(self, per_run: int) -> None:
        self._shelf.buffered_messages = per_run

    async def set_queue(self, limits: QueueLimits) -> None:
        self._shelf.queues[limits.name] = limits
        self._changes.happened()

    async def queues(self) -> list[QueueRecord]:
        return _records(self._shelf)

    async def limited(self) -> frozenset[str]:
        return self._shelf.limited()

    async def place(self, item_id: str) -> QueuePlace | None:
        return _place(self._shelf, item_id)

    async def keyed(self, queue: str, key: str) -> str | None:
        return self._shelf.keyed(queue, key)

    async def enqueue(self, task: EnqueueTask) -> str:
        task_id = memory_tasks.queue_task(self._shelf, task, "")
        self._changes.happened()
        return task_id

    async def task(self, task_id: str) -> TaskState | None:
        if task_id not in self._shelf.tasks:
            return self._shelf.ended.get(task_id)
        _, task = self._shelf.tasks[task_id]
        known = self._shelf.attempt(task_id)
        return TaskState(known.status, None, None, known.attempt, task.target, task.queue, text(task.location))

    async def cancel_task(self, task_id: str) -> bool:
        if task_id not in self._shelf.tasks:
            return False
        memory_tasks.cancel_tasks(self._shelf, [task_id])
        self._changes.happened()
        return True

    async def flagged_tasks(self, worker_id: str) -> list[str]:
        attempts = self._shelf.attempts.items()
        return sorted(key for key, known in attempts if known.cancel_requested and known.lease_owner == worker_id)

    async def claim_limited(
        self,
        worker_id: str,
        workflows: Sequence[str],
        steps: Sequence[str],
        queues: Sequence[str] | None,
        here: Mapping[str, int],
        room: tuple[int, int],
    ) -> LimitedClaims:
        return _claim_limited(self._shelf, worker_id, (workflows, steps), queues, here, room)

    async def page(self, which: RunFilter, after: str, until: int) -> list[tuple[str, str]]:
        records = [run.record() for run in self._shelf.runs.values() if run.id > after and run.created_at <= until]
        return sorted((record.id, record.status) for record in records if fits(record, which))[: which.limit]


def _records(shelf: Shelf) -> list[QueueRecord]:
    """Those that were told something, and those that have work."""
    waiting = [run.new.queue for run in shelf.runs.values() if run.status == "pending"]
    running = [run.new.queue for run in shelf.runs.values() if run.status == "running" and run.lease_owner is not None]
    for task_id, (_, task) in shelf.tasks.items():
        status = shelf.attempt(task_id).status
        waiting += [task.queue] if status == "pending" else []
        running += [task.queue] if status == "running" else []
    slots = [run.new.queue for run in shelf.runs.values() if run.holds_slot]
    slots += [task.queue for task_id, (_, task) in shelf.tasks.items() if shelf.attempt(task_id).holds_slot]
    return [
        QueueRecord(
            shelf.queues.get(name) or QueueLimits(name), waiting.count(name), running.count(name), slots.count(name)
        )
        for name in sorted({*shelf.queues, *waiting, *running, *slots})
    ]


def _claim_limited(
    shelf: Shelf,
    worker_id: str,
    known: tuple[Sequence[str], Sequence[str]],
    queues: Sequence[str] | None,
    here: Mapping[str, int],
    room: tuple[int, int],
) -> LimitedClaims:
    """Queue by queue, in the order of their names."""
    runs, tasks = room
    chosen: list[Ready] = []
    again: list[int] = []
    for name in sorted(shelf.queues):
        limits = shelf.queues[name]
        if not limits.limited or (queues is not None and name not in queues):
            continue
        ready = _ready(shelf, limits, (known[0] if runs else (), known[1] if tasks else ()))
        picked = choose(ready, _state(shelf, limits).room(here.get(name, 0)), runs, tasks)
        runs -= sum(item.is_run for item in picked)
        tasks -= sum(not item.is_run for item in picked)
        _begin(shelf, limits, picked)
        if len(ready) > len(picked) and (at := _state(shelf, limits).again_at()) is not None:
            again.append(at)
        chosen.extend(picked)
    chosen.sort(key=lambda item: item[:3])
    return LimitedClaims(
        [lease_run(shelf, shelf.runs[item.id], worker_id) for item in chosen if item.is_run],
        [memory_tasks.lease_task(shelf, worker_id, item.id) for item in chosen if not item.is_run],
        min(again, default=None),
    )


def _begin(shelf: Shelf, limits: QueueLimits, picked: Sequence[Ready]) -> None:
    now = shelf.clock()
    for item in picked:
        if item.is_run:
            shelf.runs[item.id].holds_slot = True
        else:
            shelf.attempt(item.id).holds_slot = True
    if limits.rate is not None:
        kept = [at for at in shelf.queue_starts.get(limits.name, []) if at > now - limits.rate[1]]
        shelf.queue_starts[limits.name] = kept + [now] * len(picked)


def _ready(shelf: Shelf, limits: QueueLimits, known: tuple[Sequence[str], Sequence[str]]) -> list[Ready]:
    """What could begin; of each partition only as many as it has room for."""
    workflows, steps = known
    found: list[tuple[Ready, str | None]] = [
        (Ready(-run.new.priority, run.ready_at, run.id, is_run=True), run.new.partition)
        for run in shelf.runs.values()
        if run.status == "pending" and run.new.queue == limits.name and run.new.target in workflows
    ]
    for task_id, (_, task) in shelf.tasks.items():
        attempts = shelf.attempt(task_id)
        if attempts.status == "pending" and task.queue == limits.name and task.target in steps:
            found.append((Ready(-task.priority, attempts.ready_at, task_id, is_run=False), task.partition))
    if limits.partition_concurrency is None:
        return [item for item, _ in found]
    left = {key: limits.partition_concurrency - _slots(shelf, limits.name, key) for _, key in found if key is not None}
    fitting: list[Ready] = []
    for item, key in sorted(found, key=lambda pair: pair[0][:3]):
        if key is None or left[key] > 0:
            fitting.append(item)
        if key is not None:
            left[key] -= 1
    return fitting


def _state(shelf: Shelf, limits: QueueLimits) -> QueueState:
    """How far a queue is used up now."""
    starts: list[int] = []
    if limits.rate is not None:
        after = shelf.clock() - limits.rate[1]
        starts = [at for at in shelf.queue_starts.get(limits.name, []) if at > after]
    return QueueState(limits, _slots(shelf, limits.name), len(starts), min(starts, default=None))


def _slots(shelf: Shelf, queue: str, partition: str | None = None) -> int:
    held = [(run.new.queue, run.new.partition) for run in shelf.runs.values() if run.holds_slot]
    held += [
        (shelf.tasks[task_id][1].queue, shelf.tasks[task_id][1].partition)
        for task_id, attempts in shelf.attempts.items()
        if attempts.holds_slot
    ]
    return sum(name == queue and (partition is None or key == partition) for name, key in held)


def _place(shelf: Shelf, item_id: str) -> QueuePlace | None:
    """Where an item that has not begun stands."""
    run = shelf.runs.get(item_id)
    if run is not None:
        queue, partition, status = run.new.queue, run.new.partition, run.status
        mine = (-run.new.priority, run.ready_at, run.id)
    elif item_id in shelf.tasks:
        task, attempts = shelf.tasks[item_id][1], shelf.attempt(item_id)
        queue, partition, status = task.queue, task.partition, attempts.status
        mine = (-task.priority, attempts.ready_at, item_id)
    else:
        return None
    if status not in ("pending", "scheduled"):
        return None
    limits = shelf.queues.get(queue)
    waiting = [
        (-other.new.priority, other.ready_at, other.id)
        for other in shelf.runs.values()
        if other.status == "pending" and other.new.queue == queue
    ]
    waiting += [
        (-other.priority, shelf.attempt(key).ready_at, key)
        for key, (_, other) in shelf.tasks.items()
        if shelf.attempt(key).status == "pending" and other.queue == queue
    ]
    return QueuePlace(
        queue,
        status,
        _state(shelf, limits) if limits is not None and limits.limited else None,
        partition,
        0 if partition is None else _slots(shelf, queue, partition),
        sum(other < mine for other in waiting),
        mine[1],
    )
