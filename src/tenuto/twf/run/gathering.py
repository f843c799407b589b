"""`await all`: every statement is a branch; passes of a `for (x in …)` directly below it are branches, too."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future
from collections.abc import Coroutine, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

from tenuto.kernel.location import Segment, branch
from tenuto.kernel.operations import JoinMark
from tenuto.kernel.records import Branch, BranchStatus, Join, JoinMode

from ..ast import For, Statement
from .expressions import compile_expression
from .frames import Frame
from .loops import items_of
from .names import Names, private_names
from .places import compile_store
from .statements import Block, Exit
from .strands import Strand

if TYPE_CHECKING:
    from .durable import Durable
    from .execution import Execution
    from .statements import Flow, Suspending

__all__ = ["Group", "compile_all"]


class Group:
    """Branches under way. The first failure, or an exit, ends the others at once."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._waiter: Future[None] | None = None
        self.strands: list[Strand] = []
        self.error: Exception | None = None
        self.exit: Exit | None = None

    @property
    def decided(self) -> bool:
        return self.error is not None or self.exit is not None

    def start(self, coro: Coroutine[Any, Any, Flow]) -> None:
        self.strands.append(self._execution.strand(coro, self._ended))

    def _ended(self, strand: Strand) -> None:
        if not self.decided:
            if strand.error is not None:
                self.error = strand.error
            elif isinstance(strand.value, Exit):
                self.exit = strand.value
            if self.decided:
                self.cancel()
        if self._waiter is not None and not self._waiter.done() and self._over():
            self._waiter.set_result(None)

    def _over(self) -> bool:
        return self.decided or all(strand.done for strand in self.strands)

    def cancel(self) -> None:
        for strand in self.strands:
            strand.cancel()

    async def wait(self) -> None:
        """Returns when all have ended, or one has decided. Cancelled, it cancels them."""
        if not self._over():
            self._execution.publish()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except CancelledError:
                self.cancel()
                raise

    def result(self) -> Exit | None:
        if self.error is not None:
            raise self.error
        return self.exit


def compile_all(durable: Durable, body: Sequence[Statement], names: Names) -> Suspending:
    from .durable import execution_of

    branches = [
        _FanOut(durable, node, names, str(index))
        if isinstance(node, For) and node.mode == "each"
        else _Sequential(durable.compiler.block([node], names), str(index))
        for index, node in enumerate(body)
    ]

    async def run(frame: Frame) -> Flow:
        if not branches:
            return None
        execution = execution_of(frame)
        port = execution.port
        running = tuple(Branch(one.name, BranchStatus.RUNNING) for one in branches)
        mark = cast("JoinMark", port.observe(JoinMark("all", Join(JoinMode.JOIN, running))))
        outside = copy_context()
        group = Group(execution)
        segment = cast("Segment", mark.segment)
        after: list[tuple[_FanOut, list[dict[str, Any]]]] = []

        def end() -> None:
            ends = tuple(
                Branch(one.name, _status(group.strands[n]) if n < len(group.strands) else BranchStatus.CANCELLED)
                for n, one in enumerate(branches)
            )
            outside.run(port.observe, JoinMark("all", Join(JoinMode.JOIN, ends), segment))

        try:
            async with port.scope(segment):
                with execution.starts():
                    for one in branches:
                        group.start(one.run(execution, frame, after))
                        if group.decided:
                            break
                await group.wait()
        except CancelledError:
            end()
            raise
        end()
        flow = group.result()
        if flow is None:
            for fan_out, passes in after:
                fan_out.collect(frame, passes)
        return flow

    return run


def _status(strand: Strand) -> BranchStatus:
    if strand.error is not None:
        return BranchStatus.FAILED
    return BranchStatus.COMPLETED if strand.done and not strand.cancelled else BranchStatus.CANCELLED


class _Sequential:
    """A statement that is one branch."""

    def __init__(self, block: Block, name: str) -> None:
        self.name = name
        self._block = block

    async def run(self, execution: Execution, frame: Frame, after: list[Any]) -> Flow:
        async with execution.port.scope(self.name):
            return await self._block.run(frame.below())


class _FanOut:
    """A loop whose passes are branches; afterwards the names they bound hold lists."""

    def __init__(self, durable: Durable, node: For, names: Names, name: str) -> None:
        self.name = name
        private, bound = private_names(durable.one, node, names.handler)
        assert node.expr is not None and node.variable is not None  # noqa: PT018, S101  # it goes over something
        self._line = durable.compiler.line_of(node.start)
        self._file = durable.compiler.file
        self._items = compile_expression(node.expr, names)
        self._variable = node.variable.name
        self._block = durable.compiler.block(node.body, names.inside(private))
        self._lists = [(bound_name, compile_store(bound_name, names)) for bound_name in sorted(bound)]

    async def run(self, execution: Execution, frame: Frame, after: list[Any]) -> Flow:
        from .faults import Fault

        async with execution.port.scope(self.name):
            try:
                items = items_of(frame, self._items(frame))
            except Fault as fault:
                raise fault.at(self._file, self._line) from None
            passes: list[dict[str, Any]] = []
            group = Group(execution)
            with execution.starts():
                for index, item in enumerate(items):
                    inner = {self._variable: item}
                    passes.append(inner)
                    group.start(self._pass(execution, frame.below(inner), index))
                    if group.decided:
                        break
            await group.wait()
            after.append((self, passes))
            return group.result()

    async def _pass(self, execution: Execution, frame: Frame, index: int) -> Flow:
        async with execution.port.scope(branch(self.name, index)):
            flow = await self._block.run(frame)
            return flow if isinstance(flow, Exit) else None

    def collect(self, frame: Frame, passes: list[dict[str, Any]]) -> None:
        for name, store in self._lists:
            store(frame, [inner.get(name) for inner in passes])
