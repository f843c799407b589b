"""What a run's turns write and ask for, gathered until it may be emitted.

Rules:

1. A turn's writes are its batch: there are no dirty flags that another write could clear.
2. Forcing writes make the turn emit a batch; passive ones are kept until something forces, the run ends, or a turn
   ends with no inline work in flight. Kept writes go into that batch too, so stored history is a prefix in `seq` order.
3. Each settling takes the next sequence number. Delivered kinds move run time to `max(run time, now)`.
4. A command withdrawn in the turn that created it is not released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tenuto.kernel.batch import Batch, Trim
from tenuto.kernel.commands import Command
from tenuto.kernel.history import Node
from tenuto.kernel.location import Location
from tenuto.kernel.records import Counters, Entry, Flag, Kind, Metadata, Update

__all__ = ["Journal"]

# Builds a named tuple in half the time that calling its class takes.
_make_entry = cast("Callable[[type[Entry], tuple[object, ...]], Entry]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


class Journal:
    """The pen of one run."""

    def __init__(self, *, seq: int, time: int, state: str) -> None:
        self.seq = seq
        self.time = time  # run time
        self.now = time  # of the present turn
        self.forced = False
        self.notices: list[object] = []  # made texts when they are taken
        self._state = state  # as stored
        self._more = False  # anything but entries was written
        self._output: bytes | None = None
        self._error: bytes | None = None
        self._version: str | None = None
        self._published: bytes | None = None
        self._first_input: bytes | None = None
        self._counters: Counters | None = None
        self._delete_error = False
        self._cleared: tuple[int, ...] = ()
        self._entries: dict[Node, Entry] = {}
        self._metadata: dict[Node, Metadata] = {}
        self._deleted_entries: dict[Node, None] = {}
        self._deleted_metadata: dict[Node, None] = {}
        self._deleted_mail: list[int] = []
        self._trims: list[Trim] = []
        self._updates: dict[str, Update] = {}
        self.commands: dict[tuple[Node | str, type[Command]], Command] = {}  # of this turn

    # --- entries

    def advance(self) -> int:
        """The next sequence number, for something delivered: run time moves."""
        if self.now > self.time:
            self.time = self.now
        self.seq += 1
        return self.seq

    def settle(self, node: Node, kind: Kind, began: int, flags: int, *, force: bool = True) -> Entry:
        """Records the outcome of a delivered operation."""
        if self.now > self.time:
            self.time = self.now
        self.seq += 1
        entry = _make_entry(Entry, (self.seq, self.time, began, flags, kind))
        node.entry = self._entries[node] = entry
        if self._deleted_entries:
            self._deleted_entries.pop(node, None)
        if force:
            self.forced = True
        return entry

    def note(self, node: Node, kind: Kind, flags: int, *, force: bool = False) -> Entry:
        """Records something observed: it takes a sequence number and moves no time."""
        self.seq += 1
        began = node.entry.began if node.entry is not None else self.now
        entry = Entry(self.seq, max(self.time, self.now), began, flags, kind)
        self.put(node, entry, force=force)
        return entry

    def put(self, node: Node, entry: Entry, *, force: bool) -> None:
        node.entry = entry
        self._entries[node] = entry
        self._deleted_entries.pop(node, None)
        if force:
            self.forced = True

    def mark_inserted(self) -> None:
        """What was written while replaying, before it was known that anything is left over, was inserted."""
        for node, entry in self._entries.items():
            node.entry = self._entries[node] = entry._replace(flags=entry.flags | Flag.INSERTED)

    def delete(self, node: Node) -> None:
        """Takes back a pending entry."""
        node.entry = None
        self._entries.pop(node, None)
        if node.stored:
            self._deleted_entries[node] = None
            self._more = self.forced = True

    def describe(self, node: Node, metadata: Metadata) -> None:
        node.metadata = metadata
        self._metadata[node] = metadata
        self._deleted_metadata.pop(node, None)
        self._more = self.forced = True

    def trim(self, trim: Trim, dropped: list[Node]) -> None:
        """Deletes a range of counted places with their metadata.

        The writes kept for them go too: puts come after range deletes, and would bring them back.
        """
        stored = False
        for node in dropped:
            self._entries.pop(node, None)
            self._deleted_entries.pop(node, None)
            written = self._metadata.pop(node, None)
            if node.metadata is not None and (node.metadata is not written or node.stored):
                self._deleted_metadata[node] = None
            stored = stored or node.stored
        if stored:
            self._trims.append(trim)
        self._more = self.forced = True

    # --- the rest

    def delete_mail(self, n: int, *, force: bool) -> None:
        self._deleted_mail.append(n)
        self._more = True
        if force:
            self.forced = True

    def update(self, update_id: str, update: Update) -> None:
        self._updates[update_id] = update
        self._more = self.forced = True

    def publish(self, value: bytes) -> None:
        self._published = value
        self._more = self.forced = True

    def adopt(self, version: str) -> None:
        """The run goes on under this definition; written with whatever comes next."""
        self._version = version
        self._more = True

    def count(self, counters: Counters) -> None:
        self._counters = counters
        self._more = self.forced = True

    def complete(self, output: bytes, *, delete_error: bool) -> None:
        self._output, self._delete_error = output, delete_error
        self._more = self.forced = True

    def fail(self, error: bytes) -> None:
        """The run has failed, or begins to undo because it will."""
        self._error = error
        self._more = self.forced = True

    def command(self, key: Node | str, command: Command) -> None:
        self.commands[key, type(command)] = command

    def unask(self, key: Node | str, sort: type[Command]) -> bool:
        """Takes back a command of this turn; whether there was one."""
        return bool(self.commands) and self.commands.pop((key, sort), None) is not None

    def begin_anew(self, first_input: bytes | None) -> None:
        """The next run of the chain begins: names, history and metadata go, what was kept for them too.

        `first_input`: the digest of what the chain began with, unless it is stored already.
        """
        self._first_input = first_input
        self._entries.clear()
        self._metadata.clear()
        self._deleted_entries.clear()
        self._deleted_metadata.clear()
        self._trims.clear()
        self._cleared = (1, 2, 5)
        self._more = True

    # --- emission

    def take_commands(self) -> tuple[Command, ...]:
        if not self.commands:
            return ()
        commands = tuple(self.commands.values())
        self.commands.clear()
        return commands

    def take_notices(self) -> tuple[str, ...]:
        if not self.notices:
            return ()
        notices = tuple(map(str, self.notices))
        self.notices.clear()
        return notices

    def take_batch(self, state: str, alarm: int | None, *, busy: bool) -> Batch:
        """The batch of a turn that leaves the run in this state; empty while nothing forces one and it is busy."""
        if not self.forced and busy:
            return Batch.of_entries((), None, alarm)
        moved = state if state != self._state else None
        entries: tuple[tuple[Location, Entry], ...] = ()
        if self._entries:
            written: list[tuple[Location, Entry]] = []
            for node, entry in self._entries.items():
                node.stored = True
                written.append((node.location, entry))
            entries = tuple(written)
            self._entries.clear()
        self.forced = False
        self._state = state
        if not self._more:  # a step's row, and perhaps the state: nearly every batch of a long run
            return Batch.of_entries(entries, moved, alarm)
        batch = Batch(
            cleared=self._cleared,
            trims=tuple(self._trims),
            deleted_entries=tuple(node.location for node in self._deleted_entries),
            deleted_metadata=tuple(node.location for node in self._deleted_metadata),
            deleted_mail=tuple(self._deleted_mail),
            deleted_error=self._delete_error,
            entries=entries,
            metadata=tuple((node.location, metadata) for node, metadata in self._metadata.items()),
            updates=tuple(self._updates.items()),
            state=moved,
            output=self._output,
            error=self._error,
            version=self._version,
            published=self._published,
            counters=self._counters,
            first_input=self._first_input,
            alarm=alarm,
        )
        self._forget_more()
        return batch

    def _forget_more(self) -> None:
        self._more = False
        for node in self._deleted_entries:
            node.stored = False
        self._metadata.clear()
        self._deleted_entries.clear()
        self._deleted_metadata.clear()
        self._deleted_mail.clear()
        self._trims.clear()
        self._updates.clear()
        self._output = self._error = self._version = self._published = self._counters = self._first_input = None
        self._cleared = ()
        self._delete_error = False
