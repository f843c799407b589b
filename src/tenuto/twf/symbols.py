"""What a program defines, and who calls whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .ast import ActivityTarget, Definition, File, Handler, Param, TypeText, Workflow, WorkflowTarget
from .program import Program
from .source import Source

__all__ = [
    "Dependencies",
    "Edge",
    "Symbol",
    "Unresolved",
    "dependencies",
    "dependencies_json",
    "kind_of",
    "signature",
    "symbols",
]


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A definition or handler as one line."""

    file: File
    node: Definition | Handler
    kind: str
    name: str
    signature: str
    members: tuple[Symbol, ...]

    def json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "file": self.file.path,
            "span": list(self.file.source.span(self.node.start, self.node.end)),
            "signature": self.signature,
            "members": [member.json() for member in self.members],
        }


def signature(node: Definition | Handler) -> str:
    """`workflow Order(order: Order) -> (Receipt)`."""
    params = ", ".join(_param(param) for param in node.params)
    return f"{kind_of(node)} {node.name.name}({params}){_returns(node.returns)}"


def kind_of(node: Definition | Handler) -> str:
    if isinstance(node, Handler):
        return node.kind
    return "workflow" if isinstance(node, Workflow) else "activity"


def _param(param: Param) -> str:
    return param.name.name if param.type is None else f"{param.name.name}: {param.type.text}"


def _returns(returns: tuple[TypeText, ...] | None) -> str:
    return "" if returns is None else f" -> ({', '.join(one.text for one in returns)})"


def symbols(file: File) -> tuple[Symbol, ...]:
    return tuple(_symbol(file, definition) for definition in file.definitions)


def _symbol(file: File, node: Definition | Handler) -> Symbol:
    handlers = node.handlers if isinstance(node, Workflow) else ()
    members = tuple(_symbol(file, handler) for handler in handlers)
    return Symbol(file, node, kind_of(node), node.name.name, signature(node), members)


# --- who calls whom


@dataclass(frozen=True, slots=True)
class Edge:
    """One call: from a definition to another, `remote` when it names one in another namespace."""

    caller: str
    callee: str
    mode: Literal["activity", "child", "spawn", "detach"]
    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Unresolved:
    edge: Edge
    why: Literal["undefined", "remote"]
    namespace: str | None


@dataclass(frozen=True, slots=True)
class Dependencies:
    nodes: tuple[tuple[str, str, int], ...]  # id, path, line
    edges: tuple[Edge, ...]
    unresolved: tuple[Unresolved, ...]


def dependencies(program: Program) -> Dependencies:
    nodes: list[tuple[str, str, int]] = []
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file in program.files:
        for definition in file.definitions:
            line = file.source.position(definition.start).line
            nodes.append((f"{kind_of(definition)}:{definition.name.name}", file.path, line))
    for one in program.resolution.surveyed:
        caller = f"{kind_of(one.definition)}:{one.definition.name.name}"
        targets = [use.target for use in one.survey.uses if isinstance(use.target, (ActivityTarget, WorkflowTarget))]
        for target in sorted(targets, key=lambda target: target.start):
            edge = _edge(one.file.source, caller, target)
            namespace = target.namespace if isinstance(target, WorkflowTarget) else None
            if namespace is not None:
                unresolved.append(Unresolved(edge, "remote", namespace.value))
            elif target not in program.resolution.targets:
                unresolved.append(Unresolved(edge, "undefined", None))
            else:
                edges.append(edge)
    return Dependencies(tuple(nodes), tuple(edges), tuple(unresolved))


def _edge(source: Source, caller: str, target: ActivityTarget | WorkflowTarget) -> Edge:
    line, column = source.position(target.name.start)
    if isinstance(target, ActivityTarget):
        return Edge(caller, f"activity:{target.name.name}", "activity", source.path, line, column)
    return Edge(caller, f"workflow:{target.name.name}", target.mode, source.path, line, column)


def dependencies_json(found: Dependencies) -> dict[str, Any]:
    return {
        "nodes": [{"id": name, "file": path, "line": line} for name, path, line in found.nodes],
        "edges": [_edge_json(edge) for edge in found.edges],
        "unresolved": [
            {**_edge_json(one.edge), "why": one.why, "namespace": one.namespace} for one in found.unresolved
        ],
    }


def _edge_json(edge: Edge) -> dict[str, Any]:
    return {
        "from": edge.caller,
        "to": edge.callee,
        "mode": edge.mode,
        "file": edge.path,
        "line": edge.line,
        "column": edge.column,
    }
