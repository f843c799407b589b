"""Runs as a list shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tenuto.model.durations import point
from tenuto.store.port import RunRecord
from tenuto.store.reasons import sealed_by

__all__ = ["RunSummary", "plain_reason", "summary_of"]

_TWICE: Final = re.compile(r"^\w+ (\w+): (?=\1 )")  # class and code, before a text that begins with its code


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
        plain_reason(record.reason),
        record.queue,
        record.run_no,
        point(record.created_at),
        None if record.started_at is None else point(record.started_at),
        None if record.completed_at is None else point(record.completed_at),
        record.attributes,
    )


def plain_reason(reason: str | None) -> str | None:
    """Why a run is parked, with its code said once."""
    if reason is None:
        return None
    key = sealed_by(reason)
    return _TWICE.sub("", reason) if key is None else f"{key}; give it (codec=, --codec) to read why"
