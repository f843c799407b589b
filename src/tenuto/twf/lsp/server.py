"""The protocol: which request is answered by what. Everything else is in the modules beside this one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from ..ast import File
from ..diagnostics import Diagnostic
from ..fixes import Fix, fixes_for, refactorings_at
from ..format import format_source
from ..source import Source
from .completion import Completion
from .decoration import LEGEND, folds, semantic_tokens
from .navigation import Navigation, RenameRefused
from .positions import Positions
from .workspace import Workspace

__all__ = ["TwfServer", "capabilities", "create_server", "serve"]

_FEATURES: Final = (
    "diagnostics",
    "hover",
    "definition",
    "references",
    "highlights",
    "rename",
    "document symbols",
    "workspace symbols",
    "completion",
    "signature help",
    "semantic tokens",
    "folding",
    "formatting",
    "code actions",
)


def _version() -> str:
    try:
        return version("tenuto")
    except PackageNotFoundError:
        return "0"


class TwfServer(LanguageServer):
    """A language server with the TWF files of its workspace."""

    def __init__(self) -> None:
        super().__init__("tenuto-twf", _version())  # pyright: ignore[reportUnknownMemberType]  # untyped rest arguments
        self.twf = Workspace()
        self.positions = Positions()
        self.navigation = Navigation(self.twf, self.positions)
        self.completion = Completion(self.twf, self.positions)
        self._published: dict[str, list[types.Diagnostic]] = {}

    def publish(self) -> None:
        """Send the diagnostics of every file whose diagnostics changed."""
        by_path: dict[str, list[types.Diagnostic]] = {path: [] for path in self.twf.paths}
        for found in self.twf.program.diagnostics:
            by_path.setdefault(found.path, []).append(self.diagnostic(found))
        for path, current in by_path.items():
            if self._published.get(path, []) != current:
                self._published[path] = current
                uri = self.twf.uri_of(path)
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, current))

    def diagnostic(self, found: Diagnostic) -> types.Diagnostic:
        file = self.twf.file(found.path)
        severity = types.DiagnosticSeverity.Error if found.severity == "error" else types.DiagnosticSeverity.Warning
        tags = [types.DiagnosticTag.Unnecessary] if found.code == "TWF402" else None
        related = [
            types.DiagnosticRelatedInformation(
                types.Location(
                    self.twf.uri_of(one.path),
                    self.positions.span(self._source(one.path), one.span),
                ),
                one.message,
            )
            for one in found.related
        ]
        return types.Diagnostic(
            self.positions.span(file.source if file is not None else None, found.span),
            found.message + (f"\n{found.hint}" if found.hint else ""),
            severity=severity,
            code=found.code,
            source="twf",
            tags=tags,
            related_information=related or None,
        )

    def _source(self, path: str) -> Source | None:
        file = self.twf.file(path)
        return file.source if file is not None else None

    def refresh_open(self, uri: str) -> None:
        self.twf.edit(uri, self.workspace.get_text_document(uri).source)
        self.publish()

    def actions(self, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
        uri = params.text_document.uri
        file = self.twf.file(self.twf.path_of(uri))
        if file is None:
            return
        start = self.positions.offset(file.source, params.range.start)
        end = self.positions.offset(file.source, params.range.end)
        for found in self.twf.program.diagnostics:
            if found.path == file.path and found.start <= end and start <= found.end:
                for number, fix in enumerate(fixes_for(self.twf.program, file, found)):
                    yield self._action(uri, file, fix, self.diagnostic(found), preferred=number == 0)
        for fix in refactorings_at(file, start, end):
            yield self._action(uri, file, fix, None, preferred=False)

    def _action(
        self, uri: str, file: File, fix: Fix, found: types.Diagnostic | None, *, preferred: bool
    ) -> types.CodeAction:
        edits = [
            types.TextEdit(self.positions.range(file.source, edit.start, edit.end), edit.text) for edit in fix.edits
        ]
        return types.CodeAction(
            fix.title,
            kind=types.CodeActionKind.QuickFix if found is not None else types.CodeActionKind.RefactorRewrite,
            diagnostics=[found] if found is not None else None,
            is_preferred=preferred or None,
            edit=types.WorkspaceEdit(changes={uri: edits}),
        )


class _Refusals(logging.Filter):
    """Keeps a refused rename, which the editor shows, from being logged as a failure of the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(getattr(error, "__cause__", None), RenameRefused)


_refusals = _Refusals()


def create_server() -> TwfServer:
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_refusals)
    server = TwfServer()
    _add_lifecycle(server)
    _add_navigation(server)
    _add_editing(server)
    return server


def _add_lifecycle(server: TwfServer) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        encoding = server.workspace.position_encoding
        server.positions.encoding = str(getattr(encoding, "value", encoding) or "utf-16")
        folders = [folder.uri for folder in server.workspace.folders.values()]
        if not folders and server.workspace.root_uri is not None:
            folders = [server.workspace.root_uri]
        server.twf.add_folders(folders)
        server.publish()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.refresh_open(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.refresh_open(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.refresh_open(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.twf.close(params.text_document.uri)
        server.publish()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            if change.uri.endswith(".twf"):
                server.twf.refresh(change.uri)
        server.publish()


def _add_navigation(server: TwfServer) -> None:
    navigation = server.navigation

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return navigation.hover(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> list[types.Location]:
        return navigation.definition(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(params: types.ReferenceParams) -> list[types.Location]:
        declaration = params.context.include_declaration
        return navigation.references(params.text_document.uri, params.position, declaration=declaration)

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlights(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        return navigation.highlights(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        return navigation.prepare_rename(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def rename(params: types.RenameParams) -> types.WorkspaceEdit:
        try:
            return navigation.rename(params.text_document.uri, params.position, params.new_name)
        except RenameRefused as refused:
            raise JsonRpcInvalidParams(str(refused)) from refused

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def document_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        return navigation.document_symbols(params.text_document.uri)

    @server.feature(types.WORKSPACE_SYMBOL)
    def workspace_symbols(params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        return navigation.workspace_symbols(params.query)


def _add_editing(server: TwfServer) -> None:
    def file_of(uri: str) -> File | None:
        return server.twf.file(server.twf.path_of(uri))

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" ", "(", ","]))
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        return server.completion.complete(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(trigger_characters=["(", ","]))
    def signature_help(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        return server.completion.signature_help(params.text_document.uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)
    def tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        file = file_of(params.text_document.uri)
        return (
            types.SemanticTokens([])
            if file is None
            else semantic_tokens(file, server.twf.occurrences, server.positions)
        )

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    def folding(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        file = file_of(params.text_document.uri)
        return [] if file is None else folds(file)

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        file = file_of(params.text_document.uri)
        text = format_source(file.source) if file is not None else None
        if file is None or text is None or text == file.source.text:
            return []
        whole = server.positions.range(file.source, 0, len(file.source.text))
        return [types.TextEdit(whole, text)]

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(
            code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]
        ),
    )
    def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return list(server.actions(params))


def capabilities() -> dict[str, Any]:
    """What the server offers, for people and scripts that ask."""
    return {"name": "tenuto-twf", "version": _version(), "transport": "stdio", "features": list(_FEATURES)}


def serve() -> None:
    """Answer one editor on standard input and output until it leaves."""
    create_server().start_io()
