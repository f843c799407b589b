"""Writes docs/reference/python.md and errors.md out of the docstrings: `python scripts/describe_reference.py --write`.

Prose, signatures and fields come from the code, so that they are written once. Short code in a docstring is shown as
it is; examples that run are in docs/reference/python-examples.md.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ForwardRef, get_overloads

from describe_errors import describe_errors

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
GROUPS = {
    "App": ["Tenuto", "RunHandle", "EachRun", "TaskHandle", "Registry", "Limits", "Compression", "Encryption"],
    "Definitions": [
        "workflow",
        "step",
        "Workflow",
        "Step",
        "Bound",
        "ContinueAsNew",
        "StepOptions",
        "InlineOptions",
        "QueueOptions",
        "Retry",
        "StepDecorator",
    ],
    "Inside a step": ["step_info", "StepInfo", "heartbeat", "FatalError", "RetryableError", "RollbackError"],
    "Time and chance": ["sleep", "sleep_until", "now", "random", "uuid4", "Duration"],
    "Messages": [
        "wait_for_signal",
        "receive",
        "Received",
        "Reply",
        "NoReply",
        "Stop",
        "Async",
        "Update",
        "Reject",
        "update_state",
        "partial_state",
        "publish_state",
        "signal",
        "hook",
        "Hook",
        "SignalHandler",
        "SignalResult",
        "UpdateHandler",
        "UpdateResult",
    ],
    "Concurrency": [
        "join",
        "race",
        "parallel",
        "shield",
        "Failed",
        "Winner",
        "Task",
        "Handle",
        "Won",
        "Finished",
        "Branch",
    ],
    "Long lives and other runs": [
        "loop",
        "Continue",
        "Break",
        "spawn",
        "detach",
        "ChildHandle",
        "ChildOptions",
        "run_info",
        "RunInfo",
        "side_effect",
    ],
    "Change": ["patched", "deprecate_patch", "removed", "rollback_checkpoint", "Kind"],
    "Directives and classes of your own": [
        "step_options",
        "workflow_options",
        "as_step",
        "as_workflow",
        "serializable",
        "serializer",
        "deserializer",
    ],
}
# What public calls give back; the classes are not imported by name.
RETURNED = {
    "RunSummary": "tenuto.host.summaries",
    "Explanation": "tenuto.host.explain",
    "PendingOperation": "tenuto.host.explain",
    "RunEvent": "tenuto.host.watching",
    "ScheduleSummary": "tenuto.host.schedules",
    "QueueRecord": "tenuto.store.queues",
    "QueueLimits": "tenuto.store.queues",
    "StartOptions": "tenuto.host.options",
}
# Made by calls, never by their own name.
MADE_FOR_YOU = {
    *("RunHandle", "EachRun", "TaskHandle", "ChildHandle", "Handle", "Hook", "Workflow", "Step", "StepDecorator"),
    *("StepInfo", "RunInfo", "Run", "Bound", "Task", "HistoryEntry", *RETURNED),
}
# Members that the parts of Tenuto need of each other.
INTERNAL = {
    "Step": {"call", "record", "record_plain", "implementation"},
    "Limits": {"apply", "in_force"},
    "Registry": {"apply", "in_force", "find_id", "forget", "know_elsewhere"},
    "Compression": {"seal", "open", "origin"},
    "Encryption": {"seal", "open", "origin"},
    "Tenuto": {"store"},
    "Engine": {"mint", "wake", "workflow", "definition_of", "rows", "forget_answer", "drive", "why"},
    "Hook": {"token"},
    "QueueLimits": {"limited"},
}
ROOM = 116

HEAD = """\
# The Python interface

Made of the docstrings by `python scripts/describe_reference.py --write`; a test keeps it true. Examples that run:
[by example](python-examples.md). Errors: [every code](errors.md). What can be stored: [values](values.md).

`tenuto`, `tenuto.errors` and `tenuto.testing` are public; any other module may change with every release. A call that
has several forms is shown with each. `Coroutine[Any, Any, T]` is what an `async def` gives: `await` it for a `T`.
"""


def describe_python() -> str:
    """The whole page."""
    package = import_module("tenuto")
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_describe(name, getattr(package, name), "tenuto") for name in names]
    parts.append("## What calls give back\n")
    parts += [_describe(name, getattr(import_module(module), name), module) for name, module in RETURNED.items()]
    testing = import_module("tenuto.testing")
    parts.append(f"## tenuto.testing\n\n{_prose(inspect.getdoc(testing) or '')}\n")
    parts += [_describe(name, getattr(testing, name), "tenuto.testing") for name in testing.__all__]
    return "\n".join(parts)


def undocumented() -> list[str]:
    """Public names, and members of them, about which nothing is said."""
    bare: list[str] = []
    for module_name in ("tenuto", "tenuto.errors", "tenuto.testing"):
        module = import_module(module_name)
        for name in module.__all__:
            item = getattr(module, name)
            if not _doc(name, item, module_name):
                bare.append(f"{module_name}.{name}")
            if inspect.isclass(item):
                bare += [f"{module_name}.{name}.{member}" for member, value in _members(name, item) if not value]
    return bare


# --- one name


def _describe(name: str, item: Any, module: str) -> str:
    lines = [f"### {name}\n"]
    if inspect.isclass(item):
        if name not in MADE_FOR_YOU and not _is_options(item):
            lines.append(_fenced(_signatures(name, item)))
    elif inspect.isfunction(item):
        lines.append(_fenced(_signatures(name, item)))
    lines.append(_prose(_doc(name, item, module)) + "\n")
    if inspect.isclass(item):
        lines += _fields(name, item)
        lines += _methods(name, item)
    return "\n".join(lines)


def _methods(name: str, item: type) -> list[str]:
    lines: list[str] = []
    for member, doc in _members(name, item):
        function = inspect.getattr_static(item, member)
        function = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        if isinstance(function, property):
            lines.append(f"- `.{member}`: {doc}\n")
            continue
        shown = _signatures(f"{name}.{member}", function, method=True)
        lines.append(f"{_fenced(shown)}\n{_prose(doc)}\n")
    return lines


def _members(name: str, item: type) -> Iterator[tuple[str, str]]:
    hidden = INTERNAL.get(name, set())
    for member, value in vars(item).items():
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if member.startswith("_") or member in hidden or issubclass(item, BaseException):
            continue  # the errors have a page of their own
        if inspect.isfunction(function) or isinstance(function, property):
            yield member, inspect.cleandoc(function.__doc__ or "")


def _fields(name: str, item: type) -> list[str]:
    """The fields of a record or of options, with what is said about them in the code."""
    if not (_is_options(item) or hasattr(item, "__dataclass_fields__") or hasattr(item, "_fields")):
        return []
    fields: list[str] = []
    for line in inspect.getsource(item).splitlines():
        if re.match(r"    (async )?def |    @", line):
            break
        found = re.fullmatch(r"    ([a-z]\w*): ([^=#]+?)(?: = ([^#]+?))?(?:\s+# (.*))?", line)
        if found is not None:
            field, kind, default, said = found.groups()
            value = f" = {default}" if default else ""
            remark = f": {said}" if said and not said.startswith(("noqa", "type:")) else ""
            fields.append(f"- `{field}: {kind}{value}`{remark}")
    in_signature = name not in MADE_FOR_YOU and not _is_options(item)
    if in_signature and not any("`: " in field for field in fields):
        return []  # the signature has said it all
    return ["\n".join(fields) + "\n"] if fields else []


def _is_options(item: type) -> bool:
    return hasattr(item, "__total__")


# --- signatures


def _signatures(name: str, item: Any, *, method: bool = False) -> str:
    forms = [item] if inspect.isclass(item) else get_overloads(item) or [item]
    shown = [_signature(name, form, method) for form in forms]
    return "\n".join(dict.fromkeys(shown))


def _signature(name: str, item: Any, method: bool) -> str:
    if inspect.isclass(item) and item.__init__ is Exception.__init__:  # what that takes depends on Python's version
        return f"{name}(message)"
    signature = inspect.signature(item)
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    words = list(_words(parameters))
    given = "" if inspect.isclass(item) else _returned(item, signature)
    word = "async " if inspect.iscoroutinefunction(item) else ""
    line = f"{word}{name}({', '.join(words)}){given}"
    if len(line) <= ROOM:
        return line
    return f"{word}{name}(\n" + "".join(f"    {one},\n" for one in words) + f"){given}"


def _words(parameters: list[inspect.Parameter]) -> Iterator[str]:
    before: Any = None
    for parameter in parameters:
        kind = parameter.kind
        if before is parameter.POSITIONAL_ONLY and kind is not parameter.POSITIONAL_ONLY:
            yield "/"
        if kind is parameter.KEYWORD_ONLY and before not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            yield "*"
        yield _word(parameter)
        before = kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _word(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = _type(parameter.annotation)
    shown = f"{stars}{parameter.name}" + (f": {kind}" if kind else "")
    if parameter.default is not parameter.empty:
        value = "..." if parameter.default is ... else repr(parameter.default)
        shown += f" = {value}" if kind else f"={value}"
    return shown


def _returned(item: Any, signature: inspect.Signature) -> str:
    kind = _type(signature.return_annotation)
    return f" -> {kind}" if kind else ""


def _type(annotation: Any) -> str:
    match annotation:
        case inspect.Signature.empty:
            return ""
        case str():
            shown = annotation
        case ForwardRef():
            shown = annotation.__forward_arg__
        case type():
            shown = annotation.__name__
        case _:
            shown = str(annotation)
    return re.sub(r"\b(collections\.abc|typing|tenuto\.[a-z_.]+)\.", "", shown).strip("'\"")


# --- text


def _doc(name: str, item: Any, module: str) -> str:
    if inspect.isclass(item) or inspect.isfunction(item):
        return inspect.cleandoc(vars(item).get("__doc__") or "" if inspect.isclass(item) else item.__doc__ or "")
    return _said_below(name, module)


def _said_below(name: str, module: str) -> str:
    """What stands under the definition of a name that is neither class nor function: a text of its own."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return _said_below(name, node.module or "")
    body = _tree(module).body
    for node, after in pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return inspect.cleandoc(str(after.value.value))
    return ""


def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _prose(doc: str) -> str:
    """A docstring as markdown: paragraphs that are code are indented."""
    paragraphs = [part for part in re.split(r"\n\s*\n", doc) if part.strip()]
    return "\n\n".join(
        textwrap.indent(textwrap.dedent(part), "    ") if _is_code(part, first=n == 0) else part
        for n, part in enumerate(paragraphs)
    )


def _is_code(paragraph: str, *, first: bool) -> bool:
    if first:
        return False
    if paragraph.startswith("    "):
        return True
    try:
        ast.parse("async def _():\n" + textwrap.indent(paragraph, "    "))
    except SyntaxError:
        return False
    return True


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```\n"


def pages() -> dict[str, str]:
    """The generated pages of docs/reference, by name."""
    return {"python.md": describe_python(), "errors.md": describe_errors()}


if __name__ == "__main__":
    for page, text in pages().items():
        if sys.argv[1:] == ["--write"]:
            (REFERENCE / page).write_text(text, encoding="utf-8")
        else:
            print(text)
