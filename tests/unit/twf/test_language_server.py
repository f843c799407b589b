"""The language server, driven by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

ORDERS = """\
workflow Order(order: Order) -> (Receipt):
    signal Cancel(reason: string):
        cancelled = true

    total = len(order.items)
    activity Charge(order, total) -> receipt
    await signal Cancel -> (why)
    close receipt
"""
BANK = """\
# Takes the money.
activity Charge(order: Order, cents: int) -> (Receipt):
    return bank.charge(order, cents)
"""
SERVER = [sys.executable, "-c", "from tenuto.cli import main; main()", "twf", "lsp"]


class Editor:
    """A client that remembers the diagnostics it was sent and can wait for the next ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = LanguageClient("test-editor", "1")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.arrived = asyncio.Condition()
        self.versions: dict[str, int] = {}

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def published(params: types.PublishDiagnosticsParams) -> None:
            async with self.arrived:
                self.diagnostics[params.uri] = list(params.diagnostics)
                self.arrived.notify_all()

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))

    async def start(self) -> types.InitializeResult:
        await self.client.start_io(*SERVER)
        result = await self.client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(),
                root_uri=self.root.as_uri(),
                workspace_folders=[types.WorkspaceFolder(self.root.as_uri(), "test")],
            )
        )
        self.client.initialized(types.InitializedParams())
        return result

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def open(self, name: str, text: str) -> None:
        self.versions[name] = 1
        item = types.TextDocumentItem(self.uri(name), "twf", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def close(self, name: str) -> None:
        del self.versions[name]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(self.document(name)))

    def change(self, name: str, line: int, start: int, end: int, text: str) -> None:
        """Replace part of one line, as typing does."""
        self.versions[name] += 1
        place = types.Range(types.Position(line, start), types.Position(line, end))
        document = types.VersionedTextDocumentIdentifier(uri=self.uri(name), version=self.versions[name])
        change = types.TextDocumentContentChangePartial(range=place, text=text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def codes(self, name: str, expected: list[str]) -> list[types.Diagnostic]:
        """Wait until the diagnostics of a file have these codes."""
        uri = self.uri(name)

        def current() -> list[str]:
            return [str(one.code) for one in self.diagnostics.get(uri, [])]

        async with self.arrived:
            try:
                await asyncio.wait_for(self.arrived.wait_for(lambda: current() == expected), 20)
            except TimeoutError:
                pytest.fail(f"{name}: {current()} instead of {expected}")
        return self.diagnostics.get(uri, [])


pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    root = tmp_path_factory.mktemp("workspace")
    (root / "bank.twf").write_text(BANK)
    (root / "orders.twf").write_text(ORDERS)
    editor = Editor(root)
    await editor.start()
    yield editor
    await editor.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def editor(server: Editor) -> AsyncIterator[Editor]:
    """One server for all tests; what a test opened is closed after it, so that the files on disk count again."""
    yield server
    for name in list(server.versions):
        server.close(name)


async def test_diagnostics_follow_the_typing(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    editor.change("orders.twf", 5, 13, 19, "Chrage")
    (found,) = await editor.codes("orders.twf", ["TWF301"])
    assert found.range == types.Range(types.Position(5, 13), types.Position(5, 19))
    assert 'did you mean "Charge"?' in found.message
    editor.change("orders.twf", 5, 13, 19, "Charge")
    await editor.codes("orders.twf", [])


async def test_a_change_in_one_file_shows_in_another(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    editor.open("bank.twf", BANK)
    editor.change("bank.twf", 1, 9, 15, "Collect")
    await editor.codes("orders.twf", ["TWF301"])


async def test_a_duplicate_points_to_the_first_place(editor: Editor) -> None:
    editor.open("more.twf", "activity Charge(x: int):\n    f(x)\n")
    (found,) = await editor.codes("more.twf", ["TWF311"])
    assert found.related_information is not None
    assert found.related_information[0].location.uri == editor.uri("bank.twf")


async def test_definition_leads_into_another_file(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    place = types.Position(5, 15)
    found = await editor.client.text_document_definition_async(
        types.DefinitionParams(editor.document("orders.twf"), place)
    )
    assert found == [
        types.Location(editor.uri("bank.twf"), types.Range(types.Position(1, 9), types.Position(1, 15))),
    ]


async def test_references_are_found_across_files(editor: Editor) -> None:
    context = types.ReferenceContext(include_declaration=True)
    params = types.ReferenceParams(context, editor.document("bank.twf"), types.Position(1, 10))
    found = await editor.client.text_document_references_async(params)
    assert found is not None
    assert sorted((one.uri, one.range.start.line) for one in found) == [
        (editor.uri("bank.twf"), 1),
        (editor.uri("orders.twf"), 5),
    ]


async def test_rename_changes_every_file(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    params = types.RenameParams(editor.document("orders.twf"), types.Position(5, 15), "Collect")
    edit = await editor.client.text_document_rename_async(params)
    assert edit is not None
    assert edit.changes is not None
    assert {uri: [one.new_text for one in edits] for uri, edits in edit.changes.items()} == {
        editor.uri("bank.twf"): ["Collect"],
        editor.uri("orders.twf"): ["Collect"],
    }


async def test_rename_goes_by_kind_and_leaves_other_kinds_alone(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    params = types.RenameParams(editor.document("orders.twf"), types.Position(6, 18), "Stop")
    edit = await editor.client.text_document_rename_async(params)
    assert edit is not None
    assert edit.changes is not None
    assert [one.range.start.line for one in edit.changes[editor.uri("orders.twf")]] == [1, 6]


async def test_rename_keeps_fields_and_follows_named_arguments(editor: Editor) -> None:
    text = """\
workflow W(id: string):
    activity Send(to: id)
        options(taskQueue: "q-{id}")
    close R{id, n: 1}

activity Send(to: string):
    mail.send(to)
"""
    editor.open("w.twf", text)

    async def renamed(line: int, character: int, name: str) -> list[tuple[int, int, str]]:
        params = types.RenameParams(editor.document("w.twf"), types.Position(line, character), name)
        edit = await editor.client.text_document_rename_async(params)
        assert edit is not None
        assert edit.changes is not None
        edits = edit.changes[editor.uri("w.twf")]
        return [(one.range.start.line, one.range.start.character, one.new_text) for one in edits]

    assert await renamed(0, 12, "key") == [(0, 11, "key"), (1, 22, "key"), (2, 31, "key"), (3, 12, "id: key")]
    assert await renamed(5, 15, "address") == [(1, 18, "address"), (5, 14, "address"), (6, 14, "address")]


@pytest.mark.parametrize(("name", "why"), [("close", "keyword"), ("order", "already"), ("2x", "not a name")])
async def test_rename_is_refused_for_keywords_and_taken_names(
    editor: Editor, name: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    editor.open("orders.twf", ORDERS)
    params = types.RenameParams(editor.document("orders.twf"), types.Position(4, 5), name)
    with pytest.raises(JsonRpcException, match=why):
        await editor.client.text_document_rename_async(params)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []  # it is no failure of ours


async def test_rename_is_refused_while_a_file_with_the_name_does_not_parse(editor: Editor) -> None:
    editor.open("bank.twf", BANK)
    editor.change("bank.twf", 1, 15, 16, "[")
    await editor.codes("bank.twf", ["TWF108"])
    params = types.RenameParams(editor.document("orders.twf"), types.Position(5, 15), "Collect")
    with pytest.raises(JsonRpcException, match=r"bank\.twf mentions Charge"):
        await editor.client.text_document_rename_async(params)


async def complete(editor: Editor, name: str, line: int, character: int) -> set[str]:
    params = types.CompletionParams(editor.document(name), types.Position(line, character))
    found = await editor.client.text_document_completion_async(params)
    items = found.items if isinstance(found, types.CompletionList) else found or []
    return {item.label for item in items}


async def test_completion_knows_its_context(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    editor.change("orders.twf", 5, 13, 44, "")
    assert await complete(editor, "orders.twf", 5, 13) == {"Charge"}
    at_start = await complete(editor, "orders.twf", 7, 4)
    assert {"close", "await", "activity", "total", "len"} <= at_start
    assert "heartbeat" not in at_start
    in_activity = await complete(editor, "bank.twf", 2, 4)
    assert "heartbeat" in in_activity
    assert "await" not in in_activity
    assert await complete(editor, "orders.twf", 6, 17) == {"Cancel"}
    at_top = await complete(editor, "bank.twf", 0, 0)
    assert at_top == {"workflow", "activity"}


async def test_completion_offers_cases_where_cases_stand(editor: Editor) -> None:
    text = "workflow W(x: int):\n    await one:\n        timer(5m):\n            close\n        \n"
    text += "    switch (x):\n        \n"
    editor.open("w.twf", text)
    cases = await complete(editor, "w.twf", 4, 8)
    assert {"timer", "signal", "await all"} <= cases
    assert "if" not in cases
    assert await complete(editor, "w.twf", 6, 8) == {"case", "else"}
    assert "if" in await complete(editor, "w.twf", 3, 12)


async def test_completion_offers_option_keys_by_target(editor: Editor) -> None:
    text = "workflow W():\n    activity A()\n        options()\n    close\n\nactivity A():\n    options()\n    f()\n"
    editor.open("w.twf", text)
    keys = await complete(editor, "w.twf", 2, 16)
    assert "startToCloseTimeout" in keys
    assert "workflowId" not in keys


async def test_a_definition_that_does_not_parse_is_still_known(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    editor.open("bank.twf", BANK)
    editor.change("bank.twf", 1, 15, 16, "[")
    await editor.codes("bank.twf", ["TWF108"])
    found = await editor.client.text_document_hover_async(
        types.HoverParams(editor.document("orders.twf"), types.Position(5, 15))
    )
    assert found is not None
    assert "activity Charge(order: Order, cents: int) -> (Receipt)" in str(found.contents)


async def test_hover_shows_signature_and_the_comment_above(editor: Editor) -> None:
    params = types.HoverParams(editor.document("orders.twf"), types.Position(5, 15))
    found = await editor.client.text_document_hover_async(params)
    assert found is not None
    assert isinstance(found.contents, types.MarkupContent)
    assert found.contents.value == (
        "```twf\nactivity Charge(order: Order, cents: int) -> (Receipt)\n```\nTakes the money."
    )


async def test_signature_help_marks_the_argument(editor: Editor) -> None:
    params = types.SignatureHelpParams(editor.document("orders.twf"), types.Position(5, 27))
    found = await editor.client.text_document_signature_help_async(params)
    assert found is not None
    assert found.signatures[0].label == "activity Charge(order: Order, cents: int) -> (Receipt)"
    assert found.active_parameter == 1


async def test_symbols_of_a_document_and_of_the_workspace(editor: Editor) -> None:
    found = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(editor.document("orders.twf"))
    )
    (symbol,) = found or []
    assert isinstance(symbol, types.DocumentSymbol)
    assert (symbol.name, [child.name for child in symbol.children or []]) == ("Order", ["Cancel"])
    everywhere = await editor.client.workspace_symbol_async(types.WorkspaceSymbolParams("c"))
    assert {one.name for one in everywhere or []} == {"Cancel", "Charge"}


async def test_semantic_tokens_and_folds_cover_the_file(editor: Editor) -> None:
    tokens = await editor.client.text_document_semantic_tokens_full_async(
        types.SemanticTokensParams(editor.document("orders.twf"))
    )
    assert tokens is not None
    assert len(tokens.data) % 5 == 0
    assert list(tokens.data[:5]) == [0, 0, len("workflow"), 0, 0]
    folds = await editor.client.text_document_folding_range_async(
        types.FoldingRangeParams(editor.document("orders.twf"))
    )
    assert {(fold.start_line, fold.end_line) for fold in folds or []} == {(0, 7), (1, 2)}


async def test_formatting_gives_the_canonical_text(editor: Editor) -> None:
    editor.open("w.twf", "workflow W( ):\n  x=1\n  close  x\n")
    options = types.FormattingOptions(tab_size=4, insert_spaces=True)
    edits = await editor.client.text_document_formatting_async(
        types.DocumentFormattingParams(editor.document("w.twf"), options)
    )
    assert edits is not None
    assert [edit.new_text for edit in edits] == ["workflow W():\n    x = 1\n    close x\n"]


async def actions(editor: Editor, name: str, line: int, character: int) -> dict[str, list[types.TextEdit]]:
    place = types.Position(line, character)
    params = types.CodeActionParams(
        editor.document(name), types.Range(place, place), types.CodeActionContext(diagnostics=[])
    )
    found = await editor.client.text_document_code_action_async(params)
    out: dict[str, list[types.TextEdit]] = {}
    for one in found or []:
        assert isinstance(one, types.CodeAction)
        assert one.edit is not None
        assert one.edit.changes is not None
        out[one.title] = list(one.edit.changes[editor.uri(name)])
    return out


async def test_code_actions_create_what_is_missing_and_correct_names(editor: Editor) -> None:
    editor.open("orders.twf", ORDERS)
    editor.change("orders.twf", 5, 13, 19, "Chrage")
    offered = await actions(editor, "orders.twf", 5, 15)
    assert [edit.new_text for edit in offered['Change to "Charge"']] == ["Charge"]
    (created,) = offered["Create activity Chrage"]
    assert "activity Chrage(order: any, total: any) -> (any):" in created.new_text


async def test_code_actions_convert_the_assignment_form(editor: Editor) -> None:
    editor.open("w.twf", "workflow W():\n    r = activity A()\n    close r\n\nactivity A():\n    f()\n")
    offered = await actions(editor, "w.twf", 1, 6)
    assert [edit.new_text for edit in offered["Convert to the arrow form"]] == ["", " -> r"]


async def test_positions_count_utf_16_units(editor: Editor) -> None:
    editor.open("w.twf", 'workflow W():\n    x = "\U0001f600" + nope\n    close x\n')
    (found,) = await editor.codes("w.twf", ["TWF403"])
    assert found.range == types.Range(types.Position(1, 15), types.Position(1, 19))
