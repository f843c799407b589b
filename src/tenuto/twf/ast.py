"""The tree of a TWF program.

Every node knows its `start` and `end` as offsets into the source; `Source.span` turns them into lines and columns.
Nodes compare by identity, so that they can be keys; `jsonform` gives the form to compare by content. Comments are
trivia: they stand beside the definitions, never in the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .source import Source

__all__ = [
    "Activity",
    "ActivityTarget",
    "AllTarget",
    "Argument",
    "Assign",
    "Await",
    "AwaitAll",
    "AwaitCase",
    "AwaitOne",
    "Binary",
    "Bool",
    "Break",
    "Call",
    "CallExpr",
    "Close",
    "Comment",
    "Construct",
    "Continue",
    "ContinueAsNew",
    "Definition",
    "Duration",
    "Error",
    "Expr",
    "ExprStatement",
    "Extension",
    "Field",
    "FieldAccess",
    "File",
    "For",
    "Group",
    "HandleTarget",
    "Handler",
    "HandlerKind",
    "Heartbeat",
    "Ident",
    "If",
    "Index",
    "ListExpr",
    "MapEntry",
    "MapExpr",
    "MessageTarget",
    "Name",
    "Node",
    "Null",
    "Number",
    "OptionEntry",
    "Options",
    "Param",
    "Return",
    "Statement",
    "String",
    "Switch",
    "SwitchCase",
    "Target",
    "TimerTarget",
    "TypeText",
    "Unary",
    "Workflow",
    "WorkflowMode",
    "WorkflowTarget",
]

HandlerKind = Literal["signal", "query", "update"]
WorkflowMode = Literal["child", "spawn", "detach"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    start: int
    end: int


# --- words


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class TypeText(Node):
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Comment(Node):
    """From `#` to the line's end; `own` when nothing else is on the line."""

    text: str
    own: bool


@dataclass(frozen=True, slots=True, eq=False)
class Extension(Node):
    """A use of something beyond the base grammar."""

    tag: str


# --- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    value: int | float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Duration(Node):
    seconds: int | float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class String(Node):
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Bool(Node):
    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Null(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    key: Ident | None
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class CallExpr(Node):
    callee: Expr
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    value: Expr
    index: Expr


@dataclass(frozen=True, slots=True, eq=False)
class FieldAccess(Node):
    value: Expr
    field: Ident


@dataclass(frozen=True, slots=True, eq=False)
class Field(Node):
    """One field of a constructor; the key is missing only after TWF147."""

    key: Ident | None
    value: Expr
    shorthand: bool


@dataclass(frozen=True, slots=True, eq=False)
class Construct(Node):
    name: Ident
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry(Node):
    key: Ident
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class MapExpr(Node):
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Group(Node):
    value: Expr


Expr: TypeAlias = (
    Name
    | Number
    | Duration
    | String
    | Bool
    | Null
    | Binary
    | Unary
    | CallExpr
    | Index
    | FieldAccess
    | Construct
    | MapExpr
    | ListExpr
    | Group
)


# --- what calls, awaits and cases aim at


@dataclass(frozen=True, slots=True, eq=False)
class ActivityTarget(Node):
    name: Ident
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WorkflowTarget(Node):
    name: Ident
    args: tuple[Argument, ...]
    mode: WorkflowMode
    namespace: String | None


@dataclass(frozen=True, slots=True, eq=False)
class TimerTarget(Node):
    """The duration is missing only after TWF111."""

    duration: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class MessageTarget(Node):
    """A signal or an update; a query only after TWF209."""

    kind: HandlerKind
    name: Ident


@dataclass(frozen=True, slots=True, eq=False)
class HandleTarget(Node):
    name: Ident


@dataclass(frozen=True, slots=True, eq=False)
class AllTarget(Node):
    body: tuple[Statement, ...]


Target: TypeAlias = ActivityTarget | WorkflowTarget | TimerTarget | MessageTarget | HandleTarget | AllTarget


# --- statements


@dataclass(frozen=True, slots=True, eq=False)
class OptionEntry(Node):
    key: Ident
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Options(Node):
    entries: tuple[OptionEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    target: ActivityTarget | WorkflowTarget
    result: tuple[Ident, ...]
    options: Options | None
    form: Literal["arrow", "assign"]


@dataclass(frozen=True, slots=True, eq=False)
class Await(Node):
    target: Target
    result: tuple[Ident, ...]
    options: Options | None


@dataclass(frozen=True, slots=True, eq=False)
class AwaitAll(Node):
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AwaitCase(Node):
    target: Target
    result: tuple[Ident, ...]
    options: Options | None
    body: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class AwaitOne(Node):
    cases: tuple[AwaitCase | Error, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    condition: Expr
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    mode: Literal["ever", "while", "each"]
    variable: Ident | None
    expr: Expr | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCase(Node):
    value: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Node):
    subject: Expr
    cases: tuple[SwitchCase | Error, ...]
    orelse: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Close(Node):
    reason: Literal["completed", "failed"]
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class ContinueAsNew(Node):
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat(Node):
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    place: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class ExprStatement(Node):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Error(Node):
    """A line that could not be read, and the block below it, which could."""

    text: str
    body: tuple[Statement, ...]


Statement: TypeAlias = (
    Call
    | Await
    | AwaitAll
    | AwaitOne
    | If
    | For
    | Switch
    | Close
    | Return
    | ContinueAsNew
    | Heartbeat
    | Assign
    | ExprStatement
    | Break
    | Continue
    | Error
)


# --- definitions


@dataclass(frozen=True, slots=True, eq=False)
class Param(Node):
    """The type is missing only after TWF127."""

    name: Ident
    type: TypeText | None


@dataclass(frozen=True, slots=True, eq=False)
class Handler(Node):
    kind: HandlerKind
    name: Ident
    params: tuple[Param, ...]
    returns: tuple[TypeText, ...] | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Workflow(Node):
    name: Ident
    params: tuple[Param, ...]
    returns: tuple[TypeText, ...] | None
    options: Options | None
    handlers: tuple[Handler, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Activity(Node):
    name: Ident
    params: tuple[Param, ...]
    returns: tuple[TypeText, ...] | None
    options: Options | None
    body: tuple[Statement, ...]


Definition: TypeAlias = Workflow | Activity


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """One parsed file: its definitions, and beside them its comments and the extensions it uses."""

    source: Source
    definitions: tuple[Definition, ...]
    comments: tuple[Comment, ...]
    extensions: tuple[Extension, ...]

    @property
    def path(self) -> str:
        return self.source.path
