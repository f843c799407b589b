"""Every name that a workflow can give a place in its history: what tells a renamed operation from a new one."""

from __future__ import annotations

from ..ast import ActivityTarget, AllTarget, AwaitAll, AwaitOne, Workflow, WorkflowTarget
from ..resolver import Surveyed

__all__ = ["segments_of"]


def segments_of(one: Surveyed, node: Workflow) -> frozenset[str]:
    found = {"timer", "for", "one", "all", "case", f"limit:{node.name.name}"}
    for use in one.survey.uses:
        target = use.target
        if isinstance(target, ActivityTarget):
            found |= {target.name.name, f"limit:{target.name.name}"}
        elif isinstance(target, WorkflowTarget):
            found |= {f"child:{target.name.name}", f"limit:{target.name.name}", f"retry:{target.name.name}"}
    for handler in node.handlers:
        found.add(f"{handler.kind}:{handler.name.name}")
    found.update(str(number) for number in range(_widest(node)))
    return frozenset(found)


def _widest(node: Workflow) -> int:
    """The largest number of branches or cases anywhere."""
    widest = 0
    stack: list[object] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, AwaitAll | AllTarget):
            widest = max(widest, len(item.body))
        elif isinstance(item, AwaitOne):
            widest = max(widest, len(item.cases))
        for name in _fields(item):
            value: object = getattr(item, name, None)
            if isinstance(value, tuple):
                stack.extend(value)  # pyright: ignore[reportUnknownArgumentType]
            elif hasattr(value, "start"):
                stack.append(value)
    return widest


def _fields(item: object) -> list[str]:
    return [name for base in type(item).__mro__ for name in getattr(base, "__slots__", ())]
