"""Runs in SQLite: creating, listing, reading, claiming, deleting; and what an operator does to one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from tenuto.codec.keys import prefix_end
from tenuto.errors import RunNotFoundError
from tenuto.kernel.records import Mail
from tenuto.store.connection import Connection, Row
from tenuto.store.endings import terminated_child
from tenuto.store.listing import filter_values, list_values
from tenuto.store.port import NEVER, Claim, Lease, Listing, NewRun, RunFilter, RunRecord
from tenuto.store.run_rows import record_of_columns
from tenuto.store.sqlite_mail import cancel_children, empty_closed, listed, send, tell_end, wake

__all__ = [
    "claim_one",
    "claim_runs",
    "count",
    "create",
    "delete",
    "find",
    "get",
    "insert_begun",
    "insert_run",
    "lease",
    "leased",
    "listing",
    "open_hook",
    "page",
    "pause",
    "put_rows",
    "ready",
    "record_of",
    "release",
    "rows",
    "rows_at",
    "rows_of",
    "signal_and_claim",
    "terminate",
    "wake_open",
]


def create(connection: Connection, run: NewRun) -> bool:
    """Whether it is there now; an id, or an open key of its queue, that is taken changes nothing."""
    if not insert_run(connection, run):
        return False
    put_rows(connection, [(run.id, key, value) for key, value in run.rows])
    if run.delay_ms > 0:
        connection.run("insert_start", {"id": run.id, "fire_at": connection.now + run.delay_ms})
    return True


def put_rows(connection: Connection, puts: Sequence[tuple[str, bytes, bytes]]) -> None:
    """Writes rows of any runs: run id, key, value."""
    whole = len(puts) - len(puts) % 16
    if whole:
        sixteens = [tuple(chain.from_iterable(puts[first : first + 16])) for first in range(0, whole, 16)]
        connection.many("put_sixteen_rows", sixteens)
    if whole < len(puts):
        connection.many("put_rows", puts[whole:])


def insert_run(connection: Connection, run: NewRun) -> bool:
    """Whether a run's own row is there now."""
    started_by, started_op = run.parent or (None, None)
    told = (None, None) if run.detached else (started_by, started_op)
    values = (
        run.id,
        run.target,
        run.queue,
        run.priority,
        connection.now + run.delay_ms,
        "scheduled" if run.delay_ms > 0 else "pending",
        *told,
        started_by,
        started_op,
        run.definition,
        run.key,
        run.partition,
        json.dumps(dict(run.attributes)) if run.attributes else None,
        connection.now,
    )
    return connection.count("insert_run", values) > 0


def insert_begun(
    connection: Connection, run: NewRun, definition: str, alarm: int | None, timers: int, waits: bool
) -> bool:
    """Whether the row of a run that was begun with is there now, under its worker's lease unless it waits."""
    values = (
        run.id,
        run.target,
        run.queue,
        run.priority,
        connection.now,
        "suspended" if waits else "running",
        definition,
        run.key,
        run.partition,
        json.dumps(dict(run.attributes)) if run.attributes else None,
        None if waits else run.worker,
        alarm,
        timers,
        connection.now if run.begun_at is None else run.begun_at,
    )
    return connection.count("begin_run", values) > 0


def record_of(row: Row) -> RunRecord:
    """A run out of the columns every statement about runs gives."""
    return record_of_columns(row, {} if row[15] is None else _attributes(row[15]))


def _attributes(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None  # damaged: they serve for searching, and must not keep the other runs of a claim from being read


def get(connection: Connection, run_id: str) -> RunRecord | None:
    row = connection.one("get_run", {"id": run_id})
    return None if row is None else record_of(row)


def find(connection: Connection, which: RunFilter | None) -> list[RunRecord]:
    if which is None:
        return [record_of(row) for row in connection.all("all_runs")]
    return [record_of(row) for row in connection.all("find_runs", _of_sqlite(list_values(which)))]


def listing(connection: Connection, which: RunFilter) -> Listing:
    found = connection.all("find_runs", _of_sqlite(list_values(which)))
    more = bool(found) and len(found) >= which.limit
    return Listing([record_of(row) for row in found], (found[-1][12], found[-1][16]) if more else None)


def count(connection: Connection, which: RunFilter) -> dict[str, int]:
    return dict(connection.all("count_runs", _of_sqlite(filter_values(which))))


def page(connection: Connection, which: RunFilter, after: str, until: int) -> list[tuple[str, str]]:
    values = {**filter_values(which), "limit": which.limit, "after": after, "until": until}
    return [(run_id, status) for run_id, status in connection.all("page_runs", _of_sqlite(values))]


def _of_sqlite(values: dict[str, Any]) -> dict[str, Any]:
    statuses = values["statuses"]
    return {**values, "statuses": None if statuses is None else json.dumps(statuses)}


def rows_at(connection: Connection, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
    return dict(connection.all("rows_at", {"ids": listed(run_ids), "key": key}))


def rows(connection: Connection, run_id: str, prefix: bytes) -> list[tuple[bytes, bytes]]:
    if prefix:
        found = connection.all("range_rows", {"id": run_id, "first": prefix, "last": prefix_end(prefix)})
    else:
        found = connection.all("all_rows", {"id": run_id})
    if not found and get(connection, run_id) is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    return [(key, value) for key, value in found]


def rows_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
    found: dict[str, list[tuple[bytes, bytes]]] = {run_id: [] for run_id in run_ids}
    for run_id, key, value in connection.all("rows_of_runs", {"ids": listed(run_ids)}):
        found[run_id].append((key, value))
    for of_run in found.values():
        of_run.sort()  # which is a look at rows that are in order
    return found


def signal_and_claim(
    connection: Connection, worker_id: str, run_id: str, mail: Mail, message_id: str | None
) -> tuple[int | None, Claim | None]:
    number = send(connection, run_id, mail, message_id, claims=True)
    record = get(connection, run_id)
    if number is None or record is None or record.status != "suspended":
        return number, None
    connection.run("delete_resumes", {"runs": listed((run_id,))})  # it becomes the lease
    return number, lease(connection, worker_id, [run_id])[0]


def leased(connection: Connection, worker_id: str) -> list[Claim]:
    records = [record_of(row) for row in connection.all("leased_runs", {"worker": worker_id})]
    return [Claim(Lease(record.id, record.epoch), record, NEVER) for record in records]


def claim_one(connection: Connection, run_id: str) -> Lease:
    row = connection.one("raise_epoch", {"run": run_id})
    if row is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    return Lease(run_id, row[0])


def claim_runs(
    connection: Connection, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None
) -> list[Claim]:
    """Wake-ups first, always; then what has not begun yet."""
    definitions = listed(known)
    resumed: list[str] = []
    while len(resumed) < limit:
        wanted = limit - len(resumed)
        picked = connection.all("pick_resumes", {"known": definitions, "limit": wanted})
        if not picked:
            break
        connection.run("delete_executions", {"ids": listed(resume for resume, _, _ in picked)})
        # A resume of a run that is not suspended means nothing, and is gone now.
        resumed.extend(run for _, run, status in picked if status == "suspended")
        if len(picked) < wanted:
            break
    fresh = ready(connection, "workflow", definitions, queues, limit - len(resumed)) if len(resumed) < limit else []
    return lease(connection, worker_id, resumed + fresh)


def ready(connection: Connection, sort: str, known: str, queues: Sequence[str] | None, limit: int) -> list[str]:
    """What is ready to begin, over these queues (None: all) without limits, larger priority first, then older."""
    names = [queue for (queue,) in connection.all("ready_queues") if queues is None or queue in queues]
    picked: list[tuple[int, int, str]] = []
    for queue in names:
        values = {"queue": queue, "type": sort, "known": known, "limit": limit, "suspects": False}
        picked.extend((-priority, at, key) for key, priority, at in connection.all("pick_ready", values))
    return [key for _, _, key in sorted(picked)[:limit]]


def lease(connection: Connection, worker_id: str, run_ids: Sequence[str]) -> list[Claim]:
    """Resumes or first starts become leases."""
    if not run_ids:
        return []
    leased = connection.all("lease_runs", {"worker": worker_id, "ids": listed(run_ids)})
    records = {record.id: record for record in map(record_of, leased)}
    return [Claim(Lease(key, records[key].epoch), records[key], records[key].epoch - 1) for key in run_ids]


def delete(connection: Connection, run_ids: Sequence[str]) -> None:
    ids = {"ids": listed(run_ids)}
    connection.run("unlink_children", ids)
    connection.run("delete_context", ids)
    connection.run("delete_details", ids)
    connection.run("delete_executions", ids)


def terminate(connection: Connection, run_id: str, reason: str | None) -> bool:
    """Closes a run at once, whoever has it (V3), with everything that hangs on it."""
    if connection.one("terminate", {"run": run_id, "reason": reason}) is None:
        if get(connection, run_id) is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return False
    empty_closed(connection, (run_id,))
    tasks = {"ids": listed(task for (task,) in connection.all("open_tasks", {"run": run_id}))}
    for task in connection.all("cancel_waiting_tasks", tasks):
        connection.run("delete_timers", {"id": task[0]})
    connection.run("flag_running_tasks", tasks)
    cancel_children(connection, run_id)
    tell_end(connection, run_id, None, terminated_child(run_id, reason))
    return True


def pause(connection: Connection, run_id: str) -> bool:
    if connection.one("pause_now", {"run": run_id}) is not None:
        return True
    if get(connection, run_id) is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    return False


def release(connection: Connection, run_id: str) -> bool:
    released = connection.one("unpause", {"run": run_id})
    if released is None:
        if get(connection, run_id) is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return False
    if released == ("suspended",):
        wake(connection, (run_id,))
    return True


def wake_open(connection: Connection, run_id: str) -> None:
    """A wake-up, where it can mean anything."""
    record = get(connection, run_id)
    if record is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    if record.status in ("running", "suspended"):
        wake(connection, (run_id,))


def open_hook(connection: Connection, run_id: str, key: str, token_hash: str) -> bool:
    """Whether an open run has a hook's token now; the same hook may come again, with another token."""
    owner = connection.one("hook_owner", {"token": token_hash})
    if owner is not None and owner[0] != run_id:
        return False
    connection.run("delete_hook", {"key": key, "token": token_hash})
    connection.run("insert_hook", {"run": run_id, "key": key, "token": token_hash})
    return connection.changed() == 1
