"""What makes workflow code behave differently on replay: I/O, threads, unordered iteration, calls that go nowhere.

Looks at the bodies of workflows, and at the plain functions of the same module that they call. Clocks and randomness
are no finding there: the workflow's view replaces them. They are one in methods and decorated functions, which the
view leaves as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenuto.directives.captures import changed_by
from tenuto.directives.definitions import Definition, Report
from tenuto.directives.foreign_calls import (
    CLOCK_FIXES,
    CLOCK_MODULES,
    ORDERED_FIXES,
    UNORDERED,
    clock_kind,
    io_verdict,
    is_blocking_method,
    is_thread,
)
from tenuto.directives.names import dotted
from tenuto.directives.scan import Scan
from tenuto.directives.source import FunctionNode, children
from tenuto.directives.unordered import Sets, bound_names

__all__ = ["check_determinism"]


@dataclass(frozen=True, slots=True)
class _Known:
    """Marked functions by the name that code calls them by."""

    steps: frozenset[str]
    workflows: frozenset[str]
    plain: Mapping[str, FunctionNode]
    defined: frozenset[str]  # at module level, so that it hides a built-in of that name


def check_determinism(scan: Scan, report: Report) -> None:
    """Report what the workflows of a module should not do."""
    workflows = [d for d in scan.definitions if d.kind == "workflow"]
    if not workflows:
        return
    known = _Known(
        frozenset(_callable_name(d) for d in scan.definitions if d.kind == "step"),
        frozenset(_callable_name(d) for d in workflows),
        {n.name: n for n in _plain_functions(scan)},
        frozenset(_defined(scan)),
    )
    for workflow in workflows:
        _check_routes(workflow, scan, report)
    steps = {d.node for d in scan.definitions if d.kind == "step" and d.sort != "inert"}
    top = _module_values(scan)
    for function in _reachable([d.node for d in workflows], known, steps):
        nodes = list(_walk(function, steps))
        local = bound_names(function, nodes)
        for node in nodes:
            _check_node(node, known, scan, report, local | known.defined)
            _check_change(node, top.difference(local), report)
        for taken in Sets(function, nodes).shown_orders():
            report.add("DIR403", taken, what="iterating over a set", fix="write sorted(...)")
    _check_neighbours(scan, report)


def _callable_name(definition: Definition) -> str:
    """`Mailer.send` for a method, the bare name for everything else."""
    return definition.identifier if definition.sort == "method" else definition.node.name


def _plain_functions(scan: Scan) -> Iterator[FunctionNode]:
    for node in scan.source.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.decorator_list and node not in scan.functions:
            yield node


def _defined(scan: Scan) -> Iterator[str]:
    for node in scan.source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id


def _module_values(scan: Scan) -> frozenset[str]:
    """Names of the module that hold a list, map or set from the start."""
    found: set[str] = set()
    for node in scan.source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_container(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(found)


def _is_container(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call):
        name = (dotted(node.func) or "").rpartition(".")[2]
        return name in ("list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter")
    return isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _check_change(node: ast.AST, shared: frozenset[str], report: Report) -> None:
    """What a run does to the module's own values, every other run of the process sees, and no replay undoes."""
    target = changed_by(node)
    if target is not None and target.id in shared and isinstance(node, ast.expr):
        report.add("DIR207", node, what=f"a change of {target.id}, which the module shares,", kind="workflow")


def _reachable(roots: list[FunctionNode], known: _Known, steps: set[FunctionNode]) -> list[FunctionNode]:
    """The workflows, and the plain functions of the module that they call by name, directly or not."""
    found: list[FunctionNode] = []
    pending = list(reversed(roots))
    while pending:
        current = pending.pop()
        if current in found:
            continue
        found.append(current)
        for node in _walk(current, steps):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known.plain:
                pending.append(known.plain[node.func.id])
    return found


def _walk(function: FunctionNode, steps: set[FunctionNode]) -> Iterator[ast.AST]:
    """What a function does when called, functions nested in it included, steps not."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        if node in steps:
            continue
        yield node
        pending.extend(reversed(children(node)))


def _check_node(node: ast.AST, known: _Known, scan: Scan, report: Report, own: frozenset[str]) -> None:
    match node:
        case ast.Call():
            _check_call(node, known, scan, report, own)
        case ast.Attribute():
            if scan.names.resolve(node) == "os.environ":
                why, fix = io_verdict("os.environ") or ("", "")
                report.add("DIR402", node, call="os.environ", why=why, fix=fix)
        case ast.Name():
            if scan.names.imported.get(node.id) == "os.environ" and isinstance(node.ctx, ast.Load):
                why, fix = io_verdict("os.environ") or ("", "")
                report.add("DIR402", node, call="os.environ", why=why, fix=fix)
        case ast.Expr(value=ast.Call(func=func)):
            name = dotted(func)
            if name in known.steps:
                report.add("DIR407", node.value, name=name)
        case _:
            pass


def _check_call(node: ast.Call, known: _Known, scan: Scan, report: Report, own: frozenset[str]) -> None:
    written = dotted(node.func)
    if written in known.workflows:
        report.add("DIR401", node, name=written)
        return
    name = scan.names.resolve(node.func)
    if name == written and written in own:  # no import: the module's, or a local one
        return
    if name in UNORDERED:
        report.add("DIR403", node, what=f"{written}()", fix=ORDERED_FIXES[name])
    elif is_thread(name) or (isinstance(node.func, ast.Attribute) and node.func.attr == "run_in_executor"):
        report.add("DIR404", node, call=f"{written or 'run_in_executor'}()")
    elif name is not None and io_verdict(name) is not None:
        why, fix = io_verdict(name) or ("", "")
        report.add("DIR402", node, call=f"{written}()", why=why, fix=fix)
    elif isinstance(node.func, ast.Attribute) and is_blocking_method(node.func.attr):
        report.add("DIR402", node, call=f".{node.func.attr}()", why="touches a file", fix="put it in a step")


def _check_routes(workflow: Definition, scan: Scan, report: Report) -> None:
    mark = workflow.mark
    decorators = workflow.node.decorator_list
    if mark.decorator is not None:
        decorators = decorators[decorators.index(mark.decorator) + 1 :]
    for decorator in decorators:
        if not (isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute)):
            continue
        first = dotted(decorator.func) or ""
        is_module = first.partition(".")[0] in scan.names.imported
        if decorator not in mark.option_decorators and not is_module:
            report.add("DIR406", decorator, decorator=f"@{first or decorator.func.attr}(...)")


def _check_neighbours(scan: Scan, report: Report) -> None:
    """Methods and decorated functions beside a workflow run over the real module, not over its view."""
    if not any(name.partition(".")[0] in CLOCK_MODULES for name in scan.names.imported.values()):
        return
    for function, where in _unviewed(scan.source.tree.body, ""):
        if function in scan.functions:
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Call | ast.Attribute):
                continue
            name = scan.names.resolve(node.func if isinstance(node, ast.Call) else node)
            kind = clock_kind(name, is_call=isinstance(node, ast.Call))
            if kind is not None:
                call = f"{name}()" if isinstance(node, ast.Call) else str(name)
                report.add("DIR405", node, call=call, where=where, what=kind, fix=CLOCK_FIXES[kind])


def _unviewed(body: list[ast.stmt], owner: str) -> Iterator[tuple[FunctionNode, str]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _unviewed(statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if owner:
                yield statement, f"method {owner}{statement.name}"
            elif statement.decorator_list:
                yield statement, f"decorated function {statement.name}"
