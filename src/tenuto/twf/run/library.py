"""What a registry has of TWF: programs by hash, bindings, namespaces. Runs ask here; deploying changes it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from tenuto.errors import AmbiguousNameError, DefinitionNotFoundError
from tenuto.model.definitions import Step
from tenuto.model.registry import Registry, current

from ..provider import TwfProvider
from .bindings import Bindings, BoundActivity, BoundFunction
from .faults import Stopped

if TYPE_CHECKING:
    from .compiled import CompiledProgram, CompiledWorkflow

__all__ = ["Library", "library"]


class Library:
    """The programs and bindings of one registry, and of its parent's library above it."""

    def __init__(self, registry: Registry, above: Library | None) -> None:
        self._registry = registry
        self._above = above
        self.programs: dict[str, CompiledProgram] = {}
        self.bindings: list[Bindings] = []  # in the order they were given
        self.namespaces: dict[str, Any] = {}  # of other stores, for `nexus`: a client of each
        self.elsewhere: dict[str, str] = {}  # workflows that other workers of the store have: short name to id
        self.fetch: Callable[[str], Awaitable[str | None]] | None = None  # a program's text, by hash, from the store
        self._steps: dict[str, tuple[object, BoundActivity]] = {}
        self._read: dict[str, CompiledProgram] = {}  # by the text that a store keeps

    @property
    def has_programs(self) -> bool:
        return bool(self.programs) or (self._above is not None and self._above.has_programs)

    def program(self, digest: str) -> CompiledProgram | None:
        """The program with a hash."""
        found = self.programs.get(digest)
        return found if found is not None or self._above is None else self._above.program(digest)

    def compiled(self, texts: Sequence[tuple[str, str]], bindings: Bindings | None) -> CompiledProgram:
        """The program that these texts are, the one that is there already if it is."""
        from .compiled import compile_program  # whoever asks for a program needs the interpreter

        program = compile_program(texts, None if bindings is None else bindings.bound())
        return self.programs.setdefault(program.hash, program)

    def read(self, source: str) -> CompiledProgram:
        """The program that a store kept as this text."""
        known = self._read.get(source)
        if known is None:
            stored: dict[str, Any] = json.loads(source)
            known = self.compiled([(path, text) for path, text in stored["files"]], None)
            self._read[source] = known
        return self.programs.setdefault(known.hash, known)

    def registered(self) -> Iterator[CompiledProgram]:
        """The program of each workflow that is registered."""
        for found in self._registry.definitions("workflow"):
            compiled: CompiledWorkflow | None = getattr(found, "compiled", None)
            if compiled is not None:
                yield compiled.program

    def add(self, bindings: Bindings) -> None:
        """From now on runs look here, too; the last added goes first."""
        if bindings in self.bindings:
            self.bindings.remove(bindings)
        self.bindings.append(bindings)

    def leave(self, namespaces: Iterable[str]) -> None:
        for name in namespaces:
            self.namespaces.pop(name, None)

    def _all(self, preferred: Bindings | None) -> Iterator[Bindings]:
        if preferred is not None:
            yield preferred
        for bindings in reversed(self.bindings):
            if bindings is not preferred:
                yield bindings
        if self._above is not None:
            yield from self._above._all(None)

    def activity(self, name: str, preferred: Bindings | None) -> BoundActivity | None:
        """The function bound to an activity, or the `@step` of that name."""
        for bindings in self._all(preferred):
            found = bindings.activities.get(name)
            if found is not None:
                return found
        try:
            step = self._registry.find(name, "step")
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
        for bindings in self._all(None):
            lines.update(f"twf activity {name}" for name in bindings.activities)
            lines.update(f"twf function {name} {found.pure}" for name, found in bindings.functions.items())
        lines.update(f"twf namespace {name}" for name in self.namespaces)
        return sorted(lines)


def library() -> Library:
    """What the app has of TWF whose code asks."""
    return current().provided(TwfProvider).library
