"""The definitions a worker has, with their hashes, and what they make it able to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, cast

from tenuto.kernel.turn import Definition
from tenuto.model.definitions import Step, Workflow
from tenuto.model.main import definition_of
from tenuto.model.options import module_function
from tenuto.model.port import current_port
from tenuto.model.providers import text_missing
from tenuto.model.registry import Registry

__all__ = ["Definitions"]


class Definitions:
    """What an app's registry has, looked up by id; hashes are computed once per definition."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._hashes: dict[int, tuple[Workflow[..., Any], Definition]] = {}
        self.stored: list[str] = []  # workflows of the store that can be run here, though not loaded

    def workflow(self, target: str) -> Workflow[..., Any] | None:
        found = self.registry.get(target)
        return cast("Workflow[..., Any]", found) if isinstance(found, Workflow) else None

    def step(self, target: str) -> Step[..., Any] | None:
        found = self.registry.get(target)
        return cast("Step[..., Any]", found) if isinstance(found, Step) else None

    def handler(self, name: str) -> Callable[[Any], object] | None:
        """A rollback handler by the name its step stored."""
        step = self.step(name)
        return module_function(name) if step is None else step.fn

    def workflows(self) -> list[str]:
        return [*(item.id for item in self.registry.definitions("workflow")), *self.stored]

    def steps(self) -> list[str]:
        return [item.id for item in self.registry.definitions("step")]

    def definition(self, workflow: Workflow[..., Any] | None) -> Definition:
        """Of a workflow; one that is not known here has no hash yet: the worker that knows it brings its own."""
        if workflow is None:
            return Definition("")
        known = self._hashes.get(id(workflow))
        if known is None or known[0] is not workflow:
            known = self._hashes[id(workflow)] = (workflow, Definition(*definition_of(workflow)))
        return known[1]

    def named(self, target: str) -> Definition:
        """The definition with an id."""
        return self.definition(self.workflow(target))

    def loaded(self, target: str, digest: str) -> Workflow[..., Any] | None:
        """A workflow by the text with this hash, if a provider has loaded that."""
        found = (provider.pinned(target, digest) for provider in self.registry.providers())
        return next((workflow for workflow in found if workflow is not None), None)

    def pinned(self, target: str, digest: str, current: Workflow[..., Any] | None) -> Workflow[..., Any]:
        """The definition that a run with this hash is executed by; one that parks it when nobody has the text.

        Python has one text, the deployed one. A run of another language keeps the text it started with.
        """
        if current is not None and (current.provider is None or digest in ("", self.definition(current).hash)):
            return current
        return self.loaded(target, digest) or _missing(target, digest)

    def child(self, target: str, parent: Workflow[..., Any]) -> Definition:
        """What a child of this run starts with: the latest definition of its name, else its parent's own."""
        found = self.workflow(target)
        if found is None and parent.provider is not None:
            own = parent.provider.child(target, parent)
            if own is not None:
                return Definition(*own)
        return self.definition(found)

    def hashes(self) -> dict[str, str]:
        return {target: self.named(target).hash for target in self.workflows()}

    def capability(self, queues: Sequence[str] | None) -> str:
        """Equal for workers that can do the same: a parked run is tried again by one that differs."""
        lines = [f"{target} {digest}" for target, digest in sorted(self.hashes().items())]
        lines += sorted(self.steps())
        lines += [line for provider in self.registry.providers() for line in provider.abilities()]
        lines += sorted(queues or ["*"])
        return sha256("\n".join(lines).encode()).hexdigest()


def _missing(target: str, digest: str) -> Workflow[..., Any]:
    """Stands for a definition whose text nobody has: the run is parked, and resumes when somebody brings it."""
    error = text_missing(target, digest)

    async def missing(*args: Any, **kwargs: Any) -> Any:
        current_port.get().park(error)

    workflow: Workflow[..., Any] = Workflow(missing, id=target, name=target)
    workflow.described = missing, digest, None
    return workflow
