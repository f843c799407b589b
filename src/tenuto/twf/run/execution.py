"""One run of a TWF workflow: its variables, its body, its handlers, and what they ask of the engine.

Rules:

1. The body and every handler are strands. Nothing else moves a run: a strand goes on when what it waits for is there.
2. Whatever suspends goes through `wait` or `next_token`; there the budget of work begins anew and what queries
   read is published. So it is in the turn in which the run ends, however it ends.
3. What is not the run's own doing (TWF6xx) parks it: nothing of the turn is written.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from random import Random
from typing import Any, Final, NoReturn
from uuid import UUID

from tenuto.errors import TwfError
from tenuto.kernel.operations import SleepOp, StepOp
from tenuto.model.definitions import ContinueAsNew, encode_call
from tenuto.model.durations import milliseconds, point
from tenuto.model.port import Port

from .activities import Performer
from .bindings import Bindings
from .children import Handle
from .compiled import CompiledWorkflow
from .faults import Fault, Stopped
from .frames import Budget, Frame
from .library import library
from .lines import Key, Line, Mailboxes, Token, Waiter
from .published import ABOUT, published
from .pure import pure_function
from .settings import settings
from .statements import Exit
from .strands import Strand, first_of
from .targets import Target, find_workflow
from .values import duration_of, incoming, outgoing, size_of
from .work import MEMBERS_A_UNIT

__all__ = ["CARRIED", "Execution"]

CARRIED: Final = "twf:carried"  # the name under which a run hands things on to the next of its chain


class Execution:
    """See the rules above."""

    def __init__(self, port: Port, workflow: CompiledWorkflow, bindings: Bindings | None) -> None:
        from .messages import Messages

        self.port = port
        self.workflow = workflow
        self.bindings = bindings
        self.budget = Budget(settings.units)
        self.changed = True
        self.variables: dict[str, Any] = {}
        self.handles: dict[str, Handle] = {}
        self.tokens = Mailboxes()
        self.strands: dict[Strand, None] = {}
        self.starting = 0  # constructs that have not started all their branches yet
        self.exit: Exit | None = None
        self.finished: Future[None] = asyncio.get_running_loop().create_future()
        self.root = copy_context()
        self._body = Line(None)
        self._order = 0
        self._recorded = 0
        self._published: bytes | None = None
        self._performers: dict[str, Performer] = {}
        self._randoms: dict[bytes, Random] = {}
        self._supervisors: list[Strand] = []
        self._chain_started = port.started_at
        self._messages = Messages(self)

    # --- the whole run

    async def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The run's value, or its successor."""
        named = dict(kwargs)
        carried = named.pop(CARRIED, None)
        workflow = self.workflow
        try:
            values = workflow.parameters.receive(args, named)
        except Fault as fault:
            raise fault.at(workflow.file, workflow.line) from None
        self.variables.update(zip(workflow.parameters.names, values, strict=True))
        if carried is not None:
            self._take_over(carried)
        try:
            self._messages.listen()
            self._start_limits()
            self._body.strand = self.strand(self._run_body(), self._body_ended)
            self._messages.start()
            await self.finished
            self._stop_supervisors()
            return self._outcome()
        except CancelledError:
            self._messages.stop("cancelled")
            self.cancel_all()
            self.publish()
            raise
        finally:
            for strand in list(self.strands):  # left only when the run is being closed
                strand.close()

    async def _run_body(self) -> Exit | None:
        flow = await self.workflow.block.run(Frame(self, self.variables, (), self._body))
        return flow if isinstance(flow, Exit) else None

    def _body_ended(self, strand: Strand) -> None:
        if strand.error is not None:
            self.fail(strand.error)
        elif not strand.cancelled:
            self.leave(strand.value or Exit("return"))

    def leave(self, exit_: Exit) -> None:
        """The body is over: nothing is dispatched any more, and handlers come to their end."""
        if self.exit is None and not self.finished.done():
            self.exit = exit_
            self._messages.stop(None if exit_.kind == "renew" else "closed")
            self.look_at_end()

    def fail(self, error: Exception) -> None:
        """The run fails: everything else is cancelled at once."""
        if self.finished.done():
            return
        self._messages.stop(None)
        self.cancel_all()
        self.publish()
        self.finished.set_exception(error)

    def look_at_end(self) -> None:
        """Whether everything has ended after the body; handlers that nothing will wake are cancelled."""
        self.publish()
        if self.exit is not None and not self.finished.done() and self._messages.over():
            self.finished.set_result(None)

    def cancel_all(self) -> None:
        for strand in list(self.strands):
            strand.cancel()

    def _outcome(self) -> Any:
        assert self.exit is not None  # noqa: S101  # finished without an error
        self.publish()
        if self.exit.kind != "renew":
            return self.exit.value
        args, kwargs = self.exit.args or ([], {})
        tokens = [[*key, token.args] for key, token in self.tokens.left()]
        carried = {"started": self._chain_started, "tokens": outgoing(tokens)}
        return ContinueAsNew(*outgoing(args), **outgoing(kwargs), **{CARRIED: carried})

    def _take_over(self, carried: Mapping[str, Any]) -> None:
        self._chain_started = carried["started"]
        for kind, name, args in carried["tokens"]:
            self.tokens.put((kind, name), Token(self.next_order(), incoming(args)))

    # --- strands

    def strand(self, coro: Coroutine[Any, Any, Any], on_end: Callable[[Strand], None]) -> Strand:
        """Starts code that goes on beside this; it has run to its first suspension when this returns."""

        def ended(strand: Strand) -> None:
            self.strands.pop(strand, None)
            on_end(strand)

        made = Strand(coro, ended)
        self.strands[made] = None
        made.start()
        return made

    @contextmanager
    def starts(self) -> Generator[None]:
        """While a construct starts its branches, one after the other."""
        self.starting += 1
        try:
            yield
        finally:
            self.starting -= 1

    def supervise(self, coro: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Runs code aside; the future has its outcome, and cancelling it cancels the code."""
        future: Future[Any] = asyncio.get_running_loop().create_future()

        def ended(strand: Strand) -> None:
            if future.done():
                return
            if strand.error is not None:
                future.set_exception(strand.error)
                future.exception()  # nobody has to await a child
            elif strand.cancelled:
                future.cancel()
            else:
                future.set_result(strand.value)

        strand = self.strand(coro, ended)
        self._supervisors.append(strand)
        future.add_done_callback(lambda done: strand.cancel() if done.cancelled() else None)
        return future

    def _stop_supervisors(self) -> None:
        for strand in self._supervisors:
            strand.cancel()

    # --- waiting

    def perform(self, step: StepOp) -> Future[bytes] | bytes:
        """A step; its value at once where replay has it and nothing else is to be done first.

        While branches are being started the next of them is: a step that went on would overtake it.
        """
        return self.port.issue(step) if self.starting else self.port.perform(step)

    async def wait(self, frame: Frame, future: Future[bytes]) -> bytes:
        """What an operation gives."""
        self.publish()
        line = frame.line or self._body
        line.operations += 1
        try:
            return await future
        finally:
            line.operations -= 1
            self.went_on()

    @asynccontextmanager
    async def waiting(self, frame: Frame) -> AsyncGenerator[None]:
        """While something is awaited that is no single operation."""
        self.publish()
        line = frame.line or self._body
        line.operations += 1
        try:
            yield
        finally:
            line.operations -= 1
            self.went_on()

    def went_on(self) -> None:
        self.budget.left = self.budget.limit
        self._recorded += 1

    async def within(self, frame: Frame, operation: Future[bytes], limit_ms: int, name: str) -> bytes:
        """What an operation gives within its limit; beyond it, it is cancelled and a `Timeout` raised."""
        timer = self.port.issue(SleepOp(f"limit:{name}", duration_ms=limit_ms))
        try:
            async with self.waiting(frame):
                await first_of([operation, timer])
            if operation.done():
                return operation.result()
        finally:
            for future in (operation, timer):
                if not future.done():
                    future.cancel()
        raise TwfError("TWF500", "Timeout", f"{name} took longer than {limit_ms / 1000:g}s", source=name)

    async def sleep(self, frame: Frame, name: str, duration: Any) -> None:
        try:
            length = milliseconds(duration_of(duration))
        except ValueError as error:
            raise Fault("TWF502", str(error)) from None
        await self.wait(frame, self.port.issue(SleepOp(name, duration_ms=length)))

    def _start_limits(self) -> None:
        """The timers that a workflow's own options ask for: over the chain, and over this run."""
        options = self.workflow.options
        if not options.entries:
            return
        try:
            said = options.values(Frame(self, self.variables, (), self._body))
            chain = said.get("workflowexecutiontimeout", said.get("timeout"))
            for started, limit in (
                (self._chain_started, chain),
                (self.port.started_at, said.get("workflowruntimeout")),
            ):
                if limit is not None:
                    self.supervise(self._limit(started + milliseconds(duration_of(limit)), limit))
        except (Fault, ValueError) as wrong:
            fault = wrong if isinstance(wrong, Fault) else Fault("TWF502", str(wrong))
            raise fault.at(self.workflow.file, self.workflow.line) from None
        except Stopped as wrong:
            self.stop(wrong.at(self.workflow.file, self.workflow.line))

    async def _limit(self, deadline: int, limit: Any) -> None:
        name = self.workflow.name
        await self.port.issue(SleepOp(f"limit:{name}", until_ms=deadline))
        seconds = duration_of(limit).total_seconds()
        message = f"the workflow took longer than {seconds:g}s"
        self.fail(TwfError("TWF500", "Timeout", message, source=name, file=self.workflow.file, line=self.workflow.line))

    # --- tokens and handles

    def next_order(self) -> int:
        """Numbers what finishes, so that the earliest can be told."""
        self._order += 1
        return self._order

    async def next_token(self, frame: Frame, key: Key) -> list[Any]:
        """The arguments of the oldest token; waits for one if there is none."""
        token = self.tokens.take(key)
        if token is not None:
            return token.args
        self.publish()
        line = frame.line or self._body
        waiter = Waiter(key, line, asyncio.get_running_loop().create_future())
        self.tokens.wait(waiter)
        if self.exit is not None:
            asyncio.get_running_loop().call_soon(self.look_at_end, context=self.root)
        try:
            token = await waiter.future
        except CancelledError:
            if waiter.future.done() and not waiter.future.cancelled():
                self.tokens.give_back(key, waiter.future.result())  # it lost meanwhile: messages are left alone
            raise
        finally:
            self.tokens.leave(waiter)
        self.budget.left = self.budget.limit
        return token.args

    def add_handle(self, run_id: str, handle: Handle) -> None:
        def ended(_: Future[Any]) -> None:
            handle.order = self.next_order()

        self.handles[run_id] = handle
        handle.future.add_done_callback(ended, context=self.root)

    # --- activities and children

    def performer(self, name: str) -> Performer:
        """Who performs an activity; the run is parked where nobody does."""
        found = self._performers.get(name)
        if found is None:
            activity = self.workflow.program.activities[name]
            found = Performer(activity, library().activity(name, self.bindings), self.bindings)
            missing = found.missing()
            if missing is not None:
                raise Stopped(*missing)
            self._performers[name] = found
        return found

    def child_target(self, name: str, namespace: str | None) -> Target:
        if namespace is not None and namespace not in library().namespaces:
            known = ", ".join(sorted(library().namespaces)) or "none"
            raise Stopped("TWF604", f'namespace "{namespace}" is not known here (known: {known})')
        return find_workflow(name, namespace, self.workflow.program)

    def child_input(self, name: str, namespace: str | None, args: list[Any], kwargs: dict[str, Any]) -> bytes:
        if namespace is None:
            return encode_call(args, kwargs)
        return encode_call([namespace, name, args, kwargs], {})

    # --- what queries see

    def publish(self) -> None:
        """Publishes the variables that queries read, if they may have changed."""
        names = self.workflow.queried
        if names is None or not (self.changed or self.workflow.asked):
            return
        self.changed = False
        values = {name: self.variables.get(name) for name in names}
        if self.workflow.asked:
            values[ABOUT] = {"now": self.port.now(), "id": self.port.run_id, "length": self._recorded}
        encoded = published(values)
        if encoded != self._published:
            self._published = encoded
            self.port.publish(encoded)

    # --- what expressions ask of their host

    def builtin(self, name: str) -> Callable[..., Any]:
        match name:
            case "now":
                return lambda: point(self.port.now())
            case "uuid":
                return lambda: str(UUID(bytes=self.port.entropy("uuid"), version=4))
            case "random":
                return self._random
            case "workflow_id":
                return lambda: self.port.run_id
            case _:
                return lambda: self._recorded

    def _random(self) -> float:
        seed = self.port.entropy("random")
        found = self._randoms.get(seed)
        if found is None:
            found = self._randoms[seed] = Random(int.from_bytes(seed, "big"))  # noqa: S311  # replayable by design
        return found.random()

    def function(self, name: str) -> Callable[..., Any]:
        return pure_function(name, self.bindings)

    def out_of_budget(self) -> None:
        budget = self.budget
        if budget.left >= 0:
            limit = settings.variable_bytes
            size, members = size_of(self.variables, limit)
            if size > limit:
                raise Stopped("TWF605", f"the variables take more than {limit:,} bytes")
            budget.grown = 0
            budget.left -= members // MEMBERS_A_UNIT  # measuring is work too
        if budget.left < 0:
            raise Stopped("TWF605", f"more than {budget.limit:,} units of work were done without suspending")

    def stop(self, error: TwfError) -> NoReturn:
        self.port.park(error)
