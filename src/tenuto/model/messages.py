"""Taking signals in order, and sending them to other runs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tenuto.codec.values import dump
from tenuto.errors import NestingError
from tenuto.kernel.location import check_name
from tenuto.kernel.operations import ChildOp, WaitOp
from tenuto.kernel.records import ChildMode
from tenuto.model.durations import Duration, milliseconds
from tenuto.model.place import Place, current

__all__ = ["signal", "unpack", "wait_for_signal"]


def wait_for_signal(
    signal: str, /, *, timeout: Duration | None = None, name: str | None = None
) -> Coroutine[Any, Any, Any]:
    """What the oldest signal of that name carried, waiting for one if none is there.

    `None`, the value, or a tuple for none, one, or more arguments. `TimeoutError` once the timeout has passed.

        approved = await wait_for_signal("approval", timeout="3 days")
    """
    _check(current("wait_for_signal()"), signal)
    limit_ms = None if timeout is None else milliseconds(timeout)
    operation = WaitOp(check_name(name or f"signal:{signal}"), (check_name(signal),), limit_ms)
    return _wait(operation)


async def _wait(operation: WaitOp) -> Any:
    place = current("wait_for_signal()")
    _check(place, operation.signals[0])
    port = place.port
    return unpack(port.decode(await port.issue(operation)))


def _check(place: Place, signal: str) -> None:
    receiving = place.receiving
    if receiving is not None and signal in receiving.names:
        raise NestingError(
            f"wait_for_signal({signal!r}) inside a receive() that handles {signal!r} itself: the wait would never end;"
            " leave it to the handler, or wait for another name"
        )


def unpack(args: list[Any]) -> Any:
    """A signal's arguments as the one value that a wait gives."""
    match args:
        case []:
            return None
        case [only]:
            return only
        case _:
            return tuple(args)


def signal(run_id: str, signal: str, /, *args: object, name: str | None = None) -> Coroutine[Any, Any, None]:
    """Sends a signal to another run, exactly once; a run that is gone drops it with a warning in the log.

    await signal(order_id, "paid", amount)
    """
    current("signal()")
    check_name(run_id)
    payload = dump(list(args))
    return _send(ChildOp(check_name(name or f"send:{signal}"), ChildMode.SEND, run_id, check_name(signal), payload))


async def _send(operation: ChildOp) -> None:
    await current("signal()").port.issue(operation)
