"""`tenuto terminate`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("terminate")
@run_argument
@click.option("--reason", help="Why; it is kept with the run.")
@with_store
def command(place: Place, run_id: str, reason: str | None) -> None:
    """Close RUN at once. None of its code runs any more: nothing is cleaned up or undone."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).terminate(reason)

    finish(work, place)
    say(f"{safe(run_id)} is terminated")
