"""A run's place in its chain of runs: what it was started with, and what it leaves to the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, NoReturn

from temporalio import workflow
from temporalio.common import RawValue

from tenuto.codec.limits import DEFAULT_LIMITS, ValueLimits
from tenuto.codec.values import dump, load
from tenuto.errors import LimitError
from tenuto.host.limits import Limits
from tenuto.kernel.facts import Signal
from tenuto.temporal.names import MEMO_RUN_NO
from tenuto.temporal.payloads import call_of, ours, unmarked

__all__ = ["CONTINUED_BYTES", "Carry", "Chain"]

MARKS: Final = "tenuto.marks"  # a patch: what is unmarked is not ours
CONTINUED_BYTES: Final = 2 * 2**20  # of what a run hands to the next one; the server's own limit
CONTINUED_FRAME: Final = 1024
_UNMEASURED: Final = ValueLimits(size=2**62)  # measured together with the arguments


class Carry(NamedTuple):
    """What a run of a chain leaves to the next one."""

    generation: int
    signals: list[list[Any]]  # name and payload of those nobody took, oldest first
    published: bytes | None
    as_json: bool = False  # somebody else's client started the chain, and reads its result


class Chain:
    """What the payloads of a start say, and those of the next one.

    Histories of before payloads had a mark replay by the rules of then (P9). Of a run that somebody else's client
    started only a patch says how old it is.
    """

    def __init__(self, values: Sequence[RawValue], limits: Limits) -> None:
        started_with = call_of(values)
        self.input = started_with.input
        carried = started_with.carried
        self.carry = Carry(0, [], None) if carried is None else Carry(*load(carried))
        self.is_marked = started_with.is_marked or (started_with.is_foreign and workflow.patched(MARKS))
        self.limits = limits if self.is_marked else replace(limits, value_bytes=DEFAULT_LIMITS.size)
        self.as_json = started_with.is_foreign or self.carry.as_json

    def excess(self, call: bytes, signals: Iterable[Signal], published: bytes | None) -> LimitError | None:
        """Why the run cannot be continued with these arguments: what it leaves to the next one is one message."""
        size = len(call) + len(self._left(signals, published)) + CONTINUED_FRAME
        if size <= CONTINUED_BYTES:
            return None
        what = "arguments, published state and unread signals of the next run of the chain"
        return LimitError(what, CONTINUED_BYTES, size)

    def go_on(
        self, memo: Mapping[str, str], call: bytes, signals: Iterable[Signal], published: bytes | None
    ) -> NoReturn:
        """End this run by starting the next one, whose definition has this memo."""
        new = {**workflow.memo(), MEMO_RUN_NO: self.carry.generation + 2, **memo}
        args = [call, self._left(signals, published)]
        # Started before there was a mark, it goes on to read what it is sent as it did.
        workflow.continue_as_new(args=[ours(item) if self.is_marked else unmarked(item) for item in args], memo=new)

    def _left(self, signals: Iterable[Signal], published: bytes | None) -> bytes:
        left = [[signal.name, signal.payload] for signal in signals]
        carry = Carry(self.carry.generation + 1, left, published, self.as_json)
        fields = carry if carry.as_json else carry[:-1]  # the form of before, where that says all
        return dump(list(fields), _UNMEASURED)
