"""`workflow W(…)` in its modes: other runs, started here or in another namespace."""

from __future__ import annotations

from asyncio import CancelledError, Future
from typing import TYPE_CHECKING, Any, cast

from tenuto.errors import ChildCancelledError, ChildError, ChildTerminatedError, EncodingError, LimitError, TwfError
from tenuto.kernel.operations import ChildOp, SleepOp, StepSpec
from tenuto.kernel.records import ChildMode
from tenuto.kernel.retries import delay_ms

from ..ast import Options, Workflow, WorkflowTarget
from .expressions import compile_arguments
from .failures import failure_of
from .faults import Fault
from .frames import Frame
from .names import Names
from .options import child_retries, compile_options, limits_of, merged, priority_of
from .parameters import Parameters
from .strands import first_of
from .values import incoming, kind_of, outgoing, text_of

if TYPE_CHECKING:
    from .durable import Durable, Perform
    from .execution import Execution

__all__ = ["ChildCall", "Handle", "await_handle"]


class Handle:
    """A spawned child: its end, once it has one, and when that was among all that finished."""

    __slots__ = ("future", "order", "workflow")

    def __init__(self, workflow: str, future: Future[Any]) -> None:
        self.workflow = workflow
        self.future = future
        self.order = 0  # 0: not finished


class ChildCall:
    """A call of a workflow at its place in the text."""

    def __init__(
        self, durable: Durable, target: WorkflowTarget, options: Options | None, names: Names, line: int
    ) -> None:
        self.name = target.name.name
        self.mode = target.mode
        self.namespace = None if target.namespace is None else target.namespace.value
        self.file = durable.compiler.file
        self.line = line
        self.arguments = compile_arguments(target.args, names)
        self.given = compile_options(options, names)
        place = durable.resolution.targets.get(target)
        node = place.node if place is not None else None
        self.parameters: Parameters | None = None
        if isinstance(node, Workflow) and self.namespace is None:
            self.parameters = Parameters(f"workflow {self.name}", node.params)

    def performer(self, *, waits: bool) -> Perform:
        if self.mode == "detach":
            return self._detach
        return self._run if waits else self._spawn

    # --- the three ways

    async def _run(self, frame: Frame) -> Any:
        execution, said, op = self._prepare(frame, ChildMode.SPAWN)
        retries = child_retries(self.name, said)
        limit_ms = limits_of(said, workflow=True)
        try:
            if limit_ms is None:
                return incoming(await self._attempts(execution, frame, op, retries))
            return incoming(await self._limited(execution, frame, op, retries, limit_ms))
        except ChildError as error:
            raise _failure(error, self.name, self.file, self.line) from error

    async def _spawn(self, frame: Frame) -> Any:
        execution, said, op = self._prepare(frame, ChildMode.SPAWN)
        retries = child_retries(self.name, said)
        spawned = execution.port.issue(op)
        run_id = (await execution.wait(frame, spawned)).decode()
        limit_ms = limits_of(said, workflow=True)
        if retries.max_attempts == 1 and limit_ms is None:
            end: Future[Any] = execution.port.ended(spawned)
        else:
            end = execution.supervise(self._watched(execution, frame, op, retries, limit_ms, spawned))
        execution.add_handle(run_id, Handle(self.name, end))
        return {"workflow": self.name, "id": run_id, "run": 1}

    async def _detach(self, frame: Frame) -> Any:
        execution, _, op = self._prepare(frame, ChildMode.DETACH)
        try:
            run_id = (await execution.wait(frame, execution.port.issue(op))).decode()
        except ChildError as error:
            raise _failure(error, self.name, self.file, self.line) from error
        return {"workflow": self.name, "id": run_id, "run": 1}

    # --- starting

    def _prepare(self, frame: Frame, mode: ChildMode) -> tuple[Execution, dict[str, Any], ChildOp]:
        from .durable import execution_of

        execution = execution_of(frame)
        args, kwargs = self.arguments(frame)
        if self.parameters is not None:
            args, kwargs = self.parameters.fit(args, kwargs), {}
        target, definition = execution.child_target(self.name, self.namespace)
        said = merged({} if definition is None else definition(args), self.given.values(frame))
        run_id = said.get("workflowid")
        queue = said.get("taskqueue")
        try:
            call = execution.child_input(
                self.name,
                self.namespace,
                [outgoing(value) for value in args],
                {k: outgoing(v) for k, v in kwargs.items()},
            )
        except (EncodingError, LimitError) as error:
            raise Fault("TWF502", f"an argument of {self.name} cannot be stored: {error}") from error
        op = ChildOp(
            f"child:{self.name}",
            mode,
            None if run_id is None else text_of(run_id),
            target,
            call,
            "default" if queue is None else text_of(queue),
            priority=priority_of(said),
        )
        return execution, said, op

    async def _attempts(self, execution: Execution, frame: Frame, op: ChildOp, retries: StepSpec) -> Any:
        """The child's value; started again, under its id with `~2`, `~3` …, while the policy allows."""
        attempt = 1
        while True:
            spawned = execution.port.issue(op)
            await execution.wait(frame, spawned)
            try:
                return execution.port.decode(await self._end(execution, frame, spawned))
            except ChildError as error:
                if not await self._again(execution, frame, retries, attempt, error):
                    raise
            attempt += 1
            if op.run is not None:
                op = op._replace(run=f"{op.run.rpartition('~')[0] if attempt > 2 else op.run}~{attempt}")

    async def _end(self, execution: Execution, frame: Frame, spawned: Future[bytes]) -> bytes:
        return await execution.wait(frame, execution.port.ended(spawned))

    async def _again(
        self, execution: Execution, frame: Frame, retries: StepSpec, attempt: int, error: ChildError
    ) -> bool:
        failure = _failure(error, self.name, self.file, self.line)
        if attempt >= retries.max_attempts or failure.type in retries.no_retry or failure.type == "Cancelled":
            return False
        await execution.wait(
            frame, execution.port.issue(SleepOp(f"retry:{self.name}", duration_ms=delay_ms(retries, attempt)))
        )
        return True

    async def _limited(self, execution: Execution, frame: Frame, op: ChildOp, retries: StepSpec, limit_ms: int) -> Any:
        timer = execution.port.issue(SleepOp(f"limit:{self.name}", duration_ms=limit_ms))
        work = execution.supervise(self._attempts(execution, frame, op, retries))
        return await self._first(execution, frame, work, timer, limit_ms)

    async def _watched(
        self,
        execution: Execution,
        frame: Frame,
        op: ChildOp,
        retries: StepSpec,
        limit_ms: int | None,
        spawned: Future[bytes],
    ) -> Any:
        """The end of a spawned child that may be started again, or may take only so long."""

        async def first_then_others() -> Any:
            try:
                return execution.port.decode(await execution.wait(frame, execution.port.ended(spawned)))
            except ChildError as error:
                if not await self._again(execution, frame, retries, 1, error):
                    raise
            again = op if op.run is None else op._replace(run=f"{op.run}~2")
            return await self._attempts(execution, frame, again, retries)

        if limit_ms is None:
            return await first_then_others()
        timer = execution.port.issue(SleepOp(f"limit:{self.name}", duration_ms=limit_ms))
        work = execution.supervise(first_then_others())
        return await self._first(execution, frame, work, timer, limit_ms)

    async def _first(
        self, execution: Execution, frame: Frame, work: Future[Any], timer: Future[bytes], limit_ms: int
    ) -> Any:
        try:
            async with execution.waiting(frame):
                await first_of([work, timer])
            if work.done():
                return work.result()
            message = f"{self.name} took longer than {limit_ms / 1000:g}s"
            raise TwfError("TWF500", "Timeout", message, source=self.name, file=self.file, line=self.line)
        finally:
            for future in (work, timer):
                if not future.done():
                    future.cancel()


def _failure(error: ChildError, name: str, file: str, line: int) -> TwfError:
    failure = failure_of(error, name, file, line)
    if isinstance(error, ChildCancelledError):
        failure.type = "Cancelled"
    elif isinstance(error, ChildTerminatedError):
        failure.type = "Terminated"
    return failure


async def await_handle(execution: Execution, frame: Frame, value: Any, file: str, line: int) -> Any:
    """The result of a spawned child, the same at every await."""
    handle = handle_of(execution, value)
    if not handle.future.done():
        async with execution.waiting(frame):
            await first_of([handle.future])
    return outcome_of(execution, handle, file, line)


def handle_of(execution: Execution, value: Any) -> Handle:
    key = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
    handle = execution.handles.get(key) if isinstance(key, str) else None
    if handle is None:
        raise Fault("TWF502", f"{kind_of(value)} is not the handle of a spawned workflow")
    return handle


def outcome_of(execution: Execution, handle: Handle, file: str, line: int) -> Any:
    try:
        if handle.future.cancelled():
            raise CancelledError
        value = handle.future.result()
    except ChildError as error:
        raise _failure(error, handle.workflow, file, line) from error
    except CancelledError:
        raise TwfError(
            "TWF500", "Cancelled", "the child was asked to stop", source=handle.workflow, file=file, line=line
        ) from None
    return incoming(execution.port.decode(value) if isinstance(value, bytes) else value)
