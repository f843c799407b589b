"""Runs as a list shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tenuto.codec.frames import described
from tenuto.errors import DecodingError, StuckError
from tenuto.host.faults import brief, failed_at, innermost
from tenuto.host.readable import error_or_why
from tenuto.model.durations import point
from tenuto.store.port import STUCK, RunRecord
from tenuto.store.reasons import sealed_by

__all__ = ["RunError", "RunSummary", "plain_reason", "summary_of"]

_GIVE_KEY: Final = "give it (codec=, --codec) to read why"
_TWICE: Final = re.compile(r"^\w+ (\w+): (?=\1 )")  # class and code, before a text that begins with its code


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run failed: the error that the others came from."""

    type: str  # its class
    code: str | None  # of an error of ours
    message: str
    location: str  # of the step it comes from; "" where the workflow's own code raised it


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
    error: RunError | None = None  # of a failed run: what it came from in the end


def summary_of(record: RunRecord, error: bytes | None = None) -> RunSummary:
    """What a list says of a run. `error`: what it failed with, as it is stored."""
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
        None if error is None else _error_of(error),
    )


def _error_of(stored: bytes) -> RunError:
    key = described(stored)
    if key is not None:
        return RunError(DecodingError.__name__, DecodingError.code, f"{key}; {_GIVE_KEY}", "")
    error = error_or_why(stored)
    last = innermost(error)
    name, _, message = brief(last).partition(": ")
    return RunError(name, getattr(last, "code", None), message, failed_at(error))


def plain_reason(reason: str | None) -> str | None:
    """Why a run is parked, with its code said once; one that lost too many workers is stuck, and says so first."""
    if reason is None:
        return None
    key = sealed_by(reason)
    if key is not None:
        return f"{key}; {_GIVE_KEY}"
    plain = _TWICE.sub("", reason)
    return f"{STUCK}: {plain}" if plain.startswith(StuckError.code) else plain
