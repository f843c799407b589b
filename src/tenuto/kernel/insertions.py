"""Results of inserted steps: recorded in a batch of their own, handed to the code in the next turn.

Rules:

1. What the code does behind an inserted step may not fit the history, and a turn that parks writes nothing. So a turn
   that is given the end of an attempt of an inserted step records that, and applies nothing else: neither `resume` nor
   a deploy performs the step again (P2, D6).
2. The next turn hands the results over as internal facts, in the order they were recorded, ahead of all facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.kernel.core import Core
from tenuto.kernel.facts import Done, Fact
from tenuto.kernel.operations import StepOp
from tenuto.kernel.pending import OperationFuture
from tenuto.kernel.records import Flag
from tenuto.kernel.steps import Steps

__all__ = ["Insertions"]


class Insertions:
    """The inserted steps of one run between their end and the code that awaits them."""

    __slots__ = ("_core", "_later", "_steps")

    def __init__(self, core: Core, steps: Steps) -> None:
        self._core = core
        self._steps = steps
        self._later: tuple[Fact, ...] = ()  # what came with a result, or ahead of it

    def apply(self, facts: Sequence[Fact]) -> Sequence[Fact] | None:
        """Records what ended of inserted steps; None if there was any. Else the facts that are to be applied now."""
        facts = (*self._later, *facts)
        rest = tuple(fact for fact in facts if not self._record(fact))
        if len(rest) == len(facts):
            self._later = ()
            return facts
        self._later = rest
        if rest and not self._core.internal:  # only failed attempts: what came with them is not to wait for more
            self._core.internal.append(_nothing)
        return None

    def _record(self, fact: Fact) -> bool:
        core = self._core
        if not isinstance(fact, Done):
            return False
        node = core.history.find(fact.location)
        pending = node.pending if node is not None else None
        if node is None or pending is None or not pending.flags & Flag.INSERTED or not isinstance(pending.op, StepOp):
            return False
        if fact.n is not None:
            core.journal.delete_mail(fact.n, force=False)
        awaited = pending.future
        recorded = pending.future = OperationFuture(loop=core.loop)
        self._steps.done(pending, fact)
        if not pending.gone:  # another attempt follows
            pending.future = awaited
            return True
        core.journal.forced = True  # an ephemeral one too
        core.inline[node] = node.location, "result"  # the run stays where it is
        core.inserted_open += 1  # until it is handed over

        def hand_over() -> None:
            core.inserted_open -= 1
            core.inline.pop(node, None)
            awaited.pending = None
            _give(recorded, awaited)

        core.internal.append(hand_over)
        return True


def _give(recorded: OperationFuture, awaited: OperationFuture) -> None:
    error = recorded.exception()
    if awaited.done():
        return  # withdrawn meanwhile
    if error is not None:
        awaited.set_exception(error)
    else:
        awaited.set_result(recorded.result())


def _nothing() -> None:
    return None
