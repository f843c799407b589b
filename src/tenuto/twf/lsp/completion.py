"""What may come next at the cursor, and what a call takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from lsprotocol import types

from ..ast import Activity, Definition, File, Handler, Workflow
from ..builtins import ACTIVITY_BUILTINS, BUILTINS, PURE_BUILTINS, WORKFLOW_BUILTINS
from ..options import OPTIONS, RETRY_KEYS
from ..resolver import Surveyed
from ..scopes import Scope
from ..survey import survey
from ..symbols import signature
from .positions import Positions
from .workspace import Workspace

__all__ = ["Completion"]

_Where = Literal["top", "workflow", "message", "query", "activity"]
_K = types.CompletionItemKind
_PARTIAL: Final = r"[A-Za-z_][A-Za-z0-9_]*|"
_NAME_AFTER: Final = re.compile(rf"\b(activity|workflow|signal|update)\s+(?:{_PARTIAL})$")
_AFTER_AWAIT: Final = re.compile(rf"\bawait\s+(?:{_PARTIAL})$")
_AFTER_CLOSE: Final = re.compile(rf"^\s*close\s+(?:{_PARTIAL})$")
_LINE_START: Final = re.compile(rf"^\s*(?:{_PARTIAL})$")
_AFTER_DOT: Final = re.compile(r"\.\s*(?:[A-Za-z_][A-Za-z0-9_]*)?$")
_DEFINITION_NAME: Final = re.compile(r"^(?:workflow|activity)\s+\w*$|^\s+(?:signal|query|update)\s+\w*$")
_CALL: Final = re.compile(r"(?:\b(activity|workflow)\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*$")
_SHARED: Final = {
    "if": "if ($1):\n\t$0",
    "for": "for ($1 in $2):\n\t$0",
    "switch": "switch ($1):\n\tcase $2:\n\t\t$0",
    "return": "return $0",
    "break": "break",
    "continue": "continue",
    "else": "else:\n\t$0",
    "case": "case $1:\n\t$0",
}
_DURABLE: Final = {
    "activity": "activity $1($2) -> $0",
    "workflow": "workflow $1($2) -> $0",
    "spawn": "spawn workflow $1($2) -> $0",
    "detach": "detach workflow $1($2)",
    "nexus": 'nexus "$1" workflow $2($3) -> $0',
    "await": "await $0",
    "await all": "await all:\n\t$0",
    "await one": "await one:\n\ttimer($1):\n\t\t$0",
}
_STATEMENTS: Final[dict[_Where, dict[str, str]]] = {
    "top": {
        "workflow": "workflow $1($2) -> ($3):\n\t$0",
        "activity": "activity $1($2) -> ($3):\n\t$0",
    },
    "workflow": {
        **_SHARED,
        **_DURABLE,
        "close": "close $0",
        "continue_as_new": "continue_as_new($0)",
        "options": "options($0)",
        "signal": "signal $1($2):\n\t$0",
        "query": "query $1($2) -> ($3):\n\t$0",
        "update": "update $1($2) -> ($3):\n\t$0",
    },
    "message": {**_SHARED, **_DURABLE, "options": "options($0)"},
    "query": _SHARED,
    "activity": {**_SHARED, "heartbeat": "heartbeat($0)", "options": "options($0)"},
}
_TARGETS: Final = {
    "timer": "timer(${1:5m})",
    "signal": "signal $0",
    "update": "update $0",
    "activity": "activity $1($2) -> $0",
    "workflow": "workflow $1($2) -> $0",
    "all": "all:\n\t$0",
    "one": "one:\n\ttimer($1):\n\t\t$0",
}
_CASES: Final = {
    "timer": "timer(${1:5m}):\n\t$0",
    "signal": "signal $1:\n\t$0",
    "update": "update $1:\n\t$0",
    "activity": "activity $1($2) -> $3:\n\t$0",
    "workflow": "workflow $1($2) -> $3:\n\t$0",
    "nexus": 'nexus "$1" workflow $2($3) -> $4:\n\t$0',
    "await all": "await all:\n\t$0",
}
_SWITCH_LINES: Final = {word: _SHARED[word] for word in ("case", "else")}
_AWAIT_ONE: Final = re.compile(r"\s*await\s+one\s*:")
_SWITCH: Final = re.compile(r"\s*switch\b")


class Completion:
    def __init__(self, workspace: Workspace, positions: Positions) -> None:
        self.workspace = workspace
        self.positions = positions

    def complete(self, uri: str, position: types.Position) -> list[types.CompletionItem]:
        file = self.workspace.file(self.workspace.path_of(uri))
        if file is None:
            return []
        offset = self.positions.offset(file.source, position)
        line_start = file.source.text.rfind("\n", 0, offset) + 1
        before = file.source.text[line_start:offset]
        if _in_text(before) or _AFTER_DOT.search(before) or _DEFINITION_NAME.match(before):
            return []
        definition, handler, where = self._context(file, offset, before)
        return list(self._items(file, offset, before, definition, handler, where))

    def _items(
        self,
        file: File,
        offset: int,
        before: str,
        definition: Definition | None,
        handler: Handler | None,
        where: _Where,
    ) -> Iterator[types.CompletionItem]:
        option_place = _options_around(file.source.text, offset)
        named = _NAME_AFTER.search(before)
        if option_place is not None:
            yield from _option_items(option_place, definition)
        elif named is not None:
            yield from self._named(named[1], definition)
        elif _AFTER_AWAIT.search(before):
            yield from _snippets(_TARGETS)
            yield from _items(self._handles(definition), _K.Variable, "handle")
        elif where == "top":
            if _LINE_START.match(before):
                yield from _snippets(_STATEMENTS["top"])
        elif _LINE_START.match(before) and _AWAIT_ONE.match(_header_above(file.source.text, offset, before)):
            yield from _snippets(_CASES)
            yield from _items(self._handles(definition), _K.Variable, "handle")
        elif _LINE_START.match(before) and _SWITCH.match(_header_above(file.source.text, offset, before)):
            yield from _snippets(_SWITCH_LINES)
        else:
            if _LINE_START.match(before):
                yield from _snippets(_STATEMENTS[where])
            elif _AFTER_CLOSE.match(before):
                yield from _items(("completed", "failed"), _K.Keyword, "reason")
            yield from self._values(file, definition, handler, where)

    # --- context

    def _context(self, file: File, offset: int, before: str) -> tuple[Definition | None, Handler | None, _Where]:
        """The definition and handler around the cursor; a line that is not indented is outside of all."""
        definition = next((one for one in reversed(file.definitions) if one.start < offset), None)
        if definition is None or not before[:1].isspace():
            return None, None, "top"
        if isinstance(definition, Activity):
            return definition, None, "activity"
        width = len(before) - len(before.lstrip())
        for handler in definition.handlers:
            column = file.source.position(handler.start).column - 1
            following = [one.start for one in (*definition.handlers, *definition.body) if one.start > handler.start]
            limit = min(following, default=len(file.source.text) + 1)
            if handler.start < offset < limit and width > column:
                return definition, handler, "query" if handler.kind == "query" else "message"
        return definition, None, "workflow"

    def _surveyed(self, definition: Definition | None) -> Surveyed | None:
        for one in self.workspace.answers.resolution.surveyed:
            if one.definition is definition:
                return one
        return None

    # --- names

    def _named(self, kind: str, definition: Definition | None) -> Iterator[types.CompletionItem]:
        resolution = self.workspace.answers.resolution
        if kind in ("activity", "workflow"):
            table = resolution.activities if kind == "activity" else resolution.workflows
            item_kind = _K.Function if kind == "activity" else _K.Class
            for name, place in sorted(table.items()):
                node = place.node
                if isinstance(node, (Workflow, Activity)):
                    names = [f"${{{number}:{param.name.name}}}" for number, param in enumerate(node.params, 1)]
                    yield _item(name, item_kind, signature(node), f"{name}({', '.join(names)})")
        elif isinstance(definition, Workflow):
            for handler in definition.handlers:
                if handler.kind == kind:
                    yield _item(handler.name.name, _K.Event, signature(handler), handler.name.name)

    def _handles(self, definition: Definition | None) -> list[str]:
        one = self._surveyed(definition)
        writes = one.survey.writes if one is not None else ()
        return sorted({write.name for write in writes if write.how in ("spawn", "loop")})

    def _values(
        self, file: File, definition: Definition | None, handler: Handler | None, where: _Where
    ) -> Iterator[types.CompletionItem]:
        names: set[str] = set()
        one = self._surveyed(definition)
        if one is not None:
            names |= one.scope.visible(handler)
        good = self.workspace.good_definition(file.path, definition) if definition is not None else None
        if good is not None:
            names |= Scope(survey(good)).shared
        yield from _items(sorted(names), _K.Variable, "variable")
        own = ACTIVITY_BUILTINS if where == "activity" else WORKFLOW_BUILTINS
        for name, builtin in {**PURE_BUILTINS, **own}.items():
            yield _item(name, _K.Function, builtin.signature, f"{name}($0)", builtin.about)
        yield from _items(("true", "false", "null", "not"), _K.Keyword, "")

    # --- signature help

    def signature_help(self, uri: str, position: types.Position) -> types.SignatureHelp | None:
        file = self.workspace.file(self.workspace.path_of(uri))
        if file is None:
            return None
        offset = self.positions.offset(file.source, position)
        opened = _open_bracket(file.source.text, offset)
        if opened is None:
            return None
        start, commas = opened
        match = _CALL.search(file.source.text, max(0, start - 200), start)
        label = self._signature(match, file, start) if match is not None else None
        if label is None:
            return None
        inside = label[label.index("(") + 1 : _matching_end(label)]
        params = [part.strip() for part in inside.split(",")] if inside else []
        active = min(commas, max(0, len(params) - 1))
        infos = [types.ParameterInformation(param) for param in params]
        return types.SignatureHelp([types.SignatureInformation(label, parameters=infos)], 0, active)

    def _signature(self, match: re.Match[str], file: File, at: int) -> str | None:
        kind, name = match[1], match[2]
        resolution = self.workspace.answers.resolution
        if kind is not None:
            place = (resolution.activities if kind == "activity" else resolution.workflows).get(name)
            node = place.node if place is not None else None
            return signature(node) if node is not None else None
        if name == "continue_as_new":
            definition = next((one for one in reversed(file.definitions) if one.start < at), None)
            return signature(definition).replace("workflow ", "continue as ", 1) if definition is not None else None
        builtin = BUILTINS.get(name)
        return builtin.signature if builtin is not None else None


# --- items


def _item(name: str, kind: types.CompletionItemKind, detail: str, insert: str, about: str = "") -> types.CompletionItem:
    return types.CompletionItem(
        name,
        kind=kind,
        detail=detail or None,
        documentation=about or None,
        insert_text=insert,
        insert_text_format=types.InsertTextFormat.Snippet,
    )


def _items(names: Iterable[str], kind: types.CompletionItemKind, detail: str) -> Iterator[types.CompletionItem]:
    for name in names:
        yield types.CompletionItem(name, kind=kind, detail=detail or None)


def _snippets(table: dict[str, str]) -> Iterator[types.CompletionItem]:
    for word, insert in table.items():
        yield _item(word, _K.Keyword, "", insert)


def _option_items(place: tuple[int, str], definition: Definition | None) -> Iterator[types.CompletionItem]:
    _, head = place
    if "retryPolicy" in head:
        yield from (_item(key, _K.Property, "retry option", f"{key}: $0") for key in RETRY_KEYS)
        return
    on: Literal["activity", "workflow"] = "activity"
    if re.search(r"\bworkflow\b", head) or (not head.strip() and isinstance(definition, Workflow)):
        on = "workflow"
    for option in OPTIONS.values():
        if on in option.on and option.effective:
            yield _item(option.name, _K.Property, option.about, f"{option.name}: $0")


# --- reading backwards from the cursor


def _in_text(before: str) -> bool:
    """Inside a comment or a string."""
    quoted = False
    for letter in before:
        if letter == '"':
            quoted = not quoted
        elif letter == "#" and not quoted:
            return True
    return quoted


def _header_above(text: str, offset: int, before: str) -> str:
    """The line that the block around the cursor's line belongs to."""
    width = len(before) - len(before.lstrip(" \t"))
    end = offset - len(before) - 1
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        code = line.strip()
        if code and not code.startswith("#") and len(line) - len(line.lstrip(" \t")) < width:
            return line
        end = start - 1
    return ""


def _open_bracket(text: str, offset: int) -> tuple[int, int] | None:
    """The `(` around the cursor, and how many commas stand between."""
    depth = commas = 0
    for i in range(offset - 1, max(-1, offset - 2000), -1):
        letter = text[i]
        if letter in ")]}":
            depth += 1
        elif letter in "([{":
            if not depth:
                return (i, commas) if letter == "(" else None
            depth -= 1
        elif letter == "," and not depth:
            commas += 1
    return None


def _options_around(text: str, offset: int) -> tuple[int, str] | None:
    """Where the options around the cursor begin, when a key is to come; with the line they belong to."""
    depth = 0
    for i in range(offset - 1, max(-1, offset - 2000), -1):
        letter = text[i]
        if letter in ")]}":
            depth += 1
        elif letter == ":" and not depth:
            return None  # a value is to come, not a key
        elif letter in "([{":
            if depth:
                depth -= 1
                continue
            line_start = text.rfind("\n", 0, i) + 1
            inside = text[line_start:i]
            if letter == "{" and "retryPolicy" in inside:
                return i, "retryPolicy"
            if letter == "(" and inside.strip() == "options":
                above = text.rfind("\n", 0, max(0, line_start - 1)) + 1
                head = text[above:line_start].strip()
                return i, "" if head.startswith(("workflow ", "activity ")) and text[
                    above : above + 1
                ].strip() else head
            return None
        elif letter == "," and not depth:
            return _skip_entry(text, i)
    return None


def _skip_entry(text: str, comma: int) -> tuple[int, str] | None:
    """From a comma back to the bracket that holds it: the place is for a key if that bracket is of options."""
    opened = _open_any(text, comma)
    if opened is None:
        return None
    return _options_around(text, opened + 1)


def _open_any(text: str, offset: int) -> int | None:
    depth = 0
    for i in range(offset - 1, max(-1, offset - 2000), -1):
        if text[i] in ")]}":
            depth += 1
        elif text[i] in "([{":
            if not depth:
                return i
            depth -= 1
    return None


def _matching_end(label: str) -> int:
    depth = 0
    for i in range(label.index("("), len(label)):
        depth += (label[i] == "(") - (label[i] == ")")
        if not depth:
            return i
    return len(label)
