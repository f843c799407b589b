"""Small impure values: computed once, recorded, and the same on every replay."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenuto.codec.values import dump_error, dump_result
from tenuto.errors import SideEffectError
from tenuto.kernel.location import check_name
from tenuto.kernel.operations import Err, Ok, SideEffectOp
from tenuto.model.place import current, entered, is_control

__all__ = ["side_effect"]

T = TypeVar("T")


def side_effect(fn: Callable[[], T], /, *, name: str = "side_effect") -> Coroutine[Any, Any, T]:
    """What `fn()` gave when it was recorded; `fn` is a plain function that returns at once and calls nothing of Tenuto.

    If it raises, or gives something that cannot be stored, that is recorded as well: `SideEffectError`, always.

        host = await side_effect(socket.gethostname)
    """
    current("side_effect()")
    if not callable(fn):  # pyright: ignore[reportUnnecessaryComparison]  # callers without a type checker
        raise TypeError(f"side_effect takes a function without arguments, not {fn!r}")
    if inspect.iscoroutinefunction(fn):
        raise TypeError("side_effect takes a plain function; something to await belongs in a step")
    return _side_effect(fn, check_name(name))


async def _side_effect(fn: Callable[[], T], name: str) -> T:
    place = current("side_effect()")

    def run() -> Ok | Err:
        try:
            with entered(place.inside("side effect")):
                value = fn()
            return Ok(dump_result(value))
        except BaseException as cause:  # part of the model's contract: what the function raises becomes data
            if is_control(cause, place.port):
                raise
            error = SideEffectError(f"side effect {name!r} failed: {type(cause).__name__}: {cause}")
            error.__cause__ = cause
            return Err(dump_error(error))

    value: T = place.port.decode(await place.port.issue(SideEffectOp(name, run)))
    return value
