"""`await one`: the first case to finish wins, failure included; then its body runs.

The winner's body runs in the winner's own strand and scope, below `case`: on replay a scope that had ended before it
would leave the body's entries behind.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, cast

from tenuto.kernel.location import Segment
from tenuto.kernel.operations import RaceMark
from tenuto.kernel.records import Branch, BranchStatus, Race

from ..ast import AllTarget, AwaitCase, AwaitOne, HandleTarget, MessageTarget
from .children import handle_of
from .expressions import read_name
from .faults import Fault, Stopped
from .frames import Frame
from .names import Names
from .places import compile_binding
from .statements import Block, Exit
from .strands import Strand

if TYPE_CHECKING:
    from .durable import Durable, Perform
    from .execution import Execution
    from .lines import Key
    from .statements import Flow, Suspending

__all__ = ["compile_one"]


class _Case:
    """One case: what it waits for, what it binds, what it does."""

    def __init__(self, durable: Durable, node: AwaitCase, names: Names, name: str) -> None:
        from .gathering import compile_all

        self.name = name
        self.file = durable.compiler.file
        self.line = durable.compiler.line_of(node.start)
        self._together: Suspending | None = None
        self._perform: Perform | None = None
        self._bind: Callable[[Frame, Any], None] | None = None
        self.ready: Callable[[Execution, Frame], int | None] | None = None
        target = node.target
        if isinstance(target, AllTarget):
            self._together = compile_all(durable, target.body, names)
        else:
            self._perform = durable.target(target, node.options, names, waits=True)
            if isinstance(target, MessageTarget):
                self._bind = durable.message_binding(node.result, names)
                self.ready = _token_ready(cast("Key", (target.kind, target.name.name)))
            else:
                self._bind = compile_binding(node.result, names)
            if isinstance(target, HandleTarget):
                self.ready = _handle_ready(read_name(target.name.name, names))
        self._body: Block | None = durable.compiler.block(node.body, names) if node.body else None

    async def run(self, race: _Race, frame: Frame) -> Flow:
        port = race.execution.port
        async with port.scope(self.name):
            try:
                flow = await self._win(race, frame)
                if flow is not None:
                    return flow
                if self._body is None:
                    return None
                async with port.scope("case"):
                    return await self._body.run(frame.below())
            except Fault as fault:
                raise fault.at(self.file, self.line) from None
            except Stopped as stopped:
                race.execution.stop(stopped.at(self.file, self.line))

    async def _win(self, race: _Race, frame: Frame) -> Flow:
        """Waits for the target, decides the race, binds."""
        try:
            if self._together is not None:
                flow = await self._together(frame.below())
                race.decide(self.name)
                return flow
            assert self._perform is not None  # noqa: S101  # one of the two is
            value = await self._perform(frame.below())
        except Exception:
            race.decide(self.name)
            raise
        race.decide(self.name)
        if self._bind is not None:
            self._bind(frame, value)
        return None


def _token_ready(key: Key) -> Callable[[Execution, Frame], int | None]:
    def ready(execution: Execution, frame: Frame) -> int | None:
        token = execution.tokens.oldest(key)
        return None if token is None else token.order

    return ready


def _handle_ready(read: Callable[[Frame], Any]) -> Callable[[Execution, Frame], int | None]:
    def ready(execution: Execution, frame: Frame) -> int | None:
        handle = handle_of(execution, read(frame))
        return handle.order if handle.future.done() else None

    return ready


class _Race:
    """Cases under way."""

    def __init__(self, execution: Execution, names: list[str], segment: Segment, outside: Context) -> None:
        self.execution = execution
        self._names = names
        self._segment = segment
        self._outside = outside
        self._strands: dict[str, Strand] = {}
        self._waiter: Future[None] | None = None
        self.winner: str | None = None

    def start(self, case: _Case, frame: Frame) -> None:
        def ended(strand: Strand) -> None:
            if self.winner == case.name and self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

        self._strands[case.name] = self.execution.strand(case.run(self, frame), ended)

    def decide(self, name: str) -> None:
        """The first that calls this has won; the others are cancelled before it goes on."""
        if self.winner is not None:
            return
        self.winner = name
        for other, strand in self._strands.items():
            if other != name:
                strand.cancel()
        self.observe()

    def observe(self) -> None:
        ends = tuple(
            Branch(name, BranchStatus.COMPLETED if name == self.winner else BranchStatus.CANCELLED)
            for name in self._names
        )
        self._outside.run(self.execution.port.observe, RaceMark("one", Race(self.winner, ends), self._segment))

    async def wait(self) -> Flow:
        """How the winner's body was left."""
        strand = None if self.winner is None else self._strands[self.winner]
        if strand is None or not strand.done:
            self.execution.publish()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except CancelledError:
                for open_strand in self._strands.values():
                    open_strand.cancel()
                if self.winner is None:
                    self.observe()
                raise
            strand = self._strands[cast("str", self.winner)]
        if strand.error is not None:
            raise strand.error
        return cast("Exit | None", strand.value)


def compile_one(durable: Durable, node: AwaitOne, names: Names) -> Suspending:
    from .durable import execution_of

    cases = [
        _Case(durable, case, names, str(index)) for index, case in enumerate(node.cases) if isinstance(case, AwaitCase)
    ]
    labels = [case.name for case in cases]

    async def run(frame: Frame) -> Flow:
        execution = execution_of(frame)
        port = execution.port
        running = tuple(Branch(label, BranchStatus.RUNNING) for label in labels)
        mark = cast("RaceMark", port.observe(RaceMark("one", Race(None, running))))
        segment = cast("Segment", mark.segment)
        race = _Race(execution, labels, segment, copy_context())
        decided = _decided(cases, execution, frame)
        async with port.scope(segment):
            with execution.starts():
                for case in cases if decided is None else [decided]:
                    race.start(case, frame)
                    if race.winner is not None:
                        break
            return await race.wait()

    return run


def _decided(cases: list[_Case], execution: Execution, frame: Frame) -> _Case | None:
    """The case whose token or handle was there first, if any is there already."""
    best: tuple[int, _Case] | None = None
    for case in cases:
        order = None if case.ready is None else case.ready(execution, frame)
        if order is not None and (best is None or order < best[0]):
            best = (order, case)
    return None if best is None else best[1]
