"""One advance of one run: facts in; one atomic batch of writes and a list of commands out.

Rules:

1. Facts are applied in the order given, one at a time; after each the loop is drained to idle, then held facts, then
   internal facts, first in, first out, each with a drain.
2. The kernel fires timers itself: before a fact that happened at time h, those with a deadline before h; after the last
   fact, those due by now. Order: deadline, then issue. At equal times the fact goes first.
3. A turn is taken after the batch before it was committed. A run whose commit failed, or that returned an outcome, is
   dropped; a turn is never repeated on the same object.
4. `take_turn` never raises for what user code did. What is not the run's own doing parks it: nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol, assert_never, cast

from tenuto.errors import DecodingError, Evicted, InternalError, RunawayTurnError, TenutoError, UpdateFailedError
from tenuto.kernel.batch import EMPTY, Batch
from tenuto.kernel.commands import CancelChild, CancelStep, Command, RunStep
from tenuto.kernel.engine_side import EngineSide
from tenuto.kernel.facts import CancelAsked, Done, Fact, Signal, TimerGone, UpdateAsked, fact_of
from tenuto.kernel.history import Node
from tenuto.kernel.insertions import Insertions
from tenuto.kernel.location import Location
from tenuto.kernel.operations import (
    Cancelled,
    ChildOp,
    Completed,
    Continued,
    Err,
    Failed,
    Outcome,
    Parked,
    SleepOp,
    StepOp,
    WaitOp,
)
from tenuto.kernel.records import Cancel, Child, Counters, Rows, Step
from tenuto.kernel.rollback import Unwinding
from tenuto.kernel.scope import Scope
from tenuto.kernel.steps import Steps

__all__ = ["Definition", "Main", "Run", "Turn", "Waiting", "create"]

LOGIC: Final = 1  # the kernel's behaviour, as stored with each run; a change of behaviour is gated by it
FIRST: Final = 0  # in the order of timers: a cancel's deadline goes before what else is due then


@dataclass(frozen=True, slots=True)
class Definition:
    """A workflow's code as the kernel sees it.

    `names`: every name it can issue or pass to `removed`, engine defaults included; None if any is computed.
    """

    hash: str
    names: frozenset[str] | None = None


class Waiting(NamedTuple):
    """What would wake a run."""

    deadline: int | None = None
    signals: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    in_flight: tuple[tuple[Location, str], ...] = ()


_NOTHING_AWAITED: Final = Waiting()


class Turn(NamedTuple):
    """What one turn did. Commit `batch` and the durable commands together, then perform the rest.

    `goes_on`: the result of an inserted step is in the batch; the next turn hands it to the code, and is to be taken
    once this one is committed, whether facts have come or not.
    """

    batch: Batch
    commands: tuple[Command, ...] = ()
    waiting: Waiting = _NOTHING_AWAITED
    outcome: Outcome | None = None
    notices: tuple[str, ...] = ()
    goes_on: bool = False


# Both build a named tuple in half the time that calling its class takes.
_make_waiting = cast("Callable[[type[Waiting], tuple[object, ...]], Waiting]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_make_turn = cast("Callable[[type[Turn], tuple[object, ...]], Turn]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


class Main(Protocol):
    """The root coroutine of a run, over its port."""

    def __call__(self, port: Run, /) -> Coroutine[Any, Any, Outcome]: ...


def create(definition: Definition, input: bytes, now: int, generation: int = 0) -> Batch:  # noqa: A002
    """The first rows of a run."""
    counters = Counters(started_at=now, generation=generation, logic=LOGIC)
    return Batch(state="pending", version=definition.hash, input=input, counters=counters)


def _no_handler(name: str) -> None:
    return None


class Run(EngineSide):
    """One run in memory: what its rows say, its code on its own loop, and the port its code calls."""

    __slots__ = ("_definition", "_early", "_ending", "_insertions", "_main", "_outcome", "_root", "_unwinding")

    def __init__(
        self,
        rows: Rows,
        definition: Definition,
        main: Main,
        dump: Callable[[Any], bytes],
        load: Callable[[bytes], Any],
        find_handler: Callable[[str], Callable[[Any], object] | None] = _no_handler,
        steps: type[Steps] = Steps,
    ) -> None:
        strict = rows.version == definition.hash
        super().__init__(rows, strict=strict, names=definition.names, dump=dump, load=load, steps=steps)
        self._definition = definition
        self._main = main
        self._unwinding = Unwinding(self, self.steps, find_handler)
        self._insertions = Insertions(self, self.steps)
        self._root: asyncio.Task[Outcome] | None = None
        self._early: list[Done] = []  # of recorded tasks and children that the code has yet to reach
        self._ending: Outcome | None = None  # how the root ended, while handlers undo
        self._outcome: Outcome | None = _stored_outcome(rows)

    @classmethod
    def load_rows(
        cls,
        rows: Rows,
        definition: Definition,
        main: Main,
        dump: Callable[[Any], bytes],
        load: Callable[[bytes], Any],
        find_handler: Callable[[str], Callable[[Any], object] | None] = _no_handler,
        steps: type[Steps] = Steps,
    ) -> Run:
        """A run built from its rows; no user code runs before the first turn."""
        return cls(rows, definition, main, dump, load, find_handler, steps)

    # --- the turn

    def take_turn(self, facts: Sequence[Fact], now: int) -> Turn:
        """Advance this run as far as it goes without the outside world.

        Pure (P7). Commit `turn.batch` and the durable commands together, under the epoch the run was loaded with,
        before doing anything else. Never raises for what workflow code did.
        """
        if self._outcome is not None:
            return Turn(EMPTY, outcome=self._outcome)
        self.journal.now = now
        before = self.loop.enter()
        try:
            self._advance(facts)
        except (RunawayTurnError, DecodingError) as error:
            self.fault = self.fault or error
        except Evicted:
            pass  # raised by park outside of user code; the fault is noted
        except Exception as error:  # noqa: BLE001  # T9: a bug of ours parks the run, with the evidence
            self.fault = self.fault or _internal(error)
        finally:
            self.loop.leave(before)
        return self._emit() if self.fault is None else self._parked(self.fault)

    def _advance(self, facts: Sequence[Fact]) -> None:
        if self._root is None:
            facts = (*(fact_of(n, mail, self.load) for n, mail in self.rows.mail), *facts)
            if self.rows.state == "pending" and any(isinstance(fact, CancelAsked) for fact in facts):
                self._cancel_unstarted(facts)
                return
            self._start()
        if self.inserted_open and not self._is_over() and self._ending is None:
            applied = self._insertions.apply(facts)
            if applied is None:
                return
            facts = applied
            self._rest()
        timers = self.timers.live
        for fact in facts:
            if timers:
                self._fire_timers(before=self._moment_of(fact))
            if self._outcome is not None or self.fault is not None:
                return
            self._apply(fact)
            self._rest()
        if self.children.found:
            self.children.settle_found()
            self._rest()
        if timers and not self._is_over():
            self._fire_timers(before=None)

    def _moment_of(self, fact: Fact) -> int:
        """When a fact happened; by now at the latest, even if the clock was set back since."""
        now = self.journal.now
        return now if fact.at is None or fact.at > now else fact.at

    def _is_over(self) -> bool:
        return self._outcome is not None or self.fault is not None

    def _start(self) -> None:
        """Starts the root and replays what is recorded."""
        root = Scope(self.history.root)
        self._root = self.loop.start_root(self._main(self), root)
        self.loop.drain()
        self.replay.feed()
        if self.has_stopped():
            return
        if self._root.done():
            self._leave_root(self._root)
        if not self.has_stopped():
            self.replay.conclude()
        cancel = self.counters.cancel
        if cancel is not None and cancel.deadline is not None:
            self.timers.start(cancel.deadline, FIRST, None)
        self._rest()

    def _rest(self) -> None:
        """Drains, then applies held and internal facts, until nothing is at hand; then looks whether the root ended."""
        root = self._root
        assert root is not None  # noqa: S101  # started
        while self.fault is None:
            self.loop.drain()
            if self.fault is not None:
                return
            if root.done():
                self._look_at_root(root)
                return
            if self.held:
                self.replay.deliver_held()
                if self.loop.ready or root.done():  # delivering drains: the code may have ended in it
                    continue
            if self._early and self._take_early():
                continue
            if not self.internal:
                return
            self.internal.popleft()()

    def _fire_timers(self, before: int | None) -> None:
        """T3: those with a deadline before that time and due; all that are due without one."""
        while (timer := self.timers.earliest()) is not None:
            if timer.deadline > self.journal.now or (before is not None and timer.deadline >= before):
                return
            if self._is_over():
                return
            self.timers.pop(timer)
            self._fire(timer.node)
            self._rest()

    def _fire(self, node: Node | None) -> None:
        if node is None:
            self._finish(Cancelled())  # the time for cleaning up is over: no more code runs
            return
        pending = node.pending
        if pending is None:
            self._unwinding.fired(node)
        elif isinstance(pending.op, SleepOp):
            self.sleeps.fired(pending)
        elif isinstance(pending.op, WaitOp):
            self.mailbox.timed_out(pending)
        elif isinstance(pending.op, StepOp):
            self.steps.release(pending)

    # --- facts

    def _apply(self, fact: Fact) -> None:
        if isinstance(fact, Done):
            self._done(fact)
            return
        match fact:
            case TimerGone():
                node = self.history.find(fact.location)
                if node is not None and node in self.timers:
                    self.timers.stop(node)
                    self._fire(node)
            case Signal():
                self.mailbox.signal(fact)
            case UpdateAsked():
                self.mailbox.asked(fact)
            case CancelAsked():
                self._cancel(fact)
            case _:
                assert_never(fact)

    def _done(self, fact: Done) -> None:
        node = self.history.find(fact.location)
        pending = node.pending if node is not None else None
        if pending is None and node is not None and node.due and self._ending is None and _is_awaited(node):
            self._early.append(fact)  # its mail stays too, until it is taken
            return
        if fact.n is not None:
            self.journal.delete_mail(fact.n, force=False)
        if self._ending is not None:
            self._unwinding.done(fact)
            self._look_at_unwinding()
        elif pending is None:
            return
        elif isinstance(pending.op, StepOp):
            self.steps.done(pending, fact)
        elif isinstance(pending.op, ChildOp):
            self.children.done(pending, fact)

    def _take_early(self) -> bool:
        """Applies a fact whose operation has been issued, or dropped, since it came."""
        for index, fact in enumerate(self._early):
            node = self.history.find(fact.location)
            if node is None or node.pending is not None or not _is_awaited(node):
                del self._early[index]
                self._done(fact)
                return True
        return False

    # --- cancellation

    def _cancel(self, fact: CancelAsked) -> None:
        self.journal.delete_mail(fact.n, force=False)
        at = fact.at if fact.at is not None else self.journal.now
        deadline = None if fact.within_ms is None else at + fact.within_ms
        before = self.counters.cancel
        if before is None:
            if self._ending is not None:
                return
            seq = self.journal.advance()
            self._note_cancel(Cancel(seq, self.journal.time, fact.reason, deadline))
            self.cancel_root()
        elif deadline is not None and (before.deadline is None or deadline < before.deadline):
            self._note_cancel(before._replace(deadline=deadline))

    def _note_cancel(self, cancel: Cancel) -> None:
        self.counters = self.counters._replace(cancel=cancel)
        self.journal.count(self.counters)
        if cancel.deadline is not None:
            self.timers.stop(None)
            self.timers.start(cancel.deadline, FIRST, None)

    def cancel_root(self) -> None:
        if self._root is not None:
            self._root.cancel()

    def _cancel_unstarted(self, facts: Sequence[Fact]) -> None:
        asked = next(fact for fact in facts if isinstance(fact, CancelAsked))
        self.feeding = False
        self._note_cancel(Cancel(self.journal.advance(), self.journal.time, asked.reason, None))
        self.journal.delete_mail(asked.n, force=True)
        self._finish(Cancelled())

    # --- the end

    def _look_at_root(self, root: asyncio.Task[Outcome]) -> None:
        """The root has ended: so has the run, once what was left over is known and handlers have undone."""
        if self._ending is not None or self._outcome is not None:
            return
        self._leave_root(root)
        if not self.has_stopped() and not self.feeding:
            self._end(self._root_outcome(root))

    def _leave_root(self, root: asyncio.Task[Outcome]) -> None:
        """D8: the root is a scope; a cancel that was asked for withdraws it."""
        if root.cancelled() and self.counters.cancel is not None:
            self.pass_over(self.history.root)
        else:
            self.replay.left_over_below(self.history.root, self.root_error())

    def root_error(self) -> BaseException | None:
        root = self._root
        return root.exception() if root is not None and root.done() and not root.cancelled() else None

    def _root_outcome(self, root: asyncio.Task[Outcome]) -> Outcome:
        if root.cancelled():
            if self.counters.cancel is not None:
                return Cancelled()
            return Failed(self.dump(asyncio.CancelledError("cancelled, though nobody asked for it")))
        error = root.exception()
        return Failed(self.dump(error)) if error is not None else root.result()

    def _end(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Failed | Cancelled) or not self._unwinding.begin():
            self._finish(outcome)
            return
        if self.rows.state == "rolling_back":  # loaded half way: the error is the stored one, as it was raised
            outcome = Failed(self.rows.error) if self.rows.error is not None else outcome
        else:
            self.journal.forced = True
            if isinstance(outcome, Failed):
                self.journal.fail(outcome.error)
        self._ending = outcome
        self._drop_pending()
        self._unwinding.next()
        self._look_at_unwinding()

    def _look_at_unwinding(self) -> None:
        if self._ending is not None and self._unwinding.over and self._outcome is None:
            self._finish(self._ending)

    def _drop_pending(self) -> None:
        """Nothing the code still waits for counts any more."""
        self._abandon_attempts()
        self.mailbox.close()
        self.internal.clear()
        for node in list(self.history.root.walk()):
            if node.pending is not None:
                self.timers.stop(node)

    def _abandon_attempts(self) -> None:
        for node in self.inline:
            if not self.journal.unask(node, RunStep):
                self.journal.command(node, CancelStep(node.location))
        self.inline.clear()

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._abandon_attempts()
        journal = self.journal
        journal.forced = True
        for update_id in self.mailbox.unanswered():
            why = "cancelled" if isinstance(outcome, Cancelled) else "closed"
            self.mailbox.reply(update_id, Err(self.dump(UpdateFailedError(why))))
        self._cancel_children()
        match outcome:
            case Completed(value):
                journal.complete(value, delete_error=self.rows.error is not None)
            case Failed(error):
                journal.fail(error)
            case Cancelled() | Parked():
                pass
            case Continued():
                known = self.rows.first_input is not None
                journal.begin_anew(None if known else self.dump(sha256(self.rows.input).digest()))
                self.mailbox.forget_seqs()
            case _:
                assert_never(outcome)

    def _cancel_children(self) -> None:
        for node, child in self.children.open():
            self.journal.command(node, CancelChild(node.location, child.run))

    # --- what a turn gives

    def _emit(self) -> Turn:
        journal = self.journal
        if not self.divergence.strict and not self.feeding and not self.left_over and not self.replay.reordered:
            journal.adopt(self._definition.hash)  # D10
            self.divergence.strict = True
        outcome = self._outcome
        if outcome is not None:
            self.loop.report_failed()
            batch = journal.take_batch(self._state_after(outcome), None, busy=False)
            return Turn(batch, journal.take_commands(), _NOTHING_AWAITED, outcome, journal.take_notices())
        timer = self.timers.earliest() if self.timers.live else None
        alarm = timer.deadline if timer is not None else None
        state = "rolling_back" if self._ending is not None else "running" if self.inline else "suspended"
        batch = journal.take_batch(state, alarm, busy=bool(self.inline))
        notices = journal.take_notices() if journal.notices else ()
        return _make_turn(
            Turn, (batch, journal.take_commands(), self._waiting(alarm), None, notices, bool(self.internal))
        )

    def _state_after(self, outcome: Outcome) -> str:
        match outcome:
            case Completed():
                return "completed"
            case Failed():
                return "failed"
            case Cancelled():
                return "cancelled"
            case Continued() | Parked():
                return self.rows.state  # the rows of the next run of the chain follow; a parked run writes nothing

    def _waiting(self, alarm: int | None) -> Waiting:
        signals, updates = self.mailbox.awaited
        return _make_waiting(Waiting, (alarm, signals, updates, tuple(self.inline.values())))

    def _parked(self, error: Exception) -> Turn:
        self._outcome = Parked(error)
        return Turn(EMPTY, outcome=self._outcome)

    def close(self) -> tuple[str, ...]:
        """Drops the run from memory: closes its coroutines in inert mode. What refused to close, by task name."""
        self.inert = True
        root, alive = self._root, self.loop.alive
        if root is None or (root.done() and (not alive or (len(alive) == 1 and root in alive.values()))):
            alive.clear()
            return ()  # its code has ended, and left no tasks behind
        return tuple(self.loop.close_tasks())

    def forget(self) -> None:
        """Takes a closed run apart: its parts know each other, and would stay until the garbage collector comes by.

        With thousands of runs coming and going, that is what the collector would be busy with. One whose code refused
        to close stays as it is: the code is kept too.
        """
        if self.loop.refused:
            return
        nodes = [self.history.root]
        while nodes:
            node = nodes.pop()
            if node.children:
                nodes.extend(node.children.values())
            if node.pending is not None:
                node.pending.future.forget()
            node.parent = node.children = node.pending = None
        self.loop.ready.clear()
        self.internal.clear()
        self.outstanding.clear()
        # What leads back here.
        del self.loop, self.mailbox, self.steps, self.sleeps, self.children, self.commits, self.marks, self.replay
        del self._main, self._root, self._unwinding, self._insertions

    def key_of(self, location: Location) -> str | None:
        """The idempotency key of what is at a location, if anything is."""
        node = self.history.find(location)
        return None if node is None else self.key(node)


def _is_awaited(node: Node) -> bool:
    """Whether a task or child is recorded as open here, and the code has yet to reach it (behind an insertion)."""
    entry = node.entry
    return node.due and entry is not None and not entry.seq and isinstance(entry.kind, Step | Child)


def _stored_outcome(rows: Rows) -> Outcome | None:
    match rows.state:
        case "completed":
            return Completed(rows.output or b"")
        case "failed":
            return Failed(rows.error or b"")
        case "cancelled":
            return Cancelled()
        case _:
            return None


def _internal(error: Exception) -> TenutoError:
    if isinstance(error, TenutoError):
        return error
    internal = InternalError(f"{type(error).__name__}: {error}")
    internal.__cause__ = error
    return internal
