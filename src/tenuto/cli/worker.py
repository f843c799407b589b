"""`tenuto worker`."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import click

from tenuto.app import Tenuto
from tenuto.cli.connect import Place, duration_option, finish, with_store
from tenuto.cli.serving import Processes, serve
from tenuto.host.limits import Limits
from tenuto.model.durations import milliseconds

__all__ = ["command"]

NAMESPACES: Final = "TENUTO_NAMESPACES"
FOR_EVER: Final = "none"
# What `Tenuto(...)` takes unless it is told otherwise: said once, there.
_DEFAULTS: Final = {name: option.default for name, option in inspect.signature(Tenuto).parameters.items()}


def _check_retention(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    try:
        if value != FOR_EVER:
            milliseconds(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or {FOR_EVER}") from None
    return None if value == FOR_EVER else value


def _limits(ctx: click.Context, param: click.Parameter, pairs: Sequence[str]) -> Limits | None:
    names = [field.name for field in fields(Limits)]
    found: dict[str, int] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in names or not number.isdecimal() or int(number) < 1:
            raise click.BadParameter(f"{pair!r} is not NAME=NUMBER; the limits are {', '.join(names)}")
        found[name] = int(number)
    return Limits(**found) if found else None


def _namespaces(ctx: click.Context, param: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        if not name or not equals or not url:
            raise click.BadParameter("write NAME=URL")  # without what was given: there may be a password in it
        found[name] = url
    return found


@click.command("worker")
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="So many processes.")
@click.option("--queues", metavar="NAMES", help="Serve only these queues: names with commas between them.")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=_DEFAULTS["concurrency"],
    show_default=True,
    help="Runs at once, each process.",
)
@duration_option(
    "--lease", default=_DEFAULTS["lease"], show_default=True, help="How long a silent worker keeps its runs."
)
@duration_option(
    "--block-limit",
    default=_DEFAULTS["block_limit"],
    show_default=True,
    help="How long code that blocks the event loop is still taken for alive.",
)
@duration_option(
    "--grace", default=_DEFAULTS["grace"], show_default=True, help="How long work under way may take after a stop."
)
@click.option(
    "--retention",
    metavar=f"DURATION|{FOR_EVER}",
    default=_DEFAULTS["retention"],
    show_default=True,
    callback=_check_retention,
    help=f"How long closed runs, and their ids, are kept; {FOR_EVER}: for ever.",
)
@click.option(
    "--max-reclaims",
    type=click.IntRange(1),
    default=_DEFAULTS["max_reclaims"],
    show_default=True,
    help="So many workers may be lost with nothing but one run before it is parked as stuck.",
)
@click.option(
    "--cache-bytes",
    type=click.IntRange(0),
    default=_DEFAULTS["cache_bytes"],
    show_default=True,
    help="How much of suspended runs stays in memory, each process.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=_limits,
    help=f"One of {', '.join(field.name for field in fields(Limits))}; may be repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    envvar=NAMESPACES,
    metavar="NAME=URL",
    callback=_namespaces,
    help=f"Another store by name, for nexus of TWF programs ({NAMESPACES}, with blanks between; may be repeated).",
)
@with_store
def command(place: Place, processes: int, queues: str | None, **options: Any) -> None:
    """Run workers for the code of --app until they are told to stop (Ctrl-C, SIGTERM).

    Told once, a worker takes nothing new and finishes what is under way; told twice, it leaves at once, and others
    take over when its lease is over. With --processes a process that dies is started again.

    \b
    tenuto worker --app shop.orders --processes 4
    tenuto worker --app shop.orders --queues gpu,mail --url postgresql://prod/app
    """
    if not place.apps:
        raise click.UsageError("whose code? Name it with --app MODULE|FILE or TENUTO_APP")
    served = [name for name in (queues or "").split(",") if name] or None
    if processes == 1:
        finish(lambda: serve(place, queues=served, **options), place)
        return
    namespaces = " ".join(f"{name}={url}" for name, url in options.pop("namespaces").items())
    environment = {**place.environment(), **({NAMESPACES: namespaces} if namespaces else {})}
    arguments = ["worker", *place.arguments(), *_again(options)]
    if served is not None:
        arguments += ["--queues", ",".join(served)]
    sys.exit(asyncio.run(Processes(arguments, environment, processes).run()))


def _again(options: Mapping[str, Any]) -> list[str]:
    """The same options for the command line of a child."""
    arguments: list[str] = []
    for name, value in options.items():
        if isinstance(value, Limits):
            for field in fields(value):
                arguments += ["--limit", f"{field.name}={getattr(value, field.name)}"]
        elif name != "limits":
            arguments += [f"--{name.replace('_', '-')}", FOR_EVER if value is None else str(value)]
    return arguments
