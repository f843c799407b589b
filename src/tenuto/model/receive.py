"""The reducer over updates and signals: `receive` serves messages one at a time until a handler says stop."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Mapping
from copy import deepcopy
from typing import Any, Final, TypeGuard, TypeVar, cast

from tenuto.codec.values import dump
from tenuto.errors import NestingError, ReceiveConfigError
from tenuto.kernel.location import check_name
from tenuto.model.dispatch import Dispatcher, Plan
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.place import Place, current, in_main_task
from tenuto.model.replies import Received, SignalHandler, Update, UpdateHandler

__all__ = ["partial_state", "receive"]

S = TypeVar("S")

_PARTIAL: Final = "_tenuto_partial_state"


def receive(
    state: S,
    /,
    *,
    updates: Mapping[str, UpdateHandler[S] | Update[S]] | None = None,
    signals: Mapping[str, SignalHandler[S]] | None = None,
    timeout: Duration | None = None,
    checkpoint_every: int | None = None,
    name: str = "receive",
) -> Coroutine[Any, Any, Received[S]]:
    """The last state, after messages were handled one at a time until a handler returned `Stop` or time was up.

    Handlers are `handler(state, *args)`, `def` or `async def`. They get a copy of the state; only what they return
    counts. `checkpoint_every=N` bounds history: after N messages the state is stored and replay starts from there, so
    only the state may carry anything from one message to later ones, and steps before that are no longer undone.

        def add(items: list[str], item: str) -> Reply[list[str]]:
            return Reply(len(items) + 1, [*items, item])

        def pay(items: list[str]) -> Stop[list[str]]:
            return Stop(items)

        items, timed_out = await receive([], updates={"add": add}, signals={"pay": pay}, timeout="1h")
    """
    _check_place(current("receive()"))
    if checkpoint_every is not None and (type(checkpoint_every) is not int or checkpoint_every < 1):
        raise ValueError(f"checkpoint_every= is a whole number of at least 1, not {checkpoint_every!r}")
    handled = _updates(updates or {})
    listened = {check_name(key): _handler("signal", key, fn) for key, fn in (signals or {}).items()}
    if not handled and not listened and timeout is None:
        raise ReceiveConfigError("receive() has no handler and no timeout: it could never end")
    plan = Plan(
        check_name(name), handled, listened, None if timeout is None else milliseconds(timeout), checkpoint_every
    )
    return _receive(plan, deepcopy(state), None if checkpoint_every is None else dump(state))


async def _receive(plan: Plan, state: Any, encoded: bytes | None) -> Received[Any]:
    place = current("receive()")
    _check_place(place)
    dispatcher = Dispatcher(place, plan, state)
    try:
        return await dispatcher.run(encoded)
    except CancelledError as error:
        setattr(error, _PARTIAL, dispatcher.state)
        raise


def partial_state(error: CancelledError, /) -> Any:
    """The state that a cancelled `receive` had come to; `None` if the cancellation came from elsewhere.

    try:
        done = await receive(...)
    except CancelledError as error:
        await give_back(partial_state(error))
        raise
    """
    return deepcopy(getattr(error, _PARTIAL, None))


def _check_place(place: Place) -> None:
    if in_main_task(place):
        return
    where = (
        "an asyncio task"
        if place.kind == "run"
        else f"a {place.kind}"
        if place.kind != "async handler"
        else "an async handler function"
    )
    raise NestingError(f"receive() was called in {where}; only the run's own code receives, one at a time")


def _updates(updates: Mapping[str, Any]) -> dict[str, Update[Any]]:
    checked: dict[str, Update[Any]] = {}
    for key, given in updates.items():
        update = given if _is_update(given) else Update(given)
        _handler("update", key, update.handler)
        validator: Any = update.validator
        if validator is not None and (not callable(validator) or inspect.iscoroutinefunction(validator)):
            raise ReceiveConfigError(f"the validator of update {key!r} is a plain def; it decides without waiting")
        checked[check_name(key)] = update
    return checked


def _is_update(given: object) -> TypeGuard[Update[Any]]:
    return isinstance(given, Update)


def _handler(sort: str, key: str, handler: Any) -> Callable[..., Any]:
    if not callable(handler):
        raise ReceiveConfigError(f"the handler of {sort} {key!r} is {handler!r}, which cannot be called")
    return cast("Callable[..., Any]", handler)
