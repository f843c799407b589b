"""Which runs of a namespace are an app's own: a namespace may be shared, a list shows everybody's.

An app is its URL's task queue, as on our own engines it is its store. What it starts carries that name in its memo, and
so do children, schedules' runs, and later runs of a chain. A run without the mark (of another language's client, or of
before there was one) counts if its type is a definition of ours and waits on a task queue where we look for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from temporalio.client import WorkflowExecution

from tenuto.model.definitions import Workflow
from tenuto.model.registry import Registry
from tenuto.temporal.names import MEMO_OWNER
from tenuto.temporal.settings import Address
from tenuto.temporal.tasks import TASK

__all__ = ["is_ours", "own_queue"]

_IDS: Final = ("workflow//", "twf//")  # what ids of definitions begin with that nobody gave a name


def is_ours(address: Address, registry: Registry, execution: WorkflowExecution, memo: Mapping[str, Any]) -> bool:
    """True if an execution on the cluster's list is a run of the app at this address."""
    owner = memo.get(MEMO_OWNER)
    if owner is not None:
        return bool(owner == address.task_queue)
    kind = execution.workflow_type
    known = kind == TASK or kind.startswith(_IDS) or isinstance(registry.get(kind), Workflow)
    return known and execution.task_queue in (address.task_queue, address.task_queue_of(own_queue(registry, kind)))


def own_queue(registry: Registry, target: str) -> str:
    """The queue that a workflow goes to unless a start says another one."""
    workflow = registry.get(target)
    return cast("Workflow[..., Any]", workflow).queue if isinstance(workflow, Workflow) else "default"
