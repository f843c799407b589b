"""The compiler over code that it was not written for: it never fails, and what marks nothing comes back as it is."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenuto.directives.errors import errors_of
from tenuto.directives.transform import MODES, transform

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
