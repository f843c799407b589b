"""Pending deadlines, earliest first, then in issue order."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from tenuto.kernel.history import Node

__all__ = ["Timer", "Timers"]


class Timer(NamedTuple):
    """A deadline of the operation at `node`; None: of the run's cancel."""

    deadline: int
    order: int  # unique, so that nodes are never compared
    node: Node | None


class Timers:
    """A heap with lazy deletion: a stopped timer is skipped when it surfaces."""

    __slots__ = ("_heap", "live")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self.live: dict[Node | None, Timer] = {}  # not fired, not stopped

    def start(self, deadline: int, order: int, node: Node | None) -> None:
        timer = Timer(deadline, order, node)
        self.live[node] = timer
        heapq.heappush(self._heap, timer)

    def stop(self, node: Node | None) -> None:
        self.live.pop(node, None)

    def earliest(self) -> Timer | None:
        heap = self._heap
        while heap:
            timer = heap[0]
            if self.live.get(timer.node) is timer:
                return timer
            heapq.heappop(heap)
        return None

    def pop(self, timer: Timer) -> None:
        del self.live[timer.node]
        heapq.heappop(self._heap)

    def pending(self) -> list[Timer]:
        """All that have not fired, in no order."""
        return list(self.live.values())

    def __bool__(self) -> bool:
        return bool(self.live)

    def __contains__(self, node: Node | None) -> bool:
        return node in self.live
