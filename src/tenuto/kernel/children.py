"""Other runs and the outside: spawn, detach, send, hook.

Entry and command are one batch, and replay repeats none of them. A spawn is accepted by an internal fact of the turn
that issued it; its child's end settles the entry. The others settle when the host says so, after the commit that did or
refused them; found unsettled on load, without a refusal, they were done.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tenuto.kernel.commands import CancelChild, RegisterHook, SendSignal, StartChild
from tenuto.kernel.core import Core
from tenuto.kernel.facts import Done
from tenuto.kernel.history import Node
from tenuto.kernel.operations import ChildOp, Err, Ok
from tenuto.kernel.pending import OperationFuture, Pending
from tenuto.kernel.records import Child, ChildMode, Entry, Flag

__all__ = ["Children"]

_WORDS: Final = {
    ChildMode.SPAWN: "child",
    ChildMode.DETACH: "detach",
    ChildMode.SEND: "send",
    ChildMode.HOOK: "hook",
}


class Children:
    """What one run started or sent elsewhere."""

    __slots__ = ("_core", "began", "found")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.began = False  # something was started or sent since the run was loaded
        self.found: list[Pending] = []  # unsettled on load: done, unless the inbox says otherwise

    def issue(self, op: ChildOp) -> asyncio.Future[bytes]:
        core = self._core
        node, entry = core.place(op.name, Child, f"a {_WORDS[op.mode]}")
        pending = core.pend(node, entry, op, self.withdraw)
        if op.mode is ChildMode.SPAWN:
            pending.ended = OperationFuture(loop=core.loop)
            pending.ended.pending = pending
        if entry is None or type(entry.kind) is not Child:
            core.start(pending, self._begin)
            return pending.future
        core.match(node, entry, _WORDS[op.mode])
        if not entry.seq and not entry.flags & Flag.CANCELLED:
            if op.mode is ChildMode.HOOK:
                core.start(pending, self._register)
            elif op.mode is not ChildMode.SPAWN:
                self.found.append(pending)
        return pending.future

    def open(self) -> list[tuple[Node, Child]]:
        """The children that have not ended, and where they are recorded."""
        core = self._core
        if not self.began and not any(type(entry.kind) is Child for _, entry in core.rows.history):
            return []  # as in most runs, which need not be walked through for it
        open_ones: list[tuple[Node, Child]] = []
        for node in core.history.root.walk():
            entry = node.entry
            if entry is None or type(entry.kind) is not Child or entry.seq or entry.flags & Flag.CANCELLED:
                continue
            if entry.kind.mode is ChildMode.SPAWN:
                open_ones.append((node, entry.kind))
        return open_ones

    def ended(self, spawned: asyncio.Future[bytes]) -> asyncio.Future[bytes]:
        assert isinstance(spawned, OperationFuture) and spawned.pending is not None  # noqa: PT018, S101
        assert spawned.pending.ended is not None  # noqa: S101  # only spawns have an end
        return spawned.pending.ended

    def _begin(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        op: ChildOp = pending.op
        self.began = True
        run = op.run if op.run is not None else ("" if op.mode is ChildMode.HOOK else core.key(node))
        core.journal.put(
            node, Entry(0, 0, pending.started, pending.flags, Child(op.mode, 0, run, op.target)), force=True
        )
        payload = op.input or b""
        match op.mode:
            case ChildMode.SPAWN | ChildMode.DETACH:
                detached = op.mode is ChildMode.DETACH
                start = StartChild(
                    node.location, run, op.target, payload, op.queue, op.if_exists, detached, op.priority
                )
                core.journal.command(node, start)
                if not detached:
                    core.internally(pending, self._accept)
            case ChildMode.SEND:
                core.journal.command(node, SendSignal(node.location, core.key(node), run, op.target, payload))
            case ChildMode.HOOK:
                self._register(pending)

    def _register(self, pending: Pending) -> None:
        node = pending.node
        self._core.inline[node] = node.location, "step"  # the host is at work on it: the run stays where it is
        self._core.journal.command(node, RegisterHook(node.location, self._core.key(node), pending.op.run))

    def _accept(self, pending: Pending) -> None:
        core = self._core
        entry = pending.node.entry
        assert entry is not None and type(entry.kind) is Child  # noqa: PT018, S101  # written by _begin
        accepted = core.journal.advance()
        core.journal.put(pending.node, entry._replace(kind=entry.kind._replace(accepted=accepted)), force=True)
        pending.give(entry.kind.run.encode())

    def done(self, pending: Pending, fact: Done) -> None:
        """The child ended, or the host did or refused what was asked."""
        match fact.outcome:
            case Ok(value):
                self._settle(pending, value, None)
            case Err(error=error):
                self._settle(pending, None, error)
            case _:
                pass

    def settle_found(self) -> None:
        """What was found unsettled on load, and not refused by the facts of this turn, was done."""
        found, self.found = self.found, []
        for pending in found:
            if not pending.gone:
                self._core.internally(pending, lambda pending: self._settle(pending, None, None))

    def _settle(self, pending: Pending, output: bytes | None, error: bytes | None) -> None:
        core = self._core
        node = pending.node
        entry = node.entry
        assert entry is not None and type(entry.kind) is Child  # noqa: PT018, S101  # written by _begin
        kind = entry.kind._replace(output=output, error=error)
        core.journal.settle(node, kind, entry.began, entry.flags)
        self._outcome(pending, kind)

    def deliver(self, pending: Pending, kind: Child, seq: int) -> None:
        """Feeds a recorded acceptance or end."""
        if kind.mode is ChildMode.SPAWN and seq == kind.accepted:
            pending.give(kind.run.encode())
        else:
            self._outcome(pending, kind)

    def _outcome(self, pending: Pending, kind: Child) -> None:
        core = self._core
        core.close_pending(pending)
        if kind.mode is ChildMode.SPAWN:
            future = pending.ended
            if future is None or future.done():
                return
            if kind.error is not None:
                future.set_exception(core.decode(kind.error))
                future.exception()  # nobody has to await a child: not a lost error
            else:
                future.set_result(kind.output)
        elif kind.error is not None and kind.mode is not ChildMode.SEND:  # a dropped signal is only noted
            pending.fail(core.decode(kind.error))
        elif kind.mode is ChildMode.HOOK:
            pending.give(kind.output)
        else:
            pending.give(kind.run.encode())

    def withdraw(self, pending: Pending) -> None:
        """Cancelled: before its command left, nothing happened; a child that was started gets a cancel request."""
        core = self._core
        node = pending.node
        entry = node.entry
        core.close_pending(pending)
        if pending.ended is not None and not pending.ended.done():
            pending.ended.cancel()
        if entry is None and pending.flags & Flag.INSERTED:
            kind = Child(pending.op.mode, 0, pending.op.run or "", pending.op.target)
            core.journal.put(node, Entry(0, 0, pending.started, pending.flags | Flag.CANCELLED, kind), force=True)
            return
        if entry is None or type(entry.kind) is not Child or entry.seq or entry.flags & Flag.CANCELLED:
            return
        asked = (
            core.journal.unask(node, StartChild)
            or core.journal.unask(node, SendSignal)
            or core.journal.unask(node, RegisterHook)
        )
        accepted = entry.kind.accepted  # the code has its handle: replay must give it one too
        if asked and not accepted and not pending.flags & Flag.INSERTED and not node.stored:
            core.journal.delete(node)
            return
        core.journal.put(node, entry._replace(flags=entry.flags | Flag.CANCELLED), force=True)
        if not asked and entry.kind.mode is ChildMode.SPAWN:
            core.journal.command(node, CancelChild(node.location, entry.kind.run))
