"""Warnings about the shape of statements: unreachable lines, missing results, loops without end, and the like."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .ast import (
    AllTarget,
    Await,
    AwaitAll,
    AwaitCase,
    AwaitOne,
    Bool,
    Break,
    Call,
    Close,
    Continue,
    ContinueAsNew,
    Duration,
    Error,
    Expr,
    For,
    Handler,
    If,
    Null,
    Number,
    Return,
    Statement,
    String,
    Switch,
    SwitchCase,
    Unary,
    Workflow,
    WorkflowTarget,
)
from .diagnostics import Diagnostic, diagnose
from .resolver import Surveyed
from .source import Source

__all__ = ["blocks_of", "check_flow", "statements_below"]

_EXITS = (Return, Close, Break, Continue, ContinueAsNew)


def check_flow(one: Surveyed) -> Iterator[Diagnostic]:
    definition, source = one.definition, one.file.source
    yield from _check_block(source, definition.body, workflow=isinstance(definition, Workflow))
    if not isinstance(definition, Workflow):
        return
    yield from _check_workflow(source, definition)
    for handler in definition.handlers:
        yield from _check_block(source, handler.body, workflow=handler.kind != "query")
        yield from _check_handler(source, handler)
    for use in one.survey.uses:
        target = use.target
        if isinstance(target, WorkflowTarget) and target.mode != "child":
            start, end = target.start, target.start + len(target.mode)
            if use.where != "call":
                message = f"{target.mode} has no meaning {'after await' if use.where == 'await' else 'in a case'}"
                yield diagnose(source, start, end, "TWF413", message, f"drop '{target.mode}', or make it a statement")
            elif target.mode == "spawn" and not use.result:
                message = "nobody can await this spawned workflow"
                yield diagnose(source, start, end, "TWF414", message, "bind it with -> h, or use detach")


# --- whole definitions


def _check_workflow(source: Source, workflow: Workflow) -> Iterator[Diagnostic]:
    head = (workflow.start, workflow.start + len("workflow"))
    if not workflow.body:
        yield diagnose(source, *head, "TWF401", f"workflow {workflow.name.name} has no statements")
    elif workflow.returns and not _gives_value(workflow.body):
        message = f"workflow {workflow.name.name} declares a result but never closes with a value"
        yield diagnose(source, *head, "TWF411", message, "close value, or drop the return type")
    yield from _check_self_call(source, workflow)
    for statement in statements_below(workflow.body):
        if isinstance(statement, ContinueAsNew) and len(statement.args) != len(workflow.params):
            count = len(workflow.params)
            message = (
                f"{workflow.name.name} takes {count} argument{'' if count == 1 else 's'}, {len(statement.args)} given"
            )
            yield diagnose(source, statement.start, statement.start + len("continue_as_new"), "TWF406", message)


def _check_handler(source: Source, handler: Handler) -> Iterator[Diagnostic]:
    if handler.kind == "signal":
        for statement in statements_below(handler.body):
            if isinstance(statement, Return) and statement.value is not None:
                end = statement.start + len("return")
                message = "nobody receives what a signal returns"
                yield diagnose(source, statement.start, end, "TWF412", message, "use update")
    elif handler.body and not _gives_value(handler.body):
        message = f"{handler.kind} {handler.name.name} declares a result but never returns a value"
        yield diagnose(source, handler.start, handler.start + len(handler.kind), "TWF411", message, "return value")


def _gives_value(body: tuple[Statement, ...]) -> bool:
    return any(
        (isinstance(statement, Return) and statement.value is not None)
        or (isinstance(statement, Close) and statement.reason != "failed" and statement.value is not None)
        for statement in statements_below(body)
    )


def _check_self_call(source: Source, workflow: Workflow) -> Iterator[Diagnostic]:
    for statement in workflow.body:
        if isinstance(statement, (Call, Await)) and isinstance(statement.target, WorkflowTarget):
            target = statement.target
            same = target.name.name == workflow.name.name and target.namespace is None
            if same and target.mode == "child":
                name = target.name
                message = f"workflow {name.name} always calls itself"
                yield diagnose(source, name.start, name.end, "TWF418", message, "call it under a condition")
                return
        if any(isinstance(below, (Return, Close, ContinueAsNew)) for below in statements_below((statement,))):
            return


# --- blocks


def _check_block(source: Source, body: tuple[Statement, ...], *, workflow: bool) -> Iterator[Diagnostic]:
    for before, statement in itertools.pairwise(body):
        if isinstance(before, _EXITS):
            message = "this statement is never reached"
            yield diagnose(source, statement.start, statement.end, "TWF402", message)
            break
    for statement in body:
        if isinstance(statement, Switch):
            yield from _check_cases(source, statement)
        elif workflow and isinstance(statement, For) and statement.mode == "ever" and _is_idle(statement):
            end = statement.start + len("for")
            message = "this loop never ends and never waits"
            yield diagnose(source, statement.start, end, "TWF415", message, "await something in it, or break")
        for block in blocks_of(statement):
            yield from _check_block(source, block, workflow=workflow)


def _check_cases(source: Source, switch: Switch) -> Iterator[Diagnostic]:
    seen: set[tuple[str, object]] = set()
    for case in switch.cases:
        literal = _literal(case.value) if isinstance(case, SwitchCase) else None
        if literal is None or not isinstance(case, SwitchCase):
            continue
        if literal in seen:
            yield diagnose(source, case.value.start, case.value.end, "TWF410", "this case stands above already")
        seen.add(literal)


def _literal(value: Expr) -> tuple[str, object] | None:
    match value:
        case Number():
            return ("number", value.value)
        case Unary(op="-", operand=Number() as number):
            return ("number", -number.value)
        case String():
            return ("string", value.value)
        case Bool():
            return ("bool", value.value)
        case Duration():
            return ("duration", value.seconds)
        case Null():
            return ("null", None)
        case _:
            return None


def _is_idle(loop: For) -> bool:
    """Whether nothing in an endless loop waits or leaves it."""
    return not any(_waits_or_leaves(statement, nested=False) for statement in loop.body)


def _waits_or_leaves(statement: Statement, *, nested: bool) -> bool:
    if isinstance(statement, (Call, Await, AwaitAll, AwaitOne, Return, Close, ContinueAsNew)):
        return True
    if isinstance(statement, Break):
        return not nested
    nested = nested or isinstance(statement, For)
    return any(_waits_or_leaves(below, nested=nested) for block in blocks_of(statement) for below in block)


def blocks_of(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """The blocks directly inside a statement."""
    match statement:
        case If() | Switch():
            if isinstance(statement, If):
                yield statement.body
            else:
                for case in statement.cases:
                    yield case.body
            if statement.orelse is not None:
                yield statement.orelse
        case For() | AwaitAll() | Error():
            yield statement.body
        case AwaitOne():
            for awaited in statement.cases:
                if isinstance(awaited, AwaitCase) and isinstance(awaited.target, AllTarget):
                    yield awaited.target.body
                if awaited.body is not None:
                    yield awaited.body
        case _:
            return


def statements_below(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of a body, in order, nested ones included."""
    waiting = list(reversed(body))
    while waiting:
        statement = waiting.pop()
        yield statement
        for block in reversed(list(blocks_of(statement))):
            waiting.extend(reversed(block))
