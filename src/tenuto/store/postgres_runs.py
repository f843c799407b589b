"""Runs in Postgres: creating, listing, reading, claiming, deleting; and what an operator does to one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from tenuto.errors import RunNotFoundError
from tenuto.store.endings import terminated_child
from tenuto.store.listing import filter_values, list_values
from tenuto.store.port import NEVER, Claim, Lease, Listing, NewRun, RunFilter, RunRecord
from tenuto.store.postgres_arrays import Blobs, Texts
from tenuto.store.postgres_connection import Database, Row, Transaction
from tenuto.store.postgres_mail import cancel_children, close_runs, lock, tell_end, wake
from tenuto.store.run_rows import record_of_columns

__all__ = [
    "claim_one",
    "claim_runs",
    "claims_of",
    "count",
    "delete",
    "find",
    "get_all",
    "leased",
    "listing",
    "new_run",
    "open_hook",
    "pause",
    "ranges",
    "release",
    "require",
    "rows",
    "rows_at",
    "rows_of",
    "terminate",
    "wake_open",
]

Range: TypeAlias = tuple[str, bytes, bytes]  # a run's id, and the half-open range of its keys


def new_run(run: NewRun) -> dict[str, Any]:
    """A run to be, as `insert_run` takes it."""
    told = run.parent if run.parent is not None and not run.detached else (None, None)
    started = run.parent if run.parent is not None else (None, None)
    first_rows = dict(run.rows)
    return {
        "id": run.id,
        "target": run.target,
        "queue": run.queue,
        "priority": run.priority,
        "delay": run.delay_ms,
        "status": "scheduled" if run.delay_ms > 0 else "pending",
        "parent": told[0],
        "parent_op": told[1],
        "started_by": started[0],
        "started_op": started[1],
        "definition": run.definition,
        "key": run.key,
        "partition": run.partition,
        "attributes": json.dumps(dict(run.attributes)) if run.attributes else None,
        "keys": list(first_rows),
        "values": list(first_rows.values()),
    }


def record_of(row: Row) -> RunRecord:
    """A run out of the columns every statement about runs gives."""
    attributes: Any = row[15]
    return record_of_columns(row, attributes if attributes is not None else {})


async def get_all(database: Database, run_ids: Sequence[str]) -> dict[str, RunRecord | None]:
    return {row[0]: record_of(row) for row in await database.read("get_runs", {"ids": Texts(run_ids)})}


async def require(database: Database, run_id: str) -> None:
    if not await database.read("get_run", {"id": run_id}):
        raise RunNotFoundError(f"there is no run {run_id!r}")


async def find(database: Database, which: RunFilter | None) -> list[RunRecord]:
    if which is None:
        return [record_of(row) for row in await database.read("all_runs")]
    return [record_of(row) for row in await database.read("find_runs", list_values(which))]


async def listing(database: Database, which: RunFilter) -> Listing:
    found = await database.read("find_runs", list_values(which))
    more = bool(found) and len(found) >= which.limit
    return Listing([record_of(row) for row in found], (found[-1][16], found[-1][17]) if more else None)


async def count(database: Database, which: RunFilter) -> dict[str, int]:
    return {status: number for status, number in await database.read("count_runs", filter_values(which))}


async def rows_at(database: Database, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
    found = await database.read("rows_at", {"ids": Texts(run_ids), "key": key})
    return {run_id: bytes(value) for run_id, value in found}


async def rows(database: Database, run_id: str) -> list[tuple[bytes, bytes]]:
    found = await database.read("all_rows", {"id": run_id})
    if not found:
        await require(database, run_id)
    return [(key, value) for key, value in found]


async def rows_of(database: Database, run_ids: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
    found: dict[str, list[tuple[bytes, bytes]]] = {run_id: [] for run_id in run_ids}
    for run_id, key, value in await database.read("rows_of_runs", {"ids": Texts(run_ids)}):
        found[run_id].append((key, value))
    return found


async def ranges(database: Database, asked: Sequence[Range]) -> dict[Range, list[tuple[bytes, bytes]]]:
    values = {
        "runs": Texts([run_id for run_id, _, _ in asked]),
        "firsts": Blobs([first for _, first, _ in asked]),
        "lasts": Blobs([last for _, _, last in asked]),
    }
    found: dict[Range, list[tuple[bytes, bytes]]] = {}
    for number, key, value in await database.read("ranges_of_runs", values):
        found.setdefault(asked[int(number) - 1], []).append((key, value))
    return found


# --- claims


def claim_of(row: Row) -> Claim:
    """The claim of a run that has just got a new epoch."""
    record = record_of(row)
    return Claim(Lease(record.id, record.epoch), record, record.epoch - 1)


async def leased(database: Database, worker_id: str) -> list[Claim]:
    records = [record_of(row) for row in await database.read("leased_runs", {"worker": worker_id})]
    return [Claim(Lease(record.id, record.epoch), record, NEVER) for record in records]


async def claim_one(database: Database, run_id: str) -> Lease:
    found = await database.write("raise_epoch", {"run": run_id})
    if not found:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    return Lease(run_id, found[0][0])


async def claim_runs(
    database: Database, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None
) -> list[Claim]:
    """Wake-ups first, always; then what has not begun yet."""
    claims: list[Claim] = []
    values = {"worker": worker_id, "known": list(known), "queues": None if queues is None else list(queues)}
    while len(claims) < limit:
        answer = await database.write("claim_runs", {**values, "limit": limit - len(claims)})
        claims.extend(claims_of(database, answer))
        if not answer[0][1]:
            break  # no wake-up without a meaning has taken the place of a run
    return claims


def claims_of(database: Database, answer: Sequence[Row]) -> list[Claim]:
    """Claims out of the rows of a statement that leased runs."""
    if answer:
        database.learn(answer[0][0])  # what made these runs claimable is not after this
    records = [record_of(row[2:18]) for row in answer if row[2] is not None]
    return [Claim(Lease(record.id, record.epoch), record, record.epoch - 1) for record in records]


# --- operators


async def delete(transaction: Transaction, run_ids: Sequence[str]) -> None:
    ids = {"ids": list(run_ids)}
    await lock(transaction, run_ids, closing=list(run_ids))
    await transaction.run("unlink_children", ids)
    await transaction.run("delete_belongings", ids)
    await transaction.run("delete_executions", ids)


async def terminate(transaction: Transaction, run_id: str, reason: str | None) -> bool:
    """Closes a run at once, whoever has it (V3), with everything that hangs on it."""
    found = await lock(transaction, (run_id,), closing=(run_id,), ending=(run_id,))
    if run_id not in found:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    if await transaction.one("terminate", {"run": run_id, "reason": reason}) is None:
        return False
    tasks = [task_id for (task_id,) in await transaction.all("open_tasks", {"run": run_id})]
    if tasks:
        cancelled = await transaction.all("cancel_waiting_tasks", {"ids": tasks})
        await transaction.run("delete_timers", {"ids": [row[0] for row in cancelled]})
        await transaction.run("flag_running_tasks", {"ids": tasks})
    await close_runs(transaction, (run_id,))
    await cancel_children(transaction, run_id)
    await tell_end(transaction, run_id, None, terminated_child(run_id, reason))
    return True


async def pause(database: Database, run_id: str) -> bool:
    if await database.write("pause_now", {"run": run_id}):
        return True
    await require(database, run_id)
    return False


async def release(transaction: Transaction, run_id: str) -> bool:
    released = await transaction.one("unpause", {"run": run_id})
    if released is None:
        if await transaction.one("get_run", {"id": run_id}) is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return False
    if released == ("suspended",):
        await wake(transaction, (run_id,))
    return True


async def wake_open(transaction: Transaction, run_id: str) -> None:
    """A wake-up, where it can mean anything."""
    run = (await lock(transaction, (run_id,))).get(run_id)
    if run is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    if run[2] in ("running", "suspended"):
        await wake(transaction, (run_id,))


async def open_hook(transaction: Transaction, run_id: str, key: str, token_hash: str) -> bool:
    """Whether an open run has a hook's token now; the same hook may come again, with another token."""
    values = {"run": run_id, "key": key, "token": token_hash}
    await lock(transaction, (run_id,))  # it is not closed meanwhile, and its hooks with it
    await transaction.run("drop_hook", values)
    return await transaction.one("open_hook", values) is not None
