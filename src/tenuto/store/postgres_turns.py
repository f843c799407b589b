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
from typing import Any

from tenuto.errors import CommitUnknownError, RunNotFoundError
from tenuto.kernel.records import MailKind
from tenuto.store.commits import begun_by, full
from tenuto.store.endings import outcome_of, result
from tenuto.store.port import CLOSED, Commit, End, Full, Outgoing, Own, Park, Rows, Start, TurnResult
from tenuto.store.postgres_columns import begun_columns, end_columns, fence_columns, moment, turn_columns
from tenuto.store.postgres_connection import INSISTED, Cursor, Database, Row, Transaction
from tenuto.store.postgres_effects import write_effects, write_rows
from tenuto.store.postgres_mail import close_runs, deliver, lock, wake
from tenuto.store.postgres_runs import new_run
from tenuto.store.rules import COMMITTED, COMMITTED_KEPT, TAKEN, closes, progress, verdict

__all__ = ["commit_group", "reopen"]


class _RefusedError(Exception):
    """A turn is not as the short way expects it; nothing was written."""


async def commit_group(database: Database, commits: Sequence[Commit]) -> list[TurnResult]:
    """Commit each turn independently."""
    begun = [commit for commit in commits if begun_by(commit) is not None]
    known = [commit for commit in commits if begun_by(commit) is None]
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


async def _commit_like(database: Database, commits: Sequence[Commit]) -> list[TurnResult]:
    """The shortest way that is open to all of them."""
    if len({commit.lease.run_id for commit in commits}) == len(commits):
        try:
            results = await _commit_shortly(database, commits)
        except (*INSISTED, _RefusedError):
            results = None  # one of them is not as expected; nothing was written
        if results is not None:
            return results
    turns = [full(commit) for commit in commits]
    return await database.transact(lambda transaction: _commit_all(transaction, turns))


async def _commit_shortly(database: Database, commits: Sequence[Commit]) -> list[TurnResult] | None:
    """One statement for all of them, by their kinds; None: there is none."""
    count = len(commits)
    kept: Sequence[str] = ()
    if len(rows := [commit for commit in commits if isinstance(commit, Rows)]) == count:
        await _commit_rows(database, rows)
        return [COMMITTED_KEPT] * count
    if len(plain := [commit for commit in commits if isinstance(commit, Rows | End)]) == count:
        ((now, _, _),) = await database.write("end_runs", end_columns(plain))
    elif len(starts := [commit for commit in commits if isinstance(commit, Start)]) == count:
        ((now, _, _),) = await database.write("begin_runs", begun_columns(starts))
    elif len(own := [commit for commit in commits if isinstance(commit, Rows | End | Own)]) == count:
        ((now, kept, _, _),) = await database.write("commit_turns", turn_columns(own))
    else:
        return None
    database.learn(now)
    running = {*kept} if kept else ()
    return [
        COMMITTED_KEPT
        if isinstance(commit, Rows)
        or (not isinstance(commit, Park) and commit.status == "running")
        or commit.lease.run_id in running
        else COMMITTED
        for commit in commits
    ]


async def reopen(transaction: Transaction, back: Full) -> bool:
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


async def _commit_rows(database: Database, commits: Sequence[Rows]) -> None:
    if len(commits) > 1 or len(commits[0].puts) > 1:
        ((now, _),) = await database.write("commit_rows", fence_columns(commits))
    else:
        (commit,) = commits
        ((key, value),) = commit.puts
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


async def _commit_all(transaction: Transaction, commits: Sequence[Full | Park]) -> list[TurnResult]:
    rounds = _rounds(commits)
    if len(rounds) > 1:
        await _lock(transaction, commits)  # all of them, before the first round makes the order its own
    results: list[TurnResult] = []
    for members in rounds:
        verdicts = await _commit_round(transaction, members)
        results.extend(verdicts[commit.lease.run_id] for commit in members)
    return results


def _rounds(commits: Sequence[Full | Park]) -> list[list[Full | Park]]:
    """Turns that have nothing to do with each other can be written kind by kind; the others come one after another."""
    rounds: list[list[Full | Park]] = []
    owned: set[str] = set()  # the runs whose turns are in the last round
    touched: set[str] = set()  # the runs it sends to or starts
    full = True
    for commit in commits:
        run_id = commit.lease.run_id
        touches: set[str] = set()
        alone = False
        if isinstance(commit, Full):
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


async def _commit_round(transaction: Transaction, commits: Sequence[Full | Park]) -> dict[str, TurnResult]:
    verdicts = await _store_new(transaction, [commit for commit in commits if commit.new is not None])
    runs = await _lock(transaction, commits)
    members = [commit for commit in commits if commit.lease.run_id not in verdicts]
    cancelled = await _cancelled(transaction, members, runs)
    accepted: list[Full] = []
    parked: list[Park] = []
    for commit in members:
        run_id, run = commit.lease.run_id, runs.get(commit.lease.run_id)
        ends = isinstance(commit, Full) and closes(commit)
        found = None if run is None else (run[1], run[2])
        refused = verdict(found, commit.lease.epoch, ends, run_id in cancelled)
        if refused is not None:
            verdicts[run_id] = refused
        elif isinstance(commit, Park):
            parked.append(commit)
        else:
            accepted.append(commit)
    if not accepted and not parked:
        return verdicts
    await write_rows(transaction, accepted, parked)
    refused_mail = await write_effects(transaction, accepted, runs)
    for one in parked:
        values = {"run": one.lease.run_id, "reason": one.reason, "parked_by": one.capability}
        await transaction.run("park_turn", values)
        verdicts[one.lease.run_id] = COMMITTED
    kept = await _kept(accepted, await _move(transaction, accepted, runs))
    await _tell_watchers(transaction, [commit for commit in accepted if commit.status in CLOSED])
    if any([commit.notify for commit in accepted]):
        await transaction.run("notify")
    for turn in accepted:
        run_id = turn.lease.run_id
        undelivered = tuple(mail for mail in turn.outgoing if mail in refused_mail) if refused_mail else ()
        verdicts[run_id] = TurnResult("committed", run_id in kept, undelivered)
    return verdicts


async def _store_new(transaction: Transaction, commits: Sequence[Full | Park]) -> dict[str, TurnResult]:
    """Stores new runs; the verdict on those that are not there now, or are there without a turn."""
    verdicts: dict[str, TurnResult] = {}
    for commit in sorted(commits, key=lambda commit: commit.lease.run_id):  # two who start the same must not cross
        new, run_id = commit.new, commit.lease.run_id
        if new is None:
            continue
        if new.worker is None:  # with its rows, and without a turn
            made = await transaction.all("insert_run", new_run(new))
            verdicts[run_id] = COMMITTED if made else TAKEN
        elif not await transaction.all("begin_run", {**new_run(new), "worker": new.worker, "begun": new.begun_at}):
            verdicts[run_id] = TAKEN
    return verdicts


async def _lock(transaction: Transaction, commits: Sequence[Full | Park]) -> dict[str, Row]:
    turns = [commit for commit in commits if isinstance(commit, Full)]
    outgoing = [one for commit in turns for one in commit.outgoing]
    return await lock(
        transaction,
        {commit.lease.run_id for commit in commits}
        | {one.run_id for one in outgoing}
        | {target for commit in turns for target, _ in commit.followed},
        ending=[
            *(task_id for commit in turns for task_id in commit.cancelled_tasks),
            *(one.run_id for one in outgoing if one.mail.kind is MailKind.CANCEL),
            *(commit.lease.run_id for commit in turns if commit.status in CLOSED),
        ],
    )


async def _cancelled(
    transaction: Transaction, commits: Sequence[Full | Park], runs: Mapping[str, Row]
) -> frozenset[str]:
    """Runs with an outcome and an acknowledged cancel above what they have seen."""
    ending = [
        commit
        for commit in commits
        if isinstance(commit, Full)
        and closes(commit)
        and (run := runs.get(commit.lease.run_id)) is not None
        and run[3] > commit.seen
    ]
    if not ending:
        return frozenset()
    values = {"runs": [commit.lease.run_id for commit in ending], "seen": [commit.seen for commit in ending]}
    return frozenset(run_id for (run_id,) in await transaction.all("cancels_above", values))


# --- the runs' own rows


async def _move(transaction: Transaction, commits: Sequence[Full], runs: Mapping[str, Row]) -> Cursor | None:
    """Puts the runs into the status their turns gave them; where to read what became of those that wait."""
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
        await transaction.run("close_turns", {**_columns(closed), "statuses": statuses})
    suspended = [commit for commit in commits if commit.status == "suspended"]
    return await transaction.start("suspend_turns", _columns(suspended)) if suspended else None


async def _kept(commits: Sequence[Full], suspended: Cursor | None) -> set[str]:
    """The runs whose worker keeps the lease: those that go on, and those that wait but got mail meanwhile."""
    kept = {commit.lease.run_id for commit in commits if commit.status == "running"}
    if suspended is not None:
        kept.update(run_id for run_id, status in await suspended.fetchall() if status == "running")
    return kept


async def _tell_watchers(transaction: Transaction, closed: Sequence[Full]) -> None:
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


def _stays(commit: Full, run: Row) -> bool:
    return run[2] == "running" and commit.definition is None and not commit.continued


def _columns(commits: Sequence[Full]) -> dict[str, Any]:
    return {
        "runs": [commit.lease.run_id for commit in commits],
        "seen": [commit.seen for commit in commits],
        "alarms": [moment(commit.alarm) for commit in commits],
        "progress": [progress(commit.rows) for commit in commits],
        "continued": [int(commit.continued) for commit in commits],
        "definitions": [commit.definition for commit in commits],
    }
