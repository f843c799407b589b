"""`tenuto twf`: check, format, draw and explore TWF programs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tenuto.twf.ast import Activity, Workflow
from tenuto.twf.diagnostics import Diagnostic
from tenuto.twf.format import format_source
from tenuto.twf.jsonform import diagnostic_json, program_json
from tenuto.twf.program import NotText, Program, load
from tenuto.twf.render import count_line, render
from tenuto.twf.source import Source
from tenuto.twf.symbols import Dependencies, Edge, Symbol, dependencies, dependencies_json, symbols

from .twf_input import STDIN, UsageProblem, load_bound, read_sources, write_file

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group(name="twf")
def command() -> None:
    """Check, format, draw and explore TWF programs.

    Every command takes files, directories (all *.twf below) or - for standard input; together they are one program.
    Exit codes: 0 fine, 1 findings, 2 wrong usage.
    """


def paths_argument(function: F) -> F:
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...")(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")(function)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


# --- check


@command.command()
@paths_argument
@click.option("--strict", is_flag=True, help="Report every extension beyond the base grammar (TWF190).")
@click.option("--warnings-as-errors", is_flag=True, help="Let warnings fail the check, too.")
@click.option("--bindings", metavar="MODULE[:ATTR]", help="Check against the Python functions bound there.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Leave a warning out (TWF4xx only); repeatable.")
@json_option
def check(
    paths: Sequence[str],
    strict: bool,
    warnings_as_errors: bool,
    bindings: str | None,
    ignore: Sequence[str],
    as_json: bool,
) -> None:
    """Find what is wrong with a program."""
    for code in ignore:
        if not code.startswith("TWF4"):
            raise UsageProblem(f"--ignore {code}: only warnings (TWF4xx) can be ignored")
    bound = load_bound(bindings) if bindings else None
    sources = read_sources(paths)
    program = load(sources, strict=strict, bound=bound)
    shown = [found for found in program.diagnostics if found.code not in ignore]
    workflows, activities = _counts(program)
    unused = [] if bound is None else bound.unused(program.resolution.activities)
    ok = not (shown or unused) if warnings_as_errors else all(found.severity != "error" for found in shown)
    if as_json:
        found = [diagnostic_json(one) for one in shown]
        document = {"ok": ok, "workflows": workflows, "activities": activities, "diagnostics": found}
        print_json(document if bound is None else {**document, "unused": unused})
    else:
        for name in unused:
            click.secho(f"--bindings {bindings}: there is no activity {name} in this program", fg="yellow", err=True)
        _print_diagnostics(shown, sources)
        click.secho(count_line(shown, workflows, activities), fg="green" if ok and not shown else None, bold=True)
    raise SystemExit(0 if ok else 1)


def _counts(program: Program) -> tuple[int, int]:
    definitions = [definition for file in program.files for definition in file.definitions]
    workflows = sum(isinstance(one, Workflow) for one in definitions)
    return workflows, sum(isinstance(one, Activity) for one in definitions)


def _print_diagnostics(found: Sequence[Diagnostic], sources: Sequence[Source | NotText], *, err: bool = False) -> None:
    texts = {source.path: source for source in sources if isinstance(source, Source)}
    for one in found:
        headline, *rest = render(one, texts.get(one.path)).split("\n")
        click.secho(headline, bold=True, fg="red" if one.severity == "error" else "yellow", err=err)
        for line in rest:
            click.secho(line, fg="cyan" if line.rstrip().endswith("^") else None, err=err)


def _exit_on_syntax(program: Program, sources: Sequence[Source | NotText], *, quiet: bool = False) -> None:
    """Syntax errors, with --strict extensions too, go to standard error and end the command with 1."""
    found = [one for one in program.diagnostics if one.code.startswith("TWF1")]
    if not quiet:
        _print_diagnostics(found, sources, err=True)
    raise SystemExit(1 if found else 0)


# --- parse


@command.command()
@paths_argument
@click.option("--strict", is_flag=True, help="Report every extension beyond the base grammar (TWF190).")
@json_option
def parse(paths: Sequence[str], strict: bool, as_json: bool) -> None:
    """Print the tree as JSON, also after errors."""
    sources = read_sources(paths)
    program = load(sources, strict=strict)
    print_json(program_json(program))
    _exit_on_syntax(program, sources, quiet=as_json)


# --- symbols


@command.command("symbols")
@paths_argument
@json_option
def symbols_command(paths: Sequence[str], as_json: bool) -> None:
    """List definitions with their signatures, handlers indented."""
    sources = read_sources(paths)
    program = load(sources)
    found = [symbol for file in program.files for symbol in symbols(file)]
    if as_json:
        print_json([symbol.json() for symbol in found])
    else:
        for file in program.files:
            click.secho(file.path, bold=True)
            for symbol in symbols(file):
                _print_symbol(symbol, 1)
    _exit_on_syntax(program, sources, quiet=as_json)


def _print_symbol(symbol: Symbol, depth: int) -> None:
    line = symbol.file.source.position(symbol.node.start).line
    click.echo(f"{'  ' * depth}{symbol.signature}" + click.style(f"  :{line}", dim=True))
    for member in symbol.members:
        _print_symbol(member, depth + 1)


# --- deps


@command.command()
@paths_argument
@click.option("--mermaid", is_flag=True, help="Print a Mermaid diagram.")
@json_option
def deps(paths: Sequence[str], mermaid: bool, as_json: bool) -> None:
    """Show who calls whom; undefined and remote names stand apart."""
    sources = read_sources(paths)
    program = load(sources)
    found = dependencies(program)
    if as_json:
        print_json(dependencies_json(found))
    elif mermaid:
        from tenuto.twf.diagrams import dependencies_mermaid

        click.echo(dependencies_mermaid(found), nl=False)
    else:
        _print_dependencies(found)
    _exit_on_syntax(program, sources, quiet=as_json)


def _print_dependencies(found: Dependencies) -> None:
    by_caller: dict[tuple[str, str], list[Edge]] = {}
    for edge in found.edges:
        by_caller.setdefault((edge.caller, edge.path), []).append(edge)
    for name, path, line in found.nodes:
        click.secho(name.replace(":", " "), bold=True, nl=False)
        click.secho(f"  {path}:{line}", dim=True)
        for edge in by_caller.get((name, path), []):
            mode = "" if edge.mode in ("activity", "child") else f"{edge.mode} "
            click.echo(f"  -> {mode}{edge.callee.replace(':', ' ')}" + click.style(f"  :{edge.line}", dim=True))
    if found.unresolved:
        click.secho("not in this program", bold=True)
        for one in found.unresolved:
            where = f'nexus "{one.namespace}"' if one.why == "remote" else "undefined"
            edge = one.edge
            place = click.style(f"  {edge.path}:{edge.line}:{edge.column}", dim=True)
            click.echo(f"  {edge.callee.replace(':', ' ')} ({where}), from {edge.caller.replace(':', ' ')}" + place)


# --- fmt


@command.command()
@paths_argument
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Change nothing; print the formatted text.")
@json_option
def fmt(paths: Sequence[str], only_check: bool, diff: bool, to_stdout: bool, as_json: bool) -> None:
    """Rewrite files in canonical form; a file with a syntax error is left as it is."""
    sources = read_sources(paths)
    results: list[dict[str, Any]] = []
    broken: list[Diagnostic] = []
    for source in sources:
        if isinstance(source, NotText):
            broken.append(source.diagnostic)
            continue
        formatted = format_source(source)
        if formatted is None:
            broken.extend(one for one in load([source]).diagnostics if one.is_syntax)
            continue
        changed = formatted != _original(source)
        results.append({"file": source.path, "changed": changed})
        if as_json:
            results[-1]["text"] = formatted
        elif diff:
            _print_diff(source, formatted)
        elif to_stdout or (source.path == STDIN and not only_check):
            click.echo(formatted, nl=False)
        elif only_check and changed:
            click.echo(f"would change {source.path}")
        if changed and not (only_check or diff or to_stdout or source.path == STDIN):
            write_file(Path(source.path), formatted)
            if not as_json:
                click.echo(f"formatted {source.path}")
    if as_json:
        print_json({"files": results, "diagnostics": [diagnostic_json(one) for one in broken]})
    else:
        _print_diagnostics(broken, sources, err=True)
    raise SystemExit(1 if broken or (only_check and any(one["changed"] for one in results)) else 0)


def _original(source: Source) -> str:
    """The text as it is on disk, byte order mark included, so that removing it counts as a change."""
    if source.path == STDIN:
        return source.text
    return Path(source.path).read_bytes().decode("utf-8")


def _print_diff(source: Source, formatted: str) -> None:
    before = source.text.splitlines(keepends=True)
    after = formatted.splitlines(keepends=True)
    for line in difflib.unified_diff(before, after, source.path, f"{source.path} (formatted)"):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(line.rstrip("\r\n"), fg=colour)


# --- graph


@command.command()
@paths_argument
@click.option("--workflow", "name", metavar="W", help="Draw only this workflow.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "dot", "svg", "json"]),
    default="mermaid",
    show_default=True,
    help="What to print.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead.")
@json_option
def graph(paths: Sequence[str], name: str | None, form: str, output: Path | None, as_json: bool) -> None:
    """Draw the control flow of workflows."""
    from tenuto.twf.diagrams import draw

    sources = read_sources(paths)
    program = load(sources)
    if not program.ok:
        _print_diagnostics([one for one in program.diagnostics if one.severity == "error"], sources, err=True)
        raise SystemExit(1)
    text = draw(program, "json" if as_json else form, name)
    if text is None:
        known = ", ".join(sorted(program.resolution.workflows)) or "none"
        raise UsageProblem(f"--workflow {name}: no such workflow (there is: {known})")
    if output is None:
        click.echo(text, nl=False)
    else:
        write_file(output, text)


# --- run, simulate, test: their modules bring the whole engine along, and are loaded when they are asked for


class _Later(click.Command):
    """A command whose module is imported when it is used."""

    def __init__(self, name: str, module: str, attribute: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help, add_help_option=False)
        self._module, self._attribute = module, attribute

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        from importlib import import_module

        real: click.Command = getattr(import_module(self._module, __package__), self._attribute)
        return real.make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return ctx.command.invoke(ctx)


command.add_command(_Later("run", ".twf_run", "run", "Start a workflow and print its result."))
command.add_command(
    _Later("simulate", ".twf_simulate", "simulate_command", "Run a workflow on virtual time; print what happened when.")
)
command.add_command(
    _Later("test", ".twf_simulate", "test_command", "Run simulations and compare them with what they expect.")
)


# --- lsp


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print what the server can do, and exit.")
def lsp(as_json: bool) -> None:
    """Serve editors on standard input and output (language server protocol)."""
    try:
        from tenuto.twf.lsp import capabilities, serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UsageProblem("the language server needs pygls: pip install 'pygls'") from error
    if as_json:
        print_json(capabilities())
        return
    serve()
