"""`tenuto supply`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, check_location, finish, run_argument, values_of, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("supply")
@run_argument
@click.argument("location", callback=check_location)
@click.argument("value")
@with_store
def command(place: Place, run_id: str, location: str, value: str) -> None:
    """Give the open step of RUN at LOCATION this VALUE (JSON) as its result.

    History marks it as supplied; what the step itself still returns is ignored.

    \b
    tenuto supply order-42 charge '"receipt 17"'
    """
    (decoded,) = values_of([value])

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).supply(location, decoded)

    finish(work, place)
    say(f"{safe(run_id)} gets the value at {safe(location)}")
