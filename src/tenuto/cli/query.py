"""`tenuto query`."""

from __future__ import annotations

from typing import Any

import click

from tenuto.cli.connect import Place, finish, json_option, run_argument, values_of, with_store
from tenuto.cli.output import echo_json, say, shown, value_json

__all__ = ["command"]


@click.command("query", context_settings={"ignore_unknown_options": True})
@run_argument
@click.argument("name", required=False)
@click.argument("values", nargs=-1, metavar="[JSON]...")
@json_option
@with_store
def command(place: Place, run_id: str, name: str | None, values: tuple[str, ...], as_json: bool) -> None:
    """Show what RUN publishes; with NAME what that query makes of it (its code comes from --app).

    Read from the store: no worker is needed, and it works after the end, too.

    \b
    tenuto query order-42
    tenuto query order-42 status --app shop.orders
    """
    decoded = values_of(values)

    async def work() -> Any:
        async with place.reading() as app:
            run = app.get(run_id)
            await run.status()  # an unknown run is said to be one, also where its query is unknown, too
            return await (run.query() if name is None else run.query(name, *decoded))

    answer = finish(work, place)
    if as_json:
        echo_json(value_json(answer))
    else:
        say(shown(value_json(answer)))
