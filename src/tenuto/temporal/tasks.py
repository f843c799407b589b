"""Tasks without a workflow: each is a workflow of one step, because a cluster runs nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from tenuto.kernel.operations import StepOp, StepSpec
from tenuto.model.definitions import Workflow
from tenuto.model.place import current
from tenuto.model.steps import Implementation, StepCall

__all__ = ["TASK", "one_step", "task_arguments"]

TASK: Final = "tenuto.task"
_PASSED_ON: Final = ("name", "max_attempts", "backoff_ms", "backoff_max_ms", "timeout_ms", "heartbeat_ms", "priority")


def task_arguments(operation: StepOp) -> list[Any]:
    """What `one_step` is started with."""
    fields = {name: value for name, value in asdict(operation.spec).items() if name in _PASSED_ON}
    names = [item if isinstance(item, str) else item.__name__ for item in operation.spec.no_retry]
    return [operation.call.target, operation.call.input, {**fields, "no_retry": tuple(names)}]


class _Target:
    """A step by its id; whoever runs it knows the rest."""

    def __init__(self, step_id: str) -> None:
        self.id = step_id

    def record_plain(self, args: tuple[Any, ...]) -> bytes:
        raise AssertionError  # the call is encoded already

    def implementation(self) -> Implementation:
        raise LookupError(self.id)


async def _one_step(target: str, call: bytes, options: dict[str, Any]) -> Any:
    port = current("a task").port
    return port.decode(await port.issue(StepOp(StepSpec(**options), StepCall(_Target(target), None, call))))


one_step: Final = Workflow(_one_step, id=TASK, name=TASK)
