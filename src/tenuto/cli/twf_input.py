"""What the TWF commands read: files, directories, standard input, and modules of bindings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from tenuto.twf.checks import Bound
from tenuto.twf.program import NotText, decode
from tenuto.twf.source import Source

__all__ = ["STDIN", "UsageProblem", "load_bound", "load_provided", "namespaces_of", "read_sources", "write_file"]

STDIN: Final = "<stdin>"
_IMPORT_FAILURES: Final = (
    ImportError,
    SyntaxError,
    AttributeError,
    NameError,
    TypeError,
    ValueError,
    LookupError,
    OSError,
    RuntimeError,
    AssertionError,
)


class UsageProblem(click.ClickException):
    """Something on the command line does not work; exit code 2."""

    exit_code = 2


def read_sources(paths: Iterable[str]) -> list[Source | NotText]:
    """Every file named or below a named directory, once each, as one program."""
    found: dict[str, Source | NotText] = {}
    for path in paths:
        if path == "-":
            found.setdefault(STDIN, decode(STDIN, sys.stdin.buffer.read()))
            continue
        for file in _files(Path(path)):
            name = file.as_posix()
            if name not in found:
                found[name] = _read(file, name)
    return list(found.values())


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageProblem(f"{path}: no such file or directory")
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*.twf") if file.is_file())


def _read(file: Path, name: str) -> Source | NotText:
    try:
        return decode(name, file.read_bytes())
    except OSError as error:
        raise UsageProblem(f"{name}: {error.strerror or error}") from error


def write_file(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or error}") from error


def namespaces_of(given: Iterable[str]) -> dict[str, str]:
    """The stores of `--namespace NAME=URL`, by name."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, url = text.partition("=")
        if not equals or not name or not url:
            raise UsageProblem(f"--namespace {name}: write NAME=URL")
        found[name] = url
    return found


def load_provided(name: str) -> object:
    """What `pkg.mod[:attr]` names; `bindings` where no attribute is named."""
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module_name), attribute or "bindings")
    except _IMPORT_FAILURES as error:
        raise UsageProblem(f"--bindings {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))


def load_bound(name: str) -> Bound:
    """What `pkg.mod[:attr]` provides: a `Bound`, or an object whose `bound()` gives one."""
    provided = load_provided(name)
    try:
        bound: object = provided if isinstance(provided, Bound) else getattr(provided, "bound")()  # noqa: B009
    except _IMPORT_FAILURES as error:
        raise UsageProblem(f"--bindings {name}: {type(error).__name__}: {error}") from error
    if not isinstance(bound, Bound):
        raise UsageProblem(f"--bindings {name}: {type(provided).__name__} is not a Bindings object")
    return bound
