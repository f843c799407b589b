"""Our values in Temporal's payloads, and our errors in its failures.

What we write is one payload of bytes per call: the arguments as our codec writes them. What others write (another
language's client, a person with Temporal's own tools) is taken as one value per payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from temporalio.common import RawValue
from temporalio.converter import DefaultPayloadConverter
from temporalio.exceptions import ApplicationError

from tenuto.codec.values import dump, dump_error, load
from tenuto.errors import DecodingError, RemoteError

__all__ = ["arguments_of", "call_of", "carried_error", "carries", "carries_dumped", "details_of", "value_of"]

_ENCODING: Final = "encoding"
_OURS: Final = b"binary/plain"
_converter: Final = DefaultPayloadConverter()


def arguments_of(values: Sequence[RawValue]) -> bytes:
    """The encoded argument list of a message."""
    if len(values) == 1 and _is_ours(values[0]):
        return values[0].payload.data
    return dump([_foreign(value) for value in values])


def call_of(values: Sequence[RawValue]) -> tuple[bytes, bytes | None]:
    """The encoded `[args, kwargs]` a workflow was started with, and what the run before it in its chain left behind."""
    if values and _is_ours(values[0]):
        return values[0].payload.data, values[1].payload.data if len(values) > 1 else None
    return dump([[_foreign(value) for value in values], {}]), None


def value_of(value: Any) -> bytes:
    """The encoded value of a result that was asked for as a raw one."""
    if value is None:
        return dump(None)
    assert isinstance(value, RawValue)  # noqa: S101  # as asked for
    return value.payload.data if _is_ours(value) else dump(_foreign(value))


def _is_ours(value: RawValue) -> bool:
    return value.payload.metadata.get(_ENCODING) == _OURS


def _foreign(value: RawValue) -> Any:
    return _converter.from_payload(value.payload)


# --- errors


def carries(error: BaseException) -> ApplicationError:
    """An error as Temporal keeps it: class and message for people, our own record of it for us."""
    return _carries(error, dump_error(error))


def carries_dumped(dumped: bytes) -> ApplicationError:
    """The same of an error that is recorded already."""
    return _carries(load(dumped), dumped)


def _carries(error: BaseException, dumped: bytes) -> ApplicationError:
    return ApplicationError(str(error) or type(error).__name__, dumped, type=type(error).__name__, non_retryable=True)


def carried_error(failure: BaseException | None) -> bytes:
    """The dumped error that a failure carries; of a failure that is not ours, what it says."""
    details = details_of(failure)
    if details and isinstance(details[0], bytes):
        try:
            load(details[0])
        except DecodingError:
            pass  # somebody else's bytes
        else:
            return details[0]
    kind = getattr(failure, "type", None) or type(failure).__name__
    return dump(RemoteError(str(kind), getattr(failure, "message", "") or str(failure)))


def details_of(failure: BaseException | None) -> Sequence[Any]:
    return failure.details if isinstance(failure, ApplicationError) else ()
