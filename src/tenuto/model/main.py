"""The root coroutine of a run, which an engine runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tenuto.codec.values import dump
from tenuto.errors import HandlerReturnError
from tenuto.kernel.operations import Completed, Continued, Outcome
from tenuto.model.definitions import ContinueAsNew, Workflow, definition_of, encode_call
from tenuto.model.loops import Break, Continue
from tenuto.model.place import Place, RunContext, here
from tenuto.model.port import Port, current_port
from tenuto.model.registry import Registry
from tenuto.model.replies import HANDLER_RESULTS, Update
from tenuto.model.view import body_of

__all__ = ["definition_of", "run_main"]

_NO_RESULT = (*HANDLER_RESULTS, Continue, Break, Update)


async def run_main(
    workflow: Workflow[..., Any],
    port: Port,
    input: bytes,  # noqa: A002  # its public name
    parent_id: str | None,
    enter: Callable[[], None] | None = None,
    registry: Registry | None = None,
) -> Outcome:
    """How the run ended: `Completed` with its encoded value or `Continued` with the next input.

    Raises what the workflow's function raised; the engine makes its outcome of that. `enter` is called first, in the
    run's own context; `registry` is where its code finds definitions by name.
    """
    if enter is not None:
        enter()
    if registry is not None:
        registry.apply()
    current_port.set(port)
    here.set(Place("run", port, RunContext(workflow.id, parent_id, asyncio.current_task())))
    args, kwargs = port.decode(input)
    result = await body_of(workflow.fn)(*args, **kwargs)
    if isinstance(result, ContinueAsNew):
        return Continued(encode_call(result.args, result.kwargs))
    if type(result) in _NO_RESULT:
        raise HandlerReturnError(
            f"workflow {workflow.name!r} returned {type(result).__name__}, which only handlers return"
        )
    return Completed(dump(result))
