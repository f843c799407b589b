"""DIR409: annotations of steps and workflows whose values no store takes. For the command line.

Without it the first result of such a type says so, when the step has had its effect.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from tenuto.directives.classes import find_serialization
from tenuto.directives.definitions import Report
from tenuto.directives.errors import Finding
from tenuto.directives.names import dotted
from tenuto.directives.scan import Scan, scan
from tenuto.directives.source import ignored_codes, parse

__all__ = ["annotation_findings"]

_TEXT: Final = "use str, and {name} where it is needed"
_DICT: Final = "use dict"
_LIST: Final = "use list"
_PATHS: Final = ("Path", "PurePath", "PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")

# Dotted name -> what to do. Pydantic's urls, of which there are many, are told by the end of their name.
_UNSTORABLE: Final[Mapping[str, str]] = {
    **{f"pathlib.{name}": _TEXT for name in _PATHS},
    **{f"pydantic.{name}": _TEXT for name in ("FilePath", "DirectoryPath", "NewPath", "SecretStr", "SecretBytes")},
    **{f"collections.{name}": _DICT for name in ("OrderedDict", "defaultdict", "Counter", "ChainMap")},
    **{f"typing.{name}": _DICT for name in ("OrderedDict", "DefaultDict", "Counter", "ChainMap")},
    **dict.fromkeys(("types.MappingProxyType", "types.SimpleNamespace"), _DICT),
    **dict.fromkeys(("collections.deque", "typing.Deque", "range"), _LIST),
    **{f"ipaddress.IPv{n}{kind}": _TEXT for n in (4, 6) for kind in ("Address", "Network", "Interface")},
    **dict.fromkeys(("fractions.Fraction", "re.Pattern", "zoneinfo.ZoneInfo", "complex"), _TEXT),
    "memoryview": "use bytes",
}


def annotation_findings(source: str | bytes, path: str) -> tuple[Finding, ...]:
    """The findings about a file that compiles without an error."""
    parsed = parse(source, path)
    found = scan(parsed, Report(parsed, strict=False))
    report = Report(parsed, strict=False)
    _check(found, report)
    ignored = ignored_codes(parsed.text)
    return tuple(finding for finding in report.findings if finding.code not in ignored.get(finding.line, frozenset()))


def _check(scan: Scan, report: Report) -> None:
    """Look at marked functions, and at the fields of the module's classes that they name."""
    marked = [definition for definition in scan.definitions if definition.sort != "inert"]
    if not marked:
        return
    annotations = _Annotations(scan, report)
    for definition in marked:
        given = definition.node.args
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if argument is not None:
                annotations.check(argument.annotation)
        annotations.check(definition.node.returns)


class _Annotations:
    def __init__(self, scan: Scan, report: Report) -> None:
        self._names = scan.names
        self._report = report
        self._classes = {node.name: node for node in scan.source.tree.body if isinstance(node, ast.ClassDef)}
        self._defined = self._classes.keys() | {
            target.id
            for node in scan.source.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        # `serializable(HttpUrl, serialize=str, ...)` takes care of it.
        self._known = {dotted(foreign.call.args[0]) for foreign in scan.foreign if foreign.call.args}
        self._looked_at: set[str] = set()

    def check(self, annotation: ast.expr | None, at: ast.expr | None = None) -> None:
        """Report what a store does not take; `at` is the text that an annotation was quoted in."""
        if annotation is None:
            return
        for node, place in _named(annotation, at):
            written = dotted(node)
            if written is None or written in self._known:
                continue
            if written in self._classes:
                self._check_class(self._classes[written])
                continue
            fix = self._fix(written, node)
            if fix is not None:
                self._report.add("DIR409", place, name=written, fix=fix.format(name=written))

    def _fix(self, written: str, node: ast.expr) -> str | None:
        if written in self._defined:
            return None
        name = self._names.resolve(node) or ""
        if name.startswith("pydantic.") and name.endswith(("Url", "Dsn")):
            return _TEXT
        return _UNSTORABLE.get(name)

    def _check_class(self, node: ast.ClassDef) -> None:
        """The fields of a class whose objects are stored field by field."""
        silent = Report(self._report.source, self._report.strict)
        if node.name in self._looked_at or find_serialization(node, self._names, silent) is not None:
            return
        self._looked_at.add(node.name)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign):
                self.check(statement.annotation)


def _named(annotation: ast.expr, at: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names in an annotation, each with the expression to point at."""
    match annotation:
        case ast.Constant(value=str(text)):
            try:
                inner = ast.parse(text, mode="eval").body
            except SyntaxError:
                return
            yield from _named(inner, at or annotation)
        case ast.Name() | ast.Attribute():
            yield annotation, at or annotation
        case ast.Subscript(value=value, slice=inside):
            yield from _named(value, at)
            outer = (dotted(value) or "").rpartition(".")[2]
            if outer == "Annotated" and isinstance(inside, ast.Tuple) and inside.elts:
                yield from _named(inside.elts[0], at)
            elif outer not in ("Annotated", "Literal", "ClassVar"):
                yield from _named(inside, at)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _named(element, at)
        case ast.BinOp(left=left, right=right):
            yield from _named(left, at)
            yield from _named(right, at)
        case _:
            pass
