"""Which name means what, over all files of a program at once (3xx)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from .ast import (
    ActivityTarget,
    AllTarget,
    Definition,
    File,
    Handler,
    HandleTarget,
    Ident,
    MessageTarget,
    Target,
    TimerTarget,
    Workflow,
    WorkflowTarget,
)
from .diagnostics import Diagnostic, Related, diagnose, nearest
from .scopes import Scope
from .source import Source
from .survey import Survey, Use, survey

__all__ = ["Place", "Resolution", "Surveyed", "resolve"]

_NONE: Final[frozenset[str]] = frozenset()
_COMPARISONS: Final = 100_000  # with similar names; beyond it undefined names get no suggestion


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A name that others may mean, in its file."""

    file: File
    ident: Ident
    node: Definition | Handler | None  # None for a variable

    @property
    def source(self) -> Source:
        return self.file.source


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """A definition with what it mentions and its variables."""

    file: File
    definition: Definition
    survey: Survey
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    workflows: Mapping[str, Place]
    activities: Mapping[str, Place]
    surveyed: Sequence[Surveyed]
    targets: Mapping[Target, Place]
    diagnostics: Sequence[Diagnostic]


def resolve(files: Iterable[File], also_workflows: frozenset[str] = _NONE) -> Resolution:
    """Link every target; `also_workflows` are names that exist outside the program."""
    return _Resolver(list(files), also_workflows).run()


class _Resolver:
    def __init__(self, files: list[File], also_workflows: frozenset[str]) -> None:
        self.files = files
        self.also_workflows = also_workflows
        self.workflows: dict[str, Place] = {}
        self.activities: dict[str, Place] = {}
        self.targets: dict[Target, Place] = {}
        self.diagnostics: list[Diagnostic] = []
        self.handlers: dict[tuple[str, str], Handler] = {}  # of the definition being resolved, by kind and name
        self.handler_names: dict[str, list[str]] = {}
        self.handles: dict[str, Ident] = {}
        self.comparisons_left = _COMPARISONS

    def run(self) -> Resolution:
        for file in self.files:
            for definition in file.definitions:
                self._declare(file, definition)
        surveyed: list[Surveyed] = []
        for file in self.files:
            for definition in file.definitions:
                found = survey(definition)
                one = Surveyed(file, definition, found, Scope(found))
                surveyed.append(one)
                self._resolve(one)
        return Resolution(self.workflows, self.activities, surveyed, self.targets, self.diagnostics)

    # --- declarations

    def _declare(self, file: File, definition: Definition) -> None:
        if isinstance(definition, Workflow):
            table, code, what = self.workflows, "TWF310", "workflow"
        else:
            table, code, what = self.activities, "TWF311", "activity"
        name = definition.name.name
        first = table.get(name)
        if first is None:
            table[name] = Place(file, definition.name, definition)
        else:
            assert first.node is not None  # noqa: S101  # definitions have nodes
            self._duplicate(file.source, definition.start, code, what, definition.name, first.file, first.node.start)
        self._repeated(file.source, (param.name for param in definition.params), "parameter")
        if isinstance(definition, Workflow):
            self._declare_handlers(file, definition)

    def _declare_handlers(self, file: File, workflow: Workflow) -> None:
        seen: dict[tuple[str, str], Handler] = {}
        for handler in workflow.handlers:
            key = (handler.kind, handler.name.name)
            first = seen.setdefault(key, handler)
            if first is not handler:
                self._duplicate(file.source, handler.start, "TWF312", handler.kind, handler.name, file, first.start)
            self._repeated(file.source, (param.name for param in handler.params), "parameter")

    def _duplicate(
        self, source: Source, start: int, code: str, what: str, name: Ident, first: File, first_start: int
    ) -> None:
        place = first.source.span(first_start, first_start + len(what))
        related = Related(first.path, place, f"first {what} {name.name}")
        where = f"{first.path}:{place.line}:{place.column}"
        self.diagnostics.append(
            diagnose(
                source, start, name.end, code, f"duplicate {what} {name.name}, first at {where}", related=(related,)
            )
        )

    def _repeated(self, source: Source, names: Iterable[Ident], what: str) -> None:
        seen: set[str] = set()
        for ident in names:
            if ident.name in seen:
                self._report(source, ident, "TWF313", f"{what} name {ident.name} is used twice")
            seen.add(ident.name)

    def _report(self, source: Source, ident: Ident, code: str, message: str, hint: str | None = None) -> None:
        self.diagnostics.append(diagnose(source, ident.start, ident.end, code, message, hint))

    # --- uses

    def _resolve(self, one: Surveyed) -> None:
        self.handlers = {}
        self.handler_names = {}
        if isinstance(one.definition, Workflow):
            for handler in one.definition.handlers:
                self.handlers.setdefault((handler.kind, handler.name.name), handler)
                self.handler_names.setdefault(handler.kind, []).append(handler.name.name)
        self.handles = {}
        for write in one.survey.writes:
            if write.how == "spawn" or write.how == "loop":
                self.handles.setdefault(write.name, Ident(write.start, write.end, write.name))
        for use in one.survey.uses:
            if len(use.result) > 1:
                self._repeated(one.file.source, use.result, "result")
            self._target(one, use)

    def _target(self, one: Surveyed, use: Use) -> None:
        target = use.target
        match target:
            case ActivityTarget():
                self._activity(one, target)
            case WorkflowTarget():
                self._workflow(one, target)
            case MessageTarget():
                if isinstance(one.definition, Workflow) and target.kind != "query":
                    self._message(one, target, use.result)
            case HandleTarget():
                if isinstance(one.definition, Workflow):
                    self._handle(one, target)
            case TimerTarget() | AllTarget():
                pass
            case _:
                assert_never(target)

    def _activity(self, one: Surveyed, target: ActivityTarget) -> None:
        place = self.activities.get(target.name.name)
        if place is not None:
            self.targets[target] = place
            return
        other = target.name.name in self.workflows
        hint = self._hint(target.name.name, self.activities, "a workflow" if other else None)
        self._report(one.file.source, target.name, "TWF301", f"undefined activity {target.name.name}", hint)

    def _workflow(self, one: Surveyed, target: WorkflowTarget) -> None:
        name = target.name.name
        place = self.workflows.get(name)
        if place is not None:
            self.targets[target] = place
        elif target.namespace is None and name not in self.also_workflows:
            other = name in self.activities
            hint = self._hint(name, self.workflows, "an activity" if other else None)
            self._report(one.file.source, target.name, "TWF302", f"undefined workflow {name}", hint)

    def _hint(self, name: str, known: Collection[str], other: str | None) -> str | None:
        if other is not None:
            return f"{name} is {other}"
        self.comparisons_left -= len(known)
        if self.comparisons_left < 0:
            return None
        similar = nearest(name, known)
        return f'did you mean "{similar}"?' if similar else None

    def _message(self, one: Surveyed, target: MessageTarget, result: tuple[Ident, ...]) -> None:
        source, name, kind = one.file.source, target.name.name, target.kind
        handler = self.handlers.get((kind, name))
        if handler is not None:
            self.targets[target] = Place(one.file, handler.name, handler)
            if len(result) > len(handler.params):
                self._surplus(source, handler, result)
            return
        others = [found for found in ("signal", "query", "update") if (found, name) in self.handlers]
        other = f"a{'n' if others[0] == 'update' else ''} {others[0]}" if others else None
        known = self.handler_names.get(kind, [])
        code = "TWF303" if kind == "signal" else "TWF304"
        self._report(source, target.name, code, f"undefined {kind} {name}", self._hint(name, known, other))

    def _surplus(self, source: Source, handler: Handler, result: tuple[Ident, ...]) -> None:
        count = len(handler.params)
        message = (
            f"{handler.kind} {handler.name.name} has {count} parameter{'' if count == 1 else 's'}, "
            f"{len(result)} names are bound"
        )
        self._report(source, result[count], "TWF320", message)

    def _handle(self, one: Surveyed, target: HandleTarget) -> None:
        name = target.name.name
        handle = self.handles.get(name)
        if handle is not None:
            self.targets[target] = Place(one.file, handle, None)
            return
        hint = self._hint(name, self.handles, None) or f"bind it with spawn workflow … -> {name}"
        self._report(one.file.source, target.name, "TWF305", f"{name} is not the handle of a spawned workflow", hint)
