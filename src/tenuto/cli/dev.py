"""`tenuto dev`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import click

from tenuto.cli.connect import Place, duration_option, with_store
from tenuto.cli.output import paint, safe, say
from tenuto.cli.serving import Stopping, start_ourselves
from tenuto.directives.project import source_files
from tenuto.model import ids

__all__ = ["command"]

Stamps: TypeAlias = dict[Path, tuple[int, int]]

LOOK_EVERY: Final = 0.3  # seconds
SETTLE: Final = 0.1  # an editor writes a file in several steps


@click.command("dev")
@click.argument("file", metavar="FILE|MODULE")
@duration_option("--grace", default="5s", show_default=True, help="How long work under way may take after a change.")
@with_store
def command(place: Place, file: str, grace: str) -> None:
    """Run a worker for the code in FILE, and take over its changes.

    When a Python file of the project changes, the worker takes nothing new and finishes what is under way; another
    one with the new code goes on with the open runs by replaying them. Before it does, it says which runs no longer
    fit: those are parked, and go on when the code fits again.

    \b
    tenuto dev shop/orders.py
    """
    place = replace(place, apps=(file, *place.apps))
    folder = ids.project_root(Path(file).absolute()) if file.endswith(".py") else Path.cwd()
    asyncio.run(_Dev(place, folder, grace).run())


class _Dev:
    """The worker process, and the files it depends on."""

    def __init__(self, place: Place, folder: Path, grace: str) -> None:
        self._place = place
        self._folder = folder
        self._grace = grace
        self._worker: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        stopping = Stopping()
        stamps = await asyncio.to_thread(stamps_of, self._folder)
        say(f"watching {len(stamps)} files below {safe(str(self._folder))}", err=True)
        self._start()
        told = asyncio.create_task(stopping.wait())
        stopping.then(lambda: None, self._tell)
        try:
            while not stopping.told:
                await asyncio.wait([told], timeout=LOOK_EVERY)
                if not stopping.told:
                    stamps = await self._look(stamps)
        finally:
            await self._stop()

    async def _look(self, before: Stamps) -> Stamps:
        now = await asyncio.to_thread(stamps_of, self._folder)
        changed = sorted({path for path in now.keys() | before.keys() if now.get(path) != before.get(path)})
        if not changed:
            self._report_death()
            return now
        await asyncio.sleep(SETTLE)
        now = await asyncio.to_thread(stamps_of, self._folder)  # before the code is loaded: later changes are seen
        say(paint(f"changed: {_named(changed, self._folder)}", bold=True), err=True)
        await self._stop()
        if await self._check():
            self._start()
        return now

    def _start(self) -> None:
        arguments = ["worker", *self._place.arguments(), "--grace", self._grace, "--lease", "5s"]
        self._worker = start_ourselves(arguments, self._place.environment())

    async def _check(self) -> bool:
        """Says which open runs no longer fit; whether the code can be loaded at all."""
        if not await asyncio.to_thread(_store_is_there, self._place.url):
            return True
        checking = start_ourselves(["check", "--known-only", *self._place.arguments()], self._place.environment())
        code = await asyncio.to_thread(checking.wait)
        if code == 5:
            say(paint("the code cannot be loaded; waiting for the next change", "red"), err=True)
        return code != 5

    async def _stop(self) -> None:
        self._tell()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.wait)
            self._worker = None

    def _tell(self) -> None:
        """Tells the worker to stop; told twice, it does not wait for work under way."""
        if self._worker is not None:
            with suppress(ProcessLookupError):
                self._worker.terminate()

    def _report_death(self) -> None:
        if self._worker is not None and self._worker.poll() is not None:
            say(paint("the worker ended by itself; waiting for the next change", "red"), err=True)
            self._worker = None


def _named(changed: list[Path], folder: Path) -> str:
    names = ", ".join(safe(os.path.relpath(path, folder)) for path in changed[:3])
    return names + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _store_is_there(url: str) -> bool:
    path = getattr(Place(url).plain_store(), "path", None)
    return not isinstance(path, Path) or path.is_file()


def stamps_of(folder: Path) -> Stamps:
    """Every Python file below a folder with what changes when it is written."""
    found: Stamps = {}
    for path in source_files([folder]):
        with suppress(OSError):
            status = path.stat()
            found[path] = (status.st_mtime_ns, status.st_size)
    return found
