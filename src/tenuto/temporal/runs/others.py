"""Other runs, as one run deals with them: its children, and signals to those that are not its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from temporalio import workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from tenuto.codec.values import dump
from tenuto.errors import ChildCancelledError, ChildStartError
from tenuto.kernel.commands import SendSignal, StartChild
from tenuto.kernel.facts import Done
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Err, Ok
from tenuto.model.definitions import Workflow
from tenuto.temporal.names import MEMO_OWNER
from tenuto.temporal.payloads import ours
from tenuto.temporal.programs import memo_of
from tenuto.temporal.runs.outcomes import child_error, outcome_of
from tenuto.temporal.runs.portions import Portions
from tenuto.temporal.runs.run import TemporalRun
from tenuto.temporal.runs.teller import Teller
from tenuto.temporal.settings import Site, priority_of

__all__ = ["OtherRuns"]


@dataclass(slots=True)
class _Start:
    """A child on its way: what is meant for it waits until it is there."""

    run: str
    over: asyncio.Event
    detached: bool
    cancelled: bool = False


class OtherRuns:
    """Children on their way and under way, and signals that have not arrived."""

    def __init__(
        self,
        run: TemporalRun,
        teller: Teller,
        site: Site,
        definition: Workflow[..., Any],
        portions: Portions,
        *,
        is_marked: bool,
    ) -> None:
        self._run = run
        self._teller = teller
        self._tell = teller.tell
        self._site = site
        self._workflow = definition
        self._portions = portions
        self._plain_is_ours = not is_marked
        self._children: dict[Location, asyncio.Task[Any]] = {}  # handles of those that have started
        self._starting: dict[Location, _Start] = {}  # children on their way
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def are_starting(self) -> bool:
        return bool(self._starting)

    def abandon(self) -> None:
        """The run has ended: a child that has not begun and would end with it never does."""
        for location, start in list(self._starting.items()):
            if not start.detached:
                self._take_back(location)

    def start_child(self, command: StartChild) -> None:
        start = self._starting[command.location] = _Start(command.run, asyncio.Event(), command.detached)
        memo = {**memo_of(self._site.registry, command.target, self._workflow), MEMO_OWNER: self._site.task_queue}
        size = len(command.input) + sum(len(text) for text in memo.values())

        def begin() -> None:
            self._hold(asyncio.create_task(self._child(command, start, memo)))

        self._portions.hand("child", ("child", command.location), size, begin)

    async def _child(self, command: StartChild, start: _Start, memo: Mapping[str, str]) -> None:
        policy = workflow.ParentClosePolicy
        location = command.location
        try:
            handle = await workflow.start_child_workflow(
                command.target,
                args=[ours(command.input)],
                id=command.run,
                task_queue=self._site.task_queue_of(command.queue),
                result_type=RawValue,
                parent_close_policy=policy.ABANDON if command.detached else policy.REQUEST_CANCEL,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo=memo,
                priority=priority_of(command.priority),
            )
        except WorkflowAlreadyStartedError:
            self._portions.ended("child")
            self._tell(Done(location, 0, Err(dump(ChildStartError(f"run id {command.run!r} is in use")))))
            return
        finally:
            self._starting.pop(location, None)
            start.over.set()
        handle.add_done_callback(partial(self._child_ended, command))
        self._children[location] = cast("asyncio.Task[Any]", handle)
        if command.detached:
            self._tell(Done(location, 0, Ok(b"")))
        elif start.cancelled:
            self.cancel_child(location)
        self._teller.wake()

    def _child_ended(self, command: StartChild, handle: asyncio.Task[Any]) -> None:
        self._children.pop(command.location, None)
        if handle.cancelled():
            return
        error = handle.exception()
        if error is None or isinstance(error, Exception):
            self._portions.ended("child")
        if command.detached:
            return
        if error is None:
            self._tell(Done(command.location, 0, outcome_of(handle.result(), plain_is_ours=self._plain_is_ours)))
        elif isinstance(error, Exception):
            self._tell(Done(command.location, 0, Err(dump(child_error(command.run, error)))))

    def cancel_child(self, location: Location) -> None:
        start = self._starting.get(location)
        if start is not None:
            start.cancelled = True
            if self._take_back(location):
                ended = ChildCancelledError(f"child run {start.run} was cancelled before it began")
                fact = Done(location, 0, Err(dump(ended)))
                asyncio.get_running_loop().call_soon(self._tell, fact)
        handle = self._children.get(location)
        if handle is not None:
            handle.cancel()

    def _take_back(self, location: Location) -> bool:
        """True if this child had not begun: now it never does."""
        if not self._portions.withdraw(("child", location)):
            return False
        self._starting.pop(location).over.set()
        return True

    def send(self, command: SendSignal) -> None:
        if command.run == workflow.info().workflow_id:
            asyncio.get_running_loop().call_soon(self._send_here, command)
        else:
            self._portions.hand(
                "signal",
                ("signal", command.location),
                len(command.payload),
                lambda: self._hold(asyncio.create_task(self._send(command))),
            )

    def _send_here(self, command: SendSignal) -> None:
        self._teller.deliver(command.name, command.payload)
        self._tell(Done(command.location, 0, Ok(b"")))

    async def _send(self, command: SendSignal) -> None:
        outcome: Ok | Err = Ok(b"")
        for start in list(self._starting.values()):
            if start.run == command.run:
                await start.over.wait()
        try:
            await workflow.get_external_workflow_handle(command.run).signal(command.name, args=[ours(command.payload)])
        except ApplicationError as error:
            self._run.report(f"signal at {text(command.location)} was dropped: {error.message}")
            outcome = Err(dump(LookupError("no open run has that id")))
        self._portions.ended("signal")
        self._tell(Done(command.location, 0, outcome))

    def _hold(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
