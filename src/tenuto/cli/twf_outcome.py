"""What the commands that run programs read and print: arguments, results, failures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import click

from tenuto.errors import TwfError
from tenuto.twf.program import NotText
from tenuto.twf.run import Bindings, CompiledProgram, load_program
from tenuto.twf.run.failures import type_and_message
from tenuto.twf.run.values import is_list, is_map
from tenuto.twf.source import Source

from .twf_input import STDIN, UsageProblem, load_provided, read_sources

__all__ = ["arguments_of", "by_position", "failure_json", "load", "plain", "print_outcome", "workflow_name"]


def load(paths: Sequence[str], bindings: str | None) -> tuple[CompiledProgram, Bindings]:
    """The program of these paths with its bindings; findings end the command with 1."""
    provided = load_provided(bindings) if bindings else Bindings()
    if not isinstance(provided, Bindings):
        raise UsageProblem(f"--bindings {bindings}: {type(provided).__name__} is not a Bindings object")
    files: dict[str, str] = {}
    sources = read_sources(paths)
    roots = [PurePosixPath(path) for path in paths if path != "-"]
    for source in sources:
        if isinstance(source, NotText):
            click.secho(f"{source.path}: {source.diagnostic.code}: {source.diagnostic.message}", fg="red", err=True)
            raise SystemExit(1)
        files[_below(source, roots)] = source.text
    try:
        return load_program(files=files, bindings=provided), provided
    except TwfError as error:
        click.secho(str(error.message), fg="red", err=True)
        raise SystemExit(1) from error


def _below(source: Source, roots: Sequence[PurePosixPath]) -> str:
    """The path below the root it was loaded from, which is what a program's hash is made of."""
    path = PurePosixPath(source.path)
    if source.path == STDIN:
        return STDIN
    for root in roots:
        if root == path:
            return path.name
        if root in path.parents:
            return path.relative_to(root).as_posix()
    return path.name


def workflow_name(program: CompiledProgram, asked: str | None) -> str:
    """The workflow to run: the one asked for, or the only one."""
    known = list(program.workflows)
    if asked is None and len(known) == 1:
        return known[0]
    if asked is None:
        raise UsageProblem(f"--workflow is needed: there are {', '.join(known) or 'no workflows'}")
    if asked not in program.workflows:
        raise UsageProblem(f"--workflow {asked}: no such workflow (there is: {', '.join(known) or 'none'})")
    return asked


def arguments_of(program: CompiledProgram, name: str, given: Sequence[str]) -> list[Any]:
    """Arguments by position; what is no JSON is a string, and so is what a parameter of type `string` gets."""
    texts = program.workflows[name].parameters.texts
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageProblem(f"--arg {text}: write NAME=JSON")
        decoded = from_json(value)
        found[key] = value if key in texts and not isinstance(decoded, str) else decoded
    return by_position(program, name, found)


def by_position(program: CompiledProgram, name: str, given: Mapping[str, Any]) -> list[Any]:
    """The arguments of a workflow in the order of its parameters."""
    parameters = program.workflows[name].parameters.names
    for key in given:
        if key not in parameters:
            raise UsageProblem(f"--arg {key}: {name} takes {', '.join(parameters) or 'no arguments'}")
    missing = [key for key in parameters if key not in given]
    if missing:
        raise UsageProblem(f"{name} needs --arg {' and --arg '.join(f'{key}=…' for key in missing)} (TWF505)")
    return [given[key] for key in parameters]


def from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def plain(value: Any) -> Any:
    """A value as JSON has it: durations in seconds, timestamps as RFC 3339."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds == int(seconds) else seconds
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if is_map(value):
        return {str(key): plain(item) for key, item in value.items()}
    if is_list(value) or isinstance(value, tuple):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # the user's own
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def failure_json(error: BaseException | None) -> dict[str, Any] | None:
    if error is None:
        return None
    sort, message, details = type_and_message(error)
    twf = error if isinstance(error, TwfError) else None
    return {
        "type": sort,
        "message": message,
        "details": plain(details),
        "source": twf.source if twf else None,
        "code": twf.code if twf else None,
        "file": twf.file if twf else None,
        "line": twf.line if twf else None,
    }


def print_outcome(document: dict[str, Any]) -> None:
    """For people: the result, or why there is none."""
    failure = document["failure"]
    if document["status"] == "completed":
        click.echo(json.dumps(document["result"], ensure_ascii=False))
    elif failure is not None:
        where = f"{failure['file']}:{failure['line']}: " if failure["file"] else ""
        source = f" (from {failure['source']})" if failure["source"] else ""
        click.secho(
            f"{where}{failure['code'] or ''} {failure['type']}: {failure['message']}{source}", fg="red", err=True
        )
    else:
        click.secho(f"{document['status']}: {document['parked'] or ''}".rstrip(": "), fg="yellow", err=True)
