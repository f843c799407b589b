"""A run in a worker's memory: loaded, advanced turn by turn, committed, and let go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tenuto.codec.entries import decode_any_entry, decode_entry
from tenuto.codec.records import decode_mail
from tenuto.codec.rows import EncodedBatch, RunEncoder, decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.errors import LimitError, RecordError, TenutoError
from tenuto.host.attempts import Workplace
from tenuto.host.classify import (
    classify,
    reads_first,
    sleeps_beyond,
    status_after,
    stores_nothing,
    stores_rows_only,
)
from tenuto.host.collector import CollectorPaused
from tenuto.host.commit import Committer
from tenuto.host.contents import Contents
from tenuto.host.definitions import Definitions
from tenuto.host.effects import Effects, ending_mail, first_rows, gather
from tenuto.host.inline import InlineWork
from tenuto.host.limits import HistorySize, Limits
from tenuto.host.programs import Programs, version_of
from tenuto.host.rounds import Rounds
from tenuto.host.runners import Runners
from tenuto.host.waiters import Ending
from tenuto.kernel.batch import EMPTY, Batch
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
from tenuto.kernel.operations import Cancelled, Completed, Continued, Err, Failed, Parked
from tenuto.kernel.records import Mail, Rows
from tenuto.kernel.steps import IssuedSteps, Steps
from tenuto.kernel.turn import Run, Turn
from tenuto.model.main import run_main
from tenuto.store.commits import begun_by, puts_of
from tenuto.store.port import (
    Claim,
    Commit,
    Full,
    Lease,
    NewRun,
    Park,
    RunRecord,
    Store,
    TurnResult,
    UnreadableRun,
)
from tenuto.system.switches import Switches

__all__ = ["HeldRun"]

log = logging.getLogger("tenuto.host")

_MAIL = mail_key(0)[:2]


class HeldRun:
    """One run that this worker holds the lease of, or keeps in its cache."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        definitions: Definitions,
        programs: Programs,
        place: Workplace,
        runners: Runners,
        rounds: Rounds,
        capability: str,
        tell: Callable[[str, Ending | None], None],
        poke: Callable[[], None],
        limits: Limits,
        slow: Switches,
    ) -> None:
        self._slow = slow
        self._store = store
        self._committer = committer
        self._definitions = definitions
        self._programs = programs
        self._work = InlineWork(place, runners)
        self._rounds = rounds
        self._capability = capability
        self._tell = tell  # those who wait for something about this run
        self._poke = poke  # the worker, where a commit made something claimable
        self._limits = limits
        self._size = HistorySize(limits)
        self._facts: list[Fact] = []
        self._seen = 0
        self._unread = False  # mail has arrived since it was last read
        self._awaits_mail = False  # as of the turn that suspended it
        self._touched = False  # something for the next turn has come
        self._rests: asyncio.Future[None] | None = None  # while `advance` has nothing to do
        self._committing: tuple[Turn, Commit] | None = None  # a usual turn, on its way to the store
        self._new: NewRun | None = None  # to be stored with the first turn
        self._taken: Turn | None = None  # a turn that is not committed yet
        self._prepared: Commit | None = None  # its commit, where it is made already
        self._answered: tuple[Turn, TurnResult] | Exception | None = None  # of a usual turn, what was not usual
        self.stored: asyncio.Future[bool] | None = None  # whether a new run was: False where its id is another's
        self.run: Run | None = None
        self.record: RunRecord | None = None
        self.lease: Lease | None = None
        self.timer: int | None = None  # the earliest deadline after the last commit
        self.notices: list[str] = []
        self.watched = False  # a suspect: what it is about to perform is noted

    # --- life

    def begin(self, new: NewRun, first: Batch, stored: asyncio.Future[bool]) -> Turn:
        """Takes the first turn of a run that is not stored yet; `advance` stores both together, and tells `stored`."""
        assert first.version is not None and first.input is not None  # noqa: PT018, S101  # as `create` makes it
        assert first.counters is not None  # noqa: S101
        self._new = new
        self.lease = Lease(new.id, 1)
        self.record = RunRecord(
            new.id,
            new.target,
            "running",
            1,
            None,
            None,
            new.parent,
            new.detached,
            new.definition,
            new.queue,
            attributes=new.attributes,
        )
        self.stored = stored
        self._build(Rows(new.id, "pending", first.version, first.input, first.counters), RunEncoder())
        self._taken = self._take_turn(first.counters.started_at)
        return self._taken

    def go_on(self) -> None:
        """Takes the next turn of a run just claimed, where the time is at hand; `advance` commits it."""
        now = self._store.clock()
        if now is None:
            return
        turn = self._taken = self._take_turn(now)
        if turn.outcome is not None and not turn.commands:
            self._leave(turn)

    def _leave(self, turn: Turn) -> None:
        """Leaves memory before its last turn is committed: of many that end together none has to be there."""
        if not self._reads_first(turn):
            self._note_buffered()
            self._prepared = self._classified(turn)
            self.drop()

    def commit_asleep(self, after: int) -> Commit | None:
        """What stores a run just begun with that only waits for a time after this one: memory need not have it."""
        turn, new, lease = self._taken, self._new, self.lease
        assert turn is not None and new is not None and lease is not None  # noqa: PT018, S101  # by begin
        if not sleeps_beyond(turn, after):
            return None
        effects = gather(new.id, turn.commands, {}, self._definitions.named, 0)  # nothing but timers
        return classify(turn, lease, self._encoder.encode(turn.batch), new=new, effects=effects)

    def is_current(self, claim: Claim) -> bool:
        """Whether what is in memory counts: nobody else has advanced the run meanwhile."""
        return self.run is not None and self.lease is not None and claim.epoch_before == self.lease.epoch

    @property
    def seen(self) -> int:
        """The number of the last mail that was read."""
        return self._seen

    def take(self, claim: Claim, contents: Contents) -> None:
        """Takes the lease, and what was read of the run since; raises what of that cannot be read."""
        self.record, self.lease = claim.record, claim.lease
        rows, mail = contents.rows, contents.mail
        if isinstance(rows, UnreadableRun):
            raise rows.error
        if isinstance(mail, UnreadableRun):
            raise mail.error
        if rows is not None:
            self._rebuild(rows)
        self._add_mail([(n, decode_mail(data)) for n, data in mail])
        self._add_mail(contents.sent)

    async def load(self) -> None:
        """Builds the run from its rows. All its mail is given as facts, in number order."""
        record = self._require()
        stored, mail = await asyncio.gather(self._store.rows(record.id), self._store.mail(record.id, 0))
        await self._programs.fetch(version_of(stored), record.target)
        self._unread = False
        self._rebuild(stored)
        self._add_mail(mail)

    def _rebuild(self, stored: Sequence[tuple[bytes, bytes]]) -> None:
        if self.run is not None:
            self.drop()
        self._facts.clear()
        self._seen = 0
        self._size.measure(stored)
        with CollectorPaused():
            entry = decode_any_entry if self._slow.codec else decode_entry
            own = [row for row in stored if not row[0].startswith(_MAIL)]
            rows, encoder = decode_rows(self._require().id, own, entry)
            self._build(rows, encoder)

    def _build(self, rows: Rows, encoder: RunEncoder) -> None:
        record = self._require()
        parent = record.parent_id
        current = self._definitions.workflow(record.target)
        workflow = self._workflow = self._definitions.pinned(record.target, rows.version, current)
        self._encoder = encoder
        self.run = Run.load_rows(
            rows,
            self._definitions.definition(workflow),
            lambda port: run_main(workflow, port, rows.input, parent, self._limits.apply, self._definitions.registry),
            dump,
            load,
            self._definitions.handler,
            IssuedSteps if self._slow.replay else Steps,
        )

    def drop(self) -> None:
        """Closes the run in memory; what was committed is all there is of it."""
        self._work.stop_all()
        run, self.run = self.run, None
        if run is not None:
            for name in run.close():
                log.warning("run %s: %s refused to close", self._require().id, name)
            run.forget()

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
        return bool(self._work)

    def under_way(self) -> list[tuple[Location, int, float]]:
        """The attempts of its inline steps under way: where, which, and since when by the loop's clock."""
        return self._work.under_way()

    def mail_arrived(self) -> None:
        self._unread = True
        self._touch()

    def _ended(self, fact: Done) -> None:
        self._facts.append(fact)
        self._touched = True
        if self._rests is not None and self._committing is None:
            self._rounds.add(self)

    def _touch(self) -> None:
        """There is something for the next turn."""
        self._touched = True
        if self._rests is None or self._committing is not None:
            return
        if self._unread:
            self._wake()
        else:
            self._rounds.add(self)

    def _wake(self) -> None:
        """Lets `advance` go on."""
        if self._rests is not None and not self._rests.done():
            self._rests.set_result(None)
        self._rests = None

    # --- turns

    async def advance(self) -> str:
        """Takes turns until the run is closed, parked or suspended, or another worker has it: how it was left.

        While it rests, usual turns are taken in rounds (`take_usual_turn`): nothing of them has to be awaited.
        """
        while True:
            turn, result = await self._next_turn()
            if isinstance(turn.outcome, Parked):
                return await self._park(turn.outcome.error)
            if result is not None and result.verdict != "committed":
                self.drop()
                if result.verdict != "cancel_first":
                    return "lost"
                await self.load()
                continue
            if self._size.is_large and turn.outcome is None and (excess := await self._too_long()) is not None:
                return await self._park(excess)
            if self.watched:
                await self._note_place(turn)
            with CollectorPaused():
                self._perform(turn)
            left = None
            if turn.outcome is not None or result is not None:
                left = await self._left(turn, result)
            if left is not None:
                return left
            if not self._touched:
                self._rests = asyncio.get_running_loop().create_future()
                await self._rests

    async def _note_place(self, turn: Turn) -> None:
        """Notes what is about to be performed: if this worker does not survive it, it can be named."""
        steps = [text(step.location) for step in turn.commands if isinstance(step, RunStep | RunRollback)]
        if steps and self.lease is not None:
            await self._store.note_place(self.lease, ", ".join(steps[:3]) + (", …" if len(steps) > 3 else ""))

    async def _next_turn(self) -> tuple[Turn, TurnResult | None]:
        """A turn, and what became of its commit; None where there was nothing to commit, or it is not to be."""
        answered, self._answered = self._answered, None
        if isinstance(answered, Exception):
            raise answered
        if answered is not None:
            return answered
        turn, self._taken = self._taken, None
        if turn is None:
            if self._unread:
                await self._read_mail()
            now = self._store.clock()
            if now is None:
                now = await self._store.now()
            with CollectorPaused():
                turn = self._take_turn(now)
        if len(turn.commands) > self._limits.commands_per_turn:
            too_many = LimitError("commands of one turn", self._limits.commands_per_turn, len(turn.commands))
            turn = Turn(EMPTY, outcome=Parked(too_many))
        if isinstance(turn.outcome, Parked):
            return turn, None
        return turn, await self._commit(turn)

    def take_usual_turn(self, now: int | None) -> None:
        """Takes a turn in a round; what is more than rows, or cannot be done here, is left to `advance`."""
        if not self._touched or self._rests is None or self._committing is not None or self.run is None:
            return
        if now is None or self._unread:
            self._wake()
            return
        try:
            turn = self._take_turn(now)
            commit = self._usual_commit(turn)
            if commit is not None:
                self._committing = turn, commit
                self._committer.hand_in(commit, self._usual_committed, self._size.add(puts_of(commit)))
                return
            self._taken = turn
        except Exception as error:  # noqa: BLE001  # edge 2 of 3: it is raised again in the run's own task
            self._answered = error
        self._wake()

    def _usual_commit(self, turn: Turn) -> Commit | None:
        """The commit of a turn that is as nearly all are: a step's row, or a plain end; None if it is not."""
        if self._new is not None or len(turn.commands) > self._limits.commands_per_turn:
            return None
        if turn.outcome is None:
            return self._classified(turn) if stores_rows_only(turn) else None
        if turn.commands or isinstance(turn.outcome, Parked) or self._reads_first(turn):
            return None
        return self._classified(turn)

    def _reads_first(self, turn: Turn) -> bool:
        record, run = self._require(), self.run
        assert run is not None  # noqa: S101  # held
        told = record.parent is not None and not record.detached
        return reads_first(turn, told, self._new is not None, bool(run.timers))

    def _classified(self, turn: Turn, new: NewRun | None = None) -> Commit:
        """The commit of a turn without effects."""
        assert self.lease is not None  # noqa: S101  # held
        return classify(turn, self.lease, self._encoder.encode(turn.batch), new=new, seen=self._seen)

    def _usual_committed(self, answer: TurnResult | Exception) -> None:
        committing, self._committing = self._committing, None
        if committing is None or self._rests is None or self.run is None:
            return  # let go meanwhile
        turn, _ = committing
        if isinstance(answer, Exception):
            self._answered = answer
            self._wake()
            return
        if answer.verdict != "committed" or turn.outcome is not None or self._size.is_large:
            self._answered = turn, answer
            self._wake()
            return
        self.timer = turn.batch.alarm
        self._perform(turn)
        if self._touched:
            self._touch()

    def _take_turn(self, now: int) -> Turn:
        self._touched = False
        facts, self._facts = self._facts, []
        assert self.run is not None  # noqa: S101  # loaded by take
        try:
            turn = self.run.take_turn(facts, now)
        except BaseException:  # a signal of the process: the turn is dropped, and with it what it has half done
            self.drop()
            raise
        if turn.notices:
            self.notices.extend(turn.notices)
        if turn.goes_on:
            self._touched = True  # once this one is committed
        return turn

    async def _left(self, turn: Turn, result: TurnResult | None) -> str | None:
        """How a turn leaves the run, if it does not go on here."""
        if isinstance(turn.outcome, Continued):
            await self.load()
            self._touch()
            return None
        if turn.outcome is not None:
            self._tell_end(turn)
            self._note_buffered()
            self.drop()
            return status_after(turn)
        if result is not None and not result.kept:
            self._awaits_mail = bool(turn.waiting.signals or turn.waiting.updates)
            return "suspended"
        if result is not None and not turn.waiting.in_flight:
            # Mail came while it was being committed: the lease was kept for it. Without any there is no turn to take.
            await self._read_mail()
            if self._facts:
                self._touch()
        return None

    def _note_buffered(self) -> None:
        if self.run is not None and self.run.mailbox.buffered:
            self.notices.append(f"it ended with {self.run.mailbox.buffered} signals nobody took")

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

    def _add_mail(self, mail: Sequence[tuple[int, Mail]]) -> None:
        for n, one in mail:
            self._seen = max(self._seen, n)
            try:
                self._facts.append(fact_of(n, one, load))
            except (TypeError, ValueError) as error:  # no place of that name, or a cancel that says something else
                raise RecordError(f"mail {n} of run {self._require().id} is damaged: {error}") from error

    # --- commits

    async def _commit(self, turn: Turn) -> TurnResult | None:
        """Commits a turn and feeds what its run learns from that; None when there was nothing to commit."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            return await self._hand_in(prepared, turn.batch.alarm)
        usual = self._usual_commit(turn)
        if usual is not None:
            return await self._hand_in(usual, turn.batch.alarm)
        durable = [command for command in turn.commands if is_durable(command)]
        record, lease = self._require(), self.lease
        assert lease is not None and self.run is not None  # noqa: PT018, S101  # held
        if not durable and self._new is None and stores_nothing(turn):
            return None
        if not self._reads_first(turn):
            new, self._new = self._new, None
            return await self._hand_in(self._classified(turn, new), turn.batch.alarm)
        now = await self._store.now()
        named = await self._named_runs(durable) if durable else {}
        workflow = self._workflow
        effects = gather(record.id, durable, named, lambda target: self._definitions.child(target, workflow), now)
        rows = self._encoder.encode(turn.batch)
        if isinstance(turn.outcome, Continued):
            definition = self._definitions.definition(self._definitions.workflow(record.target) or workflow)
            fresh = first_rows(definition, turn.outcome.input, now, self.run.generation + 1)
            effects.definition = definition.hash  # the next run of the chain has the latest definition
            rows = EncodedBatch(rows.range_deletes, rows.deletes, (*rows.puts, *fresh))
        elif turn.outcome is not None and record.parent is not None and not record.detached:
            effects.outgoing.extend(ending_mail(record, turn.outcome, [record.parent], now))
        if status_after(turn) == "suspended":
            effects.gone = await self._gone_timers(effects)
        if effects.runs or effects.definition is not None:
            await self._programs.keep()  # what begins now will need its text, wherever it goes on
        new, self._new = self._new, None
        commit = classify(turn, lease, rows, new=new, seen=self._seen, effects=effects)
        result = await self._hand_in(commit, turn.batch.alarm)
        if result.verdict == "committed":
            self._learn(effects, result)
            if effects.gone:
                self._facts.extend(effects.gone)
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

    async def _hand_in(self, commit: Commit, alarm: int | None) -> TurnResult:
        try:
            result = await self._committer.add(commit, self._size.add(puts_of(commit)))
        except BaseException as error:
            self._say_stored(error)
            raise
        if begun_by(commit) is not None:
            self._say_stored(result.verdict == "committed")
        if result.verdict == "committed":
            self.timer = alarm
            if isinstance(commit, Full) and (commit.outgoing or commit.tasks or commit.runs):
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
        commit = Park(lease=lease, reason=reason, capability=self._capability, seen=self._seen, new=new)
        await self._hand_in(commit, None)
        return "parked"

    # --- performing

    def _perform(self, turn: Turn) -> None:
        run_id = self._require().id
        for command in turn.commands:
            match command:
                case RunStep() | RunRollback():
                    self._work.attempt(run_id, command, self._ended)
                case CancelStep(location=location):
                    self._work.stop(location)
                case RegisterHook():
                    self._work.open_hook(run_id, command, self._ended)
                case ReplyUpdate():
                    self._tell(run_id, None)
                case _:
                    pass  # durable: done in the commit

    def _require(self) -> RunRecord:
        assert self.record is not None  # noqa: S101  # set by take
        return self.record
