"""A run, or a worker, out of its row in a database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tenuto.store.port import RunRecord, WorkerRecord

__all__ = ["record_of_columns", "worker_of_columns"]


def record_of_columns(row: Sequence[Any], attributes: Any) -> RunRecord:
    """Out of the columns every statement about runs gives first; how attributes are stored differs.

    Attributes that are not a map are left out.
    """
    (run_id, target, status, epoch, alarm, reason, by, operation, parent, definition, queue, run_no) = row[:12]
    created_at, started_at, completed_at = row[12:15]
    return RunRecord(
        run_id,
        target,
        status,
        epoch,
        alarm,
        reason,
        None if by is None else (by, operation),
        by is not None and parent is None,
        definition,
        queue,
        run_no,
        created_at,
        started_at,
        completed_at,
        cast("Mapping[str, Any]", attributes) if isinstance(attributes, dict) else {},
    )


def worker_of_columns(row: Sequence[Any]) -> WorkerRecord:
    """Out of the columns of `live_workers`; the queues are a JSON list."""
    worker_id, host, pid, release, queues, *rest = row
    return WorkerRecord(worker_id, host, pid, release, None if queues is None else tuple(json.loads(queues)), *rest)
