"""What the scan finds: definitions, the places they sit in, and the report of what is wrong with them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from tenuto.directives.errors import Finding, Related, make_finding
from tenuto.directives.prologue import Word
from tenuto.directives.source import FunctionNode, Source

__all__ = [
    "Arms",
    "ClassEntry",
    "Definition",
    "Enclosing",
    "ForeignClass",
    "Mark",
    "Place",
    "Report",
    "Sort",
    "are_exclusive",
    "identifier_of",
    "qualname_of",
]

# Which arm of which branching statement something is in, outermost first.
Arms: TypeAlias = tuple[tuple[ast.stmt, str], ...]

# module: at top level; method: static or class method; hoisted: step in a workflow, leaves a copy at module level;
# kept: step in an ordinary function, stays and leaves a copy too; local: workflow in an ordinary function;
# inert: step inside a step, an ordinary function.
Sort: TypeAlias = Literal["module", "method", "hoisted", "kept", "local", "inert"]


@dataclass(frozen=True, slots=True)
class Enclosing:
    """A function or class around a definition; `kind` if that function is marked."""

    node: FunctionNode | ast.ClassDef
    kind: Word | None


class Place(NamedTuple):
    """Where a definition sits. A tuple, because the scan makes one for nearly every block of a file."""

    scopes: tuple[Enclosing, ...]  # outermost first
    block: list[ast.stmt]  # the module-level block that holds `top`
    top: ast.stmt | None = None  # the outermost definition around it, or itself
    arms: Arms = ()  # within the innermost class or the module; inside of functions nobody asks
    guard: str = ""  # "in a loop", "under the main guard"
    type_checking: bool = False
    in_function: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """What makes a function a step or workflow."""

    kind: Word
    node: ast.expr  # the directive's string, or the decorator
    directives: tuple[ast.Expr, ...] = ()  # statements to take out of the body
    decorator: ast.expr | None = None
    options: tuple[ast.keyword, ...] = ()
    option_decorators: tuple[ast.expr, ...] = ()

    @property
    def name(self) -> ast.expr | None:
        """What was given as `name=`."""
        return next((option.value for option in self.options if option.arg == "name"), None)

    @property
    def literal_name(self) -> str | None:
        given = self.name
        return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None

    @property
    def is_computed(self) -> bool:
        """Is the id known only at run time?"""
        spread = any(option.arg is None for option in self.options)
        return spread or (self.name is not None and self.literal_name is None)


@dataclass(frozen=True, slots=True)
class Definition:
    """A step or workflow."""

    kind: Word
    node: FunctionNode
    mark: Mark
    sort: Sort
    place: Place
    identifier: str
    qualname: str
    path: str

    @property
    def id(self) -> str:
        """Its id; of one with a computed name, the id it would have without."""
        return self.mark.literal_name or f"{self.kind}//{self.path}//{self.identifier}"

    @property
    def line(self) -> int | None:
        """What tells definitions of one id apart, where it stands in a branch that may not run."""
        return self.node.lineno if self.place.arms and self.sort in ("module", "method") else None


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """A class whose instances, or which itself, can be stored."""

    node: ast.ClassDef
    place: Place
    identifier: str
    path: str
    decorator: ast.expr | None = None  # a bare `@serializable`
    name: str | None = None

    @property
    def id(self) -> str:
        return self.name or f"class//{self.path}//{self.identifier}"


@dataclass(frozen=True, slots=True)
class ForeignClass:
    """A call `serializable(cls, serialize=..., deserialize=...)` at module level."""

    call: ast.Call
    identifier: str
    path: str

    @property
    def id(self) -> str:
        return f"class//{self.path}//{self.identifier}"


@dataclass(slots=True)
class Report:
    """Collects the findings of one file; `broken` are the definitions that have an error."""

    source: Source
    strict: bool
    findings: list[Finding] = field(default_factory=list[Finding])
    broken: set[ast.AST] = field(default_factory=set[ast.AST])

    def add(self, code: str, node: ast.expr | ast.stmt, **fields: object) -> None:
        """Report something at a node."""
        if code[3] != "3" or self.strict:
            self.findings.append(make_finding(code, self.source.path, self.source.span(node), fields))

    def add_head(self, code: str, node: FunctionNode | ast.ClassDef, **fields: object) -> None:
        """Report something at the `def` or `class` of a definition; an error breaks it."""
        if code[3] == "3" and not self.strict:
            return
        line = fields.get("line")
        related = (Related(line, "first defined here"),) if code == "DIR115" and isinstance(line, int) else ()
        finding = make_finding(code, self.source.path, self.source.head(node), fields, related)
        self.findings.append(finding)
        if finding.level == "error":
            self.broken.add(node)


def identifier_of(scopes: Sequence[Enclosing], name: str) -> str:
    """`pack/label`, `Mailer.send`, `Mailer.build/part`."""
    return _join(scopes, name, "/")


def qualname_of(scopes: Sequence[Enclosing], name: str) -> str:
    """What Python calls it: `pack.<locals>.label`."""
    return _join(scopes, name, ".<locals>.")


def _join(scopes: Sequence[Enclosing], name: str, nested: str) -> str:
    text = ""
    for scope in scopes:
        text += scope.node.name + ("." if isinstance(scope.node, ast.ClassDef) else nested)
    return text + name


def are_exclusive(first: Arms, second: Arms) -> bool:
    """Can at most one of two places have been run? (The body of a `try` and its `else` both are.)"""
    for (one, arm), (other, other_arm) in zip(first, second, strict=False):
        if one is not other:
            return False
        if arm != other_arm:
            return {arm, other_arm} != {"try", "try else"}
    return False
