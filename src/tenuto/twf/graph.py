"""A workflow as a picture: first as nested shapes, then as nodes and edges.

The id of a node is the location its entry has in a run's history, with `~*` for any pass of a loop and `!*` for any
message, so that a run can be drawn on the picture. What leaves no entry has an id made of its word and its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from .ast import (
    ActivityTarget,
    AllTarget,
    Assign,
    Await,
    AwaitAll,
    AwaitCase,
    AwaitOne,
    Break,
    Call,
    Close,
    Continue,
    ContinueAsNew,
    Error,
    ExprStatement,
    File,
    For,
    Handler,
    HandleTarget,
    Heartbeat,
    Ident,
    If,
    MessageTarget,
    Node,
    Return,
    Statement,
    Switch,
    SwitchCase,
    Target,
    TimerTarget,
    Workflow,
    WorkflowTarget,
)
from .source import Source
from .symbols import signature

__all__ = ["Arm", "Drawing", "Fork", "Loop", "Shape", "Step", "StepKind", "draw_workflow"]

StepKind = Literal[
    "activity",
    "workflow",
    "spawn",
    "detach",
    "timer",
    "signal",
    "update",
    "handle",
    "set",
    "close",
    "fail",
    "return",
    "renew",
    "break",
    "continue",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens."""

    id: str
    kind: StepKind
    label: str
    detail: str
    line: int
    full: str = ""  # the text in one piece, where label or detail had to be cut

    @property
    def leaves(self) -> bool:
        """Whether nothing follows it in its block."""
        return self.kind in ("close", "fail", "return", "renew", "break", "continue")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way through a fork; `step` is what an `await one` case waits for."""

    label: str
    step: Step | None
    body: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """`if` and `switch` take one arm by a value, `one` the first to finish, `all` every one of them."""

    id: str
    kind: Literal["if", "switch", "one", "all"]
    label: str
    arms: tuple[Arm, ...]
    line: int
    full: str = ""  # as of a step


@dataclass(frozen=True, slots=True)
class Loop:
    """`parallel` when its passes are branches of an `await all`."""

    id: str
    mode: Literal["ever", "while", "each"]
    label: str
    body: tuple[Shape, ...]
    line: int
    parallel: bool
    full: str = ""  # as of a step


Shape: TypeAlias = Step | Fork | Loop


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A workflow, or one of its handlers, as shapes."""

    id: str
    title: str
    kind: Literal["workflow", "signal", "query", "update"]
    path: str
    line: int
    body: tuple[Shape, ...]
    handlers: tuple[Drawing, ...]


def draw_workflow(file: File, workflow: Workflow) -> Drawing:
    handlers = tuple(_draw_handler(file, handler) for handler in workflow.handlers)
    body = _Builder(file.source).block(workflow.body, _Scope(""))
    line = file.source.position(workflow.start).line
    return Drawing("", signature(workflow), "workflow", file.path, line, body, handlers)


def _draw_handler(file: File, handler: Handler) -> Drawing:
    place = f"{handler.kind}:{handler.name.name}!*"
    body = _Builder(file.source).block(handler.body, _Scope(place))
    line = file.source.position(handler.start).line
    return Drawing(place, signature(handler), handler.kind, file.path, line, body, ())


_FULL: Final = 2_000  # characters: more than that is a paste, and no tooltip


class _Scope:
    """Gives locations: the n-th use of a name in one scope gets an ordinal."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._uses: dict[str, int] = {}

    def take(self, name: str) -> str:
        count = self._uses.get(name, 0) + 1
        self._uses[name] = count
        return self.below(name if count == 1 else f"{name}#{count}")

    def below(self, segment: str) -> str:
        return f"{self.path}/{segment}" if self.path else segment


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source = source

    def text(self, node: Node | None, limit: int = 46) -> str:
        if node is None:
            return ""
        return self.slice(node.start, node.end, limit)

    def slice(self, start: int, end: int, limit: int = 46) -> str:
        flat = " ".join(self.source.text[start:end].split())
        return flat if len(flat) <= limit else flat[: limit - 1] + "…"

    def line(self, node: Node) -> int:
        return self.source.position(node.start).line

    def placed(self, word: str, node: Node, scope: _Scope) -> str:
        line, column = self.source.position(node.start)
        return scope.below(f"{word}:{line}:{column}")

    # --- statements

    def block(self, body: tuple[Statement, ...], scope: _Scope) -> tuple[Shape, ...]:
        found: list[Shape] = []
        for statement in body:
            shape = self.whole(statement, scope)
            before = found[-1] if found else None
            if isinstance(shape, Step) and shape.kind == "set" and isinstance(before, Step) and before.kind == "set":
                full = f"{before.full or before.label}\n{shape.full or shape.label}"
                detail = _joined(before.detail, shape.label)
                found[-1] = Step(before.id, "set", before.label, detail, before.line, full)
            elif shape is not None:
                found.append(shape)
        return tuple(found)

    def whole(self, node: Statement, scope: _Scope) -> Shape | None:
        """A statement, with its text in one piece where what is shown of it was cut."""
        shape = self.statement(node, scope)
        if shape is None or not any("…" in text for text in (shape.label, getattr(shape, "detail", ""))):
            return shape
        shown: Node | None = node
        if isinstance(node, If | For | Switch):
            shown = node.subject if isinstance(node, Switch) else node.condition if isinstance(node, If) else node.expr
        return replace(shape, full=self.text(shown, _FULL))

    def statement(self, node: Statement, scope: _Scope) -> Shape | None:
        match node:
            case Call() | Await():
                return self.target(node.target, node.result, scope, node)
            case If() | Switch():
                return self.choice(node, scope)
            case For():
                return self.loop(node, scope, parallel=False)
            case AwaitAll():
                return self.together(node, node.body, scope)
            case AwaitOne():
                return self.first(node, scope)
            case Assign() | ExprStatement() | Heartbeat():
                return Step(self.placed("set", node, scope), "set", self.text(node), "", self.line(node))
            case Close() | Return() | ContinueAsNew() | Break() | Continue():
                return self.exit(node, scope)
            case Error():
                return None
            case _:
                assert_never(node)

    def exit(self, node: Close | Return | ContinueAsNew | Break | Continue, scope: _Scope) -> Step:
        match node:
            case Close():
                kind: StepKind = "fail" if node.reason == "failed" else "close"
                label = "fail" if kind == "fail" else "complete"
                return Step(self.placed("close", node, scope), kind, label, self.text(node.value), self.line(node))
            case Return():
                return Step(
                    self.placed("return", node, scope), "return", "return", self.text(node.value), self.line(node)
                )
            case ContinueAsNew():
                inside = self.slice(node.start + len("continue_as_new"), node.end)
                return Step(
                    self.placed("continue_as_new", node, scope), "renew", "continue as new", inside, self.line(node)
                )
            case Break():
                return Step(self.placed("break", node, scope), "break", "leave the loop", "", self.line(node))
            case Continue():
                return Step(self.placed("continue", node, scope), "continue", "next pass", "", self.line(node))
            case _:
                assert_never(node)

    # --- targets

    def target(self, target: Target, result: tuple[Ident, ...], scope: _Scope, node: Node) -> Step:
        line = self.line(node)
        bound = f"→ {', '.join(name.name for name in result)}" if result else ""
        match target:
            case ActivityTarget():
                detail = _joined_words(self.slice(target.name.end, target.end), bound)
                return Step(scope.take(target.name.name), "activity", target.name.name, detail, line)
            case WorkflowTarget():
                kind: StepKind = "workflow" if target.mode == "child" else target.mode
                label = (
                    target.name.name if target.namespace is None else f"{target.namespace.value} · {target.name.name}"
                )
                detail = _joined_words(self.slice(target.name.end, target.end), bound)
                return Step(scope.take(f"child:{target.name.name}"), kind, label, detail, line)
            case TimerTarget():
                return Step(scope.take("timer"), "timer", self.text(target.duration), "", line)
            case MessageTarget():
                kind = "update" if target.kind == "update" else "signal"
                return Step(self.placed(target.kind, target, scope), kind, target.name.name, bound, line)
            case HandleTarget():
                return Step(self.placed("await", target, scope), "handle", target.name.name, bound, line)
            case AllTarget():
                return Step(self.placed("all", target, scope), "set", "all", "", line)
            case _:
                assert_never(target)

    # --- branches

    def choice(self, node: If | Switch, scope: _Scope) -> Fork:
        if isinstance(node, If):
            arms = [Arm("yes", None, self.block(node.body, scope))]
            arms.append(Arm("no", None, self.block(node.orelse or (), scope)))
            return Fork(self.placed("if", node, scope), "if", self.text(node.condition), tuple(arms), self.line(node))
        arms = [
            Arm(self.text(case.value, 24), None, self.block(case.body, scope))
            for case in node.cases
            if isinstance(case, SwitchCase)
        ]
        arms.append(Arm("else", None, self.block(node.orelse or (), scope)))
        return Fork(self.placed("switch", node, scope), "switch", self.text(node.subject), tuple(arms), self.line(node))

    def loop(self, node: For, scope: _Scope, *, parallel: bool) -> Loop:
        if parallel:
            place, inner = scope.path, _Scope(scope.below("[*]"))
        else:
            place = scope.take("for")
            inner = _Scope(f"{place}/~*")
        name = node.variable.name if node.variable is not None else ""
        label = {
            "ever": "for ever",
            "while": f"while {self.text(node.expr)}",
            "each": f"for each {name} in {self.text(node.expr)}",
        }[node.mode]
        return Loop(place, node.mode, label, self.block(node.body, inner), self.line(node), parallel)

    def together(self, node: Node, body: tuple[Statement, ...], scope: _Scope) -> Fork:
        place = scope.take("all")
        arms: list[Arm] = []
        for number, statement in enumerate(body):
            inner = _Scope(f"{place}/{number}")
            if isinstance(statement, For) and statement.mode == "each":
                arms.append(Arm("", None, (self.loop(statement, inner, parallel=True),)))
            else:
                shape = self.whole(statement, inner)
                arms.append(Arm("", None, (shape,) if shape is not None else ()))
        return Fork(place, "all", "all of these", tuple(arms), self.line(node))

    def first(self, node: AwaitOne, scope: _Scope) -> Fork:
        place = scope.take("one")
        arms = [
            self.case(case, _Scope(f"{place}/{number}"))
            for number, case in enumerate(node.cases)
            if isinstance(case, AwaitCase)
        ]
        return Fork(place, "one", "the first of these", tuple(arms), self.line(node))

    def case(self, case: AwaitCase, scope: _Scope) -> Arm:
        if isinstance(case.target, AllTarget):
            return Arm("", None, (self.together(case, case.target.body, scope),))
        step = self.target(case.target, case.result, scope, case)
        if "…" in step.detail or "…" in step.label:
            step = replace(step, full=self.text(case.target, _FULL))
        return Arm("", step, self.block(case.body or (), _Scope(scope.below("case"))))


def _joined(above: str, below: str) -> str:
    return f"{above}\n{below}" if above else below


def _joined_words(args: str, bound: str) -> str:
    shown = "" if args == "()" else args
    return f"{shown} {bound}".strip()
