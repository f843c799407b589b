"""What this process has of TWF: programs by hash, bindings, namespaces. Runs ask here; deploying changes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError
from tenuto.model.definitions import Step
from tenuto.model.registry import default

from .bindings import Bindings, BoundActivity, BoundFunction
from .faults import Stopped

if TYPE_CHECKING:
    from .compiled import CompiledProgram

__all__ = ["Library", "library"]


class Library:
    """The programs and bindings of this process."""

    def __init__(self) -> None:
        self.programs: dict[str, CompiledProgram] = {}
        self.bindings: list[Bindings] = []  # in the order they were given
        self.namespaces: set[str] = set()  # of other stores, for `nexus`
        self.elsewhere: dict[str, str] = {}  # workflows that other workers of the store have: short name to id
        self.fetch: Callable[[str], Awaitable[str | None]] | None = None  # a program's text, by hash, from the store
        self._steps: dict[str, tuple[object, BoundActivity]] = {}

    def add(self, bindings: Bindings) -> None:
        """From now on runs look here, too; the last added goes first."""
        if bindings in self.bindings:
            self.bindings.remove(bindings)
        self.bindings.append(bindings)

    def _all(self, preferred: Bindings | None) -> Iterator[Bindings]:
        if preferred is not None:
            yield preferred
        for bindings in reversed(self.bindings):
            if bindings is not preferred:
                yield bindings

    def activity(self, name: str, preferred: Bindings | None) -> BoundActivity | None:
        """The function bound to an activity, or the `@step` of that name."""
        for bindings in self._all(preferred):
            found = bindings.activities.get(name)
            if found is not None:
                return found
        try:
            step = default.find(name, "step")
        except DefinitionNotFoundError:
            return None
        except AmbiguousNameError as error:
            raise Stopped("TWF601", f"activity {name} has several steps to choose from: {error}") from error
        if not isinstance(step, Step) or step.id.startswith("twf//"):
            return None
        known: tuple[object, BoundActivity] | None = self._steps.get(step.id)
        if known is None or known[0] is not step:
            typed = cast("Step[..., Any]", step)
            known = self._steps[step.id] = (typed, BoundActivity(name, typed.fn, typed.given))
        return known[1]

    def function(self, name: str, preferred: Bindings | None) -> BoundFunction | None:
        """The host function of a name."""
        for bindings in self._all(preferred):
            found = bindings.functions.get(name)
            if found is not None:
                return found
        return None

    def describe(self) -> list[str]:
        """What a worker with this library can do, for telling workers apart."""
        lines: set[str] = set()
        for bindings in self.bindings:
            lines.update(f"twf activity {name}" for name in bindings.activities)
            lines.update(f"twf function {name} {found.pure}" for name, found in bindings.functions.items())
        lines.update(f"twf namespace {name}" for name in self.namespaces)
        return sorted(lines)


library = Library()
