"""An update as its sender sees it: sent once, and answered alike to all who ask with its id."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tenuto.codec.records import decode_update
from tenuto.codec.rows import update_key
from tenuto.codec.values import load
from tenuto.errors import RunClosedError, RunNotFoundError, UpdateFailedError, UpdateRejectedError
from tenuto.host.certainty import made_certain
from tenuto.kernel.records import Mail, MailKind, Update, UpdateStatus
from tenuto.store.port import CLOSED, Store

__all__ = ["Asked", "named"]


class Asked:
    """One sending of an update. The answer is what one look has found: the store may forget it later (P8)."""

    def __init__(self, store: Store, run_id: str, name: str, key: str, args: bytes) -> None:
        self._store = store
        self._run_id = run_id
        self._name = name
        self._id = key
        self._args = args
        self._row = update_key(key)
        self._value: bytes | None = None
        self._error: BaseException | None = None

    async def send(self) -> None:
        """Stores it, unless it is stored or decided already; a rejection kept from before makes way for the new try.

        A closed run takes none, but may have the answer.
        """
        if await self._decided() is not None:
            return
        mail = Mail(MailKind.UPDATE, self._name, self._id, self._args, None, 0, await self._store.now())
        with suppress(RunClosedError):
            await made_certain(lambda: self._store.send(self._run_id, mail))

    async def is_answered(self) -> bool:
        """Looks whether the run has decided, and keeps what it said.

        The status is read first: what a run has not answered by its end, its end has answered.
        """
        record = await self._store.get(self._run_id)
        if record is None:
            raise RunNotFoundError(f"there is no run {self._run_id!r}")
        rejection = await self._store.answer(self._run_id, self._id)
        if rejection is not None:
            self._error = load(rejection)
            return True
        update = await self._decided()
        if update is None or update.status is UpdateStatus.ACCEPTED:
            if record.status not in CLOSED:
                return False
            # Terminated, or purged of its answers: none of its code is left to say more.
            self._error = UpdateRejectedError("closed") if update is None else UpdateFailedError("closed")
        elif update.status is UpdateStatus.COMPLETED:
            self._value = update.result or b""
        else:
            self._error = load(update.error) if update.error is not None else UpdateFailedError("closed")
        return True

    def answer(self) -> Any:
        """What the run said, once it has: a value, or the error it raises here."""
        if self._error is not None:
            raise named(self._error, self._name)
        return load(self._value or b"")

    async def _decided(self) -> Update | None:
        row = dict(await self._store.rows(self._run_id, self._row)).get(self._row)
        return None if row is None else decode_update(row)


def named(error: BaseException, name: str) -> BaseException:
    """The error of an update with the update's name, and what its handler raised, in the text."""
    match error:
        case UpdateRejectedError():
            said: Exception = UpdateRejectedError(error.why, error.reason, name)
        case UpdateFailedError():
            cause = error.__cause__
            reason = None if cause is None else f"{type(cause).__name__}: {cause}"
            said = UpdateFailedError(error.why, reason, name)
        case _:
            return error
    said.__cause__ = error.__cause__
    for note in getattr(error, "__notes__", ()):
        said.add_note(note)
    return said
