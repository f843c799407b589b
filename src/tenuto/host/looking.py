"""A run as somebody looks at it: everything that is recorded of it, and why it is where it is. Reads only.

Values whose classes are not loaded here, or that no key opens, are shown as such and spoil nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenuto.codec.rows import decode_rows
from tenuto.codec.values import load
from tenuto.errors import DecodingError, RunNotFoundError
from tenuto.host.definitions import Definitions
from tenuto.host.explain import Explanation, explain
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.summaries import RunSummary, summary_of
from tenuto.kernel.records import MailKind, Rows
from tenuto.model.durations import point
from tenuto.store.port import Store

__all__ = ["RunView", "Unreadable", "load_or_say", "look"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that cannot be read here."""

    why: str

    def __repr__(self) -> str:
        return f"<cannot be read here: {self.why}>"


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
    return RunView(
        now=point(await store.now()),
        summary=summary_of(record),
        input=load_or_say(rows.input),
        history=tuple(history_of(rows, load_or_say)),
        explanation=await explain(store, record, definitions),
        published=_optional(rows.published),
        result=_optional(rows.output),
        error=_optional(rows.error),
        buffered=_buffered(rows),
        cancelled=None if rows.counters.cancel is None else rows.counters.cancel.reason or "",
    )


def load_or_say(data: bytes) -> Any:
    """A stored value, or what stands for one that cannot be read."""
    try:
        return load(data)
    except DecodingError as error:
        return Unreadable(str(error.args[0]) if error.args else "damaged")


def _optional(data: bytes | None) -> Any:
    return None if data is None else load_or_say(data)


def _buffered(rows: Rows) -> tuple[str, ...]:
    return tuple(mail.name for _, mail in rows.mail if mail.kind is MailKind.SIGNAL)
