"""A run in a worker's memory: loaded, advanced turn by turn, committed, and let go."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from tenuto.codec.rows import EncodedBatch, decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.errors import HookTakenError, TenutoError
from tenuto.host.attempts import run_limited
from tenuto.host.commit import Committer
from tenuto.host.definitions import Definitions, find_handler
from tenuto.host.effects import Effects, ending_mail, first_rows, gather, token_hash
from tenuto.host.waiters import Ending
from tenuto.kernel.commands import (
    CancelChild,
    CancelStep,
    Command,
    RegisterHook,
    ReplyUpdate,
    RunRollback,
    RunStep,
    StartChild,
    is_durable,
)
from tenuto.kernel.facts import Done, Fact, fact_of
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Cancelled, Completed, Continued, Err, Failed, Ok, Parked
from tenuto.kernel.turn import Run, Turn
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main
from tenuto.store.port import Claim, Lease, RunRecord, Store, TurnCommit, TurnResult

__all__ = ["HeldRun"]

_MAIL = mail_key(0)[:2]


class HeldRun:
    """One run that this worker holds the lease of, or keeps in its cache."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        definitions: Definitions,
        threads: Executor,
        workflow: Workflow[..., Any],
        capability: str,
        tell: Callable[[str, Ending | None], None],
    ) -> None:
        self._store = store
        self._committer = committer
        self._definitions = definitions
        self._threads = threads
        self._workflow = workflow
        self._capability = capability
        self._tell = tell  # those who wait for something about this run
        self._attempts: dict[tuple[Location, int], asyncio.Task[None]] = {}
        self._facts: deque[Fact] = deque()
        self._seen = 0
        self._unread = False  # mail has arrived since it was last read
        self.touched = asyncio.Event()  # something for the next turn has come
        self.run: Run | None = None
        self.record: RunRecord | None = None
        self.lease: Lease | None = None
        self.timer: int | None = None  # the earliest deadline after the last commit
        self.notices: list[str] = []

    # --- life

    async def take(self, claim: Claim) -> None:
        """Takes the lease; keeps what is in memory only if nobody else has advanced the run meanwhile."""
        cached = self.run is not None and self.lease is not None and claim.epoch_before == self.lease.epoch
        self.record, self.lease = claim.record, claim.lease
        if cached:
            self.mail_arrived()
        else:
            await self.load()

    async def load(self) -> None:
        """Builds the run from its rows. All its mail is given as facts, in number order."""
        self.drop()
        record = self._require()
        self._facts.clear()
        self._seen = 0
        stored, _ = await asyncio.gather(self._store.rows(record.id), self._read_mail())
        rows, encoder = decode_rows(record.id, [row for row in stored if not row[0].startswith(_MAIL)])
        parent = record.parent[0] if record.parent is not None else None
        workflow = self._workflow
        self._encoder = encoder
        self.run = Run.load_rows(
            rows,
            self._definitions.definition(workflow),
            lambda port: run_main(workflow, port, rows.input, parent),
            dump,
            load,
            find_handler,
        )

    def drop(self) -> None:
        """Closes the run in memory; what was committed is all there is of it."""
        for attempt in self._attempts.values():
            attempt.cancel()
        self._attempts.clear()
        if self.run is not None:
            self.notices.extend(f"{name} refused to close" for name in self.run.close())
            self.run = None

    @property
    def busy(self) -> bool:
        return bool(self._attempts)

    def mail_arrived(self) -> None:
        self._unread = True
        self.touched.set()

    # --- turns

    async def advance(self) -> str:
        """Takes turns until the run is closed, parked or suspended, or another worker has it: how it was left."""
        while True:
            self.touched.clear()
            if self._unread:
                await self._read_mail()
            turn = await self._take_turn()
            if isinstance(turn.outcome, Parked):
                return await self._park(turn.outcome.error)
            result = await self._commit(turn)
            if result is not None and result.verdict != "committed":
                self.drop()
                if result.verdict == "stale":
                    return "lost"
                await self.load()
                continue
            for command in turn.commands:
                self._perform(command)
            self._tell_end(turn)
            left = await self._left(turn, result)
            if left is not None:
                return left
            await self.touched.wait()

    async def _take_turn(self) -> Turn:
        facts = tuple(self._facts)
        self._facts.clear()
        assert self.run is not None  # noqa: S101  # loaded by take
        turn = self.run.take_turn(facts, await self._store.now())
        self.notices.extend(turn.notices)
        return turn

    async def _left(self, turn: Turn, result: TurnResult | None) -> str | None:
        if isinstance(turn.outcome, Continued):
            await self.load()
            self.touched.set()
            return None
        if turn.outcome is not None:
            if self.run is not None and self.run.mailbox.buffered:
                self.notices.append(f"it ended with {self.run.mailbox.buffered} signals nobody took")
            self.drop()
            return _status(turn)
        if result is not None and not result.kept:
            return "suspended"
        if result is not None and not turn.waiting.in_flight:
            self.mail_arrived()  # mail came while it was being committed: the lease was kept for it
        return None

    def _tell_end(self, turn: Turn) -> None:
        match turn.outcome:
            case Completed(value):
                self._tell(self._require().id, Ending("completed", value))
            case Failed(error=error):
                self._tell(self._require().id, Ending("failed", error))
            case Cancelled():
                self._tell(self._require().id, Ending("cancelled", b""))
            case _:
                pass

    async def _read_mail(self) -> None:
        record = self._require()
        self._unread = False
        for n, mail in await self._store.mail(record.id, self._seen):
            self._seen = max(self._seen, n)
            self._facts.append(fact_of(n, mail, load))

    # --- commits

    async def _commit(self, turn: Turn) -> TurnResult | None:
        """Commits a turn and feeds what its run learns from that; None when there was nothing to commit."""
        durable = [command for command in turn.commands if is_durable(command)]
        if turn.batch.empty and not durable and turn.waiting.in_flight and turn.outcome is None:
            return None
        record, lease = self._require(), self.lease
        assert lease is not None and self.run is not None  # noqa: PT018, S101  # held
        now = await self._store.now()
        effects = gather(record.id, durable, await self._named_runs(durable), self._definitions.named, now)
        rows = self._encoder.encode(turn.batch)
        if isinstance(turn.outcome, Continued):
            definition = self._definitions.definition(self._workflow)
            fresh = first_rows(definition, turn.outcome.input, now, self.run.generation + 1)
            rows = EncodedBatch(rows.range_deletes, rows.deletes, (*rows.puts, *fresh))
        elif turn.outcome is not None and record.parent is not None and not record.detached:
            effects.outgoing.extend(ending_mail(record, turn.outcome, [record.parent], now))
        # What the commit itself tells the run is taken in the next turn: until then the lease is kept.
        status = "running" if effects.facts and turn.outcome is None else _status(turn)
        result = await self._committer.add(effects.commit_of(turn, lease, status, rows, self._seen))
        if result.verdict == "committed":
            self.timer = turn.batch.alarm
            self._learn(effects, result)
        return result

    def _learn(self, effects: Effects, result: TurnResult) -> None:
        lost = {outgoing.id for outgoing in result.undelivered}
        for fact in effects.facts:
            assert self.run is not None  # noqa: S101  # just committed
            dropped = self.run.key_of(fact.location) in lost
            if dropped:
                self.notices.append(f"signal at {text(fact.location)} was dropped: no open run has that id")
            note = Err(dump(LookupError("no open run has that id"))) if dropped else fact.outcome
            self._facts.append(fact._replace(outcome=note))
            self.touched.set()

    async def _named_runs(self, commands: list[Command]) -> dict[str, RunRecord]:
        """The runs that a turn's commands name, as far as they exist."""
        known: dict[str, RunRecord] = {}
        for command in commands:
            if isinstance(command, StartChild | CancelChild):
                record = await self._store.get(command.run)
                if record is not None:
                    known[command.run] = record
        return known

    async def _park(self, error: Exception) -> str:
        lease = self.lease
        assert lease is not None  # noqa: S101  # held
        code = error.code if isinstance(error, TenutoError) else type(error).__name__
        reason = f"{type(error).__name__} {code}: {error}"
        self.drop()
        await self._committer.add(
            TurnCommit(lease, "parked", reason=reason, parked_by=self._capability, seen=self._seen)
        )
        return "parked"

    # --- performing

    def _perform(self, command: Command) -> None:
        match command:
            case RunStep() | RunRollback():
                key = (command.location, command.attempt)
                self._attempts[key] = asyncio.create_task(self._attempt(command, key))
            case CancelStep(location=location):
                for key in [key for key in self._attempts if key[0] == location]:
                    self._attempts.pop(key).cancel()
            case RegisterHook():
                self._attempts[command.location, 0] = asyncio.create_task(self._register_hook(command))
            case ReplyUpdate():
                self._tell(self._require().id, None)
            case _:
                pass  # durable: done in the commit

    async def _attempt(self, command: RunStep | RunRollback, key: tuple[Location, int]) -> None:
        outcome = await run_limited(self._store, command, self._require().id, self._threads)
        if self._attempts.pop(key, None) is not None:
            self._facts.append(Done(command.location, command.attempt, outcome))
            self.touched.set()

    async def _register_hook(self, command: RegisterHook) -> None:
        """The lookup row holds a hash; the token itself lives only in history. Minted here, never by workflow code."""
        token = command.token if command.token is not None else secrets.token_urlsafe(24)
        opened = await self._store.open_hook(self._require().id, command.key, token_hash(token))
        outcome = Ok(token.encode()) if opened else Err(dump(HookTakenError(f"another open run has {token!r}")))
        if self._attempts.pop((command.location, 0), None) is not None:
            self._facts.append(Done(command.location, 0, outcome))
            self.touched.set()

    def _require(self) -> RunRecord:
        assert self.record is not None  # noqa: S101  # set by take
        return self.record


def _status(turn: Turn) -> str:
    match turn.outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case Continued():
            return "running"
        case _:
            return "running" if turn.waiting.in_flight else "suspended"
