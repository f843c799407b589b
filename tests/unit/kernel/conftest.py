"""Drives one run through the kernel by hand: facts in, rows committed in memory, reload at will."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tenuto.codec.rows import EncodedBatch, RunEncoder, decode_rows
from tenuto.codec.values import dump, load
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import Command, RunRollback, RunStep
from tenuto.kernel.facts import CancelAsked, Done, Fact, Signal, UpdateAsked
from tenuto.kernel.location import parse, text
from tenuto.kernel.operations import Completed, Err, Failed, Ok, Outcome, Parked, TimedOut
from tenuto.kernel.records import Entry, Metadata, Rows
from tenuto.kernel.turn import Definition, Run, Turn, create
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main

START = 1_700_000_000_000


class Driver:
    """One run, its committed rows, and a clock in milliseconds after its start."""

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
        self.batches: list[Batch] = []
        self.encoded: list[EncodedBatch] = []
        self.commands: list[Command] = []  # all ever released
        self.turns: list[Turn] = []
        self.run: Run | None = None
        self.handlers: dict[str, Any] = {}
        self._apply(create(self.definition, dump([list(args), {}]), START))
        self.now = 0

    # --- turns

    def turn(self, *facts: Fact, now: int | None = None) -> Turn:
        """Takes a turn, commits it, keeps its commands."""
        turn = self.peek(*facts, now=now)
        self.commit(turn)
        if self.crash_everywhere and turn.outcome is None:
            self.reload()
            again = self.peek(now=self.now)
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
            self._apply(turn.batch)
        self.commands.extend(turn.commands)

    def _apply(self, batch: Batch) -> None:
        encoded = self.encoder.encode(batch)
        self.encoded.append(encoded)
        for start, end in encoded.range_deletes:
            for key in [key for key in self.kv if start <= key < end]:
                del self.kv[key]
        for key in encoded.deletes:
            self.kv.pop(key, None)
        self.kv.update(encoded.puts)

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
        """Drops the run and loads it from its committed rows."""
        if self.run is not None:
            self.run.close()
        self.load(body, hash=hash, names=names)

    # --- facts

    def ok(self, location: str, value: Any = None, attempt: int = 1, **more: Any) -> Done:
        return Done(parse(location), attempt, Ok(dump(value)), **more)

    def err(self, location: str, error: Exception, attempt: int = 1, after_ms: int | None = None, **more: Any) -> Done:
        return Done(parse(location), attempt, Err(dump(error), after_ms=after_ms), **more)

    def timed_out(self, location: str, attempt: int = 1) -> Done:
        return Done(parse(location), attempt, TimedOut())

    def signal(self, n: int, name: str, *args: Any, at: int | None = None) -> Signal:
        return Signal(n, name, dump(list(args)), None if at is None else START + at)

    def update(self, n: int, update_id: str, name: str, *args: Any) -> UpdateAsked:
        return UpdateAsked(n, update_id, name, dump(list(args)))

    def cancel(self, n: int = 900, within_ms: int | None = None) -> CancelAsked:
        return CancelAsked(n, "because", within_ms)

    # --- looking

    @property
    def rows(self) -> Rows:
        return decode_rows(self.run_id, sorted(self.kv.items()))[0]

    @property
    def history(self) -> dict[str, Entry]:
        return {text(location): entry for location, entry in self.rows.history}

    @property
    def metadata(self) -> dict[str, Metadata]:
        return {text(location): metadata for location, metadata in self.rows.metadata.items()}

    @property
    def outcome(self) -> Outcome | None:
        return self.turns[-1].outcome

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
            case other:
                raise AssertionError(f"not ended: {other}, waiting for {self.turns[-1].waiting}")

    def released(self) -> list[str]:
        """Steps the last turn released."""
        return [text(c.location) for c in self.turns[-1].commands if isinstance(c, RunStep | RunRollback)]

    # --- running to the end

    def perform(self, effects: dict[str, Callable[[int], Any]], limit: int = 500) -> Any:
        """Runs the run to its end: each released step asks `effects` by its name; time jumps from alarm to alarm."""
        todo: list[RunStep | RunRollback] = []
        turn = self.turn()
        for _ in range(limit):
            todo.extend(c for c in self._fresh(turn) if isinstance(c, RunStep | RunRollback))
            if self.outcome is not None:
                return self.result
            if todo:
                command = todo.pop(0)
                turn = self.turn(self._attempt(command, effects))
            elif turn.batch.alarm is not None or self.turns[-1].batch.alarm is not None:
                alarm = self.turns[-1].batch.alarm
                assert alarm is not None
                turn = self.turn(now=max(self.now, alarm - START))
            else:
                raise AssertionError(f"stuck: {turn.waiting}")
        raise AssertionError("does not end")

    def _fresh(self, turn: Turn) -> tuple[Command, ...]:
        # After a crash everything in flight is released again: only that counts.
        return self.turns[-1].commands if self.crash_everywhere and turn.outcome is None else turn.commands

    def _attempt(self, command: RunStep | RunRollback, effects: dict[str, Callable[[int], Any]]) -> Done:
        try:
            value = effects[command.name](command.attempt)
        except Exception as error:  # noqa: BLE001
            return Done(command.location, command.attempt, Err(dump(error)))
        return Done(command.location, command.attempt, Ok(dump(value)))


@pytest.fixture
def drive() -> Callable[..., Driver]:
    return Driver
