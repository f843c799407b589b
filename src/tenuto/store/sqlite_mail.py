"""Mail and wake-ups in SQLite: numbers, inboxes, answers, who is told about an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from tenuto.codec.keys import prefix_end
from tenuto.codec.records import decode_mail, encode_mail
from tenuto.codec.rows import mail_key, mail_number, update_key
from tenuto.codec.values import dump
from tenuto.errors import LimitError, RunClosedError, RunNotFoundError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.connection import Connection
from tenuto.store.endings import CLOSED_FIRST, cancelled_child, parent_ended, result
from tenuto.store.port import Outgoing

__all__ = [
    "cancel_children",
    "deliver",
    "empty_closed",
    "listed",
    "mail_of",
    "read_mail",
    "send",
    "tell_end",
    "tell_watchers",
    "wake",
]

MAIL_PREFIX: Final = mail_key(0)[:2]
MAIL_END: Final = prefix_end(MAIL_PREFIX)
_KINDS: Final = {MailKind.UPDATE: "update", MailKind.CANCEL: "cancel", MailKind.RESULT: "result"}


def wake(connection: Connection, runs: Iterable[str]) -> None:
    """A pending resume for each of these runs, at most one (Q4)."""
    args = {run: dump([run]).hex() for run in runs}
    if args:
        connection.run("wake", (json.dumps(args),))


def send(
    connection: Connection, run_id: str, mail: Mail, message_id: str | None, *, claims: bool = False
) -> int | None:
    """Stores mail and wakes its run. `RunNotFoundError`, `RunClosedError`, `LimitError`.

    `claims`: a suspended run is not woken, because the caller takes it.
    """
    if mail.kind is MailKind.SIGNAL:
        if message_id is not None:
            note = {"run": run_id, "signal": message_id}
            connection.run("note_signal", note)
            if not connection.changed() and connection.one("has_signal", note) is not None:
                return None
    else:
        message_id = message_id if message_id is not None else mail.ref
        if message_id is not None and _stored(connection, run_id, mail.kind, message_id):
            return None
    numbered = connection.one("number_mail", {"run": run_id})
    if numbered is None:
        _refuse(connection, run_id)
    number, status = numbered
    if number > connection.buffered_messages and mail.kind in (MailKind.SIGNAL, MailKind.UPDATE):
        _check_room(connection, run_id)
    if mail.kind is MailKind.CANCEL and status in ("pending", "scheduled"):
        cancel_unstarted(connection, run_id)
        return int(number)
    if mail.kind is MailKind.UPDATE:
        connection.run("delete_answer", {"run": run_id, "message": message_id})  # a rejection makes way for the new try
    _insert(connection, run_id, number, mail, message_id)
    if status == "paused" and mail.kind is MailKind.CANCEL:
        connection.run("unpause_for_cancel", {"run": run_id})
        status = "suspended"
    if status == "running" or (status == "suspended" and not claims):
        wake(connection, (run_id,))
    return int(number)


def _insert(connection: Connection, run_id: str, number: int, mail: Mail, message_id: str | None) -> None:
    data = encode_mail(mail)
    if mail.kind is MailKind.SIGNAL:
        connection.run("put_rows", (run_id, mail_key(number), data))
        return
    connection.run(
        "insert_mail",
        {
            "run": run_id,
            "seq": number,
            "kind": _KINDS[mail.kind],
            "message": message_id,
            "name": mail.name,
            "data": data,
        },
    )


def _stored(connection: Connection, run_id: str, kind: MailKind, message_id: str) -> bool:
    """Whether that message is there undecided, or its update was decided. A rejection does not count."""
    values = {"run": run_id, "message": message_id}
    if kind is MailKind.UPDATE:
        key = update_key(message_id)
        if connection.one("range_rows", {"id": run_id, "first": key, "last": prefix_end(key)}) is not None:
            return True
    return connection.one("has_mail", {**values, "kind": _KINDS[kind]}) is not None


def _refuse(connection: Connection, run_id: str) -> NoReturn:
    """Raises why a run takes no mail."""
    found = connection.one("get_run", {"id": run_id})
    if found is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    raise RunClosedError(f"run {run_id} is {found[2]}")


def _check_room(connection: Connection, run_id: str) -> None:
    # A run has buffered at most as much as it ever got, so only long-lived ones are counted.
    updates = connection.one("buffered", {"run": run_id})
    signals = connection.one("buffered_signals", {"run": run_id, "first": MAIL_PREFIX, "last": MAIL_END})
    buffered = (updates or (0,))[0] + (signals or (0,))[0]
    if buffered >= connection.buffered_messages:
        raise LimitError("buffered messages", connection.buffered_messages, buffered + 1)


def deliver(connection: Connection, outgoing: Outgoing) -> bool:
    """Whether mail of one run reached another: it is there and open, and has room."""
    connection.run("savepoint_mail")
    delivered = True
    try:
        send(connection, outgoing.run_id, outgoing.mail, outgoing.id)
    except (RunNotFoundError, RunClosedError, LimitError):
        connection.run("rollback_mail")  # a number or a noted id must not stay without its message
        delivered = False
    connection.run("release_mail")
    return delivered


def read_mail(connection: Connection, run_id: str, above: int) -> list[tuple[int, Mail]]:
    """Signals and the rest, in number order."""
    first = mail_key(above + 1)
    rows = connection.all("range_rows", {"id": run_id, "first": first, "last": MAIL_END})
    mail = [(mail_number(key), decode_mail(value)) for key, value in rows]
    inbox = connection.all("read_inbox", {"run": run_id, "above": above})
    mail.extend((seq, decode_mail(data)) for seq, data in inbox)
    return sorted(mail, key=lambda numbered: numbered[0])


def mail_of(connection: Connection, above: Mapping[str, int]) -> dict[str, list[tuple[int, bytes]]]:
    """The same of several runs, each above its own number; encoded, as each of them decodes its own."""
    wanted = json.dumps({run_id: [number, mail_key(number + 1).hex()] for run_id, number in above.items()})
    mail: dict[str, list[tuple[int, bytes]]] = {}
    for run_id, key, data in connection.all("signals_of", {"above": wanted, "last": MAIL_END}):
        mail.setdefault(run_id, []).append((mail_number(key), data))
    for run_id, number, data in connection.all("inboxes", {"above": wanted}):
        mail.setdefault(run_id, []).append((number, data))
    return {run_id: sorted(found, key=lambda numbered: numbered[0]) for run_id, found in mail.items()}


def tell_end(
    connection: Connection, execution_id: str, payload: bytes | None, error: bytes | None, attempts: int = 1
) -> None:
    """Result mail for the parent and for whoever follows an execution that has ended."""
    for run_id, operation in connection.all("end_of", {"id": execution_id}):
        mail = result(operation, payload, error, attempts, connection.now)
        deliver(connection, Outgoing(run_id, mail, f"end:{execution_id}:{operation}"))
    tell_watchers(connection, execution_id, lambda: (payload, error), attempts)


def tell_watchers(
    connection: Connection,
    execution_id: str,
    outcome: Callable[[], tuple[bytes | None, bytes | None]],
    attempts: int = 1,
) -> None:
    """Result mail for whoever follows an execution that it did not start; made only if there is somebody."""
    watchers = connection.all("watchers_of", {"id": execution_id})
    if not watchers:
        return
    payload, error = outcome()
    for run_id, operation in watchers:
        mail = result(operation, payload, error, attempts, connection.now)
        deliver(connection, Outgoing(run_id, mail, f"end:{execution_id}:{operation}"))
    connection.run("delete_watchers", {"id": execution_id})


def empty_closed(connection: Connection, run_ids: Sequence[str]) -> None:
    """What closed runs no longer need goes; updates nobody decided are answered (P8, V7)."""
    runs = {"runs": listed(run_ids)}
    connection.run("empty_timers", runs)
    connection.run("delete_resumes", runs)
    connection.run("delete_hooks", runs)
    connection.run("answer_open_updates", {**runs, "answer": CLOSED_FIRST})
    connection.run("empty_inboxes", runs)


def cancel_children(connection: Connection, run_id: str) -> None:
    """Spawned runs do not outlive their parent unasked. A turn that ends says so itself; a terminated run cannot."""
    for (child,) in connection.all("open_children", {"run": run_id}):
        deliver(connection, Outgoing(child, parent_ended(connection.now), f"end:{run_id}"))


def cancel_unstarted(connection: Connection, run_id: str) -> None:
    """A run that has not begun is cancelled without a worker."""
    connection.run("cancel_unstarted", {"run": run_id})
    empty_closed(connection, (run_id,))
    tell_end(connection, run_id, None, cancelled_child(run_id))


def listed(values: Iterable[int | str]) -> str:
    """A list as the one parameter a statement takes."""
    return json.dumps(list(values))
