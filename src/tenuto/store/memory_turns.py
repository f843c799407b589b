"""Commits of turns in memory: one way for all kinds, the reference of the other stores."""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.codec.records import encode_mail
from tenuto.codec.rows import EncodedBatch
from tenuto.store.commits import full
from tenuto.store.endings import SINGLES, outcome_of, refused_child, result
from tenuto.store.memory_mail import close, deliver, tell_watchers
from tenuto.store.memory_state import RunState, Shelf, Table, Watcher, checked
from tenuto.store.memory_tasks import cancel_tasks, queue_task
from tenuto.store.port import CLOSED, Commit, Full, NewRun, Outgoing, Park, TurnResult
from tenuto.store.rules import after_suspend, closes, may_begin, needs_alarm, progress, verdict

__all__ = ["commit_group", "create"]


def create(shelf: Shelf, new: NewRun) -> bool:
    """Whether it is there now; an id, or an open key of its queue, that is taken changes nothing."""
    if new.id in shelf.runs or shelf.keyed(new.queue, new.key) is not None:
        return False
    if not may_begin(new, shelf.queues):
        return False
    now = shelf.clock()
    waits = new.delay_ms > 0
    told = new.parent if new.parent is not None and not new.detached and new.parent[0] in shelf.runs else None
    status = "scheduled" if waits else "pending"
    created_at = now if new.begun_at is None else new.begun_at
    run = RunState(new, status, created_at, now + max(new.delay_ms, 0), Table(new.rows), new.definition, told, new.key)
    if waits:
        run.alarms["start"] = run.ready_at
    elif new.worker is not None:
        run.status, run.lease_owner, run.epoch, run.started_at = "running", new.worker, 1, created_at
    shelf.runs[new.id] = run
    return True


def commit_group(shelf: Shelf, commits: Sequence[Commit]) -> list[TurnResult]:
    """Commit each turn independently, in the order given."""
    turns = [full(commit) for commit in commits]
    for commit in turns:  # everything that can fail comes before the first change
        if isinstance(commit, Full):
            checked(commit.rows)
            for outgoing in commit.outgoing:
                encode_mail(outgoing.mail)
    return [_commit(shelf, commit) for commit in turns]


def _commit(shelf: Shelf, commit: Full | Park) -> TurnResult:
    if commit.new is not None:
        if not create(shelf, commit.new):
            return TurnResult("taken")
        if commit.new.worker is None:
            return TurnResult("committed")
    run = shelf.runs.get(commit.lease.run_id)
    ends = isinstance(commit, Full) and closes(commit)
    found = None if run is None else (run.epoch, run.status)
    refused = verdict(found, commit.lease.epoch, ends, ends and run is not None and run.cancel_above(commit.seen))
    if refused is not None:
        return refused
    assert run is not None  # noqa: S101  # else it is stale
    if isinstance(commit, Park):
        run.holds_slot = False
        run.status, run.lease_owner, run.reason, run.parked_by = "parked", None, commit.reason, commit.capability
        return TurnResult("committed")
    run.table.apply(commit.rows)
    if progress(commit.rows):
        run.losses.reclaims = 0
    undelivered = _write_effects(shelf, run, commit)
    return TurnResult("committed", _move(shelf, run, commit), undelivered)


def reopen(shelf: Shelf, back: Full) -> bool:
    """A run that goes back is open again, and nobody's; its key may have been given to another meanwhile."""
    run = shelf.run(back.lease.run_id)
    checked(back.rows)
    if run.epoch != back.lease.epoch:
        return False
    run.status, run.lease_owner, run.completed_at, run.reason, run.parked_by = "suspended", None, None, None, None
    run.epoch += 1
    run.pause_requested = False
    run.losses.reclaims = run.timer_count = 0
    run.inbox_seen = run.inbox_seq  # whoever claims it reads all the mail there is; its end may have deleted some
    run.key = run.alarm = None
    run.table.apply(back.rows)
    _write_effects(shelf, run, back)
    shelf.wake(run)
    return True


def _write_effects(shelf: Shelf, run: RunState, commit: Full) -> tuple[Outgoing, ...]:
    for number in commit.mail_done:
        run.inbox.pop(number, None)
    for update_id, answer in commit.answers:
        run.answers[update_id] = (answer, shelf.clock())
        for number in [n for n, (_, key) in run.inbox.items() if key == update_id]:
            del run.inbox[number]
    if commit.continued:
        run.timers.clear()
        run.alarms.clear()
    for location in commit.stopped_timers:
        run.timers.pop(location, None)
    run.timers.update((timer.location, timer.deadline) for timer in commit.timers)
    if commit.alarm is not None and needs_alarm(commit.alarm, run.alarm, commit.status, commit.timers):
        due = [*run.timers.values(), *run.alarms.values()]
        if not any(deadline <= commit.alarm for deadline in due):
            run.alarms["alarm"] = commit.alarm
    for task in commit.tasks:
        queue_task(shelf, task, run.id)
    cancel_tasks(shelf, commit.cancelled_tasks)
    for token in commit.closed_hooks:
        if shelf.hooks.get(token, ("", ""))[0] == run.id:
            del shelf.hooks[token]
    for target, location in commit.followed:
        _follow(shelf, run, target, location)
    for new in commit.runs:
        _start_child(shelf, run, new)
    return tuple(outgoing for outgoing in commit.outgoing if not deliver(shelf, outgoing))


def _start_child(shelf: Shelf, run: RunState, new: NewRun) -> None:
    """A child, or, where its id is another's, a refusal in the parent's own inbox. The same child again is followed."""
    if create(shelf, new) or new.parent is None:
        return
    known = shelf.runs.get(new.id)
    if known is not None and known.new.parent == new.parent:
        if not new.detached:
            _follow(shelf, run, new.id, new.parent[1])
        return
    target, status = (known.new.target, known.status) if known is not None else (f"key {new.key!r}", "open")
    error = refused_child(new.id, target, status)
    mail = result(new.parent[1], None, error, 1, shelf.clock())
    deliver(shelf, Outgoing(run.id, mail, f"refused:{new.parent[1]}"))


def _follow(shelf: Shelf, run: RunState, target: str, location: str) -> None:
    """The run hears of the end of one that is there already: when it comes, or at once if it has come."""
    followed = shelf.runs.get(target)
    if followed is not None and followed.open and followed.told == (run.id, location):
        return  # its own child, which will tell it
    if followed is None or followed.open:
        shelf.watchers.setdefault(target, []).append(Watcher(run.id, location, f"{run.id}:{location}"))
        return
    stored = EncodedBatch((), (), tuple(followed.table.list(SINGLES)))
    mail = result(location, *outcome_of(target, followed.status, stored), 1, shelf.clock())
    deliver(shelf, Outgoing(run.id, mail, f"end:{target}:{location}"))


def _move(shelf: Shelf, run: RunState, commit: Full) -> bool:
    """Puts the run into the status the turn gave it; whether the worker keeps the lease."""
    if commit.definition is not None:
        run.definition = commit.definition
    if commit.status in CLOSED:
        close(shelf, run, commit.status)
        run.reason = None
        # Its parent is told by the turn itself; who else follows it only the store knows.
        tell_watchers(shelf, run.id, lambda: outcome_of(run.id, commit.status, commit.rows))
        return False
    run.reason = run.parked_by = None
    run.inbox_seen = max(run.inbox_seen, commit.seen)
    run.alarm = commit.alarm
    run.run_no += commit.continued
    if commit.status == "suspended":
        return _suspend(run)
    run.status = "running"
    return True


def _suspend(run: RunState) -> bool:
    run.timer_count = len(run.timers) if run.alarm is not None else 0
    run.status = after_suspend(run.pause_requested, run.inbox_seq, run.inbox_seen)
    if run.status == "running":
        return True
    run.holds_slot = run.holds_slot and not run.pause_requested
    run.pause_requested = False
    run.lease_owner = None
    return False
