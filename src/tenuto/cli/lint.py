"""`tenuto lint`: what makes workflow code behave differently on replay, with directives or with decorators."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tenuto.directives.annotations import annotation_findings
from tenuto.directives.doubts import file_doubts
from tenuto.directives.errors import Finding, describe, to_json
from tenuto.directives.project import CompiledFile, compile_paths
from tenuto.model import ids

__all__ = ["command"]


@click.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--root", type=click.Path(exists=True, file_okay=False), help="The folder that ids are relative to.")
@click.option("--strict", is_flag=True, help="Also report what is allowed but not recommended (DIR3xx).")
@click.option("--select", multiple=True, metavar="CODE", help="Only these codes, or those that begin so (DIR4).")
@click.option("--json", "as_json", is_flag=True, help="Findings as a JSON list.")
def command(paths: tuple[Path, ...], root: str | None, strict: bool, select: tuple[str, ...], as_json: bool) -> None:
    """Find what makes workflow code behave differently on replay, below PATH (default: the current folder).

    Looks at workflows and the functions of the same file that they call, however they are marked: I/O and blocking
    calls, threads, iteration over sets, secrets and settings of the machine, steps that are never awaited, and
    methods that read the real clock. Clocks and randomness in a workflow itself are fine: the run has its own.
    Follows workflows into other files of the project to see whether the names of their operations can be listed,
    and names annotations of steps and workflows whose values no store takes.

    \b
    tenuto lint src
    tenuto lint src --select DIR4

    A comment at the end of the line switches a warning off: # tenuto: ignore[DIR402]

    Exit code 0: nothing found. 1: something was found. 2: the command line is wrong.
    """
    ids.use_root(root)
    files = list(compile_paths(paths or (Path(),), strict=strict))
    reported = [finding for file in files for finding in (*_of_file(file), *file_doubts(file.file))]
    findings = [finding for finding in dict.fromkeys(reported) if _is_selected(finding, select)]
    if as_json:
        click.echo(json.dumps([to_json(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(describe(finding))
        if not findings:
            click.echo(f"{len(files)} {'file' if len(files) == 1 else 'files'} with marks, nothing found", err=True)
    sys.exit(1 if findings else 0)


def _of_file(file: CompiledFile) -> Iterator[Finding]:
    """In the order of the file: what the compiler says, and what only this command looks for."""
    found = list(file.findings)
    if file.result.code is not None:
        found += annotation_findings(file.file.read_bytes(), str(file.file))
    yield from sorted(found, key=lambda finding: (finding.line, finding.column, finding.code))


def _is_selected(finding: Finding, select: tuple[str, ...]) -> bool:
    return not select or finding.code.startswith(select)
