"""Drives one run through the kernel by hand: facts in, rows committed in memory, reload at will."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tenuto.codec.records import encode_mail
from tenuto.codec.rows import EncodedBatch, RunEncoder, decode_rows, mail_key
from tenuto.codec.values import dump, load
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import CancelStep, Command, RunRollback, RunStep
from tenuto.kernel.facts import CancelAsked, Done, Fact, Signal, TimerGone, UpdateAsked
from tenuto.kernel.location import Location, parse, text
from tenuto.kernel.operations import Cancelled, Completed, Err, Failed, Ok, Outcome, Parked, TimedOut
from tenuto.kernel.records import Child, Entry, Loop, Mail, MailKind, Message, Metadata, Rows, Sleep, Step
from tenuto.kernel.rewind import Undone
from tenuto.kernel.turn import Definition, Run, Turn, create
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main

START = 1_700_000_000_000
DELIVERED = (Step, Sleep, Message, Child, Loop)
Effects = dict[str, Callable[[int], Any]]


class Driver:
    """One run, its committed rows, and a clock in milliseconds after its start.

    Every released step is held against the rows: what is recorded must never be released again.
    """

    def __init__(
        self,
        body: Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
        run_id: str = "r",
        hash: str = "v1",  # noqa: A002
        names: frozenset[str] | None = None,
        crash: bool = False,
    ) -> None:
        self.run_id = run_id
        self.crash_everywhere = crash
        self.body = body
        self.definition = Definition(hash, names)
        self.kv: dict[bytes, bytes] = {}
        self.encoder = RunEncoder()
        self.batches: list[Batch] = []  # that were not empty, in order
        self.encoded: list[EncodedBatch] = []
        self.commands: list[Command] = []  # all ever released
        self.turns: list[Turn] = []
        self.run: Run | None = None
        self.handlers: dict[str, Any] = {}
        self.in_flight: dict[tuple[Location, int], RunStep | RunRollback] = {}  # what a host would be running
        self._settled: set[Location] = set()  # steps with a recorded outcome
        self.now = 0
        self.apply(create(self.definition, dump([list(args), {}]), START))

    # --- turns

    def turn(self, *facts: Fact, now: int | None = None) -> Turn:
        """Takes a turn, commits it, keeps its commands; where an inserted step has ended, the next one too (D6)."""
        turn = self.peek(*facts, now=now)
        self.commit(turn)
        while turn.goes_on:
            turn = self.peek()
            self.commit(turn)
        if self.crash_everywhere and turn.outcome is None:
            self.reload()
            again = self.peek()
            assert not isinstance(again.outcome, Parked), again.outcome
            self.commit(again)
        return turn

    def peek(self, *facts: Fact, now: int | None = None) -> Turn:
        """Takes a turn that is never committed; reload() after it."""
        if now is not None:
            self.now = now
        if self.run is None:
            self.load()
        assert self.run is not None
        turn = self.run.take_turn(facts, START + self.now)
        self.turns.append(turn)
        return turn

    def commit(self, turn: Turn) -> None:
        if not turn.batch.empty:
            self.batches.append(turn.batch)
            self.apply(turn.batch)
        self.commands.extend(turn.commands)
        for command in turn.commands:
            if isinstance(command, RunStep | RunRollback):
                if isinstance(command, RunStep):
                    assert command.location not in self._settled, f"released again: {text(command.location)}"
                self.in_flight[command.location, command.attempt] = command
            elif isinstance(command, CancelStep):
                for key in [key for key in self.in_flight if key[0] == command.location]:
                    del self.in_flight[key]

    def apply(self, batch: Batch) -> None:
        """Commits a batch: range deletes, deletes, puts."""
        encoded = self.encoder.encode(batch)
        self.encoded.append(encoded)
        for start, end in encoded.range_deletes:
            for key in [key for key in self.kv if start <= key < end]:
                del self.kv[key]
        for key in encoded.deletes:
            self.kv.pop(key, None)
        self.kv.update(encoded.puts)
        self._settled.difference_update(batch.deleted_entries)
        self._settled.update(at for at, entry in batch.entries if entry.seq and type(entry.kind) is Step)
        if batch.cleared:
            self._settled.clear()

    def load(self, body: Any = None, *, hash: str | None = None, names: frozenset[str] | None = None) -> Run:  # noqa: A002
        if body is not None:
            self.body = body
        if hash is not None:
            self.definition = Definition(hash, names)
        rows, self.encoder = decode_rows(self.run_id, sorted(self.kv.items()))
        workflow = Workflow(self.body, id="test", name="test")
        self.run = Run.load_rows(
            rows,
            self.definition,
            lambda port: run_main(workflow, port, rows.input, None),
            dump,
            load,
            lambda name: self.handlers.get(name),
        )
        return self.run

    def reload(self, body: Any = None, *, hash: str | None = None, names: frozenset[str] | None = None) -> None:  # noqa: A002
        """Drops the run and loads it from its committed rows; what was in flight is lost."""
        if self.run is not None:
            self.run.close()
        self.in_flight.clear()
        self.load(body, hash=hash, names=names)

    def again(self, body: Any = None, *, hash: str | None = None, names: frozenset[str] | None = None) -> Turn:  # noqa: A002
        """Reloads and takes a turn without facts."""
        self.reload(body, hash=hash, names=names)
        return self.turn()

    def go_back(self, undone: Undone) -> None:
        """Commits a rewind or a recovery: what it deleted may run again."""
        self.apply(undone.batch)
        self._settled = {at for at, entry in self.rows.history if entry.seq and type(entry.kind) is Step}

    def close(self) -> None:
        if self.run is not None:
            self.run.close()

    # --- facts

    def ok(self, location: str, value: Any = None, attempt: int = 1, **more: Any) -> Done:
        return Done(parse(location), attempt, Ok(dump(value)), **more)

    def err(self, location: str, error: Exception, attempt: int = 1, after_ms: int | None = None, **more: Any) -> Done:
        return Done(parse(location), attempt, Err(dump(error), after_ms=after_ms), **more)

    def unencodable(self, location: str, error: Exception) -> Done:
        return Done(parse(location), 1, Err(dump(error), unencodable=True))

    def timed_out(self, location: str, attempt: int = 1) -> Done:
        return Done(parse(location), attempt, TimedOut())

    def timer_gone(self, location: str) -> TimerGone:
        return TimerGone(parse(location))

    def signal(self, n: int, name: str, *args: Any, at: int | None = None) -> Signal:
        return Signal(n, name, dump(list(args)), None if at is None else START + at)

    def post(self, n: int, name: str, *args: Any, at: int = 0) -> None:
        """A sender stores a signal."""
        mail = Mail(MailKind.SIGNAL, name, None, dump(list(args)), None, 0, START + at)
        self.kv[mail_key(n)] = encode_mail(mail)

    def post_result(self, n: int, location: str, value: Any, at: int = 0) -> Done:
        """A task or child stores its end; the fact that a live run is given."""
        mail = Mail(MailKind.RESULT, location, None, dump(value), None, 1, START + at)
        self.kv[mail_key(n)] = encode_mail(mail)
        return Done(parse(location), 0, Ok(dump(value)), at=START + at, n=n)

    def post_update(self, n: int, update_id: str, name: str, *args: Any, at: int = 0) -> None:
        """A caller stores an update."""
        mail = Mail(MailKind.UPDATE, name, update_id, dump(list(args)), None, 0, START + at)
        self.kv[mail_key(n)] = encode_mail(mail)

    def update(self, n: int, update_id: str, name: str, *args: Any) -> UpdateAsked:
        return UpdateAsked(n, update_id, name, dump(list(args)))

    def cancel(self, n: int = 900, within_ms: int | None = None) -> CancelAsked:
        return CancelAsked(n, "because", within_ms)

    # --- looking

    @property
    def last(self) -> Turn:
        return self.turns[-1]

    @property
    def rows(self) -> Rows:
        return decode_rows(self.run_id, sorted(self.kv.items()))[0]

    @property
    def history(self) -> dict[str, Entry]:
        return {text(location): entry for location, entry in self.rows.history}

    @property
    def history_without_began(self) -> dict[str, Entry]:
        """What a crash may not change: an operation that is released again begins again, and what is only observed may
        be written by a later turn than the one that saw it first."""
        return {
            at: entry._replace(began=0, at=entry.at if isinstance(entry.kind, DELIVERED) else 0)
            for at, entry in self.history.items()
        }

    @property
    def metadata(self) -> dict[str, Metadata]:
        return {text(location): metadata for location, metadata in self.rows.metadata.items()}

    @property
    def published(self) -> Any:
        published = self.rows.published
        return None if published is None else load(published)

    @property
    def mail(self) -> list[int]:
        return [n for n, _ in self.rows.mail]

    @property
    def alarm(self) -> int | None:
        """The last turn's, in milliseconds after the start."""
        alarm = self.last.batch.alarm
        return None if alarm is None else alarm - START

    @property
    def written(self) -> list[str]:
        """The entries that the last turn wrote."""
        return [text(location) for location, _ in self.last.batch.entries]

    @property
    def outcome(self) -> Outcome | None:
        return self.last.outcome if self.turns else None

    @property
    def result(self) -> Any:
        """The run's value; raises its error, or what parked it."""
        match self.outcome:
            case Completed(value):
                return load(value)
            case Failed(error):
                raise load(error)
            case Parked(error):
                raise error
            case Cancelled():
                raise AssertionError("cancelled")
            case other:
                raise AssertionError(f"not ended: {other}, waiting for {self.last.waiting}")

    @property
    def reason(self) -> Exception:
        """Why the last turn parked the run; nothing was written and nothing released."""
        assert isinstance(self.outcome, Parked), self.outcome
        assert self.last.batch == Batch()
        assert self.last.commands == ()
        return self.outcome.error

    def released(self) -> list[str]:
        """Steps and handlers the last turn released."""
        return [text(c.location) for c in self.last.commands if isinstance(c, RunStep | RunRollback)]

    def commands_of(self, sort: type[Any]) -> list[str]:
        """Where the last turn has commands of a sort."""
        return [text(c.location) for c in self.last.commands if isinstance(c, sort)]

    # --- running to the end

    def perform(self, effects: Effects, limit: int = 2_000) -> Any:
        """Runs the run to its end: each released step asks `effects` by its name; time jumps from alarm to alarm."""
        for _ in self.steps(effects, limit):
            pass
        return self.result

    def steps(self, effects: Effects, limit: int = 2_000) -> Iterator[Turn]:
        """Like `perform`, turn by turn, oldest attempt first; ends when the run has, or nothing will wake it."""
        yield self.turn()
        for _ in range(limit):
            if self.outcome is not None:
                return
            if self.in_flight:
                yield self.turn(self.attempt(next(iter(self.in_flight)), effects))
            elif self.last.batch.alarm is not None:
                yield self.turn(now=max(self.now, self.last.batch.alarm - START))
            else:
                return
        raise AssertionError("does not end")

    def attempt(self, key: tuple[Location, int], effects: Effects) -> Done:
        """Performs what is in flight, and gives the fact of its end."""
        command = self.in_flight.pop(key)
        try:
            value = effects[command.name](command.attempt)
        except Exception as error:  # noqa: BLE001
            return Done(command.location, command.attempt, Err(dump(error)))
        return Done(command.location, command.attempt, Ok(dump(value)))


@pytest.fixture
def drive() -> Iterator[Callable[..., Driver]]:
    """Makes drivers, and closes their runs when the test is over."""
    made: list[Driver] = []

    def make(*args: Any, **options: Any) -> Driver:
        made.append(Driver(*args, **options))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


@pytest.fixture(scope="session")
def driver_class() -> type[Driver]:
    """For tests that make drivers by the hundred, and close each."""
    return Driver
