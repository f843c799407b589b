"""What one turn writes, as records by location; the codec makes rows of it.

Rules:

1. A batch is written whole or not at all, together with the durable commands of its turn.
2. Inside a batch: prefixes cleared, then trims, then deletes, then puts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from tenuto.kernel.location import Location
from tenuto.kernel.records import Counters, Entry, Mail, Metadata, Update

__all__ = ["EMPTY", "Batch", "Trim"]


class Trim(NamedTuple):
    """Delete counted segments `(name, n)` and `(name, n, …)` for first <= n < last, and all below, in one key range."""

    scope: Location
    name: str
    first: int
    last: int


class Batch(NamedTuple):
    """The writes of one turn. `alarm`: the earliest deadline pending after it; authoritative for wake-up.

    A named tuple, because one is made for every turn and a frozen dataclass of this size costs four times as much.
    """

    cleared: tuple[int, ...] = ()  # whole prefixes deleted: continue-as-new
    trims: tuple[Trim, ...] = ()
    deleted_entries: tuple[Location, ...] = ()
    deleted_metadata: tuple[Location, ...] = ()
    deleted_mail: tuple[int, ...] = ()
    deleted_output: bool = False
    deleted_error: bool = False
    entries: tuple[tuple[Location, Entry], ...] = ()
    metadata: tuple[tuple[Location, Metadata], ...] = ()
    mail: tuple[tuple[int, Mail], ...] = ()  # put back by a rewind
    updates: tuple[tuple[str, Update], ...] = ()
    state: str | None = None
    output: bytes | None = None
    error: bytes | None = None
    version: str | None = None
    input: bytes | None = None
    published: bytes | None = None
    counters: Counters | None = None
    first_input: bytes | None = None
    alarm: int | None = None

    @staticmethod
    def of_entries(
        entries: tuple[tuple[Location, Entry], ...], state: str | None = None, alarm: int | None = None
    ) -> Batch:
        """A batch of nothing else: nearly every turn makes one, and naming all fields would take five times as long."""
        return _make_batch(Batch, (*_BEFORE, entries, (), (), (), state, *_BEHIND_STATE, alarm))

    @property
    def empty(self) -> bool:
        """Whether nothing would be written (the alarm is not a row of the run)."""
        return not self.entries and self.has_only_entries()

    def has_only_entries(self) -> bool:
        """Whether nothing but entries would be written."""
        return self[:_ENTRIES] == _BEFORE and self[_ENTRIES + 1 : -1] == _BEHIND


EMPTY = Batch()
_ENTRIES = Batch._fields.index("entries")
_BEFORE, _BEHIND = EMPTY[:_ENTRIES], EMPTY[_ENTRIES + 1 : -1]  # the alarm is the last
_BEHIND_STATE = EMPTY[Batch._fields.index("state") + 1 : -1]
_make_batch = cast("Callable[[type[Batch], tuple[object, ...]], Batch]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
