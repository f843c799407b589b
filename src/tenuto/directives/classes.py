"""Classes with serialization of their own, in any of the ways there are to say so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tenuto.directives.definitions import ForeignClass, Report
from tenuto.directives.names import Names, dotted
from tenuto.directives.source import Source

__all__ = ["Serialization", "find_serialization", "serializable_calls"]

SERIALIZE: Final = "__workflow_serialize__"
DESERIALIZE: Final = "__workflow_deserialize__"
_PLAIN_BASES: Final = frozenset({"object", "Generic", "Protocol"})


@dataclass(frozen=True, slots=True)
class Serialization:
    """How a class is made serializable: by a bare decorator, or by its methods."""

    decorator: ast.expr | None = None
    name: str | None = None


def find_serialization(node: ast.ClassDef, names: Names, report: Report) -> Serialization | None:
    """What a class says about its own serialization; None if nothing."""
    decorator = next((d for d in node.decorator_list if names.member(d) == "serializable"), None)
    has = {SERIALIZE: False, DESERIALIZE: False}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            roles = {names.member(d) for d in statement.decorator_list}
            has[SERIALIZE] |= statement.name == SERIALIZE or "serializer" in roles
            has[DESERIALIZE] |= statement.name == DESERIALIZE or "deserializer" in roles
    if any(has.values()) and not all(has.values()) and not _may_inherit(node):
        given, lacking = (SERIALIZE, DESERIALIZE) if has[SERIALIZE] else (DESERIALIZE, SERIALIZE)
        report.add_head("DIR118", node, name=node.name, has=given, lacks=lacking)
        return None
    if decorator is not None:
        bare = decorator if not isinstance(decorator, ast.Call) else None
        return Serialization(bare, _literal_name(decorator))
    return Serialization() if any(has.values()) else None


def _may_inherit(node: ast.ClassDef) -> bool:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return any((dotted(base) or "?").rpartition(".")[2] not in _PLAIN_BASES for base in bases)


def _literal_name(decorator: ast.expr) -> str | None:
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
    return None


def serializable_calls(source: Source, names: Names) -> tuple[ForeignClass, ...]:
    """Module-level calls that make a class of another module serializable."""
    if "serializable" not in source.text:
        return ()
    return tuple(_calls(source, names))


def _calls(source: Source, names: Names) -> Iterator[ForeignClass]:
    for statement in source.tree.body:
        if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
            continue
        call = statement.value
        if not isinstance(call, ast.Call) or names.member(call) != "serializable" or not call.args:
            continue
        target: ast.expr | None = None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        name = target.id if isinstance(target, ast.Name) else (dotted(call.args[0]) or "").rpartition(".")[2]
        if name:
            yield ForeignClass(call, name, source.path)
