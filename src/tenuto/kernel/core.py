"""What all parts of a run share: its history, its pen, its loop, and the rules of issuing and withdrawing.

Rules:

1. No operation settles in the drain that issued it. An outcome at hand is queued as an internal fact.
2. While recorded facts are being fed (`replaying`), an operation without a record is only noted as outstanding: nothing
   is released before it is known that the code fits the history.
3. A fault (divergence, an undecodable value) is never raised into workflow code as something it could catch: the turn
   stops, and the code sees `Evicted` while it is being closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from tenuto.errors import DecodingError, Evicted
from tenuto.kernel.commands import Origin
from tenuto.kernel.divergence import Divergence
from tenuto.kernel.history import History, Node, Recorded, describe, is_passed
from tenuto.kernel.journal import Journal
from tenuto.kernel.location import Location
from tenuto.kernel.loop import Loop
from tenuto.kernel.pending import OperationFuture, Pending
from tenuto.kernel.records import Entry, Flag, Removed, Rows
from tenuto.kernel.scope import Scope, current_scope
from tenuto.kernel.timers import Timers

__all__ = ["Begin", "Core"]

Begin: TypeAlias = Callable[[Pending], None]

EVICTIONS: Final = 2  # calls of one task that raise `Evicted`


class Core:
    """The shared state of one run's parts. `Run` adds the turn itself."""

    __slots__ = (
        "_order",
        "counters",
        "cursor",
        "divergence",
        "dump",
        "evictions",
        "fault",
        "feeding",
        "held",
        "history",
        "inert",
        "inline",
        "inserted_open",
        "internal",
        "issued",
        "journal",
        "load",
        "loop",
        "next_seq",
        "origin",
        "outstanding",
        "rows",
        "timers",
    )

    def __init__(self, rows: Rows, *, strict: bool, dump: Callable[[Any], bytes], load: Callable[[bytes], Any]) -> None:
        self.rows = rows
        self.counters = rows.counters
        self.origin = Origin(rows.run_id, rows.counters.generation, rows.counters.rewinds)
        self.dump = dump
        self.load = load
        self.history = History(rows)
        self.journal = Journal(seq=self.history.last_seq, time=rows.counters.started_at, state=rows.state)
        self.timers = Timers()
        self.loop = Loop(self)  # type: ignore[abstract]  # what is missing is made below the class
        self.divergence = Divergence(strict)
        self.feeding = True
        self.inert = False
        self.evictions = 0  # of the task that is being closed
        self.fault: Exception | None = None
        self.held: list[Recorded] = []  # recorded facts whose operation is not issued yet, lowest `seq` first
        self.internal: deque[Callable[[], None]] = deque()
        self.outstanding: dict[Pending, Begin] = {}  # issued while replaying, not recorded
        self.inline: dict[Node, tuple[Location, str]] = {}  # steps and handlers the host is running: where, and what
        self.inserted_open = 0
        self.cursor = 0  # of the recorded fact to be fed next
        self.next_seq = self.history.facts[0][0]  # its seq; 0: none, or others are held back
        self.issued = False  # something was, since held facts were last looked at
        self._order = 0

    @property
    def replaying(self) -> bool:
        """Whether the code does again what it did before; not in the first turn of a run, which has nothing to feed."""
        return self.feeding and self.rows.state != "pending"

    # --- what the loop asks of its owner

    def has_stopped(self) -> bool:
        return self.fault is not None

    def now(self) -> int:
        return self.journal.time

    def report(self, message: object) -> None:
        """A line for the operator, said once: what replay repeats is not said again."""
        if not self.replaying and not self.inert:
            self.journal.notices.append(message)

    def start_timer(self, deadline: int, fire: Callable[[], None]) -> Callable[[], None]:
        raise AssertionError  # Run has the sleeps

    async def end_scope(self, scope: Scope, raised: BaseException | None) -> None:
        raise AssertionError  # Run has the scopes

    # --- being closed

    def evict(self) -> None:
        """Raises `Evicted`; from a task's third call on it returns, and what that call gives never settles.

        Code that swallows the first two would otherwise go round for ever: nothing but waiting ends its `close`.
        """
        if self.evictions < EVICTIONS:
            self.evictions += 1
            raise Evicted

    def evicted(self) -> asyncio.Future[Any]:
        """What an operation of a run being closed gives, if it gives anything."""
        self.evict()
        return self.loop.create_future()

    # --- faults

    def park(self, error: Exception) -> NoReturn:
        """Stops the turn for a cause that is not the run's own."""
        if self.fault is None:
            self.fault = error
        self.inert = True
        raise Evicted

    def diverge(self, node: Node, asked: str) -> NoReturn:
        self.park(self.divergence.at(node, asked))

    def decode(self, value: bytes) -> Any:
        try:
            return self.load(value)
        except DecodingError as error:
            self.park(error)

    # --- places

    def place(self, name: str, kind: type, asked: str) -> tuple[Node, Entry | None]:
        """The next place of a name in the current scope, and what is recorded there (D7)."""
        if self.inert:
            raise Evicted  # the calls themselves have been answered
        node = current_scope.get().take(name)
        entry = node.entry
        if entry is None or type(entry.kind) is Removed:  # a real operation replaces a removed one
            return node, None
        if type(entry.kind) is not kind:
            self.diverge(node, asked)
        self.history.reach(node)
        return node, entry

    def match(self, node: Node, entry: Entry, asked: str) -> None:
        """D7 for kinds that have modes."""
        if describe(entry, bare=True) != asked:
            self.diverge(node, f"a {asked}")

    def key(self, node: Node) -> str:
        """The idempotency key of what is at a place; also a task's id and a child's default id."""
        return self.origin.key(node.location)

    # --- recorded facts

    def look_ahead(self) -> None:
        """Notes which recorded fact comes next, for steps that go on at once."""
        self.next_seq = 0 if self.held else self.history.facts[self.cursor][0]

    def pass_over(self, node: Node) -> None:
        """This place and all below it count as reached (D8, `removed`): what is held of them is fed no more."""
        self.history.reach_all(node)
        if self.held:
            self.held = [recorded for recorded in self.held if not is_passed(recorded)]
            self.look_ahead()

    # --- issuing and settling

    def pend(self, node: Node, entry: Entry | None, op: Any, withdraw: Callable[[Pending], None]) -> Pending:
        """Registers an operation as issued."""
        self._order += 1
        future = OperationFuture(loop=self.loop)
        flags = entry.flags & Flag.INSERTED if entry is not None else self.insertion_flag()
        pending = future.pending = node.pending = Pending(node, op, future, self._order, flags, withdraw)
        pending.started = entry.began if entry is not None else self.journal.now
        if flags:
            self.inserted_open += 1
        self.issued = True
        return pending

    def insertion_flag(self) -> int:
        """INSERTED for what is first issued, live, while anything is left over."""
        return Flag.INSERTED if not self.feeding and (self.history.left_over or self.held) else Flag.NONE

    @property
    def left_over(self) -> bool:
        """Whether recorded entries have not been reached, or recorded facts not been taken."""
        return self.history.left_over > 0 or bool(self.held)

    def start(self, pending: Pending, begin: Begin) -> None:
        """Begins an operation, or notes it as outstanding while recorded facts are being fed."""
        if self.feeding:
            self.outstanding[pending] = begin
        else:
            pending.started = self.journal.now
            begin(pending)

    def internally(self, pending: Pending, fact: Begin) -> None:
        """Queues the outcome of an operation that is at hand."""
        self.internal.append(lambda: None if pending.gone else fact(pending))

    def close_pending(self, pending: Pending) -> None:
        """The operation is settled or withdrawn."""
        pending.gone = True
        pending.node.pending = None
        outstanding = bool(self.outstanding) and self.outstanding.pop(pending, None) is not None
        self.inline.pop(pending.node, None)
        if self.timers.live:
            self.timers.stop(pending.node)
        if pending.flags & Flag.INSERTED:
            self.inserted_open -= 1
        elif outstanding and self.left_over and not self.divergence.strict:
            pending.flags |= Flag.INSERTED  # withdrawn before it could begin: its place is noted all the same

    def next_order(self) -> int:
        self._order += 1
        return self._order
