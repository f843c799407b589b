"""`tenuto worker`."""

from __future__ import annotations

import asyncio
import sys

import click

from tenuto.cli.connect import Place, duration_option, finish, with_store
from tenuto.cli.serving import Processes, serve

__all__ = ["command"]


@click.command("worker")
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="So many processes.")
@click.option("--queues", metavar="NAMES", help="Serve only these queues: names with commas between them.")
@click.option(
    "--concurrency", type=click.IntRange(1), default=100, show_default=True, help="Runs at once, each process."
)
@duration_option("--lease", default="30s", show_default=True, help="How long a silent worker keeps its runs.")
@duration_option("--grace", default="30s", show_default=True, help="How long work under way may take after a stop.")
@with_store
def command(place: Place, processes: int, queues: str | None, concurrency: int, lease: str, grace: str) -> None:
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
        options = {"queues": served, "concurrency": concurrency, "lease": lease, "grace": grace}
        finish(lambda: serve(place, **options), place)
        return
    arguments = ["worker", *place.arguments(), "--concurrency", str(concurrency), "--lease", lease, "--grace", grace]
    if served is not None:
        arguments += ["--queues", ",".join(served)]
    sys.exit(asyncio.run(Processes(arguments, processes).run()))
