"""TWF programs on a cluster: a run carries the text it was started with in its memo, so that any worker can go on.

There is no store of ours to keep programs in. Python has one text, the deployed one, and carries nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from tenuto.codec.values import load
from tenuto.errors import DefinitionNotFoundError
from tenuto.host.definitions import Definitions
from tenuto.kernel.operations import StepOp
from tenuto.model.definitions import Workflow
from tenuto.model.registry import Registry
from tenuto.temporal.tasks import TASK, one_step
from tenuto.twf.provider import TwfProvider
from tenuto.twf.run import TwfWorkflow
from tenuto.twf.run.activities import Performer, call_of

__all__ = ["MEMO_PROGRAM", "as_activity", "memo_of", "workflow_of"]

MEMO_PROGRAM: Final = "tenuto_program"


def memo_of(registry: Registry, target: str, parent: Workflow[..., Any] | None = None) -> Mapping[str, str]:
    """What a run of this workflow carries: the latest text that has it, else that of its parent."""
    found: Any = registry.get(target)
    if isinstance(found, TwfWorkflow):
        return {MEMO_PROGRAM: found.compiled.program.source}
    if found is None and isinstance(parent, TwfWorkflow) and target in parent.compiled.program.workflows:
        return {MEMO_PROGRAM: parent.compiled.program.source}
    return {}


def workflow_of(registry: Registry, target: str, source: str | None) -> Workflow[..., Any]:
    """The workflow that a run is executed by; without one the run waits for a worker that has it."""
    if target == TASK:
        return one_step
    found: Any = registry.get(target)
    current = cast("Workflow[..., Any] | None", found if isinstance(found, Workflow) else None)
    if source is not None:
        program = registry.provided(TwfProvider).library.read(source)
        return Definitions(registry).pinned(target, program.hash, current)
    if current is None:
        raise DefinitionNotFoundError(f"workflow {target!r} is not loaded in this worker")
    return current


def as_activity(op: StepOp) -> StepOp:
    """A call of a TWF activity in the form that another process can run, as it has through a queue."""
    callee = getattr(op.call, "_callee", None)
    performer = getattr(callee, "_performer", None)
    if op.spec.queue is not None or not isinstance(performer, Performer):
        return op
    args, _ = load(op.call.input)
    return StepOp(op.spec, call_of(performer, replace(op.spec, queue="default"), args))
