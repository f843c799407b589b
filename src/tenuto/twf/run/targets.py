"""Which run a `workflow W(…)` starts: by a program, by a Python workflow, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError
from tenuto.model.registry import current

from .faults import Stopped
from .frames import Budget, Frame
from .library import library

if TYPE_CHECKING:
    from .compiled import CompiledProgram, CompiledWorkflow

__all__ = ["NEXUS", "Target", "find_workflow"]

NEXUS: Final = "tenuto.nexus"  # the workflow that stands here for a run of another namespace


class Target(NamedTuple):
    """The definition's id, and what its own options say about calling it."""

    id: str
    options: Callable[[list[Any]], dict[str, Any]] | None


def find_workflow(name: str, namespace: str | None, program: CompiledProgram) -> Target:
    """The latest loaded definition of a name, else the caller's own program's, else another worker's."""
    if namespace is not None:
        return Target(NEXUS, None)
    try:
        found = current().find(name, "workflow")
    except DefinitionNotFoundError:
        own = program.workflows.get(name)
        if own is not None:
            return Target(name, _options(own))
        known = library().elsewhere.get(name)
        if known is not None:
            return Target(known, None)
        raise Stopped("TWF603", f"no workflow {name} is loaded here, in this program or known to the store") from None
    except AmbiguousNameError as error:
        raise Stopped("TWF603", f"workflow {name} has several definitions to choose from: {error}") from error
    compiled = getattr(found, "compiled", None)
    return Target(found.id, _options(compiled) if compiled is not None else None)


def _options(workflow: CompiledWorkflow) -> Callable[[list[Any]], dict[str, Any]] | None:
    options = workflow.options
    if not options.entries:
        return None

    def values(args: list[Any]) -> dict[str, Any]:
        variables = dict(zip(workflow.parameters.names, args, strict=False))
        said = options.values(Frame(_Nobody(), variables, ()))
        # Limits of the definition are the child's own timers; here they would count twice.
        return {key: value for key, value in said.items() if key in ("retrypolicy", "taskqueue", "priority")}

    return values


class _Nobody:
    """The host of options: they are values, nothing calls out."""

    changed = False

    def __init__(self) -> None:
        self.budget = Budget(1)

    def builtin(self, name: str) -> Any:
        raise Stopped("TWF602", f"options of a definition cannot call {name}")

    def function(self, name: str) -> Any:
        raise Stopped("TWF602", f"options of a definition cannot call {name}")

    def out_of_budget(self) -> None:
        return None

    def stop(self, error: Any) -> Any:
        raise error
