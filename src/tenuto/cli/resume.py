"""`tenuto resume`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("resume")
@run_argument
@with_store
def command(place: Place, run_id: str) -> None:
    """Let a paused or parked RUN go on; otherwise without effect."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).resume()

    finish(work, place)
    say(f"{safe(run_id)} may go on")
