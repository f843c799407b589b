"""Where a name comes from, where it goes, what it is, and what else to call it."""

from __future__ import annotations

import re
from typing import Final

from lsprotocol import types

from ..ast import Activity, File, Handler, Workflow
from ..builtins import BUILTINS
from ..occurrences import Meaning, Occurrence
from ..options import OPTIONS, normalized
from ..source import Source
from ..symbols import Symbol, signature, symbols
from ..tokens import KEYWORDS
from .positions import Positions
from .workspace import Workspace

__all__ = ["Navigation", "RenameRefused"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYMBOL_KINDS: Final = {
    "workflow": types.SymbolKind.Class,
    "activity": types.SymbolKind.Function,
    "signal": types.SymbolKind.Event,
    "query": types.SymbolKind.Property,
    "update": types.SymbolKind.Method,
}
_KEYWORD_NOTES: Final = {
    "await": "Waits for a timer, message, activity, workflow or handle.",
    "all": "`await all:` starts every statement at once and waits for all of them.",
    "one": "`await one:` waits for the first of its cases; the others are cancelled.",
    "spawn": "Starts a child workflow and goes on; `await` its handle for the result.",
    "detach": "Starts a workflow that outlives this one.",
    "nexus": "Calls a workflow in another namespace.",
    "close": "Ends the workflow: completed, or failed with a value.",
    "continue_as_new": "Ends this run and starts the next one of the chain with new arguments.",
    "heartbeat": "Reports the progress of an activity and renews its time limit.",
    "timer": "A durable wait: `await timer(5m)`.",
}


class RenameRefused(Exception):  # an answer, told to the user by the editor
    """Why a name cannot be changed."""


class Navigation:
    def __init__(self, workspace: Workspace, positions: Positions) -> None:
        self.workspace = workspace
        self.positions = positions

    # --- finding

    def occurrence(self, uri: str, position: types.Position) -> tuple[File, Occurrence] | None:
        file = self.workspace.file(self.workspace.path_of(uri))
        if file is None:
            return None
        found = self.workspace.occurrences.at(file.path, self.positions.offset(file.source, position))
        return None if found is None else (file, found)

    def location(self, one: Occurrence) -> types.Location:
        source = self._source(one)
        return types.Location(self.workspace.uri_of(one.path), self.positions.range(source, one.start, one.end))

    def _source(self, one: Occurrence) -> Source:
        for file in self.workspace.answers.files:
            if file.path == one.path and file.source.text[one.start : one.end].endswith(
                one.meaning.name.split(".")[-1]
            ):
                return file.source
        return Source(one.path, "")

    def definition(self, uri: str, position: types.Position) -> list[types.Location]:
        found = self.occurrence(uri, position)
        if found is None:
            return []
        origin = self.workspace.occurrences.definition_of(found[1].meaning)
        return [self.location(origin)] if origin is not None else []

    def references(self, uri: str, position: types.Position, *, declaration: bool) -> list[types.Location]:
        found = self.occurrence(uri, position)
        if found is None:
            return []
        every = self.workspace.occurrences.of(found[1].meaning)
        return [self.location(one) for one in every if declaration or one.role != "definition"]

    def highlights(self, uri: str, position: types.Position) -> list[types.DocumentHighlight]:
        found = self.occurrence(uri, position)
        if found is None:
            return []
        file, one = found
        return [
            types.DocumentHighlight(
                self.positions.range(file.source, other.start, other.end),
                types.DocumentHighlightKind.Read if other.role == "read" else types.DocumentHighlightKind.Write,
            )
            for other in self.workspace.occurrences.of(one.meaning)
            if other.path == file.path
        ]

    # --- hover

    def hover(self, uri: str, position: types.Position) -> types.Hover | None:
        file = self.workspace.file(self.workspace.path_of(uri))
        if file is None:
            return None
        offset = self.positions.offset(file.source, position)
        one = self.workspace.occurrences.at(file.path, offset)
        if one is not None:
            text = self._about(one.meaning)
            start, end = one.start, one.end
        else:
            match = next((m for m in _NAME.finditer(file.source.text) if m.start() <= offset <= m.end()), None)
            text = _about_word(match[0]) if match is not None else None
            start, end = (match.start(), match.end()) if match is not None else (offset, offset)
        if text is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, self.positions.range(file.source, start, end))

    def _about(self, meaning: Meaning) -> str | None:
        if meaning.kind == "function":
            builtin = BUILTINS.get(meaning.name)
            if builtin is not None:
                return f"```twf\n{builtin.signature}\n```\n{builtin.about}"
            return f"```twf\n{meaning.name}(…)\n```\nA host function, bound to Python."
        if meaning.kind in ("variable", "parameter"):
            return self._about_variable(meaning)
        for file in self.workspace.answers.files:
            for definition in file.definitions:
                handlers = definition.handlers if isinstance(definition, Workflow) else ()
                for node in (definition, *handlers):
                    if self._is(node, definition, meaning):
                        return f"```twf\n{signature(node)}\n```\n{_comment_above(file, node.start)}".rstrip()
        return None

    def _is(self, node: Workflow | Activity | Handler, owner: Workflow | Activity, meaning: Meaning) -> bool:
        if node.name.name != meaning.name:
            return False
        if isinstance(node, Handler):
            return node.kind == meaning.kind and owner is meaning.owner
        return meaning.kind == ("workflow" if isinstance(node, Workflow) else "activity")

    def _about_variable(self, meaning: Meaning) -> str:
        owner = meaning.owner
        where = f"{owner.name.name}" if owner is not None else "this definition"
        for param in owner.params if owner is not None else ():
            if param.name.name == meaning.name and param.type is not None:
                return f"```twf\n{meaning.name}: {param.type.text}\n```\nParameter of {where}."
        count = sum(one.role != "read" for one in self.workspace.occurrences.of(meaning))
        times = "once" if count == 1 else f"{count} times"
        return f"```twf\n{meaning.name}\n```\nVariable of {where}, assigned {times}."

    # --- rename

    def prepare_rename(self, uri: str, position: types.Position) -> types.Range | None:
        found = self.occurrence(uri, position)
        if found is None or found[1].meaning.kind == "function":
            return None
        file, one = found
        return self.positions.range(file.source, one.start, one.end)

    def rename(self, uri: str, position: types.Position, name: str) -> types.WorkspaceEdit:
        found = self.occurrence(uri, position)
        if found is None or found[1].meaning.kind == "function":
            raise RenameRefused("there is no name of this program here")
        meaning = found[1].meaning
        if not _NAME.fullmatch(name):
            raise RenameRefused(f"'{name}' is not a name")
        if name in KEYWORDS:
            raise RenameRefused(f"'{name}' is a keyword")
        if name != meaning.name and self._is_taken(meaning, name):
            raise RenameRefused(f"there is a {meaning.kind} {name} already")
        self._refuse_if_unreadable(meaning.name)
        changes: dict[str, list[types.TextEdit]] = {}
        for one in self.workspace.occurrences.of(meaning):
            place = self.location(one)
            text = f"{meaning.name}: {name}" if one.shorthand else name
            changes.setdefault(place.uri, []).append(types.TextEdit(place.range, text))
        return types.WorkspaceEdit(changes=changes)

    def _refuse_if_unreadable(self, name: str) -> None:
        """A file with syntax errors may hide uses of the name; renaming the others would break it further."""
        broken = {found.path for found in self.workspace.program.diagnostics if found.is_syntax}
        for path in sorted(broken):
            file = self.workspace.file(path)
            if file is None or re.search(rf"\b{re.escape(name)}\b", file.source.text):
                raise RenameRefused(f"{path} mentions {name} and has syntax errors; correct them first")

    def _is_taken(self, meaning: Meaning, name: str) -> bool:
        if meaning.kind not in ("variable", "parameter"):
            return bool(self.workspace.occurrences.of(Meaning(meaning.kind, meaning.owner, name)))
        for one in self.workspace.answers.resolution.surveyed:
            handlers = one.definition.handlers if isinstance(one.definition, Workflow) else ()
            if meaning.owner is one.definition:
                return name in one.scope.shared or any(name in names for names in one.scope.locals.values())
            if meaning.owner in handlers and isinstance(meaning.owner, Handler):
                return one.scope.has(name, meaning.owner)
        return False

    # --- symbols

    def document_symbols(self, uri: str) -> list[types.DocumentSymbol]:
        file = self.workspace.file(self.workspace.path_of(uri))
        return [self._document_symbol(symbol) for symbol in symbols(file)] if file is not None else []

    def _document_symbol(self, symbol: Symbol) -> types.DocumentSymbol:
        source, node = symbol.file.source, symbol.node
        return types.DocumentSymbol(
            symbol.name,
            _SYMBOL_KINDS[symbol.kind],
            self.positions.range(source, node.start, node.end),
            self.positions.range(source, node.name.start, node.name.end),
            detail=symbol.signature,
            children=[self._document_symbol(member) for member in symbol.members],
        )

    def workspace_symbols(self, query: str) -> list[types.WorkspaceSymbol]:
        wanted = query.lower()
        found: list[types.WorkspaceSymbol] = []
        for file in self.workspace.answers.files:
            for symbol in symbols(file):
                for one, container in ((symbol, None), *((member, symbol.name) for member in symbol.members)):
                    if wanted in one.name.lower():
                        name = one.node.name
                        place = types.Location(
                            self.workspace.uri_of(file.path), self.positions.range(file.source, name.start, name.end)
                        )
                        found.append(
                            types.WorkspaceSymbol(place, one.name, _SYMBOL_KINDS[one.kind], container_name=container)
                        )
        return found


def _about_word(word: str) -> str | None:
    if word in _KEYWORD_NOTES:
        return f"**{word}**: {_KEYWORD_NOTES[word]}"
    option = OPTIONS.get(normalized(word))
    return f"**{option.name}**: {option.about}" if option is not None else None


def _comment_above(file: File, start: int) -> str:
    """The comment lines directly above a definition."""
    source = file.source
    line = source.position(start).line - 1
    by_line = {source.position(comment.start).line: comment for comment in file.comments if comment.own}
    found: list[str] = []
    while line in by_line:
        found.append(by_line[line].text.lstrip("#").strip())
        line -= 1
    return "\n".join(reversed(found))
