"""`options(…)` as what the model takes: a step's spec, a child's id and queue, limits in time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenuto.kernel.operations import StepSpec
from tenuto.model.durations import milliseconds
from tenuto.model.options import LARGEST, spec_of

from ..ast import Construct, Expr, ListExpr, MapExpr, Name, Options, String
from ..options import normalized
from .expressions import Value, compile_expression, field_of, read_name
from .faults import Fault
from .frames import Frame
from .names import Names
from .values import duration_of, is_list, is_map, kind_of, text_of

__all__ = ["Given", "child_retries", "compile_options", "limits_of", "merged", "priority_of", "step_spec"]

_INTERPOLATED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}")
_ENUMS: Final = frozenset({"parentclosepolicy", "workflowidreusepolicy"})
_IGNORED: Final = frozenset(
    {
        "scheduletostarttimeout",
        "workflowidreusepolicy",
        "local",
        "cronschedule",
        "requesteagerexecution",
        "parentclosepolicy",
    }
)


@dataclass(frozen=True, slots=True)
class Given:
    """Options as written: by normalized key. `constant` when no variable takes part."""

    entries: tuple[tuple[str, Value], ...] = ()
    constant: bool = True

    def values(self, frame: Frame) -> dict[str, Any]:
        return {key: value(frame) for key, value in self.entries}


NONE: Final = Given()


def compile_options(options: Options | None, names: Names) -> Given:
    if options is None or not options.entries:
        return NONE
    entries: list[tuple[str, Value]] = []
    constant = True
    for entry in options.entries:
        key = normalized(entry.key.name)
        if key in _ENUMS or key in _IGNORED:
            continue  # without effect, as the checks say (TWF409)
        entries.append((key, _compile(entry.value, names)))
        constant = constant and _is_constant(entry.value)
    return Given(tuple(entries), constant)


def _is_constant(node: Expr) -> bool:
    match node:
        case Name():
            return False
        case String():
            return _INTERPOLATED.search(node.value) is None
        case MapExpr():
            return all(_is_constant(entry.value) for entry in node.entries)
        case Construct():
            return all(_is_constant(field.value) for field in node.fields)
        case ListExpr():
            return all(_is_constant(item) for item in node.items)
        case _:
            return type(node).__name__ in ("Number", "Duration", "Bool", "Null")


def _compile(node: Expr, names: Names) -> Value:
    """An option's value; `{name}` in its strings is replaced by the variable."""
    match node:
        case String():
            return _template(node.value, names)
        case MapExpr():
            entries = [(entry.key.name, _compile(entry.value, names)) for entry in node.entries]
            return lambda frame: {key: value(frame) for key, value in entries}
        case Construct():
            fields = [(field.key.name, _compile(field.value, names)) for field in node.fields if field.key is not None]
            return lambda frame: {key: value(frame) for key, value in fields}
        case ListExpr():
            items = [_compile(item, names) for item in node.items]
            return lambda frame: [item(frame) for item in items]
        case _:
            return compile_expression(node, names)


def _template(text: str, names: Names) -> Value:
    parts: list[Value] = []
    end = 0
    for match in _INTERPOLATED.finditer(text):
        parts.append(_text(text[end : match.start()]))
        parts.append(_path(match[1].split("."), names))
        end = match.end()
    if not parts:
        return lambda frame: text
    parts.append(_text(text[end:]))
    return lambda frame: "".join(text_of(part(frame)) for part in parts)


def _text(text: str) -> Value:
    return lambda frame: text


def _path(path: list[str], names: Names) -> Value:
    root, *fields = path
    read = read_name(root, names)

    def value(frame: Frame) -> Any:
        found = read(frame)
        for field in fields:
            found = field_of(found, field)
        return found

    return value


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers over earlier ones."""
    found: dict[str, Any] = {}
    for layer in layers:
        found.update(layer)
    return found


# --- activities


def step_spec(name: str, options: Mapping[str, Any], given: Mapping[str, Any]) -> StepSpec:
    """The step that an activity with these options is. `given`: what its function was bound with."""
    mapped: dict[str, Any] = dict(given)
    retry = _retry(options.get("retrypolicy"))
    if retry:
        for key in ("retry", "max_attempts", "backoff", "backoff_max", "no_retry"):
            mapped.pop(key, None)
        mapped.update(retry)
    for key, option in (("starttoclosetimeout", "timeout"), ("heartbeattimeout", "heartbeat_timeout")):
        if options.get(key) is not None:
            mapped[option] = duration_of(options[key])
    if options.get("taskqueue") is not None:
        mapped["queue"] = text_of(options["taskqueue"])
    if options.get("priority") is not None:
        mapped["priority"] = priority_of(options)
    return _checked(lambda: spec_of(name, mapped))


def priority_of(options: Mapping[str, Any]) -> int:
    """Its place in the queue; larger goes first."""
    return 0 if options.get("priority") is None else _whole("priority", options["priority"])


def _retry(policy: Any) -> dict[str, Any]:
    if policy is None:
        return {}
    if not is_map(policy):
        raise Fault("TWF502", f"retryPolicy is a map, not {kind_of(policy)}")
    said = {normalized(key): value for key, value in policy.items()}
    found: dict[str, Any] = {}
    attempts = said.get("maximumattempts", said.get("maxattempts"))
    if attempts is not None:
        found["max_attempts"] = _whole("maximumAttempts", attempts) or LARGEST  # 0: for ever
    if said.get("initialinterval") is not None:
        found["backoff"] = duration_of(said["initialinterval"]) / 2  # the first delay is twice the base
    longest = said.get("maximuminterval", said.get("maxinterval"))
    if longest is not None:
        found["backoff_max"] = duration_of(longest)
    never = said.get("nonretryableerrortypes", said.get("nonretryableerrors"))
    if never is not None:
        found["no_retry"] = _names(never)
    return found


def _names(value: Any) -> tuple[str, ...]:
    items: Sequence[Any] = value if is_list(value) else [value]
    return tuple(text_of(item) for item in items)


def _whole(option: str, value: Any) -> int:
    if type(value) is not int:
        raise Fault("TWF502", f"{option} is a whole number, not {kind_of(value)}")
    if abs(value) > LARGEST:
        raise Fault("TWF502", f"{option} is at most {LARGEST}, not {value}")
    return value


def _checked(make: Callable[[], StepSpec]) -> StepSpec:
    try:
        return make()
    except (TypeError, ValueError) as error:
        raise Fault("TWF502", f"these options do not fit: {error}") from None


# --- limits and children


def limits_of(options: Mapping[str, Any], *, workflow: bool) -> int | None:
    """The shortest limit that a timer has to watch."""
    keys: tuple[str, ...] = ("scheduletoclosetimeout",)
    if workflow:
        keys = ("scheduletoclosetimeout", "workflowexecutiontimeout", "timeout", "workflowruntimeout")
    try:
        found = [milliseconds(duration_of(options[key])) for key in keys if options.get(key) is not None]
    except ValueError as error:
        raise Fault("TWF502", str(error)) from None
    return min(found, default=None)


def child_retries(name: str, options: Mapping[str, Any]) -> StepSpec:
    """How often a child is started, and when again: once, unless a policy says otherwise."""
    retry = _retry(options.get("retrypolicy"))
    return _checked(lambda: spec_of(name, retry or {"max_attempts": 1}))
