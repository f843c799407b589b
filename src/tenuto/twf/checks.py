"""What is wrong with a resolved tree: places (2xx), bindings (33x), and warnings (4xx).

Warnings about a definition are given only when it has no error, so that a half-written line does not bury the reader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Signature
from typing import Final

from .ast import Activity, ActivityTarget, File, Workflow, WorkflowTarget
from .builtins import ACTIVITY_BUILTINS, BUILTINS, PURE_BUILTINS, WORKFLOW_BUILTINS
from .contexts import check_contexts
from .diagnostics import Diagnostic, diagnose, nearest
from .flow import check_flow
from .options import check_options
from .resolver import Resolution, Surveyed
from .survey import Callee, Read

__all__ = ["Bound", "check", "errors_by_definition"]

_COMPARISONS: Final = 50_000  # with similar names; beyond it unknown names get no suggestion
_CLOSE_WORDS: Final = {
    "complete": "close completed …",
    "fail": "close failed …",
    "done": "close completed …",
    "error": "close failed …",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """What a bindings module provides, by name; a function's value says whether it is pure.

    The signatures are those of the Python functions, as far as they have any.
    """

    activities: frozenset[str] = frozenset()
    functions: Mapping[str, bool] = field(default_factory=dict[str, bool])
    workflows: frozenset[str] = frozenset()
    activity_signatures: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    function_signatures: Mapping[str, Signature] = field(default_factory=dict[str, Signature])

    def unused(self, activities: Collection[str]) -> list[str]:
        """The activities bound here that are none of these."""
        return sorted(self.activities.difference(activities))


def check(resolution: Resolution, syntax: Sequence[Diagnostic], bound: Bound | None = None) -> list[Diagnostic]:
    """Everything from 2xx on; `syntax` decides, with what is found here, which definitions are free of errors."""
    found: list[Diagnostic] = list(resolution.diagnostics)
    unused = [] if bound is None else bound.unused(resolution.activities)
    for one in resolution.surveyed:
        found.extend(check_contexts(one))
        if bound is not None:
            found.extend(_check_bindings(one, bound, unused))
    broken = errors_by_definition({one.file: None for one in resolution.surveyed}, [*syntax, *found])
    for one in resolution.surveyed:
        if one.definition.start not in broken.get(one.file.path, ()):
            found.extend(_warn(one, resolution, bound))
    return found


def errors_by_definition(files: Mapping[File, None], found: Sequence[Diagnostic]) -> dict[str, set[int]]:
    """Per path the starts of the definitions that contain an error."""
    broken: dict[str, set[int]] = {}
    starts = {file.path: [definition.start for definition in file.definitions] for file in files}
    for finding in found:
        if finding.severity == "error" and finding.code != "TWF190":
            begins = starts.get(finding.path, [])
            i = bisect_right(begins, finding.start) - 1
            if i >= 0:
                broken.setdefault(finding.path, set()).add(begins[i])
    return broken


def _warn(one: Surveyed, resolution: Resolution, bound: Bound | None) -> Iterator[Diagnostic]:
    source = one.file.source
    yield from check_flow(one)
    yield from _check_names(one)
    yield from _check_arguments(one, resolution)
    for use in one.survey.options:
        yield from check_options(source, use)
    if isinstance(one.definition, Workflow):
        yield from _check_host_functions(one, bound)


# --- names


def _is_method(one: Surveyed, callee: Callee) -> bool:
    return "." in callee.name and one.scope.has(callee.read.name, callee.read.handler)


def _check_names(one: Surveyed) -> Iterator[Diagnostic]:
    """TWF403 and TWF404, each once per name."""
    source, scope = one.file.source, one.scope
    reads = [*one.survey.reads, *(callee.read for callee in one.survey.callees if _is_method(one, callee))]
    reads.sort(key=lambda read: read.order)
    unknown: dict[str, Read] = {}
    first_in_body: dict[str, Read] = {}
    for read in reads:
        if not scope.has(read.name, read.handler):
            known = unknown.setdefault(read.name, read)
            if read.start < known.start:
                unknown[read.name] = read
        elif read.handler is None and read.name not in scope.params:
            first_in_body.setdefault(read.name, read)
    comparisons_left = _COMPARISONS
    for name, read in unknown.items():
        comparisons_left -= len(scope.shared)
        hint = _unknown_hint(one, read) if comparisons_left > 0 else None
        yield diagnose(source, read.start, read.end, "TWF403", f"{name} is assigned nowhere", hint)
    early = _read_early(one, first_in_body)
    for read in early:
        yield diagnose(source, read.start, read.end, "TWF404", f"{read.name} is read before it is assigned")


def _unknown_hint(one: Surveyed, read: Read) -> str | None:
    if read.name in _CLOSE_WORDS and one.file.source.text[max(0, read.start - 20) : read.start].rstrip(" \t").endswith(
        "close"
    ):
        return f"did you mean {_CLOSE_WORDS[read.name]}?"
    similar = nearest(read.name, sorted(one.scope.visible(read.handler)))
    return f'did you mean "{similar}"?' if similar else None


def _read_early(one: Surveyed, first: Mapping[str, Read]) -> Iterator[Read]:
    late = dict(first)
    for write in one.survey.writes:
        read = late.get(write.name)
        if read is None or write.how == "change":
            continue
        local = one.scope.is_local(write.name, write.handler)
        shares_loop = bool(read.loops) and bool(write.loops) and read.loops[0] is write.loops[0]
        if (write.handler is not None and not local) or (
            write.handler is None and (write.order < read.order or shares_loop)
        ):
            del late[write.name]
    return iter(late.values())


# --- arguments


def _check_arguments(one: Surveyed, resolution: Resolution) -> Iterator[Diagnostic]:
    for use in one.survey.uses:
        target = use.target
        if not isinstance(target, (ActivityTarget, WorkflowTarget)):
            continue
        place = resolution.targets.get(target)
        remote = isinstance(target, WorkflowTarget) and target.namespace is not None
        if place is None or remote or not isinstance(place.node, (Workflow, Activity)):
            continue
        wanted, given = len(place.node.params), len(target.args)
        if wanted != given:
            name = target.name
            message = f"{name.name} takes {_count(wanted)}, {given} given"
            yield diagnose(one.file.source, name.start, name.end, "TWF405", message)


def _count(number: int) -> str:
    return "no arguments" if not number else "1 argument" if number == 1 else f"{number} arguments"


# --- functions


def _host_functions(one: Surveyed) -> Iterator[Callee]:
    own = WORKFLOW_BUILTINS if isinstance(one.definition, Workflow) else ACTIVITY_BUILTINS
    for callee in one.survey.callees:
        if callee.name not in PURE_BUILTINS and callee.name not in own and not _is_method(one, callee):
            yield callee


def _check_host_functions(one: Surveyed, bound: Bound | None) -> Iterator[Diagnostic]:
    source = one.file.source
    for callee in _host_functions(one):
        if bound is not None and bound.functions.get(callee.name):
            continue
        hint = "make it an activity"
        if source.text[max(0, callee.start - 20) : callee.start].rstrip(" \t").endswith("close"):
            hint = f"did you mean {_CLOSE_WORDS[callee.name]}?" if callee.name in _CLOSE_WORDS else hint
        what = "activity function" if callee.name in BUILTINS else "host function"
        message = f"{what} {callee.name} in workflow code may not be the same on replay"
        yield diagnose(source, callee.start, callee.end, "TWF417", message, hint)


def _check_bindings(one: Surveyed, bound: Bound, unused: Sequence[str]) -> Iterator[Diagnostic]:
    """TWF330 and TWF331: what is not bound, and what is bound to something that does not fit."""
    source, definition = one.file.source, one.definition
    if isinstance(definition, Activity):
        wrong = _wrong_binding(definition, bound, unused)
        if wrong is not None:
            yield diagnose(source, definition.name.start, definition.name.end, "TWF330", *wrong)
    for callee in _host_functions(one):
        if callee.name not in bound.functions:
            similar = nearest(callee.name, bound.functions)
            hint = f'did you mean "{similar}"?' if similar else f'bind it with @b.function("{callee.name}")'
            message = f"host function {callee.name} is not bound"
            yield diagnose(source, callee.start, callee.end, "TWF331", message, hint)
            continue
        named = [arg.key.name for arg in callee.call.args if arg.key is not None]
        count = len(callee.call.args) - len(named)
        problem = _misfit(bound.function_signatures.get(callee.name), count, named)
        if problem is not None:
            message = f"these arguments do not fit the function bound to {callee.name}: {problem}"
            yield diagnose(source, callee.start, callee.end, "TWF331", message, "at run time this is TWF505")


def _wrong_binding(activity: Activity, bound: Bound, unused: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with an activity's binding, and what to do about it."""
    name = activity.name.name
    if name in bound.activities:
        problem = _misfit(bound.activity_signatures.get(name), len(activity.params), [])
        if problem is None:
            return None
        takes = _count(len(activity.params))
        return f"activity {name} takes {takes}, which do not fit its function: {problem}", "at run time this is TWF505"
    similar = nearest(name, unused)
    if similar is not None:
        message = f"activity {name} has no bound function, but {similar} has, which is no activity of this program"
        return message, f'did you mean @b.activity("{name}")?'
    if not activity.body:
        return f"activity {name} has neither a bound function nor statements", f'bind it with @b.activity("{name}")'
    return None


def _misfit(signature: Signature | None, count: int, named: Sequence[str]) -> str | None:
    """Why a call with so many arguments by position, and these by name, would be refused by Python."""
    if signature is None:
        return None
    try:
        signature.bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    return None
