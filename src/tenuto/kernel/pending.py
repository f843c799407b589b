"""An operation that was issued and has not settled, and the future its code awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tenuto.kernel.history import Node

__all__ = ["OperationFuture", "Pending"]


class OperationFuture(asyncio.Future[Any]):
    """A future whose cancelling withdraws its operation at once, in the same drain."""

    __slots__ = ("pending",)

    pending: Pending | None

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        if self.pending is not None and not self.pending.gone:
            self.pending.withdraw(self.pending)
        return True

    def forget(self) -> None:
        """Of a run that is taken apart: neither the operation nor the closed task that awaited it is needed."""
        self.pending = None
        super().cancel()


class Pending:
    """What the kernel knows of one operation between issue and settling."""

    __slots__ = (
        "attempt",
        "deadline",
        "ended",
        "error",
        "fire",
        "flags",
        "future",
        "gone",
        "node",
        "op",
        "order",
        "since",
        "started",
        "withdraw",
    )

    def __init__(
        self,
        node: Node,
        op: Any,
        future: OperationFuture,
        order: int,
        flags: int,
        withdraw: Callable[[Pending], None],
    ) -> None:
        self.node = node
        self.op = op
        self.future = future
        self.order = order  # of issue
        self.flags = flags
        self.withdraw = withdraw
        self.gone = False  # settled or withdrawn
        self.started = 0  # now of the turn it began in
        self.attempt = 1
        self.deadline: int | None = None
        self.error: bytes | None = None  # of the last failed attempt
        self.fire: Callable[[], None] | None = None  # asyncio timers: what to call
        self.ended: OperationFuture | None = None  # spawn: the child's end
        self.since = 0  # loops: last seq when issued

    def give(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
