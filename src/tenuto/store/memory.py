"""The store that forgets: everything in this process, for tests and for trying things out.

It is held to the same conformance suite as the real ones. A commit builds what will be and puts it in place by single
assignments at the end, so a failure on the way leaves everything as it was.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tenuto.codec.records import encode_mail
from tenuto.codec.rows import EncodedBatch, mail_key
from tenuto.errors import LeaseLostError, LimitError, RunClosedError, RunNotFoundError
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail
from tenuto.store.port import CLOSED, Lease, NewRun, Outgoing, RunRecord, TurnCommit

__all__ = ["MemoryStore"]


BUFFERED_MESSAGES: Final = 10_000


class Table:
    """Rows in byte order."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def delete(self, key: bytes) -> None:
        if self._values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def delete_range(self, start: bytes, end: bytes) -> None:
        first, last = bisect_left(self._keys, start), bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            del self._values[key]
        del self._keys[first:last]

    def list(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                break
            found.append((key, self._values[key]))
        return found


@dataclass(slots=True)
class _Run:
    record: RunRecord
    table: Table = field(default_factory=Table)
    last_mail: int = 0
    message_ids: set[str] = field(default_factory=set[str])
    answers: dict[str, bytes] = field(default_factory=dict[str, bytes])


class MemoryStore:
    """See `store.port`."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self.tasks: dict[str, tuple[str, EnqueueTask]] = {}  # by id: the run that queued it, and what to do

    async def create(self, run: NewRun) -> bool:
        return self._create(run)

    def _create(self, new: NewRun) -> bool:
        if new.id in self._runs:
            return False
        run = _Run(RunRecord(new.id, new.target, "pending", 0, None, None, new.parent, new.detached))
        for key, value in new.rows:
            run.table.put(key, value)
        self._runs[new.id] = run
        return True

    async def get(self, run_id: str) -> RunRecord | None:
        run = self._runs.get(run_id)
        return None if run is None else run.record

    async def runs(self) -> list[RunRecord]:
        return [run.record for run in self._runs.values()]

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        return self._run(run_id).table.list(prefix)

    async def claim(self, run_id: str) -> Lease:
        run = self._run(run_id)
        run.record = replace(run.record, epoch=run.record.epoch + 1)
        return Lease(run_id, run.record.epoch)

    async def commit(self, commit: TurnCommit) -> list[Outgoing]:
        run = self._run(commit.lease.run_id)
        if run.record.epoch != commit.lease.epoch:
            raise LeaseLostError(
                f"run {run.record.id} was claimed again (epoch {run.record.epoch}, not {commit.lease.epoch})"
            )
        checked = _checked(commit.rows)  # everything that can fail comes before the first change
        mails = [(outgoing, encode_mail(outgoing.mail)) for outgoing in commit.outgoing]
        self._apply(run.table, checked)
        for new in commit.runs:
            self._create(new)
        self.tasks.update((task.id, (run.record.id, task)) for task in commit.tasks)
        for task_id in commit.cancelled_tasks:
            self.tasks.pop(task_id, None)
        run.answers.update(commit.answers)
        run.record = replace(run.record, status=commit.status, alarm=commit.alarm, reason=commit.reason)
        return [outgoing for outgoing, mail in mails if not self._deliver(outgoing, mail)]

    @staticmethod
    def _apply(table: Table, rows: EncodedBatch) -> None:
        for start, end in rows.range_deletes:
            table.delete_range(start, end)
        for key in rows.deletes:
            table.delete(key)
        for key, value in rows.puts:
            table.put(key, value)

    def _deliver(self, outgoing: Outgoing, mail: bytes) -> bool:
        run = self._runs.get(outgoing.run_id)
        if run is None or run.record.status in CLOSED:
            return False
        self._store_mail(run, mail, outgoing.id)
        return True

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        run = self._run(run_id)
        if run.record.status in CLOSED:
            raise RunClosedError(f"run {run_id} is {run.record.status}")
        buffered = len(run.table.list(_MAIL))
        if buffered >= BUFFERED_MESSAGES:
            raise LimitError("buffered messages", BUFFERED_MESSAGES, buffered + 1)
        return self._store_mail(run, encode_mail(mail), message_id)

    @staticmethod
    def _store_mail(run: _Run, mail: bytes, message_id: str | None) -> int | None:
        if message_id is not None:
            if message_id in run.message_ids:
                return None
            run.message_ids.add(message_id)
        run.last_mail += 1
        run.table.put(mail_key(run.last_mail), mail)
        return run.last_mail

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        return self._run(run_id).answers.get(update_id)

    async def forget_answer(self, run_id: str, update_id: str) -> None:
        """A rejected update may be sent again."""
        self._run(run_id).answers.pop(update_id, None)

    async def delete(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self._runs.pop(run_id, None)

    def _run(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            raise RunNotFoundError(f"there is no run {run_id!r}")
        return run


_MAIL: Final = mail_key(0)[:2]  # the prefix of all mail


def _checked(rows: EncodedBatch) -> EncodedBatch:
    """The same rows, read once through: a lazy or broken batch fails here and not half way."""
    return EncodedBatch(
        tuple((bytes(start), bytes(end)) for start, end in rows.range_deletes),
        tuple(bytes(key) for key in rows.deletes),
        tuple((bytes(key), bytes(value)) for key, value in rows.puts),
    )
