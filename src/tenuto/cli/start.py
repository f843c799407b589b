"""`tenuto start`."""

from __future__ import annotations

from typing import Any

import click

from tenuto.cli.connect import (
    Place,
    attributes_of,
    duration_option,
    finish,
    json_option,
    values_of,
    with_store,
)
from tenuto.cli.output import echo_json, safe, say, shown, value_json
from tenuto.host.options import StartOptions

__all__ = ["command"]


@click.command("start", context_settings={"ignore_unknown_options": True})
@click.argument("workflow")
@click.argument("values", nargs=-1, metavar="[JSON]...")
@click.option("--id", "run_id", help="The run's id; the same id with the same input is the same run.")
@click.option(
    "--if-exists",
    type=click.Choice(["same", "attach", "error", "restart_failed", "restart_closed"]),
    default="same",
    show_default=True,
    help="What to do about an id that is in use.",
)
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="For search; may be repeated.")
@click.option("--queue", help="The queue it waits in for a worker.")
@click.option("--priority", type=int, help="Larger goes first.")
@duration_option("--delay", help="Start it after so long, for example 10m.")
@click.option("--wait", is_flag=True, help="Wait for its end and print its result.")
@duration_option("--timeout", help="Wait at most so long, for example 30s.")
@json_option
@with_store
def command(
    place: Place,
    workflow: str,
    values: tuple[str, ...],
    run_id: str | None,
    if_exists: Any,
    attributes: tuple[str, ...],
    queue: str | None,
    priority: int | None,
    delay: str | None,
    wait: bool,
    timeout: str | None,
    as_json: bool,
) -> None:
    """Start WORKFLOW, by its name or id, with arguments written as JSON. It is stored when this returns.

    A worker that knows the workflow executes it. With --wait, exit code 1 says that it did not succeed.

    \b
    tenuto start checkout '"tok_1"' 4200 --id order-42 --app shop.orders
    """
    decoded = values_of(values)
    options: StartOptions = {"id": run_id, "if_exists": if_exists, "attributes": attributes_of(attributes)}
    if queue is not None:
        options["queue"] = queue
    if priority is not None:
        options["priority"] = priority
    if delay is not None:
        options["delay"] = delay

    async def work() -> tuple[str, str, Any]:
        async with place.writing(create=True) as app:
            try:
                run = await app.start(workflow, *decoded, **options)
            except TypeError as error:  # the arguments do not fit
                raise click.UsageError(str(error)) from None
            if not wait:
                return run.id, await run.status(), None
            if not as_json:
                say(f"{safe(run.id)} is started; waiting for its end", err=True)
            result = await run.result(timeout=timeout)
            return run.id, "completed", result

    started, status, result = finish(work, place)
    if as_json:
        echo_json({"id": started, "status": status, **({"result": value_json(result)} if wait else {})})
    else:
        say(shown(value_json(result)) if wait else safe(started))
