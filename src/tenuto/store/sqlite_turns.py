"""Commits of turns in SQLite.

Rules:

1. A member is held against its run's row first; what is refused has written nothing (P5).
2. A statement is executed only for what a turn has, and for all `Rows`, `End` and unkeyed `Start` of a group together.
   One row of a run that continues, alone, is one statement.
3. The run's own row comes last, because what the turn did to others may have come back as mail to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from tenuto.codec.rows import EncodedBatch
from tenuto.errors import RunNotFoundError
from tenuto.store.commits import full, puts_of
from tenuto.store.connection import Connection
from tenuto.store.endings import SINGLES, outcome_of, refused_child, result
from tenuto.store.port import CLOSED, Commit, End, Full, NewRun, Outgoing, Park, Rows, Start, TurnResult
from tenuto.store.rules import COMMITTED, COMMITTED_KEPT, STALE, TAKEN, closes, needs_alarm, progress, verdict
from tenuto.store.sqlite_mail import deliver, empty_closed, listed, tell_watchers, wake
from tenuto.store.sqlite_runs import create, get, insert_begun, insert_run, put_rows, rows
from tenuto.store.sqlite_tasks import cancel_tasks, queue_task

__all__ = ["as_row", "commit_group"]

Timed: TypeAlias = Start | Full  # what can start timers


def commit_group(connection: Connection, commits: Sequence[Commit]) -> list[TurnResult]:
    """Commit each turn independently."""
    done = _commit_together(connection, commits) if len(commits) > 1 else {}
    results = [done.get(commit.lease.run_id) or _commit(connection, full(commit)) for commit in commits]
    _leave_closed(
        connection,
        {
            commit.lease.run_id: (commit.status, EncodedBatch((), (), puts_of(commit)))
            for commit, result in zip(commits, results, strict=True)
            if not isinstance(commit, Rows | Park) and commit.status in CLOSED and result.verdict == "committed"
        },
    )
    return results


def _leave_closed(connection: Connection, closed: Mapping[str, tuple[str, EncodedBatch]]) -> None:
    """Takes from runs that have ended what they no longer need, and tells who follows them."""
    if not closed:
        return
    runs = [run_id for (run_id,) in connection.all("belongings", (listed(closed),))]
    if not runs:
        return
    empty_closed(connection, runs)
    # A run's parent is told by the turn itself; who else follows it only the store knows.
    for (run_id,) in connection.all("followed", {"ids": listed(runs)}):
        tell_watchers(connection, run_id, partial(outcome_of, run_id, *closed[run_id]))


def as_row(commit: Rows) -> tuple[object, ...] | None:
    """Return what `commit_row` takes for a turn of one row, as most steps are; None where it has more."""
    (run_id, epoch), puts, alarm, seen = commit
    if len(puts) != 1:
        return None
    ((key, value),) = puts
    return run_id, key, value, epoch, seen, alarm


def _commit_together(connection: Connection, commits: Sequence[Commit]) -> dict[str, TurnResult]:
    """Commit the turns that only put rows of their run, which begins, continues or ends; what became of each.

    All of them by a few statements. They concern no other run, so it is no matter that they come before the rest of
    the group. Where a run is not as its turn expects it, the full way finds out why.
    """
    known: dict[str, Rows | End] = {}
    starts: list[Start] = []
    for commit in commits:
        match commit:
            case Rows() | End():
                known[commit.lease.run_id] = commit
            case Start() if commit.new.key is None:  # a key may be that of a run which this very group ends
                starts.append(commit)
            case _:
                pass
    if len(known) + len(starts) < 2 or len({commit.lease.run_id for commit in commits}) < len(commits):
        return {}
    fitting = _fitting(connection, known)
    puts = [(commit.lease.run_id, key, value) for commit in fitting for key, value in commit.puts]
    results = {commit.lease.run_id: COMMITTED_KEPT if isinstance(commit, Rows) else COMMITTED for commit in fitting}
    begun: list[Start] = []
    for commit in starts:
        if _insert(connection, commit.new, commit):
            begun.append(commit)
            puts.extend([(commit.new.id, key, value) for key, value in _first_rows(commit.new, commit.puts)])
            results[commit.new.id] = COMMITTED_KEPT if commit.status == "running" else COMMITTED
        else:
            results[commit.new.id] = TAKEN
    put_rows(connection, puts)
    if timed := [commit for commit in begun if commit.timers]:
        _start_timers(connection, timed)
    if ended := [commit for commit in fitting if isinstance(commit, End)]:
        _close(connection, ended)
    return results


def _fitting(connection: Connection, known: Mapping[str, Rows | End]) -> list[Rows | End]:
    """The turns of these that find their run as they expect it, so that its own row changes only where it ends."""
    fitting: list[Rows | End] = []
    if not known:
        return fitting
    for run_id, epoch, inbox_seq, inbox_seen, alarm in connection.all("running_turns", (listed(known),)):
        commit = known[run_id]
        if isinstance(commit, Rows):
            as_expected = inbox_seen >= commit.seen and alarm == commit.alarm
        else:
            as_expected = inbox_seq <= commit.seen  # no mail that could be a cancel
        if as_expected and epoch == commit.lease.epoch:
            fitting.append(commit)
    return fitting


def _commit(connection: Connection, commit: Full | Park) -> TurnResult:
    if commit.new is not None:
        return _begin(connection, commit, commit.new)
    run_id, epoch = commit.lease.run_id, commit.lease.epoch
    found = connection.one("turn_run", (run_id,))
    ends = isinstance(commit, Full) and closes(commit)
    cancelled = (
        ends
        and found is not None
        and found[2] > commit.seen
        and connection.one("cancel_above", {"run": run_id, "seen": commit.seen}) is not None
    )
    refused = verdict(None if found is None else (found[0], found[1]), epoch, ends, cancelled)
    if refused is not None or found is None:
        return refused or STALE
    if isinstance(commit, Park):
        return _park(connection, commit)
    _, status, _, inbox_seen, reclaims, alarm, _ = found
    _write_rows(connection, run_id, commit.rows)
    undelivered = _write_effects(connection, commit, alarm)
    if commit.status == "running" == status and commit.definition is None and not commit.continued:
        seen = max(inbox_seen, commit.seen)
        strikes = 0 if progress(commit.rows) else reclaims
        if (seen, commit.alarm, strikes) != (inbox_seen, alarm, reclaims):
            connection.run("turn_note", (run_id, seen, commit.alarm, strikes))
        return TurnResult("committed", True, undelivered) if undelivered else COMMITTED_KEPT
    return TurnResult("committed", _move(connection, commit), undelivered)


def _begin(connection: Connection, commit: Full | Park, new: NewRun) -> TurnResult:
    """Stores a new run, and its first turn with it where its worker has taken one."""
    if new.worker is None:
        return COMMITTED if create(connection, new) else TAKEN
    first = None if isinstance(commit, Park) else commit
    if not _insert(connection, new, first):
        return TAKEN
    if isinstance(commit, Park):
        _write_rows(connection, new.id, EncodedBatch((), (), new.rows))
        return _park(connection, commit)
    _write_rows(connection, new.id, commit.rows._replace(puts=_first_rows(new, commit.rows.puts)))
    undelivered = _write_effects(connection, commit, None)
    if _waits(commit):
        return COMMITTED
    if commit.status == "running" and not commit.continued:
        return TurnResult("committed", True, undelivered) if undelivered else COMMITTED_KEPT
    return TurnResult("committed", _move(connection, commit), undelivered)


def _insert(connection: Connection, new: NewRun, first: Start | Full | None) -> bool:
    """Whether a new run is there now, as its first turn leaves it, where it has one; without its rows."""
    if new.worker is None:
        return insert_run(connection, new)
    if first is None:
        return insert_begun(connection, new, new.definition, None, 0, False)
    waits = _waits(first)
    timers = len(first.timers) if waits and first.alarm is not None else 0
    return insert_begun(connection, new, first.definition or new.definition, first.alarm, timers, waits)


def _waits(first: Start | Full) -> bool:
    """Whether a new run waits after its first turn, for certain: nothing the turn did can come back to it as mail."""
    if first.status != "suspended" or isinstance(first, Start):
        return first.status == "suspended"
    return not (first.tasks or first.runs or first.outgoing or first.followed)


def _first_rows(new: NewRun, puts: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(dict((*new.rows, *puts)).items())


def _park(connection: Connection, commit: Park) -> TurnResult:
    values = {"run": commit.lease.run_id, "reason": commit.reason, "parked_by": commit.capability}
    connection.run("turn_park", values)
    return COMMITTED


def reopen(connection: Connection, back: Full) -> bool:
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


def _write_rows(connection: Connection, run_id: str, rows: EncodedBatch) -> None:
    if rows.range_deletes:
        connection.many("delete_range", [(run_id, start, end) for start, end in rows.range_deletes])
    if rows.deletes:
        connection.many("delete_rows", [(run_id, key) for key in rows.deletes])
    if rows.puts:
        put_rows(connection, [(run_id, key, value) for key, value in rows.puts])


def _write_effects(connection: Connection, commit: Full, alarm: int | None) -> tuple[Outgoing, ...]:
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
    if needs_alarm(commit.alarm, alarm, commit.status, commit.timers):
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


def _start_timers(connection: Connection, commits: Sequence[Timed]) -> None:
    connection.many(
        "start_timers",
        [
            (_timer_id(run_id, location), deadline, run_id, sort, location, connection.now)
            for commit in commits
            for run_id in (commit.lease.run_id,)
            for location, deadline, sort in commit.timers
        ],
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


def _move(connection: Connection, commit: Full) -> bool:
    """Puts the run into the status the turn gave it; whether the worker keeps the lease."""
    run_id = commit.lease.run_id
    if commit.status in CLOSED:
        _close(connection, (commit,))
        return False
    values = {
        "run": run_id,
        "seen": commit.seen,
        "alarm": commit.alarm,
        "progress": progress(commit.rows),
        "continued": int(commit.continued),
        "definition": commit.definition,
    }
    if commit.status == "running":
        connection.run("turn_run_on", values)
        return True
    return connection.one("turn_suspend", {**values, "timed": commit.alarm is not None}) == ("running",)


def _close(connection: Connection, commits: Sequence[End | Full]) -> None:
    connection.many(
        "turn_close",
        [(commit.lease.run_id, commit.status, commit.seen, commit.definition, connection.now) for commit in commits],
    )
