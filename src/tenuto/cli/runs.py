"""`tenuto runs`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import click

from tenuto.app import Tenuto
from tenuto.cli.connect import Place, attributes_of, duration_option, finish, json_option, with_store
from tenuto.cli.output import ago, cut, duration, echo_json, on_terminal, say, table
from tenuto.errors import StuckError
from tenuto.host.summaries import RunSummary
from tenuto.model.durations import milliseconds, moment, point
from tenuto.model.ids import short_name
from tenuto.store.port import RunFilter

__all__ = ["command", "shown_status"]

STATUSES = (
    *("scheduled", "pending", "running", "suspended", "paused", "parked"),
    *("completed", "failed", "cancelled", "terminated", "open", "closed", "stuck"),
)
STUCK = StuckError.code
Look: TypeAlias = Callable[[Tenuto], Awaitable[tuple[list[RunSummary], datetime]]]


@click.command("runs")
@click.option("--status", type=click.Choice(STATUSES), help="Only these; open and closed stand for several.")
@click.option("--workflow", help="Only of this workflow: its id, or the last part of it.")
@duration_option("--since", help="Only those created in this time, for example 1h.")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Only with this attribute.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option("--watch", is_flag=True, help="Go on showing them as they change, until interrupted.")
@json_option
@with_store
def command(
    place: Place,
    status: str | None,
    workflow: str | None,
    since: str | None,
    attributes: tuple[str, ...],
    limit: int,
    watch: bool,
    as_json: bool,
) -> None:
    """List runs, newest first.

    \b
    tenuto runs
    tenuto runs --status stuck
    tenuto runs --workflow checkout --since 1h --watch
    """
    wanted = attributes_of(attributes)

    async def look(app: Tenuto) -> tuple[list[RunSummary], datetime]:
        now = point(await app.store.now()) if place.is_native else datetime.now(UTC)
        after = None if since is None else moment(now - timedelta(milliseconds=milliseconds(since)))
        which = RunFilter(status, None, after, wanted, limit, name=workflow)
        return await app.engine.runs(which), now

    async def work() -> None:
        async with place.reading() as app:
            await (_watch(app, look, as_json, place.is_native) if watch else _once(app, look, as_json))

    finish(work, place)


def shown_status(run: RunSummary) -> str:
    """The status as people call it: a run that lost too many workers is stuck."""
    return "stuck" if run.status == "parked" and STUCK in (run.reason or "") else run.status


async def _once(app: Tenuto, look: Look, as_json: bool) -> None:
    runs, now = await look(app)
    if as_json:
        echo_json(runs)
        return
    for line in lines_of(runs, now):
        say(line)


def lines_of(runs: list[RunSummary], now: datetime) -> list[str]:
    """The table of runs."""
    if not runs:
        return ["no runs"]
    return table(
        ("RUN", "WORKFLOW", "STATUS", "STARTED", "TOOK", "WHY"),
        [
            (
                run.id,
                short_name(run.workflow) + (f" #{run.run_no}" if run.run_no > 1 else ""),
                shown_status(run),
                ago(run.created_at, now),
                "" if run.completed_at is None else duration((run.completed_at - run.created_at).total_seconds()),
                _why(run),
            )
            for run in runs
        ],
        status=2,
    )


def _why(run: RunSummary) -> str:
    if run.error is not None:
        place = f"{run.error.location}: " if run.error.location else ""
        return cut(f"{place}{run.error.type}: {run.error.message}", 200)
    lines = (run.reason or "").splitlines()
    return cut(lines[0], 200) if lines else ""


async def _watch(app: Tenuto, look: Look, as_json: bool, native: bool) -> None:
    """On a terminal the table in its place; elsewhere a line for each run that has changed."""
    seen: dict[str, tuple[str, str | None]] = {}
    mark = -1
    live = on_terminal() and not as_json
    while True:
        mark = await _news(app, mark, native)
        runs, now = await look(app)
        if live:
            click.clear()
            for line in lines_of(runs, now):
                say(line)
            continue
        for run in reversed(runs):
            if seen.get(run.id) == (run.status, run.reason):
                continue
            seen[run.id] = (run.status, run.reason)
            if as_json:
                echo_json(run, compact=True)
            else:
                say("  ".join(lines_of([run], now)[1:]))


async def _news(app: Tenuto, mark: int, native: bool) -> int:
    """Waits until something was stored, a second at most. A cluster does not tell: there it is the second."""
    if not native:
        await asyncio.sleep(0 if mark < 0 else 1)
        return mark + 1
    return await app.store.changed(mark, 0 if mark < 0 else 1.0)
