"""Scopes: where code is, and what it has counted there.

Rules:

1. A scope is the run, a handler, a branch, an iteration, an asyncio task. It follows a context variable, so that a
   task created in a scope belongs to it.
2. Counters (uses of a name, tasks, dispatches, draws) are per scope and count in issue order.
3. When the function of a scope other than the root ends, asyncio tasks created in it are cancelled in creation order
   and awaited; only then has the scope ended (`Run.scope`, `loop.Loop.create_task`).
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Final

from tenuto.errors import LimitError
from tenuto.kernel.history import Node
from tenuto.kernel.location import Segment, check_name, task

__all__ = ["PATH_SEGMENTS", "Scope", "current_scope"]

PATH_SEGMENTS: Final = 64


class Scope:
    """One scope while its code runs."""

    __slots__ = ("dispatches", "node", "task_count", "tasks", "uses", "uuids")

    def __init__(self, node: Node) -> None:
        if len(node.location) > PATH_SEGMENTS:
            raise LimitError("path segments", PATH_SEGMENTS, len(node.location))
        self.node = node
        self.uses: dict[str, int] = {}
        self.tasks: dict[asyncio.Task[Any], None] = {}  # alive, in creation order
        self.task_count = 0
        self.dispatches = 0
        self.uuids = 0

    def take(self, name: str) -> Node:
        """The place of the next use of a name here."""
        uses = self.uses
        n = uses.get(name)
        if n is None:
            check_name(name)
            n = 0
        uses[name] = n + 1
        segment = (name, n, 0) if n else name  # as `location.use` has it, without the call
        children = self.node.children
        node = None if children is None else children.get(segment)
        return node if node is not None else self.node.child(segment)

    def enter(self, segment: Segment) -> Scope:
        """A scope below this one."""
        return Scope(self.node.child(segment))

    def enter_task(self) -> Scope:
        """The scope of the next asyncio task created here."""
        n = self.task_count
        scope = Scope(self.node.child(task(n)))
        self.task_count = n + 1
        return scope


current_scope: ContextVar[Scope] = ContextVar("tenuto_scope")
