"""Workers in SQLite: registering, renewing, leaving, and taking over from those that are gone."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from tenuto.store.connection import Connection, Row
from tenuto.store.endings import interrupted_task, reclaim_delay_ms, retry_delay_ms, stuck
from tenuto.store.limits import ANSWER_KEPT_MS
from tenuto.store.machine import this_process
from tenuto.store.port import RunningStep
from tenuto.store.quarantine import Suspect, Suspects, largest_group, strikes_after, together
from tenuto.store.sqlite_mail import listed, tell_end, wake
from tenuto.store.sqlite_runs import lease
from tenuto.store.sqlite_tasks import cancel_begun, lease_tasks, retry_task
from tenuto.store.under_way import details_of, key_of

__all__ = [
    "claim_suspects",
    "declare_lost",
    "deregister",
    "heartbeat",
    "note_under_way",
    "register",
    "suspects",
    "sweep",
    "wake_untimed",
]

SLICE: int = 1_000


def register(
    connection: Connection,
    worker_id: str,
    lease_ms: int,
    capability: str,
    definitions: Mapping[str, str],
    queues: Sequence[str] | None,
) -> None:
    """Makes a worker known and lets parked runs try it, if it is not like the one that parked them."""
    process = this_process()
    connection.run(
        "insert_worker",
        {
            "id": worker_id,
            "lease": lease_ms,
            "host": platform.node(),
            "machine": process.machine,
            "pid": os.getpid(),
            "pid_began": process.began,
            "release": _release(),
            "queues": None if queues is None else listed(queues),
            "capability": capability,
        },
    )
    connection.many("insert_definition", [(name, digest, kind_of(name)) for name, digest in definitions.items()])
    released = connection.all("release_parked", {"known": listed(definitions), "capability": capability})
    wake(connection, (run for (run,) in released))


def kind_of(definition_id: str) -> str:
    """What an id says it defines; one that was given a name of its own says nothing."""
    kind, slashes, _ = definition_id.partition("//")
    return kind if slashes and kind in ("workflow", "step", "twf") else ""


def _release() -> str:
    try:
        return version("tenuto")
    except PackageNotFoundError:
        return ""


def heartbeat(connection: Connection, worker_id: str, lease_ms: int) -> bool:
    return connection.one("heartbeat", {"id": worker_id, "lease": lease_ms}) is not None


def deregister(connection: Connection, worker_id: str, begun: Sequence[str]) -> None:
    """Runs suspended and woken, tasks pending; neither counts as reclaim or attempt, but for tasks it had begun."""
    wake(connection, (run for (run,) in connection.all("give_back_runs", {"worker": worker_id})))
    give_back_tasks(connection, worker_id, (), begun)
    connection.run("delete_worker", {"id": worker_id})
    connection.run("drop_background", {"worker": worker_id})


def give_back_tasks(connection: Connection, worker_id: str, kept: Sequence[str], begun: Sequence[str]) -> None:
    """Those it does not have any more: an attempt that had begun counts (P2), the others are claimable again."""
    if begun := [task for task in begun if task not in kept]:
        for row in connection.all("begun_tasks", {"worker": worker_id, "begun": listed(begun)}):
            _end_attempt(connection, row)
    connection.run("give_back_tasks", {"worker": worker_id, "kept": listed(kept)})


def sweep(connection: Connection, max_reclaims: int, limit: int) -> int:
    """Takes leases from workers that are gone; how many."""
    connection.run("mark_crowded")
    runs = connection.all("lost_runs", {"limit": limit})
    for row in runs:
        _sweep_run(connection, row, max_reclaims)
    tasks = connection.all("lost_tasks", {"limit": limit - len(runs)})
    for row in tasks:
        _end_attempt(connection, row)
    lost = len(runs) + len(tasks)
    if lost < limit:
        connection.run("delete_lost_workers")
    connection.run("delete_old_answers", {"kept": ANSWER_KEPT_MS})
    return lost


def _sweep_run(connection: Connection, row: Row, max_reclaims: int) -> None:
    run_id, capability, pause_requested, reclaims, strikes, alone, place, survived_ms = row
    strikes = strikes_after(strikes, reclaims, alone=bool(alone))
    values = {"id": run_id, "status": "suspended", "reason": None, "parked_by": None}
    values.update(strikes=strikes, survived=survived_ms)
    if strikes >= max_reclaims:
        values.update(status="parked", reason=stuck(run_id, strikes, place), parked_by=capability)
    elif pause_requested:
        values.update(status="paused")  # asked for while it was leased
    connection.run("sweep_run", values)
    if values["status"] != "suspended":
        return
    delay = reclaim_delay_ms(reclaims + 1)
    if delay:
        connection.run("start_reclaim", {"run": run_id, "delay": delay})
    else:
        wake(connection, (run_id,))


def _end_attempt(connection: Connection, row: Row) -> None:
    """A begun attempt without its worker has failed; with none left nobody knows whether its effect happened (P2)."""
    task_id, target, operation, attempt, max_attempts, backoff_ms, backoff_max_ms = row[:7]
    cancelled, reclaims, survived_ms = row[7:]
    if cancelled:
        cancel_begun(connection, task_id, target, operation or "", attempt)
    elif attempt < max_attempts:
        delay = retry_delay_ms(backoff_ms, backoff_max_ms, attempt)
        retry_task(connection, task_id, None, connection.now + delay)
    else:
        error = interrupted_task(target, operation or "", attempt)
        connection.run("end_task", {"id": task_id, "status": "failed", "output": None, "error": error})
        tell_end(connection, task_id, None, error, attempt)
    connection.run("sweep_task", {"id": task_id, "reclaims": reclaims, "survived": survived_ms})


def declare_lost(connection: Connection, worker_ids: Sequence[str]) -> None:
    connection.run("declare_lost", {"ids": listed(worker_ids)})
    connection.run("drop_lost_background", {"ids": listed(worker_ids)})


def suspects(
    connection: Connection,
    known: tuple[Sequence[str], Sequence[str]] | None,
    queues: Sequence[str] | None,
    limit: int,
    waited_ms: int,
) -> list[Suspect]:
    """Those that can be claimed, the last claimed first; known None: whoever knows them."""
    runs, steps = (None, None) if known is None else map(listed, known)
    served = None if queues is None else listed(queues)
    values = {"runs": runs, "steps": steps, "queues": served, "waited": waited_ms, "limit": limit}
    return [Suspect(*row) for row in connection.all("suspects", values)]


def claim_suspects(
    connection: Connection,
    worker_id: str,
    known: tuple[Sequence[str], Sequence[str]],
    queues: Sequence[str] | None,
    group: tuple[int, int],
    waited_ms: int,
) -> Suspects:
    found = suspects(connection, known, queues, largest_group(group[0]), waited_ms)
    chosen = together(found, *group)
    runs = [suspect.id for suspect in chosen if suspect.is_run]
    connection.run("delete_resumes", {"runs": listed(runs)})  # they become the leases
    return Suspects(
        lease(connection, worker_id, runs),
        lease_tasks(connection, worker_id, [suspect.id for suspect in chosen if not suspect.is_run]),
        max((suspect.survived_ms for suspect in chosen), default=0),
    )


def wake_untimed(connection: Connection, after: str) -> str:
    """Wakes suspended runs of the next slice that miss a timer row; where the slice after it begins."""
    slice_ = connection.all("timed_slice", {"after": after, "limit": SLICE})
    wake(connection, (run for run, missing in slice_ if missing))
    return slice_[-1][0] if len(slice_) == SLICE else ""


def note_under_way(connection: Connection, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
    if ended:
        connection.run("forget_under_way", {"keys": json.dumps([key_of(step) for step in ended])})
    if begun:
        steps = [[key_of(step), step.run_id, details_of(step)] for step in begun]
        connection.run("note_under_way", {"steps": json.dumps(steps)})
