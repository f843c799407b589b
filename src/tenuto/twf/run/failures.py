"""How a program fails (TWF5xx) and why it cannot go on (TWF6xx)."""

from __future__ import annotations

from typing import Any, Final, cast

from tenuto.errors import ChildError, FatalError, RemoteError, StepFailedError, StepTimeoutError, TwfError

from .faults import Fault, Stopped
from .values import text_of

__all__ = ["Fault", "FinalFailure", "Stopped", "closed_with", "failure_of", "type_and_message"]

_MESSAGE_KEYS: Final = ("message", "error", "reason", "status")


class FinalFailure(TwfError, FatalError):
    """A failure inside an activity that another attempt would only repeat."""


def type_and_message(error: BaseException) -> tuple[str, str, Any]:
    """Type, message and details of a failure, as programs speak of them."""
    if isinstance(error, TwfError):
        return error.type, error.message, error.details
    if isinstance(error, RemoteError):
        return error.type_name.rpartition(":")[2].rpartition(".")[2], error.message, None
    if isinstance(error, TimeoutError):
        return "Timeout", str(error) or "ran out of time", None
    return type(error).__name__, str(error), None


def failure_of(error: BaseException, source: str, file: str, line: int) -> TwfError:
    """The failure of an activity or child, raised where it was awaited: original type, message and details."""
    cause: BaseException = error
    while isinstance(cause, StepFailedError | ChildError) and cause.__cause__ is not None:
        cause = cause.__cause__
    sort, message, details = type_and_message(cause)
    if isinstance(error, StepTimeoutError):
        sort = "Timeout"
    code = cause.code if isinstance(cause, TwfError) and cause.code.startswith("TWF5") else "TWF500"
    failure = TwfError(code, sort, message, details=details, source=source, file=file, line=line)
    failure.__cause__ = error
    return failure


def closed_with(value: Any, type_name: str | None, file: str, line: int) -> TwfError:
    """What `close failed value` fails the run with."""
    sort = type_name or "Failed"
    message = sort
    if isinstance(value, str):
        message = value
    elif isinstance(value, dict):
        said = cast("dict[str, Any]", value)
        message = next((text_of(said[key]) for key in _MESSAGE_KEYS if said.get(key) is not None), sort)
    return TwfError("TWF500", sort, message, details=value, file=file, line=line)
