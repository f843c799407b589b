"""A run in the memory of a Temporal worker: facts in, turns taken, commands performed, the end told.

Signals, updates and completions each become one fact and one synchronous turn. A fault of ours or of a deploy is never
the run's failure: it leaves `ending` unwrapped, so that Temporal fails the task, keeps the workflow open, tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, assert_never, cast

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import RawValue

from tenuto.codec.values import dump, load
from tenuto.errors import DecodingError, LimitError, UpdateRejectedError
from tenuto.kernel.commands import CloseHook
from tenuto.kernel.facts import Fact, Signal, UpdateAsked
from tenuto.kernel.operations import Cancelled, Completed, Continued, Failed, Outcome, Parked
from tenuto.kernel.records import Counters, Rows
from tenuto.kernel.turn import Definition
from tenuto.model.definitions import Workflow
from tenuto.model.main import run_main
from tenuto.model.state import answer_query
from tenuto.temporal.names import CANCEL_WITHIN, HOOK_IS_OPEN, INTERNAL, PUBLISHED, ROWS
from tenuto.temporal.payloads import (
    answer as answer_of,
)
from tenuto.temporal.payloads import (
    arguments_of,
    carries,
    carries_dumped,
    is_foreign,
)
from tenuto.temporal.programs import MEMO_PROGRAM, memo_of, workflow_of
from tenuto.temporal.runs.answers import Answers
from tenuto.temporal.runs.cancelling import Cancellation, limit_of
from tenuto.temporal.runs.chain import CONTINUED_BYTES, Chain
from tenuto.temporal.runs.closures import forget_all
from tenuto.temporal.runs.commands import begin
from tenuto.temporal.runs.performing import Performer
from tenuto.temporal.runs.run import TemporalRun
from tenuto.temporal.runs.standing import metadata_of, rows_of, stack_of
from tenuto.temporal.settings import Site

__all__ = ["LiveRun"]

MEMO_TRACE: Final = "tenuto_trace"

log = logging.getLogger("tenuto.temporal")
# Temporal compares what is recorded with the code, so nobody asks for the hash of a definition.
_CODE: Final = Definition("")


class LiveRun:
    """See above. Made by the first activation, with the first turn."""

    def __init__(self, values: Sequence[RawValue], site: Site) -> None:
        info = workflow.info()
        known = workflow_of(site.registry, info.workflow_type, workflow.memo_value(MEMO_PROGRAM, None, type_hint=str))
        chain = self._chain = Chain(values, site.limits)
        call = chain.input
        parent = None if info.parent is None else info.parent.workflow_id
        started = int(info.start_time.timestamp() * 1000)
        counters = Counters(started_at=started, generation=chain.carry.generation)
        rows = Rows(info.workflow_id, "pending", _CODE.hash, call, counters)
        self._workflow: Workflow[..., Any] = known
        self._info = info
        self._number = 0  # of the last message
        self._unread: dict[int, Signal] = {}  # signals nobody has taken, oldest first
        self._outcome: Outcome | None = None
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._traced_at = 0  # length of history when a trace was left
        self._site = site
        self._run = TemporalRun(
            rows,
            _CODE,
            lambda port: run_main(known, port, call, parent, chain.limits.apply, site.registry),
            chain.carry.published,
            self._excess,
            site.registry,
        )
        self._performer = Performer(self._run, self, site, known, is_marked=chain.is_marked)
        self._answers = Answers(self._performer)
        self._cancellation = Cancellation(
            self._run, self._performer, self._turn, lambda: self._outcome is not None, self._next_number
        )
        site.enter(self)
        facts: list[Fact] = [self._buffer(name, payload) for name, payload in chain.carry.signals]
        if workflow.cancellation_reason() is not None:  # before its first turn: the function never starts
            facts.append(self._cancellation.fact())
        self._turn(facts)

    def _excess(self, call: bytes) -> LimitError | None:
        return self._chain.excess(call, self._run.mailbox.unread, self._run.published)

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
            payload = arguments_of(values, is_marked=self._chain.is_marked)
            if name != CANCEL_WITHIN:
                self.deliver(name, payload)
            else:
                self._cancellation.limit(limit_of(load(payload)))
        except DecodingError as error:
            if not workflow.unsafe.is_replaying():  # said once, not whenever its history is replayed
                why = error.args[0]
                log.warning("run %s: signal %r cannot be read and was dropped: %s", self._info.workflow_id, name, why)

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
        args = arguments_of(values, is_marked=self._chain.is_marked)
        refusal = self._run.refusal(name, args) if self._outcome is None else ("closed", None)
        if refusal is not None:
            raise carries(UpdateRejectedError(*refusal))

    async def update(self, update_id: str, name: str, values: Sequence[RawValue]) -> RawValue:
        """The answer to an update that was not refused."""
        answer = self._answers.expect(update_id)
        if self._outcome is not None:
            answer.set_exception(carries(UpdateRejectedError("closed")))
        else:
            args = arguments_of(values, is_marked=self._chain.is_marked)
            self._turn([UpdateAsked(self._next_number(), update_id, name, args)])
        value: bytes = await answer
        return answer_of(value, as_json=is_foreign(values))

    # --- queries

    def query(self, name: str, values: Sequence[RawValue]) -> Any:
        """Our own queries answer in our encoding, those of the workflow in Temporal's: people ask them by its tools."""
        run = self._run
        is_marked = self._chain.is_marked and not name.startswith(INTERNAL)
        args = load(arguments_of(values, is_marked=is_marked))
        if name == PUBLISHED:
            return dump(run.published)
        if name == ROWS:
            unread = [signal.name for signal in self._unread.values()]
            return rows_of(run, unread, is_open=self._outcome is None)
        if name == HOOK_IS_OPEN:
            return dump(args[0] in run.hooks and self._outcome is None)
        return answer_query(self._workflow, run.published, name, args)

    def stack(self) -> str:
        return stack_of(self._run)

    def metadata(self) -> WorkflowMetadata:
        return metadata_of(self._run, self._workflow)

    # --- turns

    def _turn(self, facts: Sequence[Fact]) -> bool:
        """Takes a turn; whether anything was asked of Temporal."""
        asked = False
        if self._outcome is None and self._fault is None:
            run = self._run
            run.quiet = workflow.unsafe.is_replaying()
            with self._chain.limits.in_force():
                turn = run.take_turn(facts, workflow.time_ns() // 1_000_000)
            for n in turn.batch.deleted_mail:
                self._unread.pop(n, None)
            for notice in turn.notices:
                log.warning("run %s: %s", self._info.workflow_id, notice)
            if isinstance(turn.outcome, Parked):
                self._fault = turn.outcome.error
            else:
                for command in turn.commands:
                    begin(command, self._performer, self._answers)
                    asked = asked or not isinstance(command, CloseHook)
                if turn.outcome is not None:
                    self._outcome = turn.outcome
                    self._close_work(turn.outcome)
                elif run.over():
                    asyncio.get_running_loop().call_soon(self._fire_over)
        self.wake()
        return asked

    def _close_work(self, outcome: Outcome) -> None:
        """What the run has asked for and does not need any more; what must still happen, happens before the end."""
        if isinstance(outcome, Cancelled):
            self._cancellation.give_up()
        self._performer.abandon()
        self._cancellation.watch()
        self._performer.say("", _size_of(outcome), self.wake)  # no update has an empty id

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- the end

    async def ending(self) -> RawValue:
        """The run's value, once it has ended; raises what Temporal is to make of any other end."""
        while self._fault is None and (self._outcome is None or self._performer.holds_the_end):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                if workflow.cancellation_reason() is None or self._cancellation.is_asked:
                    self.close()  # not a request: the run leaves memory
                    raise
                self._cancellation.ask()
            finally:
                self._waiter = None
        if self._fault is not None:
            self.close()
            raise self._fault
        self._answers.close()
        self.close()
        if self._unread and not isinstance(self._outcome, Continued) and not workflow.unsafe.is_replaying():
            log.warning("run %s: it ended with %d signals nobody took", self._info.workflow_id, len(self._unread))
        while not workflow.all_handlers_finished():  # noqa: ASYNC110  # no event either: the SDK's own tasks
            await asyncio.sleep(0)  # updates that were just answered say so first
        return self._end(cast("Outcome", self._outcome))

    def _end(self, outcome: Outcome) -> RawValue:
        match outcome:
            case Completed(value):
                return answer_of(value, as_json=self._chain.as_json)
            case Failed(error=error):
                raise carries_dumped(error)
            case Cancelled():
                raise asyncio.CancelledError
            case Continued(input=call):
                unread = self._unread.values()  # some may have come since the run's last turn
                if (excess := self._chain.excess(call, unread, self._run.published)) is not None:
                    raise carries(excess)
                memo = memo_of(self._site.registry, self._workflow.id, self._workflow)
                self._chain.go_on(memo, call, unread, self._run.published)
            case Parked(error=error):
                raise error
            case _:
                assert_never(outcome)

    def close(self) -> None:
        """Closes the code that is left, in this thread, before the collector does it in another."""
        if not self._closed:
            self._closed = True
            self._site.leave(self)
            for refused in self._run.close():
                log.warning("run %s: %s refused to close", self._info.workflow_id, refused)
            forget_all(self._info.run_id)


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
