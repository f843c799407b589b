"""Commits of long loops and of receives with checkpoints.

Rules:

1. A commit is a sequenced fact: it stores how far the construct is, with its state, and takes a `seq`; the code goes on
   by an internal fact. On replay the construct waits for that `seq`, then goes on from there with the stored state.
2. What the commit makes unreachable is trimmed in its own batch: done later, a crash in between would replay into
   deleted history.
"""

from __future__ import annotations

import asyncio

from tenuto.kernel.batch import Trim
from tenuto.kernel.core import Core
from tenuto.kernel.history import Node
from tenuto.kernel.location import Segment, name_of
from tenuto.kernel.mailbox import Mailbox
from tenuto.kernel.operations import Commit, Committed
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import Entry, Flag, Loop
from tenuto.kernel.scope import current_scope

__all__ = ["Commits"]


class Commits:
    """The loops and receives of one run, as far as they commit."""

    __slots__ = ("_core", "_mailbox")

    def __init__(self, core: Core, mailbox: Mailbox) -> None:
        self._core = core
        self._mailbox = mailbox

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        return self._enter(commit) if commit.segment is None else self._again(commit, commit.segment)

    def _enter(self, commit: Commit) -> asyncio.Future[Committed]:
        """The first call: what is stored, else the beginning."""
        core = self._core
        word = "receive" if commit.receive else "loop"
        node, entry = core.place(commit.name, Loop, f"a {word}")
        if entry is not None:
            core.match(node, entry, word)
            if entry.seq:
                return core.pend(node, entry, commit, core.close_pending).future
        elif commit.state is not None:
            flags = core.insertion_flag() | (Flag.RECEIVE if commit.receive else Flag.NONE)
            loop = Loop(0, commit.state, 0, core.journal.seq)
            core.journal.put(node, Entry(0, 0, core.journal.now, flags, loop), force=False)
        future: asyncio.Future[Committed] = asyncio.Future(loop=core.loop)
        future.set_result(Committed(node.segment, 0, commit.state))
        return future

    def deliver(self, pending: Pending, kind: Loop) -> None:
        """Replay has reached the stored commit."""
        self._core.close_pending(pending)
        broken = kind.output is not None
        pending.give(Committed(pending.node.segment, kind.iteration, kind.state, broken, kind.output))

    def _again(self, commit: Commit, segment: Segment) -> asyncio.Future[Committed]:
        core = self._core
        node = _node_of(segment)
        pending = core.pend(node, node.entry, commit, core.close_pending)
        core.start(pending, lambda pending: core.internally(pending, self._store))
        return pending.future

    def _store(self, pending: Pending) -> None:
        core = self._core
        node = pending.node
        commit: Commit = pending.op
        state = commit.state if commit.state is not None else b""
        entry = node.entry
        flags: int = Flag.RECEIVE if commit.receive else Flag.NONE
        before = Loop(0, state, 0, core.journal.seq)
        if entry is not None and type(entry.kind) is Loop:
            flags, before = entry.flags, entry.kind
        trimmed = before.trimmed if commit.keep is None else max(before.trimmed, commit.keep)
        kind = Loop(commit.count, state, trimmed, before.since, commit.output if commit.broken else None)
        began = entry.began if entry is not None else core.journal.now
        core.journal.settle(node, kind, began, flags)
        self._leave_behind(node, commit.count)
        self._trim(node, commit, before.trimmed, trimmed)
        core.close_pending(pending)
        pending.give(Committed(node.segment, kind.iteration, kind.state, commit.broken, kind.output))

    def _leave_behind(self, node: Node, count: int) -> None:
        """What is still open in iterations that never run again goes on by itself; its end is ignored.

        Only handles can be (a scope ends its tasks). After a reload nobody would wait for them: nobody does now.
        """
        for segment, below in (node.children or {}).items():
            if isinstance(segment, str) or segment[1] >= count:
                continue
            for place in below.walk():
                pending = place.pending
                if pending is not None:
                    self._core.close_pending(pending)
                    pending.future.cancel()

    def _trim(self, node: Node, commit: Commit, first: int, last: int) -> None:
        if first >= last:
            return
        core = self._core
        if commit.receive:
            counted = (segment for segment in node.children or {} if isinstance(segment, tuple) and len(segment) == 3)
            names = dict.fromkeys(name_of(segment) for segment in counted if segment[2] == 3)
            if self._mailbox.listener is not None:
                self._mailbox.forget_seqs(self._mailbox.listener.updates)
                self._mailbox.listener.updates.clear()
        else:
            names = {name_of(node.segment): None}
        for name in names:
            dropped = core.history.forget(node, name, first, last)
            core.journal.trim(Trim(node.location, name, first, last), dropped)


def _node_of(segment: Segment) -> Node:
    """The construct's place: the current scope's own, or one in it."""
    node = current_scope.get().node
    return node if node.segment == segment and node.entry is not None else node.child(segment)
