"""A handle on a run of the test engine: the verbs a client has, on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tenuto.codec.values import dump, load
from tenuto.errors import (
    RunCancelledError,
    RunClosedError,
    RunFailedError,
    RunNotFoundError,
    UpdateFailedError,
    UpdateRejectedError,
)
from tenuto.host.faults import failure_text, noted, with_frames
from tenuto.host.history import HistoryEntry, history_of
from tenuto.host.undoing import notes_of
from tenuto.host.updates import named
from tenuto.kernel.location import check_name
from tenuto.kernel.records import Mail, MailKind, UpdateStatus
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.state import answer_query
from tenuto.store.port import CLOSED, RunRecord
from tenuto.testing.recorded import Recorded
from tenuto.twf.run import TwfWorkflow

if TYPE_CHECKING:
    from tenuto.testing.engine import Engine

__all__ = ["Run"]

T_co = TypeVar("T_co", covariant=True)


class Run(Generic[T_co]):
    """One run of an `Engine`."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self.id = run_id

    async def status(self) -> str:
        """pending, running, suspended, parked, or how it ended."""
        return (await self._record()).status

    async def reason(self) -> str | None:
        """Why it is parked."""
        return (await self._record()).reason

    async def result(self) -> T_co:
        """Its value, once everything before it has happened; time jumps from deadline to deadline.

        `RunFailedError` or `RunCancelledError` if it ended so. A run that nothing will wake any more is an
        `AssertionError` that says what it waits for.
        """
        await self._engine.drive(self.id)
        record = await self._record()
        rows = await self._engine.rows(self.id)
        match record.status:
            case "completed":
                return cast("T_co", load(rows.output or b""))
            case "failed":
                error = with_frames(load(rows.error or b""))
                raise noted(RunFailedError(failure_text(self.id, error)), notes_of(rows, "failed")) from error
            case "cancelled":
                raise noted(RunCancelledError(f"run {self.id} was cancelled"), notes_of(rows, "cancelled"))
            case "parked":
                raise AssertionError(f"run {self.id} is parked: {record.reason}")
            case status:
                raise AssertionError(f"run {self.id} is {status} and nothing will wake it: {self._engine.why(self.id)}")

    async def signal(self, name: str, /, *args: object, id: str | None = None) -> None:  # noqa: A002  # the public name
        """Sends a signal; it is stored when this returns."""
        workflow = await self._engine.definition_of(self.id)
        if workflow is not None and workflow.provider is not None:
            workflow.provider.accept_signal(workflow, name, args)
        await self._send(
            Mail(MailKind.SIGNAL, check_name(name), id, dump(list(args)), None, 0, self._engine.now_ms), id
        )

    async def update(self, name: str, /, *args: object, id: str | None = None) -> Any:  # noqa: A002
        """Sends an update and waits for its answer."""
        await self._engine.settle()  # an update is judged by where the run is, not by where it was left
        key = id if id is not None else self._engine.mint("update")
        if key not in (await self._engine.rows(self.id)).updates:
            mail = Mail(MailKind.UPDATE, check_name(name), key, dump(list(args)), None, 0, self._engine.now_ms)
            with suppress(RunClosedError):  # it takes none, but may have the answer
                await self._send(mail, None)
        try:
            return await self._answer(key)
        except (UpdateRejectedError, UpdateFailedError) as error:
            raise named(error, name) from error.__cause__

    async def _answer(self, key: str) -> Any:
        await self._engine.drive(self.id, until=lambda: self._answered(key))
        rejection = await self._engine.store.answer(self.id, key)
        if rejection is not None:
            raise load(rejection)
        update = (await self._engine.rows(self.id)).updates.get(key)
        if update is None:
            raise UpdateRejectedError("closed")
        if update.status is UpdateStatus.COMPLETED:
            return load(update.result or b"")
        if update.status is UpdateStatus.FAILED:
            raise load(update.error or b"")
        raise UpdateFailedError("closed")

    async def _answered(self, key: str) -> bool:
        if await self._engine.store.answer(self.id, key) is not None:
            return True
        update = (await self._engine.rows(self.id)).updates.get(key)
        return update is not None and update.status is not UpdateStatus.ACCEPTED

    async def query(self, query: str | Callable[..., Any] | None = None, /, *args: object, **kwargs: object) -> Any:
        """The published state, or what a query makes of it."""
        workflow = await self._engine.definition_of(self.id)
        if workflow is None:
            raise RunNotFoundError(f"there is no run {self.id!r}")
        if isinstance(workflow, TwfWorkflow):
            await self._engine.settle()  # before its first turn there is nothing to read
        published = (await self._engine.rows(self.id)).published
        if query is None:
            return None if published is None else load(published)
        return answer_query(workflow, published, query, args, kwargs)

    async def cancel(self, reason: str | None = None, *, within: Duration | None = None) -> None:
        """Asks the run to stop."""
        now = self._engine.now_ms
        deadline = None if within is None else now + milliseconds(within)
        if (await self._record()).status not in CLOSED:
            await self._send(Mail(MailKind.CANCEL, "", None, dump([reason, deadline]), None, 0, now), None)

    async def history(self) -> list[HistoryEntry]:
        """What is recorded, in the order it settled; what is under way last."""
        return history_of(await self._engine.rows(self.id))

    async def record(self) -> Recorded:
        """The run as it is stored, to be kept in a file and held against later code by `check_replay`."""
        return Recorded(self.id, (await self._record()).target, tuple(await self._engine.store.rows(self.id)))

    async def _send(self, mail: Mail, message_id: str | None) -> None:
        await self._engine.store.send(self.id, mail, message_id)
        self._engine.wake(self.id)

    async def _record(self) -> RunRecord:
        record = await self._engine.store.get(self.id)
        if record is None:
            raise RunNotFoundError(f"there is no run {self.id!r}")
        return record
