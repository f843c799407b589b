"""What happens to a run, as it happens: read from the store whenever something was committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from tenuto.codec.rows import decode_rows
from tenuto.errors import RunNotFoundError
from tenuto.host.history import history_of
from tenuto.host.readable import error_view_or_say, view_or_say
from tenuto.model.durations import point
from tenuto.store.port import CLOSED, Store

__all__ = ["RunEvent", "watch"]


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A change of a run's status, or of one of its entries."""

    at: datetime
    kind: str  # "status", or the kind of the entry
    location: str  # "" for the run itself
    status: str


async def watch(store: Store, run_id: str) -> AsyncIterator[RunEvent]:
    """Every change from now on, and what is there already first; ends with the run."""
    seen: dict[str, str] = {}
    mark = await store.changed(-1, 0)
    while True:
        record = await store.get(run_id)
        if record is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        now = point(await store.now())
        rows, _ = decode_rows(run_id, await store.rows(run_id))
        for entry in history_of(rows, view_or_say, error_view_or_say):
            if seen.get(entry.location) != entry.status:
                seen[entry.location] = entry.status
                yield RunEvent(now, entry.kind, entry.location, entry.status)
        if seen.get("") != record.status:
            seen[""] = record.status
            yield RunEvent(now, "status", "", record.status)
        if record.status in CLOSED:
            return
        mark = await store.changed(mark, 1.0)
