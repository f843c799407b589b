"""Commits of turns in Postgres.

Rules:

1. A turn that only writes rows of a run that goes on is one statement, which is its own transaction and carries its
   fence with it. What that statement does not find is looked at the longer way.
2. The longer way locks every run it will touch first, in id order (Q7), and holds each turn against what it then
   sees; a refused turn has written nothing and takes no other with it (P5).
3. The runs' own rows come last, because what a turn did to others may have come back as mail to itself.
4. Statements go out in one pipeline; only where an answer decides what comes next does anybody wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tenuto.codec.keys import pack
from tenuto.codec.rows import UPDATES
from tenuto.errors import RunNotFoundError
from tenuto.kernel.records import MailKind
from tenuto.store.endings import outcome_of, result
from tenuto.store.port import CLOSED, Outgoing, TurnCommit, TurnResult
from tenuto.store.postgres_connection import Database, Row, Transaction
from tenuto.store.postgres_effects import moment, rows_of, write_effects, write_rows
from tenuto.store.postgres_mail import close_runs, deliver, lock, wake

__all__ = ["commit_group", "reopen"]

_UPDATE: Final = pack((UPDATES,))  # what keys of answered updates begin with
_STALE: Final = TurnResult("stale")
_CANCEL_FIRST: Final = TurnResult("cancel_first")
_COMMITTED_KEPT: Final = TurnResult("committed", True)


async def commit_group(database: Database, commits: Sequence[TurnCommit]) -> list[TurnResult]:
    """Each turn on its own merits."""
    done: set[str] = set()
    if len({commit.lease.run_id for commit in commits}) == len(commits) and all(map(_only_rows, commits)):
        done = await _commit_rows(database, commits)
    rest = [commit for commit in commits if commit.lease.run_id not in done]
    looked_at = iter(await database.transact(lambda transaction: _commit_all(transaction, rest)) if rest else ())
    return [_COMMITTED_KEPT if commit.lease.run_id in done else next(looked_at) for commit in commits]


async def reopen(transaction: Transaction, back: TurnCommit) -> None:
    """A run that goes back: what was decided after the target is undone in the commit that opens it again."""
    run_id = back.lease.run_id
    runs = await _lock(transaction, (back,))
    if run_id not in runs:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    await transaction.run("reopen_run", {"run": run_id})
    await write_rows(transaction, (back,))
    await write_effects(transaction, (back,), runs)
    await wake(transaction, (run_id,))


# --- the short way


def _only_rows(commit: TurnCommit) -> bool:
    rows = commit.rows
    return (
        commit.status == "running"
        and bool(rows.puts)
        and not (
            rows.deletes
            or rows.range_deletes
            or commit.outgoing
            or commit.followed
            or commit.closed_hooks
            or commit.mail_done
            or commit.answers
        )
        and not (commit.tasks or commit.cancelled_tasks or commit.timers or commit.stopped_timers or commit.runs)
        and commit.definition is None
        and not commit.continued
        and not _answers_update(commit)
    )


def _answers_update(commit: TurnCommit) -> bool:
    """Whether somebody who waits for an update must be told."""
    return bool(commit.answers) or any(key.startswith(_UPDATE) for key, _ in commit.rows.puts)


async def _commit_rows(database: Database, commits: Sequence[TurnCommit]) -> set[str]:
    """The runs whose turns were committed."""
    rows = rows_of(commits)
    if len(commits) == len(rows) == 1:
        (commit,) = commits
        (((_, key), value),) = rows.items()
        values: dict[str, Any] = {
            "run": commit.lease.run_id,
            "epoch": commit.lease.epoch,
            "alarm": moment(commit.alarm),
            "seen": commit.seen,
            "key": key,
            "value": value,
        }
        return {commit.lease.run_id} if await database.write("commit_row", values) else set()
    found = await database.write(
        "commit_rows",
        {
            "runs": [commit.lease.run_id for commit in commits],
            "epochs": [commit.lease.epoch for commit in commits],
            "alarms": [moment(commit.alarm) for commit in commits],
            "seen": [commit.seen for commit in commits],
            "row_runs": [run_id for run_id, _ in rows],
            "keys": [key for _, key in rows],
            "values": list(rows.values()),
        },
    )
    return {run_id for (run_id,) in found}


# --- the longer way


async def _commit_all(transaction: Transaction, commits: Sequence[TurnCommit]) -> list[TurnResult]:
    rounds = _rounds(commits)
    if len(rounds) > 1:
        await _lock(transaction, commits)  # all of them, before the first round makes the order its own
    results: list[TurnResult] = []
    for members in rounds:
        verdicts = await _commit_round(transaction, members)
        results.extend(verdicts[commit.lease.run_id] for commit in members)
    return results


def _rounds(commits: Sequence[TurnCommit]) -> list[list[TurnCommit]]:
    """Turns that have nothing to do with each other can be written kind by kind; the others come one after another."""
    rounds: list[list[TurnCommit]] = []
    owned: set[str] = set()  # the runs whose turns are in the last round
    touched: set[str] = set()  # the runs it sends to or starts
    full = True
    for commit in commits:
        run_id = commit.lease.run_id
        touches = {one.run_id for one in commit.outgoing} | {run.id for run in commit.runs}
        # What these free or take is wanted by whoever comes next.
        alone = bool(commit.cancelled_tasks) or any(run.key is not None for run in commit.runs)
        if full or alone or run_id in owned or run_id in touched or touches & owned:
            rounds.append([])
            owned, touched = set(), set()
        rounds[-1].append(commit)
        owned.add(run_id)
        touched |= touches
        full = alone
    return rounds


async def _commit_round(transaction: Transaction, commits: Sequence[TurnCommit]) -> dict[str, TurnResult]:
    runs = await _lock(transaction, commits)
    verdicts: dict[str, TurnResult] = {}
    current: list[TurnCommit] = []
    for commit in commits:
        run = runs.get(commit.lease.run_id)
        if run is None or run[1] != commit.lease.epoch or run[2] in CLOSED:
            verdicts[commit.lease.run_id] = _STALE  # V7: an outcome is not changed by a turn, whoever had the lease
        else:
            current.append(commit)
    held_up = await _cancelled(transaction, current, runs)
    verdicts.update((run_id, _CANCEL_FIRST) for run_id in held_up)  # V7: a cancel goes before any outcome
    accepted = [commit for commit in current if commit.lease.run_id not in held_up]
    if not accepted:
        return verdicts
    await write_rows(transaction, accepted)
    refused = await write_effects(transaction, accepted, runs)
    kept = await _move(transaction, accepted, runs)
    if any(map(_answers_update, accepted)):
        await transaction.run("notify")
    for commit in accepted:
        run_id = commit.lease.run_id
        undelivered = tuple(one for one in commit.outgoing if one in refused) if refused else ()
        verdicts[run_id] = TurnResult("committed", run_id in kept, undelivered)
    return verdicts


async def _lock(transaction: Transaction, commits: Sequence[TurnCommit]) -> dict[str, Row]:
    outgoing = [one for commit in commits for one in commit.outgoing]
    return await lock(
        transaction,
        {commit.lease.run_id for commit in commits} | {one.run_id for one in outgoing},
        ending=[
            *(task_id for commit in commits for task_id in commit.cancelled_tasks),
            *(one.run_id for one in outgoing if one.mail.kind is MailKind.CANCEL),
            *(commit.lease.run_id for commit in commits if commit.status in CLOSED),
        ],
    )


async def _cancelled(transaction: Transaction, commits: Sequence[TurnCommit], runs: dict[str, Row]) -> set[str]:
    """Runs with an outcome and an acknowledged cancel above what they have seen."""
    ending = [
        commit
        for commit in commits
        if (commit.status in CLOSED or commit.continued) and runs[commit.lease.run_id][3] > commit.seen
    ]
    if not ending:
        return set()
    values = {"runs": [commit.lease.run_id for commit in ending], "seen": [commit.seen for commit in ending]}
    return {run_id for (run_id,) in await transaction.all("cancels_above", values)}


# --- the runs' own rows


async def _move(transaction: Transaction, commits: Sequence[TurnCommit], runs: dict[str, Row]) -> set[str]:
    """Puts the runs into the status their turns gave them; those whose worker keeps the lease."""
    closed = [commit for commit in commits if commit.status in CLOSED]
    suspended = [commit for commit in commits if commit.status == "suspended"]
    running = [commit for commit in commits if commit.status == "running"]
    for commit in commits:
        if commit.status == "parked":
            values = {"run": commit.lease.run_id, "reason": commit.reason, "parked_by": commit.parked_by}
            await transaction.run("park_turn", {**values, "progress": any(commit.rows)})
    kept = {commit.lease.run_id for commit in running}
    noted = [commit for commit in running if _stays(commit, runs[commit.lease.run_id])]
    if noted:
        await transaction.run("note_turns", _columns(noted))
    moved = [commit for commit in running if not _stays(commit, runs[commit.lease.run_id])]
    if moved:
        await transaction.run("run_on_turns", _columns(moved))
    if suspended:
        left = await transaction.all("suspend_turns", _columns(suspended))
        kept.update(run_id for run_id, status in left if status == "running")
    if closed:
        statuses = [commit.status for commit in closed]
        reasons = [commit.reason for commit in closed]
        await transaction.run("close_turns", {**_columns(closed), "statuses": statuses, "reasons": reasons})
        await _tell_watchers(transaction, closed)
    return kept


async def _tell_watchers(transaction: Transaction, closed: Sequence[TurnCommit]) -> None:
    """A run's parent is told by the turn itself; who else follows it only the store knows."""
    commits = {commit.lease.run_id: commit for commit in closed}
    watchers = await close_runs(transaction, list(commits))
    if not watchers:
        return
    followed = dict.fromkeys(run_id for run_id, _, _ in watchers)
    outcomes = {run_id: outcome_of(run_id, commits[run_id].status, commits[run_id].rows) for run_id in followed}
    await deliver(
        transaction,
        [
            Outgoing(watcher, result(place, *outcomes[run_id], 1, transaction.now), f"end:{run_id}:{place}")
            for run_id, watcher, place in watchers
        ],
    )
    await transaction.run("delete_watchers", {"ids": list(followed)})


def _stays(commit: TurnCommit, run: Row) -> bool:
    return run[2] == "running" and commit.definition is None and not commit.continued


def _columns(commits: Sequence[TurnCommit]) -> dict[str, Any]:
    return {
        "runs": [commit.lease.run_id for commit in commits],
        "seen": [commit.seen for commit in commits],
        "alarms": [moment(commit.alarm) for commit in commits],
        # A turn that wrote nothing only replayed: it does not make a run less stuck.
        "progress": [any(commit.rows) for commit in commits],
        "continued": [int(commit.continued) for commit in commits],
        "definitions": [commit.definition for commit in commits],
    }
