"""Workers in Postgres: registering, renewing, leaving, and taking over from those that are gone."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast

import psycopg

from tenuto.errors import StoreUnavailableError
from tenuto.store.endings import interrupted_task, reclaim_delay_ms, retry_delay_ms, stuck
from tenuto.store.limits import ANSWER_KEPT_MS
from tenuto.store.machine import this_process
from tenuto.store.port import ClaimedTask, RunningStep, TaskEnd
from tenuto.store.postgres_arrays import Blobs, Texts
from tenuto.store.postgres_connection import STATEMENTS, Database, Row, Transaction
from tenuto.store.postgres_mail import wake
from tenuto.store.postgres_runs import claims_of
from tenuto.store.postgres_tasks import end_task
from tenuto.store.quarantine import Suspect, Suspects, largest_group, strikes_after, together
from tenuto.store.under_way import details_of, key_of
from tenuto.system import Lane, Lock, done_on

__all__ = [
    "Heartbeat",
    "claim_suspects",
    "deregister",
    "give_back_tasks",
    "note_under_way",
    "register",
    "sweep",
    "wake_untimed",
]

SLICE: Final = 1_000


class Heartbeat:
    """Renewals, on a plain connection and a lane of their own.

    The host renews on another event loop than the rest of the store uses, and must be able to while that one is blocked
    by user code. A blocking connection belongs to no loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._making = Lock()  # workers of one process may renew on loops of their own
        self._lane: Lane | None = None
        self._connection: psycopg.Connection[Row] | None = None

    async def renew(self, worker_id: str, lease_ms: int) -> bool:
        """Whether the worker still had its leases, and has them again."""
        with self._making:
            if self._lane is None:
                self._lane = self._database.system.lane("tenuto-renewal")
        return await done_on(self._lane, partial(self._renew, {"id": worker_id, "lease": lease_ms}))

    async def close(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.put(self._drop)
            await lane.close()

    def _renew(self, values: Mapping[str, Any]) -> bool:
        try:
            return self._execute(values)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            self._drop()  # the server may have been restarted; renewing twice is renewing
        try:
            return self._execute(values)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self._drop()
            raise StoreUnavailableError(f"{self._database.shown}: {str(error).strip()}") from error

    def _execute(self, values: Mapping[str, Any]) -> bool:
        if self._connection is None:
            connection: psycopg.Connection[Row] = psycopg.Connection.connect(
                self._database.url,
                autocommit=True,
                connect_timeout=self._database.connect_seconds,
                fallback_application_name="tenuto",
            )
            connection.execute(STATEMENTS["set_up"], {"path": self._database.path})
            self._connection = connection
        if self._database.clock is not None:
            self._connection.execute(STATEMENTS["set_clock"], {"now": self._database.clock()})
        return self._connection.execute(STATEMENTS["heartbeat"], values).fetchone() is not None

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


async def register(
    transaction: Transaction,
    worker_id: str,
    lease_ms: int,
    capability: str,
    definitions: Mapping[str, str],
    queues: Sequence[str] | None,
) -> None:
    """Makes a worker known and lets parked runs try it, if it is not like the one that parked them."""
    process = this_process()
    released = await transaction.all("release_parked", {"known": list(definitions), "capability": capability})
    await transaction.run(
        "insert_worker",
        {
            "id": worker_id,
            "lease": lease_ms,
            "host": platform.node(),
            "machine": process.machine,
            "pid": os.getpid(),
            "pid_began": process.began,
            "release": _release(),
            "queues": None if queues is None else json.dumps(list(queues)),
            "capability": capability,
        },
    )
    if definitions:
        await transaction.run(
            "insert_definitions",
            {
                "ids": list(definitions),
                "hashes": list(definitions.values()),
                "kinds": [_kind_of(name) for name in definitions],
            },
        )
    await wake(transaction, (run_id for (run_id,) in released))


def _kind_of(definition_id: str) -> str:
    """What an id says it defines; one that was given a name of its own says nothing."""
    kind, slashes, _ = definition_id.partition("//")
    return kind if slashes and kind in ("workflow", "step", "twf") else ""


def _release() -> str:
    try:
        return version("tenuto")
    except PackageNotFoundError:
        return ""


async def deregister(database: Database, worker_id: str, begun: Sequence[str]) -> None:
    """Runs suspended and woken, tasks pending; neither counts as reclaim or attempt, but for tasks it had begun."""
    await _count_begun(database, worker_id, begun)
    await database.transact(lambda transaction: _leave(transaction, worker_id))


async def _leave(transaction: Transaction, worker_id: str) -> None:
    runs = await transaction.all("give_back_runs", {"worker": worker_id})
    await transaction.run("give_back_tasks", {"worker": worker_id, "kept": []})
    await wake(transaction, (run_id for (run_id,) in runs))
    await transaction.run("delete_worker", {"id": worker_id})
    await transaction.run("drop_background", {"worker": worker_id})


async def give_back_tasks(database: Database, worker_id: str, kept: Sequence[str], begun: Sequence[str]) -> None:
    """Those it does not have any more: an attempt that had begun counts (P2), the others are claimable again."""
    await _count_begun(database, worker_id, [task for task in begun if task not in kept])
    await database.write("give_back_tasks", {"worker": worker_id, "kept": list(kept)})


async def _count_begun(database: Database, worker_id: str, begun: Sequence[str]) -> None:
    """Ends attempts as if their worker had been lost; if that happens now, the sweep does the same with the rest."""
    if begun:
        for row in await database.read("begun_tasks", {"worker": worker_id, "begun": list(begun)}):
            await database.transact(partial(_end_attempt, row=row))


async def sweep(database: Database, max_reclaims: int, limit: int) -> int:
    """Takes leases from workers that are gone; how many."""
    await database.write("mark_crowded")
    runs = await database.transact(lambda transaction: _sweep_runs(transaction, max_reclaims, limit))
    lost = await database.read("lost_tasks", {"limit": limit})
    tasks = [await database.transact(partial(_end_attempt, row=row)) for row in lost]
    if runs + len(lost) < limit:
        await database.write("delete_lost_workers")
    await database.write("delete_old_answers", {"kept": ANSWER_KEPT_MS})
    return runs + sum(tasks)


async def _sweep_runs(transaction: Transaction, max_reclaims: int, limit: int) -> int:
    lost = await transaction.all("lost_runs", {"limit": limit})
    woken: list[str] = []
    for run_id, capability, pause_requested, reclaims, before, alone, place, survived_ms in lost:
        strikes = strikes_after(before, reclaims, alone=alone)
        values: dict[str, Any] = {"id": run_id, "status": "suspended", "reason": None, "parked_by": None}
        values.update(strikes=strikes, survived=survived_ms)
        if strikes >= max_reclaims:
            values.update(status="parked", reason=stuck(run_id, strikes, place), parked_by=capability)
        elif pause_requested:
            values.update(status="paused")  # asked for while it was leased
        await transaction.run("sweep_run", values)
        if values["status"] == "suspended":
            delay = reclaim_delay_ms(reclaims + 1)
            if delay:
                await transaction.run("start_reclaim", {"run": run_id, "delay": delay})
            else:
                woken.append(run_id)
    await wake(transaction, woken)
    return len(lost)


async def _end_attempt(transaction: Transaction, row: Row) -> bool:
    """A begun attempt without its worker has failed; with none left nobody knows whether its effect happened (P2)."""
    task_id, epoch, target, operation, attempt, max_attempts, backoff_ms, backoff_max_ms, cancelled, now = row[:10]
    retry_at, error = None, None
    if cancelled:
        pass  # it was asked to stop, and has
    elif attempt < max_attempts:
        retry_at = now + retry_delay_ms(backoff_ms, backoff_max_ms, attempt)
    else:
        error = interrupted_task(target, operation, attempt)
    # Under the epoch it was seen with: if it ended or was claimed meanwhile, this is refused like any late end.
    ended = await end_task(transaction, TaskEnd(task_id, epoch, None, error, attempt, retry_at, cancelled=cancelled))
    if ended:
        await transaction.run("take_task", {"id": task_id, "reclaims": row[10], "survived": row[11]})
    return ended


async def claim_suspects(
    transaction: Transaction,
    database: Database,
    worker_id: str,
    known: tuple[Sequence[str], Sequence[str]],
    queues: Sequence[str] | None,
    group: tuple[int, int],
    waited_ms: int,
) -> Suspects:
    values: dict[str, Any] = {"limit": largest_group(group[0]), "waited": waited_ms}
    runs = await transaction.all("suspect_runs", {**values, "known": list(known[0])})
    served = None if queues is None else list(queues)
    tasks = await transaction.all("suspect_tasks", {**values, "known": list(known[1]), "queues": served})
    found = [(row, True) for row in runs] + [(row, False) for row in tasks]
    found.sort(key=lambda one: one[0][0])
    found.sort(key=lambda one: one[0][3], reverse=True)
    chosen = together((Suspect(row[0], row[1], row[2], is_run) for row, is_run in found), *group)
    ids = [suspect.id for suspect in chosen if suspect.is_run]
    leased = {"worker": worker_id, "ids": ids, "resumes": [row[4] for row in runs if row[0] in ids]}
    claimed = await transaction.all("lease_suspects", leased) if ids else []
    attempts = {"worker": worker_id, "ids": [item.id for item in chosen if not item.is_run], "slots": False}
    begun = await transaction.all("lease_tasks", attempts) if attempts["ids"] else []
    survived_ms = max((suspect.survived_ms for suspect in chosen), default=0)
    return Suspects(claims_of(database, claimed), [ClaimedTask(*row[:13]) for row in begun], survived_ms)


async def wake_untimed(database: Database, after: str) -> str:
    """Wakes suspended runs of the next slice that miss a timer row; where the slice after it begins."""
    found = await database.read("timed_slice", {"after": after, "limit": SLICE})
    missing = [run_id for run_id, is_missing in found if is_missing]
    if missing:
        await database.write("wake", {"runs": missing})
    return cast("str", found[-1][0]) if len(found) == SLICE else ""


async def note_under_way(database: Database, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
    if ended:
        await database.write("forget_under_way", {"keys": [key_of(step) for step in ended]})
    if begun:
        values = {
            "keys": Texts([key_of(step) for step in begun]),
            "runs": Texts([step.run_id for step in begun]),
            "details": Blobs([details_of(step).encode() for step in begun]),
        }
        await database.write("note_under_way", values)
