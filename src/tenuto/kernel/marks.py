"""What is observed rather than delivered: joins, races, removed operations, checkpoints, patches, side effects."""

from __future__ import annotations

import asyncio
from typing import assert_never

from tenuto.kernel.core import Core
from tenuto.kernel.history import Node, describe
from tenuto.kernel.location import check_name, patch
from tenuto.kernel.operations import (
    CheckpointMark,
    Err,
    JoinMark,
    Observed,
    Ok,
    RaceMark,
    RemovedMark,
    SideEffectOp,
)
from tenuto.kernel.pending import Pending
from tenuto.kernel.records import Checkpoint, Entry, Join, Patch, PatchMark, Race, Removed, SideEffect
from tenuto.kernel.scope import current_scope

__all__ = ["Marks"]


class Marks:
    """The observed entries of one run."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def observe(self, mark: Observed) -> Observed:
        match mark:
            case JoinMark() | RaceMark():
                return self._start(mark) if mark.segment is None else self._end(mark)
            case RemovedMark():
                self._removed(mark)
            case CheckpointMark():
                node, entry = self._core.place(mark.name, Checkpoint, "a checkpoint")
                if entry is None:
                    self._core.journal.note(node, Checkpoint(), self._core.insertion_flag())
            case _:
                assert_never(mark)
        return mark

    # --- join, parallel, race

    def _start(self, mark: JoinMark | RaceMark) -> JoinMark | RaceMark:
        core = self._core
        word = "race" if isinstance(mark, RaceMark) else mark.mode.name.lower()
        node, entry = core.place(mark.name, type(mark.record), f"a {word}")
        if entry is not None:
            core.match(node, entry, word)
        else:
            pending = Entry(0, 0, core.journal.now, core.insertion_flag(), mark.record)
            core.journal.put(node, pending, force=False)
        return mark._replace(segment=node.segment)

    def _end(self, mark: JoinMark | RaceMark) -> JoinMark | RaceMark:
        core = self._core
        node = current_scope.get().node.child(mark.segment or "")
        entry = node.entry
        if entry is None or not isinstance(entry.kind, Join | Race):
            return mark  # trimmed meanwhile
        if not entry.seq:
            core.journal.note(node, mark.record, entry.flags)
        elif isinstance(mark.record, Race) and isinstance(entry.kind, Race) and mark.record.winner != entry.kind.winner:
            core.park(
                core.divergence.error(node, f"a race won by {entry.kind.winner}", f"one won by {mark.record.winner}")
            )
        return mark

    # --- change

    def _removed(self, mark: RemovedMark) -> None:
        core = self._core
        node = current_scope.get().take(mark.name)
        entry = node.entry
        if entry is None:
            core.journal.note(node, Removed(mark.kind), core.insertion_flag())
        elif type(entry.kind) is not Removed:
            word = describe(entry, bare=True)
            if word != mark.kind and not (mark.kind == "child" and word in ("detach", "send", "hook")):
                core.diverge(node, f'removed("{mark.name}", "{mark.kind}")')
        core.pass_over(node)

    def patch(self, patch_id: str, *, deprecate: bool) -> bool:
        core = self._core
        node = core.history.root.child(patch(check_name(patch_id)))
        entry = node.entry
        if entry is not None and type(entry.kind) is Patch:
            core.history.reach(node)
            return entry.kind.mark is not PatchMark.REFUSED
        past = core.left_over  # recorded entries remain unreached: this code did not run here before
        if deprecate:
            if not past:
                core.journal.note(node, Patch(PatchMark.DEPRECATED), core.insertion_flag())
            return True
        core.journal.note(node, Patch(PatchMark.REFUSED if past else PatchMark.TAKEN), core.insertion_flag())
        return not past

    # --- side effects

    def side_effect(self, op: SideEffectOp) -> asyncio.Future[bytes]:
        core = self._core
        node, entry = core.place(op.name, SideEffect, "a side_effect")
        if entry is not None and type(entry.kind) is SideEffect:
            future: asyncio.Future[bytes] = asyncio.Future(loop=core.loop)
            _give(future, entry.kind, core)
            return future
        if core.feeding and core.divergence.strict and core.next_seq:  # D5: before the closure runs
            core.park(core.divergence.error(node, "nothing, and more after it", "a side_effect"))
        pending = core.pend(node, None, op, core.close_pending)
        if core.feeding and core.left_over:
            core.start(pending, self._run)
        else:
            self._run(pending)
        return pending.future

    def _run(self, pending: Pending) -> None:
        core = self._core
        node: Node = pending.node
        outcome: Ok | Err = pending.op.run()
        kind = SideEffect(outcome.value, None) if isinstance(outcome, Ok) else SideEffect(None, outcome.error)
        core.journal.note(node, kind, pending.flags, force=True)
        core.close_pending(pending)
        _give(pending.future, kind, core)


def _give(future: asyncio.Future[bytes], kind: SideEffect, core: Core) -> None:
    if kind.error is not None:
        future.set_exception(core.decode(kind.error))
    else:
        future.set_result(kind.output or b"")
