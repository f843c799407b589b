"""Performs attempts of steps and rollback handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tenuto.codec.values import dump, dump_result
from tenuto.errors import EncodingError, LimitError, RetryableError
from tenuto.kernel.commands import RunRollback, RunStep
from tenuto.kernel.interrupts import is_imposed
from tenuto.kernel.operations import Err, Ok
from tenuto.model.durations import milliseconds
from tenuto.model.steps import Attempt, run_attempt, run_rollback
from tenuto.system import LOOP_THREADS, Runner

__all__ = ["perform"]


async def perform(command: RunStep | RunRollback, attempt: Attempt, runner: Runner = LOOP_THREADS) -> Ok | Err:
    """How one attempt ended. The value is encoded at once, so that later mutation cannot reach history.

    To be awaited in a context of the attempt's own.
    """
    try:
        if isinstance(command, RunStep):
            call: Any = command.call  # the model's own, opaque to the kernel
            value: Any = await run_attempt(call, attempt, runner)
        else:
            handler = cast("Callable[[Any], object]", command.handler)
            await run_rollback(handler, command.result, attempt, runner)
            value = None
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        return Err(dump(error))  # out of the step's own code: nobody asked it to stop
    except BaseException as error:  # edge 1 of 3: a step may raise anything; it becomes data
        if is_imposed(error):
            raise
        return Err(dump(error), after_ms=_asked_delay(error))
    try:
        return Ok(dump_result(value))
    except (EncodingError, LimitError) as error:
        return Err(dump(error), unencodable=True)


def _asked_delay(error: BaseException) -> int | None:
    if not isinstance(error, RetryableError) or error.after is None:
        return None
    try:
        return milliseconds(error.after)
    except (ValueError, TypeError):
        return None  # an unreadable wish is no wish: the step's own back-off holds
