"""The statements that suspend: calls, awaits, `await all`, `await one`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, cast

from ..ast import (
    ActivityTarget,
    AllTarget,
    Await,
    AwaitAll,
    AwaitOne,
    Call,
    HandleTarget,
    MessageTarget,
    Options,
    Statement,
    Target,
    TimerTarget,
    WorkflowTarget,
)
from ..resolver import Resolution, Surveyed
from .calls import ActivityCall
from .children import ChildCall, await_handle
from .expressions import compile_expression, read_name
from .frames import Frame
from .names import Names
from .places import compile_binding

if TYPE_CHECKING:
    from .execution import Execution
    from .lines import Key
    from .statements import Compiler, Flow, Suspending

__all__ = ["Durable", "Perform", "execution_of"]

Perform: TypeAlias = Callable[[Frame], Awaitable[Any]]


def execution_of(frame: Frame) -> Execution:
    """The run that executes this; only runs get to statements that suspend."""
    return cast("Execution", frame.host)


class Durable:
    """Compiles the suspending statements of one workflow."""

    def __init__(self, compiler: Compiler, one: Surveyed, resolution: Resolution) -> None:
        self.compiler = compiler
        self.one = one
        self.resolution = resolution

    def statement(self, node: Statement, names: Names) -> Suspending:
        from .gathering import compile_all
        from .racing import compile_one

        match node:
            case Call():
                mode = node.target.mode if isinstance(node.target, WorkflowTarget) else None
                perform = self.target(node.target, node.options, names, waits=mode in (None, "child"))
                return self._bound(perform, node.result, names)
            case Await():
                perform = self.target(node.target, node.options, names, waits=True)
                if isinstance(node.target, MessageTarget):
                    return self._message(perform, node, names)
                return self._bound(perform, node.result, names)
            case AwaitAll():
                return compile_all(self, node.body, names)
            case AwaitOne():
                return compile_one(self, node, names)
            case _:
                raise AssertionError(node)  # the compiler keeps the rest

    def _bound(self, perform: Perform, result: Any, names: Names) -> Suspending:
        bind = compile_binding(result, names)
        if bind is None:

            async def run(frame: Frame) -> Flow:
                await perform(frame)
                return None

            return run

        async def run_and_bind(frame: Frame) -> Flow:
            bind(frame, await perform(frame))
            return None

        return run_and_bind

    def _message(self, perform: Perform, node: Await, names: Names) -> Suspending:
        bind = self.message_binding(node.result, names)

        async def run(frame: Frame) -> Flow:
            bind(frame, await perform(frame))
            return None

        return run

    def message_binding(self, result: Any, names: Names) -> Callable[[Frame, Any], None]:
        """A message's arguments are bound by position; fewer names than arguments are fine."""
        stores = [compile_binding([ident], names) for ident in result]

        def bind(frame: Frame, args: list[Any]) -> None:
            for store, value in zip(stores, args, strict=False):
                if store is not None:
                    store(frame, value)

        return bind

    # --- targets

    def target(self, target: Target, options: Options | None, names: Names, *, waits: bool) -> Perform:
        """What gives the value of a target; `waits`: for a child's result and not only its start."""
        line = self.compiler.line_of(target.start)
        match target:
            case ActivityTarget():
                return ActivityCall(self, target, options, names, line).perform
            case WorkflowTarget():
                return ChildCall(self, target, options, names, line).performer(waits=waits)
            case TimerTarget():
                assert target.duration is not None  # noqa: S101  # TWF111 otherwise
                duration = compile_expression(target.duration, names)

                async def sleep(frame: Frame) -> None:
                    await execution_of(frame).sleep(frame, "timer", duration(frame))

                return sleep
            case MessageTarget():
                key = cast("Key", (target.kind, target.name.name))

                async def token(frame: Frame) -> list[Any]:
                    return await execution_of(frame).next_token(frame, key)

                return token
            case HandleTarget():
                read = read_name(target.name.name, names)
                file = self.compiler.file

                async def handle(frame: Frame) -> Any:
                    return await await_handle(execution_of(frame), frame, read(frame), file, line)

                return handle
            case AllTarget():
                raise AssertionError(target)  # `await one` compiles its own
            case _:
                assert_never(target)
