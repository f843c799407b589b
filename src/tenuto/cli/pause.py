"""`tenuto pause`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("pause")
@run_argument
@with_store
def command(place: Place, run_id: str) -> None:
    """Hold RUN after the work under way; messages and timers wait."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).pause()

    finish(work, place)
    say(f"{safe(run_id)} paused, or will be once the work under way is recorded")
