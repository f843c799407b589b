"""Messages: signals and updates, who may take them, and in which order.

Rules:

1. The oldest message (lowest number) goes first; waits for one name are served in issue order. While a receive listens,
   its names go to it and not to waits.
2. Taking a message, its entry, and deleting its row are one batch. A withdrawn wait takes nothing.
3. A timed wait is satisfied by any message sent by its deadline, however late the turn.
4. An update is rejected at once unless a receive handles its name; while a handler runs it stays undecided. Accepting
   it is recorded before anything its handler does; rejecting it leaves history as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextvars import Context, copy_context
from typing import Final, Literal

from tenuto.kernel.commands import CancelTimer, ReplyUpdate, StartTimer
from tenuto.kernel.core import Core
from tenuto.kernel.facts import Signal, UpdateAsked
from tenuto.kernel.history import Node
from tenuto.kernel.location import handler
from tenuto.kernel.operations import Dispatch, Err, Handlers, Ok, WaitOp
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import Entry, Flag, Message, Taken, Update, UpdateStatus
from tenuto.kernel.scope import Scope, current_scope

__all__ = ["Mailbox"]

SEEN_NUMBERS: Final = 64  # kept apart, so that facts out of order are still told from repeated ones


class Listener:
    """An active receive."""

    def __init__(self, scope: Scope, handlers: Handlers) -> None:
        self.scope = scope
        self.handlers = handlers
        self.signal_places = frozenset(handlers.place("signal", name) for name in handlers.signals)
        self.context: Context = copy_context()  # validators run in the run's own context
        self.taking: Pending | None = None
        self.updates: list[str] = []  # admitted here, since the last commit


class _Seen:
    """Numbers of mail that was given before. Of long ago only the newest is remembered: numbers grow."""

    __slots__ = ("_before", "_given", "_taken")

    def __init__(self, taken: Iterable[int]) -> None:
        self._taken = frozenset(taken)  # by recorded history; older mail may still be waiting
        self._given: set[int] = set()
        self._before = 0

    def __contains__(self, n: int) -> bool:
        return n in self._given or n in self._taken or n < self._before

    def add(self, n: int) -> None:
        self._given.add(n)
        if len(self._given) > SEEN_NUMBERS:
            self._before = sorted(self._given)[SEEN_NUMBERS // 2]
            self._given = {given for given in self._given if given >= self._before}


class Mailbox:
    """The messages of one run."""

    __slots__ = ("_core", "_otherwise", "_seen", "_signals", "_undecided", "_waits", "listener", "updates")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._signals: dict[int, Signal] = {}
        self._undecided: dict[int, UpdateAsked] = {}
        self._waits: dict[Pending, None] = {}
        self.listener: Listener | None = None
        self._otherwise: tuple[str, str | None] = ("not_accepting", None)
        self.updates = dict(core.rows.updates)
        self._seen = _Seen(
            [
                int(entry.kind.taken.id, 16)
                for _, entry in core.rows.history
                if type(entry.kind) is Message and entry.kind.taken is not None
            ]
        )

    @property
    def awaited(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of signals and of updates that would wake the run."""
        if not self._waits and self.listener is None:
            return (), ()
        names: dict[str, None] = {}
        for wait in self._waits:
            names.update(dict.fromkeys(wait.op.signals))
        updates: tuple[str, ...] = ()
        if self.listener is not None:
            names.update(dict.fromkeys(sorted(self.listener.handlers.signals)))
            updates = tuple(self.listener.handlers.updates)
        return tuple(names), updates

    @property
    def buffered(self) -> int:
        return len(self._signals)

    @property
    def unread(self) -> tuple[Signal, ...]:
        """Signals nobody has taken, oldest first."""
        return tuple(self._signals.values())

    # --- facts

    def signal(self, fact: Signal) -> None:
        if fact.n in self._seen:
            return
        self._seen.add(fact.n)
        now = self._core.journal.now
        self._signals[fact.n] = fact if fact.at is None or fact.at <= now else fact._replace(at=now)
        listener = self.listener
        if listener is not None and fact.name in listener.handlers.signals:
            if listener.taking is not None:
                self._dispatch(listener.taking)
            return
        for wait in self._waits:
            if fact.name in wait.op.signals and self._serve(wait):
                return

    def asked(self, fact: UpdateAsked) -> None:
        if fact.n in self._seen or fact.id in self.updates:
            self._core.journal.delete_mail(fact.n, force=False)
            return
        self._seen.add(fact.n)
        listener = self.listener
        if listener is None or fact.name not in listener.handlers.updates:
            self._reject(fact, *self._otherwise)
            return
        self._undecided[fact.n] = fact
        if listener.taking is not None:
            self._dispatch(listener.taking)

    def _reject(self, fact: UpdateAsked, why: str, reason: str | None) -> None:
        self._core.journal.delete_mail(fact.n, force=False)
        self._core.journal.command(fact.id, ReplyUpdate(fact.id, None, (why, reason)))

    # --- waits

    def wait(self, op: WaitOp) -> asyncio.Future[bytes]:
        core = self._core
        node, entry = core.place(op.name, Message, "a message wait")
        pending = core.pend(node, entry, op, self.withdraw)
        if entry is not None and type(entry.kind) is Message and not entry.flags & Flag.CANCELLED:
            pending.deadline = entry.kind.deadline
            if not entry.seq:
                self._waits[pending] = None
                if pending.deadline is not None:
                    core.timers.start(pending.deadline, pending.order, node)
                if not core.feeding and self._oldest(pending) is not None:  # reached late, behind an insertion
                    core.internally(pending, self._serve_now)
            return pending.future
        self._waits[pending] = None  # at once, recorded or not: waits are served in the order they were issued in
        if op.timeout_ms is not None:  # 0 only polls: what is stored by now is in time
            pending.deadline = core.journal.time + op.timeout_ms if op.timeout_ms else core.journal.now
        core.start(pending, self._begin_wait)
        return pending.future

    def _begin_wait(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        if self._oldest(pending) is not None:
            core.internally(pending, lambda pending: None if self._serve(pending) else self._arm(pending))
        else:
            self._arm(pending)
        if pending.flags and node.entry is None:
            core.journal.put(node, self._open_entry(pending), force=False)

    def _arm(self, pending: Pending) -> None:
        if pending.deadline is None or pending.node.entry is not None:
            return
        core = self._core
        node = pending.node
        core.timers.start(pending.deadline, pending.order, node)
        if pending.deadline > core.journal.now:  # else it is over in this turn, by a message or without
            core.journal.put(node, self._open_entry(pending), force=True)
            core.journal.command(node, StartTimer(node.location, pending.deadline, "timeout"))

    def _open_entry(self, pending: Pending) -> Entry:
        return Entry(0, 0, pending.started, pending.flags, Message(pending.op.signals, pending.deadline))

    def _oldest(self, wait: Pending) -> Signal | None:
        listener = self.listener
        taken = listener.handlers.signals if listener is not None else frozenset[str]()
        for signal in self._signals.values():
            if signal.name in wait.op.signals and signal.name not in taken and _in_time(signal, wait.deadline):
                return signal
        return None

    def _serve(self, wait: Pending) -> bool:
        signal = self._oldest(wait)
        if signal is None:
            return False
        core = self._core
        node = wait.node
        self._take_row(signal)
        if wait.deadline is not None and node.entry is not None and not core.journal.unask(node, StartTimer):
            core.journal.command(node, CancelTimer(node.location))
        kind = Message(wait.op.signals, wait.deadline, _taken(signal, core.journal.now))
        core.journal.settle(node, kind, wait.started, wait.flags)
        self._close_wait(wait)
        wait.give(signal.payload)
        return True

    def _serve_now(self, wait: Pending) -> None:
        self._serve(wait)

    def timed_out(self, wait: Pending) -> None:
        """Its deadline has passed and no message was in time."""
        self._core.journal.settle(wait.node, Message(wait.op.signals, wait.deadline), wait.started, wait.flags)
        self._close_wait(wait)
        wait.fail(TimeoutError(f"no signal {' or '.join(wait.op.signals)} in time"))

    def deliver(self, wait: Pending, kind: Message) -> None:
        """Feeds the recorded outcome of a wait."""
        self._close_wait(wait)
        if kind.taken is not None:
            wait.give(kind.taken.payload)
        else:
            wait.fail(TimeoutError(f"no signal {' or '.join(kind.names)} in time"))

    def _close_wait(self, wait: Pending) -> None:
        self._waits.pop(wait, None)
        self._close(wait)

    def withdraw(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        self._close_wait(pending)
        entry = node.entry
        if entry is not None and (entry.seq or entry.flags & Flag.CANCELLED):
            return
        if entry is not None and pending.deadline is not None and not core.journal.unask(node, StartTimer):
            core.journal.command(node, CancelTimer(node.location))
        if pending.flags & Flag.INSERTED:
            flags = pending.flags | Flag.CANCELLED
            core.journal.put(node, self._open_entry(pending)._replace(flags=flags), force=True)
        elif entry is not None:
            core.journal.delete(node)

    def _take_row(self, signal: Signal) -> None:
        del self._signals[signal.n]
        self._core.journal.delete_mail(signal.n, force=True)

    # --- receive

    def listen(self, handlers: Handlers, why: str) -> None:
        self._otherwise = handlers.otherwise
        if handlers.signals or handlers.updates:
            self.listener = Listener(current_scope.get(), handlers)
            return
        self.listener = None
        for fact in list(self._undecided.values()):
            self._reject(fact, why, None)
        self._undecided.clear()

    def close(self) -> None:
        """The run's code has ended: nothing is taken any more, whatever tasks it left behind."""
        self._waits.clear()
        self.listener = None

    def take(self) -> asyncio.Future[Dispatch]:
        core = self._core
        listener = self.listener
        if listener is None:
            return core.evicted()  # the run's code has ended, and left this task behind
        # A take has no place of its own: the message it gets has one. It hangs at a nameless place nobody else uses.
        pending = core.pend(Node("", listener.scope.node), None, None, self._withdraw_take)
        listener.taking = pending
        core.start(pending, self._begin_take)
        return pending.future

    def _begin_take(self, pending: Pending) -> None:
        if next(self._candidates(), None) is not None:
            self._core.internally(pending, self._dispatch)

    def _withdraw_take(self, pending: Pending) -> None:
        if self.listener is not None and self.listener.taking is pending:
            self.listener.taking = None
        self._close(pending)

    def _close(self, pending: Pending) -> None:
        self._core.close_pending(pending)
        pending.future.pending = None  # nobody withdraws it any more: no circle for the collector

    def _candidates(self) -> Iterator[Signal | UpdateAsked]:
        """What the listener may take, oldest first."""
        listener = self.listener
        if listener is None:
            return
        served: list[Signal | UpdateAsked] = [
            *(signal for signal in self._signals.values() if signal.name in listener.handlers.signals),
            *(fact for fact in self._undecided.values() if fact.name in listener.handlers.updates),
        ]
        yield from sorted(served, key=lambda fact: fact.n)

    def _dispatch(self, pending: Pending) -> None:
        for candidate in self._candidates():
            if isinstance(candidate, Signal):
                self._dispatch_signal(pending, candidate)
                return
            if self._admit(pending, candidate):
                return

    def _dispatch_signal(self, pending: Pending, signal: Signal) -> None:
        core = self._core
        scope, segment = self._next_segment("signal", signal.name)
        self._take_row(signal)
        taken = _taken(signal, core.journal.now)
        node = scope.node.child(segment)
        core.journal.settle(node, Message((signal.name,), None, taken), core.journal.now, core.insertion_flag())
        self._hand_over(pending, Dispatch("signal", signal.name, segment, signal.payload))

    def _admit(self, pending: Pending, fact: UpdateAsked) -> bool:
        core = self._core
        listener = self.listener
        assert listener is not None  # noqa: S101  # candidates come from it
        del self._undecided[fact.n]
        reason = listener.context.run(listener.handlers.updates[fact.name], fact.args)
        if reason is not None:
            self._reject(fact, "validator", reason)
            return False
        update = Update(core.journal.advance(), core.journal.time, fact.name, fact.args, UpdateStatus.ACCEPTED)
        self.updates[fact.id] = update
        core.journal.update(fact.id, update)
        core.journal.delete_mail(fact.n, force=True)
        listener.updates.append(fact.id)
        _, segment = self._next_segment("update", fact.name)
        self._hand_over(pending, Dispatch("update", fact.name, segment, fact.args, fact.id))
        return True

    def _next_segment(self, kind: Literal["signal", "update"], name: str) -> tuple[Scope, tuple[str, int, int]]:
        listener = self.listener
        assert listener is not None  # noqa: S101  # only asked for one
        n = listener.scope.dispatches
        listener.scope.dispatches = n + 1
        segment = handler(listener.handlers.place(kind, name), n)
        assert isinstance(segment, tuple) and len(segment) == 3  # noqa: PT018, S101
        return listener.scope, segment

    def _hand_over(self, pending: Pending, dispatch: Dispatch) -> None:
        if self.listener is not None:
            self.listener.taking = None
        self._close(pending)
        pending.give(dispatch)

    # --- replay of dispatches

    def awaits_signal(self, node: Node) -> bool:
        """Whether the recorded dispatch at a place can be fed now."""
        listener = self.listener
        segment = node.segment
        return (
            listener is not None
            and listener.taking is not None
            and node.parent is listener.scope.node
            and isinstance(segment, tuple)
            and segment[0] in listener.signal_places
            and segment[1] == listener.scope.dispatches
        )

    def awaits_update(self, update_id: str) -> bool:
        listener = self.listener
        return (
            listener is not None
            and listener.taking is not None
            and self.updates[update_id].name in listener.handlers.updates
        )

    def feed_signal(self, node: Node, kind: Message) -> None:
        listener = self.listener
        assert listener is not None and listener.taking is not None and kind.taken is not None  # noqa: PT018, S101
        self._core.history.reach(node)
        _, segment = self._next_segment("signal", kind.taken.name)
        self._hand_over(listener.taking, Dispatch("signal", kind.taken.name, segment, kind.taken.payload))

    def feed_update(self, update_id: str) -> None:
        listener = self.listener
        assert listener is not None and listener.taking is not None  # noqa: PT018, S101
        update = self.updates[update_id]
        listener.updates.append(update_id)
        _, segment = self._next_segment("update", update.name)
        self._hand_over(listener.taking, Dispatch("update", update.name, segment, update.args, update_id))

    # --- answers

    def reply(self, update_id: str, result: Ok | Err) -> None:
        update = self.updates[update_id]
        if update.status is not UpdateStatus.ACCEPTED:
            return  # replayed: answered before
        if isinstance(result, Ok):
            answered = update._replace(status=UpdateStatus.COMPLETED, result=result.value)
        else:
            answered = update._replace(status=UpdateStatus.FAILED, error=result.error)
        self.updates[update_id] = answered
        self._core.journal.update(update_id, answered)
        self._core.journal.command(update_id, ReplyUpdate(update_id, result))

    def unanswered(self) -> list[str]:
        """Admitted updates that have no answer yet."""
        return [key for key, update in self.updates.items() if update.status is UpdateStatus.ACCEPTED]

    def forget_seqs(self, update_ids: list[str] | None = None) -> None:
        """These updates (all, without a list) are not replayed any more."""
        for key in list(self.updates) if update_ids is None else update_ids:
            if self.updates[key].seq:
                self.updates[key] = self.updates[key]._replace(seq=0)
                self._core.journal.update(key, self.updates[key])


def _taken(signal: Signal, now: int) -> Taken:
    return Taken(f"{signal.n:016x}", signal.name, signal.payload, signal.at if signal.at is not None else now)


def _in_time(signal: Signal, deadline: int | None) -> bool:
    return deadline is None or signal.at is None or signal.at <= deadline
