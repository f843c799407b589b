"""`for` in its three forms. A pass that may record something has a scope of its own: `for/~n`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from tenuto.kernel.location import iteration, use

from ..ast import For
from .expressions import compile_expression
from .faults import Fault
from .frames import CALL, Frame
from .names import Names
from .places import compile_store
from .values import is_list, is_map, kind_of, truth
from .work import spend, spend_members

if TYPE_CHECKING:
    from tenuto.model.port import Port

    from .statements import Compiler, Flow, Plain, Suspending

__all__ = ["compile_loop", "items_of"]


def items_of(frame: Frame, value: Any) -> list[Any]:
    """What a loop goes over: a snapshot of a list's items or a map's keys."""
    if is_list(value) or is_map(value):
        spend_members(frame, len(value))
        return list(value)
    raise Fault("TWF502", f"for goes over a list or a map, not {kind_of(value)}")


def compile_loop(compiler: Compiler, node: For, names: Names) -> tuple[Plain | None, Suspending | None]:
    body = compiler.block(node.body, names)
    passes = _passes(node, names)
    plain = body.plain
    if plain is not None:

        def run_plain(frame: Frame) -> Flow:
            for _ in passes(frame):
                spend(frame, CALL)
                flow = plain(frame)
                if flow is not None and flow != "continue":
                    return None if flow == "break" else flow
            return None

        return run_plain, None

    async def run(frame: Frame) -> Flow:
        port: Port = cast("Any", frame.host).port  # only runs get here
        place = use("for", frame.loops)
        frame.loops += 1
        async with port.scope(place):
            for n, _ in enumerate(passes(frame)):
                spend(frame, CALL)
                async with port.scope(iteration("for", n)):
                    flow = await body.run(frame.below())
                if flow is not None and flow != "continue":
                    return None if flow == "break" else flow
        return None

    return None, run


def _passes(node: For, names: Names) -> Callable[[Frame], Iterator[None]]:
    """Steps through the passes of a loop, setting its variable."""
    expr = compile_expression(node.expr, names) if node.expr is not None else None
    if node.mode == "each" and node.variable is not None and expr is not None:
        store = compile_store(node.variable.name, names)
        items = expr

        def each(frame: Frame) -> Iterator[None]:
            for item in items_of(frame, items(frame)):
                store(frame, item)
                yield

        return each

    def while_true(frame: Frame) -> Iterator[None]:
        while expr is None or truth(expr(frame)):
            yield

    return while_true
