"""`tenuto show`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from tenuto.cli.connect import Place, finish, json_option, on_cluster, run_argument, with_store
from tenuto.cli.drawing import draw_timeline, draw_tree
from tenuto.cli.faults import lines_of_error, shown_error
from tenuto.cli.output import ago, duration, echo_json, paint, safe, say, shown, terminal_width, when
from tenuto.cli.runs import shown_status
from tenuto.host.engine import NativeEngine
from tenuto.host.looking import RunView, look
from tenuto.host.undoing import say_failed
from tenuto.model.ids import short_name

__all__ = ["command"]

MOST_ENTRIES = 200


@click.command("show")
@run_argument
@click.option("--all", "everything", is_flag=True, help=f"Every entry, not only the last {MOST_ENTRIES}.")
@json_option
@with_store
def command(place: Place, run_id: str, everything: bool, as_json: bool) -> None:
    """Show RUN: its timeline, its history, what it publishes, how it ended, or why it waits. Reads only.

    With the run's code (--app) values of its own classes can be read, and updates it accepts are named.
    """

    async def work() -> RunView:
        async with place.reading() as app:
            if isinstance(app.engine, NativeEngine):
                return await look(app.engine.store, run_id, app.engine.definitions)
            return await on_cluster(app).look(run_id)

    view = finish(work, place)
    if as_json:
        echo_json(view)
        return
    for line in lines_of(view, terminal_width(), None if everything else MOST_ENTRIES):
        say(line)


def lines_of(view: RunView, width: int, most: int | None = MOST_ENTRIES) -> Iterator[str]:
    """The page of one run."""
    run = view.summary
    status = shown_status(run)
    yield f"{paint(safe(run.id), bold=True)}  {safe(short_name(run.workflow))}  {paint(status, status)}"
    yield from _head(view)
    entries = view.history if most is None else view.history[-most:]
    end = run.completed_at or _last(view)
    if entries:
        yield from _section("Timeline", draw_timeline(entries, run.started_at or run.created_at, end, width - 2))
        left_out = len(view.history) - len(entries)
        title = f"History (the last {len(entries)} of {len(view.history)} entries)" if left_out else "History"
        yield from _section(title, draw_tree(entries, width - 2))
    if run.completed_at is None:
        yield from _section("Why it waits", _waiting(view))
    failed = _failed_steps(view)
    if failed:
        yield from _section("Failures", failed)
    if view.explanation.rollbacks:
        yield from _section("Undoing", _undoing(view))
    if view.published is not None:
        yield from _section("Published state", [shown(view.published)])
    if view.error is not None:
        yield from _section("Error", lines_of_error(view.error))
    elif status == "completed":
        yield from _section("Result", [shown(view.result)])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield ""
    yield paint(title, bold=True)
    for line in lines:
        yield f"  {line}"


def _head(view: RunView) -> Iterator[str]:
    run = view.summary
    yield f"  workflow    {safe(run.workflow)}"
    yield f"  created     {when(run.created_at)}, {ago(run.created_at, view.now)}"
    if run.completed_at is not None:
        took = duration((run.completed_at - run.created_at).total_seconds())
        yield f"  ended       {when(run.completed_at)}, after {took}"
    if run.queue != "default":
        yield f"  queue       {safe(run.queue)}"
    if run.run_no > 1:
        yield f"  run         {run.run_no} of its chain"
    if run.attributes:
        yield f"  attributes  {shown(run.attributes)}"
    yield f"  input       {_input(view.input)}"
    if view.cancelled is not None:
        yield f"  cancel      {safe(view.cancelled or 'asked for, without a reason')}"
    if run.reason:
        first, *rest = run.reason.splitlines()
        yield f"  reason      {safe(first)}"
        for line in rest:
            yield f"              {safe(line.strip())}"


def _failed_steps(view: RunView) -> list[str]:
    """Each entry that failed, with its causes; the run's own error is shown by itself."""
    lines: list[str] = []
    for entry in view.history:
        if entry.error is not None and entry.error != view.error:
            first, *rest = lines_of_error(entry.error)
            lines += [f"{safe(entry.location)}  {first}", *(f"  {line}" for line in rest)]
    return lines


def _undoing(view: RunView) -> list[str]:
    """The rollback handlers that failed."""
    lines = [safe(say_failed(view.explanation.rollbacks, recoverable=view.summary.status == "failed"))]
    for failed in view.explanation.rollbacks:
        first, *rest = lines_of_error(failed.error)
        lines += [f"{safe(failed.location)}  {first}", *(f"  {line}" for line in rest)]
    return lines


def _input(value: Any) -> str:
    """Arguments as a call has them."""
    if not (isinstance(value, list | tuple) and len(value) == 2):  # pyright: ignore[reportUnknownArgumentType]
        return shown(value)
    args, kwargs = value  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        return shown(value)
    parts = [shown(item) for item in args] + [f"{safe(str(key))}={shown(item)}" for key, item in kwargs.items()]  # pyright: ignore
    return ", ".join(parts) or "nothing"


def _last(view: RunView) -> datetime:
    """Where an open run's timeline ends: now."""
    known = [entry.ended or entry.began for entry in view.history]
    return max([view.now, *(at for at in known if at is not None)])


def _waiting(view: RunView) -> list[str]:
    explanation = view.explanation
    width = max((len(operation.location) for operation in explanation.pending), default=0)
    lines = [f"{safe(operation.location):{width}} {safe(operation.what)}" for operation in explanation.pending]
    for operation in explanation.pending:
        if operation.error is not None:
            lines.append(f"{'':{width}} {shown_error(operation.error)}")
    if view.buffered:
        lines.append(f"signals nobody has taken yet: {', '.join(map(safe, view.buffered))}")
    return [*lines, f"wakes: {safe(explanation.wakes)}"]
