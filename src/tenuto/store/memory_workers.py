"""Workers in memory: registering, leaving, and taking over from those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenuto.kernel.location import text
from tenuto.store.endings import interrupted_task, reclaim_delay_ms, retry_delay_ms, stuck
from tenuto.store.limits import ANSWER_KEPT_MS
from tenuto.store.memory_state import Attempts, Losses, RunState, Shelf, Worker
from tenuto.store.memory_tasks import cancel_begun, close_task, lease_task
from tenuto.store.port import Claim, Lease, WorkerRecord
from tenuto.store.quarantine import SUSPECT, Suspect, Suspects, strikes_after, together

__all__ = [
    "claim_runs",
    "claim_suspects",
    "declare_lost",
    "deregister",
    "has_suspects",
    "lease_run",
    "live",
    "register",
    "still_suspect",
    "sweep",
]


def register(
    shelf: Shelf, worker_id: str, lease_ms: int, capability: str, known: Iterable[str], queues: Sequence[str] | None
) -> None:
    """Makes a worker known and lets parked runs try it, if it is not like the one that parked them."""
    shelf.workers[worker_id] = Worker(
        shelf.clock() + lease_ms,
        shelf.clock() + lease_ms // 3,
        capability,
        None if queues is None else tuple(queues),
        shelf.clock(),
    )
    definitions = set(known)
    shelf.definitions |= definitions
    for run in shelf.runs.values():
        if run.status == "parked" and run.new.target in definitions and run.parked_by != capability:
            release(shelf, run)


def release(shelf: Shelf, run: RunState) -> None:
    """Lets a paused or parked run go on."""
    run.status = "suspended"
    run.reason = run.parked_by = None
    run.losses.reclaims = 0
    shelf.wake(run)


def deregister(shelf: Shelf, worker_id: str, begun: Sequence[str]) -> None:
    """Runs suspended and woken, tasks pending; neither counts as reclaim or attempt, but for tasks it had begun."""
    for run in shelf.runs.values():
        if run.lease_owner == worker_id:
            run.status, run.lease_owner = "suspended", None
            run.epoch += 1
            shelf.wake(run)
    give_back_tasks(shelf, worker_id, (), begun)
    shelf.workers.pop(worker_id, None)
    for name in [name for name, (owner, _) in shelf.background.items() if owner == worker_id]:
        del shelf.background[name]


def give_back_tasks(shelf: Shelf, worker_id: str, kept: Sequence[str], begun: Sequence[str]) -> None:
    """Those it does not have any more: an attempt that had begun counts (P2), the others are claimable again."""
    for task_id, attempts in list(shelf.attempts.items()):
        if attempts.lease_owner != worker_id or task_id in kept:
            continue
        if task_id in begun:
            _end_attempt(shelf, task_id)
            continue
        attempts.status, attempts.lease_owner = "pending", None
        attempts.holds_slot = False
        attempts.epoch += 1
        attempts.attempt -= 1
        attempts.ready_at = shelf.clock()


def claim_runs(
    shelf: Shelf, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None
) -> list[Claim]:
    """Wake-ups first, always; then what has not begun yet."""
    definitions = set(known)
    woken = sorted((run for run in shelf.runs.values() if run.resume is not None), key=_turn)
    claimed: list[RunState] = []
    for run in woken:
        if len(claimed) == limit:
            break
        known_here = run.new.target in definitions and run.losses.reclaims < SUSPECT
        if run.lease_owner is not None or (run.status == "suspended" and not known_here):
            continue
        run.resume = None  # of a run that is not suspended it means nothing
        if run.status == "suspended":
            claimed.append(run)
    limited = shelf.limited()
    fresh = [
        run
        for run in shelf.runs.values()
        if run.status == "pending"
        and run.new.target in definitions
        and run.new.queue not in limited
        and (queues is None or run.new.queue in queues)
    ]
    fresh.sort(key=lambda run: (-run.new.priority, run.ready_at, run.id))
    claimed.extend(fresh[: limit - len(claimed)])
    return [lease_run(shelf, run, worker_id) for run in claimed]


def _turn(run: RunState) -> int:
    return run.resume if run.resume is not None else 0


def lease_run(shelf: Shelf, run: RunState, worker_id: str) -> Claim:
    """A resume or a first start becomes the lease."""
    run.losses.lease(shelf.clock())
    run.status, run.lease_owner = "running", worker_id
    run.epoch += 1
    if run.started_at is None:
        run.started_at = shelf.clock()
    return Claim(Lease(run.id, run.epoch), run.record(), run.epoch - 1)


def declare_lost(shelf: Shelf, worker_ids: Sequence[str]) -> None:
    now = shelf.clock()
    for worker in [shelf.workers[key] for key in worker_ids if key in shelf.workers]:
        worker.lease_until = min(worker.lease_until, now - 1)
    for name in [name for name, (owner, _) in shelf.background.items() if owner in worker_ids]:
        del shelf.background[name]


def suspects(
    shelf: Shelf, known: tuple[Sequence[str], Sequence[str]], queues: Sequence[str] | None, waited_ms: int
) -> list[Suspect]:
    """Those that can be claimed, the last claimed first."""
    since, limited = shelf.clock() - waited_ms, shelf.limited()
    found: list[tuple[int, Suspect]] = []
    for run in shelf.runs.values():
        waits = run.status == "suspended" and run.resume is not None and run.woken_at <= since
        if waits and run.losses.reclaims >= SUSPECT and run.new.target in known[0]:
            found.append((run.losses.leased_at or 0, Suspect(run.id, *_losses(run.losses), True)))
    for task_id, (_, task) in shelf.tasks.items():
        attempts = shelf.attempt(task_id)
        waits = attempts.status == "pending" and attempts.ready_at <= since and task.queue not in limited
        served = task.target in known[1] and (queues is None or task.queue in queues)
        if waits and served and attempts.losses.reclaims >= SUSPECT:
            found.append((attempts.losses.leased_at or 0, Suspect(task_id, *_losses(attempts.losses), False)))
    return [suspect for _, suspect in sorted(found, key=lambda one: (-one[0], one[1].id))]


def _losses(losses: Losses) -> tuple[int, int]:
    return losses.reclaims, losses.survived_ms


def has_suspects(shelf: Shelf, waited_ms: int) -> bool:
    """Whether any wait for so long, whoever knows them."""
    targets = [run.new.target for run in shelf.runs.values()], [task.target for _, task in shelf.tasks.values()]
    return bool(suspects(shelf, targets, None, waited_ms))


def still_suspect(shelf: Shelf, worker_id: str) -> list[str]:
    items: list[tuple[str, RunState | Attempts]] = [*shelf.runs.items(), *shelf.attempts.items()]
    return [key for key, item in items if item.lease_owner == worker_id and item.losses.reclaims >= SUSPECT]


def claim_suspects(
    shelf: Shelf,
    worker_id: str,
    known: tuple[Sequence[str], Sequence[str]],
    queues: Sequence[str] | None,
    group: tuple[int, int],
    waited_ms: int,
) -> Suspects:
    chosen = together(suspects(shelf, known, queues, waited_ms), *group)
    runs = [shelf.runs[suspect.id] for suspect in chosen if suspect.is_run]
    for run in runs:
        run.resume = None
    return Suspects(
        [lease_run(shelf, run, worker_id) for run in runs],
        [lease_task(shelf, worker_id, suspect.id) for suspect in chosen if not suspect.is_run],
        max((suspect.survived_ms for suspect in chosen), default=0),
    )


def sweep(shelf: Shelf, max_reclaims: int, limit: int) -> int:
    """Takes leases from workers that are gone, and wakes runs that miss a timer; how many leases."""
    _mark_crowded(shelf)
    lost = [shelf.runs[key] for key in sorted(shelf.runs) if _is_lost(shelf, shelf.runs[key].lease_owner)][:limit]
    for run in lost:
        _sweep_run(shelf, run, max_reclaims)
    tasks = sorted(key for key, attempts in shelf.attempts.items() if _is_lost(shelf, attempts.lease_owner))
    tasks = tasks[: limit - len(lost)]
    shelf.news += len(lost) + len(tasks)
    for task_id in tasks:
        owner = shelf.workers.get(shelf.attempt(task_id).lease_owner or "")
        _note_loss(shelf, shelf.attempt(task_id).losses, owner, alone=False)
        _end_attempt(shelf, task_id)
    now = shelf.clock()
    if len(lost) + len(tasks) < limit:
        _forget_lost_workers(shelf, now)
    for run in shelf.runs.values():
        run.answers = {key: kept for key, kept in run.answers.items() if kept[1] > now - ANSWER_KEPT_MS}
        if run.status == "suspended" and run.timer_count > len(run.timers):
            shelf.wake(run)
    return len(lost) + len(tasks)


def _is_lost(shelf: Shelf, owner: str | None) -> bool:
    if owner is None:
        return False
    worker = shelf.workers.get(owner)
    return worker is None or worker.lease_until < shelf.clock()


def _forget_lost_workers(shelf: Shelf, now: int) -> None:
    """With their leases swept, nothing needs them."""
    for worker_id in [key for key, worker in shelf.workers.items() if worker.lease_until < now]:
        del shelf.workers[worker_id]


def _mark_crowded(shelf: Shelf) -> None:
    """Notes which lost workers had several leases, before those are taken one by one: none of them was alone."""
    owners = [run.lease_owner for run in shelf.runs.values()]
    owners += [attempts.lease_owner for attempts in shelf.attempts.values()]
    for worker_id, worker in shelf.workers.items():
        if owners.count(worker_id) > 1 and _is_lost(shelf, worker_id):
            worker.crowded = True


def _note_loss(shelf: Shelf, losses: Losses, owner: Worker | None, *, alone: bool) -> None:
    died = shelf.clock() if owner is None else min(shelf.clock(), owner.beat_due)
    losses.survived_ms = 0 if losses.leased_at is None else max(0, died - losses.leased_at)
    losses.strikes = strikes_after(losses.strikes, losses.reclaims, alone=alone)
    losses.reclaims += 1


def _sweep_run(shelf: Shelf, run: RunState, max_reclaims: int) -> None:
    owner = shelf.workers.get(run.lease_owner or "")
    _note_loss(shelf, run.losses, owner, alone=owner is not None and not owner.crowded)
    run.lease_owner = None
    run.epoch += 1
    if run.losses.strikes >= max_reclaims:
        run.status, run.holds_slot = "parked", False
        run.reason = stuck(run.id, run.losses.strikes, run.losses.place)
        newest = list(shelf.workers.values())[-1:]
        run.parked_by = owner.capability if owner is not None else (newest[0].capability if newest else None)
    elif run.pause_requested:
        run.status, run.holds_slot = "paused", False
    else:
        run.status = "suspended"
        delay = reclaim_delay_ms(run.losses.reclaims)
        if delay:
            run.alarms["reclaim"] = shelf.clock() + delay
        else:
            shelf.wake(run)
    run.pause_requested = False


def _end_attempt(shelf: Shelf, task_id: str) -> None:
    """A begun attempt without its worker has failed; with none left nobody knows whether its effect happened (P2)."""
    _, task = shelf.tasks[task_id]
    attempts = shelf.attempt(task_id)
    attempts.lease_owner = None
    attempts.holds_slot = False
    attempts.epoch += 1
    if attempts.cancel_requested:
        cancel_begun(shelf, task_id)
        return
    if attempts.attempt >= task.max_attempts:
        error = interrupted_task(task.target, text(task.location), attempts.attempt)
        close_task(shelf, task_id, "failed", None, error)
        return
    delay = retry_delay_ms(task.backoff_ms, task.backoff_max_ms, attempts.attempt)
    attempts.status, attempts.ready_at = "scheduled", shelf.clock() + delay


def live(shelf: Shelf) -> list[WorkerRecord]:
    """Workers whose lease is not over; all of them are in this process."""
    now = shelf.clock()
    return [
        WorkerRecord(worker_id, "", 0, "", worker.queues, worker.started_at, worker.lease_until)
        for worker_id, worker in shelf.workers.items()
        if worker.lease_until >= now
    ]
