"""One walk over a definition that collects what the resolver and the checks ask about: targets, reads, writes, calls.

Order is the order of evaluation: an assignment reads its value before it writes its name.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, assert_never

from .ast import (
    ActivityTarget,
    AllTarget,
    Argument,
    Assign,
    Await,
    AwaitAll,
    AwaitCase,
    AwaitOne,
    Binary,
    Bool,
    Break,
    Call,
    CallExpr,
    Close,
    Construct,
    Continue,
    ContinueAsNew,
    Definition,
    Duration,
    Error,
    Expr,
    ExprStatement,
    FieldAccess,
    For,
    Group,
    Handler,
    HandleTarget,
    Heartbeat,
    Ident,
    If,
    Index,
    ListExpr,
    MapExpr,
    MessageTarget,
    Name,
    Null,
    Number,
    Options,
    Return,
    Statement,
    String,
    Switch,
    SwitchCase,
    Target,
    TimerTarget,
    Unary,
    Workflow,
    WorkflowTarget,
)

__all__ = ["Callee", "OptionsUse", "Read", "Survey", "Use", "Write", "dotted_name", "survey"]

_INTERPOLATION: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:\.[A-Za-z_][A-Za-z0-9_]*)*\}")
_ENUM_OPTIONS: Final = frozenset(("parentclosepolicy", "workflowidreusepolicy"))


class Read(NamedTuple):
    start: int
    end: int
    name: str
    handler: Handler | None
    loops: tuple[For, ...]
    order: int


class Write(NamedTuple):
    """`change` is an assignment to a field or item of the name, not to the name."""

    start: int
    end: int
    name: str
    handler: Handler | None
    loops: tuple[For, ...]
    order: int
    how: Literal["assign", "bind", "spawn", "loop", "change"]


class Use(NamedTuple):
    """A target where it stands."""

    target: Target
    result: tuple[Ident, ...]
    handler: Handler | None
    where: Literal["call", "await", "case"]


class Callee(NamedTuple):
    """A call `f(…)` or `a.b(…)`; `read` is the name before the dots, a variable or not."""

    start: int
    end: int
    name: str
    read: Read
    call: CallExpr


class OptionsUse(NamedTuple):
    options: Options
    on: Literal["activity", "workflow"]
    definition: bool


class Survey:
    """What one definition mentions, in order."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.uses: list[Use] = []
        self.reads: list[Read] = []
        self.writes: list[Write] = []
        self.callees: list[Callee] = []
        self.options: list[OptionsUse] = []
        self.renewals: list[ContinueAsNew] = []
        self.shorthands: set[int] = set()  # where a constructor says `x` for `x: x`


def survey(definition: Definition) -> Survey:
    found = Survey(definition)
    walker = _Walker(found)
    if definition.options is not None:
        on: Literal["activity", "workflow"] = "workflow" if isinstance(definition, Workflow) else "activity"
        walker.options(definition.options, on, definition=True)
    if isinstance(definition, Workflow):
        for handler in definition.handlers:
            walker.handler = handler
            walker.block(handler.body)
        walker.handler = None
    walker.block(definition.body)
    return found


def dotted_name(callee: Expr) -> tuple[str, Name] | None:
    """`a.b.c` as text, with its first name; None for anything else."""
    if isinstance(callee, Name):
        return callee.name, callee
    parts: list[str] = []
    root: Expr = callee
    while isinstance(root, FieldAccess):
        parts.append(root.field.name)
        root = root.value
    if not isinstance(root, Name):
        return None
    parts.append(root.name)
    return ".".join(reversed(parts)), root


class _Walker:
    def __init__(self, found: Survey) -> None:
        self.found = found
        self.handler: Handler | None = None
        self.loops: tuple[For, ...] = ()
        self.order = 0

    # --- names

    def read(self, start: int, end: int, name: str) -> None:
        self.order += 1
        self.found.reads.append(Read(start, end, name, self.handler, self.loops, self.order))

    def write(self, node: Ident | Name, how: Literal["assign", "bind", "spawn", "loop", "change"]) -> None:
        self.order += 1
        self.found.writes.append(Write(node.start, node.end, node.name, self.handler, self.loops, self.order, how))

    # --- statements

    def block(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: Statement) -> None:
        match node:
            case Assign():
                self._assign(node)
            case Call():
                self._target(node.target, node.result, node.options, "call")
            case Await():
                self._target(node.target, node.result, node.options, "await")
            case Close() | Return():
                if node.value is not None:
                    self.expr(node.value)
            case ExprStatement():
                self.expr(node.value)
            case ContinueAsNew() | Heartbeat():
                if isinstance(node, ContinueAsNew):
                    self.found.renewals.append(node)
                self._args(node.args)
            case Break() | Continue():
                pass
            case _:
                self._compound(node)

    def _compound(self, node: If | For | Switch | AwaitAll | AwaitOne | Error) -> None:
        match node:
            case If():
                self.expr(node.condition)
                self.block(node.body)
                self.block(node.orelse or ())
            case For():
                self._for(node)
            case Switch():
                self.expr(node.subject)
                for case in node.cases:
                    if isinstance(case, SwitchCase):
                        self.expr(case.value)
                    self.block(case.body)
                self.block(node.orelse or ())
            case AwaitAll() | Error():
                self.block(node.body)
            case AwaitOne():
                for awaited in node.cases:
                    self._await_case(awaited)
            case _:
                assert_never(node)

    def _await_case(self, case: AwaitCase | Error) -> None:
        if isinstance(case, AwaitCase):
            self._target(case.target, case.result, case.options, "case")
        self.block(case.body or ())

    def _for(self, node: For) -> None:
        outer = self.loops
        self.loops = (*outer, node)
        if node.expr is not None:
            self.expr(node.expr)
        if node.variable is not None:
            self.write(node.variable, "loop")
        self.block(node.body)
        self.loops = outer

    def _assign(self, node: Assign) -> None:
        place = node.place
        if isinstance(place, Name):
            if node.op != "=":
                self.read(place.start, place.end, place.name)
            self.expr(node.value)
            self.write(place, "assign")
            return
        self.expr(node.value)
        self.expr(place)
        root: Expr = place
        while isinstance(root, (FieldAccess, Index)):
            root = root.value
        if isinstance(root, Name):
            self.write(root, "change")

    def _target(
        self,
        target: Target,
        result: tuple[Ident, ...],
        options: Options | None,
        where: Literal["call", "await", "case"],
    ) -> None:
        self.found.uses.append(Use(target, result, self.handler, where))
        how: Literal["bind", "spawn"] = "bind"
        match target:
            case ActivityTarget():
                self._args(target.args)
                if options is not None:
                    self.options(options, "activity")
            case WorkflowTarget():
                self._args(target.args)
                if options is not None:
                    self.options(options, "workflow")
                if target.mode == "spawn" and where == "call":
                    how = "spawn"
            case TimerTarget():
                if target.duration is not None:
                    self.expr(target.duration)
            case AllTarget():
                self.block(target.body)
            case MessageTarget() | HandleTarget():
                pass
            case _:
                assert_never(target)
        for name in result:
            self.write(name, how)

    def options(self, node: Options, on: Literal["activity", "workflow"], *, definition: bool = False) -> None:
        self.found.options.append(OptionsUse(node, on, definition))
        for entry in node.entries:
            value = entry.value
            is_enum = entry.key.name.replace("_", "").lower() in _ENUM_OPTIONS
            if is_enum and isinstance(value, Name) and value.name.isupper():
                continue
            self.expr(value)
            self._interpolated(value)

    def _interpolated(self, value: Expr) -> None:
        """Names in the strings of an option: `"queue-{tenant}"`."""
        if isinstance(value, String):
            for match in _INTERPOLATION.finditer(value.value):
                start = value.start + 1 + match.start(1)
                self.read(start, start + len(match[1]), match[1])
        elif isinstance(value, MapExpr):
            for entry in value.entries:
                self._interpolated(entry.value)
        elif isinstance(value, Construct):
            for field in value.fields:
                self._interpolated(field.value)
        elif isinstance(value, ListExpr):
            for item in value.items:
                self._interpolated(item)

    # --- expressions

    def _args(self, args: tuple[Argument, ...]) -> None:
        for arg in args:
            self.expr(arg.value)

    def expr(self, node: Expr) -> None:
        match node:
            case Name():
                self.read(node.start, node.end, node.name)
            case Number() | String() | Duration() | Bool() | Null():
                pass
            case Binary():
                self.expr(node.left)
                self.expr(node.right)
            case FieldAccess() | Group():
                self.expr(node.value)
            case CallExpr():
                self._call(node)
            case Construct():
                for field in node.fields:
                    if field.shorthand and isinstance(field.value, Name):
                        self.found.shorthands.add(field.start)
                    self.expr(field.value)
            case Unary():
                self.expr(node.operand)
            case Index():
                self.expr(node.value)
                self.expr(node.index)
            case MapExpr():
                for entry in node.entries:
                    self.expr(entry.value)
            case ListExpr():
                for item in node.items:
                    self.expr(item)
            case _:
                assert_never(node)

    def _call(self, node: CallExpr) -> None:
        named = dotted_name(node.callee)
        if named is None:
            self.expr(node.callee)
        else:
            name, root = named
            self.order += 1
            read = Read(root.start, root.end, root.name, self.handler, self.loops, self.order)
            self.found.callees.append(Callee(node.callee.start, node.callee.end, name, read, node))
        self._args(node.args)
