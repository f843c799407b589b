"""Before a deploy: which open runs of a store would not fit the code of this process. Reads only.

Every open run is replayed with the code that is loaded here. What would park it after a deploy is a finding, with the
place in its history and what the code asked for there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tenuto.codec.rows import decode_rows, mail_key
from tenuto.errors import DecodingError, HistoryDivergedError, NondeterminismError, RecordError, RunNotFoundError
from tenuto.host.definitions import Definitions
from tenuto.host.programs import Programs, version_of
from tenuto.host.replaying import replay
from tenuto.kernel.operations import Parked
from tenuto.store.port import OPEN, RunFilter, RunRecord, Store

__all__ = ["Verdict", "check_run", "check_runs", "open_runs"]

UNASKED: Final = "what comes after it"
_ALL: Final = 10_000_000
_MAIL: Final = mail_key(0)[:2]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the code of this process would make of one open run.

    diverges: it would be parked. unknown: its workflow is not loaded here. unreadable: its rows cannot be read here.
    """

    run_id: str
    workflow: str
    status: str
    outcome: Literal["fits", "diverges", "unknown", "unreadable"]
    code: str = ""  # of the error that would park it
    location: str = ""
    recorded: str = ""
    asked: str = ""
    message: str = ""

    @property
    def fits(self) -> bool:
        return self.outcome == "fits"


async def open_runs(store: Store, workflows: Sequence[str] | None = None) -> list[RunRecord]:
    """The open runs (of these workflows), oldest first."""
    found: list[RunRecord] = []
    for status in sorted(OPEN):
        for target in workflows if workflows is not None else (None,):
            found += await store.runs(RunFilter(status=status, target=target, limit=_ALL))
    return sorted(found, key=lambda record: (record.created_at, record.id))


async def check_runs(store: Store, definitions: Definitions, records: Sequence[RunRecord]) -> AsyncIterator[Verdict]:
    """One verdict after another; a run that ends meanwhile is left out."""
    programs = Programs(store, definitions)
    for record in records:
        try:
            stored = await store.rows(record.id)
        except RunNotFoundError:
            continue  # deleted since it was listed
        await programs.fetch(version_of(stored), record.target)
        yield check_run(record, stored, definitions)


def check_run(record: RunRecord, stored: Sequence[tuple[bytes, bytes]], definitions: Definitions) -> Verdict:
    """What the code of this process makes of one run, given its rows."""
    current, version = definitions.workflow(record.target), version_of(stored)
    if current is None and definitions.loaded(record.target, version) is None:
        return _verdict(record, "unknown", message="its workflow is not loaded here")
    try:
        rows, _ = decode_rows(record.id, [row for row in stored if not row[0].startswith(_MAIL)])
        turn, left_over = replay(rows, record, definitions.pinned(record.target, version, current), definitions)
    except RecordError as damage:
        return _verdict(record, "unreadable", error=damage)
    if not isinstance(turn.outcome, Parked):
        if not left_over:
            return _verdict(record, "fits")
        # The engine lets such a run go on, since code may still come to it later, and parks it at its end.
        location, recorded = left_over[0]
        return _verdict(
            record, "diverges", error=HistoryDivergedError(location, recorded, UNASKED, _put_back(location))
        )
    error = turn.outcome.error
    return _verdict(record, "unreadable" if isinstance(error, DecodingError) else "diverges", error=error)


def _put_back(location: str) -> str:
    return f"put it back, replace it by removed(...) at {location}, or guard the change by patched(...)"


def _verdict(
    record: RunRecord,
    outcome: Literal["fits", "diverges", "unknown", "unreadable"],
    *,
    error: Exception | None = None,
    message: str = "",
) -> Verdict:
    place = ("", "", "")
    if isinstance(error, HistoryDivergedError | NondeterminismError):
        place = (error.location, error.recorded, error.asked)
    code = str(getattr(error, "code", "")) if error is not None else ""
    text = message or (str(error) if error is not None else "")
    return Verdict(record.id, record.target, record.status, outcome, code, *place, text)
