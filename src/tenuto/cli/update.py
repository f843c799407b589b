"""`tenuto update`."""

from __future__ import annotations

from typing import Any

import click

from tenuto.cli.connect import Place, duration_option, finish, json_option, run_argument, values_of, with_store
from tenuto.cli.output import echo_json, say, shown, value_json

__all__ = ["command"]


@click.command("update", context_settings={"ignore_unknown_options": True})
@run_argument
@click.argument("name")
@click.argument("values", nargs=-1, metavar="[JSON]...")
@click.option("--id", "update_id", help="The same id again is the same update: it gets the same answer.")
@duration_option("--timeout", help="Wait at most so long for the answer, for example 30s.")
@duration_option("--retry-for", default="0s", help="Try again so long while the run does not accept updates.")
@json_option
@with_store
def command(
    place: Place,
    run_id: str,
    name: str,
    values: tuple[str, ...],
    update_id: str | None,
    timeout: str | None,
    retry_for: str,
    as_json: bool,
) -> None:
    """Send the update NAME to RUN, with values written as JSON, and print its answer.

    A worker must be running: the run itself answers. Exit code 1: rejected, failed, or no answer in time.

    \b
    tenuto update cart-7 add '"violin"' 1
    """
    decoded = values_of(values)

    async def work() -> Any:
        async with place.writing() as app:
            return await app.get(run_id).update(name, *decoded, id=update_id, timeout=timeout, retry_for=retry_for)

    answer = finish(work, place)
    if as_json:
        echo_json(value_json(answer))
    else:
        say(shown(value_json(answer)))
