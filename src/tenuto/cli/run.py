"""`tenuto run`: a script or module as the main program, with its directives compiled."""

from __future__ import annotations

import sys

import click

from tenuto.directives.scripts import run_module, run_script

__all__ = ["command"]


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="The first argument is the name of a module, not of a file.")
@click.option("--root", type=click.Path(exists=True, file_okay=False), help="The folder that ids are relative to.")
@click.argument("target", metavar="FILE|MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(module: bool, root: str | None, target: str, arguments: tuple[str, ...]) -> None:
    """Run a Python program whose files, its own included, may use directives.

    Everything behind FILE goes to the program, as with Python itself: it finds it in sys.argv, and its own folder
    first in sys.path.

    \b
    tenuto run app.py --verbose
    tenuto run -m shop.worker

    The exit code is that of the program; 2 if the command line is wrong.
    """
    try:
        if module:
            run_module(target, arguments, root=root)
        else:
            run_script(target, arguments, root=root)
    except FileNotFoundError as error:
        if error.filename is None or not str(error.filename).endswith(target):
            raise
        click.echo(f"tenuto run: there is no file {target}", err=True)
        sys.exit(2)
