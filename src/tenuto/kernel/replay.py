"""Feeding recorded facts, and judging whether the code still fits them (D1 to D10).

Rules:

1. Recorded facts are fed in `seq` order, one at a time, each with a drain; run time is set to each one's `at`.
2. A fact whose operation is not issued yet is held, and delivered once it is: lowest `seq` first, before any internal
   fact. With an unchanged definition holding is legal only while an inserted operation is under way.
3. When the last fact was fed, what is left over decides: nothing, an insertion, or a divergence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.errors import Evicted, HistoryDivergedError, NondeterminismError
from tenuto.kernel.history import Node, Recorded, describe, is_passed
from tenuto.kernel.location import ROOT, Location, name_of, text
from tenuto.kernel.records import Cancel, Child, Flag, Loop, Message, Sleep, Step

if TYPE_CHECKING:
    from tenuto.kernel.engine_side import EngineSide
    from tenuto.kernel.pending import Pending

__all__ = ["Replay"]


class Replay:
    """The recorded facts of one run on their way back into its code."""

    __slots__ = ("_core", "_excuses", "_names", "reordered")

    def __init__(self, core: EngineSide, names: frozenset[str] | None) -> None:
        self._core = core
        self._names = names
        self._excuses: list[tuple[Pending, Pending]] = []  # of each held fact: operations it may be held for
        self.reordered = False  # D10: the order fits by holding facts back, which strict replay would not accept

    # --- feeding

    def feed(self) -> None:
        """Feeds every recorded fact. The root has been started and drained."""
        core = self._core
        facts = core.history.facts
        while not core.has_stopped():
            self.deliver_held()
            recorded = facts[core.cursor]
            if not recorded[0] or core.has_stopped():
                return
            core.cursor += 1
            core.look_ahead()
            if is_passed(recorded):
                core.journal.time = max(core.journal.time, self._at(recorded))
            elif self._issued(recorded):
                self._deliver(recorded)
            else:
                self._hold(recorded)
            core.look_ahead()

    def deliver_held(self) -> None:
        """D3: delivers held facts whose operation is issued by now, lowest `seq` first."""
        core = self._core
        while core.held and core.issued and not core.has_stopped():
            core.issued = False
            for index, recorded in enumerate(core.held):
                if self._issued(recorded):
                    del core.held[index]
                    self._deliver(recorded)
                    core.issued = True  # others may have been issued before this look
                    break
        core.look_ahead()

    def _hold(self, recorded: Recorded) -> None:
        core = self._core
        if core.inserted_open == 0:
            if core.divergence.strict:
                if not self._takes_a_later_message():
                    core.fault = core.fault or self._unasked(recorded)
                    return
            elif core.outstanding:
                outstanding = core.outstanding
                self._excuses.append((next(iter(outstanding)), next(reversed(outstanding))))
            elif not self.reordered:
                self.reordered = not self._takes_a_later_message()
        core.held.append(recorded)
        core.next_seq = 0

    def _takes_a_later_message(self) -> bool:
        """Whether a receive waits for a recorded message: it may have been inserted, which an update does not say."""
        later = self._core.history.facts[self._core.cursor : -1]  # without the end mark
        return any(self._issued(recorded) for recorded in later if _is_message(recorded[1]))

    def _issued(self, recorded: Recorded) -> bool:
        seq, place = recorded
        if isinstance(place, Cancel):
            return True
        if isinstance(place, str):
            return self._core.mailbox.awaits_update(place)
        kind = place.entry.kind if place.entry is not None else None
        if type(kind) is Message and _is_dispatch(place):
            return self._core.mailbox.awaits_signal(place)
        pending = place.pending
        if pending is None:
            return False
        if type(kind) is Child and seq == kind.accepted:
            return not pending.future.done()
        return True

    def _deliver(self, recorded: Recorded) -> None:
        core = self._core
        seq, place = recorded
        core.journal.time = max(core.journal.time, self._at(recorded))
        try:
            if isinstance(place, Cancel):
                core.cancel_root()
            elif isinstance(place, str):
                self._core.mailbox.feed_update(place)
            else:
                self._deliver_at(place, seq)
        except Evicted:
            return  # the recorded value could not be read: the fault is noted
        core.loop.drain()

    def _deliver_at(self, node: Node, seq: int) -> None:
        entry = node.entry
        pending = node.pending
        assert entry is not None  # noqa: S101  # recorded
        kind = entry.kind
        if type(kind) is Message and pending is None:
            self._core.mailbox.feed_signal(node, kind)
            return
        assert pending is not None  # noqa: S101  # issued
        match kind:
            case Step():
                self._core.steps.deliver(pending, kind)
            case Sleep():
                self._core.sleeps.deliver(pending)
            case Message():
                self._core.mailbox.deliver(pending, kind)
            case Child():
                self._core.children.deliver(pending, kind, seq)
            case Loop():
                self._core.commits.deliver(pending, kind)
            case _:
                pass  # observed kinds are no facts

    def _at(self, recorded: Recorded) -> int:
        seq, place = recorded
        if isinstance(place, Cancel):
            return place.at
        if isinstance(place, str):
            return self._core.mailbox.updates[place].at
        entry = place.entry
        if entry is None or (type(entry.kind) is Child and seq == entry.kind.accepted):
            return entry.began if entry is not None else 0  # a spawn is accepted in the turn that issued it
        return entry.at

    # --- judging

    def conclude(self) -> None:
        """D6: all facts were fed. Outstanding operations begin, or the run diverges."""
        core = self._core
        if core.left_over:
            self._judge_left_over()
            if core.has_stopped():
                return
        inserted = core.left_over
        core.feeding = False
        if inserted:
            core.journal.mark_inserted()
        outstanding, core.outstanding = core.outstanding, {}
        for pending, begin in outstanding.items():
            if inserted and not pending.flags & Flag.INSERTED:
                pending.flags |= Flag.INSERTED
                core.inserted_open += 1
            pending.started = core.journal.now
            begin(pending)
        inserting = Flag.INSERTED
        self.reordered |= not all(one.flags & inserting or other.flags & inserting for one, other in self._excuses)
        self._excuses.clear()

    def _judge_left_over(self) -> None:
        core = self._core
        if core.divergence.strict:
            if core.inserted_open == 0:
                core.fault = self._left_over_error()
            return
        gone = self._gone_name()
        if gone is not None:
            core.fault = core.divergence.error(gone, describe(gone.entry), f'no "{name_of(gone.segment)}" any more')
        elif not core.outstanding and core.inserted_open == 0:
            core.fault = self._left_over_error()

    def _gone_name(self) -> Node | None:
        """Something left over whose name the definition cannot issue any more."""
        if self._names is None:
            return None
        for node in self._left_over_nodes():
            for segment in node.location:
                if name_of(segment) not in self._names:
                    return node
        return None

    def _left_over_nodes(self) -> list[Node]:
        held = [place for _, place in self._core.held if isinstance(place, Node)]
        return held or list(self._core.history.due_below(self._core.history.root))

    def left_over_below(self, node: Node, raised: BaseException | None) -> None:
        """D8: a scope has ended by itself, or by an exception, with something left over below it."""
        core = self._core
        if core.has_stopped() or not core.left_over:
            return
        below = next(core.history.due_below(node), None) or self._held_below(node)
        if below is not None:
            asked = f"the end of {node.text or 'the run'}"
            core.fault = core.divergence.error(below, describe(below.entry), asked, raised)

    def _held_below(self, node: Node) -> Node | None:
        for recorded in self._core.held:
            place = recorded[1]
            # What is issued belongs to a handle that outlives its scope: it is delivered next.
            if isinstance(place, Node) and not self._issued(recorded) and _lies_below(place, node):
                return place
        return None

    # --- errors

    def _left_over_error(self) -> HistoryDivergedError | NondeterminismError:
        nodes = self._left_over_nodes()
        if nodes:
            node = nodes[0]
            return self._core.divergence.error(node, describe(node.entry), self._asked(), self._core.root_error())
        return self._unasked(self._core.held[0])

    def _unasked(self, recorded: Recorded) -> HistoryDivergedError | NondeterminismError:
        place = recorded[1]
        if isinstance(place, Node):
            return self._core.divergence.error(place, describe(place.entry), self._asked(), self._core.root_error())
        root = self._core.history.root
        what = f"update {place}" if isinstance(place, str) else "a cancel"
        return self._core.divergence.error(root, what, self._asked(), self._core.root_error())

    def _asked(self) -> str:
        waiting: list[str] = []
        for pending in self._core.outstanding:
            location: Location = pending.node.location
            waiting.append(f'{_what(pending.op)} "{text(location)}"' if location != ROOT else _what(pending.op))
        return " and ".join(waiting[:3]) or "nothing more"


def _what(op: object) -> str:
    name = type(op).__name__
    return {
        "StepOp": "a step",
        "SleepOp": "a sleep",
        "WaitOp": "a message wait",
        "ChildOp": "a child",
        "SideEffectOp": "a side_effect",
        "Commit": "a loop",
        "NoneType": "the next message",
    }.get(name, name)


def _is_message(place: Node | str | Cancel) -> bool:
    return isinstance(place, str) or (isinstance(place, Node) and _is_dispatch(place))


def _is_dispatch(node: Node) -> bool:
    segment = node.segment
    return isinstance(segment, tuple) and len(segment) == 3 and segment[2] == 3


def _lies_below(node: Node | None, above: Node) -> bool:
    while node is not None:
        if node is above:
            return True
        node = node.parent
    return False
