"""`tenuto twf simulate` and `tenuto twf test`: programs on virtual time, with scripted messages and activities."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import click

from tenuto.errors import ConfigError, EnvironmentFault, TwfError
from tenuto.model.durations import milliseconds
from tenuto.testing.simulation import ScriptError, Simulated, simulate
from tenuto.twf.run import Bindings, CompiledProgram
from tenuto.twf.run.values import is_list, text_of

from .twf_input import UsageProblem, namespaces_of
from .twf_outcome import arguments_of, by_position, failure_json, load, plain, print_outcome, workflow_name

__all__ = ["simulate_command", "test_command"]

EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1}


# --- simulate


@click.command("simulate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--workflow", "name", metavar="W", help="Which workflow; may be left out if there is one.")
@click.option("--arg", "args", multiple=True, metavar="NAME=JSON", help="An argument; no JSON is a string; repeatable.")
@click.option("--bindings", metavar="MODULE[:ATTR]", help="The Python functions of its activities.")
@click.option("--script", metavar="FILE", help="Messages and what activities give: JSON lines, JSON or YAML.")
@click.option("--stub", is_flag=True, help="Answer what is not bound with a record of its name and arguments.")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME=URL",
    help="The store of a nexus namespace: what is called there is real. Repeatable; see also --stub.",
)
@click.option("--id", "run_id", metavar="ID", help="The run's id.")
@click.option("--store", hidden=True, help="Simulations are kept in memory.")
@click.option("--wait", hidden=True, help="Simulations never wait.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")
def simulate_command(
    paths: Sequence[str],
    name: str | None,
    args: Sequence[str],
    bindings: str | None,
    script: str | None,
    stub: bool,
    namespaces: Sequence[str],
    run_id: str | None,
    store: str | None,
    wait: str | None,
    as_json: bool,
) -> None:
    """Run a workflow on virtual time and print what happened when.

    Time jumps to the next deadline: a week passes in milliseconds. Exit codes: 0 completed, 1 failed or cancelled,
    2 wrong usage, 3 parked or waiting for a message that the script does not send.
    """
    from .twf import print_json

    program, bound = load(paths, bindings)
    workflow = workflow_name(program, name)
    values = arguments_of(program, workflow, args)
    steps = read_script(Path(script)) if script else []
    others = namespaces_of(namespaces)
    found = _simulate(program, bound, workflow, values, steps, stub=stub, run_id=run_id, namespaces=others)
    document = _document(found)
    if as_json:
        print_json(document)
    else:
        _print_transcript(found)
        print_outcome(document)
    raise SystemExit(EXIT_CODES.get(found.status, 3))


def _simulate(
    program: CompiledProgram,
    bindings: Bindings,
    workflow: str,
    args: Sequence[Any],
    script: Sequence[Any],
    *,
    stub: bool,
    run_id: str | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> Simulated:
    try:
        return asyncio.run(
            simulate(program, bindings, workflow, args, script, stub=stub, run_id=run_id, namespaces=namespaces)
        )
    except (ScriptError, TwfError, ConfigError, EnvironmentFault) as error:
        raise UsageProblem(str(error)) from error


def _document(found: Simulated) -> dict[str, Any]:
    parked = found.parked
    if parked is None and found.waits_for is not None:
        parked = f"waits for {found.waits_for}"
    return {
        "id": found.id,
        "status": found.status,
        "result": plain(found.result),
        "failure": failure_json(found.error),
        "parked": parked,
        "transcript": plain(found.transcript),
        "stubbed": found.stubbed,
    }


def _print_transcript(found: Simulated) -> None:
    for event in found.transcript:
        details = {key: value for key, value in event.items() if key not in ("at", "event", "name", "args", "call")}
        name = event.get("name", "")
        args = ", ".join(json.dumps(plain(value), ensure_ascii=False) for value in event.get("args", []))
        shown = f"{name}({args})" if "args" in event else name
        rest = " ".join(f"{key}={json.dumps(plain(value), ensure_ascii=False)}" for key, value in details.items())
        time = click.style(f"{_clock(event['at']):>12}", dim=True)
        click.echo(f"{time}  {event['event']:<10} {shown} {rest}".rstrip())
    if found.stubbed:
        click.secho(f"stubbed: {', '.join(found.stubbed)}", fg="yellow")


def _clock(seconds: float) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    clock = f"{int(hours):02}:{int(minutes):02}:{left:06.3f}".removesuffix(".000")
    return f"{int(days)}d {clock}" if days else clock


def read_script(path: Path) -> list[Any]:
    """The steps of a script: one JSON object per line, a JSON list, or YAML."""
    document = _read(path)
    if isinstance(document, Mapping):
        document = cast("Mapping[str, Any]", document).get("script", [document])
    if not is_list(document):
        raise UsageProblem(f"{path}: a script is a list of steps")
    return document


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path}: {error}") from error
    if path.suffix in (".yaml", ".yml"):
        return _yaml(path, text)
    try:
        return json.loads(text)
    except ValueError:
        pass
    steps: list[Any] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                steps.append(json.loads(line))
            except ValueError as error:
                raise UsageProblem(f"{path}:{number}: {error}") from error
    return steps


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UsageProblem("scripts in YAML need a parser: pip install 'pyyaml'") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageProblem(f"{path}: {error}") from error


# --- test


@click.command("test")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--bindings", metavar="MODULE[:ATTR]", help="The Python functions of activities, unless a file says so.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")
def test_command(files: Sequence[str], bindings: str | None, as_json: bool) -> None:
    """Run simulations and compare them with what their files expect.

    A file (JSON or YAML) is one case or a list of cases: program, workflow, args, script, stub, bindings, and expect
    with any of status, result, failure, parked, at, calls, stubbed. Exit code 1 if a case is not as expected.
    """
    from .twf import print_json

    results: list[dict[str, Any]] = []
    for file in _case_files(files):
        document = _read(file)
        cases = document if is_list(document) else [document]
        for number, case in enumerate(cases):
            results.append(_run_case(file, number, case, bindings))
    ok = all(result["ok"] for result in results)
    if as_json:
        print_json({"ok": ok, "cases": results})
    else:
        for result in results:
            click.secho(f"{'ok  ' if result['ok'] else 'FAIL'} {result['name']}", fg="green" if result["ok"] else "red")
            for line in result["problems"]:
                click.echo(f"     {line}")
        passed = sum(result["ok"] for result in results)
        click.secho(f"{passed} of {len(results)} as expected", bold=True)
    raise SystemExit(0 if ok else 1)


def _case_files(files: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for name in files:
        path = Path(name)
        if not path.exists():
            raise UsageProblem(f"{path}: no such file or directory")
        if path.is_dir():
            found += sorted(file for file in path.rglob("*.sim.*") if file.suffix in (".json", ".yaml", ".yml"))
        else:
            found.append(path)
    return found


def _run_case(file: Path, number: int, case: Any, bindings: str | None) -> dict[str, Any]:
    if not isinstance(case, Mapping):
        raise UsageProblem(f"{file}: a case is an object")
    said: dict[str, Any] = dict(cast("Mapping[str, Any]", case))
    paths = said.get("program")
    if paths is None:
        raise UsageProblem(f"{file}: a case names its program")
    listed = paths if is_list(paths) else [str(paths)]
    program, bound = load([str(file.parent / path) for path in listed], said.get("bindings", bindings))
    workflow = workflow_name(program, said.get("workflow"))
    given: Any = said.get("args", [])
    if isinstance(given, Mapping):
        named = cast("Mapping[str, Any]", given)
        args = by_position(program, workflow, named)
    else:
        args = list(cast("list[Any]", given))
    found = _simulate(program, bound, workflow, args, said.get("script", []), stub=bool(said.get("stub")))
    problems = [*found.unmet, *_differences(said.get("expect", {}), found)]
    name = f"{file}: {said.get('name', f'case {number + 1}')}"
    return {"name": name, "ok": not problems, "problems": problems, "status": found.status}


def _differences(expected: Mapping[str, Any], found: Simulated) -> list[str]:
    document = _document(found)
    document["at"] = found.elapsed_ms
    document["calls"] = _calls(found)
    problems: list[str] = []
    for key, wanted in expected.items():
        if key not in document:
            raise UsageProblem(f"expect has no {key!r}; it has status, result, failure, parked, at, calls, stubbed")
        got = document[key]
        if key == "at":
            fits = got == milliseconds(wanted)
        elif key == "parked" and isinstance(wanted, str):
            fits = wanted in (got or "")
        elif isinstance(wanted, Mapping) and isinstance(got, Mapping):
            fits = all(cast("Any", got).get(part) == value for part, value in cast("Any", wanted).items())
        else:
            fits = got == wanted
        if not fits:
            shown: object = _like(wanted, found.elapsed_ms) if key == "at" else cast("object", got)
            problems.append(f"{key}: expected {json.dumps(wanted)}, got {json.dumps(shown, default=str)}")
    return problems


def _like(wanted: Any, at_ms: int) -> str | float:
    """A time as the expectation writes it: text such as 1d, or seconds."""
    return text_of(timedelta(milliseconds=at_ms)) if isinstance(wanted, str) else at_ms / 1000


def _calls(found: Simulated) -> dict[str, int]:
    calls: dict[str, int] = {}
    for event in found.transcript:
        if event["event"] == "activity":
            calls[event["name"]] = calls.get(event["name"], 0) + 1
    return calls
