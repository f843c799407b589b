"""Runs as a list shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tenuto.model.durations import point
from tenuto.store.port import RunRecord

__all__ = ["RunSummary", "summary_of"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of a list of runs."""

    id: str
    workflow: str  # the definition's id
    status: str
    reason: str | None  # why it is parked
    queue: str
    run_no: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    attributes: Mapping[str, str | int | float | bool]


def summary_of(record: RunRecord) -> RunSummary:
    """What a list says of a run."""
    return RunSummary(
        record.id,
        record.target,
        record.status,
        record.reason,
        record.queue,
        record.run_no,
        point(record.created_at),
        None if record.started_at is None else point(record.started_at),
        None if record.completed_at is None else point(record.completed_at),
        record.attributes,
    )
