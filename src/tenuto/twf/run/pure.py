"""Host functions that workflow code and queries may call: those that are bound as pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tenuto.errors import TwfError

from .bindings import Bindings
from .failures import type_and_message
from .faults import Stopped
from .library import library
from .values import incoming, outgoing

__all__ = ["pure_function"]


def pure_function(name: str, bindings: Bindings | None) -> Callable[..., Any]:
    """A host function that workflow code and queries may call."""
    bound = library().function(name, bindings)
    if bound is None:
        raise Stopped("TWF602", f"host function {name} is not bound")
    if not bound.pure:
        raise Stopped("TWF602", f"host function {name} is not pure: workflow code calls it through an activity")
    known = bound

    def call(*args: Any, **kwargs: Any) -> Any:
        fitted, named = known.fit([outgoing(value) for value in args], {k: outgoing(v) for k, v in kwargs.items()})
        try:
            value = known.fn(*fitted, **named)
        except Exception as error:  # the function may raise anything: it becomes the program's failure
            sort, message, details = type_and_message(error)
            raise TwfError("TWF500", sort, message, details=details, source=name) from error
        if asyncio.iscoroutine(value):
            value.close()
            raise Stopped("TWF602", f"host function {name} is async, which no pure function is")
        return incoming(value)

    return call
