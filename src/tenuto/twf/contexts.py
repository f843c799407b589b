"""What is allowed where (2xx): one walk over the statements of a definition."""

from __future__ import annotations

from typing import Literal, assert_never

from .ast import (
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
    Expr,
    ExprStatement,
    FieldAccess,
    For,
    Handler,
    Heartbeat,
    If,
    Index,
    MessageTarget,
    Name,
    Return,
    Statement,
    Switch,
    Target,
    Workflow,
)
from .diagnostics import Diagnostic, diagnose
from .resolver import Surveyed
from .scopes import Scope
from .source import Source

__all__ = ["check_contexts"]

_Where = Literal["workflow", "message", "query", "activity"]
_Loop = Literal["none", "loop", "branch"]


def check_contexts(one: Surveyed) -> list[Diagnostic]:
    definition = one.definition
    if not isinstance(definition, Workflow):
        walker = _Contexts(one.file.source, one.scope, "activity", None)
        walker.block(definition.body, "none")
        return walker.found
    walker = _Contexts(one.file.source, one.scope, "workflow", None)
    walker.block(definition.body, "none")
    found = walker.found
    for handler in definition.handlers:
        where: _Where = "query" if handler.kind == "query" else "message"
        walker = _Contexts(one.file.source, one.scope, where, handler)
        walker.block(handler.body, "none")
        found.extend(walker.found)
    return found


class _Contexts:
    def __init__(self, source: Source, scope: Scope, where: _Where, handler: Handler | None) -> None:
        self.source = source
        self.scope = scope
        self.where: _Where = where
        self.handler = handler
        self.found: list[Diagnostic] = []

    def report(self, start: int, end: int, code: str, message: str, hint: str | None = None) -> None:
        self.found.append(diagnose(self.source, start, end, code, message, hint))

    def head(self, node: Statement, code: str, message: str, hint: str | None = None) -> None:
        """At the first keyword of a statement."""
        start = node.target.start if isinstance(node, Call) else node.start
        end = start
        while self.source.text[end : end + 1].isidentifier():
            end += 1
        self.report(start, max(end, start + 1), code, message, hint)

    def block(self, body: tuple[Statement, ...], loop: _Loop) -> None:
        for statement in body:
            self.statement(statement, loop)

    def branches(self, body: tuple[Statement, ...], loop: _Loop) -> None:
        """The direct statements of an `await all`."""
        inside: _Loop = "none" if loop == "none" else "branch"
        for statement in body:
            if isinstance(statement, For) and statement.mode == "each":
                self.block(statement.body, "branch")
            else:
                self.statement(statement, inside)

    def statement(self, node: Statement, loop: _Loop) -> None:
        match node:
            case Call() | Await() | AwaitAll() | AwaitOne():
                self.durable(node, loop)
            case Assign():
                if self.where == "query":
                    self.query_assignment(node)
            case Close() | ContinueAsNew():
                self.exit(node)
            case If():
                self.block(node.body, loop)
                self.block(node.orelse or (), loop)
            case For():
                self.block(node.body, "loop")
            case Switch():
                for case in node.cases:
                    self.block(case.body, loop)
                self.block(node.orelse or (), loop)
            case Break() | Continue():
                self.jump(node, loop)
            case Heartbeat():
                if self.where != "activity":
                    self.head(node, "TWF205", "heartbeat belongs in an activity")
            case Error():
                self.block(node.body, loop)
            case Return() | ExprStatement():
                pass
            case _:
                assert_never(node)

    def durable(self, node: Call | Await | AwaitAll | AwaitOne, loop: _Loop) -> None:
        what = "await" if not isinstance(node, Call) else "a call"
        self.refuse_here(node, what)
        if isinstance(node, Await):
            self.awaited(node.target)
        elif isinstance(node, AwaitAll):
            self.branches(node.body, loop)
        elif isinstance(node, AwaitOne):
            for case in node.cases:
                self.case(case, loop)

    def case(self, case: AwaitCase | Error, loop: _Loop) -> None:
        if isinstance(case, AwaitCase):
            self.awaited(case.target)
            if isinstance(case.target, AllTarget):
                self.branches(case.target.body, loop)
        self.block(case.body or (), loop)

    def awaited(self, target: Target) -> None:
        if isinstance(target, MessageTarget) and target.kind == "query":
            hint = "await a signal or an update"
            self.report(target.start, target.start + len("query"), "TWF209", "a query cannot be awaited", hint)

    def refuse_here(self, node: Statement, what: str) -> bool:
        if self.where == "activity":
            self.head(node, "TWF201", f"{what} is not allowed in an activity", "call it from the workflow")
        elif self.where == "query":
            self.head(node, "TWF202", f"{what} is not allowed in a query", "call it from the workflow")
        else:
            return False
        return True

    def exit(self, node: Close | ContinueAsNew) -> None:
        what, code = ("close", "TWF203") if isinstance(node, Close) else ("continue_as_new", "TWF204")
        if not self.refuse_here(node, what) and self.handler is not None:
            kind = f"a{'n' if self.handler.kind == 'update' else ''} {self.handler.kind}"
            hint = "set a variable here and act on it in the workflow body"
            self.head(node, code, f"{what} is not allowed in {kind} handler", hint)

    def jump(self, node: Break | Continue, loop: _Loop) -> None:
        word = "break" if isinstance(node, Break) else "continue"
        if loop == "none":
            self.head(node, "TWF206", f"{word} outside of a loop")
        elif loop == "branch":
            self.head(node, "TWF207", f"{word} cannot leave a branch of await all")

    def query_assignment(self, node: Assign) -> None:
        root: Expr = node.place
        while isinstance(root, (FieldAccess, Index)):
            root = root.value
        if not isinstance(root, Name) or self.scope.is_local(root.name, self.handler):
            return
        if root.name in self.scope.shared:
            place = node.place
            message = f"a query cannot change the workflow variable {root.name}"
            self.report(place.start, place.end, "TWF208", message, "use another name")
