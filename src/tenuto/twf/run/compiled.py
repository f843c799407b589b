"""A program made ready to run: every definition as closures, and what is known of it before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from tenuto.errors import TwfError

from ..ast import Activity, Handler, MessageTarget, Workflow
from ..builtins import ACTIVITY_BUILTINS, PURE_BUILTINS, WORKFLOW_BUILTINS
from ..checks import Bound
from ..diagnostics import Diagnostic
from ..program import Program, load
from ..resolver import Surveyed
from ..source import Source
from .durable import Durable
from .lines import Key
from .names import Names
from .options import NONE, Given, compile_options
from .parameters import Parameters
from .segments import segments_of
from .statements import Block, Compiler

__all__ = [
    "CompiledActivity",
    "CompiledHandler",
    "CompiledProgram",
    "CompiledWorkflow",
    "compile_program",
    "host_functions",
    "program_hash",
]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledHandler:
    """A signal, update or query."""

    kind: str
    name: str
    line: int
    parameters: Parameters
    block: Block


@dataclass(frozen=True, slots=True, eq=False)
class CompiledActivity:
    """An activity with its own statements; `block` is None when it has none."""

    program: CompiledProgram
    name: str
    file: str
    line: int
    parameters: Parameters
    block: Block | None
    options: Given
    functions: frozenset[str]  # host functions that its statements call
    may_take_long: bool  # it loops or calls out: it gets a thread


@dataclass(frozen=True, slots=True, eq=False)
class CompiledWorkflow:
    program: CompiledProgram
    name: str
    file: str
    line: int
    parameters: Parameters
    block: Block
    options: Given
    signals: Mapping[str, CompiledHandler]
    updates: Mapping[str, CompiledHandler]
    queries: Mapping[str, CompiledHandler]
    awaited: frozenset[Key]  # kinds and names whose finished handlers leave tokens
    queried: tuple[str, ...] | None  # variables that queries read; None without queries
    segments: frozenset[str]  # every name it can issue
    asked: bool  # whether a query asks for the run's time, id or length


@dataclass(frozen=True, slots=True, eq=False)
class CompiledProgram:
    """A program by its content: `files` are paths below the loaded root and normalised texts."""

    hash: str
    files: tuple[tuple[str, str], ...]
    program: Program
    workflows: dict[str, CompiledWorkflow] = field(default_factory=dict[str, CompiledWorkflow])
    activities: dict[str, CompiledActivity] = field(default_factory=dict[str, CompiledActivity])

    @property
    def source(self) -> str:
        """The whole text, as the store keeps it."""
        return json.dumps({"twf": 1, "files": self.files}, ensure_ascii=False)


def normalise(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def program_hash(files: Iterable[tuple[str, str]]) -> str:
    digest = sha256()
    for path, text in sorted(files):
        digest.update(path.encode() + b"\0" + normalise(text).encode() + b"\0")
    return digest.hexdigest()


def compile_program(files: Iterable[tuple[str, str]], bound: Bound | None = None) -> CompiledProgram:
    """The program that these files are; `TwfError` with the first finding's code if they have errors.

    A workflow that the files do not define is no error here: it may be a Python workflow, found when it is called.
    """
    kept = tuple(sorted((path, normalise(text)) for path, text in files))
    program = load([Source(path, text) for path, text in kept])
    errors = [found for found in program.diagnostics if found.severity == "error" and found.code != "TWF302"]
    if errors:
        raise _refused(errors)
    compiled = CompiledProgram(program_hash(kept), kept, program)
    for one in program.resolution.surveyed:
        definition = one.definition
        if isinstance(definition, Workflow):
            compiled.workflows.setdefault(definition.name.name, _workflow(compiled, one, definition))
        else:
            compiled.activities.setdefault(definition.name.name, _activity(compiled, one, definition))
    return compiled


def _refused(errors: list[Diagnostic]) -> TwfError:
    first = errors[0]
    shown = "; ".join(f"{one.path}:{one.span.line}:{one.span.column}: {one.code}: {one.message}" for one in errors[:5])
    more = f" (and {len(errors) - 5} more)" if len(errors) > 5 else ""
    message = f"the program has errors, nothing was loaded: {shown}{more}"
    return TwfError(first.code, "Program", message, file=first.path, line=first.span.line)


def _line(one: Surveyed, offset: int) -> int:
    return one.file.source.position(offset).line


def host_functions(one: Surveyed) -> frozenset[str]:
    own = WORKFLOW_BUILTINS if isinstance(one.definition, Workflow) else ACTIVITY_BUILTINS
    return frozenset(
        callee.name
        for callee in one.survey.callees
        if callee.name not in PURE_BUILTINS
        and callee.name not in own
        and not ("." in callee.name and one.scope.has(callee.read.name, callee.read.handler))
    )


def _activity(program: CompiledProgram, one: Surveyed, node: Activity) -> CompiledActivity:
    names = Names(one)
    compiler = Compiler(one.file.path, lambda offset: _line(one, offset), None)
    functions = host_functions(one)
    text = one.file.source.text[node.start : node.end]
    return CompiledActivity(
        program,
        node.name.name,
        one.file.path,
        _line(one, node.start),
        Parameters(f"activity {node.name.name}", node.params),
        compiler.block(node.body, names) if node.body else None,
        compile_options(node.options, names),
        functions,
        bool(functions) or "for" in text,
    )


def _workflow(program: CompiledProgram, one: Surveyed, node: Workflow) -> CompiledWorkflow:
    compiler = Compiler(one.file.path, lambda offset: _line(one, offset), None)
    compiler.durable = Durable(compiler, one, program.program.resolution)
    handlers: dict[str, dict[str, CompiledHandler]] = {"signal": {}, "update": {}, "query": {}}
    for handler in node.handlers:
        handlers[handler.kind].setdefault(handler.name.name, _handler(compiler, one, handler))
    return CompiledWorkflow(
        program,
        node.name.name,
        one.file.path,
        _line(one, node.start),
        Parameters(f"workflow {node.name.name}", node.params),
        compiler.block(node.body, Names(one)),
        compile_options(node.options, Names(one)) if node.options is not None else NONE,
        handlers["signal"],
        handlers["update"],
        handlers["query"],
        _awaited(one),
        _queried(one, node),
        segments_of(one, node),
        _asked(one),
    )


def _handler(compiler: Compiler, one: Surveyed, node: Handler) -> CompiledHandler:
    what = f"{node.kind} {node.name.name}"
    block = compiler.block(node.body, Names(one, node))
    return CompiledHandler(node.kind, node.name.name, _line(one, node.start), Parameters(what, node.params), block)


def _awaited(one: Surveyed) -> frozenset[Key]:
    found: set[Key] = set()
    for use in one.survey.uses:
        target = use.target
        if isinstance(target, MessageTarget) and target.kind != "query":
            found.add((target.kind, target.name.name))
    return frozenset(found)


def _asked(one: Surveyed) -> bool:
    return any(
        callee.name in ("now", "workflow_id", "history_length")
        for callee in one.survey.callees
        if callee.read.handler is not None and callee.read.handler.kind == "query"
    )


def _queried(one: Surveyed, node: Workflow) -> tuple[str, ...] | None:
    """The workflow variables that query bodies read."""
    if not any(handler.kind == "query" for handler in node.handlers):
        return None
    reads = [*one.survey.reads, *(callee.read for callee in one.survey.callees)]
    names = {
        read.name
        for read in reads
        if read.handler is not None
        and read.handler.kind == "query"
        and read.name in one.scope.shared
        and not one.scope.is_local(read.name, read.handler)
    }
    return tuple(sorted(names))
