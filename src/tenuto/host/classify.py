"""Which kind of commit a turn is: decided once, here, of the turn and its effects alone.

Pure: it reads no store and no clock. What has to be read first is read before (`reads_first` says for which turns).
"""

from __future__ import annotations

from tenuto.codec.rows import EncodedBatch
from tenuto.host.effects import Effects
from tenuto.kernel.commands import StartTimer, is_durable
from tenuto.kernel.operations import Cancelled, Completed, Continued, Failed
from tenuto.kernel.turn import Turn
from tenuto.store.commits import CLOSED, Commit, End, Full, Lease, NewRun, Own, Rows, Start
from tenuto.store.rules import needs_alarm

__all__ = ["classify", "narrowed", "reads_first", "sleeps_beyond", "status_after", "stores_nothing", "stores_rows_only"]


def status_after(turn: Turn) -> str:
    """Return the status in which a turn leaves its run."""
    match turn.outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case Continued():
            return "running"
        case _:
            return "running" if turn.waiting.in_flight else "suspended"


def reads_first(turn: Turn, told: bool, begins: bool, timed: bool) -> bool:
    """True if other things have to be read before a turn can be classified.

    `told`: its run has a parent that waits for its end. `begins`: it is stored with this turn. `timed`: it has timers.
    """
    outcome = turn.outcome
    if outcome is not None and (told or type(outcome) is Continued):
        return True
    for command in turn.commands:
        if is_durable(command):
            return True
    # A run that is to be suspended looks whether its older timers are still there.
    return outcome is None and timed and not begins and not turn.waiting.in_flight


def stores_nothing(turn: Turn) -> bool:
    """True if a turn leaves steps in flight and has no rows to commit."""
    return turn.outcome is None and bool(turn.waiting.in_flight) and not turn.batch.entries and turn.batch.empty


def stores_rows_only(turn: Turn) -> bool:
    """True if a turn leaves steps in flight and stores nothing but rows, as nearly all do."""
    batch, commands, waiting, outcome, _, _ = turn
    if outcome is not None or not waiting.in_flight or (not batch.entries and batch.empty):
        return False
    for command in commands:  # noqa: SIM110  # nearly always one: a generator would cost more than the look at it
        if is_durable(command):
            return False
    return True


def sleeps_beyond(turn: Turn, after: int) -> bool:
    """True if a first turn leaves a run that only waits for a time after this one: memory need not have it."""
    deadline, *others = turn.waiting
    if turn.outcome is not None or deadline is None or deadline <= after or any(others):
        return False
    return all(isinstance(command, StartTimer) for command in turn.commands)


def classify(
    turn: Turn,
    lease: Lease,
    rows: EncodedBatch,
    *,
    new: NewRun | None = None,
    seen: int = 0,
    effects: Effects | None = None,
) -> Commit:
    """Return the commit of a turn. `rows`: its batch, encoded; `effects`: of its durable commands, if it has any."""
    batch, _, waiting, outcome, _, _ = turn
    range_deletes, deletes, puts = rows
    if (  # the turn of most steps
        puts
        and waiting.in_flight
        and outcome is None
        and effects is None
        and new is None
        and not (deletes or range_deletes or batch.deleted_mail or batch.updates)
        and batch.version is None
    ):
        return Rows(lease=lease, puts=puts, alarm=batch.alarm, seen=seen)
    if effects is None:
        return narrowed(
            Full(
                lease=lease,
                status=status_after(turn),
                rows=rows,
                alarm=batch.alarm,
                seen=seen,
                mail_done=batch.deleted_mail,
                definition=batch.version,
                notify=bool(batch.updates),
                new=new,
            )
        )
    return narrowed(
        Full(
            lease=lease,
            # What the commit itself tells the run is taken in the next turn: until then the lease is kept.
            status="running" if outcome is None and (effects.facts or effects.gone) else status_after(turn),
            rows=rows,
            alarm=batch.alarm,
            runs=tuple(effects.runs),
            tasks=tuple(effects.tasks),
            cancelled_tasks=tuple(effects.cancelled_tasks),
            outgoing=tuple(effects.outgoing),
            followed=tuple(effects.followed),
            closed_hooks=tuple(effects.closed_hooks),
            answers=tuple(effects.answers),
            seen=seen,
            mail_done=batch.deleted_mail,
            timers=tuple(effects.timers),
            stopped_timers=tuple(effects.stopped_timers),
            definition=batch.version if effects.definition is None else effects.definition,
            continued=isinstance(outcome, Continued),
            notify=bool(batch.updates or effects.answers),
            new=new,
        )
    )


def narrowed(commit: Full) -> Commit:
    """Return the same commit as the shortest kind that says all of it."""
    if _concerns_others(commit):
        return commit
    if commit.new is not None:
        return _start(commit, commit.new)
    (range_deletes, deletes, puts), closes = commit.rows, commit.status in CLOSED
    # Parts of one statement do not see each other, so nothing may be taken away and given at once.
    if (
        range_deletes
        or (closes and commit.mail_done)
        or (deletes and not {key for key, _ in puts}.isdisjoint(deletes))
        or (commit.stopped_timers and not {timer.location for timer in commit.timers}.isdisjoint(commit.stopped_timers))
    ):
        return commit
    simple = not (deletes or commit.mail_done or commit.timers or commit.stopped_timers)
    if simple and closes:
        return End(
            lease=commit.lease,
            status=commit.status,
            puts=puts,
            seen=commit.seen,
            definition=commit.definition,
            notify=commit.notify,
        )
    if simple and puts and commit.status == "running" and commit.definition is None and not commit.notify:
        return Rows(lease=commit.lease, puts=puts, alarm=commit.alarm, seen=commit.seen)
    return Own(
        lease=commit.lease,
        status=commit.status,
        rows=commit.rows,
        alarm=None if closes else commit.alarm,
        seen=commit.seen,
        mail_done=commit.mail_done,
        timers=commit.timers,
        stopped_timers=commit.stopped_timers,
        definition=commit.definition,
        notify=commit.notify,
    )


def _concerns_others(commit: Full) -> bool:
    return bool(
        commit.outgoing
        or commit.runs
        or commit.tasks
        or commit.cancelled_tasks
        or commit.followed
        or commit.closed_hooks
        or commit.answers
        or commit.continued
    )


def _start(commit: Full, new: NewRun) -> Start | Full:
    if (
        commit.status in CLOSED
        or new.parent is not None
        or new.delay_ms > 0
        or commit.seen
        or commit.mail_done
        or commit.stopped_timers
        or commit.notify
        or commit.rows.deletes
        or commit.rows.range_deletes
        or needs_alarm(commit.alarm, None, commit.status, commit.timers)
    ):
        return commit
    return Start(
        new=new,
        status=commit.status,
        puts=commit.rows.puts,
        alarm=commit.alarm,
        timers=commit.timers,
        definition=commit.definition,
    )
