"""`tenuto twf run`: starts a workflow of a program on a store, with a worker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from tenuto.app import RunHandle, Tenuto
from tenuto.errors import RunCancelledError, RunFailedError, RunTerminatedError, TenutoError
from tenuto.model.durations import milliseconds

from .connect import duration_option
from .output import say
from .serving import Stopping
from .twf_input import UsageProblem, namespaces_of
from .twf_outcome import arguments_of, failure_json, load, plain, print_outcome, workflow_name

__all__ = ["run"]

EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "terminated": 1}


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--workflow", "name", metavar="W", help="Which workflow; may be left out if there is one.")
@click.option("--arg", "args", multiple=True, metavar="NAME=JSON", help="An argument; no JSON is a string; repeatable.")
@click.option("--bindings", metavar="MODULE[:ATTR]", help="The Python functions of its activities.")
@click.option("--store", metavar="URL", help="Where runs are kept; default: the file in .tenuto.")
@click.option("--id", "run_id", metavar="ID", help="The run's id; the same id again is the same run.")
@click.option("--wait", metavar="DURATION", help="How long to wait for the end; then exit 3, the run goes on.")
@duration_option("--lease", default="30s", show_default=True, help="How long a silent process keeps its runs.")
@click.option(
    "--namespace", "namespaces", multiple=True, metavar="NAME=URL", help="The store of a nexus namespace; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")
def run(
    paths: Sequence[str],
    name: str | None,
    args: Sequence[str],
    bindings: str | None,
    store: str | None,
    run_id: str | None,
    wait: str | None,
    lease: str,
    namespaces: Sequence[str],
    as_json: bool,
) -> None:
    """Start a workflow and print its result.

    Told to stop (Ctrl-C, SIGTERM), it gives the run back, so that the next worker goes on with it at once.

    Exit codes: 0 completed, 1 failed or cancelled, 2 wrong usage, 3 parked or still running after --wait,
    130 interrupted.
    """
    from .twf import print_json

    program, _ = load(paths, bindings)
    workflow = workflow_name(program, name)
    values = arguments_of(program, workflow, args)
    options = {"grace": 1, "lease": lease, "namespaces": namespaces_of(namespaces)}
    limit = None if wait is None else _duration("--wait", wait)
    document = asyncio.run(_run(store, options, workflow, values, run_id, limit))
    if document is None:
        raise SystemExit(130)
    if as_json:
        print_json(document)
    else:
        print_outcome(document)
    raise SystemExit(EXIT_CODES.get(document["status"], 3))


def _duration(option: str, text: str) -> float:
    try:
        return milliseconds(text) / 1000
    except ValueError as error:
        raise UsageProblem(f"{option} {text}: {error}") from error


async def _run(
    store: str | None,
    options: dict[str, Any],
    workflow: str,
    args: list[Any],
    run_id: str | None,
    limit: float | None,
) -> dict[str, Any] | None:
    """What came of the run; None when told to stop meanwhile: then it was given back in good order."""
    stopping = Stopping()
    try:
        async with Tenuto(store, **options) as app:
            work = asyncio.create_task(_start(app, workflow, args, run_id, limit))
            told = asyncio.create_task(stopping.wait())
            await asyncio.wait([work, told], return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if work.done():
                return work.result()
            work.cancel()
            await asyncio.wait([work])
            say("stopping: the run is kept, and goes on with the next worker", err=True)
            return None
    except TenutoError as error:  # the id is another run's, the store cannot be opened, the arguments do not fit
        raise UsageProblem(str(error)) from error


async def _start(
    app: Tenuto, workflow: str, args: list[Any], run_id: str | None, limit: float | None
) -> dict[str, Any]:
    return await _outcome(await app.start(workflow, *args, id=run_id), limit)


async def _outcome(handle: RunHandle[Any], limit: float | None) -> dict[str, Any]:
    document: dict[str, Any] = {"id": handle.id, "status": "", "result": None, "failure": None, "parked": None}
    try:
        async with asyncio.timeout(limit):
            while not await _ended_or_parked(handle):  # noqa: ASYNC110  # parking is told by nobody
                await asyncio.sleep(0.02)
        if await handle.status() != "parked":
            document["result"] = plain(await handle.result())
    except TimeoutError:
        pass
    except RunFailedError as error:
        document["failure"] = failure_json(error.__cause__)
    except (RunCancelledError, RunTerminatedError):
        pass
    document["status"] = await handle.status()
    if document["status"] == "parked":
        document["parked"] = await _reason(handle)
    document["transcript"] = [
        {"location": entry.location, "kind": entry.kind, "status": entry.status, "attempts": entry.attempts}
        for entry in await handle.history()
    ]
    return document


async def _ended_or_parked(handle: RunHandle[Any]) -> bool:
    return await handle.status() in (*EXIT_CODES, "parked")


async def _reason(handle: RunHandle[Any]) -> str:
    try:
        return (await handle.explain()).reason or ""
    except TenutoError as error:
        return str(error)
