"""What runs are told when something of theirs ends without its own code saying how. The same in every store."""

from __future__ import annotations

import math
from typing import Final

from tenuto.codec.keys import pack
from tenuto.codec.rows import ERROR, OUTPUT, SINGLE, EncodedBatch
from tenuto.codec.sealing import is_sealed
from tenuto.codec.values import dump, dump_error, load
from tenuto.errors import (
    ChildCancelledError,
    ChildFailedError,
    ChildStartError,
    ChildTerminatedError,
    StepFailedError,
    StepOutcomeUnknownError,
    StuckError,
    UpdateRejectedError,
)
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.limits import RECLAIM_DELAY_MAX_MS, RECLAIM_DELAY_MS

__all__ = [
    "CLOSED_FIRST",
    "SINGLES",
    "cancelled_child",
    "cancelled_task",
    "interrupted_task",
    "outcome_of",
    "parent_ended",
    "reclaim_delay_ms",
    "refused_child",
    "result",
    "retry_delay_ms",
    "stuck",
    "terminated_child",
]

SINGLES: Final = pack((SINGLE,))  # the prefix of the rows a run has one of
_OUTPUT: Final = pack((SINGLE, OUTPUT))
_ERROR: Final = pack((SINGLE, ERROR))
CLOSED_FIRST: Final = dump(UpdateRejectedError("closed"))  # to an update that the end of its run left undecided


def result(location: str, payload: bytes | None, error: bytes | None, attempts: int, now: int) -> Mail:
    """Mail that says how an operation of the receiver ended."""
    return Mail(MailKind.RESULT, location, None, payload, error, attempts, now)


def parent_ended(now: int) -> Mail:
    """Mail to a spawned run whose parent is closed."""
    return Mail(MailKind.CANCEL, "", None, dump(["its parent has ended", None]), None, 0, now)


def outcome_of(run_id: str, status: str, rows: EncodedBatch) -> tuple[bytes | None, bytes | None]:
    """Value and error of a run for those that follow it, out of the rows its last turn wrote."""
    written = dict(rows.puts)
    if status == "completed":
        return written.get(_OUTPUT), None
    if status == "failed":
        if is_sealed(written.get(_ERROR, b"")):
            return None, written[_ERROR]  # whoever opens it says that it is a child's
        failure = ChildFailedError(f"child run {run_id} failed")
        failure.__cause__ = load(written[_ERROR]) if _ERROR in written else None
        return None, dump_error(failure)
    return None, terminated_child(run_id, None) if status == "terminated" else cancelled_child(run_id)


def cancelled_child(run_id: str) -> bytes:
    """The error of a child that was cancelled before it began."""
    return dump_error(ChildCancelledError(f"child run {run_id} was cancelled"))


def terminated_child(run_id: str, reason: str | None) -> bytes:
    """The error of a child that was terminated."""
    return dump_error(ChildTerminatedError(f"child run {run_id} was terminated" + (f": {reason}" if reason else "")))


def refused_child(run_id: str, target: str, status: str) -> bytes:
    """The error of a child whose id belongs to another run."""
    return dump_error(ChildStartError(f"run id {run_id!r} is in use by {target}, {status}"))


def cancelled_task(target: str, location: str, attempts: int) -> bytes:
    """The error of a task that was withdrawn while others followed it."""
    return dump_error(StepFailedError(_name(target), location, attempts, "cancelled"))


def interrupted_task(target: str, location: str, attempts: int) -> bytes:
    """The error of a task whose last worker was lost."""
    return dump_error(StepOutcomeUnknownError(_name(target), location, attempts, "interrupted"))


def _name(target: str) -> str:
    """What people call a definition: the last part of its id."""
    return target.rpartition("/")[2]


def stuck(run_id: str, strikes: int, place: str | None) -> str:
    """Why a run is parked that its workers do not survive."""
    lost = "1 worker was lost while it" if strikes == 1 else f"{strikes} workers were lost while they"
    where = f"at {place}" if place else "in its own code, as far as is known"
    return f"stuck: {StuckError(f'{lost} had run {run_id} and nothing else, {where}')}"


def reclaim_delay_ms(reclaims: int) -> int:
    """How long a run waits that lost so many workers in a row; the first time not at all."""
    return 0 if reclaims <= 1 else min(RECLAIM_DELAY_MAX_MS, RECLAIM_DELAY_MS << min(reclaims, 30))


def retry_delay_ms(backoff_ms: float, backoff_max_ms: float, attempts: int) -> int:
    """How long a task waits after that many attempts: doubling, capped, as for steps."""
    return math.ceil(min(backoff_max_ms, math.ldexp(backoff_ms, min(attempts, 1000))))
