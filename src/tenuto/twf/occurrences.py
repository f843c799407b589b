"""Every place where a name of the program stands, and what it stands for.

Definition, references, rename and highlighting in editors are all answered from this one list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .ast import (
    Activity,
    ActivityTarget,
    Argument,
    Definition,
    File,
    Handler,
    HandleTarget,
    Ident,
    MessageTarget,
    Workflow,
    WorkflowTarget,
)
from .program import Program
from .resolver import Surveyed

__all__ = ["Meaning", "Occurrence", "Occurrences", "SymbolKind", "occurrences"]

SymbolKind = Literal["workflow", "activity", "signal", "query", "update", "variable", "parameter", "function"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name stands for. `owner` is the definition or handler it belongs to, None for definitions themselves."""

    kind: SymbolKind
    owner: Definition | Handler | None
    name: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    path: str
    start: int
    end: int
    meaning: Meaning
    role: Literal["definition", "write", "read"]
    shorthand: bool = False  # stands for the field of that name, too


class Occurrences:
    """The occurrences of a program, by file and by meaning."""

    def __init__(self, found: Iterator[Occurrence]) -> None:
        self.by_path: dict[str, list[Occurrence]] = {}
        self.by_meaning: dict[Meaning, list[Occurrence]] = {}
        seen: set[tuple[str, int]] = set()
        for one in sorted(found, key=lambda one: (one.path, one.start, one.role != "definition")):
            if (one.path, one.start) not in seen:
                seen.add((one.path, one.start))
                self.by_path.setdefault(one.path, []).append(one)
                self.by_meaning.setdefault(one.meaning, []).append(one)

    def at(self, path: str, offset: int) -> Occurrence | None:
        """The occurrence at a place; directly behind a name counts, as the cursor stands there after typing it."""
        for one in self.by_path.get(path, []):
            if one.start <= offset <= one.end:
                return one
        return None

    def of(self, meaning: Meaning) -> list[Occurrence]:
        return self.by_meaning.get(meaning, [])

    def definition_of(self, meaning: Meaning) -> Occurrence | None:
        """Where a name is introduced: its definition, else its first assignment."""
        found = self.of(meaning)
        for role in ("definition", "write"):
            for one in found:
                if one.role == role:
                    return one
        return None


def occurrences(program: Program) -> Occurrences:
    return Occurrences(one for surveyed in program.resolution.surveyed for one in _in_definition(program, surveyed))


def _in_definition(program: Program, one: Surveyed) -> Iterator[Occurrence]:
    yield from _declarations(one.file, one.definition)
    yield from _targets(program, one)
    path, scope = one.file.path, one.scope

    def variable(name: str, handler: Handler | None) -> Meaning:
        owner = handler if handler is not None and scope.is_local(name, handler) else one.definition
        params = owner.params
        is_param = any(param.name.name == name for param in params)
        return Meaning("parameter" if is_param else "variable", owner, name)

    for write in one.survey.writes:
        if write.how != "change":
            yield Occurrence(path, write.start, write.end, variable(write.name, write.handler), "write")
    for read in one.survey.reads:
        if scope.has(read.name, read.handler):
            meaning = variable(read.name, read.handler)
            yield Occurrence(path, read.start, read.end, meaning, "read", read.start in one.survey.shorthands)
    for callee in one.survey.callees:
        read = callee.read
        if "." in callee.name and scope.has(read.name, read.handler):
            yield Occurrence(path, read.start, read.end, variable(read.name, read.handler), "read")
        else:
            yield Occurrence(path, callee.start, callee.end, Meaning("function", None, callee.name), "read")


def _declarations(file: File, definition: Definition) -> Iterator[Occurrence]:
    kind: SymbolKind = "workflow" if isinstance(definition, Workflow) else "activity"
    yield _declared(file, definition.name, Meaning(kind, None, definition.name.name))
    for param in definition.params:
        yield _declared(file, param.name, Meaning("parameter", definition, param.name.name))
    if isinstance(definition, Workflow):
        for handler in definition.handlers:
            yield _declared(file, handler.name, Meaning(handler.kind, definition, handler.name.name))
            for param in handler.params:
                yield _declared(file, param.name, Meaning("parameter", handler, param.name.name))


def _declared(file: File, ident: Ident, meaning: Meaning) -> Occurrence:
    return Occurrence(file.path, ident.start, ident.end, meaning, "definition")


def _targets(program: Program, one: Surveyed) -> Iterator[Occurrence]:
    path = one.file.path
    for renewal in one.survey.renewals:
        yield from _named_arguments(path, renewal.args, one.definition)
    for use in one.survey.uses:
        target = use.target
        if isinstance(target, (ActivityTarget, WorkflowTarget)):
            place = program.resolution.targets.get(target)
            if place is not None:
                if isinstance(place.node, (Workflow, Activity)):
                    yield from _named_arguments(path, target.args, place.node)
                kind: SymbolKind = "activity" if isinstance(target, ActivityTarget) else "workflow"
                meaning = Meaning(kind, None, target.name.name)
                yield Occurrence(path, target.name.start, target.name.end, meaning, "read")
        elif isinstance(target, MessageTarget):
            meaning = Meaning(target.kind, one.definition, target.name.name)
            yield Occurrence(path, target.name.start, target.name.end, meaning, "read")
        elif isinstance(target, HandleTarget) and one.scope.has(target.name.name, use.handler):
            local = use.handler is not None and one.scope.is_local(target.name.name, use.handler)
            meaning = Meaning("variable", use.handler if local else one.definition, target.name.name)
            yield Occurrence(path, target.name.start, target.name.end, meaning, "read")


def _named_arguments(path: str, args: tuple[Argument, ...], callee: Definition) -> Iterator[Occurrence]:
    """`to: x` in a call means the parameter `to` of what is called."""
    params = {param.name.name for param in callee.params}
    for arg in args:
        if arg.key is not None and arg.key.name in params:
            meaning = Meaning("parameter", callee, arg.key.name)
            yield Occurrence(path, arg.key.start, arg.key.end, meaning, "read")
