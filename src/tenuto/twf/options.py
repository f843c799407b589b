"""Which options there are, what they belong to, and which of them do nothing here (TWF407 to TWF409)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .ast import Construct, Expr, Ident, MapExpr, Name, Number, OptionEntry, String
from .diagnostics import Diagnostic, diagnose, nearest
from .source import Source
from .survey import OptionsUse

__all__ = ["OPTIONS", "RETRY_KEYS", "Option", "check_options", "normalized"]


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    on: frozenset[Literal["activity", "workflow"]]
    about: str
    effective: bool = True


_ACTIVITY: Final[frozenset[Literal["activity", "workflow"]]] = frozenset(("activity",))
_WORKFLOW: Final[frozenset[Literal["activity", "workflow"]]] = frozenset(("workflow",))
_BOTH: Final[frozenset[Literal["activity", "workflow"]]] = frozenset(("activity", "workflow"))
_NOTHING: Final = "has no effect here"

_ALL: Final = (
    Option("startToCloseTimeout", _ACTIVITY, "the longest time of one attempt"),
    Option("heartbeatTimeout", _ACTIVITY, "the longest time between two heartbeats"),
    Option("scheduleToCloseTimeout", _BOTH, "the longest time over all attempts"),
    Option("workflowExecutionTimeout", _WORKFLOW, "the longest time of the whole chain of runs"),
    Option("timeout", _WORKFLOW, "the same as workflowExecutionTimeout"),
    Option("workflowRunTimeout", _WORKFLOW, "the longest time of one run"),
    Option("retryPolicy", _BOTH, "how often and at which intervals to try again"),
    Option("taskQueue", _BOTH, "the queue whose workers do it"),
    Option("priority", _BOTH, "its place in the queue"),
    Option("workflowId", _WORKFLOW, "the id of the child run"),
    Option("parentClosePolicy", _WORKFLOW, "what happens to the child when this run ends"),
    Option("scheduleToStartTimeout", _BOTH, _NOTHING, effective=False),
    Option("workflowIdReusePolicy", _BOTH, _NOTHING, effective=False),
    Option("local", _BOTH, _NOTHING, effective=False),
    Option("cronSchedule", _BOTH, _NOTHING, effective=False),
    Option("requestEagerExecution", _BOTH, _NOTHING, effective=False),
)
RETRY_KEYS: Final = (
    "maximumAttempts",
    "maxAttempts",
    "initialInterval",
    "maximumInterval",
    "maxInterval",
    "nonRetryableErrorTypes",
    "nonRetryableErrors",
    "backoffCoefficient",
)


def normalized(key: str) -> str:
    """Keys ignore case and `_`."""
    return key.replace("_", "").lower()


OPTIONS: Final[dict[str, Option]] = {normalized(option.name): option for option in _ALL}
_RETRY: Final = {normalized(key) for key in RETRY_KEYS}


def check_options(source: Source, use: OptionsUse) -> Iterator[Diagnostic]:
    options = use.options
    if not options.entries:
        end = options.start + len("options")
        yield diagnose(source, options.start, end, "TWF408", "these options are empty", "leave them out")
    for entry in options.entries:
        yield from _check_entry(source, use, entry)


def _check_entry(source: Source, use: OptionsUse, entry: OptionEntry) -> Iterator[Diagnostic]:
    key = entry.key
    option = OPTIONS.get(normalized(key.name))
    if option is None:
        fitting = [known.name for known in OPTIONS.values() if use.on in known.on]
        yield _unknown(source, key, f"unknown option {key.name}", fitting)
    elif use.on not in option.on:
        other = "workflows" if use.on == "activity" else "activities"
        message = f"option {option.name} is for {other}"
        yield diagnose(source, key.start, key.end, "TWF407", message)
    elif not option.effective:
        yield _without_effect(source, key, "leave it out")
    elif option.name == "parentClosePolicy":
        if _word(entry.value) not in (None, "REQUEST_CANCEL"):
            yield _without_effect(source, key, "a child that outlives this run is started with detach")
    elif option.name == "workflowId" and use.definition:
        yield _without_effect(source, key, "the id is given by the call or the start")
    elif option.name == "retryPolicy":
        yield from _check_retry(source, entry.value)


def _check_retry(source: Source, value: Expr) -> Iterator[Diagnostic]:
    pairs: list[tuple[Ident, Expr]] = []
    if isinstance(value, MapExpr):
        pairs = [(entry.key, entry.value) for entry in value.entries]
    elif isinstance(value, Construct):
        pairs = [(field.key, field.value) for field in value.fields if field.key is not None]
    for key, inner in pairs:
        if normalized(key.name) not in _RETRY:
            yield _unknown(source, key, f"unknown retry option {key.name}", RETRY_KEYS)
        elif normalized(key.name) == "backoffcoefficient" and isinstance(inner, Number) and inner.value != 2:
            yield _without_effect(source, key, "the interval always doubles")


def _unknown(source: Source, key: Ident, message: str, known: list[str] | tuple[str, ...]) -> Diagnostic:
    by_normal = {normalized(name): name for name in known}
    similar = nearest(normalized(key.name), by_normal)
    hint = f'did you mean "{by_normal[similar]}"?' if similar else None
    return diagnose(source, key.start, key.end, "TWF407", message, hint)


def _without_effect(source: Source, key: Ident, hint: str) -> Diagnostic:
    return diagnose(source, key.start, key.end, "TWF409", f"option {key.name} has no effect here", hint)


def _word(value: Expr) -> str | None:
    if isinstance(value, String):
        return value.value
    return value.name if isinstance(value, Name) else None
