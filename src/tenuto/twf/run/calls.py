"""`activity A(…)`: one step of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenuto.errors import EncodingError, LimitError, StepFailedError
from tenuto.kernel.operations import StepOp, StepSpec

from ..ast import Activity, ActivityTarget, Options
from .activities import Callee, Performer, callee_of, made_call
from .expressions import compile_arguments
from .failures import failure_of
from .faults import Fault
from .frames import Frame
from .names import Names
from .options import compile_options, limits_of, merged, step_spec
from .parameters import Parameters
from .values import incoming, outgoing

if TYPE_CHECKING:
    from .durable import Durable

__all__ = ["ActivityCall"]


class ActivityCall:
    """A call of an activity at its place in the text."""

    def __init__(
        self, durable: Durable, target: ActivityTarget, options: Options | None, names: Names, line: int
    ) -> None:
        self.name = target.name.name
        self.file = durable.compiler.file
        self.line = line
        self.arguments = compile_arguments(target.args, names)
        self.given = compile_options(options, names)
        place = durable.resolution.targets[target]
        node = place.node
        assert isinstance(node, Activity)  # noqa: S101  # resolved
        self.parameters = Parameters(f"activity {self.name}", node.params)
        self._specs: dict[Performer, tuple[StepSpec, int | None, Callee]] = {}  # of constant options

    async def perform(self, frame: Frame) -> Any:
        from .durable import execution_of

        execution = execution_of(frame)
        args = self.parameters.fit(*self.arguments(frame))
        performer = execution.performer(self.name)
        known = self._specs.get(performer)
        spec, limit_ms, callee = known if known is not None else self._options(frame, performer, args)
        try:
            call = made_call(callee, [outgoing(value) for value in args])
        except (EncodingError, LimitError) as error:
            raise Fault("TWF502", f"an argument of {self.name} cannot be stored: {error}") from error
        port = execution.port
        try:
            if limit_ms is not None:
                limited = port.issue(StepOp(spec, call))
                return incoming(port.decode(await execution.within(frame, limited, limit_ms, self.name)))
            issued = execution.perform(StepOp(spec, call))
            if isinstance(issued, bytes):
                execution.went_on()
                return incoming(port.decode(issued))
            return incoming(port.decode(await execution.wait(frame, issued)))
        except StepFailedError as error:
            raise failure_of(error, self.name, self.file, self.line) from error

    def _options(self, frame: Frame, performer: Performer, args: list[Any]) -> tuple[StepSpec, int | None, Callee]:
        said = merged(performer.definition_options(args), self.given.values(frame))
        spec = step_spec(self.name, said, performer.bound_options)
        found = spec, limits_of(said, workflow=False), callee_of(performer, spec)
        if self.given.constant and performer.constant:
            self._specs[performer] = found
        return found
