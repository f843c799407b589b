"""Loading programs: from files, from the store, and registering what they define."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenuto.errors import DuplicateIdError, TwfError
from tenuto.model.definitions import Step
from tenuto.model.registry import Registry, default

from ..provider import TwfProvider
from .activities import Performer, perform_queued
from .bindings import Bindings
from .compiled import CompiledProgram
from .faults import Stopped
from .library import library
from .workflows import TwfWorkflow

__all__ = ["load_program", "read_files"]


def load_program(
    *paths: str | os.PathLike[str],
    files: Mapping[str, str] | None = None,
    bindings: Bindings | None = None,
    registry: Registry | None = None,
) -> CompiledProgram:
    """Loads files, or all `*.twf` below directories, as one program and registers its workflows.

        load_program("flows/orders.twf", bindings=b)
        run = await app.start("OrderWorkflow", {"id": "42"})

    New runs take the program that was loaded last; runs under way keep the text they started with. `files` gives texts
    by path instead. `registry`: of the apps that are to have it. A program with errors is refused whole.
    """
    known = default if registry is None else registry
    provider = known.provided(TwfProvider)
    texts = [*read_files(paths), *(files or {}).items()]
    program = provider.library.compiled(tuple(sorted(texts)), bindings)
    for name in program.workflows:
        _refuse_taken(known, name)
    if bindings is not None:
        provider.library.add(bindings)
    for compiled in program.workflows.values():
        known.register(TwfWorkflow(compiled, bindings, provider))
    for name in program.activities:
        known.register(_queued_step(name))
    return program


def _refuse_taken(registry: Registry, name: str) -> None:
    """A Python workflow has this id: said before anything is registered, so that a program is loaded whole or not."""
    known = registry.get(name)
    if known is not None and not isinstance(known, TwfWorkflow):
        raise DuplicateIdError(f"id {name!r} belongs to {known!r} and was asked for by a TWF program")


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


# --- activities through queues


def _queued_step(name: str) -> Step[..., Any]:
    async def twf_activity(program_hash: str, activity: str, args: list[Any], no_retry: list[str]) -> Any:
        program = await program_of(program_hash)
        compiled, loaded = program.activities[activity], library()
        bindings = next((one for one in reversed(loaded.bindings) if activity in one.activities), None)
        performer = Performer(compiled, loaded.activity(activity, bindings), bindings)
        missing = performer.missing()
        if missing is not None:
            raise Stopped(*missing).at(compiled.file, compiled.line)
        return await perform_queued(performer, args, no_retry)

    return Step(twf_activity, id=f"twf//{name}", name=name)


async def program_of(program_hash: str) -> CompiledProgram:
    """A program of this process, or one that the worker's store has."""
    loaded = library()
    found = loaded.program(program_hash)
    if found is None and loaded.fetch is not None:
        source = await loaded.fetch(program_hash)
        found = None if source is None else loaded.read(source)
    if found is None:
        raise TwfError("TWF603", "TWF603", f"program {program_hash} is not loaded here and not in the store")
    return found
