"""Loading programs: from files, from the store, and registering what they define."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenuto.errors import DuplicateIdError, TwfError
from tenuto.model.definitions import Step
from tenuto.model.registry import default

from .activities import Performer, perform_queued
from .bindings import Bindings
from .compiled import CompiledProgram, compile_program
from .faults import Stopped
from .library import library
from .workflows import TwfWorkflow

__all__ = ["load_program", "pinned_workflow", "read_files", "read_program"]


def load_program(
    *paths: str | os.PathLike[str],
    files: Mapping[str, str] | None = None,
    bindings: Bindings | None = None,
) -> CompiledProgram:
    """Loads files, or all `*.twf` below directories, as one program and registers its workflows.

        load_program("flows/orders.twf", bindings=b)
        run = await app.start("OrderWorkflow", {"id": "42"})

    New runs take the program that was loaded last; runs under way keep the text they started with. `files` gives texts
    by path instead. A program with errors is refused whole.
    """
    texts = [*read_files(paths), *(files or {}).items()]
    program = _compiled(tuple(sorted(texts)), bindings)
    for name in program.workflows:
        _refuse_taken(name)
    if bindings is not None:
        library.add(bindings)
    for compiled in program.workflows.values():
        default.register(TwfWorkflow(compiled, bindings))
    for name in program.activities:
        default.register(_queued_step(name))
    return program


def _refuse_taken(name: str) -> None:
    """A Python workflow has this id: said before anything is registered, so that a program is loaded whole or not."""
    known = default.get(name)
    if known is not None and not isinstance(known, TwfWorkflow):
        raise DuplicateIdError(f"id {name!r} belongs to {known!r} and was asked for by a TWF program")


def _compiled(texts: Sequence[tuple[str, str]], bindings: Bindings | None) -> CompiledProgram:
    program = compile_program(texts, None if bindings is None else bindings.bound())
    return library.programs.setdefault(program.hash, program)


def read_files(paths: Sequence[str | os.PathLike[str]]) -> list[tuple[str, str]]:
    """Texts by their path below the loaded root: the directory given, or a file's own."""
    found: dict[str, str] = {}
    for given in paths:
        path = Path(given)
        files = sorted(path.rglob("*.twf")) if path.is_dir() else [path]
        root = path if path.is_dir() else path.parent
        for file in files:
            found[file.relative_to(root).as_posix()] = _text(file)
    return list(found.items())


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise TwfError("TWF100", "Program", f"{file} is not UTF-8", file=str(file)) from None


def read_program(source: str) -> CompiledProgram:
    """The program that the store kept as this text."""
    stored: dict[str, Any] = json.loads(source)
    return _compiled([(path, text) for path, text in stored["files"]], None)


def pinned_workflow(program: CompiledProgram, name: str) -> TwfWorkflow | None:
    """A workflow by the text of a program that is not the latest; functions are those that are deployed now."""
    compiled = program.workflows.get(name)
    if compiled is None:
        return None
    current = default.get(name)
    return TwfWorkflow(compiled, current.bindings if isinstance(current, TwfWorkflow) else None)


# --- activities through queues


def _queued_step(name: str) -> Step[..., Any]:
    async def twf_activity(program_hash: str, activity: str, args: list[Any], no_retry: list[str]) -> Any:
        program = await program_of(program_hash)
        compiled = program.activities[activity]
        bindings = next((one for one in reversed(library.bindings) if activity in one.activities), None)
        performer = Performer(compiled, library.activity(activity, bindings), bindings)
        missing = performer.missing()
        if missing is not None:
            raise Stopped(*missing).at(compiled.file, compiled.line)
        return await perform_queued(performer, args, no_retry)

    return Step(twf_activity, id=f"twf//{name}", name=name)


async def program_of(program_hash: str) -> CompiledProgram:
    """A program of this process, or one that the worker's store has."""
    found = library.programs.get(program_hash)
    if found is None and library.fetch is not None:
        source = await library.fetch(program_hash)
        found = None if source is None else read_program(source)
    if found is None:
        raise TwfError("TWF603", "TWF603", f"program {program_hash} is not loaded here and not in the store")
    return found
