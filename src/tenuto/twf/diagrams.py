"""Drawings as text for other tools: Mermaid, DOT, JSON; and the door to the SVG."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .ast import Workflow
from .graph import Arm, Drawing, Fork, Loop, Shape, Step, draw_workflow
from .program import Program
from .svg import drawings_svg
from .symbols import Dependencies

__all__ = ["Edge", "Graph", "GraphNode", "dependencies_mermaid", "draw", "flow_graph"]

_CAPTIONS: Final = {
    "activity": "activity",
    "workflow": "workflow",
    "spawn": "spawn",
    "detach": "detach",
    "timer": "wait",
    "signal": "signal",
    "update": "update",
    "handle": "await",
}
_MERMAID: Final = {
    "start": '(["{}"])',
    "end": '(["{}"])',
    "close": '(["{}"])',
    "fail": '(["{}"])',
    "return": '(["{}"])',
    "renew": '(["{}"])',
    "if": '{{"{}"}}',
    "switch": '{{"{}"}}',
    "one": '{{{{"{}"}}}}',
    "all": '{{{{"{}"}}}}',
    "for": '{{{{"{}"}}}}',
    "timer": '("{}")',
    "signal": '>"{}"]',
    "update": '>"{}"]',
    "workflow": '[["{}"]]',
    "spawn": '[["{}"]]',
    "detach": '[["{}"]]',
}
_DOT_SHAPES: Final = {
    "start": "oval",
    "end": "oval",
    "close": "oval",
    "fail": "oval",
    "return": "oval",
    "renew": "oval",
    "if": "diamond",
    "switch": "diamond",
    "one": "hexagon",
    "all": "hexagon",
    "for": "hexagon",
    "signal": "cds",
    "update": "cds",
    "set": "note",
}
_COLOURS: Final = {
    "activity": "#2563eb",
    "workflow": "#7c3aed",
    "spawn": "#7c3aed",
    "detach": "#7c3aed",
    "timer": "#b45309",
    "signal": "#0f766e",
    "update": "#0f766e",
    "handle": "#7c3aed",
    "close": "#15803d",
    "fail": "#b91c1c",
}


# --- nodes and edges


@dataclass(frozen=True, slots=True)
class GraphNode:
    id: str
    kind: str
    label: str
    line: int


@dataclass(frozen=True, slots=True)
class Edge:
    start: str
    end: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


_Open = list[tuple[str, str]]  # edges that still need an end: node and label


class _Flattener:
    """Turns nested shapes into nodes and edges."""

    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.edges: list[Edge] = []
        self.loops: list[tuple[str, _Open]] = []  # where `continue` goes, and the edges of `break`

    def graph(self, drawing: Drawing) -> Graph:
        start, end = f"{drawing.id}/start".lstrip("/"), f"{drawing.id}/end".lstrip("/")
        self.add(start, "start", drawing.title, drawing.line)
        open_edges = self.block(drawing.body, [(start, "")])
        if open_edges:
            self.add(end, "end", "end", drawing.line)
            self.join(open_edges, end)
        return Graph(tuple(self.nodes.values()), tuple(self.edges))

    def add(self, name: str, kind: str, label: str, line: int) -> None:
        self.nodes.setdefault(name, GraphNode(name, kind, label, line))

    def join(self, open_edges: Iterable[tuple[str, str]], end: str) -> None:
        for start, label in open_edges:
            edge = Edge(start, end, label)
            if edge not in self.edges[-8:]:
                self.edges.append(edge)

    def block(self, body: tuple[Shape, ...], open_edges: _Open) -> _Open:
        for shape in body:
            if not open_edges:
                break  # never reached
            open_edges = self.shape(shape, open_edges)
        return open_edges

    def shape(self, shape: Shape, open_edges: _Open) -> _Open:
        if isinstance(shape, Step):
            return self.step(shape, open_edges)
        if isinstance(shape, Loop):
            return self.loop(shape, open_edges)
        return self.fork(shape, open_edges)

    def step(self, step: Step, open_edges: _Open) -> _Open:
        if step.kind in ("break", "continue") and self.loops:
            target, leaving = self.loops[-1]
            if step.kind == "break":
                leaving.extend(open_edges)
            else:
                self.join(open_edges, target)
            return []
        self.add(step.id, step.kind, _step_label(step), step.line)
        self.join(open_edges, step.id)
        return [] if step.leaves else [(step.id, "")]

    def loop(self, loop: Loop, open_edges: _Open) -> _Open:
        name = f"{loop.id}/[*]" if loop.parallel else loop.id
        self.add(name, "for", loop.label, loop.line)
        self.join(open_edges, name)
        leaving: _Open = []
        self.loops.append((name, leaving))
        inside = "" if loop.mode == "ever" else "each" if loop.mode == "each" else "yes"
        back = self.block(loop.body, [(name, inside)])
        self.loops.pop()
        if loop.parallel:
            return back or [(name, "")]
        self.join(back, name)
        return leaving if loop.mode == "ever" else [(name, "done"), *leaving]

    def fork(self, fork: Fork, open_edges: _Open) -> _Open:
        self.add(fork.id, fork.kind, fork.label, fork.line)
        self.join(open_edges, fork.id)
        after: _Open = []
        for arm in fork.arms:
            after.extend(self.arm(fork, arm))
        return after or ([(fork.id, "")] if not fork.arms else [])

    def arm(self, fork: Fork, arm: Arm) -> _Open:
        open_edges: _Open = [(fork.id, arm.label)]
        if arm.step is not None:
            open_edges = self.step(arm.step, open_edges)
        return self.block(arm.body, open_edges)


def _step_label(step: Step) -> str:
    caption = _CAPTIONS.get(step.kind)
    head = f"{caption} {step.label}" if caption else step.label
    return f"{head}\n{step.detail}" if step.detail else head


def flow_graph(drawing: Drawing) -> Graph:
    return _Flattener().graph(drawing)


# --- the forms


def draw(program: Program, form: str, name: str | None = None) -> str | None:
    """The workflows of a program in one form, or None if there is none of that name."""
    drawings = [
        draw_workflow(file, definition)
        for file in program.files
        for definition in file.definitions
        if isinstance(definition, Workflow) and name in (None, definition.name.name)
    ]
    if name is not None and not drawings:
        return None
    if form == "json":
        return json.dumps({"workflows": [_json(drawing) for drawing in drawings]}, ensure_ascii=False, indent=2) + "\n"
    if form == "dot":
        return _dot(drawings)
    if form == "svg":
        return drawings_svg(drawings)
    return _mermaid(drawings)


def _json(drawing: Drawing) -> dict[str, Any]:
    graph = flow_graph(drawing)
    return {
        "kind": drawing.kind,
        "title": drawing.title,
        "file": drawing.path,
        "line": drawing.line,
        "nodes": [{"id": node.id, "kind": node.kind, "label": node.label, "line": node.line} for node in graph.nodes],
        "edges": [{"from": edge.start, "to": edge.end, "label": edge.label} for edge in graph.edges],
        "handlers": [_json(handler) for handler in drawing.handlers],
    }


class _Numbers:
    """Short names for ids that a target language would not take as they are."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], str] = {}

    def of(self, part: int, name: str) -> str:
        return self.known.setdefault((part, name), f"n{len(self.known)}")


def _parts(drawings: Iterable[Drawing]) -> list[Drawing]:
    return [part for drawing in drawings for part in (drawing, *drawing.handlers)]


def _mermaid(drawings: list[Drawing]) -> str:
    lines = ["flowchart TD"]
    numbers = _Numbers()
    used: dict[str, list[str]] = {}
    for number, drawing in enumerate(_parts(drawings)):
        graph = flow_graph(drawing)
        lines.append(f'  subgraph p{number}["{_mermaid_text(drawing.title)}"]')
        for node in graph.nodes:
            label = drawing.kind if node.kind == "start" else node.label
            shape = _MERMAID.get(node.kind, '["{}"]').format(_mermaid_text(label))
            name = numbers.of(number, node.id)
            lines.append(f"    {name}{shape}")
            if node.kind in _COLOURS:
                used.setdefault(node.kind, []).append(name)
        for edge in graph.edges:
            label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
            lines.append(f"    {numbers.of(number, edge.start)} -->{label} {numbers.of(number, edge.end)}")
        lines.append("  end")
    for kind, names in used.items():
        lines.append(f"  classDef {kind}_ stroke:{_COLOURS[kind]},stroke-width:2px")
        lines.append(f"  class {','.join(names)} {kind}_")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace('"', "#quot;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("\n", "<br/>")


def _dot(drawings: list[Drawing]) -> str:
    lines = [
        "digraph workflows {",
        '  graph [fontname="sans-serif"]',
        '  node [fontname="sans-serif" shape=box style=rounded]',
    ]
    numbers = _Numbers()
    for number, drawing in enumerate(_parts(drawings)):
        graph = flow_graph(drawing)
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_dot_text(drawing.title)}")
        for node in graph.nodes:
            label = drawing.kind if node.kind == "start" else node.label
            shape = _DOT_SHAPES.get(node.kind, "box")
            colour = _COLOURS.get(node.kind, "#57606a")
            name = numbers.of(number, node.id)
            lines.append(
                f'    {name} [id={_dot_text(node.id)} label={_dot_text(label)} shape={shape} color="{colour}"]'
            )
        for edge in graph.edges:
            label = f" [label={_dot_text(edge.label)}]" if edge.label else ""
            lines.append(f"    {numbers.of(number, edge.start)} -> {numbers.of(number, edge.end)}{label}")
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def dependencies_mermaid(found: Dependencies) -> str:
    """Who calls whom as a Mermaid diagram; dashed lines lead out of the program."""
    lines = ["flowchart LR"]
    numbers = _Numbers()
    for name, _, _ in found.nodes:
        shape = '[["{}"]]' if name.startswith("workflow:") else '["{}"]'
        lines.append(f"  {numbers.of(0, name)}{shape.format(_mermaid_text(name.partition(':')[2]))}")
    for edge in found.edges:
        label = f"|{edge.mode}|" if edge.mode in ("spawn", "detach") else ""
        lines.append(f"  {numbers.of(0, edge.caller)} -->{label} {numbers.of(0, edge.callee)}")
    for one in found.unresolved:
        name = f"{one.edge.callee}@{one.namespace or '?'}"
        shown = one.edge.callee.partition(":")[2] + (f" ({one.namespace})" if one.namespace else " (undefined)")
        lines.append(f'  {numbers.of(0, name)}("{_mermaid_text(shown)}")')
        lines.append(f"  {numbers.of(0, one.edge.caller)} -.-> {numbers.of(0, name)}")
    return "\n".join(dict.fromkeys(lines)) + "\n"
