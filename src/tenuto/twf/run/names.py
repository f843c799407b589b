"""What a name means at a place of a definition: known before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..ast import For, Handler, Workflow
from ..resolver import Surveyed

__all__ = ["SHARED", "Names", "private_names"]

SHARED: Final = -1


@dataclass(frozen=True, slots=True)
class Names:
    """Looks names up for one piece of code: the definition's body, a handler, a pass of a fan-out."""

    one: Surveyed
    handler: Handler | None = None
    passes: tuple[frozenset[str], ...] = ()  # names private to the passes around, outermost first

    def slot(self, name: str) -> int | None:
        """Where the variable is: an index into the frame's locals, `SHARED`, or None when there is none."""
        first = 0 if self.handler is None else 1
        for index in range(len(self.passes) - 1, -1, -1):
            if name in self.passes[index]:
                return first + index
        scope = self.one.scope
        if self.handler is not None and scope.is_local(name, self.handler):
            return 0
        return SHARED if name in scope.shared else None

    def inside(self, private: frozenset[str]) -> Names:
        """The names in a pass of a fan-out."""
        return replace(self, passes=(*self.passes, private))

    @property
    def in_workflow(self) -> bool:
        return isinstance(self.one.definition, Workflow)


def private_names(one: Surveyed, loop: For, handler: Handler | None) -> tuple[frozenset[str], frozenset[str]]:
    """Of a fan-out: the names private to each pass, and those that hold the list of its values afterwards."""
    inside: set[str] = set()
    outside: set[str] = set(one.scope.params)
    bound: set[str] = set()
    if handler is not None:
        outside.update(param.name.name for param in handler.params)
    for write in one.survey.writes:
        if write.how == "change":
            continue
        if any(around is loop for around in write.loops):
            inside.add(write.name)
            if write.how in ("bind", "spawn"):
                bound.add(write.name)
        else:
            outside.add(write.name)
    private = (inside - outside) | bound
    if loop.variable is not None:
        private.add(loop.variable.name)
        bound.discard(loop.variable.name)
    return frozenset(private), frozenset(bound)
