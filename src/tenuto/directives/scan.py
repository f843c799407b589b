"""Finds what a module marks as steps, workflows and serializable classes, and what is wrong with the marks.

The walk goes over statements only. Whatever needs to look into expressions (captures, determinism) is a module of its
own that works on the definitions found here. Every mode of the compiler starts from the same scan, so all of them
agree about ids and findings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tenuto.directives.classes import find_serialization, serializable_calls
from tenuto.directives.definitions import (
    Arms,
    ClassEntry,
    Definition,
    Enclosing,
    ForeignClass,
    Mark,
    Place,
    Report,
    Sort,
    are_exclusive,
    identifier_of,
    qualname_of,
)
from tenuto.directives.exports import Exports, read_exports
from tenuto.directives.marks import check_definition, read_mark
from tenuto.directives.names import Names, read_names
from tenuto.directives.prologue import NotPlain, Prologue, Word, is_directive_statement, read_prologue
from tenuto.directives.source import FunctionNode, Source

__all__ = ["Scan", "scan"]

# Statements that hold no other statements and no directive: most of a file.
_PLAIN: Final = frozenset(
    {ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom}
    | {ast.Delete, ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue}
)
_LAMBDA: Final = re.compile(r"lambda[^\n:]*:\s*\(?\s*[uU]?['\"]{1,3}use ")


@dataclass(frozen=True, slots=True)
class Scan:
    """What a module defines. Definitions with an error are left out; their findings are in the report."""

    source: Source
    names: Names
    definitions: tuple[Definition, ...]
    classes: tuple[ClassEntry, ...]
    foreign: tuple[ForeignClass, ...]
    module_directives: tuple[ast.Expr, ...]
    functions: Mapping[ast.AST, Mark]  # every marked function node, broken ones included


@dataclass(slots=True)
class _Walk:
    source: Source
    names: Names
    report: Report
    may_serialize: bool  # is there any word about it in the file?
    exports: Exports | None = None
    definitions: list[Definition] = field(default_factory=list[Definition])
    classes: dict[ast.ClassDef, ClassEntry] = field(default_factory=dict[ast.ClassDef, ClassEntry])
    class_places: dict[ast.ClassDef, Place] = field(default_factory=dict[ast.ClassDef, Place])
    marked: dict[ast.AST, Mark] = field(default_factory=dict[ast.AST, Mark])
    told: set[ast.AST] = field(default_factory=set[ast.AST])  # classes reported once (DIR114)

    # --- statements

    def block(self, body: list[ast.stmt], place: Place, start: int = 0) -> None:
        here: Place | None = None
        for statement in body[start:] if start else body:
            if not _is_plain(statement):
                if here is None:
                    here = place if place.top is not None else place._replace(block=body)
                self.statement(statement, here)

    def statement(self, statement: ast.stmt, place: Place) -> None:
        match statement:
            case ast.Expr():
                self.misplaced(statement, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(statement, _below(place, statement))
            case ast.If():
                self.condition(statement, place)
            case ast.For() | ast.AsyncFor() | ast.While():
                looped = place if place.in_function else place._replace(guard="in a loop")
                self.block(statement.body, looped)
                self.block(statement.orelse, looped)
            case ast.With() | ast.AsyncWith():
                self.block(statement.body, place)
            case ast.Try() | ast.TryStar():
                self.attempt(statement, place)
            case ast.ClassDef():
                self.class_(statement, _below(place, statement))
            case ast.Match():
                for number, case in enumerate(statement.cases):
                    self.block(case.body, _arm(place, statement, f"case {number}"))
            case _:
                pass

    def condition(self, node: ast.If, place: Place) -> None:
        test = self.names.resolve(node.test)
        if test in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.block(node.body, place._replace(type_checking=True))
            self.block(node.orelse, place)
            return
        arm = _arm(place, node, "if")
        if not place.in_function and _is_main_guard(node.test):
            arm = arm._replace(guard="under the main guard")
        self.block(node.body, arm)
        self.block(node.orelse, _arm(place, node, "else"))

    def attempt(self, node: ast.Try | ast.TryStar, place: Place) -> None:
        self.block(node.body, _arm(place, node, "try"))
        for number, handler in enumerate(node.handlers):
            self.block(handler.body, _arm(place, node, f"except {number}"))
        self.block(node.orelse, _arm(place, node, "try else"))
        self.block(node.finalbody, place)

    def misplaced(self, statement: ast.Expr, place: Place) -> None:
        text = is_directive_statement(statement)
        if text is not None:
            in_function = bool(place.scopes) and not isinstance(place.scopes[-1].node, ast.ClassDef)
            self.report.add("DIR103" if in_function else "DIR104", statement.value, text=text)

    # --- definitions

    def function(self, node: FunctionNode, place: Place) -> None:
        prologue = read_prologue(node.body, self.source)
        self.spelling(prologue)
        mark, is_broken = read_mark(node, prologue, self.names, self.report)
        if mark is None and not place.scopes and self.exports is not None and not place.type_checking:
            mark = self.exports.mark_of(node)
        if mark is not None and place.type_checking:
            self.report.add("DIR206", mark.node)
            mark = None
        sort: Sort | None = None
        if mark is not None:
            self.marked[node] = mark
            sort = self.sort(node, mark.kind, place)
            if is_broken or not check_definition(node, mark, place, self.report) or sort is None:
                sort = None
            else:
                self.define(node, mark, sort, place)
        for index in range(prologue.length, len(node.body)):
            if not _is_plain(node.body[index]):
                inner_kind = None if sort == "inert" else mark.kind if mark else None
                inner = place._replace(scopes=(*place.scopes, Enclosing(node, inner_kind)), arms=(), in_function=True)
                self.block(node.body, inner, index)
                break

    def sort(self, node: FunctionNode, kind: Word, place: Place) -> Sort | None:
        """How a marked function sits in its module; None if it may not sit there."""
        outer = [scope for scope in place.scopes if not isinstance(scope.node, ast.ClassDef)]
        local_class = _class_in_function(place)
        if local_class is not None:
            if local_class not in self.told:
                self.told.add(local_class)
                what = f"class {local_class.name} has marked methods, but is defined in a function"
                self.report.add_head("DIR114", local_class, what=what)
            return None
        if not outer:
            return "method" if place.scopes else "module"
        if kind == "workflow":
            if any(scope.kind for scope in outer):
                self.report.add_head("DIR114", node, what=f"workflow {node.name} is defined inside a marked function")
                return None
            self.report.add_head("DIR203", node, name=node.name, outer=outer[-1].node.name)
            return "local"
        if any(scope.kind == "step" for scope in outer):
            self.report.add("DIR202", self.marked[node].node, name=node.name)
            return "inert"
        is_local = any(d.node is scope.node and d.sort == "local" for d in self.definitions for scope in outer)
        in_workflow = any(scope.kind == "workflow" for scope in outer)
        return "hoisted" if in_workflow and not is_local else "kept"

    def define(self, node: FunctionNode, mark: Mark, sort: Sort, place: Place) -> None:
        identifier = identifier_of(place.scopes, node.name)
        if sort != "inert":
            for other in self.definitions:
                if other.identifier != identifier or other.sort == "inert":
                    continue
                may_repeat = sort in ("module", "method") and are_exclusive(other.place.arms, place.arms)
                if other.kind != mark.kind or not may_repeat:
                    self.report.add_head("DIR115", node, name=identifier, line=other.node.lineno)
                    return
        qualname = qualname_of(place.scopes, node.name)
        self.definitions.append(Definition(mark.kind, node, mark, sort, place, identifier, qualname, self.source.path))
        if sort == "method" and (mark.kind == "step" or _is_classmethod(node)):
            self.register(place.scopes[-1].node)

    def register(self, node: FunctionNode | ast.ClassDef) -> None:
        assert isinstance(node, ast.ClassDef)  # noqa: S101  # the parent of a method
        if node not in self.classes:
            place = self.class_places[node]
            self.classes[node] = ClassEntry(node, place, identifier_of(place.scopes, node.name), self.source.path)

    def class_(self, node: ast.ClassDef, place: Place) -> None:
        self.class_places[node] = place
        found = find_serialization(node, self.names, self.report) if self.may_serialize else None
        usable = not place.type_checking and not place.in_function
        if found is not None and usable:
            entry = ClassEntry(node, place, identifier_of(place.scopes, node.name), self.source.path)
            self.classes[node] = replace(entry, decorator=found.decorator, name=found.name)
        self.block(node.body, place._replace(scopes=(*place.scopes, Enclosing(node, None))))

    def spelling(self, prologue: Prologue) -> None:
        for wrong in prologue.wrong:
            if isinstance(wrong, NotPlain):
                self.report.add("DIR109", wrong.node, meant=wrong.meant)
            else:
                self.report.add("DIR108", wrong.node, text=wrong.text, meant=wrong.meant)


def scan(source: Source, report: Report) -> Scan:
    """Find every definition of a module, and report what is wrong with it."""
    names = read_names(source)
    walk = _Walk(source, names, report, "serializ" in source.text)
    prologue = read_prologue(source.tree.body, source, module=True)
    walk.spelling(prologue)
    module_mark = _module_mark(prologue, report)
    if module_mark is not None:
        walk.exports = read_exports(source.tree, prologue.length, module_mark, names, report)
    walk.block(source.tree.body, Place((), source.tree.body), prologue.length)
    if _LAMBDA.search(source.text):
        _lambdas(source, report)
    foreign = serializable_calls(source, names)
    broken = report.broken
    return Scan(
        source,
        names,
        tuple(d for d in walk.definitions if d.node not in broken),
        tuple(entry for entry in walk.classes.values() if entry.node not in broken),
        foreign,
        tuple(statement for _, statement in prologue.directives),
        walk.marked,
    )


def _module_mark(prologue: Prologue, report: Report) -> tuple[Word, ast.Expr] | None:
    if not prologue.directives:
        return None
    first = prologue.directives[0]
    for kind, statement in prologue.directives[1:]:
        if kind == first[0]:
            report.add("DIR201", statement.value, text=f"use {kind}")
        else:
            report.add("DIR105", statement.value)
    return first


def _lambdas(source: Source, report: Report) -> None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Lambda) and is_directive_statement(ast.Expr(node.body)):
            report.add("DIR205", node)


def _is_plain(statement: ast.stmt) -> bool:
    """Is there certainly nothing to find in this statement? So it is with most of a file; hence asked first."""
    kind = type(statement)
    if kind is ast.Expr:
        return type(statement.value) is not ast.Constant  # type: ignore[attr-defined]  # pyright: ignore
    return kind in _PLAIN


def _below(place: Place, statement: ast.stmt) -> Place:
    return place if place.top is not None else place._replace(top=statement)


def _arm(place: Place, node: ast.stmt, name: str) -> Place:
    if place.in_function:
        return place
    arms: Arms = (*place.arms, (node, name))
    return place._replace(arms=arms)


def _is_main_guard(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides: Sequence[ast.expr] = (test.left, test.comparators[0])
    has_name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return has_name and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


def _class_in_function(place: Place) -> ast.ClassDef | None:
    seen_function = False
    for scope in place.scopes:
        if not isinstance(scope.node, ast.ClassDef):
            seen_function = True
        elif seen_function:
            return scope.node
    return None


def _is_classmethod(node: FunctionNode) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "classmethod" for d in node.decorator_list)
