"""The recorded entries of a run as a tree.

Rules:

1. A node is a place; it has an entry when something is recorded there. Lookup costs the same in a history of ten and
   of a million entries.
2. An entry is *reached* when code asks for it. What must be reached and is not, is *left over*: entries that are not
   `removed`, not CANCELLED, no refused or deprecated patch, and not behind the commit of a loop or a receive.
3. Delivered entries, admitted updates and the cancel are the recorded facts, in `seq` order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from tenuto.kernel.location import Location, Segment, text
from tenuto.kernel.records import (
    Cancel,
    Checkpoint,
    Child,
    ChildMode,
    Entry,
    Flag,
    Join,
    JoinMode,
    Loop,
    Message,
    Patch,
    PatchMark,
    Race,
    Removed,
    Rows,
    SideEffect,
    Sleep,
    Step,
)

if TYPE_CHECKING:
    from tenuto.kernel.pending import Pending
    from tenuto.kernel.records import Metadata

__all__ = ["History", "Node", "Recorded", "describe", "is_passed"]


class Node:
    """A place in a run's history."""

    __slots__ = (
        "children",
        "due",
        "entry",
        "location",
        "metadata",
        "parent",
        "passed",
        "pending",
        "segment",
        "stored",
    )

    def __init__(self, segment: Segment, parent: Node | None) -> None:
        self.segment = segment
        self.parent = parent
        self.location: Location = (*parent.location, segment) if parent is not None else ()
        self.children: dict[Segment, Node] | None = None
        self.entry: Entry | None = None
        self.metadata: Metadata | None = None
        self.pending: Pending | None = None  # issued and not settled
        self.due = False  # recorded, must be reached, and was not yet
        self.stored = False  # the entry's row exists in the store
        self.passed = False  # counts as reached without being asked for: its facts are skipped

    def child(self, segment: Segment) -> Node:
        """The place below this one, made if it is new."""
        children = self.children
        if children is None:
            children = self.children = {}
        node = children.get(segment)
        if node is None:
            node = children[segment] = Node(segment, self)
        return node

    def prune(self) -> None:
        """Forgets a place where nothing is recorded and nothing is under way: a long run passes many of them."""
        parent = self.parent
        if parent is None or parent.children is None or self.entry is not None or self.children or self.pending:
            return
        if parent.children.get(self.segment) is self:
            del parent.children[self.segment]

    @property
    def text(self) -> str:
        return text(self.location)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first, in the order they were made."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.children:
                stack.extend(reversed(node.children.values()))


# A recorded fact: its seq, and where it belongs. An update's is its id; the cancel's the record itself.
Recorded: TypeAlias = tuple[int, Node | str | Cancel]


def is_passed(recorded: Recorded) -> bool:
    """Whether a fact is skipped: its place counts as reached without being asked for."""
    place = recorded[1]
    return isinstance(place, Node) and place.passed


_DELIVERED: Final = (Step, Sleep, Message, Child, Loop)


class History:
    """Everything recorded of a run, and how much of it the code has asked for again."""

    def __init__(self, rows: Rows) -> None:
        self.root = Node("", None)
        self.facts: list[Recorded] = []  # in `seq` order; the last one, with seq 0, is the end
        self.left_over = 0
        self.last_seq = 0
        self._build(rows)

    def _build(self, rows: Rows) -> None:
        root = self.root
        facts = self.facts
        parent: Node = root
        prefix: Location = ()
        patches: list[Node] = []
        for location, entry in rows.history:
            head = location[:-1]
            if head != prefix:  # rows come in key order, so the parent is mostly the same as before
                parent = root
                for segment in head:
                    parent = parent.child(segment)
                prefix = head
            node = parent.child(location[-1])
            node.entry = entry
            node.stored = True
            kind = entry.kind
            if type(kind) is Step and parent is root and not entry.flags:  # the common case, without the questions
                node.due = True
                self.left_over += 1
                if entry.seq:
                    facts.append((entry.seq, node))
            else:
                self._add(node, entry)
                if type(kind) is Patch:
                    patches.append(node)
        if patches:
            self._excuse(patches, rows)
        for location, metadata in rows.metadata.items():
            described = self.find(location)
            if described is not None:
                described.metadata = metadata
        for update_id, update in rows.updates.items():
            if update.seq:
                facts.append((update.seq, update_id))
        if rows.counters.cancel is not None:
            facts.append((rows.counters.cancel.seq, rows.counters.cancel))
        facts.sort(key=_seq_of)
        seqs = [entry.seq for _, entry in rows.history]
        self.last_seq = max(max(seqs, default=0), facts[-1][0] if facts else 0)
        facts.append((0, root))  # the end, so that looking ahead needs no question

    def _add(self, node: Node, entry: Entry) -> None:
        if _passed_by_a_loop(node):
            return
        kind = entry.kind
        if type(kind) is Child and kind.accepted and kind.mode is ChildMode.SPAWN:
            self.facts.append((kind.accepted, node))  # also of one that was withdrawn later
        if not _must_be_reached(entry):
            return
        node.due = True
        self.left_over += 1
        if entry.seq and isinstance(kind, _DELIVERED):
            self.facts.append((_fed_at(node, entry), node))

    def _excuse(self, patches: list[Node], rows: Rows) -> None:
        """A patch decided while a loop or a receive ran that has committed since may never be asked for again."""
        commits = [(entry.kind.since, entry.seq) for _, entry in rows.history if type(entry.kind) is Loop]
        for node in patches:
            seq = node.entry.seq if node.entry is not None else 0
            if any(since < seq <= committed for since, committed in commits):
                self.reach(node)

    def find(self, location: Location) -> Node | None:
        """The place at a location, if it exists."""
        node: Node | None = self.root
        for segment in location:
            if node is None or node.children is None:
                return None
            node = node.children.get(segment)
        return node

    def reach(self, node: Node) -> None:
        """The code has asked for this place."""
        if node.due:
            node.due = False
            self.left_over -= 1

    def reach_all(self, node: Node) -> None:
        """This place and everything below it counts as reached."""
        for below in node.walk():
            self.reach(below)
            below.passed = True

    def due_below(self, node: Node) -> Iterator[Node]:
        """What is left over at and below a place."""
        return (below for below in node.walk() if below.due)

    def forget(self, parent: Node, name: str, first: int, last: int) -> list[Node]:
        """Drops counted places of a name with first <= n < last, and all below; what was dropped."""
        dropped: list[Node] = []
        for segment, node in list((parent.children or {}).items()):
            if isinstance(segment, tuple) and segment[0] == name and first <= segment[1] < last:
                del (parent.children or {})[segment]
                dropped.extend(node.walk())
        for node in dropped:
            self.reach(node)
        return dropped


def _seq_of(recorded: Recorded) -> int:
    return recorded[0]


def _fed_at(node: Node, entry: Entry) -> int:
    """Its `seq`; of a receive's timer that fired before the receive's commit, the commit's, which comes first then."""
    above = node.parent.entry if node.parent is not None else None
    return max(entry.seq, above.seq) if above is not None and above.flags & Flag.RECEIVE else entry.seq


def _must_be_reached(entry: Entry) -> bool:
    kind = entry.kind
    if entry.flags & Flag.CANCELLED or type(kind) is Removed:
        return False
    return not (type(kind) is Patch and kind.mark is not PatchMark.TAKEN)


def _passed_by_a_loop(node: Node) -> bool:
    """Whether a loop's commit lies behind this place: its iteration does not run again."""
    above = node
    while above.parent is not None:
        loop = above.parent.entry
        if (
            loop is not None
            and type(loop.kind) is Loop
            and isinstance(above.segment, tuple)
            and (loop.kind.output is not None or above.segment[1] < loop.kind.iteration)
            and not loop.flags & Flag.RECEIVE
        ):
            return True
        above = above.parent
    return False


def describe(entry: Entry | None, *, bare: bool = False) -> str:
    """What an entry is, as the model calls it."""
    if entry is None:
        return "nothing"
    word = _word(entry)
    return word if bare else f"a {word}"


def _word(entry: Entry) -> str:
    match entry.kind:
        case Step():
            return "step"
        case Loop():
            return "receive" if entry.flags & Flag.RECEIVE else "loop"
        case Sleep():
            return "sleep"
        case Message():
            return "message"
        case Join(mode=JoinMode.JOIN):
            return "join"
        case Join():
            return "parallel"
        case Race():
            return "race"
        case Removed():
            return "removed"
        case SideEffect():
            return "side_effect"
        case Patch():
            return "patch"
        case Child(mode=mode):
            return "child" if mode is ChildMode.SPAWN else mode.name.lower()
        case Checkpoint():
            return "checkpoint"
