"""`tenuto recover`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("recover")
@run_argument
@with_store
def command(place: Place, run_id: str) -> None:
    """Run a failed RUN on from the step that failed it."""

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).recover()

    finish(work, place)
    say(f"{safe(run_id)} goes on from the step that failed it")
