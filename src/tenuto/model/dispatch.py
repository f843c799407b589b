"""What goes on inside a `receive`.

Rules:

1. Until a handler has returned nothing else is dispatched. Handlers run in tasks of their own, because the function
   of an `Async` goes on in its handler's scope while dispatch goes on too.
2. The state is copied when it is given out and when it is installed: no one but a returned state changes it.
3. `Stop`, the timer or a cancellation end dispatching; then functions in flight come to their end, and only then does
   the `receive`.
4. A checkpoint is committed when enough messages were dispatched and nothing is in flight, never while replaying.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError, Future, Task
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from tenuto.codec.values import dump, dump_error
from tenuto.errors import HandlerReturnError, Reject, UpdateFailedError
from tenuto.kernel.location import Segment
from tenuto.kernel.operations import Commit, Dispatch, Err, Handlers, Ok, SleepOp
from tenuto.model.definitions import ContinueAsNew
from tenuto.model.place import Place, Receiving, current, entered, here, is_control
from tenuto.model.replies import HANDLER_RESULTS, Async, NoReply, Received, Reply, Stop, Update
from tenuto.model.scopes import opened, outside
from tenuto.model.waiting import any_done, cancel_all, ended

__all__ = ["Dispatcher", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a `receive` was called."""

    name: str
    updates: Mapping[str, Update[Any]]
    signals: Mapping[str, Callable[..., Any]]
    timeout_ms: int | None
    checkpoint_every: int | None


class Dispatcher:
    """One `receive` while it runs."""

    def __init__(self, place: Place, plan: Plan, state: Any) -> None:
        self.state = state
        self._plan = plan
        self._port = place.port
        self._place = place
        names = frozenset(plan.signals)
        self._handler_place = place.inside("handler", Receiving(names, None))
        self._async_place = place.inside("async handler", Receiving(names, self._update_state))
        self._validator_place = place.inside("validator")
        self._tasks: dict[Task[None], None] = {}  # handlers and async functions in flight, oldest first
        self._timer: Future[bytes] | None = None
        self._timed_out = False
        self._count = 0  # dispatches, those before a checkpoint included
        self._committed = 0  # of them, how many a checkpoint has covered
        self._idle: Future[None] | None = None  # set when the last function in flight ends and a checkpoint is due

    async def run(self, encoded: bytes | None) -> Received[Any]:
        """Serves until the end; `encoded` is the initial state where checkpoints are asked for."""
        entering = self._port.now()
        stored = await self._port.commit(Commit(self._plan.name, 0, encoded, receive=True))
        if stored.state is not None:
            self.state = self._port.decode(stored.state)
        self._count = self._committed = stored.count
        above = outside()
        async with opened(self._place, stored.segment):
            try:
                self._port.listen(self._plan.name, self._handlers())
                self._arm(entering)
                await self._serve(stored.segment, above)
                self._stop_listening("not_accepting")
                await ended(list(self._tasks))
            except CancelledError:
                self._stop_listening("cancelled")
                await self._abandon()
                raise
        return Received(self.state, self._timed_out)

    async def _abandon(self) -> None:
        tasks = list(self._tasks)
        cancel_all(tasks)
        with suppress(CancelledError):  # a second one: all have ended by then, and the first is on its way out
            await ended(tasks)

    def _handlers(self) -> Handlers:
        updates = {key: self._validator(update) for key, update in self._plan.updates.items()}
        return Handlers(frozenset(self._plan.signals), updates)

    def _stop_listening(self, why: str) -> None:
        self._port.listen(None, Handlers(), why)
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()

    # --- dispatching

    async def _serve(self, segment: Segment, above: Context) -> None:
        """Returns when dispatching is over."""
        while not self._timed_out:
            if self._checkpoint_is_due():
                await self._commit(segment, above)
            dispatch = await self._next()
            if dispatch is None:
                continue
            self._count += 1
            stop = await self._start(dispatch)
            self._timed_out = self._timer is not None and self._timer.done()
            if stop:
                return

    def _arm(self, entering: int) -> None:
        """Starts the timer. With a timeout of 0 it ends when all that is stored has been looked at."""
        timeout_ms = self._plan.timeout_ms
        if timeout_ms is not None:
            self._timer = self._port.issue(SleepOp("timer", until_ms=entering + timeout_ms, poll=timeout_ms == 0))

    async def _next(self) -> Dispatch | None:
        """The next message; None when time is up, or a checkpoint is due."""
        taking = self._port.take() if self._plan.updates or self._plan.signals else None
        waiting: list[Future[Any]] = [future for future in (taking, self._timer) if future is not None]
        if self._plan.checkpoint_every is not None:
            self._idle = asyncio.get_running_loop().create_future()
            waiting.append(self._idle)
        try:
            await any_done(*waiting)
        finally:
            self._idle = None
            if taking is not None and not taking.done():
                taking.cancel()  # takes nothing
        if taking is not None and not taking.cancelled():
            return taking.result()
        self._timed_out = self._timer is not None and self._timer.done()
        return None

    # --- handlers

    def _start(self, dispatch: Dispatch) -> Future[bool]:
        """Begins to handle a message. The future: whether to stop, when its handler has returned."""
        loop = asyncio.get_running_loop()
        returned: Future[bool] = loop.create_future()
        # The scope is made here, below the receive; the task enters it instead of a scope of its own.
        task = loop.create_task(self._handle(dispatch, self._port.scope(dispatch.segment), returned))
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return returned

    def _forget(self, task: Task[None]) -> None:
        self._tasks.pop(task, None)
        if self._idle is not None and not self._idle.done() and self._checkpoint_is_due():
            self._idle.set_result(None)

    async def _handle(
        self, dispatch: Dispatch, scope: AbstractAsyncContextManager[None], returned: Future[bool]
    ) -> None:
        answer: Ok | Err | None = None
        stop = False
        try:
            async with scope:
                here.set(self._handler_place)
                result = _checked(dispatch, await self._call(dispatch))
                if isinstance(result, Async):
                    self._install(result.state)
                    _resolve(returned, False)
                    here.set(self._async_place)
                    answer = _answer(dispatch, _async_value(dispatch, await result.fn()))
                else:
                    answer = _answer(dispatch, _value(result))
            if not isinstance(result, Async):
                self._install(result.state)
                stop = isinstance(result, Stop)
        except CancelledError as error:
            answer = self._failure(dispatch, "cancelled", error)
            raise
        except BaseException as error:  # part of the model's contract: a handler may raise anything; the run goes on
            if is_control(error, self._port):
                raise
            answer = self._failure(dispatch, "handler", error)
        finally:
            if answer is not None and dispatch.update_id is not None:
                self._port.reply(dispatch.update_id, answer)
            _resolve(returned, stop)

    async def _call(self, dispatch: Dispatch) -> Any:
        args = self._port.decode(dispatch.args)
        if dispatch.kind == "update":
            handler: Callable[..., Any] = self._plan.updates[dispatch.name].handler
        else:
            handler = self._plan.signals[dispatch.name]
        result = handler(deepcopy(self.state), *args)
        return await result if inspect.isawaitable(result) else result

    def _failure(self, dispatch: Dispatch, why: str, error: BaseException) -> Err | None:
        if dispatch.kind == "signal":
            if why == "handler":
                self._port.log(f"handler of signal {dispatch.name!r} raised {type(error).__name__}: {error}")
            return None
        failed = UpdateFailedError(why)
        failed.__cause__ = error if why == "handler" else None
        return Err(dump_error(failed))

    # --- the state

    def _install(self, state: Any) -> None:
        self.state = deepcopy(state)

    def _update_state(self, fn: Callable[[Any], Any]) -> Any:
        """What `update_state` does: see `state.update_state`."""
        published: list[bytes] = []
        with entered(current("update_state()").inside("closure", published=published)):
            pair = fn(deepcopy(self.state))
        if inspect.iscoroutine(pair):
            pair.close()  # an async def: its body was never entered
        if type(pair) is not tuple or len(cast("tuple[Any, ...]", pair)) != 2:  # type: ignore[redundant-cast]  # not to pyright
            raise HandlerReturnError(
                f"the function given to update_state returned {pair!r}; it returns (result, new state)"
            )
        result, state = cast("tuple[Any, Any]", pair)
        self._install(state)
        if published:
            self._port.publish(published[-1])
        return result

    def _validator(self, update: Update[Any]) -> Callable[[bytes], str | None]:
        """What an engine asks before it admits an update: why not, or None."""
        validator = update.validator
        if validator is None:
            return _accept

        def validate(encoded: bytes) -> str | None:
            args = self._port.decode(encoded)
            try:
                with entered(self._validator_place):
                    validator(deepcopy(self.state), *args)
            except Reject as refusal:
                return refusal.reason
            except BaseException as error:  # part of the model's contract: whatever a validator raises rejects
                if is_control(error, self._port):
                    raise
                return str(error) or type(error).__name__
            return None

        return validate

    # --- checkpoints

    def _checkpoint_is_due(self) -> bool:
        every = self._plan.checkpoint_every
        return (
            every is not None
            and self._count - self._committed >= every
            and not any(not task.done() for task in self._tasks)
            and not self._port.replaying
        )

    async def _commit(self, segment: Segment, above: Context) -> None:
        commit = Commit(self._plan.name, self._count, dump(self.state), segment, keep=self._count, receive=True)
        committed = await above.run(self._port.commit, commit)
        self._committed = self._count
        self.state = self._port.decode(committed.state or b"")


def _accept(_: bytes) -> None:
    return None


def _resolve(returned: Future[bool], stop: bool) -> None:
    if not returned.done():
        returned.set_result(stop)


def _checked(dispatch: Dispatch, result: Any) -> Reply[Any] | NoReply[Any] | Stop[Any] | Async[Any]:
    allowed = (Reply, Stop, Async) if dispatch.kind == "update" else (NoReply, Stop, Async)
    if not isinstance(result, allowed):
        names = ", ".join(item.__name__ for item in allowed)
        what = f"the handler of {dispatch.kind} {dispatch.name!r}"
        raise HandlerReturnError(f"{what} returned {type(result).__name__}; it returns one of {names}")
    return cast("Reply[Any]", result)  # or one of the others


def _value(result: Reply[Any] | NoReply[Any] | Stop[Any]) -> object:
    match result:
        case Reply(value=value):
            return value
        case Stop(reply=reply):
            return reply
        case NoReply():
            return None


def _async_value(dispatch: Dispatch, value: object) -> object:
    if type(value) in (*HANDLER_RESULTS, ContinueAsNew):
        what = f"the async function of {dispatch.kind} {dispatch.name!r}"
        raise HandlerReturnError(f"{what} returned {type(value).__name__}, which only handlers and runs return")
    return value


def _answer(dispatch: Dispatch, value: object) -> Ok | None:
    return Ok(dump(value)) if dispatch.kind == "update" else None
