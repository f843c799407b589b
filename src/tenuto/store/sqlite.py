"""The store in one SQLite file: many processes may use it, one of them writes at a time.

Writes go through one thread per process, which commits what is queued together (`writer`); reads have a thread of
their own and never wait for it. The statements are in `sqlite.sql`, the schema in `migrations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from tenuto.errors import LeaseLostError, StoreUnavailableError
from tenuto.kernel.records import Mail
from tenuto.store import sqlite_adoption, sqlite_mail, sqlite_runs, sqlite_tasks, sqlite_turns, sqlite_workers
from tenuto.store.adoption import AdoptedRun
from tenuto.store.changes import Changes
from tenuto.store.clock import system_clock
from tenuto.store.connection import Connection, Row, Settings, Values, unavailable
from tenuto.store.files import check_folder, make_file, make_private
from tenuto.store.limits import ANSWER_KEPT_MS
from tenuto.store.port import (
    Claim,
    ClaimedTask,
    Commit,
    Full,
    Lease,
    Listing,
    NewRun,
    OpenTask,
    Outgoing,
    Rows,
    RunFilter,
    RunningStep,
    RunRecord,
    TaskEnd,
    TurnResult,
    WorkerRecord,
)
from tenuto.store.quarantine import Suspects
from tenuto.store.rules import COMMITTED_KEPT
from tenuto.store.run_rows import worker_of_columns
from tenuto.store.schema import KNOWN_VERSION, migrate, require_schema, schema_version
from tenuto.store.sqlite_housekeeping import SqliteHousekeeping
from tenuto.store.sqlite_mail import listed
from tenuto.store.sqlite_programs import SqlitePrograms
from tenuto.store.sqlite_queues import SqliteQueueing
from tenuto.store.under_way import prefix_of, step_of
from tenuto.store.writer import Reader, Writer
from tenuto.system import REAL, System

__all__ = ["SqliteStore"]

T = TypeVar("T")
BRIEF_TURNS = 16  # so many are committed in hardly more time than one


class SqliteStore(SqliteHousekeeping, SqlitePrograms, SqliteQueueing):
    """See `store.port`."""

    def __init__(
        self,
        path: str | Path,
        *,
        sync: Literal["full", "normal"] = "full",
        clock: Callable[[], int] = system_clock,
        busy_ms: int = 5_000,
        busy_limit_ms: int = 30_000,
        read_only: bool = False,
        system: System = REAL,
    ) -> None:
        self._settings = Settings(Path(path), clock, sync, busy_ms, busy_limit_ms, read_only, system)
        self._changes = Changes(self._foreign_commit, system.clock)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._version = 0  # of the file's data, as the writer last saw it
        self._swept_to = ""  # where the search for runs that miss a timer goes on

    @property
    def path(self) -> Path:
        return self._settings.path

    @property
    def sync(self) -> str:
        """full, or normal where it was asked for: then the last commits may be lost with the power."""
        return self._settings.sync

    async def open(self) -> None:
        if self._writer is not None or self._reader is not None:
            return
        if self._settings.read_only:
            await self._open_to_read()
            return
        try:
            make_private(self.path.parent)
            check_folder(self.path)
            make_file(self.path)
        except OSError as error:
            raise unavailable(self.path, error) from error
        self._writer = Writer(
            self._settings, lambda connection: migrate(connection, self._settings), self._changes.happened
        )
        self._reader = Reader(self._settings, _as_it_is)
        try:
            self._version = await self._writer.do(_data_version, quiet=True)
            await self._reader.do(_data_version)
        except BaseException:
            await self.close()
            raise

    async def _open_to_read(self) -> None:
        """Looks at a file as it is: nothing is created, migrated or set."""
        if not self.path.is_file():
            raise StoreUnavailableError(f"{self.path}: there is no such file")
        check_folder(self.path)
        self._reader = Reader(self._settings, require_schema)
        try:
            self._version = await self._reader.do(_data_version)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        lanes = (self._writer, self._reader)
        self._writer = self._reader = None
        for lane in filter(None, lanes):
            await lane.close()

    async def now(self) -> int:
        return self._settings.clock()

    def clock(self) -> int:
        return self._settings.clock()

    @property
    def commits_at_once(self) -> int:
        return 1  # there is one writer

    async def schema(self) -> tuple[int, int]:
        return await self._read(schema_version), KNOWN_VERSION

    async def unused_bytes(self) -> int:
        """How much of the file nothing is in; it is filled again, and given back by `VACUUM` only."""
        row = await self._read(lambda connection: connection.one("unused"))
        return 0 if row is None else int(row[0])

    async def _write(self, work: Callable[[Connection], T], *, brief: bool = False) -> T:
        if self._settings.read_only:
            raise StoreUnavailableError(f"{self.path} was opened for reading only")
        if self._writer is None:
            raise StoreUnavailableError(f"{self.path}: the store is not open")
        return await self._writer.do(work, brief=brief)

    async def _read(self, work: Callable[[Connection], T], *, brief: bool = False) -> T:
        if self._reader is None:
            raise StoreUnavailableError(f"{self.path}: the store is not open")
        return await self._reader.do(work, brief=brief)

    async def _ask(self, name: str, values: Values) -> list[Row]:
        """The rows of one statement that reads a few: without a transaction around it, and mostly without a thread."""
        rows = None if self._reader is None else self._reader.at_once(name, values)
        return await self._read(lambda connection: connection.all(name, values)) if rows is None else rows

    async def _foreign_commit(self) -> bool:
        thread = self._writer or self._reader
        if thread is None:
            return False
        version = await thread.do(_data_version, quiet=True)
        before, self._version = self._version, version
        return version != before

    # --- clients

    async def create(self, run: NewRun) -> bool:
        return await self._write(lambda connection: sqlite_runs.create(connection, run), brief=True)

    async def adopt(self, run: AdoptedRun) -> bool:
        """Takes a run of another store, as it is; see `store.adoption`."""
        return await self._write(lambda connection: sqlite_adoption.adopt(connection, run))

    async def get(self, run_id: str) -> RunRecord | None:
        found = await self._ask("get_run", {"id": run_id})
        return sqlite_runs.record_of(found[0]) if found else None

    async def runs(self, which: RunFilter | None = None) -> list[RunRecord]:
        return await self._read(lambda connection: sqlite_runs.find(connection, which))

    async def listing(self, which: RunFilter) -> Listing:
        return await self._read(lambda connection: sqlite_runs.listing(connection, which))

    async def count(self, which: RunFilter) -> dict[str, int]:
        return await self._read(lambda connection: sqlite_runs.count(connection, which))

    async def rows_at(self, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
        return await self._read(lambda connection: sqlite_runs.rows_at(connection, run_ids, key))

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        return await self._read(lambda connection: sqlite_runs.rows(connection, run_id, prefix))

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        return await self._write(lambda connection: sqlite_mail.send(connection, run_id, mail, message_id), brief=True)

    async def signal_and_claim(
        self, worker_id: str, run_id: str, mail: Mail, message_id: str | None
    ) -> tuple[int | None, Claim | None]:
        return await self._write(
            lambda connection: sqlite_runs.signal_and_claim(connection, worker_id, run_id, mail, message_id), brief=True
        )

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        values = {"run": run_id, "message": update_id, "kept": ANSWER_KEPT_MS}
        found = await self._ask("get_answer", values)
        return found[0][0] if found else None

    async def delete(self, run_ids: Sequence[str]) -> None:
        await self._write(lambda connection: sqlite_runs.delete(connection, run_ids))

    async def terminate(self, run_id: str, reason: str | None) -> bool:
        return await self._write(lambda connection: sqlite_runs.terminate(connection, run_id, reason))

    async def release(self, run_id: str) -> bool:
        return await self._write(lambda connection: sqlite_runs.release(connection, run_id))

    async def pause(self, run_id: str) -> bool:
        return await self._write(lambda connection: sqlite_runs.pause(connection, run_id))

    async def wake(self, run_id: str) -> None:
        """A wake-up for a run; nothing fires early."""
        await self._write(lambda connection: sqlite_runs.wake_open(connection, run_id))

    async def reopen(self, back: Full) -> bool:
        return await self._write(lambda connection: sqlite_turns.reopen(connection, back))

    async def open_tasks(self, run_id: str) -> list[OpenTask]:
        found = await self._read(lambda connection: connection.all("tasks_of", {"run": run_id}))
        return [OpenTask(*row) for row in found]

    async def holder(self, run_id: str) -> str | None:
        row = await self._read(lambda connection: connection.one("holder", {"run": run_id}))
        return None if row is None else row[0]

    async def steps_under_way(self, run_id: str) -> list[RunningStep]:
        values = {"run": run_id, "prefix": prefix_of(run_id)}
        found = await self._read(lambda connection: connection.all("steps_under_way", values))
        return [step for (details,) in found if (step := step_of(details)) is not None]

    async def note_under_way(self, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
        await self._write(lambda connection: sqlite_workers.note_under_way(connection, begun, ended))

    async def live_workers(self) -> list[WorkerRecord]:
        return [worker_of_columns(row) for row in await self._read(lambda connection: connection.all("live_workers"))]

    async def open_hook(self, run_id: str, key: str, token_hash: str) -> bool:
        return await self._write(lambda connection: sqlite_runs.open_hook(connection, run_id, key, token_hash))

    async def hook_owner(self, token_hash: str) -> str | None:
        row = await self._read(lambda connection: connection.one("hook_owner", {"token": token_hash}))
        return None if row is None else row[0]

    async def changed(self, since: int, timeout: float) -> int:
        return await self._changes.after(since, timeout)

    # --- workers

    async def register(
        self,
        worker_id: str,
        lease_ms: int,
        capability: str,
        definitions: Mapping[str, str],
        queues: Sequence[str] | None = None,
    ) -> None:
        await self._write(
            lambda connection: sqlite_workers.register(connection, worker_id, lease_ms, capability, definitions, queues)
        )

    async def heartbeat(self, worker_id: str, lease_ms: int) -> bool:
        return await self._write(lambda connection: sqlite_workers.heartbeat(connection, worker_id, lease_ms))

    async def declare_lost(self, worker_ids: Sequence[str]) -> None:
        await self._write(lambda connection: sqlite_workers.declare_lost(connection, worker_ids))

    async def has_suspects(self, waited_ms: int) -> bool:
        return bool(await self._read(lambda connection: sqlite_workers.suspects(connection, None, None, 1, waited_ms)))

    async def claim_suspects(
        self,
        worker_id: str,
        known: tuple[Sequence[str], Sequence[str]],
        queues: Sequence[str] | None,
        group: tuple[int, int],
        waited_ms: int,
    ) -> Suspects:
        return await self._write(
            lambda connection: sqlite_workers.claim_suspects(connection, worker_id, known, queues, group, waited_ms)
        )

    async def still_suspect(self, worker_id: str) -> list[str]:
        found = await self._read(lambda connection: connection.all("still_suspect", {"worker": worker_id}))
        return [execution for (execution,) in found]

    async def note_place(self, lease: Lease, location: str) -> None:
        values = {"run": lease.run_id, "epoch": lease.epoch, "location": location}
        await self._write(lambda connection: connection.run("note_place", values))

    async def deregister(self, worker_id: str, begun: Sequence[str] = ()) -> None:
        await self._write(lambda connection: sqlite_workers.deregister(connection, worker_id, begun))

    async def claim(self, run_id: str) -> Lease:
        return await self._write(lambda connection: sqlite_runs.claim_one(connection, run_id))

    async def claim_runs(
        self, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        return await self._write(lambda connection: sqlite_runs.claim_runs(connection, worker_id, known, limit, queues))

    async def claim_tasks(
        self, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
    ) -> list[ClaimedTask]:
        return await self._write(
            lambda connection: sqlite_tasks.claim_tasks(connection, worker_id, known, queues, limit)
        )

    async def give_back_tasks(self, worker_id: str, kept: Sequence[str], begun: Sequence[str] = ()) -> None:
        await self._write(lambda connection: sqlite_workers.give_back_tasks(connection, worker_id, kept, begun))

    async def leased(self, worker_id: str) -> list[Claim]:
        return await self._read(lambda connection: sqlite_runs.leased(connection, worker_id))

    async def absorb(self, worker_id: str, run_ids: Sequence[str]) -> list[str]:
        # A look first: nearly always there is nothing, and a wake-up that comes after the look stays for the next.
        ids = {"runs": listed(run_ids), "worker": worker_id}
        if not run_ids or not await self._ask("pending_resumes", ids):
            return []
        found = await self._write(lambda connection: connection.all("absorb", ids))
        return [run for (run,) in found]

    async def mail(self, run_id: str, above: int) -> list[tuple[int, Mail]]:
        return await self._read(lambda connection: sqlite_mail.read_mail(connection, run_id, above), brief=True)

    async def rows_of(self, run_ids: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
        return await self._read(lambda connection: sqlite_runs.rows_of(connection, run_ids))

    async def mail_of(self, above: Mapping[str, int]) -> dict[str, list[tuple[int, bytes]]]:
        return await self._read(lambda connection: sqlite_mail.mail_of(connection, above))

    async def timers(self, run_id: str) -> list[str]:
        """The locations of a run's timers that are there: one deleted by hand is not (P4)."""
        return [location for (location,) in await self._ask("timers_of", {"run": run_id})]

    async def commit(self, commit: Commit) -> list[Outgoing]:
        (result,) = await self.commit_group((commit,))
        if result.verdict != "committed":
            raise LeaseLostError(f"run {commit.lease.run_id}, epoch {commit.lease.epoch}: {result.verdict}")
        return list(result.undelivered)

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        if len(commits) == 1 and isinstance(alone := commits[0], Rows) and self._writer is not None:
            row = sqlite_turns.as_row(alone)
            if row is not None and self._writer.at_once("commit_row", row):
                return [COMMITTED_KEPT]
        return await self._write(
            lambda connection: sqlite_turns.commit_group(connection, commits), brief=len(commits) <= BRIEF_TURNS
        )

    async def end_task(self, end: TaskEnd) -> bool:
        return await self._write(lambda connection: sqlite_tasks.end_task(connection, end))

    async def keep_details(self, key: str, run_id: str, details: bytes) -> None:
        values = {"key": key, "run": run_id, "details": details}
        await self._write(lambda connection: connection.run("put_details", values))

    async def details(self, key: str) -> bytes | None:
        row = await self._read(lambda connection: connection.one("get_details", {"key": key}))
        return None if row is None else row[0]

    async def fire_timers(self, limit: int) -> int | None:
        return await self._write(lambda connection: sqlite_tasks.fire_timers(connection, limit))

    async def sweep(self, max_reclaims: int, limit: int) -> int:
        swept = await self._write(lambda connection: sqlite_workers.sweep(connection, max_reclaims, limit))
        after = self._swept_to
        self._swept_to = await self._write(lambda connection: sqlite_workers.wake_untimed(connection, after))
        return swept


def _data_version(connection: Connection) -> int:
    row = connection.one("data_version")
    return 0 if row is None else int(row[0])


def _as_it_is(_: Connection) -> None:
    """Readers take the schema as the writer has made it."""
