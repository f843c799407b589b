"""The compiler over code that it was not written for: it never fails, and what marks nothing comes back as it is."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto.directives import install
from tenuto.directives.errors import errors_of
from tenuto.directives.project import compile_paths
from tenuto.directives.transform import MODES, render, transform
from tenuto.errors import DirectiveError

STANDARD_LIBRARY = Path(os.__file__).parent
SHARES = 8  # of the standard library, to be run side by side
PACKAGES = (
    "pydantic",
    "hypothesis",
    "pygments",
    "rich",
    "setuptools",
    "pytest",
    "click",
    "virtualenv",
    "coverage",
    "attrs",
)
NOT_MODULES = {"test", "tests", "idle_test", "site-packages", "__pycache__", "lib2to3", "turtledemo"}


def standard_library() -> list[Path]:
    found: list[Path] = []
    for folder, names, files in os.walk(STANDARD_LIBRARY):
        names[:] = sorted(name for name in names if name not in NOT_MODULES)
        found.extend(Path(folder) / name for name in sorted(files) if name.endswith(".py"))
    return found


def files_of(package: str) -> Iterator[Path]:
    for file in importlib.metadata.files(package) or ():
        if file.suffix == ".py":
            yield Path(str(file.locate()))


def check(files: list[Path]) -> int:
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in files:
            source = file.read_bytes()
            try:
                expected = compile(source, "m.py", "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue  # test data of somebody
            mode = MODES[checked % 3]
            result = transform(source, "m.py", mode)
            assert result.code is not None, file
            assert not result.is_changed, file
            assert compile(result.code, "m.py", "exec", dont_inherit=True) == expected, file
            checked += 1
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_every_module_of_the_standard_library_comes_back_as_it_is(share: int) -> None:
    assert check(standard_library()[share::SHARES]) > 50


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_of_a_large_package_comes_back_as_it_is(package: str) -> None:
    try:
        files = [file for file in files_of(package) if file.exists()]
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    assert check(files) > 10


MARKED_AT_RANDOM = ("asyncio", "concurrent", "json", "xml", "importlib", "logging", "wsgiref")


def with_marks(source: bytes, every: int) -> str:
    """A module with directives in every n-th function, wherever that is, steps and workflows by turns."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for number, node in enumerate(functions[::every]):
        word = "use workflow" if number % 3 == 0 else "use step"
        node.body.insert(0, ast.Expr(ast.Constant(word)))
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.slow
@pytest.mark.parametrize("package", MARKED_AT_RANDOM)
def test_marks_in_impossible_places_give_findings_and_never_an_internal_error(package: str) -> None:
    for file in sorted((STANDARD_LIBRARY / package).glob("*.py")):
        for every in (1, 7):
            try:
                text = with_marks(file.read_bytes(), every)
                compile(text, "m.py", "exec", dont_inherit=True)
            except SyntaxError:
                continue  # two strings before a __future__ import, and the like
            results = [transform(text, "m.py", mode) for mode in MODES]
            assert results[0].findings == results[1].findings == results[2].findings
            for result in results:
                assert (result.code is None) == bool(errors_of(result.findings))
                if result.code is not None:
                    compile(result.code, "m.py", "exec", dont_inherit=True)


HEAD = "async def w():\n    'use workflow'\n"
TOO_MUCH = {
    "a long chain of signs": f"{HEAD}    x = {'-' * 100_000}1",
    "a long sum": f"{HEAD}    x = {'+'.join(['a'] * 20_000)}",
    "a sum that only the compiler finds too long": f"{HEAD}    x = {'+'.join(['a'] * 2_500)}",
    "a long chain of attributes": f"{HEAD}    x = a{'.b' * 20_000}",
    "many branches": f"{HEAD}    if a: pass\n" + "".join(f"    elif a == {n}: pass\n" for n in range(5_000)),
    "half of a character": f"{HEAD}    x = '\ud800'",
    "bytes that are no text": f"{HEAD}    x = '".encode() + b"\xff'",
    "half of a character in the path": "",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_cannot_be_read_is_a_finding_in_every_mode(name: str) -> None:
    for mode in MODES:
        source, path = (HEAD, "\ud800.py") if not TOO_MUCH[name] else (TOO_MUCH[name], "m.py")
        for compiled_next in (False, True):
            result = transform(source, path, mode, compiled_next=compiled_next)
            assert (result.code is None) == bool(errors_of(result.findings))
            if result.code is None:
                (finding,) = result.findings
                assert finding.code == "syntax"
                assert render(result) == ""


def test_code_that_runs_and_cannot_be_written_out_is_refused_by_name() -> None:
    result = transform(f"{HEAD}    x = {'+'.join(['a'] * 900)}\n", "m.py", "workflow")
    assert result.code is not None
    compile(result.code, "m.py", "exec", dont_inherit=True)
    with pytest.raises(ValueError, match="nested too deeply"):
        render(result)


def test_a_deep_file_is_one_line_of_the_command_and_an_error_at_import(project: Any) -> None:
    folder = project({"deep.py": TOO_MUCH["a long sum"], "good.py": HEAD})
    files = list(compile_paths([folder]))
    assert [(file.file.name, [finding.code for finding in file.findings]) for file in files] == [
        ("deep.py", ["syntax"]),
        ("good.py", []),
    ]
    install()
    with pytest.raises(DirectiveError, match="nested too deeply"):
        importlib.import_module("deep")
