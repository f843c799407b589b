"""`tenuto signal`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, run_argument, values_of, with_store
from tenuto.cli.output import safe, say

__all__ = ["command"]


@click.command("signal", context_settings={"ignore_unknown_options": True})
@run_argument
@click.argument("name")
@click.argument("values", nargs=-1, metavar="[JSON]...")
@click.option("--id", "signal_id", help="The same id again is the same signal: it is delivered once.")
@with_store
def command(place: Place, run_id: str, name: str, values: tuple[str, ...], signal_id: str | None) -> None:
    """Send the signal NAME to RUN, with values written as JSON. It is stored when this returns.

    \b
    tenuto signal order-42 approve '"Ada"'
    """
    decoded = values_of(values)

    async def work() -> None:
        async with place.writing() as app:
            await app.get(run_id).signal(name, *decoded, id=signal_id)

    finish(work, place)
    say(f"signal {safe(name)} is stored for {safe(run_id)}")
