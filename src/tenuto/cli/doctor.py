"""`tenuto doctor`."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tenuto.cli.connect import Place, json_option, with_store
from tenuto.cli.installation import import_seconds, installation
from tenuto.cli.output import ago, echo_json, paint, safe, say, table
from tenuto.errors import StuckError, TenutoError, UnsupportedError
from tenuto.host.summaries import plain_reason
from tenuto.model.durations import point
from tenuto.model.ids import short_name
from tenuto.store.port import RunFilter, RunRecord, Store
from tenuto.store.urls import shown_url

if TYPE_CHECKING:
    from tenuto.store.sqlite import SqliteStore

__all__ = ["command"]

CLOCK_MS: Final = 1_000  # a store and a worker that differ by more are worth a look: nothing breaks, times look odd
LISTED: Final = 10
MUCH_UNUSED: Final = 10_000_000  # bytes of a file: less is soon filled again


@dataclass(slots=True)
class Report:
    """What was looked at, and what is wrong."""

    versions: dict[str, Any] = field(default_factory=dict[str, Any])
    install: dict[str, Any] = field(default_factory=dict[str, Any])
    store: dict[str, Any] = field(default_factory=dict[str, Any])
    clock: dict[str, Any] = field(default_factory=dict[str, Any])
    workers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    runs: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: list[str] = field(default_factory=list[str])


@click.command("doctor")
@json_option
@with_store
def command(place: Place, as_json: bool) -> None:
    """Look at versions, the store, its clock and schema, workers, stuck and parked runs, and the installation.

    The store is opened for reading only.

    Exit code 0: all is well. 1: something is wrong, and it is said what.
    """
    if not place.is_native:
        raise UnsupportedError("a Temporal cluster has its own tools; tenuto doctor looks at SQLite and Postgres")
    report = Report()
    _look_at_installation(report)
    asyncio.run(_look_at_store(place, report))  # without the user's code: it may be what is broken
    if as_json:
        echo_json({"ok": not report.problems, **_fields(report)})
    else:
        _print(report)
    sys.exit(1 if report.problems else 0)


def _fields(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in Report.__slots__}


# --- looking


def _look_at_installation(report: Report) -> None:
    found = installation()
    report.versions = {
        "tenuto": found.packages.get("tenuto", "?"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_sqlite_build(),
    }
    report.install = {
        "packages": len(found.packages),
        "names": found.packages,
        "megabytes": round(found.size / 1_000_000, 1),
        "import_seconds": round(import_seconds(), 3),
    }


def _sqlite_build() -> dict[str, str]:
    import apsw  # only here: commands that need no store do not load it

    return {"sqlite": apsw.sqlite_lib_version(), "sqlite_source": apsw.sqlite3_sourceid(), "apsw": apsw.apsw_version()}


async def _look_at_store(place: Place, report: Report) -> None:
    store = place.plain_store(read_only=True)
    report.store = {"url": shown_url(place.url), "reachable": False}
    path = getattr(store, "path", None)
    if isinstance(path, Path):
        report.store |= {"file": str(path), "sync": getattr(store, "sync", None)}
        if not path.is_file():
            report.store["note"] = "there is no such file yet; the first start or worker makes it"
            return
        report.store["megabytes"] = round(path.stat().st_size / 1_000_000, 1)
    try:
        await store.open()
        try:
            await _look_inside(store, report)
            if isinstance(path, Path):
                await _look_at_unused(cast("SqliteStore", store), report)
        finally:
            await store.close()
    except TenutoError as error:
        report.store["error"] = str(error)
        report.problems.append(f"the store cannot be used: {str(error).splitlines()[0]}")


async def _look_at_unused(store: SqliteStore, report: Report) -> None:
    unused = await store.unused_bytes()
    report.store["unused_megabytes"] = round(unused / 1_000_000, 1)
    if unused > MUCH_UNUSED and unused * 2 > store.path.stat().st_size:
        report.store["note"] = "more than half of the file is unused; VACUUM it while no worker runs"


async def _look_inside(store: Store, report: Report) -> None:
    began = time.perf_counter()
    version, known = await store.schema()
    report.store |= {
        "reachable": True,
        "read_ms": round((time.perf_counter() - began) * 1000, 1),
        "schema": version,
        "known_schema": known,
    }
    if version < known:
        report.store["note"] = "its schema is older; the next worker brings it up to date"
    now = await store.now()
    report.clock = {"store": point(now), "ahead_of_here_ms": now - round(time.time() * 1000)}
    if abs(report.clock["ahead_of_here_ms"]) > CLOCK_MS:
        report.problems.append(
            f"the store's clock differs from this machine's by {report.clock['ahead_of_here_ms']} ms"
        )
    report.workers = [
        {"id": worker.id, "host": worker.host, "pid": worker.pid, "release": worker.release, "queues": worker.queues}
        for worker in await store.live_workers()
    ]
    await _look_at_runs(store, report, now)


async def _look_at_runs(store: Store, report: Report, now: int) -> None:
    opened = await store.count(RunFilter("open"))
    stuck = (await store.count(RunFilter("stuck"))).get("parked", 0)
    parked = opened.get("parked", 0) - stuck
    report.runs = {
        "open": dict(sorted(opened.items())),
        "counts": {"stuck": stuck, "parked": parked},
        "stuck": [_line(record, now) for record in await store.runs(RunFilter("stuck", limit=LISTED))],
        "parked": await _parked(store, now),
    }
    if stuck:
        report.problems.append(f"stuck runs: {stuck}; workers were lost with them again and again")
    if parked:
        report.problems.append(f"parked runs: {parked}; they wait for a deploy that fits, or for `tenuto resume`")
    if opened.get("pending") and not report.workers:
        report.problems.append(f"no worker is alive, and runs wait to begin: {opened['pending']}")
    if any(record.created_at > now + CLOCK_MS for record in await store.runs(RunFilter("open", limit=1))):
        report.problems.append("some runs were created in the future: the store's clock has been set back")


async def _parked(store: Store, now: int) -> list[dict[str, str]]:
    """Some of those that are parked and not stuck."""
    found: list[RunRecord] = []
    which = RunFilter("parked")
    while len(found) < LISTED:
        page = await store.listing(which)
        found += [record for record in page.records if StuckError.code not in (record.reason or "")]
        if page.after is None:
            break
        which = replace(which, after=page.after)
    return [_line(record, now) for record in found[:LISTED]]


def _line(record: RunRecord, now: int) -> dict[str, str]:
    reason = (plain_reason(record.reason) or "").splitlines() or [""]
    age = ago(point(record.created_at), point(now))
    return {"id": record.id, "workflow": short_name(record.target), "created": age, "reason": reason[0]}


# --- printing


def _print(report: Report) -> None:
    versions, install, store = report.versions, report.install, report.store
    lines = [
        ("tenuto", f"{versions['tenuto']} on Python {versions['python']}, {versions['platform']}"),
        ("sqlite", f"{versions['sqlite']} (apsw {versions['apsw']})"),
        (
            "installed",
            f"{install['packages']} packages, {install['megabytes']} MB; import takes {install['import_seconds']} s",
        ),
        ("store", f"{store['url']}: " + _store_state(store)),
    ]
    if report.clock:
        lines.append(("clock", f"{report.clock['ahead_of_here_ms']:+} ms against this machine"))
        lines.append(("workers", f"{len(report.workers)} alive"))
        opened = ", ".join(f"{count} {status}" for status, count in report.runs["open"].items())
        lines.append(("open runs", opened or "none"))
    for name, text in lines:
        say(f"{name:10} {safe(text)}")
    for title in ("stuck", "parked"):
        runs = report.runs.get(title, [])
        if runs:
            say()
            rows = [(run["id"], run["workflow"], run["created"], run["reason"]) for run in runs]
            for line in table((title.upper(), "WORKFLOW", "STARTED", "WHY"), rows):
                say(line)
    say()
    for problem in report.problems:
        say(paint(f"problem: {safe(problem)}", "red"))
    if not report.problems:
        say(paint("all is well", "green"))


def _store_state(store: dict[str, Any]) -> str:
    if not store["reachable"]:
        return str(store.get("note") or "cannot be used")
    sync = f", sync {store['sync']}" if store.get("sync") else ""
    note = f"; {store['note']}" if store.get("note") else ""
    return f"reachable in {store['read_ms']} ms, schema {store['schema']} of {store['known_schema']}{sync}{note}"
