"""Mail in memory: who takes it, and who is told about an end."""

from __future__ import annotations

from collections.abc import Callable

from tenuto.errors import LimitError, RunClosedError, RunNotFoundError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.endings import CLOSED_FIRST, cancelled_child, parent_ended, result
from tenuto.store.memory_state import RunState, Shelf
from tenuto.store.port import Outgoing

__all__ = ["cancel_children", "close", "deliver", "send", "tell_end", "tell_watchers"]


def send(shelf: Shelf, run_id: str, mail: Mail, message_id: str | None) -> int | None:
    """Stores mail and wakes its run. `RunNotFoundError`, `RunClosedError`, `LimitError`."""
    run = shelf.run(run_id)
    if mail.kind is not MailKind.SIGNAL and message_id is None:
        message_id = mail.ref
    if run.has(mail, message_id):
        return None
    if not run.open:
        raise RunClosedError(f"run {run_id} is {run.status}")
    if mail.kind in (MailKind.SIGNAL, MailKind.UPDATE):
        run.check_room(shelf.buffered_messages)
    if mail.kind is MailKind.CANCEL and run.status in ("pending", "scheduled"):
        run.inbox_seq += 1
        close(shelf, run, "cancelled")
        run.epoch += 1
        tell_end(shelf, run_id, None, cancelled_child(run_id), 1)
        return run.inbox_seq
    number = run.add(mail, message_id)
    if mail.kind is MailKind.UPDATE and message_id is not None:
        run.answers.pop(message_id, None)
    if mail.kind is MailKind.CANCEL and run.status == "paused":
        run.status = "suspended"
    if run.status in ("running", "suspended"):
        shelf.wake(run)
    return number


def deliver(shelf: Shelf, outgoing: Outgoing) -> bool:
    """Whether mail of one run reached another: it is there and open, and has room."""
    try:
        send(shelf, outgoing.run_id, outgoing.mail, outgoing.id)
    except (RunNotFoundError, RunClosedError, LimitError):
        return False
    return True


def tell_end(shelf: Shelf, execution_id: str, payload: bytes | None, error: bytes | None, attempts: int) -> None:
    """Result mail for the parent and for whoever follows an execution that has ended."""
    run = shelf.runs.get(execution_id)
    if run is not None and run.told is not None:
        run_id, operation = run.told
        mail = result(operation, payload, error, attempts, shelf.clock())
        deliver(shelf, Outgoing(run_id, mail, f"end:{execution_id}:{operation}"))
    tell_watchers(shelf, execution_id, lambda: (payload, error), attempts)


def tell_watchers(
    shelf: Shelf, execution_id: str, outcome: Callable[[], tuple[bytes | None, bytes | None]], attempts: int = 1
) -> None:
    """Result mail for whoever follows an execution that it did not start; made only if there is somebody."""
    watchers = sorted(shelf.watchers.pop(execution_id, []))
    if not watchers:
        return
    payload, error = outcome()
    for run_id, operation, _ in watchers:
        mail = result(operation, payload, error, attempts, shelf.clock())
        deliver(shelf, Outgoing(run_id, mail, f"end:{execution_id}:{operation}"))


def close(shelf: Shelf, run: RunState, status: str) -> None:
    """Ends a run."""
    run.status = status
    run.empty(CLOSED_FIRST, shelf.clock())
    for token in [token for token, (owner, _) in shelf.hooks.items() if owner == run.id]:
        del shelf.hooks[token]


def cancel_children(shelf: Shelf, run: RunState) -> None:
    """Spawned runs do not outlive their parent unasked. A turn that ends says so itself; a terminated run cannot."""
    for child in list(shelf.runs.values()):
        if child.open and child.told is not None and child.told[0] == run.id:
            deliver(shelf, Outgoing(child.id, parent_ended(shelf.clock()), f"end:{run.id}"))
