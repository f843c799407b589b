"""A run in the memory of a Temporal worker: facts in, turns taken, commands performed, the end told.

Signals, updates and completions each become one fact and one synchronous turn. A fault of ours or of a deploy is never
the run's failure: it leaves `ending` unwrapped, so that Temporal fails the task, keeps the workflow open, tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, assert_never, cast

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import RawValue

from tenuto.codec.limits import DEFAULT_LIMITS, ValueLimits
from tenuto.codec.rows import RunEncoder
from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, LimitError, UpdateFailedError, UpdateRejectedError
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
from tenuto.temporal.payloads import (
    answer as answer_of,
)
from tenuto.temporal.payloads import (
    arguments_of,
    call_of,
    carries,
    carries_dumped,
    is_foreign,
    ours,
    unmarked,
)
from tenuto.temporal.performing import Performer
from tenuto.temporal.programs import MEMO_PROGRAM, memo_of, workflow_of
from tenuto.temporal.run import TemporalRun
from tenuto.temporal.settings import Site
from tenuto.temporal.standing import metadata_of, stack_of

__all__ = ["CANCEL_WITHIN", "HOOK_IS_OPEN", "MEMO_RUN_NO", "PUBLISHED", "ROWS", "Carry", "LiveRun"]

INTERNAL: Final = "tenuto."
CANCEL_WITHIN: Final = "tenuto.cancel-within"  # a signal: how long a cancellation may take
PUBLISHED: Final = "tenuto.published"  # queries
ROWS: Final = "tenuto.rows"
HOOK_IS_OPEN: Final = "tenuto.hook-is-open"
MEMO_TRACE: Final = "tenuto_trace"
MEMO_RUN_NO: Final = "tenuto_run_no"

MARKS: Final = "tenuto.marks"  # a patch: what is unmarked is not ours
GIVE_UP: Final = "tenuto.give-up"  # a patch: a cancelled run waits for no task
CONTINUED_BYTES: Final = 2 * 2**20  # of what a run hands to the next one; the server's own limit
CONTINUED_FRAME: Final = 1024
CARRY: Final = ValueLimits(size=2**62)  # measured together with the arguments
LONGEST_CLEAN_UP: Final = 10 * 365 * 86_400_000  # ms: what is more, nobody waits for

log = logging.getLogger("tenuto.temporal")
# Temporal compares what is recorded with the code, so nobody asks for the hash of a definition.
_CODE: Final = Definition("")


class Carry(NamedTuple):
    """What a run of a chain leaves to the next one."""

    generation: int
    signals: list[list[Any]]  # name and payload of those nobody took, oldest first
    published: bytes | None
    as_json: bool = False  # somebody else's client started the chain, and reads its result


class LiveRun:
    """See above. Made by the first activation, with the first turn."""

    def __init__(self, values: Sequence[RawValue], site: Site) -> None:
        info = workflow.info()
        known = workflow_of(site.registry, info.workflow_type, workflow.memo_value(MEMO_PROGRAM, None, type_hint=str))
        started_with = call_of(values)
        call, carried = started_with.input, started_with.carried
        carry = Carry(0, [], None) if carried is None else Carry(*load(carried))
        # Histories of before there was a mark replay by the rules of then (P9). Of a run that somebody else's client
        # started only a patch says how old it is.
        self._is_marked = started_with.is_marked or (started_with.is_foreign and workflow.patched(MARKS))
        self._limits = site.limits if self._is_marked else replace(site.limits, value_bytes=DEFAULT_LIMITS.size)
        self._as_json = started_with.is_foreign or carry.as_json
        parent = None if info.parent is None else info.parent.workflow_id
        counters = Counters(started_at=int(info.start_time.timestamp() * 1000), generation=carry.generation)
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
        self._gave_up = False  # its tasks: nobody waits for them any more
        self._closed = False
        self._traced_at = 0  # length of history when a trace was left
        self._site = site
        self._run = TemporalRun(
            rows,
            _CODE,
            lambda port: run_main(known, port, call, parent, self._limits.apply, site.registry),
            carry.published,
            self._excess,
            site.registry,
        )
        self._performer = Performer(self._run, self, site, known, is_marked=self._is_marked)
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
        """Anybody may send anything: what cannot be read is dropped, as the SDK does with its own handlers."""
        try:
            payload = arguments_of(values, is_marked=self._is_marked)
            if name != CANCEL_WITHIN:
                self.deliver(name, payload)
            else:
                self._limit_clean_up(_limit_of(load(payload)))
        except DecodingError as error:
            dropped(self._info.workflow_id, name, error)

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
        args = arguments_of(values, is_marked=self._is_marked)
        refusal = self._run.refusal(name, args) if self._outcome is None else ("closed", None)
        if refusal is not None:
            raise carries(UpdateRejectedError(*refusal))

    async def update(self, update_id: str, name: str, values: Sequence[RawValue]) -> RawValue:
        """The answer to an update that was not refused."""
        answer = self._answers[update_id] = self._loop.create_future()
        if self._outcome is not None:
            answer.set_exception(carries(UpdateRejectedError("closed")))
        else:
            args = arguments_of(values, is_marked=self._is_marked)
            self._turn([UpdateAsked(self._next_number(), update_id, name, args)])
        value: bytes = await answer
        return answer_of(value, as_json=is_foreign(values))

    def _reply(self, command: ReplyUpdate) -> None:
        answer = self._answers.pop(command.id, None)
        if answer is None or answer.done():
            return
        reply = self._performer.reply
        match command.outcome:
            case Ok(value):
                reply(command.id, len(value), partial(answer.set_result, value))
            case Err(error=error):
                failure = carries_dumped(error)
                reply(command.id, len(error), partial(answer.set_exception, failure))
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
        is_marked = self._is_marked and not name.startswith(INTERNAL)
        args = load(arguments_of(values, is_marked=is_marked))
        if name == PUBLISHED:
            return dump(run.published)
        if name == ROWS:
            return self._rows()
        if name == HOOK_IS_OPEN:
            return dump(args[0] in run.hooks and self._outcome is None)
        return answer_query(self._workflow, run.published, name, args)

    def stack(self) -> str:
        return stack_of(self._run)

    def metadata(self) -> WorkflowMetadata:
        return metadata_of(self._run, self._workflow)

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
        buffered = [signal.name for signal in self._unread.values()]
        return dump([rows, list(signals), list(updates), buffered])

    # --- turns

    def _turn(self, facts: Sequence[Fact]) -> bool:
        """Takes a turn; whether anything was asked of Temporal."""
        asked = False
        if self._outcome is None and self._fault is None:
            run = self._run
            run.quiet = workflow.unsafe.is_replaying()
            with self._limits.in_force():
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
                    self._close_work(turn.outcome)
                elif run.over():
                    self._loop.call_soon(self._fire_over)
        self.wake()
        return asked

    def _close_work(self, outcome: Outcome) -> None:
        """What the run has asked for and does not need any more; what must still happen, happens before the end."""
        if isinstance(outcome, Cancelled):
            self._give_up()
        self._performer.abandon()
        self._watch_clean_up()
        self._performer.make_room(_size_of(outcome))

    def _give_up(self) -> None:
        """A run that was cancelled waits for no task: they are asked to stop, and it closes."""
        if self._performer.has_tasks and not self._gave_up and workflow.patched(GIVE_UP):
            self._gave_up = True
            self._performer.abandon(tasks=True)
            self.wake()

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
        if self._outcome is None:
            self._watch_clean_up()
        else:
            self._give_up()  # it has ended, and waits for what it left behind

    def _watch_clean_up(self) -> None:
        """An end of its own holds the limit, too, while tasks that it left behind keep the run open."""
        cancel = self._run.counters.cancel
        if cancel is None or cancel.deadline is None:
            return
        if self._outcome is None or (self._performer.has_tasks and workflow.patched(GIVE_UP)):
            self._performer.stop_timer(ROOT)
            self._performer.wake_at(cancel.deadline, ROOT, self._clean_up_is_over)

    def _clean_up_is_over(self) -> None:
        if self._outcome is not None:
            self._give_up()
            return
        self._run.clean_up_over = True
        self._turn([])

    # --- the end

    async def ending(self) -> RawValue:
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

    def _end(self, outcome: Outcome) -> RawValue:
        match outcome:
            case Completed(value):
                return answer_of(value, as_json=self._as_json)
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

    def _excess(self, call: bytes) -> LimitError | None:
        """Why the run cannot be continued with these arguments: what it leaves to the next one is one message."""
        size = len(call) + len(self._carry(self._run.mailbox.unread)) + CONTINUED_FRAME
        if size <= CONTINUED_BYTES:
            return None
        what = "arguments, published state and unread signals of the next run of the chain"
        return LimitError(what, CONTINUED_BYTES, size)

    def _carry(self, signals: Iterable[Signal]) -> bytes:
        left = [[signal.name, signal.payload] for signal in signals]
        carry = Carry(self._run.generation + 1, left, self._run.published, self._as_json)
        return dump(list(carry) if carry.as_json else list(carry[:-1]), CARRY)  # the form of before, where it says all

    def _continue(self, call: bytes) -> NoReturn:
        carried = memo_of(self._site.registry, self._workflow.id, self._workflow)
        memo = {**workflow.memo(), MEMO_RUN_NO: self._run.generation + 2, **carried}
        args = [call, self._carry(self._unread.values())]
        # Started before there was a mark, it goes on to read what it is sent as it did.
        written = [ours(item) if self._is_marked else unmarked(item) for item in args]
        workflow.continue_as_new(args=written, memo=memo)

    def close(self) -> None:
        """Closes the code that is left, in this thread, before the collector does it in another."""
        if not self._closed:
            self._closed = True
            self._site.leave(self)
            for refused in self._run.close():
                log.warning("run %s: %s refused to close", self._info.workflow_id, refused)
            forget_all(self._info.run_id)


def _limit_of(args: Any) -> int:
    """How long a cancellation may take, as the internal signal says it; somebody else's may say anything."""
    match args:
        case [int() | float() as limit_ms] if 0 <= limit_ms <= LONGEST_CLEAN_UP:
            return int(limit_ms)
        case _:
            raise DecodingError("$", "", f"{CANCEL_WITHIN} says how many milliseconds", "cancel it by its handle")


def dropped(run_id: str, signal: str, error: DecodingError) -> None:
    """Say that a signal went nowhere; once, and not again whenever its history is replayed."""
    if not workflow.unsafe.is_replaying():
        log.warning("run %s: signal %r cannot be read and was dropped: %s", run_id, signal, error.args[0])


def _size_of(outcome: Outcome) -> int:
    """How much of a message the end of a run takes."""
    match outcome:
        case Completed(value) | Failed(value):
            return len(value)
        case Continued():
            return CONTINUED_BYTES
        case Cancelled() | Parked():
            return 0
        case _:
            assert_never(outcome)
