"""A store whose values are sealed on their way in and opened on their way out; host and store do not know of it.

Sealed: rows, mail, answers, arguments and results of tasks, arguments of schedules, details of heartbeats, reasons why
runs are parked. Clear: ids, names, attributes, times, statuses, queues, sizes, programs.

Rules:

1. Every method of the port is here: those in `PASSED` carry no value, each other one is written out. A method that is
   neither does not exist, so that nothing new gets past the codec by accident.
2. A value that cannot be opened concerns its own run only: where several are read in one look, it is refused when its
   run is taken up.
3. What a store says by itself (a child was cancelled, a worker was lost) is not sealed: it is known text about ids.
   It is taken only where a store says it, and only if it is exactly that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never, cast

import cbor2

from tenuto.codec.records import decode_mail, encode_mail
from tenuto.codec.rows import ERROR_KEY, OUTPUT_KEY, EncodedBatch, mail_key
from tenuto.codec.sealing import Codec, Place, is_sealed
from tenuto.codec.values import dump_error, load
from tenuto.errors import (
    ChildCancelledError,
    ChildFailedError,
    ChildStartError,
    ChildTerminatedError,
    DecodingError,
    RecordError,
    StepFailedError,
    StepOutcomeUnknownError,
    UnsupportedError,
)
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail, MailKind
from tenuto.store.adoption import AdoptedRun, Adopts
from tenuto.store.commits import Puts, begun_by
from tenuto.store.endings import CLOSED_FIRST, parent_ended
from tenuto.store.housekeeping import DueSchedule, Fired, Firing, ScheduleRecord
from tenuto.store.port import (
    Claim,
    ClaimedTask,
    Commit,
    End,
    Full,
    Listing,
    NewRun,
    Outgoing,
    Own,
    Park,
    Rows,
    RunFilter,
    RunRecord,
    Start,
    Store,
    TaskEnd,
    TurnResult,
    UnreadableRun,
)
from tenuto.store.quarantine import Suspects
from tenuto.store.queues import LimitedClaims, TaskState
from tenuto.store.reasons import hidden, is_hidden, readable
from tenuto.store.results import Belonging, keyed, note_of

__all__ = ["PASSED", "SealedStore", "sealed"]

log = logging.getLogger("tenuto.store")

_MAIL: Final = mail_key(0)[:2]
_SAID_BY_STORES: Final = (
    ChildCancelledError,
    ChildTerminatedError,
    ChildStartError,
    StepFailedError,
    StepOutcomeUnknownError,
)
_PARENT_ENDED: Final = parent_ended(0).payload

# What carries no value of a user.
PASSED: Final = frozenset(
    {
        "absorb",
        "cancel_task",
        "changed",
        "claim",
        "clock",
        "close",
        "commits_at_once",
        "count",
        "defined",
        "delete",
        "delete_expired",
        "delete_schedule",
        "declare_lost",
        "deregister",
        "give_back_tasks",
        "fire_timers",
        "flagged_tasks",
        "heartbeat",
        "holder",
        "hook_owner",
        "identity",
        "keep_program",
        "has_suspects",
        "keyed",
        "limit_messages",
        "limited",
        "live_workers",
        "note_place",
        "note_under_way",
        "now",
        "open_hook",
        "open_tasks",
        "page",
        "path",
        "pause",
        "place",
        "program",
        "programs_of",
        "queues",
        "register",
        "release",
        "schema",
        "set_queue",
        "set_schedule",
        "steps_under_way",
        "still_suspect",
        "sweep",
        "sync",
        "take_background",
        "terminate",
        "timers",
        "update_statistics",
        "wake",
    }
)


def sealed(store: Store, codec: Codec) -> Store:
    """The same store behind a codec."""
    return cast("Store", SealedStore(store, codec))


class SealedStore:
    """See `store.port`; made by `sealed`."""

    def __init__(self, store: Store, codec: Codec) -> None:
        self._store = store
        self._codec = codec
        self._id = ""
        self._results = Belonging(self)

    def __getattr__(self, name: str) -> Any:
        if name not in PASSED:
            raise AttributeError(f"{name!r} is not a method of a sealed store")
        return getattr(self._store, name)

    async def open(self) -> None:
        await self._store.open()
        self._id = await self._store.identity()

    # --- single values

    def _seal(self, data: bytes, kind: str, owner: str, key: bytes = b"", *, travels: bool = False) -> bytes:
        return self._codec.seal(data, Place(self._id, kind, owner, key), travels=travels)

    def _open(self, stored: bytes, kind: str, owner: str, key: bytes = b"") -> bytes:
        return self._codec.open(bytes(stored), Place(self._id, kind, owner, key))

    def _sealed_row(self, run_id: str, row: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        key, value = row
        if key.startswith(_MAIL):
            return key, encode_mail(self._sealed_mail(run_id, decode_mail(value)))
        travels = key in (OUTPUT_KEY, ERROR_KEY)
        stored = self._seal(value, "row", run_id, key, travels=travels)
        if key == ERROR_KEY and self._codec.origin(stored) is None:
            return row  # of a codec that hides nothing: stores look into it where a run is followed
        return key, stored

    def _opened_row(self, run_id: str, row: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        key, value = row
        if key.startswith(_MAIL):
            return key, encode_mail(self._opened_mail(run_id, decode_mail(value)))
        return key, self._open(value, "row", run_id, key)

    def _sealed_rows(self, run_id: str, rows: EncodedBatch) -> EncodedBatch:
        return EncodedBatch(
            rows.range_deletes,
            rows.deletes,
            tuple(self._sealed_row(run_id, (bytes(k), bytes(v))) for k, v in rows.puts),
        )

    # --- mail

    def _sealed_mail(self, run_id: str, mail: Mail) -> Mail:
        payload = (
            mail.payload if mail.payload is None else self._seal(mail.payload, "mail", run_id, _slot(mail, "value"))
        )
        error = mail.error if mail.error is None else self._seal(mail.error, "mail", run_id, _slot(mail, "error"))
        return mail._replace(payload=payload, error=error)

    def _opened_mail(self, run_id: str, mail: Mail) -> Mail:
        payload, error = mail.payload, mail.error
        if payload is not None and not (mail.kind is MailKind.CANCEL and payload == _PARENT_ENDED):
            payload = self._open(payload, "mail", run_id, _slot(mail, "value"))
        if error is not None and not (mail.kind is MailKind.RESULT and _is_said_by_store(error)):
            error = self._open(error, "mail", run_id, _slot(mail, "error"))
        return mail._replace(payload=payload, error=error)

    async def _opened_any(self, run_id: str, mail: Mail) -> Mail:
        """The same, of a result that says where it comes from as well."""
        part = "value" if mail.error is None else "error"
        stored = mail.payload if mail.error is None else mail.error
        origin = self._codec.origin(stored) if mail.kind is MailKind.RESULT and stored is not None else None
        if origin is None or stored is None:
            return self._opened_mail(run_id, mail)
        name = await self._results.place_of(run_id, mail.name, origin, part)
        data = self._open(stored, origin.kind, origin.owner, origin.key)
        if part == "value":
            return mail._replace(name=name, payload=data)
        if origin.kind == "row":
            failure = ChildFailedError(f"child run {origin.owner} failed")
            failure.__cause__ = load(data)
            data = dump_error(failure)
        return mail._replace(name=name, payload=None, error=data)

    # --- runs

    def _sealed_run(self, run: NewRun) -> NewRun:
        return run._replace(rows=tuple(self._sealed_row(run.id, row) for row in run.rows))

    def _opened_record(self, record: RunRecord) -> RunRecord:
        if record.reason is None or not is_hidden(record.reason):
            return record
        try:
            reason = self._open(hidden(record.reason), "reason", record.id).decode()
        except Exception:  # noqa: BLE001  # of one run of many: whatever is wrong with it, the others are to be read
            reason = "(the reason cannot be read without its key)"
        return record._replace(reason=reason)

    def _opened_claim(self, claim: Claim) -> Claim:
        return claim._replace(record=self._opened_record(claim.record))

    async def create(self, run: NewRun) -> bool:
        await self._note_keys((run,))
        return await self._store.create(self._sealed_run(run))

    async def recreate(self, run: NewRun, statuses: Sequence[str]) -> bool:
        await self._note_keys((run,))
        return await self._store.recreate(self._sealed_run(run), statuses)

    async def get(self, run_id: str) -> RunRecord | None:
        record = await self._store.get(run_id)
        return None if record is None else self._opened_record(record)

    async def runs(self, which: RunFilter | None = None) -> list[RunRecord]:
        return [self._opened_record(record) for record in await self._store.runs(which)]

    async def claim_runs(
        self, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        return [self._opened_claim(claim) for claim in await self._store.claim_runs(worker_id, known, limit, queues)]

    async def leased(self, worker_id: str) -> list[Claim]:
        return [self._opened_claim(claim) for claim in await self._store.leased(worker_id)]

    async def listing(self, which: RunFilter) -> Listing:
        found = await self._store.listing(which)
        return found._replace(records=[self._opened_record(record) for record in found.records])

    async def rows_at(self, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
        """What cannot be opened says why in its place: it concerns its own run only."""
        found = await self._store.rows_at(run_ids, key)
        return {run_id: self._opened_or_not(run_id, key, value) for run_id, value in found.items()}

    def _opened_or_not(self, run_id: str, key: bytes, value: bytes) -> bytes:
        try:
            return self._open(value, "row", run_id, key)
        except DecodingError as error:
            return dump_error(error)

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        return [self._opened_row(run_id, row) for row in await self._store.rows(run_id, prefix)]

    async def rows_of(self, run_ids: Sequence[str]) -> Mapping[str, list[tuple[bytes, bytes]] | UnreadableRun]:
        found = await self._store.rows_of(run_ids)
        return {run_id: self._opened_list(run_id, rows) for run_id, rows in found.items()}

    def _opened_list(
        self, run_id: str, rows: list[tuple[bytes, bytes]] | UnreadableRun
    ) -> list[tuple[bytes, bytes]] | UnreadableRun:
        """The rows of one run of several, opened inside its own boundary."""
        if isinstance(rows, UnreadableRun):
            return rows
        try:
            return [self._opened_row(run_id, row) for row in rows]
        except Exception as error:  # noqa: BLE001  # of one run of many: it is raised where that run is taken up
            return UnreadableRun(error)

    async def adopt(self, run: AdoptedRun) -> bool:
        if not isinstance(self._store, Adopts):
            raise UnsupportedError("this store takes no runs of others")
        rows = tuple(self._sealed_row(run.id, row) for row in run.rows)
        mail = tuple((number, self._sealed_mail(run.id, one)) for number, one in run.mail)
        return await self._store.adopt(replace(run, rows=rows, mail=mail))

    # --- messages

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        return await self._store.send(run_id, self._sealed_mail(run_id, mail), message_id)

    async def signal_and_claim(
        self, worker_id: str, run_id: str, mail: Mail, message_id: str | None
    ) -> tuple[int | None, Claim | None]:
        sealed_mail = self._sealed_mail(run_id, mail)
        number, claim = await self._store.signal_and_claim(worker_id, run_id, sealed_mail, message_id)
        return number, None if claim is None else self._opened_claim(claim)

    async def mail(self, run_id: str, above: int) -> list[tuple[int, Mail]]:
        return [(n, await self._opened_any(run_id, mail)) for n, mail in await self._store.mail(run_id, above)]

    async def mail_of(self, above: Mapping[str, int]) -> Mapping[str, list[tuple[int, bytes]] | UnreadableRun]:
        found = await self._store.mail_of(above)
        return {run_id: await self._opened_inbox(run_id, mail) for run_id, mail in found.items()}

    async def _opened_inbox(
        self, run_id: str, mail: list[tuple[int, bytes]] | UnreadableRun
    ) -> list[tuple[int, bytes]] | UnreadableRun:
        if isinstance(mail, UnreadableRun):
            return mail
        try:
            return [(n, encode_mail(await self._opened_any(run_id, decode_mail(data)))) for n, data in mail]
        except Exception as error:  # noqa: BLE001  # of one run of many: it is raised where that run is taken up
            return UnreadableRun(error)

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        stored = await self._store.answer(run_id, update_id)
        if stored is None or stored == CLOSED_FIRST:
            return stored
        return self._open(stored, "answer", run_id, update_id.encode())

    # --- turns

    def _sealed_commit(self, commit: Commit) -> Commit:
        match commit:
            case Rows(lease=lease, puts=puts) | End(lease=lease, puts=puts):
                return commit._replace(puts=self._sealed_puts(lease.run_id, puts))
            case Start(new=new, puts=puts):
                return commit._replace(new=self._sealed_run(new), puts=self._sealed_puts(new.id, puts))
            case Own(lease=lease, rows=rows):
                return commit._replace(rows=self._sealed_rows(lease.run_id, rows) if rows.puts else rows)
            case Park(lease=lease, reason=reason, new=new):
                sealed_reason = readable(self._seal(reason.encode(), "reason", lease.run_id))
                return commit._replace(reason=sealed_reason, new=None if new is None else self._sealed_run(new))
            case Full():
                return self._sealed_full(commit)
            case _:
                assert_never(commit)

    def _sealed_puts(self, run_id: str, puts: Puts) -> Puts:
        return self._sealed_rows(run_id, EncodedBatch((), (), puts)).puts

    def _sealed_full(self, commit: Full) -> Full:
        run_id = commit.lease.run_id
        return commit._replace(
            rows=self._sealed_rows(run_id, commit.rows) if commit.rows.puts else commit.rows,
            new=None if commit.new is None else self._sealed_run(commit.new),
            runs=tuple(map(self._sealed_run, commit.runs)),
            tasks=tuple(map(self._sealed_task, commit.tasks)),
            outgoing=tuple(map(self._sealed_outgoing, commit.outgoing)),
            answers=tuple(
                (update_id, self._seal(answer, "answer", run_id, update_id.encode()))
                for update_id, answer in commit.answers
            ),
        )

    def _sealed_outgoing(self, outgoing: Outgoing) -> Outgoing:
        return replace(outgoing, mail=self._sealed_mail(outgoing.run_id, outgoing.mail))

    async def _note_keys(self, asked: Iterable[NewRun | EnqueueTask], run_id: str | None = None) -> None:
        """Notes under which key something was asked for, for whoever is given the result of another with that key.

        Before the commit that asks: a note of something that never came to be tells nobody anything.
        """
        for one in asked:
            if one.key is not None:
                await self.keep_details(note_of(one.id), run_id or one.id, keyed(one.queue, one.key))

    async def _note_keys_of(self, commit: Commit) -> None:
        if isinstance(commit, Full):
            await self._note_keys(commit.tasks, commit.lease.run_id)
            await self._note_keys(commit.runs)
        if (new := begun_by(commit)) is not None:
            await self._note_keys((new,))

    async def commit(self, commit: Commit) -> list[Outgoing]:
        await self._note_keys_of(commit)
        undelivered = {outgoing.id for outgoing in await self._store.commit(self._sealed_commit(commit))}
        return [one for one in commit.outgoing if one.id in undelivered] if isinstance(commit, Full) else []

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        for commit in commits:
            await self._note_keys_of(commit)
        return await self._store.commit_group([self._sealed_commit(commit) for commit in commits])

    async def reopen(self, back: Full) -> bool:
        return await self._store.reopen(self._sealed_full(back))

    # --- tasks

    def _sealed_task(self, task: EnqueueTask) -> EnqueueTask:
        return task._replace(input=self._seal(task.input, "input", task.id))

    def _opened_task(self, task: ClaimedTask) -> ClaimedTask:
        try:
            return replace(task, input=self._open(task.input, "input", task.id))
        except Exception:  # noqa: BLE001  # of one task of many
            return task  # its attempt fails on it, as on any input it cannot read

    async def enqueue(self, task: EnqueueTask) -> str:
        await self._note_keys((task,))
        return await self._store.enqueue(self._sealed_task(task))

    async def claim_tasks(
        self, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
    ) -> list[ClaimedTask]:
        return [self._opened_task(task) for task in await self._store.claim_tasks(worker_id, known, queues, limit)]

    async def claim_limited(self, *asked: Any) -> LimitedClaims:
        claimed = await self._store.claim_limited(*asked)
        runs = [self._opened_claim(claim) for claim in claimed.runs]
        return replace(claimed, runs=runs, tasks=[self._opened_task(task) for task in claimed.tasks])

    async def claim_suspects(self, *asked: Any) -> Suspects:
        claimed = await self._store.claim_suspects(*asked)
        runs = [self._opened_claim(claim) for claim in claimed.runs]
        return replace(claimed, runs=runs, tasks=[self._opened_task(task) for task in claimed.tasks])

    async def end_task(self, end: TaskEnd) -> bool:
        output = None if end.output is None else self._seal(end.output, "task", end.id, b"value", travels=True)
        error = None if end.error is None else self._seal(end.error, "task", end.id, b"error", travels=True)
        return await self._store.end_task(replace(end, output=output, error=error))

    async def task(self, task_id: str) -> TaskState | None:
        state = await self._store.task(task_id)
        if state is None:
            return None
        output, error = state.output, state.error
        if output is not None:
            output = self._open(output, "task", task_id, b"value")
        if error is not None and not _is_said_by_store(error):
            error = self._open(error, "task", task_id, b"error")
        return state._replace(output=output, error=error)

    async def keep_details(self, key: str, run_id: str, details: bytes) -> None:
        await self._store.keep_details(key, run_id, self._seal(details, "details", key))

    async def details(self, key: str) -> bytes | None:
        stored = await self._store.details(key)
        return None if stored is None else self._open(stored, "details", key)

    # --- schedules

    def _opened_schedule(self, record: ScheduleRecord) -> ScheduleRecord:
        return replace(record, input=self._open(record.input, "schedule", record.name))

    async def put_schedule(self, record: ScheduleRecord) -> None:
        await self._store.put_schedule(replace(record, input=self._seal(record.input, "schedule", record.name)))

    async def schedules(self) -> list[ScheduleRecord]:
        return [self._listed_schedule(record) for record in await self._store.schedules()]

    def _listed_schedule(self, record: ScheduleRecord) -> ScheduleRecord:
        try:
            return self._opened_schedule(record)
        except Exception:  # noqa: BLE001  # of one schedule of many
            return record  # a list says nothing of its arguments, and firing it refuses them

    async def get_schedule(self, name: str) -> ScheduleRecord | None:
        record = await self._store.get_schedule(name)
        return None if record is None else self._opened_schedule(record)

    async def due_schedules(self, limit: int, after: str = "") -> tuple[list[DueSchedule], int | None]:
        while True:
            found, following = await self._store.due_schedules(limit, after)
            due: list[DueSchedule] = []
            for schedule in found:
                try:
                    due.append(schedule._replace(record=self._opened_schedule(schedule.record)))
                except Exception as error:  # noqa: BLE001  # of one schedule of many
                    log.warning("schedule %s starts nothing: %s", schedule.record.name, error)
            if due or not found:
                return due, following
            after = found[-1].record.name  # an empty page would say that nothing is due behind it

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[Fired]:
        return await self._store.fire_schedules([self._sealed_firing(firing) for firing in firings])

    def _sealed_firing(self, firing: Firing) -> Firing:
        runs = tuple(map(self._sealed_run, firing.runs))
        return replace(firing, runs=runs, outgoing=tuple(map(self._sealed_outgoing, firing.outgoing)))


def _slot(mail: Mail, part: str) -> bytes:
    """What tells a message from the others of its run before it has a number."""
    return cbor2.dumps([part, mail.kind.name, mail.sent_at, mail.ref, mail.name])


def _is_said_by_store(error: bytes) -> bool:
    """Whether an error is one of the known texts about ids."""
    if is_sealed(error):
        return False
    try:
        found = load(error)
    except (DecodingError, RecordError):
        return False
    return type(found) in _SAID_BY_STORES and found.__cause__ is None
