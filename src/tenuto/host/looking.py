"""A run as somebody looks at it: everything that is recorded of it, and why it is where it is. Reads only.

Values and errors are JSON here, made without their classes; those that cannot be read are shown as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenuto.codec.rows import decode_rows
from tenuto.errors import RunNotFoundError
from tenuto.host.definitions import Definitions
from tenuto.host.explain import Explanation, explain
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.readable import error_view_or_say, view_or_say
from tenuto.host.summaries import RunSummary, summary_of
from tenuto.kernel.records import MailKind, Rows
from tenuto.model.durations import point
from tenuto.store.port import Store

__all__ = ["RunView", "look"]


@dataclass(frozen=True, slots=True)
class RunView:
    """One run, looked at."""

    now: datetime  # by the store's clock
    summary: RunSummary
    input: Any  # arguments and named arguments
    history: tuple[HistoryEntry, ...]
    explanation: Explanation
    published: Any
    result: Any
    error: Any  # what it failed with
    buffered: tuple[str, ...]  # names of signals nobody has taken, oldest first
    cancelled: str | None  # why it was asked to stop, "" without a reason; None: it was not


async def look(store: Store, run_id: str, definitions: Definitions) -> RunView:
    """Everything about a run, read in one go; `RunNotFoundError`."""
    record = await store.get(run_id)
    if record is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    rows, _ = decode_rows(run_id, await store.rows(run_id))
    explanation = await explain(store, record, definitions)
    history = history_of(rows, view_or_say, error_view_or_say)
    return RunView(
        now=point(await store.now()),
        summary=summary_of(record),
        input=view_or_say(rows.input),
        history=(*history, *_running(explanation, {entry.location for entry in history})),
        explanation=explanation,
        published=_optional(rows.published),
        result=_optional(rows.output),
        error=None if rows.error is None else error_view_or_say(rows.error),
        buffered=_buffered(rows),
        cancelled=None if rows.counters.cancel is None else rows.counters.cancel.reason or "",
    )


def _running(explanation: Explanation, known: Set[str]) -> Iterator[HistoryEntry]:
    """Steps under way that nothing is recorded of yet, as entries that are open."""
    for operation in explanation.pending:
        if operation.location not in known and operation.since is not None:
            yield HistoryEntry(
                operation.location, operation.kind, "pending", operation.attempt, 0, began=operation.since
            )


def _optional(data: bytes | None) -> Any:
    return None if data is None else view_or_say(data)


def _buffered(rows: Rows) -> tuple[str, ...]:
    return tuple(mail.name for _, mail in rows.mail if mail.kind is MailKind.SIGNAL)
