"""`tenuto import`."""

from __future__ import annotations

import json
import pdb
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import click

from tenuto.cli.connect import Place, finish, with_store
from tenuto.cli.output import complain, safe, say
from tenuto.codec.rows import decode_rows
from tenuto.errors import DefinitionNotFoundError, RecordError
from tenuto.host.definitions import Definitions
from tenuto.host.replaying import Replayed, replay
from tenuto.host.transfer import ExportedRun, adopt, left_behind, read_document
from tenuto.kernel.operations import Parked
from tenuto.model.definitions import Workflow
from tenuto.model.registry import default

__all__ = ["command"]

T = TypeVar("T")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--id", "run_id", help="Give it another id here.")
@click.option("--replay", "replays", is_flag=True, help="Replay it with the code of --app; nothing is executed.")
@click.option("--debug", is_flag=True, help="The same in Python's debugger, stopped at the workflow's first line.")
@with_store
def command(place: Place, file: Path, run_id: str | None, replays: bool, debug: bool) -> None:
    """Take the run in FILE, which `tenuto export` wrote, into a local store.

    An open run is paused here: no worker goes on with it, and repeats its effects, before `tenuto resume`, which opens
    its hooks again. Its timers come along and keep their times; tasks and children stay behind, and are listed.

    With --replay or --debug the run is also replayed with the code loaded here, so that a breakpoint() in the workflow
    stops where the run went. Recorded steps give their recorded results; nothing is executed.

    \b
    tenuto import order-42.json --url sqlite:///debug.db --app shop.orders --debug

    Exit code 1: the code loaded here does not fit the run's history.
    """
    run = _read(file)

    async def work() -> str:
        async with place.writing(create=True) as app:
            return await adopt(app.store, run, run_id)

    new_id = finish(work, place)
    state = run.record.status if run.record.completed_at is not None else "paused until `tenuto resume`"
    say(f"{safe(new_id)} is here, {state} (there it was {safe(run.record.status)})")
    for line in left_behind(run):
        say(safe(line))
    if replays or debug:
        sys.exit(_replay(run, debug))


def _read(file: Path) -> ExportedRun:
    try:
        return read_document(json.loads(file.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise RecordError(f"{file} is not text") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"{file} is not JSON: {error}") from None
    except (RecursionError, ValueError):  # a number of thousands of digits is a ValueError
        raise RecordError(f"{file} is no exported run: it nests too deep, or has a number too large") from None


def _replay(run: ExportedRun, debug: bool) -> int:
    workflow = Definitions(default).workflow(run.record.target)
    if workflow is None:
        raise DefinitionNotFoundError(f"{run.record.target} is not loaded here: name its code with --app")
    rows, _ = decode_rows(run.record.id, run.rows)
    if rows.state in ("completed", "failed", "cancelled"):
        rows = rows._replace(state="running", output=None, error=None)

    def again() -> Replayed:
        return replay(rows, run.record, workflow, Definitions(default))

    turn, left_over = _in_debugger(workflow, again) if debug else again()
    if isinstance(turn.outcome, Parked):
        complain(turn.outcome.error)
        return 1
    if left_over:
        location, recorded = left_over[0]
        say(f"replayed: the code does not come to {safe(location)} any more, where history has {safe(recorded)}")
        return 1
    ended = "comes to its end" if turn.outcome is not None else "goes as far as it is recorded"
    say(f"replayed: the code fits, the run {ended}")
    return 0


def _in_debugger(workflow: Workflow[..., Any], work: Callable[[], T]) -> T:
    """Runs work with Python's debugger, which stops first in the workflow."""
    code: CodeType = workflow.fn.__code__
    first = min((line for _, _, line in code.co_lines() if line and line > code.co_firstlineno), default=0)
    debugger = pdb.Pdb(nosigint=True)
    debugger.reset()
    debugger.set_break(code.co_filename, first)
    debugger.botframe = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # what set_continue stops at, and nothing below
    debugger.set_continue()
    sys.settrace(debugger.trace_dispatch)
    try:
        return work()
    finally:
        sys.settrace(None)
