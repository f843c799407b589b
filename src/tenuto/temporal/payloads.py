"""Our values in Temporal's payloads, and our errors in its failures.

Rules:

1. What we write is one payload of bytes per call, the arguments as our codec writes them, with a mark of ours in its
   metadata. What others write (another language's client, a person with Temporal's own tools) is taken as one value per
   payload; their bytes without the mark are `bytes`.
2. Before there was a mark our payloads looked like anybody's bytes. So a run that was not started with the mark reads
   unmarked bytes as ours when they have our form: what its history holds is read as it was written (P9).
3. What cannot be read is `DecodingError`, whatever the converter made of it.
4. Who sent JSON is answered in JSON where the value has that form; for us the same payload has our bytes beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeGuard

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import DefaultPayloadConverter
from temporalio.exceptions import ApplicationError

from tenuto.codec.limits import ValueLimits
from tenuto.codec.values import dump, dump_error, load
from tenuto.errors import DecodingError, EncodingError, LimitError, RemoteError

__all__ = [
    "ERRORS",
    "Call",
    "answer",
    "arguments_of",
    "call_of",
    "carried_error",
    "carries",
    "carries_dumped",
    "cut",
    "details_of",
    "is_foreign",
    "ours",
    "payload_of",
    "record_of",
    "unmarked",
    "value_of",
]

ERRORS: Final = ValueLimits(size=256 * 1024)  # of the record of an error: a failure has room for it and its texts
MESSAGE_BYTES: Final = 4 * 1024  # of a failure's message, which people read
_ENCODING: Final = "encoding"
_PLAIN: Final = b"binary/plain"
_JSON: Final = b"json/plain"
JSON_BYTES: Final = 512 * 1024  # of a value that an answer has twice
_MARK: Final = "tenuto"
_VERSION: Final = b"1"
_RESEND: Final = "send a value that Temporal's own converter reads: JSON, bytes or nothing"
_converter: Final = DefaultPayloadConverter()


class Call(NamedTuple):
    """What a run was started with."""

    input: bytes  # encoded [args, kwargs]
    carried: bytes | None  # what the run before it in its chain left behind
    is_marked: bool  # unmarked bytes sent to this run are not ours
    is_foreign: bool = False  # somebody else started it


def payload_of(data: bytes) -> Payload:
    """What our codec wrote, as a payload that says so."""
    return Payload(metadata={_ENCODING: _PLAIN, _MARK: _VERSION}, data=data)


def ours(data: bytes) -> RawValue:
    """The same where the SDK takes a value."""
    return RawValue(payload_of(data))


def unmarked(data: bytes) -> RawValue:
    """The same without the mark, for the next run of a chain that began without (rule 2)."""
    return RawValue(Payload(metadata={_ENCODING: _PLAIN}, data=data))


def arguments_of(values: Sequence[RawValue], *, is_marked: bool = False) -> bytes:
    """The encoded argument list of a message to a run that was, or was not, started with the mark."""
    if len(values) == 1:
        payload = values[0].payload
        if _is_ours(payload) or (not is_marked and _may_be_ours(payload) and _has_form(payload.data, _is_list)):
            return payload.data
    return _encoded([_foreign(value) for value in values])


def call_of(values: Sequence[RawValue]) -> Call:
    """What the payloads of a start say."""
    payloads = [value.payload for value in values]
    carried = payloads[1].data if len(payloads) > 1 else None
    if payloads and _is_ours(payloads[0]):
        return Call(payloads[0].data, carried, is_marked=True)
    if payloads and _may_be_ours(payloads[0]) and _has_form(payloads[0].data, _is_call):
        return Call(payloads[0].data, carried, is_marked=False)
    return Call(_encoded([[_foreign(value) for value in values], {}]), None, is_marked=False, is_foreign=True)


def is_foreign(values: Sequence[RawValue]) -> bool:
    """True of a message that somebody else's client sent: ours have one payload of bytes."""
    return len(values) != 1 or not _may_be_ours(values[0].payload)


def answer(data: bytes, *, as_json: bool) -> RawValue:
    """A result as those read it who asked for it (rule 4)."""
    if as_json and len(data) <= JSON_BYTES:
        try:
            written = json.dumps(load(data), allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError):
            return ours(data)  # it has no form in JSON
        return RawValue(Payload(metadata={_ENCODING: _JSON, _MARK: data}, data=written))
    return ours(data)


def value_of(value: Any, *, plain_is_ours: bool = False) -> bytes:
    """The encoded value of a result that was asked for as a raw one; in a run of before there was a mark, as then."""
    if value is None:
        return dump(None)
    assert isinstance(value, RawValue)  # noqa: S101  # as asked for
    payload = value.payload
    if payload.metadata.get(_ENCODING) == _JSON and _MARK in payload.metadata:
        return payload.metadata[_MARK]
    if _is_ours(payload) or (_may_be_ours(payload) and (plain_is_ours or _has_form(payload.data, _is_anything))):
        return payload.data
    return _encoded(_foreign(value))


def _is_ours(payload: Payload) -> bool:
    return payload.metadata.get(_ENCODING) == _PLAIN and _MARK in payload.metadata


def _may_be_ours(payload: Payload) -> bool:
    return payload.metadata.get(_ENCODING) == _PLAIN


def _has_form(data: bytes, fits: Any) -> bool:
    """True if these bytes are what our codec writes (rule 2), be it of a class that is not loaded here."""
    try:
        return bool(fits(load(data)))
    except DecodingError as error:
        return error.type_name != ""


def _is_anything(_: object) -> bool:
    return True


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return type(value) is list


def _is_call(value: object) -> bool:
    return _is_list(value) and len(value) == 2 and _is_list(value[0]) and type(value[1]) is dict


def _foreign(value: RawValue) -> Any:
    """The value of somebody else's payload (rule 3)."""
    encoding = value.payload.metadata.get(_ENCODING, b"").decode(errors="replace")
    try:
        return _converter.from_payload(value.payload)
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        raise DecodingError("$", "", f"a payload of encoding {encoding!r} cannot be read: {error}", _RESEND) from error


def _encoded(value: Any) -> bytes:
    try:
        return dump(value)
    except (EncodingError, LimitError) as error:
        raise DecodingError("$", "", f"what was sent has no form of ours: {error.args[0]}", _RESEND) from error


# --- errors


def carries(error: BaseException) -> ApplicationError:
    """An error as Temporal keeps it: class and message for people, our own record of it for us."""
    return _carries(error, dump_error(error, ERRORS))


def carries_dumped(dumped: bytes) -> ApplicationError:
    """The same of an error that is recorded already."""
    error = load(dumped)
    return _carries(error, record_of(error, dumped))


def _carries(error: BaseException, dumped: bytes) -> ApplicationError:
    message = cut(str(error) or type(error).__name__)
    return ApplicationError(message, dumped, type=type(error).__name__, non_retryable=True)


def record_of(error: BaseException, dumped: bytes) -> bytes:
    """The record of an error, made shorter where a failure has no room for all of it."""
    return dumped if len(dumped) <= ERRORS.size else dump_error(error, ERRORS)


def cut(message: str) -> str:
    """A failure's message: its beginning, where it is long. The server allows no more than a failure of 2 MiB."""
    data = message.encode(errors="backslashreplace")
    if len(data) <= MESSAGE_BYTES:
        return message
    return f"{data[:MESSAGE_BYTES].decode(errors='ignore')}… ({len(data)} bytes)"


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
