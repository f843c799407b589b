"""`tenuto rewind`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, location_option, run_argument, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("rewind")
@run_argument
@location_option("--to", required=True, help="The place, as `tenuto show` prints it: the entry there is done again.")
@click.option("--drop-updates", is_flag=True, help="Also across accepted updates; they keep their answers.")
@with_store
def command(place: Place, run_id: str, to: str, drop_updates: bool) -> None:
    """Take RUN back to a place, whatever its status; what came after it is done again.

    \b
    tenuto rewind order-42 --to charge
    """

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).rewind(to=to, drop_updates=drop_updates)

    finish(work, place)
    say(f"{safe(run_id)} goes on from {safe(to)}")
