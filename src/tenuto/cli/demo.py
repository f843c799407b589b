"""`tenuto demo`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from tenuto.app import RunHandle, Tenuto
from tenuto.cli.output import paint, say, shown
from tenuto.errors import EnvironmentFault, RunNotFoundError
from tenuto.store.port import RunFilter
from tenuto.store.urls import store_of

__all__ = ["command"]

RUN: Final = "order-42"
MODULE: Final = "tenuto.cli.demo_order"
LEASE: Final = "2s"  # short, so that nobody waits long for the second worker to take over


@click.command("demo")
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(".tenuto") / "demo.db",
    show_default=True,
    help="The file the run is kept in; one of an earlier demo is replaced.",
)
def command(database: Path) -> None:
    """Run an order with a payment, a durable wait and an approval, and kill its worker half way.

    Another worker goes on. What the first one did is reused from history: nothing is reserved or charged twice. The
    file stays behind, to be looked at.
    """
    if "?" in str(database) or "#" in str(database):
        raise click.BadParameter(f"{database}: a name without ? and #")
    asyncio.run(_Demo(database).run())


class _Demo:
    """One showing: an app that only watches, and one worker after the other."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._url = f"sqlite:///{database}"
        self._workers: list[subprocess.Popen[bytes]] = []
        self._told: dict[str, str] = {}  # entries that were shown, with their status

    async def run(self) -> None:
        from tenuto.cli.demo_order import order  # only here: whoever asks for help gets no definitions

        await self._clear()
        say(f"An order, kept in {self._database}")
        try:
            async with Tenuto(self._url, worker=False) as app:
                first = self._start_worker()
                run = await app.start(order, "violin", "tok_visa", 129_900, id=RUN)
                say(f"  {run.id} started: reserve, charge, wait for the bank, wait for approval, ship")
                await self._follow(run, first, until="charge")
                self._kill(first)
                await run.signal("approve", "Ada")
                say("  approved by signal while no worker is alive: the signal is stored")
                second = self._start_worker()
                await self._show_reused(run, first)
                await self._follow(run, second, until=None)
                self._show_result(await run.result(timeout="25s"), first, second)
        finally:
            for worker in self._workers:
                worker.terminate()
                worker.wait()

    async def _clear(self) -> None:
        """Removes what an earlier showing left; a file with anything else in it is not ours to remove."""
        if not self._database.exists():
            return
        store = store_of(self._url, read_only=True)
        try:
            await store.open()
            ours = {record.id for record in await store.runs(RunFilter(limit=2))} <= {RUN}
        except EnvironmentFault:
            ours = False
        finally:
            await store.close()
        if not ours:
            raise click.UsageError(f"{self._database} is there, and not from a demo: name another file")
        _remove(self._database)

    # --- workers

    def _start_worker(self) -> subprocess.Popen[bytes]:
        arguments = ["worker", "--url", self._url, "--app", MODULE, "--lease", LEASE, "--grace", "1s"]
        worker = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-m", "tenuto.cli", *arguments], stderr=subprocess.DEVNULL
        )
        self._workers.append(worker)
        say(f"  worker started, process {worker.pid}")
        return worker

    def _kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        say(paint(f"  process {worker.pid} killed with SIGKILL", "red", bold=True))

    # --- what is seen

    async def _follow(self, run: RunHandle[list[str]], worker: subprocess.Popen[bytes], until: str | None) -> None:
        """Shows what is recorded, as it is recorded, until that entry is there; without one, until the run ends."""
        try:
            async for event in run.watch():
                if event.location and self._told.get(event.location) != event.status:
                    self._told[event.location] = event.status
                    await self._show(run, event.location, worker)
                if until is not None and event.location == until and event.status == "completed":
                    return
        except RunNotFoundError:  # the file was taken away while we looked
            raise click.ClickException(f"{self._database} was changed by somebody else") from None

    async def _show(self, run: RunHandle[list[str]], location: str, worker: subprocess.Popen[bytes]) -> None:
        for entry in await run.history():
            if entry.location != location:
                continue
            word = {"completed": "recorded", "pending": "waits"}.get(entry.status, entry.status)
            if entry.kind == "step" and entry.status == "completed":
                word = f"ran in {worker.pid}"
            value = f"  {shown(entry.value)}" if entry.value is not None else ""
            say(f"    {location:14} {paint(f'{word:14}', entry.status)}{value}")

    async def _show_reused(self, run: RunHandle[list[str]], first: subprocess.Popen[bytes]) -> None:
        for entry in await run.history():
            if entry.kind == "step" and entry.status == "completed":
                reused = paint(f"{'reused':14}", "cyan")
                say(f"    {entry.location:14} {reused}  process {first.pid} recorded it; it does not run again")

    def _show_result(self, lines: list[str], first: subprocess.Popen[bytes], second: subprocess.Popen[bytes]) -> None:
        say("\nThe result:")
        for line in lines:
            say(f"  {line}")
        say(f"\nProcess {first.pid} reserved and charged; process {second.pid} only shipped.")
        say("The run is still there:")
        for words in ("runs", f"show {RUN}"):
            say(f"  tenuto {words} --url {self._url}")


def _remove(database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
