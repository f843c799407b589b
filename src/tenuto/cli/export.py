"""`tenuto export`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from tenuto.cli.connect import Place, finish, run_argument, with_store
from tenuto.cli.output import safe, say
from tenuto.host.transfer import ExportedRun, document_of, export

__all__ = ["command"]


@click.command("export")
@run_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=str))
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@with_store
def command(place: Place, run_id: str, file: str, force: bool) -> None:
    """Write RUN to FILE (- for standard output): its rows, its mail and its record. Reads the store only.

    Nothing is left out or hidden: the file holds inputs, results, messages and errors as they are stored, so treat it
    like the store itself. It is made readable by its owner only.

    \b
    tenuto export order-42 order-42.json --url postgresql://prod/app
    tenuto import order-42.json --app shop.orders --replay
    """

    async def work() -> ExportedRun:
        async with place.reading() as app:
            return await export(app.store, run_id)

    run = finish(work, place)
    text = json.dumps(document_of(run), indent=1) + "\n"
    if file == "-":
        say(text.rstrip("\n"))
    else:
        _write(Path(file), text, force)
    values = f"{len(run.rows)} rows and {len(run.mail)} messages"
    say(f"{safe(run_id)}: {values}, in clear as they are stored; nothing was redacted", err=True)
    if run.tasks:
        say(f"{run.tasks} queued tasks stay behind", err=True)


def _write(file: Path, text: str, force: bool) -> None:
    # Not through a link: what is written over is what was named.
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL) | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8") as out:
            if hasattr(os, "fchmod"):
                os.fchmod(out.fileno(), 0o600)  # a file that was there keeps the mode it had
            out.write(text)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; --force writes over it") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
