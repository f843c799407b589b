"""A run in a worker's memory: loaded, advanced turn by turn, committed, and let go."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

from tenuto.codec.rows import EncodedBatch, RunEncoder, decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.errors import HookTakenError, LimitError, TenutoError
from tenuto.host.attempts import run_limited
from tenuto.host.certainty import insist
from tenuto.host.commit import Committer
from tenuto.host.definitions import Definitions, find_handler
from tenuto.host.effects import Effects, ending_mail, first_rows, gather, token_hash
from tenuto.host.limits import HistorySize, Limits
from tenuto.host.programs import Programs, child_definition, pinned, version_of
from tenuto.host.waiters import Ending
from tenuto.kernel.batch import Batch
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
from tenuto.kernel.facts import Done, Fact, TimerGone, fact_of
from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Cancelled, Completed, Continued, Err, Failed, Ok, Parked
from tenuto.kernel.records import Mail, Rows
from tenuto.kernel.turn import Run, Turn
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main
from tenuto.store.port import Claim, Lease, NewRun, RunRecord, Store, TurnCommit, TurnResult

__all__ = ["Contents", "HeldRun"]

_MAIL = mail_key(0)[:2]


class Contents(NamedTuple):
    """What was read of a claimed run; `rows` is None where memory still has them."""

    rows: list[tuple[bytes, bytes]] | None
    mail: list[tuple[int, Mail]]


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
        poke: Callable[[], None],
        limits: Limits,
    ) -> None:
        self._store = store
        self._committer = committer
        self._definitions = definitions
        self._programs = Programs(store)
        self._threads = threads
        self._workflow = workflow
        self._capability = capability
        self._tell = tell  # those who wait for something about this run
        self._poke = poke  # the worker, where a commit made something claimable
        self._limits = limits
        self._size = HistorySize(limits)
        self._attempts: dict[tuple[Location, int], asyncio.Task[None]] = {}
        self._facts: deque[Fact] = deque()
        self._seen = 0
        self._unread = False  # mail has arrived since it was last read
        self._awaits_mail = False  # as of the turn that suspended it
        self._touched = False  # something for the next turn has come
        self._rests: asyncio.Future[None] | None = None  # until it has
        self._new: NewRun | None = None  # to be stored with the first turn
        self._taken: Turn | None = None  # a turn that is not committed yet
        self.stored: asyncio.Future[bool] | None = None  # whether a new run was: False where its id is another's
        self.run: Run | None = None
        self.record: RunRecord | None = None
        self.lease: Lease | None = None
        self.timer: int | None = None  # the earliest deadline after the last commit
        self.notices: list[str] = []

    # --- life

    def begin(self, new: NewRun, first: Batch) -> Turn:
        """Takes the first turn of a run that is not stored yet; `advance` stores both together."""
        assert first.version is not None and first.input is not None  # noqa: PT018, S101  # as `create` makes it
        assert first.counters is not None  # noqa: S101
        self._new = new
        self.lease = Lease(new.id, 1)
        self.record = RunRecord(
            new.id, new.target, "running", 1, None, None, new.parent, new.detached, new.definition, new.queue
        )
        self.stored = asyncio.get_running_loop().create_future()
        self._build(Rows(new.id, "pending", first.version, first.input, first.counters), RunEncoder())
        self._taken = self._take_turn(first.counters.started_at)
        return self._taken

    def is_current(self, claim: Claim) -> bool:
        """Whether what is in memory counts: nobody else has advanced the run meanwhile."""
        return self.run is not None and self.lease is not None and claim.epoch_before == self.lease.epoch

    @property
    def seen(self) -> int:
        """The number of the last mail that was read."""
        return self._seen

    def take(self, claim: Claim, contents: Contents) -> None:
        """Takes the lease, and what was read of the run since."""
        self.record, self.lease = claim.record, claim.lease
        if contents.rows is not None:
            self._rebuild(contents.rows)
        self._add_mail(contents.mail)

    async def load(self) -> None:
        """Builds the run from its rows. All its mail is given as facts, in number order."""
        record = self._require()
        stored, mail = await asyncio.gather(self._store.rows(record.id), self._store.mail(record.id, 0))
        await self._programs.fetch(version_of(stored), record.target)
        self._unread = False
        self._rebuild(stored)
        self._add_mail(mail)

    def _rebuild(self, stored: list[tuple[bytes, bytes]]) -> None:
        self.drop()
        self._facts.clear()
        self._seen = 0
        self._size.measure(stored)
        rows, encoder = decode_rows(self._require().id, [row for row in stored if not row[0].startswith(_MAIL)])
        self._build(rows, encoder)

    def _build(self, rows: Rows, encoder: RunEncoder) -> None:
        record = self._require()
        parent = record.parent_id
        current = self._definitions.workflow(record.target)
        workflow = self._workflow = pinned(record.target, rows.version, current)
        self._encoder = encoder
        self.run = Run.load_rows(
            rows,
            self._definitions.definition(workflow),
            lambda port: run_main(workflow, port, rows.input, parent, self._limits.apply),
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
            self.run.forget()
            self.run = None

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        return self._size.memory

    def waits_beyond(self, milliseconds: int) -> bool:
        """Whether nothing but a time so far away is known to end its waiting."""
        now = self._store.clock()
        return self.timer is not None and not self._awaits_mail and now is not None and self.timer - now > milliseconds

    @property
    def busy(self) -> bool:
        return bool(self._attempts)

    def mail_arrived(self) -> None:
        self._unread = True
        self._touch()

    def _touch(self) -> None:
        """There is something for the next turn."""
        self._touched = True
        if self._rests is not None:
            self._rests.set_result(None)
            self._rests = None

    # --- turns

    async def advance(self) -> str:
        """Takes turns until the run is closed, parked or suspended, or another worker has it: how it was left."""
        while True:
            turn, self._taken = self._taken, None
            if turn is None:
                self._touched = False
                if self._unread:
                    await self._read_mail()
                now = self._store.clock()
                turn = self._take_turn(now if now is not None else await self._store.now())
            if isinstance(turn.outcome, Parked):
                return await self._park(turn.outcome.error)
            if len(turn.commands) > self._limits.commands_per_turn:
                limit = self._limits.commands_per_turn
                return await self._park(LimitError("commands of one turn", limit, len(turn.commands)))
            result = await self._commit(turn)
            if result is not None and result.verdict != "committed":
                self.drop()
                if result.verdict != "cancel_first":
                    return "lost"
                await self.load()
                continue
            if self._size.is_large and turn.outcome is None and (excess := await self._too_long()) is not None:
                return await self._park(excess)
            for command in turn.commands:
                self._perform(command)
            left = None
            if turn.outcome is not None or result is not None:
                left = await self._left(turn, result)
            if left is not None:
                return left
            if not self._touched:
                self._rests = asyncio.get_running_loop().create_future()
                await self._rests

    def _take_turn(self, now: int) -> Turn:
        facts = tuple(self._facts)
        self._facts.clear()
        assert self.run is not None  # noqa: S101  # loaded by take
        turn = self.run.take_turn(facts, now)
        if turn.notices:
            self.notices.extend(turn.notices)
        return turn

    async def _left(self, turn: Turn, result: TurnResult | None) -> str | None:
        """How a turn leaves the run, if it does not go on here."""
        if isinstance(turn.outcome, Continued):
            await self.load()
            self._touch()
            return None
        if turn.outcome is not None:
            self._tell_end(turn)
            if self.run is not None and self.run.mailbox.buffered:
                self.notices.append(f"it ended with {self.run.mailbox.buffered} signals nobody took")
            self.drop()
            return _status(turn)
        if result is not None and not result.kept:
            self._awaits_mail = bool(turn.waiting.signals or turn.waiting.updates)
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
        self._unread = False
        self._add_mail(await self._store.mail(self._require().id, self._seen))

    def _add_mail(self, mail: list[tuple[int, Mail]]) -> None:
        for n, one in mail:
            self._seen = max(self._seen, n)
            self._facts.append(fact_of(n, one, load))

    # --- commits

    async def _commit(self, turn: Turn) -> TurnResult | None:
        """Commits a turn and feeds what its run learns from that; None when there was nothing to commit."""
        durable = [command for command in turn.commands if is_durable(command)]
        in_flight = bool(turn.waiting.in_flight)
        record, lease = self._require(), self.lease
        assert lease is not None and self.run is not None  # noqa: PT018, S101  # held
        if not durable and in_flight and turn.outcome is None and self._new is None:
            if turn.batch.empty:
                return None
            # A step's row and nothing else: nearly every turn of a long run.
            rows = self._encoder.encode(turn.batch)
            batch = turn.batch
            return await self._hand_in(
                TurnCommit(
                    lease,
                    "running",
                    rows,
                    alarm=batch.alarm,
                    seen=self._seen,
                    mail_done=batch.deleted_mail,
                    definition=batch.version,
                )
            )
        now = await self._store.now()
        named = await self._named_runs(durable) if durable else {}
        workflow = self._workflow
        effects = gather(record.id, durable, named, lambda target: child_definition(target, workflow), now)
        rows = self._encoder.encode(turn.batch)
        continued: str | None = None
        if isinstance(turn.outcome, Continued):
            definition = self._definitions.definition(self._definitions.workflow(record.target) or workflow)
            fresh = first_rows(definition, turn.outcome.input, now, self.run.generation + 1)
            continued = definition.hash
            rows = EncodedBatch(rows.range_deletes, rows.deletes, (*rows.puts, *fresh))
        elif turn.outcome is not None and record.parent is not None and not record.detached:
            effects.outgoing.extend(ending_mail(record, turn.outcome, [record.parent], now))
        status = _status(turn)
        gone = await self._gone_timers(effects) if status == "suspended" else []
        # What the commit itself tells the run is taken in the next turn: until then the lease is kept.
        if gone or (effects.facts and turn.outcome is None):
            status = "running"
        if effects.runs or continued is not None:
            await self._programs.keep()  # what begins now will need its text, wherever it goes on
        new, self._new = self._new, None
        commit = effects.commit_of(turn, lease, status, rows, self._seen, new)
        if continued is not None:  # the next run of the chain has the latest definition
            commit = commit._replace(definition=continued)
        result = await self._hand_in(commit)
        if result.verdict == "committed":
            self._learn(effects, result)
            if gone:
                self._facts.extend(gone)
                self._touch()
        return result

    async def _gone_timers(self, effects: Effects) -> list[TimerGone]:
        """Timers of earlier turns whose rows somebody deleted: they count as fired (P4)."""
        assert self.run is not None  # noqa: S101  # held
        new = {timer.location for timer in effects.timers}
        places = {
            text(timer.node.location): timer.node for timer in self.run.timers.pending() if timer.node is not None
        }
        older = places.keys() - new
        if not older:
            return []
        there = await self._store.timers(self._require().id)
        return [TimerGone(places[place].location) for place in sorted(older.difference(there))]

    async def _hand_in(self, commit: TurnCommit) -> TurnResult:
        try:
            result = await self._committer.add(commit)
        except BaseException as error:
            self._say_stored(error)
            raise
        if commit.new is not None:
            self._say_stored(result.verdict == "committed")
        if result.verdict == "committed":
            self.timer = commit.alarm
            self._size.add(commit.rows)
            if commit.outgoing or commit.tasks or commit.runs:
                self._poke()
        return result

    async def _too_long(self) -> LimitError | None:
        """Why the run cannot go on, if its history has become too long; counted again, where it seems so."""
        if (notice := self._size.warning()) is not None:
            self.notices.append(notice)
        if self._size.excess() is None:
            return None
        self._size.measure(await self._store.rows(self._require().id))
        return self._size.excess()

    def _say_stored(self, answer: bool | BaseException) -> None:
        """Whoever started the run hears what became of that."""
        stored = self.stored
        if stored is None or stored.done():
            return
        if isinstance(answer, bool):
            stored.set_result(answer)
        elif isinstance(answer, asyncio.CancelledError):
            stored.cancel()
        else:
            stored.set_exception(answer)

    def _learn(self, effects: Effects, result: TurnResult) -> None:
        lost = {outgoing.id for outgoing in result.undelivered}
        for fact in effects.facts:
            assert self.run is not None  # noqa: S101  # just committed
            dropped = self.run.key_of(fact.location) in lost
            if dropped:
                self.notices.append(f"signal at {text(fact.location)} was dropped: no open run has that id")
            note = Err(dump(LookupError("no open run has that id"))) if dropped else fact.outcome
            self._facts.append(fact._replace(outcome=note))
            self._touch()

    async def _named_runs(self, commands: list[Command]) -> dict[str, RunRecord]:
        """The runs that a turn's commands name, as far as they exist."""
        known: dict[str, RunRecord] = {}
        for command in commands:
            if isinstance(command, StartChild | CancelChild):
                record = await self._store.get(command.run)
                if record is not None:
                    known[command.run] = record
        return known

    async def park(self, error: Exception) -> str:
        """Leaves it as it is and says why the engine cannot go on with it."""
        return await self._park(error)

    async def _park(self, error: Exception) -> str:
        lease = self.lease
        assert lease is not None  # noqa: S101  # held
        code = error.code if isinstance(error, TenutoError) else type(error).__name__
        reason = f"{type(error).__name__} {code}: {error}"
        self.drop()
        new, self._new = self._new, None
        await self._hand_in(
            TurnCommit(lease, "parked", reason=reason, parked_by=self._capability, seen=self._seen, new=new)
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
            self._touch()

    async def _register_hook(self, command: RegisterHook) -> None:
        """The lookup row holds a hash; the token itself lives only in history. Minted here, never by workflow code."""
        token = command.token if command.token is not None else secrets.token_urlsafe(24)
        run_id, digest = self._require().id, token_hash(token)
        opened = await insist(
            f"a hook of run {run_id} could not be opened", lambda: self._store.open_hook(run_id, command.key, digest)
        )
        outcome = Ok(token.encode()) if opened else Err(dump(HookTakenError(f"another open run has {token!r}")))
        if self._attempts.pop((command.location, 0), None) is not None:
            self._facts.append(Done(command.location, 0, outcome))
            self._touch()

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
