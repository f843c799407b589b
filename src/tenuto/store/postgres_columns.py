"""Turns as columns: what the statements take that commit many of them at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenuto.codec.keys import pack
from tenuto.codec.rows import UPDATES
from tenuto.store.clock import LATEST
from tenuto.store.port import CLOSED, NewTimer, TurnCommit, only_rows
from tenuto.store.postgres_arrays import Blobs, Flags, Integers, Texts

__all__ = [
    "answers_update",
    "begun_columns",
    "end_columns",
    "ends_plainly",
    "fence_columns",
    "goes_on",
    "is_alone",
    "moment",
    "needs_alarm",
    "row_columns",
    "turn_columns",
]

_UPDATE: Final = pack((UPDATES,))  # what keys of answered updates begin with
_OWN_STATUSES: Final = CLOSED | {"running", "suspended", "pending"}


def is_alone(commit: TurnCommit) -> bool:
    """Whether a turn touches nothing but its own run: then the server can judge it, and nobody waits for a verdict."""
    if commit.outgoing or commit.followed or commit.closed_hooks or commit.answers or commit.continued:
        return False
    if commit.tasks or commit.cancelled_tasks or commit.runs or commit.rows.range_deletes or commit.reason is not None:
        return False
    if commit.status not in _OWN_STATUSES or (commit.status in CLOSED and (commit.mail_done or commit.new is not None)):
        return False
    # Parts of one statement do not see each other, so nothing may be taken away and given at once.
    if commit.rows.deletes and not {key for key, _ in commit.rows.puts}.isdisjoint(commit.rows.deletes):
        return False
    if commit.stopped_timers and not {timer.location for timer in commit.timers}.isdisjoint(commit.stopped_timers):
        return False
    new = commit.new
    return new is None or (
        new.parent is None and new.delay_ms <= 0 and not (commit.rows.deletes or needs_alarm(commit, None))
    )


def row_columns(commits: Iterable[TurnCommit]) -> dict[str, Any]:
    """The rows that turns of different runs put; of two with one key the later counts."""
    runs: list[str] = []
    keys: list[bytes] = []
    values: list[bytes] = []
    for commit in commits:
        rows = dict(commit.rows.puts if commit.new is None else (*commit.new.rows, *commit.rows.puts))
        runs += [commit.lease.run_id] * len(rows)
        keys += rows
        values += rows.values()
    return {"row_runs": Texts(runs), "row_keys": Blobs(keys), "row_values": Blobs(values)}


def moment(alarm: int | None) -> int | None:
    return None if alarm is None else min(alarm, LATEST)


def needs_alarm(commit: TurnCommit, alarm: int | None) -> bool:
    """Whether a run's earliest deadline may have no timer. `alarm`: the one it had."""
    # A run that waits has a row for its alarm even if it is an old one: its timer may have fired by a clock that was
    # ahead of what the run was told (P4).
    if commit.alarm is None or any(timer.deadline <= commit.alarm for timer in commit.timers):
        return False
    return commit.status == "suspended" or (commit.status == "running" and commit.alarm != alarm)


def answers_update(commit: TurnCommit) -> bool:
    """Whether somebody who waits for an update must be told."""
    return bool(commit.answers) or any([key.startswith(_UPDATE) for key, _ in commit.rows.puts])


def _timers(commits: Iterable[TurnCommit]) -> Mapping[str, Any]:
    timers: dict[str, tuple[str, NewTimer]] = {
        f"{commit.lease.run_id}:{timer.location}": (commit.lease.run_id, timer)
        for commit in commits
        for timer in commit.timers
    }
    return _timer_columns(timers) if timers else _NO_TIMERS


def _timer_columns(timers: Mapping[str, tuple[str, NewTimer]]) -> Mapping[str, Any]:
    return {
        "timer_ids": Texts(timers),
        "deadlines": Integers([moment(timer.deadline) for _, timer in timers.values()]),
        "timer_runs": Texts([run_id for run_id, _ in timers.values()]),
        "sorts": Texts([timer.sort for _, timer in timers.values()]),
        "locations": Texts([timer.location for _, timer in timers.values()]),
    }


_NO_TIMERS: Final = _timer_columns({})


def begun_columns(commits: Sequence[TurnCommit]) -> dict[str, Any]:
    """New runs, and the first turns of those that were begun with, for `begin_runs`."""
    pairs = [(commit, commit.new) for commit in commits if commit.new is not None]
    news = [new for _, new in pairs]
    waits = [commit.status == "suspended" for commit, _ in pairs]
    return {
        "ids": Texts([new.id for new in news]),
        "targets": Texts([new.target for new in news]),
        "queues": Texts([new.queue for new in news]),
        "priorities": Integers([new.priority for new in news]),
        "statuses": Texts([commit.status for commit, _ in pairs]),
        "definitions": Texts([commit.definition or new.definition for commit, new in pairs]),
        "keys": Texts([new.key for new in news]),
        "partitions": Texts([new.partition for new in news]),
        "attributes": Texts([json.dumps(dict(new.attributes)) if new.attributes else None for new in news]),
        "workers": Texts([None if waiting else new.worker for new, waiting in zip(news, waits, strict=True)]),
        "alarms": Integers([moment(commit.alarm) for commit, _ in pairs]),
        "begun": Integers([new.begun_at for new in news]),
        "timers": Integers(
            [
                len(commit.timers) if waiting and commit.alarm is not None else 0
                for (commit, _), waiting in zip(pairs, waits, strict=True)
            ]
        ),
        **row_columns(commits),
        **_timers(commits),
    }


def goes_on(commit: TurnCommit) -> bool:
    """Whether a turn only writes rows of a run that goes on, and nobody must be told."""
    return only_rows(commit) and not answers_update(commit)


def ends_plainly(commit: TurnCommit) -> bool:
    """Whether a turn writes rows and ends its run, touches no other, and that is all."""
    return (
        commit.status in CLOSED
        and is_alone(commit)
        and not (commit.rows.deletes or commit.stopped_timers or commit.timers)
    )


def fence_columns(commits: Sequence[TurnCommit]) -> dict[str, Any]:
    """Turns that only write rows, for `commit_rows`; `end_runs` takes more."""
    return {
        "runs": Texts([commit.lease.run_id for commit in commits]),
        "epochs": Integers([commit.lease.epoch for commit in commits]),
        "alarms": Integers([moment(commit.alarm) for commit in commits]),
        "seen": Integers([commit.seen for commit in commits]),
        **row_columns(commits),
    }


def end_columns(commits: Sequence[TurnCommit]) -> dict[str, Any]:
    """Turns that only write rows, or end their runs as well, for `end_runs`."""
    ended = [commit for commit in commits if commit.status in CLOSED]
    return {
        **fence_columns(commits),
        "ends": Flags([commit.status in CLOSED for commit in commits]),
        "ended": Texts([commit.lease.run_id for commit in ended]),
        "statuses": Texts([commit.status for commit in ended]),
        "ended_seen": Integers([commit.seen for commit in ended]),
        "definitions": Texts([commit.definition for commit in ended]),
    }


def turn_columns(commits: Sequence[TurnCommit]) -> dict[str, Any]:
    """Turns of stored runs, for `commit_turns`."""
    ended = [commit.lease.run_id for commit in commits if commit.status in CLOSED]
    cuts = [(commit.lease.run_id, key) for commit in commits for key in commit.rows.deletes]
    decided = [(commit.lease.run_id, number) for commit in commits for number in commit.mail_done]
    alarms = [commit for commit in commits if needs_alarm(commit, None)]
    return {
        "runs": Texts([commit.lease.run_id for commit in commits]),
        "epochs": Integers([commit.lease.epoch for commit in commits]),
        "statuses": Texts([commit.status for commit in commits]),
        "seen": Integers([commit.seen for commit in commits]),
        "alarms": Integers([None if commit.status in CLOSED else moment(commit.alarm) for commit in commits]),
        # A turn that wrote nothing only replayed: it does not make a run less stuck.
        "progress": Flags([commit.status in CLOSED or any(commit.rows) for commit in commits]),
        "definitions": Texts([commit.definition for commit in commits]),
        "started": Integers([len({timer.location for timer in commit.timers}) for commit in commits]),
        "cut_runs": Texts([run_id for run_id, _ in cuts]),
        "cut_keys": Blobs([bytes(key) for _, key in cuts]),
        "mail_runs": Texts([run_id for run_id, _ in decided]),
        "mail": Integers([number for _, number in decided]),
        "stopped": Texts([f"{one.lease.run_id}:{location}" for one in commits for location in one.stopped_timers]),
        "alarm_runs": Texts([commit.lease.run_id for commit in alarms]),
        "alarm_times": Integers([moment(commit.alarm) for commit in alarms]),
        "ended": Texts(ended),
        "notify": bool(ended) or any(map(answers_update, commits)),
        **row_columns(commits),
        **_timers(commits),
    }
