"""Loads the user's code, so that its workflows and steps are registered.

Only what the user names on the command line or in TENUTO_APP is loaded, never a name found in data. Directives are
compiled, as with `tenuto run`; the program's `if __name__ == "__main__"` part is not run.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import click

from tenuto.cli.output import safe
from tenuto.directives.errors import Finding, describe
from tenuto.model import ids

__all__ = ["LoadError", "load_apps", "load_object"]


class LoadError(click.ClickException):
    """The user's code could not be loaded."""

    exit_code = 5

    def show(self, file: object = None) -> None:
        for line in self.message.splitlines():
            click.echo(safe(line), err=True)


def load_apps(names: Sequence[str], root: str | None = None) -> None:
    """Imports modules, or files, with their directives compiled; `LoadError` where that fails."""
    if not names:
        return
    from tenuto.directives.importer import install

    install(root)
    for name in names:
        try:
            if name.endswith(".py") or "/" in name or "\\" in name:
                _load_file(Path(name))
            else:
                _search_first(str(Path.cwd()))
                import_module(name)
        except LoadError:
            raise
        except SystemExit as left:
            click.echo(f"{safe(name)} left with {left.code} while it was being loaded", err=True)
            raise
        except SyntaxError as error:
            raise LoadError(_syntax(name, error)) from error
        except Exception as error:
            # The user's code may raise anything while it is loaded: it is said, with its place, and the command ends.
            raise LoadError(_place(name, error)) from error


def load_object(text: str, option: str) -> Any:
    """What the user calls MODULE:NAME in an option; `LoadError` where it is not there."""
    module, _, name = text.partition(":")
    if not module or not name.isidentifier():
        raise click.UsageError(f"{option} {text}: write MODULE:NAME")
    load_apps([module])
    found = sys.modules.get(module)
    if found is None or not hasattr(found, name):
        raise LoadError(f"{option} {text}: module {module} has no {name}")
    return getattr(found, name)


def _load_file(file: Path) -> None:
    from tenuto.directives.importer import DirectiveLoader

    path = file.absolute()
    if not path.is_file():
        raise LoadError(f"there is no file {file}")
    _search_first(str(path.resolve().parent))
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return
    if known is not None:
        name = f"tenuto_app_{name}"  # a module of that name is there already: Python's own, or another file's
    loader = DirectiveLoader(name, str(path), "step")
    spec = spec_from_loader(name, loader, origin=str(path))
    assert spec is not None  # noqa: S101  # there is a loader
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _search_first(folder: str) -> None:
    if folder not in sys.path and not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _syntax(name: str, error: SyntaxError) -> str:
    findings = [found for found in getattr(error, "findings", ()) if isinstance(found, Finding)]
    if findings:
        return "\n".join([f"{name} cannot be loaded:", *(f"  {describe(finding)}" for finding in findings)])
    return f"{name} cannot be loaded: {error.filename or name}:{error.lineno or 1}: {error.msg}"


def _place(name: str, error: Exception) -> str:
    """Says what was raised and where, in the last line of the user's own code."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and ids.is_project_file(frame.filename)
    ]
    place = f"\n  at        {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
    return f"{name} cannot be loaded: {type(error).__name__}: {error}{place}"
