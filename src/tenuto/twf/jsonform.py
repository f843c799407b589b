"""A program, its tree and its diagnostics as plain data for other tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, cast

from . import ast
from .ast import Comment, Extension, File, Handler, Ident, MessageTarget, Node, Target
from .diagnostics import Diagnostic, Related
from .program import Program
from .resolver import Place
from .source import Source

__all__ = ["diagnostic_json", "file_json", "program_json"]

# Nodes not listed have no kind of their own: their place says what they are.
_KINDS: Final[dict[type[Node], str]] = {
    ast.Workflow: "workflow",
    ast.Activity: "activity",
    ast.Options: "options",
    ast.Call: "call",
    ast.Await: "await",
    ast.AwaitAll: "await_all",
    ast.AwaitOne: "await_one",
    ast.If: "if",
    ast.For: "for",
    ast.Switch: "switch",
    ast.Close: "close",
    ast.Return: "return",
    ast.ContinueAsNew: "continue_as_new",
    ast.Heartbeat: "heartbeat",
    ast.Assign: "assign",
    ast.ExprStatement: "expr",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Error: "error",
    ast.ActivityTarget: "activity",
    ast.WorkflowTarget: "workflow",
    ast.TimerTarget: "timer",
    ast.HandleTarget: "handle",
    ast.AllTarget: "all",
    ast.Name: "name",
    ast.Number: "number",
    ast.Duration: "duration",
    ast.String: "string",
    ast.Bool: "bool",
    ast.Null: "null",
    ast.Binary: "binary",
    ast.Unary: "unary",
    ast.CallExpr: "call",
    ast.Index: "index",
    ast.FieldAccess: "field",
    ast.Construct: "construct",
    ast.MapExpr: "map",
    ast.ListExpr: "list",
    ast.Group: "group",
}
_TARGETS: Final = (
    ast.ActivityTarget,
    ast.WorkflowTarget,
    ast.TimerTarget,
    ast.MessageTarget,
    ast.HandleTarget,
    ast.AllTarget,
)
_FIELDS: Final[dict[type[Node], tuple[tuple[str, str], ...]]] = {}
_NO_TARGETS: Final[dict[Target, Place]] = {}


def _fields_of(kind: type[Node]) -> tuple[tuple[str, str], ...]:
    """Attribute and key of every field but the place; Python's `orelse` is the language's `else`."""
    found = _FIELDS.get(kind)
    if found is None:
        found = tuple(
            (field.name, "else" if field.name == "orelse" else field.name)
            for field in fields(kind)
            if field.name not in ("start", "end")
        )
        _FIELDS[kind] = found
    return found


def program_json(program: Program) -> dict[str, Any]:
    """The whole program: `{"twf": 1, "files": […], "diagnostics": […]}`."""
    return {
        "twf": 1,
        "files": [file_json(file, program.resolution.targets) for file in program.files],
        "diagnostics": [diagnostic_json(found) for found in program.diagnostics],
    }


def file_json(file: File, targets: Mapping[Target, Place] = _NO_TARGETS) -> dict[str, Any]:
    form = _Form(file.source, targets)
    return {
        "path": file.path,
        "definitions": [form.node(definition) for definition in file.definitions],
        "comments": [form.comment(comment) for comment in file.comments],
        "extensions": [form.extension(extension) for extension in file.extensions],
    }


def diagnostic_json(found: Diagnostic) -> dict[str, Any]:
    return {
        "file": found.path,
        "line": found.span.line,
        "column": found.span.column,
        "endLine": found.span.end_line,
        "endColumn": found.span.end_column,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "hint": found.hint,
        "extension": found.extension,
        "related": [_related(related) for related in found.related],
    }


def _related(related: Related) -> dict[str, Any]:
    return {
        "file": related.path,
        "line": related.span.line,
        "column": related.span.column,
        "message": related.message,
    }


class _Form:
    def __init__(self, source: Source, targets: Mapping[Target, Place]) -> None:
        self.source = source
        self.targets = targets

    def span(self, node: Node) -> list[int]:
        return list(self.source.span(node.start, node.end))

    def comment(self, comment: Comment) -> dict[str, Any]:
        return {"span": self.span(comment), "text": comment.text, "own": comment.own}

    def extension(self, extension: Extension) -> dict[str, Any]:
        return {"tag": extension.tag, "span": self.span(extension)}

    def node(self, node: Node) -> dict[str, Any]:
        kind = type(node)
        if isinstance(node, Ident):
            return {"name": node.name, "span": self.span(node)}
        named = node.kind if isinstance(node, (Handler, MessageTarget)) else _KINDS.get(kind)
        out: dict[str, Any] = {"span": self.span(node)} if named is None else {"kind": named, "span": self.span(node)}
        for attribute, key in _fields_of(kind):
            if attribute != "kind":
                out[key] = self.value(getattr(node, attribute))
        if isinstance(node, _TARGETS):
            out["resolved"] = self.resolved(node)
        return out

    def value(self, value: object) -> Any:
        if isinstance(value, Node):
            return self.node(value)
        if isinstance(value, tuple):
            return [self.value(item) for item in cast("tuple[object, ...]", value)]
        return value

    def resolved(self, target: Target) -> dict[str, Any] | None:
        place = self.targets.get(target)
        if place is None:
            return None
        ident = place.ident
        return {"path": place.file.path, "span": list(place.source.span(ident.start, ident.end))}
