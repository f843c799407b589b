"""Kinds of commit say less than a full one, never something else."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch
from tenuto.host.classify import narrowed
from tenuto.store.commits import (
    Commit,
    End,
    Full,
    Lease,
    NewRun,
    NewTimer,
    Own,
    Park,
    Rows,
    Start,
    begun_by,
    full,
    puts_of,
)
from tenuto.store.rules import CANCEL_FIRST, STALE, after_suspend, may_begin, needs_alarm, progress, verdict

LEASE = Lease("r", 1)
PUTS = ((b"key", b"value"),)
BATCH = EncodedBatch((), (), PUTS)
NAP = NewTimer("nap", 7, "delay")
NEW = NewRun("r", "wf", ((b"first", b""),), worker="w")

KINDS: list[Commit] = [
    Rows(lease=LEASE, puts=PUTS, alarm=7, seen=3),
    Start(new=NEW, status="suspended", puts=PUTS, alarm=7, timers=(NAP,), definition="h"),
    Start(new=NEW._replace(worker=None), status="pending"),
    End(lease=LEASE, status="failed", puts=PUTS, seen=3, definition="h", notify=True),
    Own(
        lease=LEASE,
        status="suspended",
        rows=EncodedBatch((), (b"gone",), PUTS),
        alarm=7,
        seen=3,
        mail_done=(1,),
        timers=(NAP,),
        stopped_timers=("other",),
        definition="h",
        notify=True,
    ),
]


@pytest.mark.parametrize("commit", KINDS, ids=lambda commit: type(commit).__name__)
def test_a_kind_at_length_is_recognised_as_the_same_kind(commit: Commit) -> None:
    """Nothing is lost on the way there or back."""
    wide = full(commit)
    assert isinstance(wide, Full)
    assert narrowed(wide) == commit
    assert type(narrowed(wide)) is type(commit)
    assert (wide.lease, puts_of(wide), begun_by(wide)) == (commit.lease, puts_of(commit), begun_by(commit))


def test_what_is_full_or_parks_a_run_is_at_length_already() -> None:
    park = Park(lease=LEASE, reason="why")
    commit = Full(lease=LEASE, status="running", rows=BATCH)
    assert full(park) is park
    assert full(commit) is commit


MORE: dict[str, Any] = {
    "runs": ("a run",),
    "tasks": ("a task",),
    "cancelled_tasks": ("a task",),
    "outgoing": ("mail",),
    "followed": (("r", "place"),),
    "closed_hooks": ("a hash",),
    "answers": (("u", b""),),
    "continued": True,
    "rows": EncodedBatch(((b"a", b"b"),), (), PUTS),
}
USUAL = Full(lease=LEASE, status="running", rows=BATCH, alarm=7, seen=3)


@pytest.mark.parametrize("field", MORE)
@pytest.mark.parametrize("commit", KINDS, ids=lambda commit: type(commit).__name__)
def test_a_commit_that_concerns_others_or_deletes_ranges_is_full(commit: Commit, field: str) -> None:
    wide = full(commit)
    assert isinstance(wide, Full)
    assert isinstance(narrowed(wide._replace(**{field: MORE[field]})), Full)


OWN: dict[str, Any] = {
    "status": "suspended",
    "rows": EncodedBatch((), (b"other",), PUTS),
    "mail_done": (1,),
    "timers": (NAP,),
    "stopped_timers": ("place",),
    "definition": "hash",
    "notify": True,
}


@pytest.mark.parametrize("field", OWN)
def test_a_turn_with_more_than_rows_is_its_runs_own(field: str) -> None:
    assert isinstance(narrowed(USUAL), Rows)
    assert isinstance(narrowed(USUAL._replace(**{field: OWN[field]})), Own)


def test_a_turn_without_rows_to_put_is_its_runs_own() -> None:
    assert isinstance(narrowed(USUAL._replace(rows=EncodedBatch((), (), ()))), Own)


@pytest.mark.parametrize(
    "more",
    [
        {"rows": EncodedBatch((), (b"key",), PUTS)},  # put and deleted
        {"timers": (NAP,), "stopped_timers": ("nap",)},
        {"status": "completed", "mail_done": (1,)},
    ],
)
def test_what_one_statement_could_not_do_at_once_is_full(more: dict[str, Any]) -> None:
    assert isinstance(narrowed(USUAL._replace(**more)), Full)


@pytest.mark.parametrize(
    "more",
    [
        {"status": "completed"},
        {"alarm": 7},  # without a timer by then
        {"new": NEW._replace(parent=("p", "op"))},
        {"new": NEW._replace(delay_ms=1)},
        {"mail_done": (1,)},
        {"stopped_timers": ("place",)},
        {"notify": True},
    ],
)
def test_a_start_with_more_than_its_first_rows_is_full(more: dict[str, Any]) -> None:
    start = Full(lease=LEASE, status="running", rows=BATCH, new=NEW)
    assert isinstance(narrowed(start), Start)
    assert isinstance(narrowed(start._replace(**more)), Full)


# --- rules


@pytest.mark.parametrize(
    ("found", "closes", "cancel_above", "expected"),
    [
        (None, False, False, STALE),
        ((2, "running"), False, False, STALE),
        ((1, "terminated"), False, False, STALE),
        ((1, "completed"), True, True, STALE),
        ((1, "running"), True, True, CANCEL_FIRST),
        ((1, "running"), False, True, None),
        ((1, "running"), True, False, None),
        ((1, "paused"), False, False, None),
    ],
)
def test_a_turn_is_refused_under_another_epoch_behind_an_outcome_or_before_a_cancel(
    found: Any, closes: bool, cancel_above: bool, expected: Any
) -> None:
    """P5, V7."""
    assert verdict(found, 1, closes, cancel_above) is expected


@pytest.mark.parametrize("status", ["running", "suspended", "completed"])
@pytest.mark.parametrize("alarm", [None, 7])
@pytest.mark.parametrize("before", [None, 7])
@pytest.mark.parametrize("timers", [(), (NAP,), (NAP._replace(deadline=8),)])
def test_a_suspended_run_has_a_row_at_or_before_its_alarm_an_old_one_too(
    status: str, alarm: int | None, before: int | None, timers: tuple[NewTimer, ...]
) -> None:
    """P4."""
    covered = timers == (NAP,)
    due = status == "suspended" or (status == "running" and before is None)
    assert needs_alarm(alarm, before, status, timers) == (alarm is not None and not covered and due)


def test_mail_keeps_a_run_running_and_a_pause_that_was_asked_for_comes_first() -> None:
    """V1."""
    assert after_suspend(pausing=False, inbox_seq=3, seen=3) == "suspended"
    assert after_suspend(pausing=False, inbox_seq=4, seen=3) == "running"
    assert after_suspend(pausing=True, inbox_seq=4, seen=3) == "paused"


def test_a_turn_that_wrote_nothing_is_no_progress() -> None:
    assert progress(BATCH)
    assert progress(EncodedBatch((), (b"gone",), ()))
    assert not progress(EncodedBatch((), (), ()))


def test_a_run_of_a_queue_with_limits_waits_there_to_be_claimed() -> None:
    assert may_begin(NEW, {"other"})
    assert not may_begin(NEW, {"default"})
    assert may_begin(NEW._replace(worker=None), {"default"})
