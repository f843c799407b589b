"""The store in Postgres: many workers on many machines, each claiming with SKIP LOCKED and fenced by epochs.

A single statement is its own transaction where that is possible; the rest is pipelined (`postgres_connection`). The
statements are in `postgres.sql`, the schema in `migrations/postgres`.

Event loops: connections belong to the loop that opened the store. A call from another loop is carried over to it;
`heartbeat` is not, it has a plain connection of its own, so that renewal goes on while user code blocks that loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from tenuto.codec.keys import prefix_end
from tenuto.errors import LeaseLostError, StoreRefusedError, StoreUnavailableError
from tenuto.kernel.records import Mail, MailKind
from tenuto.store import postgres_mail, postgres_runs, postgres_tasks, postgres_turns, postgres_workers
from tenuto.store.changes import Changes
from tenuto.store.clock import Now
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
    RunFilter,
    RunningStep,
    RunRecord,
    TaskEnd,
    TurnResult,
    WorkerRecord,
)
from tenuto.store.postgres_connection import STATEMENTS, Database, Transaction, check_settings, require_text
from tenuto.store.postgres_gathering import Gathering
from tenuto.store.postgres_housekeeping import PostgresHousekeeping
from tenuto.store.postgres_listener import Listener
from tenuto.store.postgres_programs import PostgresPrograms
from tenuto.store.postgres_queues import PostgresQueueing
from tenuto.store.postgres_schema import KNOWN_VERSION, migrate, require_schema
from tenuto.store.quarantine import Suspects
from tenuto.store.run_rows import worker_of_columns
from tenuto.store.under_way import prefix_of, step_of
from tenuto.system import REAL, System

__all__ = ["PostgresStore"]

T = TypeVar("T")


class PostgresStore(PostgresHousekeeping, PostgresPrograms, PostgresQueueing):
    """See `store.port`. `clock`: for tests, in place of the server's. `read_only`: nothing is migrated or written."""

    def __init__(
        self,
        url: str,
        *,
        clock: Now | None = None,
        connections: int = 10,
        read_only: bool = False,
        system: System = REAL,
    ) -> None:
        self._new_database = partial(Database, url, clock, connections, read_only, system)
        self._changes = Changes(clock=system.clock)
        self._prepare()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._swept_to = ""  # where the search for runs that miss a timer goes on

    def _prepare(self) -> None:
        """Everything that belongs to one opening, and to its event loop."""
        database = self._database = self._new_database()
        self._listener = Listener(self._database, self._changes.happened)
        self._heartbeat = postgres_workers.Heartbeat(self._database)
        self._gets = Gathering[str, RunRecord | None](lambda ids: postgres_runs.get_all(database, ids), None)
        read_ranges = partial(postgres_runs.ranges, database)
        self._ranges = Gathering[postgres_runs.Range, list[tuple[bytes, bytes]]](read_ranges, [])

    async def open(self) -> None:
        if self._loop is not None:
            return
        connection = await self._database.connect()
        try:
            with self._database.translated():
                settings = await (await connection.execute(STATEMENTS["read_settings"])).fetchone()
                check_settings(self._database.shown, settings or (), read_only=self._database.read_only)
                await self._database.require_sessions(connection)
                await (require_schema if self._database.read_only else migrate)(connection)
        finally:
            await connection.close()
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()

    async def close(self) -> None:
        """Ends every connection. On the loop that opened the store."""
        if self._loop is None:
            return
        self._loop = None
        for part in (self._listener, self._heartbeat, self._database):
            await part.close()
        self._prepare()  # it may be opened again

    async def now(self) -> int:
        known = self._database.known_now()
        return known if known is not None else await self._here(self._database.now)

    def clock(self) -> int | None:
        return self._database.known_now()

    @property
    def commits_at_once(self) -> int:
        return 2  # while the server writes one group, the turns of the next are taken

    async def schema(self) -> tuple[int, int]:
        ((version, _),) = await self._here(lambda: self._database.read("read_meta"))
        return version, KNOWN_VERSION

    async def _here(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Work on the loop the connections belong to, wherever it is asked for."""
        if self._loop is None:
            raise StoreUnavailableError(f"{self._database.shown}: the store is not open")
        if os.getpid() != self._pid:
            raise StoreRefusedError("a store that was opened before a fork cannot be used in the child")
        if asyncio.get_running_loop() is self._loop:
            return await work()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))

    async def _write(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The same; waiters of this process hear of it, if there was anything to do."""
        result = await self._here(work)
        if result not in (False, [], 0):
            self._changes.happened()
        return result

    async def _transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._write(lambda: self._database.transact(work))

    # --- clients

    async def create(self, run: NewRun) -> bool:
        values = postgres_runs.new_run(run)
        return bool(await self._write(lambda: self._database.write("insert_run", values)))

    async def get(self, run_id: str) -> RunRecord | None:
        asked = require_text(run_id)
        return await self._here(lambda: self._gets.get(asked))

    async def runs(self, which: RunFilter | None = None) -> list[RunRecord]:
        return await self._here(lambda: postgres_runs.find(self._database, which))

    async def listing(self, which: RunFilter) -> Listing:
        return await self._here(lambda: postgres_runs.listing(self._database, which))

    async def count(self, which: RunFilter) -> dict[str, int]:
        return await self._here(lambda: postgres_runs.count(self._database, which))

    async def rows_at(self, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
        return await self._here(lambda: postgres_runs.rows_at(self._database, run_ids, key))

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        if not prefix:
            return await self._here(lambda: postgres_runs.rows(self._database, run_id))
        asked = require_text(run_id), prefix, prefix_end(prefix)
        found = await self._here(lambda: self._ranges.get(asked))
        if not found:
            await self._here(lambda: postgres_runs.require(self._database, run_id))
        return list(found)

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        if mail.kind is MailKind.SIGNAL:
            sending = postgres_mail.send_signal
            number, _ = await self._write(lambda: sending(self._database, run_id, mail, message_id))
            return number

        async def lock_and_send(transaction: Transaction) -> int | None:
            ending = (run_id,) if mail.kind is MailKind.CANCEL else ()
            await postgres_mail.lock(transaction, (run_id,), ending=ending)
            return await postgres_mail.send(transaction, run_id, mail, message_id)

        return await self._transact(lock_and_send)

    async def signal_and_claim(
        self, worker_id: str, run_id: str, mail: Mail, message_id: str | None
    ) -> tuple[int | None, Claim | None]:
        sending = postgres_mail.send_signal
        number, run = await self._write(lambda: sending(self._database, run_id, mail, message_id, worker_id))
        return number, None if run is None else postgres_runs.claim_of(run)

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        values = {"run": run_id, "message": update_id, "kept": ANSWER_KEPT_MS}
        found = await self._here(lambda: self._database.read("get_answer", values))
        return found[0][0] if found else None

    async def delete(self, run_ids: Sequence[str]) -> None:
        await self._transact(lambda transaction: postgres_runs.delete(transaction, run_ids))

    async def terminate(self, run_id: str, reason: str | None) -> bool:
        return await self._transact(lambda transaction: postgres_runs.terminate(transaction, run_id, reason))

    async def release(self, run_id: str) -> bool:
        return await self._transact(lambda transaction: postgres_runs.release(transaction, run_id))

    async def pause(self, run_id: str) -> bool:
        return await self._write(lambda: postgres_runs.pause(self._database, run_id))

    async def wake(self, run_id: str) -> None:
        """A wake-up for a run; nothing fires early."""
        await self._transact(lambda transaction: postgres_runs.wake_open(transaction, run_id))

    async def reopen(self, back: Full) -> bool:
        return await self._transact(lambda transaction: postgres_turns.reopen(transaction, back))

    async def open_tasks(self, run_id: str) -> list[OpenTask]:
        found = await self._here(lambda: self._database.read("tasks_of", {"run": run_id}))
        return [OpenTask(*row) for row in found]

    async def holder(self, run_id: str) -> str | None:
        found = await self._here(lambda: self._database.read("holder", {"run": run_id}))
        return found[0][0] if found else None

    async def steps_under_way(self, run_id: str) -> list[RunningStep]:
        values = {"run": run_id, "prefix": prefix_of(run_id)}
        found = await self._here(lambda: self._database.read("steps_under_way", values))
        return [step for (details,) in found if (step := step_of(bytes(details))) is not None]

    async def note_under_way(self, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
        await self._here(lambda: postgres_workers.note_under_way(self._database, begun, ended))

    async def live_workers(self) -> list[WorkerRecord]:
        return [worker_of_columns(row) for row in await self._here(lambda: self._database.read("live_workers"))]

    async def changed(self, since: int, timeout: float) -> int:
        await self._here(self._listener.begin)
        return await self._changes.after(since, timeout)

    async def open_hook(self, run_id: str, key: str, token_hash: str) -> bool:
        return await self._transact(lambda transaction: postgres_runs.open_hook(transaction, run_id, key, token_hash))

    async def hook_owner(self, token_hash: str) -> str | None:
        found = await self._here(lambda: self._database.read("hook_owner", {"token": token_hash}))
        return found[0][0] if found else None

    # --- workers

    async def register(
        self,
        worker_id: str,
        lease_ms: int,
        capability: str,
        definitions: Mapping[str, str],
        queues: Sequence[str] | None = None,
    ) -> None:
        await self._transact(
            lambda transaction: postgres_workers.register(
                transaction, worker_id, lease_ms, capability, definitions, queues
            )
        )

    async def heartbeat(self, worker_id: str, lease_ms: int) -> bool:
        return await self._heartbeat.renew(worker_id, lease_ms)

    async def declare_lost(self, worker_ids: Sequence[str]) -> None:
        await self._write(lambda: self._database.write("declare_lost", {"ids": list(worker_ids)}))

    async def has_suspects(self, waited_ms: int) -> bool:
        return bool(await self._here(lambda: self._database.read("has_suspects", {"waited": waited_ms})))

    async def claim_suspects(
        self,
        worker_id: str,
        known: tuple[Sequence[str], Sequence[str]],
        queues: Sequence[str] | None,
        group: tuple[int, int],
        waited_ms: int,
    ) -> Suspects:
        database = self._database
        return await self._transact(
            lambda transaction: postgres_workers.claim_suspects(
                transaction, database, worker_id, known, queues, group, waited_ms
            )
        )

    async def still_suspect(self, worker_id: str) -> list[str]:
        found = await self._here(lambda: self._database.read("still_suspect", {"worker": worker_id}))
        return [execution for (execution,) in found]

    async def note_place(self, lease: Lease, location: str) -> None:
        values = {"run": lease.run_id, "epoch": lease.epoch, "location": location}
        await self._write(lambda: self._database.write("note_place", values))

    async def deregister(self, worker_id: str, begun: Sequence[str] = ()) -> None:
        await self._write(lambda: postgres_workers.deregister(self._database, worker_id, begun))

    async def claim(self, run_id: str) -> Lease:
        return await self._write(lambda: postgres_runs.claim_one(self._database, run_id))

    async def claim_runs(
        self, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        return await self._write(lambda: postgres_runs.claim_runs(self._database, worker_id, known, limit, queues))

    async def claim_tasks(
        self, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
    ) -> list[ClaimedTask]:
        return await self._write(lambda: postgres_tasks.claim_tasks(self._database, worker_id, known, queues, limit))

    async def give_back_tasks(self, worker_id: str, kept: Sequence[str], begun: Sequence[str] = ()) -> None:
        await self._write(lambda: postgres_workers.give_back_tasks(self._database, worker_id, kept, begun))

    async def leased(self, worker_id: str) -> list[Claim]:
        return await self._here(lambda: postgres_runs.leased(self._database, worker_id))

    async def absorb(self, worker_id: str, run_ids: Sequence[str]) -> list[str]:
        if not run_ids:
            return []
        values = {"runs": list(run_ids), "worker": worker_id}
        found = await self._write(lambda: self._database.write("absorb", values))
        return [run_id for (run_id,) in found]

    async def mail(self, run_id: str, above: int) -> list[tuple[int, Mail]]:
        return await self._here(lambda: postgres_mail.read_mail(self._database, run_id, above))

    async def rows_of(self, run_ids: Sequence[str]) -> dict[str, list[tuple[bytes, bytes]]]:
        return await self._here(lambda: postgres_runs.rows_of(self._database, run_ids))

    async def mail_of(self, above: Mapping[str, int]) -> dict[str, list[tuple[int, bytes]]]:
        return await self._here(lambda: postgres_mail.mail_of(self._database, above))

    async def timers(self, run_id: str) -> list[str]:
        """The locations of a run's timers that are there: one deleted by hand is not (P4)."""
        found = await self._here(lambda: self._database.read("timers_of", {"run": run_id}))
        return [location for (location,) in found]

    async def commit(self, commit: Commit) -> list[Outgoing]:
        (result,) = await self.commit_group((commit,))
        if result.verdict != "committed":
            raise LeaseLostError(f"run {commit.lease.run_id}, epoch {commit.lease.epoch}: {result.verdict}")
        return list(result.undelivered)

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        return await self._write(lambda: postgres_turns.commit_group(self._database, commits))

    async def end_task(self, end: TaskEnd) -> bool:
        return await self._transact(lambda transaction: postgres_tasks.end_task(transaction, end))

    async def keep_details(self, key: str, run_id: str, details: bytes) -> None:
        values = {"key": key, "run": run_id, "details": details}
        await self._here(lambda: self._database.write("put_details", values))

    async def details(self, key: str) -> bytes | None:
        found = await self._here(lambda: self._database.read("get_details", {"key": key}))
        return bytes(found[0][0]) if found else None

    async def fire_timers(self, limit: int) -> int | None:
        fired, following = await self._here(lambda: postgres_tasks.fire_timers(self._database, limit))
        if fired:
            self._changes.happened()
        return following

    async def sweep(self, max_reclaims: int, limit: int) -> int:
        swept = await self._write(lambda: postgres_workers.sweep(self._database, max_reclaims, limit))
        after = self._swept_to
        self._swept_to = await self._here(lambda: postgres_workers.wake_untimed(self._database, after))
        return swept
