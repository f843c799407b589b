"""Runs as files: out of any store, and into a local one to be replayed in a debugger.

The file has the run's rows as they are stored, its mail and its record. Values stay what they are: nothing is left out
or hidden, and whoever writes such a file is told so. `tenuto.testing.Recorded.read` reads it, too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Final, cast

from tenuto.codec.records import decode_mail, encode_mail
from tenuto.codec.rows import decode_rows
from tenuto.errors import RecordError, RunIdConflictError, RunNotFoundError, UnsupportedError
from tenuto.host.hooks import hooks_of
from tenuto.host.timers import open_timers
from tenuto.kernel.batch import EMPTY
from tenuto.kernel.location import check_name, text
from tenuto.kernel.records import Child, ChildMode, Flag, Mail
from tenuto.store.adoption import AdoptedRun, Adopts
from tenuto.store.port import CLOSED, OPEN, RunRecord, Store

__all__ = ["ExportedRun", "adopt", "document_of", "export", "left_behind", "read_document"]

FORMAT: Final = "tenuto-run"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run, out of its store."""

    record: RunRecord
    rows: tuple[tuple[bytes, bytes], ...]
    mail: tuple[tuple[int, Mail], ...]  # what it has not taken yet, signals apart: they are rows
    exported_at: int
    tasks: int = 0  # queued and not ended: they stay behind
    starts_at: int | None = None  # when one that is scheduled may begin


async def export(store: Store, run_id: str) -> ExportedRun:
    """A run with everything it is made of; `RunNotFoundError`. Reads only."""
    record = await store.get(run_id)
    if record is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    rows = tuple(await store.rows(run_id))
    numbers = {number for number, _ in decode_rows(run_id, rows)[0].mail}
    mail = tuple((number, item) for number, item in await store.mail(run_id, 0) if number not in numbers)
    place = await store.place(run_id) if record.status == "scheduled" else None
    return ExportedRun(
        record,
        rows,
        mail,
        await store.now(),
        len(await store.open_tasks(run_id)),
        None if place is None else place.ready_at,
    )


def document_of(run: ExportedRun) -> dict[str, Any]:
    """A run as JSON has it; one row per line can be compared by eye."""
    record = run.record
    return {
        "format": FORMAT,
        "version": VERSION,
        "release": version("tenuto"),
        "exported_at": run.exported_at,
        "id": record.id,
        "target": record.target,
        "record": {
            "status": record.status,
            "reason": record.reason,
            "definition": record.definition,
            "queue": record.queue,
            "run_no": record.run_no,
            "created_at": record.created_at,
            "started_at": record.started_at,
            "completed_at": record.completed_at,
            "attributes": dict(record.attributes),
            "open_tasks": run.tasks,
            "starts_at": run.starts_at,
        },
        "rows": [[key.hex(), _text(value)] for key, value in run.rows],
        "mail": [[number, _text(encode_mail(mail))] for number, mail in run.mail],
    }


def read_document(document: object) -> ExportedRun:
    """What `document_of` made; `RecordError` for anything else."""
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("format") != FORMAT:
        raise RecordError("the file is not an exported run")
    given = cast("dict[str, Any]", document)
    if given.get("version") != VERSION:
        raise RecordError(f"the file has version {given.get('version')!r}; this release reads {VERSION}")
    try:
        record = _record(check_name(given["id"]), check_name(given["target"]), given["record"])
        rows = tuple((bytes.fromhex(key), _bytes(value)) for key, value in given["rows"])
        mail = tuple((int(number), decode_mail(_bytes(data))) for number, data in given["mail"])
        exported_at, tasks = int(given["exported_at"]), int(given["record"].get("open_tasks", 0))
        starts_at = given["record"].get("starts_at")  # files of older versions have none
        starts_at = None if starts_at is None else int(starts_at)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise RecordError(f"the file is damaged: {type(error).__name__}: {error}") from None
    decode_rows(record.id, rows)  # refused here, not by the worker that would take it
    return ExportedRun(record, rows, mail, exported_at, tasks, starts_at)


def _record(run_id: str, target: str, given: Mapping[str, Any]) -> RunRecord:
    if given["status"] not in OPEN | CLOSED:
        raise ValueError(f"there is no status {given['status']!r}")
    times = [None if given[name] is None else int(given[name]) for name in ("started_at", "completed_at")]
    attributes = {
        str(name): value for name, value in given["attributes"].items() if isinstance(value, str | int | float | bool)
    }
    return RunRecord(
        id=run_id,
        target=target,
        status=str(given["status"]),
        epoch=0,
        alarm=None,
        reason=None if given["reason"] is None else str(given["reason"]),
        parent=None,
        detached=False,
        definition=str(given["definition"]),
        queue=check_name(given["queue"]),
        run_no=int(given["run_no"]),
        created_at=int(given["created_at"]),
        started_at=times[0],
        completed_at=times[1],
        attributes=attributes,
    )


async def adopt(store: Store, run: ExportedRun, run_id: str | None = None) -> str:
    """Takes a run into a local store; the id it has there.

    An open one is paused: no worker goes on with somebody else's run before a person says so. One that waits for its
    start is paused when that comes. Its timers come along; tasks, children and parents stay behind, and its hooks are
    opened again by `resume`.
    """
    if not isinstance(store, Adopts):
        raise UnsupportedError("runs are imported into a local file only: say --url sqlite:///path")
    record = run.record
    new_id = check_name(run_id) if run_id is not None else record.id
    rows = decode_rows(new_id, run.rows)[0]
    adopted = AdoptedRun(new_id, record, record.status, run.rows, run.mail)
    if record.status not in CLOSED:
        starts_at = run.starts_at if run.starts_at is not None and run.starts_at > await store.now() else None
        status = "paused" if starts_at is None else "scheduled"
        adopted = replace(adopted, status=status, timers=open_timers(rows, EMPTY), starts_at=starts_at)
    if not await store.adopt(adopted):
        raise RunIdConflictError(f"run id {new_id!r} is taken in this store")
    return new_id


def left_behind(run: ExportedRun) -> list[str]:
    """What an open run has elsewhere and not in the store that takes it, in words: its tasks, children and hooks."""
    if run.record.status in CLOSED:
        return []
    rows = decode_rows(run.record.id, run.rows)[0]
    words: list[str] = []
    if run.tasks:
        words.append(f"{run.tasks} queued tasks stayed behind: give their results with `tenuto supply`")
    for location, entry in rows.history:
        if entry.seq or entry.flags & Flag.CANCELLED:
            continue
        match entry.kind:
            case Child(mode=ChildMode.SPAWN, run=child):
                words.append(f"{text(location)} waits for run {child}, which stayed behind")
            case _:
                pass
    if hooks := len(hooks_of(rows)):
        words.append(f"{hooks} hooks stayed behind: `tenuto resume` opens them here, with the same tokens")
    if timers := len(open_timers(rows, EMPTY)):
        words.append(f"{timers} timers came along and keep their times")
    return words


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: Any) -> bytes:
    return base64.b64decode(str(text), validate=True)
