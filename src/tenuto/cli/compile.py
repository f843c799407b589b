"""`tenuto compile`: see what the directive compiler makes of files, or what it has to say about them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import click

from tenuto.directives.ahead import write_caches
from tenuto.directives.errors import describe, to_json
from tenuto.directives.manifest import dump
from tenuto.directives.project import CompiledFile, compile_paths, has_errors, manifest_of, read_file
from tenuto.directives.transform import MODES, Mode, render
from tenuto.model import ids

__all__ = ["command"]

FILES = click.Path(exists=True, path_type=Path)


@click.command("compile")
@click.argument("paths", nargs=-1, required=True, type=FILES)
@click.option("--mode", type=click.Choice(MODES), default="step", show_default=True, help="Which output to show.")
@click.option("--check", is_flag=True, help="Only say what is wrong; write no output.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "Write all three outputs of every file, and manifest.json, below this folder. For reading; nothing loads them."
    ),
)
@click.option("--cache", is_flag=True, help="Write what importing these files needs, where an import would put it.")
@click.option("--root", type=click.Path(exists=True, file_okay=False), help="The folder that ids are relative to.")
@click.option("--strict", is_flag=True, help="Also report what is allowed but not recommended (DIR3xx).")
@click.option("--json", "as_json", is_flag=True, help="Findings, manifest and output as one JSON document.")
def command(
    paths: tuple[Path, ...],
    mode: str,
    check: bool,
    out: Path | None,
    cache: bool,
    root: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Show what the directive compiler makes of a FILE, or check whole folders.

    The output goes to standard output, what is wrong to standard error, one line each:
    path:line:column: CODE message (hint).

    \b
    tenuto compile shop/orders.py --mode workflow
    tenuto compile src --check
    tenuto compile src --out build/directives
    tenuto compile src --cache

    --cache is for images that run with PYTHONDONTWRITEBYTECODE or on a read-only file system: without it every
    process there compiles every marked file again.

    Exit code 0: no errors. 1: some file has an error. 2: the command line is wrong.
    """
    ids.use_root(root)
    chosen = cast("Mode", mode)
    if out is not None:
        files = _write_all(paths, out, strict=strict)
    elif check or cache or any(path.is_dir() for path in paths) or len(paths) > 1:
        if not check and not cache:
            raise click.UsageError("one FILE at a time; for folders say --check, --out DIR or --cache")
        files = list(compile_paths(paths, chosen, strict=strict))
        if cache:
            _write_caches(files, chosen)
    else:
        files = [read_file(path, chosen, strict=strict) for path in paths]
    if as_json:
        _print_json(files, with_code=not check and not cache and out is None)
    else:
        for finding in (finding for file in files for finding in file.findings):
            click.echo(describe(finding), err=True)
        if not check and not cache and out is None:
            click.echo(_text(files[0]), nl=False)
    sys.exit(1 if has_errors(files) else 0)


def _text(file: CompiledFile) -> str:
    try:
        return render(file.result)
    except ValueError as error:  # Python 3.11 cannot write every f-string that it can read
        better = "" if sys.version_info >= (3, 12) else "; Python 3.12 may be able to"
        raise click.ClickException(f"{file.file} cannot be shown as text: {error}{better}") from None


def _print_json(files: list[CompiledFile], *, with_code: bool) -> None:
    data: dict[str, object] = {
        "findings": [to_json(finding) for file in files for finding in file.findings],
        "manifest": manifest_of(files),
    }
    if with_code:
        data["code"] = _text(files[0])
    click.echo(json.dumps(data, indent=2))


def _write_caches(files: list[CompiledFile], mode: Mode) -> None:
    if mode == "workflow":
        raise click.UsageError("modules are imported in mode step or client; what workflows need goes along")
    failed = write_caches((file.file for file in files if not has_errors([file]) and file.result.is_changed), mode)
    if failed:
        raise click.ClickException(f"cannot write beside {failed[0]}, and {len(failed) - 1} others")


def _write_all(paths: tuple[Path, ...], out: Path, *, strict: bool) -> list[CompiledFile]:
    for mode in MODES:
        files = list(compile_paths(paths, mode, strict=strict))
        for file in files:
            if file.result.code is not None:
                target = out / mode / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_text(file), encoding="utf-8")
    files = list(compile_paths(paths, "step", strict=strict))
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.json").write_text(dump(manifest_of(files), version=1) + "\n", encoding="utf-8")
    return files
