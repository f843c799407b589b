"""Queries: read-only code over the variables of the last committed turn, in the asking process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from random import random
from typing import Any, NoReturn

from tenuto.errors import TwfError
from tenuto.model.durations import point

from .bindings import Bindings
from .compiled import CompiledHandler, CompiledWorkflow
from .faults import Fault, Stopped
from .frames import Budget, Frame
from .published import ABOUT
from .pure import pure_function
from .settings import settings
from .statements import Exit
from .values import incoming

__all__ = ["query_function"]


def query_function(
    workflow: CompiledWorkflow, handler: CompiledHandler, bindings: Bindings | None
) -> Callable[..., Any]:
    """The plain function of the published state that answers a query."""

    def query(state: Mapping[str, Any] | None, *args: Any, **kwargs: Any) -> Any:
        seen = dict(state or {})
        host = _Reader(bindings, seen.pop(ABOUT, None) or {})
        try:
            values = handler.parameters.receive(args, kwargs)
        except Fault as fault:
            raise fault.at(workflow.file, handler.line) from None
        block = handler.block.plain
        assert block is not None  # noqa: S101  # queries never suspend
        local = dict(zip(handler.parameters.names, values, strict=True))
        variables: dict[str, Any] = incoming(seen)
        flow = block(Frame(host, variables, (local,)))
        return flow.value if isinstance(flow, Exit) else None

    query.__name__ = handler.name
    return query


class _Reader:
    """Who executes a query."""

    changed = False

    def __init__(self, bindings: Bindings | None, about: Mapping[str, Any]) -> None:
        self.budget = Budget(settings.units)
        self._bindings = bindings
        self._about = about  # the run, as of its last committed turn

    def builtin(self, name: str) -> Callable[..., Any]:
        match name:
            case "now":
                return lambda: point(self._about.get("now", 0))
            case "uuid":
                return lambda: str(uuid.uuid4())
            case "random":
                return random
            case "workflow_id":
                return lambda: self._about.get("id")
            case _:
                return lambda: self._about.get("length", 0)

    def function(self, name: str) -> Callable[..., Any]:
        return pure_function(name, self._bindings)

    def out_of_budget(self) -> None:
        if self.budget.left < 0:
            raise Stopped("TWF605", f"the query did more than {self.budget.limit:,} units of work")
        self.budget.grown = 0

    def stop(self, error: TwfError) -> NoReturn:
        raise error
