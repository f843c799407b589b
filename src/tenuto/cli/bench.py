"""`tenuto bench`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import click

from tenuto.cli.connect import json_option
from tenuto.cli.measuring import MEASURES, measure_all
from tenuto.cli.output import echo_json, progress, say, table

__all__ = ["command"]


@click.command("bench")
@click.option("--all", "everything", is_flag=True, help="Run the repository's bench/ instead, side by side with peers.")
@json_option
def command(everything: bool, as_json: bool) -> None:
    """Measure this machine in a few seconds: durable steps, starts, updates, replay.

    On a new SQLite file at full durability, in a temporary folder. The numbers are this machine's; to compare engines,
    run them side by side: in a checkout of the repository, `tenuto bench --all`.
    """
    if everything:
        sys.exit(_run_scripts(Path("bench")))
    with progress("measuring", MEASURES) as advance:
        measures = asyncio.run(measure_all(advance))
    if as_json:
        echo_json({measure.name: measure for measure in measures})
        return
    rows = [(measure.name, f"{measure.value:,} {measure.unit}", measure.what) for measure in measures]
    for line in table(("WHAT", "HERE", "MEASURED AS"), rows):
        say(line)


def _run_scripts(folder: Path) -> int:
    scripts = sorted(folder.glob("*.py"))
    if not scripts:
        raise click.UsageError("there is no bench/ here: it is in the repository, not in the package")
    code = 0
    for script in scripts:
        say(f"== {script.name}")
        code = max(code, subprocess.run([sys.executable, str(script)], check=False).returncode)  # noqa: S603
    return 1 if code else 0
