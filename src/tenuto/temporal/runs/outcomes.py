"""How activities and child workflows ended, as the kernel hears it."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,  # Temporal's
    TimeoutType,
)

from tenuto.codec.values import dump, load
from tenuto.errors import (
    ChildCancelledError,
    ChildFailedError,
    ChildTerminatedError,
    DecodingError,
    StepFailedError,
    StepOutcomeUnknownError,
)
from tenuto.kernel.operations import Err, Ok, StepSpec, TimedOut
from tenuto.temporal.activities import INTERRUPTED, TIMED_OUT
from tenuto.temporal.payloads import carried_error, details_of, value_of

__all__ = ["child_error", "outcome_of", "plain_outcome", "step_outcome"]


def outcome_of(result: Any, *, plain_is_ours: bool) -> Ok | Err:
    """What came back from a step or a run, as a raw value; another language's may be one that nobody can read."""
    try:
        return Ok(value_of(result, plain_is_ours=plain_is_ours))
    except DecodingError as error:
        return Err(dump(error))


def step_outcome(spec: StepSpec, location: str, error: BaseException) -> tuple[Ok | Err | TimedOut, int]:
    """How a step's activity ended for good, and after how many attempts."""
    cause = error.cause if isinstance(error, ActivityError) else error
    attempts = spec.max_attempts
    if isinstance(cause, TimeoutError):
        if cause.type is TimeoutType.HEARTBEAT:
            return Err(dump(StepOutcomeUnknownError(spec.name, location, attempts, "interrupted"))), attempts
        return TimedOut(), attempts
    if isinstance(cause, CancelledError):
        return Err(dump(StepFailedError(spec.name, location, attempts, "cancelled"))), attempts
    details = details_of(cause)
    if len(details) > 1 and isinstance(details[1], int):
        attempts = details[1]
    kind = cause.type if isinstance(cause, ApplicationError) else None
    if kind == TIMED_OUT:
        return TimedOut(), attempts
    if kind == INTERRUPTED:
        return Err(dump(StepOutcomeUnknownError(spec.name, location, attempts, "interrupted"))), attempts
    return Err(carried_error(cause), unencodable=len(details) > 2 and details[2] is True), attempts


def plain_outcome(error: BaseException) -> tuple[Ok | Err | TimedOut, int]:
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, TimeoutError) or (isinstance(cause, ApplicationError) and cause.type == TIMED_OUT):
        return TimedOut(), 1
    return Err(carried_error(cause)), 1


def child_error(run_id: str, error: Exception) -> Exception:
    cause = error.cause if isinstance(error, ChildWorkflowError) else error
    if isinstance(cause, CancelledError):
        return ChildCancelledError(f"child run {run_id} was cancelled")
    if isinstance(cause, TerminatedError):
        return ChildTerminatedError(f"child run {run_id} was terminated")
    failure = ChildFailedError(f"child run {run_id} failed")
    failure.__cause__ = load(carried_error(cause))
    return failure
