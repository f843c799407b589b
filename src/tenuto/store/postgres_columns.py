"""Turns as columns: what the statements take that commit many of them at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenuto.store.clock import LATEST
from tenuto.store.commits import CLOSED, Commit, End, Full, NewTimer, Own, Rows, Start, begun_by, full, puts_of
from tenuto.store.postgres_arrays import Blobs, Flags, Integers, Texts
from tenuto.store.rules import needs_alarm, progress

__all__ = ["begun_columns", "end_columns", "fence_columns", "moment", "row_columns", "turn_columns"]


def row_columns(commits: Iterable[Commit]) -> dict[str, Any]:
    """The rows that turns of different runs put; of two with one key the later counts."""
    runs: list[str] = []
    keys: list[bytes] = []
    values: list[bytes] = []
    for commit in commits:
        new, puts = begun_by(commit), puts_of(commit)
        rows = dict(puts if new is None else (*new.rows, *puts))
        runs += [commit.lease.run_id] * len(rows)
        keys += rows
        values += rows.values()
    return {"row_runs": Texts(runs), "row_keys": Blobs(keys), "row_values": Blobs(values)}


def moment(alarm: int | None) -> int | None:
    return None if alarm is None else min(alarm, LATEST)


def _timers(commits: Iterable[Start | Own]) -> Mapping[str, Any]:
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


def begun_columns(commits: Sequence[Start]) -> dict[str, Any]:
    """New runs, and the first turns of those that were begun with, for `begin_runs`."""
    pairs = [(commit, commit.new) for commit in commits]
    news = [new for _, new in pairs]
    waits = [commit.status == "suspended" for commit in commits]
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


def fence_columns(commits: Sequence[Rows | End]) -> dict[str, Any]:
    """Turns that only write rows, for `commit_rows`; `end_runs` takes more."""
    return {
        "runs": Texts([commit.lease.run_id for commit in commits]),
        "epochs": Integers([commit.lease.epoch for commit in commits]),
        "alarms": Integers([moment(commit.alarm) if isinstance(commit, Rows) else None for commit in commits]),
        "seen": Integers([commit.seen for commit in commits]),
        **row_columns(commits),
    }


def end_columns(commits: Sequence[Rows | End]) -> dict[str, Any]:
    """Turns that only write rows, or end their runs as well, for `end_runs`."""
    ended = [commit for commit in commits if isinstance(commit, End)]
    return {
        **fence_columns(commits),
        "ends": Flags([isinstance(commit, End) for commit in commits]),
        "ended": Texts([commit.lease.run_id for commit in ended]),
        "statuses": Texts([commit.status for commit in ended]),
        "ended_seen": Integers([commit.seen for commit in ended]),
        "definitions": Texts([commit.definition for commit in ended]),
    }


def turn_columns(commits: Sequence[Rows | End | Own]) -> dict[str, Any]:
    """Turns of stored runs, for `commit_turns`."""
    turns = [turn for commit in commits if isinstance(turn := full(commit), Full)]
    ended = [commit.lease.run_id for commit in turns if commit.status in CLOSED]
    cuts = [(commit.lease.run_id, key) for commit in turns for key in commit.rows.deletes]
    decided = [(commit.lease.run_id, number) for commit in turns for number in commit.mail_done]
    alarms = [turn for turn in turns if needs_alarm(turn.alarm, None, turn.status, turn.timers)]
    return {
        "runs": Texts([commit.lease.run_id for commit in turns]),
        "epochs": Integers([commit.lease.epoch for commit in turns]),
        "statuses": Texts([commit.status for commit in turns]),
        "seen": Integers([commit.seen for commit in turns]),
        "alarms": Integers([None if commit.status in CLOSED else moment(commit.alarm) for commit in turns]),
        "progress": Flags([commit.status in CLOSED or progress(commit.rows) for commit in turns]),
        "definitions": Texts([commit.definition for commit in turns]),
        "started": Integers([len({timer.location for timer in commit.timers}) for commit in turns]),
        "cut_runs": Texts([run_id for run_id, _ in cuts]),
        "cut_keys": Blobs([bytes(key) for _, key in cuts]),
        "mail_runs": Texts([run_id for run_id, _ in decided]),
        "mail": Integers([number for _, number in decided]),
        "stopped": Texts([f"{one.lease.run_id}:{location}" for one in turns for location in one.stopped_timers]),
        "alarm_runs": Texts([commit.lease.run_id for commit in alarms]),
        "alarm_times": Integers([moment(commit.alarm) for commit in alarms]),
        "ended": Texts(ended),
        "notify": bool(ended) or any([commit.notify for commit in turns]),
        **row_columns(commits),
        **_timers([commit for commit in commits if isinstance(commit, Own)]),
    }
