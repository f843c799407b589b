"""`tenuto explain`."""

from __future__ import annotations

import click

from tenuto.cli.connect import Place, finish, json_option, run_argument, with_store
from tenuto.cli.output import echo_json, safe, say
from tenuto.host.explain import Explanation

__all__ = ["command"]


@click.command("explain")
@run_argument
@json_option
@with_store
def command(place: Place, run_id: str, as_json: bool) -> None:
    """Say why RUN is where it is, what it waits for, and what would wake it. Reads only.

    With the run's code (--app) it also names the updates it accepts and the steps that are under way.
    """

    async def work() -> Explanation:
        async with place.reading() as app:
            return await app.get(run_id).explain()

    explanation = finish(work, place)
    if as_json:
        echo_json(explanation)
    else:
        for line in str(explanation).splitlines():
            say(safe(line))
