"""A run in the memory of a Temporal worker: facts in, turns taken, commands performed, the end told.

Signals, updates and completions each become one fact and one synchronous turn. A fault of ours or of a deploy is never
the run's failure: it leaves `ending` unwrapped, so that Temporal fails the task, keeps the workflow open, tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn, assert_never, cast

from temporalio import workflow
from temporalio.common import RawValue

from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import dump, load
from tenuto.errors import UpdateFailedError, UpdateRejectedError
from tenuto.kernel.batch import Batch
from tenuto.kernel.commands import (
    CancelChild,
    CancelStep,
    CancelTask,
    CancelTimer,
    CloseHook,
    Command,
    EnqueueTask,
    RegisterHook,
    ReplyUpdate,
    RunRollback,
    RunStep,
    SendSignal,
    StartChild,
    StartTimer,
)
from tenuto.kernel.facts import CancelAsked, Fact, Signal, UpdateAsked
from tenuto.kernel.location import ROOT
from tenuto.kernel.operations import Cancelled, Completed, Continued, Err, Failed, Ok, Outcome, Parked
from tenuto.kernel.records import Counters, Rows
from tenuto.kernel.turn import Definition
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main
from tenuto.model.state import answer_query
from tenuto.temporal.closures import forget_all
from tenuto.temporal.payloads import arguments_of, call_of, carries, carries_dumped
from tenuto.temporal.performing import Performer
from tenuto.temporal.programs import MEMO_PROGRAM, memo_of, workflow_of
from tenuto.temporal.run import TemporalRun
from tenuto.temporal.settings import Site

__all__ = ["CANCEL_WITHIN", "HOOK_IS_OPEN", "MEMO_RUN_NO", "PUBLISHED", "ROWS", "Carry", "LiveRun"]

CANCEL_WITHIN: Final = "tenuto.cancel-within"  # a signal: how long a cancellation may take
PUBLISHED: Final = "tenuto.published"  # queries
ROWS: Final = "tenuto.rows"
HOOK_IS_OPEN: Final = "tenuto.hook-is-open"
MEMO_TRACE: Final = "tenuto_trace"
MEMO_RUN_NO: Final = "tenuto_run_no"

log = logging.getLogger("tenuto.temporal")
# Temporal compares what is recorded with the code, so nobody asks for the hash of a definition.
_CODE: Final = Definition("")


class Carry(NamedTuple):
    """What a run of a chain leaves to the next one."""

    generation: int
    signals: list[list[Any]]  # name and payload of those nobody took, oldest first
    published: bytes | None


class LiveRun:
    """See above. Made by the first activation, with the first turn."""

    def __init__(self, values: Sequence[RawValue], site: Site) -> None:
        info = workflow.info()
        known = workflow_of(info.workflow_type, workflow.memo_value(MEMO_PROGRAM, None, type_hint=str))
        call, carried = call_of(values)
        carry = Carry(0, [], None) if carried is None else Carry(*load(carried))
        parent = None if info.parent is None else info.parent.workflow_id
        started = int(info.start_time.timestamp() * 1000)
        counters = Counters(started_at=started, generation=carry.generation)
        rows = Rows(info.workflow_id, "pending", _CODE.hash, call, counters)
        self._workflow: Workflow[..., Any] = known
        self._info = info
        self._loop = asyncio.get_running_loop()
        self._number = 0  # of the last message
        self._unread: dict[int, Signal] = {}  # signals nobody has taken, oldest first
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._outcome: Outcome | None = None
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._cancel_within: int | None = None
        self._cancelled = False
        self._closed = False
        self._traced_at = 0  # length of history when a trace was left
        self._run = TemporalRun(rows, _CODE, lambda port: run_main(known, port, call, parent), carry.published)
        self._site = site
        self._performer = Performer(self._run, self, site, known)
        site.enter(self)
        facts: list[Fact] = [self._buffer(name, payload) for name, payload in carry.signals]
        if workflow.cancellation_reason() is not None:  # before its first turn: the function never starts
            facts.append(self._cancel_fact())
        self._turn(facts)

    # --- facts

    def tell(self, fact: Fact) -> None:
        """Something that was asked for has ended."""
        self._go_on([fact])

    def _fire_over(self) -> None:
        """After the messages of this task: what was over when it was asked for has its turn."""
        self._run.firing = True
        self._go_on([])
        self._run.firing = False

    def _go_on(self, facts: Sequence[Fact]) -> None:
        served = self._serves_updates
        asked = self._turn(facts)
        if not asked and self._outcome is None and (served or self._serves_updates):
            self._leave_trace()

    @property
    def _serves_updates(self) -> bool:
        listener = self._run.mailbox.listener
        return listener is not None and bool(listener.handlers.updates)

    def _leave_trace(self) -> None:
        """A command, so that this task has an event of its own.

        Nothing between two tasks looks to the SDK like one task that took long: it hands the run what happened in both
        at once, messages first. An update of the second would then meet a run that has not seen the end in the first.
        """
        length = workflow.info().get_current_history_length()
        if self._traced_at != length and self._fault is None:
            self._traced_at = length
            workflow.upsert_memo({MEMO_TRACE: length})

    def deliver(self, name: str, payload: bytes) -> None:
        signal = self._buffer(name, payload)
        self._turn([signal])

    def signal(self, name: str, values: Sequence[RawValue]) -> None:
        payload = arguments_of(values)
        if name == CANCEL_WITHIN:
            self._limit_clean_up(int(load(payload)[0]))
        else:
            self.deliver(name, payload)

    def _buffer(self, name: str, payload: bytes) -> Signal:
        signal = Signal(self._next_number(), name, payload)
        self._unread[signal.n] = signal
        return signal

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    # --- updates

    def refuse(self, name: str, values: Sequence[RawValue]) -> None:
        """The validator that Temporal calls when an update arrives: raises if it is refused. Reads only."""
        refusal = self._run.refusal(name, arguments_of(values)) if self._outcome is None else ("closed", None)
        if refusal is not None:
            raise carries(UpdateRejectedError(*refusal))

    async def update(self, update_id: str, name: str, values: Sequence[RawValue]) -> bytes:
        """The answer to an update that was not refused."""
        answer = self._answers[update_id] = self._loop.create_future()
        if self._outcome is not None:
            answer.set_exception(carries(UpdateRejectedError("closed")))
        else:
            self._turn([UpdateAsked(self._next_number(), update_id, name, arguments_of(values))])
        value: bytes = await answer
        return value

    def _reply(self, command: ReplyUpdate) -> None:
        answer = self._answers.pop(command.id, None)
        if answer is None or answer.done():
            return
        match command.outcome:
            case Ok(value):
                answer.set_result(value)
            case Err(error=error):
                answer.set_exception(carries_dumped(error))
            case None:
                why, reason = command.rejected or ("closed", None)
                # Temporal has accepted it already: what has changed since makes it fail instead of being refused.
                stale = UpdateFailedError("stale")
                stale.__cause__ = UpdateRejectedError(why, reason)
                answer.set_exception(carries(stale if why == "validator" else UpdateRejectedError(why, reason)))

    # --- queries

    def query(self, name: str, values: Sequence[RawValue]) -> Any:
        """Our own queries answer in our encoding, those of the workflow in Temporal's: people ask them by its tools."""
        run = self._run
        args = load(arguments_of(values))
        if name == PUBLISHED:
            return dump(run.published)
        if name == ROWS:
            return self._rows()
        if name == HOOK_IS_OPEN:
            return dump(args[0] in run.hooks and self._outcome is None)
        return answer_query(self._workflow, run.published, name, args)

    def _rows(self) -> bytes:
        """What our own store would hold of this run, and what it waits for."""
        run = self._run
        nodes = run.nodes()
        batch = Batch(
            entries=tuple((node.location, node.entry) for node in nodes if node.entry is not None),
            metadata=tuple((node.location, node.metadata) for node in nodes if node.metadata is not None),
            state="running",
            version=run.rows.version,
            input=run.rows.input,
            counters=run.counters,
            published=run.published,
        )
        rows = [list(row) for row in sorted(RunEncoder().encode(batch).puts)]
        signals, updates = run.mailbox.awaited if self._outcome is None else ((), ())
        return dump([rows, list(signals), list(updates)])

    # --- turns

    def _turn(self, facts: Sequence[Fact]) -> bool:
        """Takes a turn; whether anything was asked of Temporal."""
        asked = False
        if self._outcome is None and self._fault is None:
            run = self._run
            run.quiet = workflow.unsafe.is_replaying()
            turn = run.take_turn(facts, workflow.time_ns() // 1_000_000)
            for n in turn.batch.deleted_mail:
                self._unread.pop(n, None)
            for notice in turn.notices:
                log.warning("run %s: %s", self._info.workflow_id, notice)
            if isinstance(turn.outcome, Parked):
                self._fault = turn.outcome.error
            else:
                for command in turn.commands:
                    self._perform(command)
                    asked = asked or not isinstance(command, CloseHook)
                if turn.outcome is not None:
                    self._outcome = turn.outcome
                    self._performer.abandon()
                elif run.over():
                    self._loop.call_soon(self._fire_over)
        self.wake()
        return asked

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _perform(self, command: Command) -> None:
        performer = self._performer
        match command:
            case EnqueueTask():
                performer.start_step(command)
            case RunStep():
                performer.run_side_effect(command)
            case RunRollback():
                performer.run_rollback(command)
            case CancelStep(location=location) | CancelTask(location=location):
                performer.cancel_work(location)
            case StartTimer():
                performer.start_timer(command)
            case CancelTimer(location=location):
                performer.stop_timer(location)
            case StartChild():
                performer.start_child(command)
            case CancelChild(location=location):
                performer.cancel_child(location)
            case SendSignal():
                performer.send(command)
            case RegisterHook():
                performer.register_hook(command)
            case CloseHook():
                pass  # the run knows which of its hooks are open
            case ReplyUpdate():
                self._reply(command)
            case _:
                assert_never(command)

    # --- cancellation

    def _cancel_fact(self) -> CancelAsked:
        self._cancelled = True
        return CancelAsked(self._next_number(), workflow.cancellation_reason() or None, self._cancel_within)

    def _limit_clean_up(self, within_ms: int) -> None:
        """Said before the request that it belongs to, or after one that is being heeded."""
        self._cancel_within = within_ms
        if self._cancelled:
            self._turn([self._cancel_fact()])
            self._watch_clean_up()

    def _cancel(self) -> None:
        self._turn([self._cancel_fact()])
        self._watch_clean_up()

    def _watch_clean_up(self) -> None:
        cancel = self._run.counters.cancel
        if cancel is not None and cancel.deadline is not None and self._outcome is None:
            self._performer.stop_timer(ROOT)
            self._performer.wake_at(cancel.deadline, ROOT, self._clean_up_is_over)

    def _clean_up_is_over(self) -> None:
        self._run.clean_up_over = True
        self._turn([])

    # --- the end

    async def ending(self) -> bytes:
        """The run's value, once it has ended; raises what Temporal is to make of any other end."""
        while self._fault is None and (self._outcome is None or self._performer.holds_the_end):
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                if workflow.cancellation_reason() is None or self._cancelled:
                    self.close()  # not a request: the run leaves memory
                    raise
                self._cancel()
            finally:
                self._waiter = None
        if self._fault is not None:
            self.close()
            raise self._fault
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(carries(UpdateRejectedError("closed")))
        self.close()
        if self._unread and not isinstance(self._outcome, Continued) and not workflow.unsafe.is_replaying():
            log.warning("run %s: it ended with %d signals nobody took", self._info.workflow_id, len(self._unread))
        while not workflow.all_handlers_finished():  # noqa: ASYNC110  # no event either: the SDK's own tasks
            await asyncio.sleep(0)  # updates that were just answered say so first
        return self._end(cast("Outcome", self._outcome))

    def _end(self, outcome: Outcome) -> bytes:
        match outcome:
            case Completed(value):
                return value
            case Failed(error=error):
                raise carries_dumped(error)
            case Cancelled():
                raise asyncio.CancelledError
            case Continued(input=call):
                self._continue(call)
            case Parked(error=error):
                raise error
            case _:
                assert_never(outcome)

    def _continue(self, call: bytes) -> NoReturn:
        signals = [[signal.name, signal.payload] for signal in self._unread.values()]
        carry = Carry(self._run.generation + 1, signals, self._run.published)
        memo = {**workflow.memo(), MEMO_RUN_NO: carry.generation + 1, **memo_of(self._workflow.id, self._workflow)}
        workflow.continue_as_new(args=[call, dump(list(carry))], memo=memo)

    def close(self) -> None:
        """Closes the code that is left, in this thread, before the collector does it in another."""
        if not self._closed:
            self._closed = True
            self._site.leave(self)
            for refused in self._run.close():
                log.warning("run %s: %s refused to close", self._info.workflow_id, refused)
            forget_all(self._info.run_id)
