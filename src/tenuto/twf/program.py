"""All files given together: parsed, resolved, checked."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .ast import Extension, File
from .checks import Bound, check
from .diagnostics import Diagnostic, arrange, diagnose
from .parser import Parsed, parse
from .resolver import Resolution, resolve
from .source import Source

__all__ = ["NotText", "Program", "assemble", "decode", "load"]


@dataclass(frozen=True, slots=True, eq=False)
class NotText:
    """A file that is not text (TWF100)."""

    path: str
    diagnostic: Diagnostic


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A set of files, what their names mean, and what is wrong with them."""

    files: tuple[File, ...]
    resolution: Resolution
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """No errors; warnings are fine."""
        return all(found.severity != "error" for found in self.diagnostics)


def decode(path: str, data: bytes) -> Source | NotText:
    """The text of a file, or what is wrong with its bytes."""
    try:
        return Source(path, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        before = Source(path, data[: error.start].decode("utf-8"))
        at = len(before.text)
        message = f"byte 0x{data[error.start]:02X} is not UTF-8"
        return NotText(path, diagnose(before, at, at, "TWF100", message, "save the file as UTF-8"))


def load(sources: Iterable[Source | NotText], *, strict: bool = False, bound: Bound | None = None) -> Program:
    """Parse, resolve and check; the order of the sources does not matter."""
    parsed: list[Parsed] = []
    unreadable: list[Diagnostic] = []
    with _without_collector():
        for source in sources:
            if isinstance(source, NotText):
                unreadable.append(source.diagnostic)
            else:
                parsed.append(parse(source))
        return assemble(parsed, unreadable, strict=strict, bound=bound)


@contextmanager
def _without_collector() -> Generator[None]:
    """A tree has no cycles: while it grows, the cycle collector would only walk over it, again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # hand the tree to the oldest generation, without the walk this would start
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def assemble(
    parsed: Sequence[Parsed],
    unreadable: Sequence[Diagnostic] = (),
    *,
    strict: bool = False,
    bound: Bound | None = None,
) -> Program:
    """A program from files that are parsed already."""
    ordered = sorted(parsed, key=lambda one: one.file.path)
    files = tuple(one.file for one in ordered)
    resolution = resolve(files, bound.workflows if bound is not None else frozenset())
    syntax = [found for one in ordered for found in one.diagnostics]
    found = [*syntax, *unreadable, *check(resolution, syntax, bound)]
    mixed = {one.file.path for one in ordered if one.mixed}
    if mixed:  # only TWF101 for these files, and no 3xx anywhere: their names are missing
        found = [
            finding
            for finding in found
            if finding.code == "TWF101" or (finding.path not in mixed and not finding.code.startswith("TWF3"))
        ]
    if strict:
        for file in files:
            if file.path not in mixed:
                found.extend(_extension(file, extension) for extension in file.extensions)
    return Program(files, resolution, tuple(arrange(found)))


def _extension(file: File, extension: Extension) -> Diagnostic:
    message = f"extension «{extension.tag}» is not in the base grammar"
    return diagnose(file.source, extension.start, extension.end, "TWF190", message, extension=extension.tag)
