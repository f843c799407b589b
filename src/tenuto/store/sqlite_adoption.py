"""A run of another store, written into a SQLite file as it is."""

from __future__ import annotations

import json
from typing import Final

from tenuto.codec.keys import unpack
from tenuto.codec.records import encode_mail
from tenuto.kernel.records import MailKind
from tenuto.store.adoption import AdoptedRun
from tenuto.store.connection import Connection
from tenuto.store.port import CLOSED

__all__ = ["adopt"]

_KINDS: Final = {MailKind.UPDATE: "update", MailKind.CANCEL: "cancel", MailKind.RESULT: "result"}


def adopt(connection: Connection, run: AdoptedRun) -> bool:
    """Whether it is there now. Its mail keeps its numbers, and what comes later is numbered above them."""
    record = run.record
    connection.run(
        "adopt_run",
        {
            "id": run.id,
            "target": record.target,
            "queue": record.queue,
            "status": run.status,
            "reason": record.reason,
            "definition": record.definition,
            "run_no": record.run_no,
            "inbox_seq": _last_number(run),
            "alarm": min((timer.deadline for timer in run.timers), default=None),
            "timers": len(run.timers),
            "starts_at": run.starts_at,
            "attributes": json.dumps(dict(record.attributes)) if record.attributes else None,
            "created_at": record.created_at,
            "started_at": record.started_at,
            "completed_at": record.completed_at,
        },
    )
    if not connection.changed():
        return False
    connection.many("put_rows", [(run.id, key, value) for key, value in run.rows])
    if run.starts_at is not None:
        connection.run("start_timers", (f"start:{run.id}", run.starts_at, run.id, "start", None, connection.now))
    for location, deadline, sort in run.timers:
        timer = (f"{run.id}:{location}", deadline, run.id, sort, location, connection.now)
        connection.run("start_timers", timer)
    for number, mail in run.mail if run.status not in CLOSED else ():
        connection.run(
            "insert_mail",
            {
                "run": run.id,
                "seq": number,
                "kind": _KINDS[mail.kind],
                "message": mail.ref,
                "name": mail.name,
                "data": encode_mail(mail),
            },
        )
    return True


def _last_number(run: AdoptedRun) -> int:
    """The last mail number that was given: also those in use as rows `(3, n)`."""
    numbers = [number for number, _ in run.mail]
    for key, _ in run.rows:
        match unpack(key):
            case (3, str(number)):
                numbers.append(int(number, 16))
            case _:
                pass
    return max(numbers, default=0)
