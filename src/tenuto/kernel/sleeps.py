"""Sleeps: the durable ones of the model and those asyncio asks its loop for.

A sleep's deadline is run time at issue plus its duration, and is stored once: replay uses the stored one, whatever the
argument now says. One that is due by run time settles by an internal fact. One that the store's clock has passed takes
its turn among the facts, by its deadline: what happened before it is looked at first. Either settles in the same turn,
with one entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenuto.kernel.commands import CancelTimer, StartTimer
from tenuto.kernel.core import Core
from tenuto.kernel.operations import SleepOp
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import Entry, Flag, Sleep

__all__ = ["Sleeps"]


class Sleeps:
    """The sleeps of one run."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def issue(self, op: SleepOp) -> asyncio.Future[bytes]:
        return self._issue(op).future

    def start_timer(self, deadline: int, fire: Callable[[], None]) -> Callable[[], None]:
        """A timer of `call_later` or `call_at`: an entry called `timer`. Gives what withdraws it."""
        pending = self._issue(SleepOp("timer", until_ms=deadline))
        pending.fire = fire
        return lambda: None if pending.gone else self.withdraw(pending)

    def _issue(self, op: SleepOp) -> Pending:
        core = self._core
        node, entry = core.place(op.name, Sleep, "a sleep")
        pending = core.pend(node, entry, op, self.withdraw)
        if entry is not None and type(entry.kind) is Sleep and not entry.flags & Flag.CANCELLED:
            pending.deadline = entry.kind.deadline
            if not entry.seq:
                core.timers.start(pending.deadline, pending.order, node)
            return pending
        until = core.journal.now if op.poll else op.until_ms
        pending.deadline = until if until is not None else core.journal.time + (op.duration_ms or 0)
        core.start(pending, self._begin)
        return pending

    def _begin(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        deadline = pending.deadline or 0
        if deadline <= core.journal.time and not pending.op.poll:
            core.internally(pending, self.fired)
            return
        core.timers.start(deadline, pending.order, node)
        if deadline > core.journal.now:
            core.journal.put(node, Entry(0, 0, pending.started, pending.flags, Sleep(deadline)), force=True)
            core.journal.command(node, StartTimer(node.location, deadline, "delay"))

    def fired(self, pending: Pending) -> None:
        """Its deadline has passed."""
        core = self._core
        core.journal.settle(pending.node, Sleep(pending.deadline or 0), pending.started, pending.flags)
        self.deliver(pending)

    def deliver(self, pending: Pending) -> None:
        self._close(pending)
        if pending.fire is not None:
            pending.fire()
        pending.give(b"")

    def withdraw(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        self._close(pending)
        entry = node.entry
        if entry is not None and (entry.seq or entry.flags & Flag.CANCELLED):
            return
        asked = core.journal.unask(node, StartTimer)
        if entry is not None and not asked:
            core.journal.command(node, CancelTimer(node.location))
        if pending.flags & Flag.INSERTED:
            flags = pending.flags | Flag.CANCELLED
            sleep = Sleep(pending.deadline or 0)
            core.journal.put(node, Entry(0, 0, pending.started, flags, sleep), force=True)
        elif entry is not None:
            core.journal.delete(node)

    def _close(self, pending: Pending) -> None:
        self._core.close_pending(pending)
        pending.future.pending = None  # nobody withdraws it any more: no circle for the collector
