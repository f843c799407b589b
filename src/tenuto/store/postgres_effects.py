"""What turns write besides their runs' own status, in Postgres: rows, mail, timers, tasks, children.

Set by set for all turns of a round: one statement for the rows of all of them, one for all their timers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenuto.codec.keys import prefix_end
from tenuto.codec.rows import EncodedBatch
from tenuto.kernel.commands import EnqueueTask
from tenuto.store.endings import SINGLES, outcome_of, refused_child, result
from tenuto.store.port import CLOSED, Commit, Full, NewRun, Outgoing, Park
from tenuto.store.postgres_columns import moment, row_columns
from tenuto.store.postgres_connection import Row, Transaction
from tenuto.store.postgres_mail import deliver
from tenuto.store.postgres_runs import new_run
from tenuto.store.postgres_tasks import cancel_tasks, queue_tasks
from tenuto.store.rules import needs_alarm

__all__ = ["write_effects", "write_rows"]


async def write_rows(transaction: Transaction, commits: Sequence[Full], parked: Sequence[Park] = ()) -> None:
    """Rows that turns write, and those that new runs begin with, parked at once or not."""
    ranges = [(commit.lease.run_id, *bounds) for commit in commits for bounds in commit.rows.range_deletes]
    if ranges:
        runs, firsts, lasts = (list(column) for column in zip(*ranges, strict=True))
        await transaction.run("delete_ranges", {"runs": runs, "firsts": firsts, "lasts": lasts})
    deletes = [(commit.lease.run_id, key) for commit in commits for key in commit.rows.deletes]
    if deletes:
        await transaction.run(
            "delete_rows", {"runs": [run_id for run_id, _ in deletes], "keys": [key for _, key in deletes]}
        )
    putting: list[Commit] = [commit for commit in commits if commit.rows.puts or commit.new is not None]
    putting += [commit for commit in parked if commit.new is not None]
    if putting:
        await transaction.run("put_rows", row_columns(putting))


async def write_effects(transaction: Transaction, commits: Sequence[Full], runs: Mapping[str, Row]) -> list[Outgoing]:
    """Everything but rows and status; what could not be delivered."""
    await _write_mail_and_timers(transaction, commits, runs)
    await _write_tasks(transaction, commits)
    await _start_children(transaction, [(commit.lease.run_id, run) for commit in commits for run in commit.runs])
    closed = [(token, commit.lease.run_id) for commit in commits for token in commit.closed_hooks]
    if closed:
        values = {"tokens": [token for token, _ in closed], "runs": [run_id for _, run_id in closed]}
        await transaction.run("close_hooks", values)
    for commit in commits:
        for target, location in commit.followed:
            await _follow(transaction, commit.lease.run_id, target, location)
    outgoing = [one for commit in commits for one in commit.outgoing]
    return await deliver(transaction, outgoing) if outgoing else []


async def _write_mail_and_timers(transaction: Transaction, commits: Sequence[Full], runs: Mapping[str, Row]) -> None:
    for commit in commits:
        for update_id, answer in commit.answers:
            await transaction.run("set_answer", {"run": commit.lease.run_id, "message": update_id, "answer": answer})
    decided = [(commit.lease.run_id, number) for commit in commits for number in commit.mail_done]
    if decided:
        values = {"runs": [run_id for run_id, _ in decided], "numbers": [number for _, number in decided]}
        await transaction.run("delete_mail", values)
    continued = [commit.lease.run_id for commit in commits if commit.continued]
    if continued:
        await transaction.run("delete_timers", {"ids": continued})  # the next run of the chain has none of the old ones
    stopped = [f"{commit.lease.run_id}:{location}" for commit in commits for location in commit.stopped_timers]
    if stopped:
        await transaction.run("stop_timers", {"ids": stopped})
    timers = {
        f"{commit.lease.run_id}:{timer.location}": (commit.lease.run_id, timer)
        for commit in commits
        for timer in commit.timers
    }
    if timers:
        await transaction.run(
            "start_timers",
            {
                "ids": list(timers),
                "deadlines": [moment(timer.deadline) for _, timer in timers.values()],
                "runs": [run_id for run_id, _ in timers.values()],
                "sorts": [timer.sort for _, timer in timers.values()],
                "locations": [timer.location for _, timer in timers.values()],
            },
        )
    alarms = [
        commit
        for commit in commits
        if needs_alarm(commit.alarm, runs[commit.lease.run_id][6], commit.status, commit.timers)
    ]
    if alarms:
        await transaction.run(
            "start_alarms",
            {
                "runs": [commit.lease.run_id for commit in alarms],
                "alarms": [moment(commit.alarm) for commit in alarms],
            },
        )


async def _write_tasks(transaction: Transaction, commits: Sequence[Full]) -> None:
    tasks: list[tuple[EnqueueTask, str | None]] = [
        (task, commit.lease.run_id) for commit in commits for task in commit.tasks
    ]
    if tasks:
        await queue_tasks(transaction, tasks)
    withdrawn = [task_id for commit in commits for task_id in commit.cancelled_tasks]
    if withdrawn:
        await cancel_tasks(transaction, withdrawn)


async def _follow(transaction: Transaction, run_id: str, target: str, location: str) -> None:
    """The run hears of the end of one that is there already: when it comes, or at once if it has come."""
    found = await transaction.one("lock_followed", {"id": target})
    if found is not None and found[0] not in CLOSED and (found[1], found[2]) == (run_id, location):
        return  # its own child, which will tell it
    if found is None or found[0] not in CLOSED:
        watcher = {"target": target, "run": run_id, "op": location, "task": f"{run_id}:{location}"}
        await transaction.run("insert_watcher", watcher)
        return
    rows = await transaction.all("range_rows", {"id": target, "first": SINGLES, "last": prefix_end(SINGLES)})
    stored = EncodedBatch((), (), tuple((bytes(key), bytes(value)) for key, value in rows))
    mail = result(location, *outcome_of(target, found[0], stored), 1, transaction.now)
    await deliver(transaction, (Outgoing(run_id, mail, f"end:{target}:{location}"),))


async def _start_children(transaction: Transaction, children: Sequence[tuple[str, NewRun]]) -> None:
    """Children, or, where an id is another's, a refusal in the parent's own inbox. The same child again is followed."""
    started = [(run_id, new, await transaction.start("insert_run", new_run(new))) for run_id, new in children]
    for run_id, new, cursor in started:
        if await cursor.fetchall() or new.parent is None:
            continue
        known = await transaction.one("child_origin", {"id": new.id})
        if known is not None and (known[0], known[1]) == new.parent:
            if not new.detached:
                await _follow(transaction, run_id, new.id, new.parent[1])
            continue
        target, status = (known[2], known[3]) if known is not None else (f"key {new.key!r}", "open")
        mail = result(new.parent[1], None, refused_child(new.id, target, status), 1, transaction.now)
        await deliver(transaction, (Outgoing(run_id, mail, f"refused:{new.parent[1]}"),))
