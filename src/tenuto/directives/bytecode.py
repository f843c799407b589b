"""A file as code: compiled for one mode, with its manifest in it."""

from __future__ import annotations

import ast
import gc
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from types import CodeType
from typing import Any

from tenuto.directives.errors import DirectiveWarning, Finding, as_error, describe, errors_of
from tenuto.directives.settings import is_strict
from tenuto.directives.transform import Mode, Result, transform
from tenuto.errors import DirectiveError

__all__ = ["carry_manifest", "compile_file"]


def compile_file(source: bytes | str, filename: str, path: str, mode: Mode, optimize: int = -1) -> CodeType:
    """The code object of a file in one mode. Raises `DirectiveError` for its errors, warns of the rest."""
    _keep_memory()
    with _collector_paused():
        code, findings = _compile(source, filename, path, mode, optimize)
    if mode != "workflow":
        for finding in findings:
            warnings.warn_explicit(DirectiveWarning(describe(finding)), None, filename, finding.line)
    return code


def _compile(
    source: bytes | str, filename: str, path: str, mode: Mode, optimize: int
) -> tuple[CodeType, tuple[Finding, ...]]:
    try:
        result = transform(source, path, mode, strict=is_strict(filename), compiled_next=True)
    except DirectiveError:
        raise
    except SyntaxError as error:
        error.filename = filename  # the compiler knows only the id's path
        raise
    if errors_of(result.findings):
        raise as_error(result.findings, filename, result.lines)
    tree = result.code
    assert tree is not None  # noqa: S101  # there was no error
    if result.is_changed and mode != "workflow":
        carry_manifest(tree, result)
    return compile(tree, filename, "exec", dont_inherit=True, optimize=optimize), result.findings


@cache
def _keep_memory() -> None:
    """Let the memory of one file's tree be used for that of the next.

    The C library of Linux gives it back to the system after each file, and gets it again page by page, which takes
    longer than looking for directives. It stops doing so for blocks of the size of the largest that was ever freed.
    """
    block = bytes(1 << 19)
    del block


@contextmanager
def _collector_paused() -> Generator[None, None, None]:
    """A syntax tree is thousands of objects without a cycle among them: looking for one takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def carry_manifest(tree: ast.Module, result: Result) -> None:
    """Let the module know its manifest before its own code runs: a script may start runs while it is executed."""
    is_head = True
    for index, statement in enumerate(tree.body):
        is_head = is_head and isinstance(statement, ast.Expr | ast.ImportFrom)
        if not is_head or (isinstance(statement, ast.ImportFrom) and statement.module != "__future__"):
            tree.body.insert(index, _manifest_assignment(result))
            return


def _manifest_assignment(result: Result) -> ast.stmt:
    made = ast.Assign([ast.Name("__tenuto_manifest__", ast.Store())], _literal(result.manifest))
    return ast.fix_missing_locations(made)  # line 1


def _literal(value: Mapping[str, Any] | str) -> ast.expr:
    if isinstance(value, str):
        return ast.Constant(value)
    return ast.Dict([ast.Constant(key) for key in value], [_literal(inner) for inner in value.values()])
