"""The store that forgets: everything in this process, for tests and for trying things out.

It is held to the same conformance suite as the real ones. No method awaits anything in the middle, so each is one
transaction; what can fail comes before the first change, so a failure leaves everything as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tenuto.codec.records import decode_mail
from tenuto.errors import LeaseLostError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail
from tenuto.store import memory_mail, memory_tasks, memory_turns, memory_workers
from tenuto.store.changes import Changes
from tenuto.store.clock import system_clock
from tenuto.store.endings import terminated_child
from tenuto.store.memory_housekeeping import MemoryHousekeeping
from tenuto.store.memory_programs import MemoryPrograms
from tenuto.store.memory_queues import MemoryQueueing
from tenuto.store.memory_state import RunState, Shelf, fits
from tenuto.store.port import (
    NEVER,
    Claim,
    ClaimedTask,
    Commit,
    Full,
    Lease,
    Listing,
    NewRun,
    OpenTask,
    Outgoing,
    RunFilter,
    RunningStep,
    RunRecord,
    TaskEnd,
    TurnResult,
    WorkerRecord,
)
from tenuto.store.quarantine import Suspects
from tenuto.system import REAL, System

__all__ = ["MemoryStore"]


class MemoryStore(MemoryHousekeeping, MemoryPrograms, MemoryQueueing):
    """See `store.port`."""

    def __init__(self, clock: Callable[[], int] = system_clock, system: System = REAL) -> None:
        self._shelf = Shelf(clock, system.entropy.token(16).hex())
        self._changes = Changes(clock=system.clock)

    @property
    def tasks(self) -> dict[str, tuple[str, EnqueueTask]]:
        """Open tasks by id: the run that queued it ("" for none), and what to do."""
        return self._shelf.tasks

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def now(self) -> int:
        return self._shelf.clock()

    async def schema(self) -> tuple[int, int]:
        return 0, 0

    def clock(self) -> int:
        return self._shelf.clock()

    @property
    def commits_at_once(self) -> int:
        return 1

    # --- clients

    async def create(self, run: NewRun) -> bool:
        created = memory_turns.create(self._shelf, run)
        self._changes.happened()
        return created

    async def get(self, run_id: str) -> RunRecord | None:
        run = self._shelf.runs.get(run_id)
        return None if run is None else run.record()

    async def runs(self, which: RunFilter | None = None) -> list[RunRecord]:
        if which is None:
            return [run.record() for run in self._shelf.runs.values()]
        return (await self.listing(which)).records

    async def listing(self, which: RunFilter) -> Listing:
        fitting = [run for run in self._shelf.runs.values() if fits(run.record(), which)]
        behind = sorted(
            (run for run in fitting if which.after is None or (run.created_at, run.number) < which.after),
            key=lambda run: (run.created_at, run.number),
            reverse=True,
        )
        found = behind[: which.limit]
        more = bool(found) and len(found) >= which.limit
        return Listing([run.record() for run in found], (found[-1].created_at, found[-1].number) if more else None)

    async def count(self, which: RunFilter) -> dict[str, int]:
        return dict(Counter(run.status for run in self._shelf.runs.values() if fits(run.record(), which)))

    async def rows_at(self, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
        tables = {run_id: self._shelf.runs[run_id].table for run_id in run_ids if run_id in self._shelf.runs}
        return {run_id: value for run_id, table in tables.items() for row, value in table.list(key) if row == key}

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        return self._shelf.run(run_id).table.list(prefix)

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        number = memory_mail.send(self._shelf, run_id, mail, message_id)
        self._changes.happened()
        return number

    async def signal_and_claim(
        self, worker_id: str, run_id: str, mail: Mail, message_id: str | None
    ) -> tuple[int | None, Claim | None]:
        run = self._shelf.runs.get(run_id)
        waits = run is not None and run.status == "suspended"
        resumed = run.resume if run is not None else None
        number = await self.send(run_id, mail, message_id)
        if run is None or not waits or number is None:
            return number, None
        run.resume, run.status, run.lease_owner = resumed, "running", worker_id
        run.epoch += 1
        run.losses.lease(self._shelf.clock())
        return number, Claim(Lease(run_id, run.epoch), run.record(), run.epoch - 1)

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        run = self._shelf.runs.get(run_id)
        return None if run is None else run.answer(update_id, self._shelf.clock())

    async def delete(self, run_ids: Sequence[str]) -> None:
        shelf = self._shelf
        for run_id in run_ids:
            shelf.runs.pop(run_id, None)
            for task_id in [key for key, (owner, _) in shelf.tasks.items() if owner == run_id]:
                del shelf.tasks[task_id]
                shelf.attempts.pop(task_id, None)
            for task_id in [key for key, (_, owner) in shelf.ended_at.items() if owner == run_id]:
                del shelf.ended_at[task_id]
                shelf.ended.pop(task_id, None)
            for token in [token for token, (owner, _) in shelf.hooks.items() if owner == run_id]:
                del shelf.hooks[token]
        gone = set(run_ids)
        for followed, watchers in list(shelf.watchers.items()):
            shelf.watchers[followed] = [watcher for watcher in watchers if watcher.run_id not in gone]
            if followed in gone or (followed not in shelf.runs and followed not in shelf.tasks):
                del shelf.watchers[followed]
        for run in shelf.runs.values():
            if run.told is not None and run.told[0] in gone:
                run.told = None  # child runs outlive the deletion of their parent
        self._changes.happened()

    async def terminate(self, run_id: str, reason: str | None) -> bool:
        shelf = self._shelf
        run = shelf.run(run_id)
        if not run.open:
            return False
        run.epoch += 1
        run.reason = reason
        memory_mail.close(shelf, run, "terminated")
        memory_tasks.cancel_tasks(shelf, [key for key, (owner, _) in shelf.tasks.items() if owner == run_id])
        memory_mail.cancel_children(shelf, run)
        memory_mail.tell_end(shelf, run_id, None, terminated_child(run_id, reason), 1)
        self._changes.happened()
        return True

    async def release(self, run_id: str) -> bool:
        run = self._shelf.run(run_id)
        released = run.pause_requested or run.status in ("paused", "parked")
        run.pause_requested = False
        if run.status in ("paused", "parked"):
            memory_workers.release(self._shelf, run)
        self._changes.happened()
        return released

    async def wake(self, run_id: str) -> None:
        run = self._shelf.run(run_id)
        if run.status in ("running", "suspended"):
            self._shelf.wake(run)
            self._changes.happened()

    async def reopen(self, back: Full) -> bool:
        reopened = memory_turns.reopen(self._shelf, back)
        self._changes.happened()
        return reopened

    async def pause(self, run_id: str) -> bool:
        run = self._shelf.run(run_id)
        if not run.open or run.status == "parked":
            return False
        if run.status in ("suspended", "pending"):
            run.status, run.holds_slot = "paused", False
        elif run.status != "paused":
            run.pause_requested = True  # after the work under way, or when its start comes
        self._changes.happened()
        return True

    async def changed(self, since: int, timeout: float) -> int:
        return await self._changes.after(since, timeout)

    async def open_tasks(self, run_id: str) -> list[OpenTask]:
        return memory_tasks.open_tasks(self._shelf, run_id)

    async def live_workers(self) -> list[WorkerRecord]:
        return memory_workers.live(self._shelf)

    async def open_hook(self, run_id: str, key: str, token_hash: str) -> bool:
        hooks = self._shelf.hooks
        run = self._shelf.runs.get(run_id)
        if run is None or not run.open or hooks.get(token_hash, (run_id, ""))[0] != run_id:
            return False
        for token in [token for token, (_, known) in hooks.items() if known == key]:
            del hooks[token]
        hooks[token_hash] = (run_id, key)
        return True

    async def hook_owner(self, token_hash: str) -> str | None:
        return self._shelf.hooks.get(token_hash, (None, ""))[0]

    # --- workers

    async def register(
        self,
        worker_id: str,
        lease_ms: int,
        capability: str,
        definitions: Mapping[str, str],
        queues: Sequence[str] | None = None,
    ) -> None:
        memory_workers.register(self._shelf, worker_id, lease_ms, capability, definitions, queues)
        self._changes.happened()

    async def heartbeat(self, worker_id: str, lease_ms: int) -> bool:
        worker = self._shelf.workers.get(worker_id)
        if worker is None or worker.lease_until < self._shelf.clock():
            return False
        worker.lease_until = self._shelf.clock() + lease_ms
        worker.beat_due = self._shelf.clock() + lease_ms // 3
        return True

    async def declare_lost(self, worker_ids: Sequence[str]) -> None:
        memory_workers.declare_lost(self._shelf, worker_ids)

    async def has_suspects(self, waited_ms: int) -> bool:
        return memory_workers.has_suspects(self._shelf, waited_ms)

    async def claim_suspects(
        self,
        worker_id: str,
        known: tuple[Sequence[str], Sequence[str]],
        queues: Sequence[str] | None,
        group: tuple[int, int],
        waited_ms: int,
    ) -> Suspects:
        return memory_workers.claim_suspects(self._shelf, worker_id, known, queues, group, waited_ms)

    async def still_suspect(self, worker_id: str) -> list[str]:
        return memory_workers.still_suspect(self._shelf, worker_id)

    async def note_place(self, lease: Lease, location: str) -> None:
        run = self._shelf.runs.get(lease.run_id)
        if run is not None and run.epoch == lease.epoch:
            run.losses.place = location

    async def deregister(self, worker_id: str, begun: Sequence[str] = ()) -> None:
        memory_workers.deregister(self._shelf, worker_id, begun)
        self._changes.happened()

    async def claim(self, run_id: str) -> Lease:
        run = self._shelf.run(run_id)
        run.epoch += 1
        return Lease(run_id, run.epoch)

    async def claim_runs(
        self, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        return memory_workers.claim_runs(self._shelf, worker_id, known, limit, queues)

    async def claim_tasks(
        self, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
    ) -> list[ClaimedTask]:
        return memory_tasks.claim_tasks(self._shelf, worker_id, known, queues, limit)

    async def give_back_tasks(self, worker_id: str, kept: Sequence[str], begun: Sequence[str] = ()) -> None:
        memory_workers.give_back_tasks(self._shelf, worker_id, kept, begun)
        self._changes.happened()

    async def leased(self, worker_id: str) -> list[Claim]:
        mine = [run for run in self._shelf.runs.values() if run.lease_owner == worker_id]
        return [Claim(Lease(run.id, run.epoch), run.record(), NEVER) for run in mine]

    async def absorb(self, worker_id: str, run_ids: Sequence[str]) -> list[str]:
        runs = [self._shelf.runs.get(run_id) for run_id in run_ids]
        # Only of runs it has: a worker stopped past its lease still believes in runs that are others' by now (I9).
        woken = [run for run in runs if run is not None and run.resume is not None and run.lease_owner == worker_id]
        for run in woken:
            run.resume = None
        return [run.id for run in woken]

    async def mail(self, run_id: str, above: int) -> list[tuple[int, Mail]]:
        run = self._shelf.runs.get(run_id)
        return [] if run is None else [(number, decode_mail(data)) for number, data in run.mail(above)]

    async def rows_of(self, run_ids: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
        return {run_id: self._shelf.run(run_id).table.list(b"") for run_id in run_ids}

    async def mail_of(self, above: Mapping[str, int]) -> dict[str, list[tuple[int, bytes]]]:
        runs = {run_id: self._shelf.runs.get(run_id) for run_id in above}
        found = {run_id: run.mail(above[run_id]) for run_id, run in runs.items() if run is not None}
        return {run_id: mail for run_id, mail in found.items() if mail}

    async def timers(self, run_id: str) -> list[str]:
        """The locations of a run's timers that are there: one deleted by hand is not (P4)."""
        run = self._shelf.runs.get(run_id)
        return [] if run is None else sorted(run.timers, key=lambda place: (_deadline(run, place), place))

    async def commit(self, commit: Commit) -> list[Outgoing]:
        (result,) = await self.commit_group((commit,))
        if result.verdict != "committed":
            raise LeaseLostError(f"run {commit.lease.run_id}, epoch {commit.lease.epoch}: {result.verdict}")
        return list(result.undelivered)

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        results = memory_turns.commit_group(self._shelf, commits)
        self._changes.happened()
        return results

    async def end_task(self, end: TaskEnd) -> bool:
        ended = memory_tasks.end_task(self._shelf, end)
        self._changes.happened()
        return ended

    async def finish(self, task_id: str, output: bytes | None, error: bytes | None, attempts: int) -> list[str]:
        """Ends a task whoever runs it, for an engine that claims none; the runs that were told."""
        if task_id not in self._shelf.tasks:
            return []
        self._shelf.attempt(task_id).attempt = attempts
        status = "failed" if error is not None else "completed"
        return memory_tasks.close_task(self._shelf, task_id, status, output, error)

    async def holder(self, run_id: str) -> str | None:
        run = self._shelf.runs.get(run_id)
        return None if run is None else run.lease_owner

    async def steps_under_way(self, run_id: str) -> list[RunningStep]:
        run = self._shelf.runs.get(run_id)
        return [] if run is None else list(run.under_way.values())

    async def note_under_way(self, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
        for step in ended:
            if (run := self._shelf.runs.get(step.run_id)) is not None:
                run.under_way.pop(step.location, None)
        for step in begun:
            if (run := self._shelf.runs.get(step.run_id)) is not None:
                run.under_way[step.location] = step

    async def keep_details(self, key: str, run_id: str, details: bytes) -> None:
        run = self._shelf.runs.get(run_id)
        (self._shelf.details if run is None else run.details)[key] = details

    async def details(self, key: str) -> bytes | None:
        kept = next((run.details[key] for run in self._shelf.runs.values() if key in run.details), None)
        return self._shelf.details.get(key) if kept is None else kept

    async def fire_timers(self, limit: int) -> int | None:
        before = self._shelf.news
        following = memory_tasks.fire_timers(self._shelf, limit)
        self._tell_news(before)
        return following

    async def sweep(self, max_reclaims: int, limit: int) -> int:
        before = self._shelf.news
        swept = memory_workers.sweep(self._shelf, max_reclaims, limit)
        self._tell_news(before)
        return swept

    def _tell_news(self, before: int) -> None:
        if self._shelf.news != before:  # looking for work and finding none is no news
            self._changes.happened()


def _deadline(run: RunState, location: str) -> int:
    return run.timers[location]
