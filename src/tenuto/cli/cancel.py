"""`tenuto cancel`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, duration_option, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("cancel")
@run_argument
@click.option("--reason", help="Why; the run's history keeps it.")
@duration_option("--within", help="How long it may clean up, for example 30s; then it is over.")
@with_store
def command(place: Place, run_id: str, reason: str | None, within: str | None) -> None:
    """Ask RUN to stop. It may clean up first; one that has ended stays as it is."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).cancel(reason, within=within)

    finish(work, place)
    say(f"{safe(run_id)} was asked to stop")
