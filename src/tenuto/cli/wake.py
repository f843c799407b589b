"""`tenuto wake`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("wake")
@run_argument
@with_store
def command(place: Place, run_id: str) -> None:
    """Give RUN a turn. Nothing fires early: a run that sleeps goes on sleeping."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).wake()

    finish(work, place)
    say(f"{safe(run_id)} will take a turn")
