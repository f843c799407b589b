"""`tenuto manifest`: every step, workflow and serializable class of a project, without importing any of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import click

from tenuto.directives.errors import describe
from tenuto.directives.manifest import Manifest, dump, gone, sources_of
from tenuto.directives.project import compile_paths, duplicates, has_errors, manifest_of
from tenuto.model import ids

__all__ = ["command"]


@click.command("manifest")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the manifest to this file.")
@click.option(
    "--check",
    "old",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="List the ids of this earlier manifest that are gone: open runs would not find them.",
)
@click.option("--root", type=click.Path(exists=True, file_okay=False), help="The folder that ids are relative to.")
@click.option("--strict", is_flag=True, help="Also report what is allowed but not recommended (DIR3xx).")
@click.option("--json", "as_json", is_flag=True, help="The manifest as JSON (otherwise: one id per line).")
def command(
    paths: tuple[Path, ...], out: Path | None, old: Path | None, root: str | None, strict: bool, as_json: bool
) -> None:
    """List the workflows, steps and serializable classes below PATH (default: the current folder).

    Nothing is imported, so files that cannot be imported here are listed too. Hidden folders, virtual environments
    and installed packages are left out.

    \b
    tenuto manifest
    tenuto manifest src --out manifest.json
    tenuto manifest src --check manifest.json     # before a deploy

    Exit code 0: all is well. 1: a file has an error, two definitions share an id, or ids of OLD are gone. 2: the
    command line is wrong.
    """
    ids.use_root(root)
    files = list(compile_paths(paths or (Path(),), strict=strict))
    manifest = manifest_of(files)
    doubled = duplicates(manifest)
    missing = gone(_read(old), manifest) if old is not None else ()
    for finding in (finding for file in files for finding in file.findings if finding.level == "error"):
        click.echo(describe(finding), err=True)
    for line in doubled:
        click.echo(line, err=True)
    if out is not None:
        out.write_text(dump(manifest, version=1) + "\n", encoding="utf-8")
    if old is not None:
        _print_gone(missing, as_json=as_json)
    elif as_json:
        click.echo(dump(manifest, version=1))
    elif out is None:
        for identity, _, _ in sources_of(manifest):
            click.echo(identity)
    sys.exit(1 if missing or doubled or has_errors(files) else 0)


def _read(file: Path) -> Manifest:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise click.UsageError(f"{file} is not a manifest") from None
    if not isinstance(data, dict):
        raise click.UsageError(f"{file} is not a manifest")
    table = cast("dict[str, object]", data)
    return cast("Manifest", {key: value for key, value in table.items() if key != "version"})


def _print_gone(missing: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"gone": list(missing)}))
        return
    for identity in missing:
        click.echo(f"gone: {identity}")
