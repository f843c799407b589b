"""The compiler: source in, syntax tree for one mode out, with the manifest and everything there is to say about it.

Pure and deterministic: equal input gives equal output, and every mode gives the same manifest and findings.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from tenuto.directives.captures import Captures, find_captures
from tenuto.directives.definitions import Report
from tenuto.directives.determinism import check_determinism
from tenuto.directives.errors import Finding, Span, errors_of, make_finding, unreadable
from tenuto.directives.host_mode import emit_host
from tenuto.directives.manifest import Manifest, dump, make_manifest
from tenuto.directives.scan import Scan, scan
from tenuto.directives.source import check_valid, ignored_codes, parse
from tenuto.directives.workflow_mode import emit_workflow

__all__ = ["MODES", "Mode", "Result", "render", "transform"]

Mode: TypeAlias = Literal["step", "workflow", "client"]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Result:
    """What the compiler made of a file. `code` is None when a finding is an error."""

    code: ast.Module | None
    manifest: Manifest
    findings: tuple[Finding, ...]
    header: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    is_changed: bool = False
    has_directives: bool = False  # not only decorators


def transform(
    source: str | bytes, path: str, mode: Mode, *, strict: bool = False, compiled_next: bool = False
) -> Result:
    """Compile one file for one mode. `path` is the path that ids are made of.

    Raises `SyntaxError` for what is not valid Python as it stands. A file that marks nothing comes back as it is. One
    that cannot be decoded, or is nested deeper than Python's own parser and compiler can follow, is a finding.
    With `compiled_next` the caller hands the code to Python at once, which finds what is wrong with the code that
    stays as it was written; here only the rest is checked. To check everything twice takes as long as a plain import.
    """
    try:
        return _transform(source, path, mode, strict=strict, compiled_next=compiled_next)
    except (RecursionError, MemoryError):
        wrong = "is nested too deeply to be compiled"
    except UnicodeError as error:
        wrong = f"is not text that Python can read: {error}"
    return Result(None, {}, (unreadable(path, wrong),))


def _transform(source: str | bytes, path: str, mode: Mode, *, strict: bool, compiled_next: bool) -> Result:
    parsed = parse(source, path)
    report = Report(parsed, strict)
    if not compiled_next:
        check_valid(parsed.tree.body, path)
    found = scan(parsed, report)
    captures = find_captures(found, report)
    found = _without_broken(found, report)
    check_determinism(found, report)
    if _is_nowhere(path) and (found.definitions or found.classes):
        report.findings.append(make_finding("DIR119", path, Span(1, 1, 1, 1), {}))
    findings = _sorted(report.findings, ignored_codes(parsed.text))
    manifest = make_manifest(found)
    is_changed = bool(found.definitions or found.classes or found.foreign or found.module_directives)
    is_wrong = bool(errors_of(findings))
    if compiled_next and (is_changed or is_wrong):
        check_valid(parsed.tree.body if is_wrong or mode == "workflow" else _rewritten(found), path)
    code: ast.Module | None = None
    if not is_wrong:
        code = _emit(found, captures, mode) if is_changed else parsed.tree
    has_directives = bool(found.module_directives) or any(d.mark.directives for d in found.definitions)
    return Result(code, manifest, findings, parsed.header, parsed.lines, is_changed, has_directives)


def _rewritten(found: Scan) -> list[ast.stmt]:
    """The statements of which step and client mode leave anything out, behind what decides how they are read."""
    body = found.source.tree.body
    last = body.index(found.module_directives[-1]) if found.module_directives else -1
    heads = [s for i, s in enumerate(body) if i <= last or (isinstance(s, ast.ImportFrom) and s.module == "__future__")]
    tops: dict[ast.stmt, None] = {}
    for definition in found.definitions:
        mark = definition.mark
        is_kept = definition.kind == "step" and definition.sort in ("module", "method")
        if not is_kept or mark.decorator is not None or mark.option_decorators:
            assert definition.place.top is not None  # noqa: S101  # a definition has at least itself
            tops[definition.place.top] = None
    return [*heads, *tops]


def _emit(found: Scan, captures: Mapping[ast.AST, Captures], mode: Mode) -> ast.Module:
    if mode == "workflow":
        return emit_workflow(found, captures)
    return emit_host(found, captures, client=mode == "client")


def _without_broken(found: Scan, report: Report) -> Scan:
    kept = tuple(d for d in found.definitions if d.node not in report.broken)
    return Scan(found.source, found.names, kept, found.classes, found.foreign, found.module_directives, found.functions)


def _is_nowhere(path: str) -> bool:
    return not path or path.startswith("<")


def _sorted(findings: list[Finding], ignored: Mapping[int, frozenset[str]]) -> tuple[Finding, ...]:
    """In the order of the file, without the warnings that a comment switches off."""
    kept = [f for f in findings if f.level == "error" or f.code not in ignored.get(f.line, frozenset())]
    return tuple(sorted(kept, key=lambda f: (f.line, f.column, f.code)))


def render(result: Result) -> str:
    """The output as text: shebang and cookie, the manifest line, the code; empty when there is an error.

    Raises `ValueError` for code that runs and that `ast` cannot write.
    """
    if result.code is None:
        return ""
    lines = list(result.header)
    if result.is_changed:
        lines.append(f"#__internal_workflows{dump(result.manifest)}")
    try:
        lines.append(ast.unparse(result.code))
    except RecursionError:
        raise ValueError("it is nested too deeply to be written out") from None
    return "\n".join(lines) + "\n"
