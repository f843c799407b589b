"""`tenuto schedules`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from tenuto.cli.connect import Place, finish, json_option, with_store
from tenuto.cli.output import ago, echo_json, safe, say, table
from tenuto.host.schedules import ScheduleSummary
from tenuto.model.durations import point
from tenuto.model.ids import short_name

__all__ = ["command"]

schedule_argument = click.argument("name", metavar="SCHEDULE")


@click.group("schedules", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List schedules, hold them, let them go on, remove them.

    They are made in Python: await app.schedule("nightly", report, cron="0 2 * * *", tz="Europe/Vienna").
    """
    if ctx.invoked_subcommand is None:
        with list_them.make_context("list", [], parent=ctx) as sub:  # so that TENUTO_URL counts, too
            list_them.invoke(sub)


@command.command("list")
@json_option
@with_store
def list_them(place: Place, as_json: bool) -> None:
    """List schedules by name, with their next time."""

    async def work() -> tuple[list[ScheduleSummary], datetime]:
        async with place.reading() as app:
            now = point(await app.store.now()) if place.is_native else datetime.now(UTC)
            return [summary async for summary in app.schedules()], now

    found, now = finish(work, place)
    if as_json:
        echo_json(found)
        return
    if not found:
        say("no schedules")
        return
    rows = [
        (item.name, short_name(item.workflow), f"{item.rule} ({item.tz})", _next(item, now), item.last_id or "")
        for item in found
    ]
    for line in table(("SCHEDULE", "WORKFLOW", "RULE", "NEXT", "LAST RUN"), rows):
        say(line)


def _next(item: ScheduleSummary, now: datetime) -> str:
    if item.paused:
        return "paused"
    return "over" if item.next_at is None else ago(item.next_at, now)


@command.command("pause")
@schedule_argument
@with_store
def pause(place: Place, name: str) -> None:
    """Start nothing by SCHEDULE until it is resumed."""

    async def work() -> None:
        async with place.writing() as app:
            await app.pause_schedule(name)

    finish(work, place)
    say(f"{safe(name)} is paused")


@command.command("resume")
@schedule_argument
@with_store
def resume(place: Place, name: str) -> None:
    """Let SCHEDULE go on from now; what fell into the pause is not made up for."""

    async def work() -> None:
        async with place.writing() as app:
            await app.resume_schedule(name)

    finish(work, place)
    say(f"{safe(name)} goes on")


@command.command("delete")
@schedule_argument
@with_store
def delete(place: Place, name: str) -> None:
    """Remove SCHEDULE; the runs it has started stay."""

    async def work() -> None:
        async with place.writing() as app:
            await app.delete_schedule(name)

    finish(work, place)
    say(f"{safe(name)} is gone")
