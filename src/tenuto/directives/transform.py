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
from tenuto.directives.errors import Finding, Span, errors_of, make_finding
from tenuto.directives.host_mode import emit_host
from tenuto.directives.manifest import Manifest, dump, make_manifest
from tenuto.directives.scan import Scan, scan
from tenuto.directives.source import ignored_codes, parse
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


def transform(source: str | bytes, path: str, mode: Mode, *, strict: bool = False) -> Result:
    """Compile one file for one mode. `path` is the path that ids are made of.

    Raises `SyntaxError` for what is not valid Python as it stands. A file that marks nothing comes back as it is.
    """
    parsed = parse(source, path)
    report = Report(parsed, strict)
    found = scan(parsed, report)
    captures = find_captures(found, report)
    found = _without_broken(found, report)
    check_determinism(found, report)
    if _is_nowhere(path) and (found.definitions or found.classes):
        report.findings.append(make_finding("DIR119", path, Span(1, 1, 1, 1), {}))
    findings = _sorted(report.findings, ignored_codes(parsed.text))
    manifest = make_manifest(found)
    is_changed = bool(found.definitions or found.classes or found.foreign or found.module_directives)
    code: ast.Module | None = None
    if not errors_of(findings):
        code = _emit(found, captures, mode) if is_changed else parsed.tree
    has_directives = bool(found.module_directives) or any(d.mark.directives for d in found.definitions)
    return Result(code, manifest, findings, parsed.header, parsed.lines, is_changed, has_directives)


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
    """The output as text: shebang and cookie, the manifest line, the code; empty when there is an error."""
    if result.code is None:
        return ""
    lines = list(result.header)
    if result.is_changed:
        lines.append(f"#__internal_workflows{dump(result.manifest)}")
    lines.append(ast.unparse(result.code))
    return "\n".join(lines) + "\n"
