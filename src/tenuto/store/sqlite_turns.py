"""Commits of turns in SQLite.

Rules:

1. A member is held against its run's row first; what is refused has written nothing (P5).
2. A statement is executed only for what a turn has, and for all turns of a group that concern only their own run
   together. The usual turn alone, one step's row of a run that goes on, is one statement.
3. The run's own row comes last, because what the turn did to others may have come back as mail to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tenuto.codec.rows import EncodedBatch
from tenuto.errors import RunNotFoundError
from tenuto.store.connection import Connection
from tenuto.store.endings import SINGLES, outcome_of, refused_child, result
from tenuto.store.port import CLOSED, NewRun, Outgoing, TurnCommit, TurnResult, only_rows
from tenuto.store.sqlite_mail import deliver, empty_closed, listed, tell_watchers, wake
from tenuto.store.sqlite_runs import create, get, insert_begun, insert_run, put_rows, rows
from tenuto.store.sqlite_tasks import cancel_tasks, queue_task

__all__ = ["COMMITTED_KEPT", "as_one_row", "commit_group"]

_STALE = TurnResult("stale")
_CANCEL_FIRST = TurnResult("cancel_first")
_TAKEN = TurnResult("taken")
_COMMITTED = TurnResult("committed")
COMMITTED_KEPT = TurnResult("committed", True)


def commit_group(connection: Connection, commits: Sequence[TurnCommit]) -> list[TurnResult]:
    """Each turn on its own merits."""
    done = _commit_together(connection, commits) if len(commits) > 1 else {}
    results = [done.get(commit.lease.run_id) or _commit(connection, commit) for commit in commits]
    _leave_closed(
        connection,
        {
            commit.lease.run_id: commit
            for commit, result in zip(commits, results, strict=True)
            if commit.status in CLOSED and result.verdict == "committed"
        },
    )
    return results


def _leave_closed(connection: Connection, closed: Mapping[str, TurnCommit]) -> None:
    """Takes from runs that have ended what they no longer need, and tells who follows them."""
    if not closed:
        return
    runs = [run_id for (run_id,) in connection.all("belongings", (listed(closed),))]
    if not runs:
        return
    empty_closed(connection, runs)
    # A run's parent is told by the turn itself; who else follows it only the store knows.
    for (run_id,) in connection.all("followed", {"ids": listed(runs)}):
        commit = closed[run_id]
        tell_watchers(connection, run_id, partial(outcome_of, run_id, commit.status, commit.rows))


def as_one_row(commit: TurnCommit) -> tuple[object, ...] | None:
    """What `commit_row` takes for a turn of one row, as most steps are; None where it is more than that."""
    puts = commit.rows.puts
    if len(puts) != 1 or not only_rows(commit):
        return None
    (run_id, epoch), ((key, value),) = commit.lease, puts
    return run_id, key, value, epoch, commit.seen, commit.alarm


def _commit_together(connection: Connection, commits: Sequence[TurnCommit]) -> dict[str, TurnResult]:
    """Commits the turns that concern only their own run, all of them by a few statements; what became of each.

    They touch no other run, so it is no matter that they come before the rest of the group. Where a run is not as its
    turn expects it, the longer way finds out why.
    """
    own = [commit for commit in commits if _concerns_itself(commit)]
    if len(own) < 2 or len({commit.lease.run_id for commit in commits}) < len(commits):
        return {}
    done = _fitting(connection, {commit.lease.run_id: commit for commit in own if commit.new is None})
    puts = [(commit.lease.run_id, key, value) for commit in done for key, value in commit.rows.puts]
    results: dict[str, TurnResult] = {}
    for commit in own:
        if (new := commit.new) is None:
            continue
        if _insert(connection, commit, new):
            done.append(commit)
            puts.extend([(new.id, key, value) for key, value in _first_rows(commit, new)])
        else:
            results[new.id] = _TAKEN
    put_rows(connection, puts)
    if timed := [commit for commit in done if commit.timers]:
        _start_timers(connection, timed)
    if ended := [commit for commit in done if commit.status in CLOSED]:
        _close(connection, ended)
    for commit in done:
        results[commit.lease.run_id] = COMMITTED_KEPT if commit.status == "running" else _COMMITTED
    return results


def _concerns_itself(commit: TurnCommit) -> bool:
    """Whether a turn only puts rows of its own run, which begins, goes on as it is, or ends."""
    new = commit.new
    if new is None:
        if commit.status not in CLOSED:
            return only_rows(commit)
    elif new.key is not None or new.delay_ms or commit.status == "parked" or _needs_alarm(commit, None):
        return False  # a key may be that of a run which this very group ends
    rows = commit.rows
    return not (
        rows.deletes
        or rows.range_deletes
        or commit.outgoing
        or commit.followed
        or commit.closed_hooks
        or commit.mail_done
        or commit.answers
        or commit.tasks
        or commit.cancelled_tasks
        or commit.stopped_timers
        or commit.runs
        or commit.continued
    )


def _fitting(connection: Connection, known: Mapping[str, TurnCommit]) -> list[TurnCommit]:
    """The turns of these that find their run as they expect it, so that its own row changes only where it ends."""
    fitting: list[TurnCommit] = []
    if not known:
        return fitting
    for run_id, epoch, inbox_seq, inbox_seen, alarm in connection.all("running_turns", (listed(known),)):
        commit = known[run_id]
        if commit.status == "running":
            as_expected = inbox_seen >= commit.seen and alarm == commit.alarm
        else:
            as_expected = inbox_seq <= commit.seen  # no mail that could be a cancel
        if as_expected and epoch == commit.lease.epoch:
            fitting.append(commit)
    return fitting


def _commit(connection: Connection, commit: TurnCommit) -> TurnResult:
    if commit.new is not None:
        return _begin(connection, commit, commit.new)
    run_id, epoch = commit.lease.run_id, commit.lease.epoch
    found = connection.one("turn_run", (run_id,))
    if found is None or found[0] != epoch or found[1] in CLOSED:
        return _STALE  # V7: an outcome is not changed by a turn, whoever had the lease
    _, status, inbox_seq, inbox_seen, reclaims, alarm, _ = found
    closes = commit.status in CLOSED
    if (
        (closes or commit.continued)
        and inbox_seq > commit.seen
        and connection.one("cancel_above", {"run": run_id, "seen": commit.seen}) is not None
    ):
        return _CANCEL_FIRST  # V7: an acknowledged cancel goes before any outcome
    _write_rows(connection, run_id, commit.rows)
    undelivered = _write_effects(connection, commit, alarm)
    if commit.status == "running" == status and commit.definition is None and not commit.continued:
        seen = max(inbox_seen, commit.seen)
        progress = 0 if _has_progress(commit) else reclaims
        if (seen, commit.alarm, progress) != (inbox_seen, alarm, reclaims):
            connection.run("turn_note", (run_id, seen, commit.alarm, progress))
        return TurnResult("committed", True, undelivered) if undelivered else COMMITTED_KEPT
    return TurnResult("committed", _move(connection, commit), undelivered)


def _begin(connection: Connection, commit: TurnCommit, new: NewRun) -> TurnResult:
    """Stores a new run, and its first turn with it where its worker has taken one."""
    if new.worker is None:
        return _COMMITTED if create(connection, new) else _TAKEN
    if not _insert(connection, commit, new):
        return _TAKEN
    _write_rows(connection, new.id, commit.rows._replace(puts=_first_rows(commit, new)))
    undelivered = _write_effects(connection, commit, None)
    if _waits(commit):
        return _COMMITTED
    if commit.status == "running" and not commit.continued:
        return TurnResult("committed", True, undelivered) if undelivered else COMMITTED_KEPT
    return TurnResult("committed", _move(connection, commit), undelivered)


def _insert(connection: Connection, commit: TurnCommit, new: NewRun) -> bool:
    """Whether a new run is there now, as its first turn leaves it, where it has one; without its rows."""
    return insert_run(connection, new) if new.worker is None else insert_begun(connection, new, commit, _waits(commit))


def _waits(first: TurnCommit) -> bool:
    """Whether a new run waits after its first turn, for certain: nothing the turn did can come back to it as mail."""
    return first.status == "suspended" and not (first.tasks or first.runs or first.outgoing or first.followed)


def _first_rows(commit: TurnCommit, new: NewRun) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(dict((*new.rows, *commit.rows.puts)).items())


def reopen(connection: Connection, back: TurnCommit) -> bool:
    """A run that goes back: what was decided after the target is undone in the commit that opens it again."""
    run_id, epoch = back.lease
    if connection.one("reopen_run", {"run": run_id, "epoch": epoch}) is None:
        if connection.one("turn_run", (run_id,)) is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return False
    _write_rows(connection, run_id, back.rows)
    _write_effects(connection, back, None)
    wake(connection, (run_id,))
    return True


def _has_progress(commit: TurnCommit) -> bool:
    """Whether the turn wrote anything: one that only replayed does not make a run less stuck."""
    return any(commit.rows)


def _write_rows(connection: Connection, run_id: str, rows: EncodedBatch) -> None:
    if rows.range_deletes:
        connection.many("delete_range", [(run_id, start, end) for start, end in rows.range_deletes])
    if rows.deletes:
        connection.many("delete_rows", [(run_id, key) for key in rows.deletes])
    if rows.puts:
        put_rows(connection, [(run_id, key, value) for key, value in rows.puts])


def _write_effects(connection: Connection, commit: TurnCommit, alarm: int | None) -> tuple[Outgoing, ...]:
    """Everything but rows and status; what could not be delivered."""
    run_id = commit.lease.run_id
    for update_id, answer in commit.answers:
        connection.run("set_answer", {"run": run_id, "message": update_id, "answer": answer})
    if commit.mail_done:
        connection.run("delete_mail", {"run": run_id, "numbers": listed(commit.mail_done)})
    if commit.continued:
        connection.run("delete_timers", {"id": run_id})  # the next run of the chain has none of the old ones
    if commit.stopped_timers:
        connection.many("stop_timers", [(_timer_id(run_id, location),) for location in commit.stopped_timers])
    if commit.timers:
        _start_timers(connection, (commit,))
    if _needs_alarm(commit, alarm):
        connection.run("start_alarm", {"run": run_id, "alarm": commit.alarm})
    for task in commit.tasks:
        queue_task(connection, task, run_id)
    if commit.cancelled_tasks:
        cancel_tasks(connection, commit.cancelled_tasks)
    for run in commit.runs:
        _start_child(connection, run_id, run)
    for token in commit.closed_hooks:
        connection.run("close_hook", {"token": token, "run": run_id})
    for target, location in commit.followed:
        _follow(connection, run_id, target, location)
    if not commit.outgoing:
        return ()
    return tuple(outgoing for outgoing in commit.outgoing if not deliver(connection, outgoing))


def _start_timers(connection: Connection, commits: Sequence[TurnCommit]) -> None:
    connection.many(
        "start_timers",
        [
            (_timer_id(run_id, location), deadline, run_id, sort, location, connection.now)
            for commit in commits
            for run_id in (commit.lease.run_id,)
            for location, deadline, sort in commit.timers
        ],
    )


def _needs_alarm(commit: TurnCommit, alarm: int | None) -> bool:
    """Whether the run's earliest deadline is new, and none of the timers this turn starts wakes it by then."""
    return (
        commit.alarm is not None
        and commit.alarm != alarm
        and commit.status in ("running", "suspended")
        and not any(timer.deadline <= commit.alarm for timer in commit.timers)
    )


def _follow(connection: Connection, run_id: str, target: str, location: str) -> None:
    """The run hears of the end of one that is there already: when it comes, or at once if it has come."""
    record = get(connection, target)
    if record is not None and record.status not in CLOSED and record.parent == (run_id, location):
        return  # its own child, which will tell it
    if record is None or record.status not in CLOSED:
        watcher = {"target": target, "run": run_id, "op": location, "task": f"{run_id}:{location}"}
        connection.run("insert_watcher", watcher)
        return
    stored = EncodedBatch((), (), tuple(rows(connection, target, SINGLES)))
    mail = result(location, *outcome_of(target, record.status, stored), 1, connection.now)
    deliver(connection, Outgoing(run_id, mail, f"end:{target}:{location}"))


def _timer_id(run_id: str, location: str) -> str:
    return f"{run_id}:{location}"


def _start_child(connection: Connection, run_id: str, run: NewRun) -> None:
    """A child, or, where its id is another's, a refusal in the parent's own inbox. The same child again is followed."""
    if create(connection, run) or run.parent is None:
        return
    known = connection.one("child_origin", {"id": run.id})
    if known is not None and (known[0], known[1]) == run.parent:
        if not run.detached:
            _follow(connection, run_id, run.id, run.parent[1])
        return
    target, status = (known[2], known[3]) if known is not None else (f"key {run.key!r}", "open")
    mail = result(run.parent[1], None, refused_child(run.id, target, status), 1, connection.now)
    deliver(connection, Outgoing(run_id, mail, f"refused:{run.parent[1]}"))


def _move(connection: Connection, commit: TurnCommit) -> bool:
    """Puts the run into the status the turn gave it; whether the worker keeps the lease."""
    run_id = commit.lease.run_id
    if commit.status == "parked":
        parked = {"run": run_id, "reason": commit.reason, "parked_by": commit.parked_by}
        connection.run("turn_park", {**parked, "progress": _has_progress(commit)})
        return False
    if commit.status in CLOSED:
        _close(connection, (commit,))
        return False
    values = {
        "run": run_id,
        "seen": commit.seen,
        "alarm": commit.alarm,
        "progress": _has_progress(commit),
        "continued": int(commit.continued),
        "definition": commit.definition,
    }
    if commit.status == "running":
        connection.run("turn_run_on", values)
        return True
    return connection.one("turn_suspend", {**values, "timed": commit.alarm is not None}) == ("running",)


def _close(connection: Connection, commits: Sequence[TurnCommit]) -> None:
    connection.many(
        "turn_close",
        [
            (commit.lease.run_id, commit.status, commit.seen, commit.reason, commit.definition, connection.now)
            for commit in commits
        ],
    )
