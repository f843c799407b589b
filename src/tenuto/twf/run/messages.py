"""Messages in two phases: a handler runs when a message is dispatched, and leaves a token when it has finished.

Rules:

1. Messages are dispatched in the order they arrived, never before the body's first suspension and never after its end.
2. An update is answered before anything after a matching `await` runs.
3. A failed signal handler fails the run; a failed update handler fails the update. Neither leaves a token.
4. After the body's end handlers finish. One that only a message could wake is cancelled, for none will come.
"""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING, Any, Literal, cast

from tenuto.codec.values import dump, dump_error, load
from tenuto.errors import DecodingError, EncodingError, LimitError, UpdateFailedError
from tenuto.kernel.operations import Dispatch, Err, Handlers, Ok

from .faults import Fault
from .frames import Frame
from .lines import Key, Line, Token
from .statements import Exit
from .strands import Strand

if TYPE_CHECKING:
    from .compiled import CompiledHandler
    from .execution import Execution

__all__ = ["Messages"]


class Messages:
    """The handlers of one run."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._taking: Future[Dispatch] | None = None
        self._stopped = False
        self._lines: dict[Line, None] = {}  # handlers under way

    def listen(self) -> None:
        """From now on messages wait for their handler."""
        workflow = self._execution.workflow
        known = ", ".join(workflow.updates) or "none"
        updates = {name: _validator(handler) for name, handler in workflow.updates.items()}
        otherwise = ("not_accepting", f"workflow {workflow.name} has no such update; it has: {known}")
        self._execution.port.listen(
            None, Handlers(frozenset(workflow.signals), updates, by_kind=True, otherwise=otherwise)
        )

    def start(self) -> None:
        """The body has suspended: messages are dispatched."""
        workflow = self._execution.workflow
        if not self._stopped and (workflow.signals or workflow.updates):
            self._take()

    def stop(self, why: str | None) -> None:
        """Nothing is dispatched any more. `why`: how updates are rejected; None leaves them to the next run."""
        self._stopped = True
        taking, self._taking = self._taking, None
        if taking is not None and not taking.done():
            taking.cancel()
        if why is not None:
            self._execution.port.listen(None, Handlers(otherwise=(why, None)), why)

    def _take(self) -> None:
        self._taking = self._execution.port.take()
        self._taking.add_done_callback(self._dispatched, context=self._execution.root)

    def _dispatched(self, future: Future[Dispatch]) -> None:
        if future.cancelled() or self._stopped:
            return
        self._begin(future.result())
        if not self._stopped:
            self._take()

    # --- phase one

    def _begin(self, dispatch: Dispatch) -> None:
        execution = self._execution
        table = execution.workflow.signals if dispatch.kind == "signal" else execution.workflow.updates
        handler = table[dispatch.name]
        kind: Literal["signal", "update"] = dispatch.kind
        line = Line((kind, dispatch.name), dispatch.update_id)
        args: list[Any] = []
        self._lines[line] = None
        line.strand = execution.strand(
            self._run(line, handler, dispatch, args), lambda strand: self._ended(line, strand, args)
        )

    async def _run(self, line: Line, handler: CompiledHandler, dispatch: Dispatch, args: list[Any]) -> Any:
        execution = self._execution
        async with execution.port.scope(dispatch.segment):
            given = execution.port.decode(dispatch.args)
            try:
                args.extend(handler.parameters.receive(given, {}))
            except Fault as fault:
                if fault.code == "TWF505" and dispatch.kind == "signal":
                    execution.port.log(f"signal {dispatch.name} was discarded: {fault.message}")
                    return _DISCARDED
                raise fault.at(execution.workflow.file, handler.line) from None
            local = dict(zip(handler.parameters.names, args, strict=True))
            flow = await handler.block.run(Frame(execution, execution.variables, (local,), line))
        return flow.value if isinstance(flow, Exit) else None

    # --- phase two

    def _ended(self, line: Line, strand: Strand, args: list[Any]) -> None:
        execution = self._execution
        self._lines.pop(line, None)
        if strand.cancelled:
            return
        key = cast("Key", line.key)
        error = strand.error
        if error is not None and line.update_id is None:
            execution.fail(error)
            return
        answered = line.update_id is None or self._answer(line.update_id, strand.value, error)
        if answered and strand.value is not _DISCARDED and key in execution.workflow.awaited:
            execution.tokens.put(key, Token(execution.next_order(), args))
        execution.publish()
        if execution.exit is not None:
            execution.look_at_end()

    def _answer(self, update_id: str, value: Any, error: Exception | None) -> bool:
        """Answers an update; whether its handler succeeded."""
        port = self._execution.port
        if error is None:
            try:
                port.reply(update_id, Ok(dump(value)))
                return True
            except (EncodingError, LimitError) as refused:
                error = refused
        failed = UpdateFailedError("handler")
        failed.__cause__ = error
        port.reply(update_id, Err(dump_error(failed)))
        return False

    # --- the end

    def over(self) -> bool:
        """Whether all handlers have ended, after those that nothing will wake were cancelled."""
        for line in self._hopeless():
            self._lines.pop(line, None)
            if line.strand is not None:
                line.strand.cancel()
            if line.update_id is not None:
                self._execution.port.reply(line.update_id, Err(dump_error(UpdateFailedError("closed"))))
        return not self._lines

    def _hopeless(self) -> list[Line]:
        alive = {line for line in self._lines if line.operations or _has_token(line) or not line.tokens}
        while True:
            names = {line.key for line in alive}
            more = {
                line for line in self._lines if line not in alive and any(waiter.key in names for waiter in line.tokens)
            }
            if not more:
                return [line for line in self._lines if line not in alive]
            alive |= more


_DISCARDED = object()


def _has_token(line: Line) -> bool:
    return any(waiter.future.done() for waiter in line.tokens)


def _validator(handler: CompiledHandler) -> Any:
    def validate(encoded: bytes) -> str | None:
        try:
            handler.parameters.fit(load(encoded), {})
        except Fault as fault:
            return fault.message
        except DecodingError as error:
            return str(error)
        return None

    return validate
