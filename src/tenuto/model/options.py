"""The options of steps, and the checked, ready-made form an engine gets of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any, Final, TypedDict

from tenuto.kernel.location import check_name
from tenuto.kernel.operations import StepSpec
from tenuto.model.durations import Duration, fractional_milliseconds, milliseconds

__all__ = [
    "LARGEST",
    "InlineOptions",
    "QueueOptions",
    "Retry",
    "StepOptions",
    "flag",
    "module_function",
    "queue_fields",
    "reference_of",
    "spec_named",
    "spec_of",
    "whole",
]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast a step is tried again, as one value to share between steps.

    patient = Retry(max_attempts=10, base="1s", cap="5m", no_retry=(ValueError,))

    @step(retry=patient)
    async def fetch(url: str) -> bytes: ...
    """

    max_attempts: int = 3  # in all
    base: Duration = "100ms"
    cap: Duration = "30s"
    no_retry: tuple[type[Exception] | str, ...] = ()  # classes, or class names


class InlineOptions(TypedDict, total=False):
    """Options of `step("name", fn, ...)`."""

    max_attempts: int  # in all, 3 unless said; 1: attempted at most once, a crash included
    backoff: Duration  # before attempt n + 1 comes backoff * 2**n; 100 ms unless said
    backoff_max: Duration  # 30 s unless said
    no_retry: tuple[type[Exception] | str, ...]  # classes, or class names, that are given up at once
    retry: Retry  # the four above as one value
    timeout: Duration | None  # of each attempt
    heartbeat_timeout: Duration | None  # of silence between two calls of `heartbeat`
    ephemeral: bool  # no commit of its own: stored with whatever comes next, so a crash may repeat it
    rollback: Callable[[Any], object] | None  # called with the result when the run fails and undoes its steps
    record_input: bool  # False: its arguments are not kept for those who look at the run


class StepOptions(InlineOptions, total=False):
    """Options of `@step(...)` and of `Step.options(...)`: those of `InlineOptions`, and these."""

    name: str  # of `@step`: replaces the id, so that the function can move to another file
    queue: str | None  # then it is a task, run by a worker that serves the queue
    priority: int  # in its queue: larger goes first


class QueueOptions(TypedDict, total=False):
    """Options of `Task.run` and `app.enqueue`, and the part of those of `app.start` that is about queues."""

    queue: str
    priority: int  # larger goes first
    delay: Duration  # not before so long
    key: str  # one open item per key and queue: the second start or enqueue gives the first item
    partition: str  # what `partition_concurrency` of the queue counts by


LARGEST: Final = 2**31 - 1  # number of an option: what every store can hold
_RETRY: Final = frozenset({"max_attempts", "backoff", "backoff_max", "no_retry"})
_INLINE: Final = _RETRY | {"retry", "timeout", "heartbeat_timeout", "ephemeral", "rollback", "record_input"}
_STEP: Final = _INLINE | {"name", "queue", "priority"}


@lru_cache(maxsize=4096)
def spec_named(name: str) -> StepSpec:
    """The spec of a step that has a name and no options."""
    return StepSpec(check_name(name))


def spec_of(name: str, options: Mapping[str, Any], *, inline: bool = False) -> StepSpec:
    """The checked form of these options; `TypeError` and `ValueError` say what is wrong with them."""
    unknown = options.keys() - (_INLINE if inline else _STEP)
    if unknown:
        raise TypeError(f"a step has no option {min(unknown)!r}")
    retry = _retry_of(options)
    rollback = options.get("rollback")
    if rollback is not None and not callable(rollback):
        raise TypeError(f"rollback= is a function of the step's result, not {rollback!r}")
    queue = options.get("queue")
    spec = StepSpec(
        check_name(name),
        max_attempts=whole("max_attempts", retry.max_attempts, at_least=1),
        backoff_ms=fractional_milliseconds(retry.base),
        backoff_max_ms=fractional_milliseconds(retry.cap),
        no_retry=_no_retry(retry.no_retry),
        timeout_ms=_limit("timeout", options.get("timeout")),
        heartbeat_ms=_limit("heartbeat_timeout", options.get("heartbeat_timeout")),
        ephemeral=flag("ephemeral", options.get("ephemeral", False)),
        record_input=flag("record_input", options.get("record_input", True)),
        undo=None if rollback is None else reference_of(rollback),
        rollback=rollback,
        queue=None if queue is None else check_name(queue),
        priority=whole("priority", options.get("priority", 0)),
    )
    _check_ephemeral(spec)
    return spec


def queue_fields(spec: StepSpec, options: Mapping[str, Any], call: str = "Task.run") -> dict[str, Any]:
    """The fields of a spec that the options of `Task.run` and `app.enqueue` replace."""
    unknown = options.keys() - {"queue", "priority", "delay", "key", "partition"}
    if unknown:
        raise TypeError(f"{call} has no option {min(unknown)!r}")
    if spec.ephemeral:
        raise ValueError(f"step {spec.name!r} is ephemeral: it cannot go through a queue")
    fields: dict[str, Any] = {"queue": check_name(options.get("queue") or spec.queue or "default")}
    if "priority" in options:
        fields["priority"] = whole("priority", options["priority"])
    if "delay" in options:
        fields["delay_ms"] = milliseconds(options["delay"])
    for name in ("key", "partition"):
        if options.get(name) is not None:
            fields[name] = check_name(options[name])
    return fields


def reference_of(handler: Callable[[Any], object]) -> str:
    """What finds a rollback handler again: a step's id, `module:qualname`, or "" for a closure."""
    identity = getattr(handler, "id", None)
    if isinstance(identity, str) and hasattr(handler, "fn"):
        return identity
    if isinstance(handler, FunctionType) and "<" not in handler.__qualname__:
        return f"{handler.__module__}:{handler.__qualname__}"
    return ""


def module_function(reference: str) -> Callable[[Any], object] | None:
    """The function that `reference_of` called so, among the modules that are loaded: data imports nothing."""
    module_name, _, path = reference.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if callable(found) and reference_of(found) == reference else None


def _retry_of(options: Mapping[str, Any]) -> Retry:
    retry = options.get("retry")
    given = options.keys() & _RETRY
    if retry is None:
        return Retry(
            options.get("max_attempts", 3),
            options.get("backoff", "100ms"),
            options.get("backoff_max", "30s"),
            options.get("no_retry", ()),
        )
    if not isinstance(retry, Retry):
        raise TypeError(f"retry= is a Retry, not {retry!r}")
    if given:
        raise ValueError(f"retry= already says {min(given)}; give one or the other")
    return retry


def _no_retry(classes: Any) -> tuple[type[Exception] | str, ...]:
    if isinstance(classes, str | type) or not all(
        isinstance(item, str) or (isinstance(item, type) and issubclass(item, Exception)) for item in classes
    ):
        raise TypeError(f"no_retry= is a tuple of exception classes or their names, not {classes!r}")
    return tuple(classes)


def whole(option: str, value: Any, *, at_least: int = -LARGEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{option}= is a whole number, not {value!r}")
    if value < at_least:
        raise ValueError(f"{option}= is at least {at_least}, not {value}")
    if value > LARGEST:
        raise ValueError(f"{option}= is at most {LARGEST}, not {value}")
    return value


def _limit(option: str, value: Duration | None) -> int | None:
    if value is None:
        return None
    limit_ms = milliseconds(value)
    if limit_ms == 0:
        raise ValueError(f"{option}={value!r} leaves a step no time")
    return limit_ms


def flag(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{option}= is True or False, not {value!r}")
    return value


def _check_ephemeral(spec: StepSpec) -> None:
    if not spec.ephemeral:
        return
    # Each of these three needs a record of its own before or after the step; an ephemeral step has none.
    for wrong, option in (
        (spec.max_attempts == 1, "max_attempts=1"),
        (spec.rollback is not None, "rollback="),
        (spec.queue is not None, "queue="),
    ):
        if wrong:
            raise ValueError(f"step {spec.name!r}: ephemeral=True and {option} exclude each other")
