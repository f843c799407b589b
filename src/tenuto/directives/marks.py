"""Marks: reading the directive or decorator of one function, and checking that the function may carry it."""

from __future__ import annotations

import ast
from typing import Final, Literal

from tenuto.directives.definitions import Mark, Place, Report
from tenuto.directives.names import MARKS, Names, dotted
from tenuto.directives.prologue import Prologue, Word
from tenuto.directives.source import FunctionNode, own_scope

__all__ = ["check_definition", "read_mark"]

_BINDERS: Final = frozenset({"staticmethod", "classmethod"})
_PROPERTIES: Final = frozenset({"property", "cached_property", "setter", "getter", "deleter"})
_STUBS: Final = {"overload": "an overload", "abstractmethod": "abstract"}
_IMPLICITLY_STATIC: Final = frozenset({"__new__"})


def read_mark(node: FunctionNode, prologue: Prologue, names: Names, report: Report) -> tuple[Mark | None, bool]:
    """What a function says about itself, and whether it contradicts itself."""
    is_broken = bool(prologue.wrong)
    if not node.decorator_list and not prologue.directives:
        return None, is_broken
    marks = [d for d in node.decorator_list if names.member(d) in MARKS and not (isinstance(d, ast.Call) and d.args)]
    options = tuple(d for d in node.decorator_list if names.member(d) in ("step_options", "workflow_options"))
    kind = _read_directives(prologue, report)
    if kind == "conflict":
        return None, True
    for extra in marks if kind is not None else marks[1:]:
        report.add("DIR121", extra, name=node.name)
        is_broken = True
    statements = tuple(statement for _, statement in prologue.directives)
    if kind is not None:
        mark = Mark(kind, statements[0].value, statements, None, _keywords(options), options)
    elif marks:
        decorator = marks[0]
        mark = Mark(
            "step" if names.member(decorator) == "step" else "workflow",
            decorator,
            (),
            decorator,
            (*_keywords((decorator,)), *_keywords(options)),
            options,
        )
    else:
        _unmarked(node, options, names, report)
        return None, is_broken
    if mark.is_computed:
        fix = "give name= as a string literal"
        report.add_head("DIR209", node, name=node.name, why="its name= is computed", fix=fix)
    return mark, is_broken


def _read_directives(prologue: Prologue, report: Report) -> Word | Literal["conflict"] | None:
    if not prologue.directives:
        return None
    first = prologue.directives[0][0]
    is_conflict = False
    for kind, statement in prologue.directives[1:]:
        if kind == first:
            report.add("DIR201", statement.value, text=f"use {kind}")
        else:
            report.add("DIR106", statement.value)
            is_conflict = True
    return "conflict" if is_conflict else first


def _unmarked(node: FunctionNode, options: tuple[ast.expr, ...], names: Names, report: Report) -> None:
    for decorator in options:
        report.add("DIR208", decorator, name=node.name)
    for decorator in node.decorator_list:
        why = names.indirect_mark(decorator)
        if why is not None:
            report.add_head("DIR209", node, name=node.name, why=why, fix="use the decorator imported from `tenuto`")


def _keywords(decorators: tuple[ast.expr, ...]) -> tuple[ast.keyword, ...]:
    return tuple(keyword for d in decorators if isinstance(d, ast.Call) for keyword in d.keywords)


def check_definition(node: FunctionNode, mark: Mark, place: Place, report: Report) -> bool:
    """Report what forbids this mark on this function; False if anything does."""
    before = len(report.broken)
    is_sync = isinstance(node, ast.FunctionDef)
    in_class = bool(place.scopes) and isinstance(place.scopes[-1].node, ast.ClassDef)
    if in_class and not _check_method(node, mark, place, report):
        return False
    if is_sync and mark.kind == "workflow":
        report.add_head("DIR101", node, name=node.name)
    elif is_sync:
        report.add_head("DIR301", node, name=node.name)
    if _stub_sort(node):
        report.add("DIR117", mark.node, name=node.name, what=_stub_sort(node))
        report.broken.add(node)
    if place.guard and not place.in_function:
        report.add_head("DIR120", node, name=node.name, what=place.guard)
    _check_body(node, mark, place, report)
    return len(report.broken) == before or node not in report.broken


def _check_method(node: FunctionNode, mark: Mark, place: Place, report: Report) -> bool:
    words = [_word(decorator) for decorator in node.decorator_list]
    if not _PROPERTIES.isdisjoint(words):
        report.add_head("DIR116", node, name=node.name)
        return False
    parent = place.scopes[-1].node
    assert isinstance(parent, ast.ClassDef)  # noqa: S101  # the caller looked
    stub = _stub_sort(node) or ("part of a protocol" if any(_word(b) == "Protocol" for b in parent.bases) else "")
    if stub:
        report.add("DIR117", mark.node, name=node.name, what=stub)
        report.broken.add(node)
        return False
    found = [word for word in words if word in _BINDERS]
    if not found and node.name not in _IMPLICITLY_STATIC:
        report.add_head("DIR102", node, name=node.name, what="it is an instance method")
        return False
    if not found or words[0] not in _BINDERS:
        what = f"@{found[0]} is not the first decorator" if found else "it is not a static method"
        report.add_head("DIR102", node, name=node.name, what=what)
        return False
    if found[0] == "classmethod":
        report.add_head("DIR303", node, name=node.name)
    return True


def _check_body(node: FunctionNode, mark: Mark, place: Place, report: Report) -> None:
    is_nested_step = mark.kind == "step" and place.in_function
    for inner in own_scope(node):
        match inner:
            case ast.Yield() | ast.YieldFrom():
                if node not in report.broken:
                    report.add_head("DIR110", node, name=node.name)
            case ast.Global():
                report.add("DIR207", inner, what="`global`", kind=mark.kind)
            case ast.Nonlocal() if is_nested_step:
                report.add("DIR112", inner, names=", ".join(inner.names))
                report.broken.add(node)
            case ast.Call(func=ast.Name(id="super")) if mark.kind == "step":
                report.add("DIR111", inner, what="super()")
                report.broken.add(node)
            case ast.Name(id="__class__") if mark.kind == "step":
                report.add("DIR111", inner, what="__class__")
                report.broken.add(node)
            case _:
                pass


def _stub_sort(node: FunctionNode) -> str:
    return next((_STUBS[word] for word in map(_word, node.decorator_list) if word in _STUBS), "")


def _word(decorator: ast.expr) -> str:
    """The last word of a decorator or base class, whatever it is called or subscripted with."""
    while isinstance(decorator, ast.Call | ast.Subscript):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    return (dotted(decorator) or "").rpartition(".")[2]
