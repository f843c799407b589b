"""Mail and wake-ups in Postgres: numbers, inboxes, answers, who is told about an end.

Everything here runs inside a transaction that has locked the runs it will touch (`lock_runs`), in id order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from tenuto.codec.keys import prefix_end
from tenuto.codec.records import decode_mail, encode_mail
from tenuto.codec.rows import mail_key, mail_number, update_key
from tenuto.errors import LimitError, RunClosedError, RunNotFoundError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.endings import CLOSED_FIRST, cancelled_child, parent_ended, result
from tenuto.store.port import Outgoing
from tenuto.store.postgres_connection import Database, Row, Transaction

__all__ = [
    "cancel_children",
    "close_runs",
    "deliver",
    "lock",
    "mail_of",
    "read_mail",
    "refuse",
    "send",
    "send_signal",
    "tell_end",
    "wake",
]

MAIL_PREFIX: Final = mail_key(0)[:2]
MAIL_END: Final = prefix_end(MAIL_PREFIX)
_BUFFER: Final = {"first": MAIL_PREFIX, "last": MAIL_END}
_KINDS: Final = {MailKind.UPDATE: "update", MailKind.CANCEL: "cancel", MailKind.RESULT: "result"}


async def lock(
    transaction: Transaction, ids: Iterable[str], *, closing: Sequence[str] = (), ending: Sequence[str] = ()
) -> dict[str, Row]:
    """Locks runs in id order (Q7); with the children of what is closed for them, and whoever is told about an end."""
    values = {"ids": list(ids), "closing": list(closing), "ending": list(ending)}
    return {row[0]: row for row in await transaction.all("lock_runs", values)}


async def wake(transaction: Transaction, runs: Iterable[str]) -> None:
    """A pending resume for each of these runs, at most one (Q4)."""
    woken = list(runs)
    if woken:
        await transaction.run("wake", {"runs": woken})


async def send_signal(
    database: Database, run_id: str, mail: Mail, message_id: str | None, worker: str | None = None
) -> tuple[int | None, Row | None]:
    """Stores a signal and wakes its run, in one statement. `RunNotFoundError`, `RunClosedError`, `LimitError`.

    Its number, and the run's columns where it became the worker's.
    """
    values = _signal(run_id, mail, message_id, database.buffered_messages, worker)
    ((number, roomy, is_open, _, now, *run),) = await database.write("send_signal", values)
    if number is not None:
        database.learn(now)
        return int(number), tuple(run) if run[0] is not None else None
    if is_open:
        if not roomy:
            raise LimitError("buffered messages", database.buffered_messages, database.buffered_messages + 1)
        return None, None  # its id is stored already
    if message_id is not None and await database.read("has_signal", values):
        return None, None
    found = await database.read("get_run", {"id": run_id})
    refuse(run_id, found[0][2] if found else None)


def _signal(
    run_id: str, mail: Mail, message_id: str | None, limit: int, worker: str | None = None
) -> dict[str, object]:
    stored = {"run": run_id, "signal": message_id, "data": encode_mail(mail)}
    return {**stored, "limit": limit, "worker": worker, **_BUFFER}


def refuse(run_id: str, status: str | None) -> NoReturn:
    """Raises why a run takes no mail."""
    if status is None:
        raise RunNotFoundError(f"there is no run {run_id!r}")
    raise RunClosedError(f"run {run_id} is {status}")


async def send(transaction: Transaction, run_id: str, mail: Mail, message_id: str | None) -> int | None:
    """Stores an update, cancel or result and wakes its run. `RunNotFoundError`, `RunClosedError`, `LimitError`."""
    message_id = message_id if message_id is not None else mail.ref
    values: dict[str, object] = {"run": run_id, "kind": _KINDS[mail.kind], "message": message_id, "update_key": None}
    if mail.kind is MailKind.UPDATE and message_id is not None:
        values["update_key"] = update_key(message_id)
    numbered = await transaction.one("number_mail", values)
    if numbered is None:
        if await transaction.one("has_message", values) is not None:
            return None
        found = await transaction.one("get_run", {"id": run_id})
        refuse(run_id, None if found is None else found[2])
    number, status = numbered
    if number > transaction.buffered_messages and mail.kind is MailKind.UPDATE:
        await _check_room(transaction, run_id)
    if mail.kind is MailKind.CANCEL and status in ("pending", "scheduled"):
        await _cancel_unstarted(transaction, run_id)
        return int(number)
    if mail.kind is MailKind.UPDATE:
        await transaction.run("delete_answer", values)  # a rejection makes way for the new attempt
    await transaction.run("insert_mail", {**values, "seq": number, "name": mail.name, "data": encode_mail(mail)})
    if status == "paused" and mail.kind is MailKind.CANCEL:
        await transaction.run("unpause_for_cancel", {"run": run_id})
        status = "suspended"
    if status in ("running", "suspended"):
        await wake(transaction, (run_id,))
    return int(number)


async def _check_room(transaction: Transaction, run_id: str) -> None:
    # A run has buffered at most as much as it ever got, so only long-lived ones are counted.
    row = await transaction.one("buffered", {"run": run_id, **_BUFFER})
    buffered = 0 if row is None else row[0]
    if buffered >= transaction.buffered_messages:
        raise LimitError("buffered messages", transaction.buffered_messages, buffered + 1)


async def deliver(transaction: Transaction, outgoing: Sequence[Outgoing]) -> list[Outgoing]:
    """Stores mail of runs to others, by receiver and then in the order given; what no open run had room for."""
    refused: list[Outgoing] = []
    limit = transaction.buffered_messages
    signals = [
        (one, await transaction.start("send_signal", _signal(one.run_id, one.mail, one.id, limit)))
        for one in sorted(outgoing, key=lambda one: one.run_id)
        if one.mail.kind is MailKind.SIGNAL
    ]
    for one, cursor in signals:
        ((number, roomy, is_open, *_),) = await cursor.fetchall()
        if number is None and not roomy:
            known = not is_open and await transaction.one("has_signal", {"run": one.run_id, "signal": one.id})
            if not known:
                refused.append(one)
    for one in sorted(outgoing, key=lambda one: one.run_id):
        if one.mail.kind is not MailKind.SIGNAL:
            try:
                await send(transaction, one.run_id, one.mail, one.id)
            except (RunNotFoundError, RunClosedError):  # found out before anything was written
                refused.append(one)
    return refused


async def read_mail(database: Database, run_id: str, above: int) -> list[tuple[int, Mail]]:
    """Signals and the rest, in number order."""
    values = {"run": run_id, "above": above, "first": mail_key(max(above, 0) + 1), "last": MAIL_END}
    mail = [_numbered(*row) for row in await database.read("read_mail", values)]
    return [(number, decode_mail(data)) for number, data in sorted(mail)]


def _numbered(number: int | None, key: bytes, data: bytes) -> tuple[int, bytes]:
    return (mail_number(key) if number is None else number), data


async def mail_of(database: Database, above: Mapping[str, int]) -> dict[str, list[tuple[int, bytes]]]:
    """The same of several runs, each above its own number; encoded, as each of them decodes its own."""
    values = {"runs": list(above), "above": [max(number, 0) for number in above.values()], "last": MAIL_END}
    mail: dict[str, list[tuple[int, bytes]]] = {}
    for run_id, *row in await database.read("mail_of_runs", values):
        mail.setdefault(run_id, []).append(_numbered(*row))
    return {run_id: sorted(found) for run_id, found in mail.items()}


async def tell_end(
    transaction: Transaction, execution_id: str, payload: bytes | None, error: bytes | None, attempts: int = 1
) -> None:
    """Result mail for the parent and for whoever follows an execution that has ended."""
    told = await transaction.all("told_of", {"id": execution_id})
    mails = [
        Outgoing(run_id, result(place, payload, error, attempts, transaction.now), f"end:{execution_id}:{place}")
        for run_id, place, _ in told
    ]
    if mails:
        await deliver(transaction, mails)
        await transaction.run("delete_watchers", {"ids": [execution_id]})


async def close_runs(transaction: Transaction, runs: Sequence[str]) -> list[tuple[str, str, str]]:
    """What closed runs no longer need goes; updates nobody decided are answered (P8, V7). Who follows which of them."""
    found = await transaction.all("empty_closed", {"runs": list(runs), "answer": CLOSED_FIRST})
    return [(closed, run_id, place) for closed, run_id, place, _ in found if closed is not None]


async def cancel_children(transaction: Transaction, run_id: str) -> None:
    """Spawned runs do not outlive their parent unasked. A turn that ends says so itself; a terminated run cannot."""
    children = await transaction.all("open_children", {"run": run_id})
    mail = parent_ended(transaction.now)
    await deliver(transaction, [Outgoing(child, mail, f"end:{run_id}") for (child,) in children])


async def _cancel_unstarted(transaction: Transaction, run_id: str) -> None:
    """A run that has not begun is cancelled without a worker."""
    await transaction.run("cancel_unstarted", {"run": run_id})
    await close_runs(transaction, (run_id,))
    await tell_end(transaction, run_id, None, cancelled_child(run_id))
