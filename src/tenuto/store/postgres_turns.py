"""Commits of turns in Postgres.

Rules:

1. A turn that only writes rows of a run that goes on is one statement, which is its own transaction and carries its
   fence with it. So are turns that touch no run but their own, and new runs with their first turns: the server insists
   on what the longer way would look at first. Where it refuses, nothing was written, and the longer way is taken.
2. The longer way locks every run it will touch first, in id order (Q7), and holds each turn against what it then
   sees; a refused turn has written nothing and takes no other with it (P5).
3. The runs' own rows come last, because what a turn did to others may have come back as mail to itself.
4. Statements go out in one pipeline; only where an answer decides what comes next does anybody wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenuto.errors import CommitUnknownError, RunNotFoundError
from tenuto.kernel.records import MailKind
from tenuto.store.endings import outcome_of, result
from tenuto.store.port import CLOSED, Outgoing, TurnCommit, TurnResult
from tenuto.store.postgres_columns import (
    answers_update,
    begun_columns,
    end_columns,
    ends_plainly,
    fence_columns,
    goes_on,
    is_alone,
    moment,
    turn_columns,
)
from tenuto.store.postgres_connection import INSISTED, Cursor, Database, Row, Transaction
from tenuto.store.postgres_effects import write_effects, write_rows
from tenuto.store.postgres_mail import close_runs, deliver, lock, wake
from tenuto.store.postgres_runs import new_run

__all__ = ["commit_group", "reopen"]

_STALE: Final = TurnResult("stale")
_CANCEL_FIRST: Final = TurnResult("cancel_first")
_TAKEN: Final = TurnResult("taken")
_COMMITTED: Final = TurnResult("committed")
_COMMITTED_KEPT: Final = TurnResult("committed", True)


class _RefusedError(Exception):
    """A turn is not as the short way expects it; nothing was written."""


async def commit_group(database: Database, commits: Sequence[TurnCommit]) -> list[TurnResult]:
    """Each turn on its own merits."""
    begun = [commit for commit in commits if commit.new is not None]
    known = [commit for commit in commits if commit.new is None]
    if not begun or not known:
        return await _commit_like(database, commits)
    # New runs have nothing to do with the others yet: two transactions, at the same time.
    for_begun, for_known = await asyncio.gather(
        _commit_like(database, begun), _commit_like(database, known), return_exceptions=True
    )
    if isinstance(for_begun, BaseException) or isinstance(for_known, BaseException):
        raise _failure(for_begun, for_known)
    results = dict(zip(map(id, (*begun, *known)), (*for_begun, *for_known), strict=True))
    return [results[id(commit)] for commit in commits]


def _failure(*halves: list[TurnResult] | BaseException) -> BaseException:
    """What the whole group is told: that nothing was done only where that is true of both halves."""
    errors = [half for half in halves if isinstance(half, BaseException)]
    if len(errors) == len(halves):
        return next((error for error in errors if isinstance(error, CommitUnknownError)), errors[0])
    if isinstance(errors[0], CommitUnknownError):
        return errors[0]
    unknown = CommitUnknownError(f"a part of the group was committed, and the other failed: {errors[0]}")
    unknown.__cause__ = errors[0]
    return unknown


async def _commit_like(database: Database, commits: Sequence[TurnCommit]) -> list[TurnResult]:
    """The shortest way that is open to all of them."""
    if len({commit.lease.run_id for commit in commits}) == len(commits):
        try:
            results = await _commit_shortly(database, commits)
        except (*INSISTED, _RefusedError):
            results = None  # one of them is not as expected; nothing was written
        if results is not None:
            return results
    return await database.transact(lambda transaction: _commit_all(transaction, commits))


async def _commit_shortly(database: Database, commits: Sequence[TurnCommit]) -> list[TurnResult] | None:
    """One statement for all of them, where there is one. None: there is not."""
    if all(map(goes_on, commits)):
        await _commit_rows(database, commits)
        return [_COMMITTED_KEPT] * len(commits)
    if all(goes_on(commit) or ends_plainly(commit) for commit in commits):
        ((now, _, _),) = await database.write("end_runs", end_columns(commits))
        kept: Sequence[str] = ()
    elif not all(map(is_alone, commits)):
        return None
    elif commits[0].new is not None:
        ((now, _, _),) = await database.write("begin_runs", begun_columns(commits))
        kept = ()
    else:
        ((now, kept, _, _),) = await database.write("commit_turns", turn_columns(commits))
    database.learn(now)
    running = {*kept} if kept else ()
    return [
        _COMMITTED_KEPT if commit.status == "running" or commit.lease.run_id in running else _COMMITTED
        for commit in commits
    ]


async def reopen(transaction: Transaction, back: TurnCommit) -> bool:
    """A run that goes back: what was decided after the target is undone in the commit that opens it again."""
    run_id, epoch = back.lease
    runs = await _lock(transaction, (back,))
    if run_id not in runs:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    if runs[run_id][1] != epoch:
        return False
    await transaction.run("reopen_run", {"run": run_id})
    await write_rows(transaction, (back,))
    await write_effects(transaction, (back,), runs)
    await wake(transaction, (run_id,))
    return True


# --- the short ways


async def _commit_rows(database: Database, commits: Sequence[TurnCommit]) -> None:
    if len(commits) > 1 or len(commits[0].rows.puts) > 1:
        ((now, _),) = await database.write("commit_rows", fence_columns(commits))
    else:
        (commit,) = commits
        ((key, value),) = commit.rows.puts
        values: dict[str, Any] = {
            "run": commit.lease.run_id,
            "epoch": commit.lease.epoch,
            "alarm": moment(commit.alarm),
            "seen": commit.seen,
            "key": bytes(key),
            "value": bytes(value),
        }
        found = await database.write("commit_row", values)
        if not found:
            raise _RefusedError
        ((now,),) = found
    database.learn(now)


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
    verdicts = await _store_new(transaction, [commit for commit in commits if commit.new is not None])
    runs = await _lock(transaction, commits)
    current: list[TurnCommit] = []
    for commit in commits:
        if commit.lease.run_id in verdicts:
            continue
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
    kept = await _kept(accepted, await _move(transaction, accepted, runs))
    await _tell_watchers(transaction, [commit for commit in accepted if commit.status in CLOSED])
    if any(map(answers_update, accepted)):
        await transaction.run("notify")
    for commit in accepted:
        run_id = commit.lease.run_id
        undelivered = tuple(one for one in commit.outgoing if one in refused) if refused else ()
        verdicts[run_id] = TurnResult("committed", run_id in kept, undelivered)
    return verdicts


async def _store_new(transaction: Transaction, commits: Sequence[TurnCommit]) -> dict[str, TurnResult]:
    """Stores new runs; the verdict on those that are not there now, or are there without a turn."""
    verdicts: dict[str, TurnResult] = {}
    for commit in sorted(commits, key=lambda commit: commit.lease.run_id):  # two who start the same must not cross
        new, run_id = commit.new, commit.lease.run_id
        if new is None:
            continue
        if new.worker is None:  # with its rows, and without a turn
            made = await transaction.all("insert_run", new_run(new))
            verdicts[run_id] = _COMMITTED if made else _TAKEN
        elif not await transaction.all("begin_run", {**new_run(new), "worker": new.worker, "begun": new.begun_at}):
            verdicts[run_id] = _TAKEN
    return verdicts


async def _lock(transaction: Transaction, commits: Sequence[TurnCommit]) -> dict[str, Row]:
    outgoing = [one for commit in commits for one in commit.outgoing]
    return await lock(
        transaction,
        {commit.lease.run_id for commit in commits}
        | {one.run_id for one in outgoing}
        | {target for commit in commits for target, _ in commit.followed},
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


async def _move(transaction: Transaction, commits: Sequence[TurnCommit], runs: Mapping[str, Row]) -> Cursor | None:
    """Puts the runs into the status their turns gave them; where to read what became of those that wait."""
    for commit in commits:
        if commit.status == "parked":
            values = {"run": commit.lease.run_id, "reason": commit.reason, "parked_by": commit.parked_by}
            await transaction.run("park_turn", {**values, "progress": any(commit.rows)})
    running = [commit for commit in commits if commit.status == "running"]
    noted = [commit for commit in running if _stays(commit, runs[commit.lease.run_id])]
    if noted:
        await transaction.run("note_turns", _columns(noted))
    moved = [commit for commit in running if not _stays(commit, runs[commit.lease.run_id])]
    if moved:
        await transaction.run("run_on_turns", _columns(moved))
    closed = [commit for commit in commits if commit.status in CLOSED]
    if closed:
        statuses = [commit.status for commit in closed]
        reasons = [commit.reason for commit in closed]
        await transaction.run("close_turns", {**_columns(closed), "statuses": statuses, "reasons": reasons})
    suspended = [commit for commit in commits if commit.status == "suspended"]
    return await transaction.start("suspend_turns", _columns(suspended)) if suspended else None


async def _kept(commits: Sequence[TurnCommit], suspended: Cursor | None) -> set[str]:
    """The runs whose worker keeps the lease: those that go on, and those that wait but got mail meanwhile."""
    kept = {commit.lease.run_id for commit in commits if commit.status == "running"}
    if suspended is not None:
        kept.update(run_id for run_id, status in await suspended.fetchall() if status == "running")
    return kept


async def _tell_watchers(transaction: Transaction, closed: Sequence[TurnCommit]) -> None:
    """A run's parent is told by the turn itself; who else follows it only the store knows."""
    if not closed:
        return
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
