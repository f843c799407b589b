"""Statements as Python functions over a frame.

A statement that can never suspend is a plain function, so that a block of such statements runs at full speed; any
other is a coroutine function. Both give None, or how the block is left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from tenuto.errors import TwfError

from ..ast import (
    Assign,
    Break,
    Close,
    Continue,
    ContinueAsNew,
    ExprStatement,
    For,
    Heartbeat,
    If,
    Return,
    Statement,
    Switch,
    SwitchCase,
)
from .expressions import compile_arguments, compile_expression
from .failures import closed_with
from .faults import Fault, Stopped
from .frames import CALL, MEASURE_AFTER, Frame
from .names import Names
from .places import compile_assign
from .values import Record, outgoing, truth
from .work import operation

if TYPE_CHECKING:
    from .durable import Durable

__all__ = ["BREAK", "CONTINUE", "Block", "Compiler", "Exit", "Flow"]


class Exit(NamedTuple):
    """The body or handler is left."""

    kind: Literal["close", "return", "renew"]
    value: Any = None
    args: tuple[list[Any], dict[str, Any]] | None = None  # of continue_as_new
    line: int = 0


BREAK: Final = "break"
CONTINUE: Final = "continue"
Flow: TypeAlias = Exit | Literal["break", "continue"] | None
Plain: TypeAlias = Callable[[Frame], Flow]
Suspending: TypeAlias = Callable[[Frame], Awaitable[Flow]]


class Block(NamedTuple):
    """Statements in a row; exactly one of the two is there."""

    plain: Plain | None
    suspending: Suspending | None

    async def run(self, frame: Frame) -> Flow:
        if self.plain is not None:
            return self.plain(frame)
        assert self.suspending is not None  # noqa: S101  # one of the two is
        return await self.suspending(frame)


class Compiler:
    """Compiles the statements of one definition."""

    def __init__(self, file: str, line_of: Callable[[int], int], durable: Durable | None) -> None:
        self.file = file
        self.line_of = line_of  # of an offset in the file
        self.durable = durable  # compiles what suspends; None in activities and queries, which have none of it

    # --- blocks

    def block(self, body: Sequence[Statement], names: Names) -> Block:
        compiled = [(self.line_of(node.start), *self.statement(node, names)) for node in body]
        if all(plain is not None for _, plain, _ in compiled):
            return Block(self._plain_block([(line, cast("Plain", plain)) for line, plain, _ in compiled]), None)
        return Block(None, self._suspending_block(compiled))

    def _plain_block(self, steps: list[tuple[int, Plain]]) -> Plain:
        file = self.file

        def run(frame: Frame) -> Flow:
            budget = frame.budget
            for line, step in steps:
                budget.left -= CALL
                try:
                    if budget.left < 0 or budget.grown > MEASURE_AFTER:
                        frame.host.out_of_budget()
                    flow = step(frame)
                except Fault as wrong:
                    raise wrong.at(file, line) from wrong.__cause__
                except Stopped as wrong:
                    frame.host.stop(wrong.at(file, line))
                except TwfError as failure:
                    if failure.file is None:  # raised where no place is known: by a function, by a limit
                        failure.file, failure.line = file, line
                    raise
                if flow is not None:
                    return flow
            return None

        return run

    def _suspending_block(self, steps: list[tuple[int, Plain | None, Suspending | None]]) -> Suspending:
        file = self.file

        async def run(frame: Frame) -> Flow:
            budget = frame.budget
            for line, plain, suspending in steps:
                budget.left -= CALL
                try:
                    if budget.left < 0 or budget.grown > MEASURE_AFTER:
                        frame.host.out_of_budget()
                    flow = plain(frame) if suspending is None else await suspending(frame)  # type: ignore[misc]
                except Fault as wrong:
                    raise wrong.at(file, line) from wrong.__cause__
                except Stopped as wrong:
                    frame.host.stop(wrong.at(file, line))
                except TwfError as failure:
                    if failure.file is None:  # raised where no place is known: by a function, by a limit
                        failure.file, failure.line = file, line
                    raise
                if flow is not None:
                    return flow
            return None

        return run

    # --- statements

    def statement(self, node: Statement, names: Names) -> tuple[Plain | None, Suspending | None]:
        """The statement as a plain function, or else as a suspending one."""
        match node:
            case Assign():
                assign = compile_assign(node, names)
                return cast("Plain", assign), None
            case ExprStatement():
                value = compile_expression(node.value, names)
                return lambda frame: cast("None", value(frame) and None), None
            case Break():
                return lambda frame: BREAK, None
            case Continue():
                return lambda frame: CONTINUE, None
            case Return() | Close() | ContinueAsNew():
                return self._exit(node, names), None
            case Heartbeat():
                return self._heartbeat(node, names), None
            case If():
                return self._if(node, names)
            case Switch():
                return self._switch(node, names)
            case For():
                return self._for(node, names)
            case _:
                assert self.durable is not None  # noqa: S101  # the checks let no such statement through
                return None, self.durable.statement(node, names)

    def _exit(self, node: Return | Close | ContinueAsNew, names: Names) -> Plain:
        line = self.line_of(node.start)
        if isinstance(node, ContinueAsNew):
            arguments = compile_arguments(node.args, names)
            return lambda frame: Exit("renew", None, arguments(frame), line)
        value = compile_expression(node.value, names) if node.value is not None else None
        if isinstance(node, Return):
            return lambda frame: Exit("return", None if value is None else outgoing(value(frame)), line=line)
        if node.reason == "completed":
            return lambda frame: Exit("close", None if value is None else outgoing(value(frame)), line=line)
        file = self.file

        def failed(frame: Frame) -> Flow:
            given = None if value is None else value(frame)
            type_name = given.type_name if isinstance(given, Record) else None
            raise closed_with(outgoing(given), type_name, file, line)

        return failed

    def _heartbeat(self, node: Heartbeat, names: Names) -> Plain:
        arguments = compile_arguments(node.args, names)

        def beat(frame: Frame) -> Flow:
            args, kwargs = arguments(frame)
            details: Any = None
            if kwargs:
                details = kwargs if not args else {**{str(n): value for n, value in enumerate(args)}, **kwargs}
            elif len(args) == 1:
                details = args[0]
            elif args:
                details = args
            frame.host.builtin("heartbeat")(outgoing(details))
            return None

        return beat

    # --- choices

    def _if(self, node: If, names: Names) -> tuple[Plain | None, Suspending | None]:
        condition = compile_expression(node.condition, names)
        yes, no = self.block(node.body, names), self.block(node.orelse or (), names)
        if yes.plain is not None and no.plain is not None:
            then, otherwise = yes.plain, no.plain
            return lambda frame: then(frame) if truth(condition(frame)) else otherwise(frame), None

        async def run(frame: Frame) -> Flow:
            return await (yes if truth(condition(frame)) else no).run(frame)

        return None, run

    def _switch(self, node: Switch, names: Names) -> tuple[Plain | None, Suspending | None]:
        subject = compile_expression(node.subject, names)
        same = operation("==")
        cases = [
            (compile_expression(case.value, names), self.block(case.body, names))
            for case in node.cases
            if isinstance(case, SwitchCase)
        ]
        otherwise = self.block(node.orelse or (), names)

        def chosen(frame: Frame) -> Block:
            value = subject(frame)
            return next((block for case, block in cases if same(frame, case(frame), value)), otherwise)

        if all(block.plain is not None for _, block in cases) and otherwise.plain is not None:
            return lambda frame: cast("Plain", chosen(frame).plain)(frame), None

        async def run(frame: Frame) -> Flow:
            return await chosen(frame).run(frame)

        return None, run

    # --- loops

    def _for(self, node: For, names: Names) -> tuple[Plain | None, Suspending | None]:
        from .loops import compile_loop

        return compile_loop(self, node, names)
