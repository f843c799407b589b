"""What becomes of a failed attempt: another one, and when, or the end of the step."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tenuto.errors import (
    FatalError,
    NotInWorkflowError,
    RemoteError,
    RollbackError,
    StepExhaustedError,
    StepFailedError,
    StepTimeoutError,
)
from tenuto.kernel.operations import StepSpec

__all__ = ["GiveUp", "Retry", "delay_ms", "judge"]


# A call of the model in a step's body is refused as often as it is tried.
_FATAL: Final = (FatalError, RollbackError, NotInWorkflowError)


class Retry(NamedTuple):
    after_ms: int


class GiveUp(NamedTuple):
    """The step has failed: the very exception its code gets, with the attempt's own as cause."""

    error: StepFailedError


def delay_ms(spec: StepSpec, attempts: int) -> int:
    """How long to wait after that many attempts: doubling, capped, in whole milliseconds, no jitter."""
    doubled = math.ldexp(spec.backoff_ms, min(attempts, 1000))
    return math.ceil(min(spec.backoff_max_ms, doubled))


def judge(
    spec: StepSpec,
    location: str,
    attempts: int,
    error: Exception,
    *,
    unencodable: bool = False,
    timed_out: bool = False,
    after_ms: int | None = None,
) -> Retry | GiveUp:
    """What follows attempt number `attempts`, which ended with `error`."""
    if unencodable:  # its effect has happened; running it again would only repeat that
        return _give_up(StepFailedError, spec, location, attempts, "encode", error)
    if not timed_out and (isinstance(error, _FATAL) or _listed(error, spec.no_retry)):
        return _give_up(StepFailedError, spec, location, attempts, "fatal", error)
    if attempts >= spec.max_attempts:
        if timed_out:
            return _give_up(StepTimeoutError, spec, location, attempts, "timeout", error)
        return _give_up(StepExhaustedError, spec, location, attempts, "exhausted", error)
    return Retry(delay_ms(spec, attempts) if after_ms is None else after_ms)


def _give_up(
    sort: type[StepFailedError], spec: StepSpec, location: str, attempts: int, kind: str, cause: Exception
) -> GiveUp:
    error = sort(spec.name, location, attempts, kind)
    error.__cause__ = cause
    return GiveUp(error)


def _listed(error: Exception, no_retry: tuple[type[Exception] | str, ...]) -> bool:
    if not no_retry:
        return False
    classes = tuple(item for item in no_retry if isinstance(item, type))
    if isinstance(error, classes):
        return True
    names = {item for item in no_retry if isinstance(item, str)}
    if isinstance(error, RemoteError):  # its class is gone; its name is not
        remote = error.type_name.rpartition(":")[2].rpartition(".")[2]
        return remote in names or any(remote == item.__name__ for item in classes)
    return any(base.__name__ in names for base in type(error).__mro__)
