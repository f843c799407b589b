"""The kernel's side of the port: what a run's own code calls, handed to the part that knows.

`model.port` says what each call means; scopes, which are more than a hand-over, live here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from typing import Any, assert_never

from tenuto.kernel.children import Children
from tenuto.kernel.commands import CloseHook
from tenuto.kernel.commits import Commits
from tenuto.kernel.core import Core
from tenuto.kernel.location import Segment
from tenuto.kernel.mailbox import Mailbox
from tenuto.kernel.marks import Marks
from tenuto.kernel.operations import (
    ChildOp,
    Commit,
    Committed,
    Dispatch,
    Err,
    Handlers,
    JoinMark,
    Observed,
    Ok,
    Operation,
    RaceMark,
    SideEffectOp,
    SleepOp,
    StepOp,
    WaitOp,
)
from tenuto.kernel.pending import OperationFuture
from tenuto.kernel.records import Flag, Loop, Rows
from tenuto.kernel.replay import Replay
from tenuto.kernel.scope import Scope, current_scope
from tenuto.kernel.sleeps import Sleeps
from tenuto.kernel.steps import Steps

__all__ = ["EngineSide"]


class EngineSide(Core):
    """The parts of a run, and the port over them."""

    __slots__ = ("children", "commits", "mailbox", "marks", "replay", "sleeps", "steps")

    def __init__(
        self,
        rows: Rows,
        *,
        strict: bool,
        names: frozenset[str] | None,
        dump: Callable[[Any], bytes],
        load: Callable[[bytes], Any],
        steps: type[Steps] = Steps,
    ) -> None:
        super().__init__(rows, strict=strict, dump=dump, load=load)
        self.mailbox = Mailbox(self)
        self.steps = steps(self)
        self.sleeps = Sleeps(self)
        self.children = Children(self)
        self.commits = Commits(self, self.mailbox)
        self.marks = Marks(self)
        self.replay = Replay(self, names)

    def cancel_root(self) -> None:
        """Cancels the run's main task."""
        raise AssertionError  # Run has the root

    def root_error(self) -> BaseException | None:
        """The exception by which the run's main task has ended, if it has."""
        raise AssertionError  # Run has the root

    @property
    def run_id(self) -> str:
        return self.rows.run_id

    @property
    def generation(self) -> int:
        return self.counters.generation

    @property
    def started_at(self) -> int:
        return self.counters.started_at

    def entropy(self, purpose: str) -> bytes:
        if self.inert:
            self.evict()
        scope = current_scope.get()
        words = [self.rows.run_id, str(self.counters.generation), purpose, scope.node.text]
        if purpose == "uuid":
            words.append(str(scope.uuids))
            scope.uuids += 1
        return blake2b("\n".join(words).encode(), digest_size=16).digest()

    def issue(self, operation: Operation) -> asyncio.Future[bytes]:
        if self.inert:
            return self.evicted()
        match operation:
            case StepOp():
                return self.steps.issue(operation)
            case SleepOp():
                return self.sleeps.issue(operation)
            case WaitOp():
                return self.mailbox.wait(operation)
            case ChildOp():
                return self.children.issue(operation)
            case SideEffectOp():
                return self.marks.side_effect(operation)
            case _:
                assert_never(operation)

    def perform(self, step: StepOp) -> asyncio.Future[bytes] | bytes:
        return self.steps.perform(step)

    def ended(self, spawned: asyncio.Future[bytes]) -> asyncio.Future[bytes]:
        return self.evicted() if self.inert else self.children.ended(spawned)

    def operation_key(self, issued: asyncio.Future[bytes]) -> str:
        if self.inert:
            self.evict()
            return ""
        assert isinstance(issued, OperationFuture) and issued.pending is not None  # noqa: PT018, S101  # ours
        return self.key(issued.pending.node)

    def observe(self, mark: Observed) -> Observed:
        if self.inert:
            self.evict()
            return mark._replace(segment=mark.name) if isinstance(mark, JoinMark | RaceMark) else mark
        return self.marks.observe(mark)

    def listen(self, name: str | None, handlers: Handlers, why: str = "not_accepting") -> None:
        if self.inert:
            self.evict()
            return
        self.mailbox.listen(handlers, why)

    def take(self) -> asyncio.Future[Dispatch]:
        return self.evicted() if self.inert else self.mailbox.take()

    def reply(self, update_id: str, result: Ok | Err) -> None:
        if self.inert:
            self.evict()
            return
        self.mailbox.reply(update_id, result)

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        return self.evicted() if self.inert else self.commits.commit(commit)

    def publish(self, value: bytes) -> None:
        if self.inert:
            self.evict()
            return
        # What replay publishes again was committed with the facts that made the code say it.
        if self.replaying:
            return
        self.journal.publish(value)

    def close_hook(self, token: str) -> None:
        if self.inert:
            self.evict()
            return
        if not self.replaying:
            self.journal.command(f"hook:{token}", CloseHook(token))

    def patch(self, patch_id: str, *, deprecate: bool = False) -> bool:
        if self.inert:
            self.evict()
            return False
        return self.marks.patch(patch_id, deprecate=deprecate)

    def log(self, message: str) -> None:
        self.report(message)

    def start_timer(self, deadline: int, fire: Callable[[], None]) -> Callable[[], None]:
        return self.sleeps.start_timer(deadline, fire)

    def scope(self, segment: Segment) -> AbstractAsyncContextManager[None]:
        if self.inert:
            self.evict()
        scope = current_scope.get().enter(segment)
        entry = scope.node.entry
        if entry is not None and type(entry.kind) is Loop and entry.flags & Flag.RECEIVE:
            scope.dispatches = entry.kind.iteration  # goes on counting where its checkpoint was
        return _Guard(self, scope)

    async def end_scope(self, scope: Scope, raised: BaseException | None) -> None:
        """Cancels and awaits the scope's tasks (G6), then asks what is left over below it (D8)."""
        if self.inert:
            return
        if scope.tasks:
            await self._end_tasks(scope)
        if isinstance(raised, asyncio.CancelledError):
            self.pass_over(scope.node)
        elif self.left_over:
            self.replay.left_over_below(scope.node, raised)
        scope.node.prune()

    async def _end_tasks(self, scope: Scope) -> None:
        tasks = list(scope.tasks)
        for task in tasks:
            task.cancel()
        cancelled: asyncio.CancelledError | None = None
        for task in tasks:
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError as error:
                    cancelled = error  # held back: nothing may outlive the scope it was started in
            if not task.cancelled():
                task.exception()  # ended with its scope; nobody is left to ask
        if cancelled is not None:
            raise cancelled


class _Guard:
    """Makes a scope current for the code inside, and ends it."""

    __slots__ = ("_run", "_scope", "_token")

    def __init__(self, run: EngineSide, scope: Scope) -> None:
        self._run = run
        self._scope = scope

    async def __aenter__(self) -> None:
        self._token = current_scope.set(self._scope)

    async def __aexit__(self, sort: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self._run.end_scope(self._scope, error)
        finally:
            current_scope.reset(self._token)
