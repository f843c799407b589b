"""`tenuto twf`: what each command prints, as text and as JSON, and how it exits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tenuto.cli.twf import command

ORDER = """\
# Orders.
workflow Order(order: Order) -> (Receipt):
    signal Cancel(reason: string):
        cancelled = reason

    activity Charge(order) -> receipt
    nexus "mail" workflow Letter(receipt)
    close receipt
"""
BANK = "activity Charge(order: Order) -> (Receipt):\n    return bank.charge(order)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.twf").write_text(ORDER)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "bank.twf").write_text(BANK)
    return tmp_path


def run(*args: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(command, list(args), input=text)


# --- check


def test_check_says_ok_and_counts(folder: Path) -> None:
    result = run("check", ".")
    assert (result.exit_code, result.output) == (0, "ok: 1 workflow, 1 activity\n")


def test_check_shows_the_line_a_caret_and_what_to_do(folder: Path) -> None:
    (folder / "order.twf").write_text(ORDER.replace("Charge", "Chrage"))
    result = run("check", ".")
    assert result.exit_code == 1
    assert result.output == (
        'order.twf:6:14: error TWF301: undefined activity Chrage (did you mean "Charge"?)\n'
        "  6 |     activity Chrage(order) -> receipt\n"
        "    |              ^^^^^^\n"
        "1 error, 0 warnings in 1 workflow, 1 activity\n"
    )


def test_check_reads_standard_input() -> None:
    result = run("check", "-", text="workflow W():\n    activity A()\n")
    assert result.exit_code == 1
    assert result.output.startswith("<stdin>:2:14: error TWF301: undefined activity A\n")


def test_check_as_json_has_every_field() -> None:
    result = run("check", "--json", "-", text="workflow W():\n    close\n\nworkflow W():\n    close\n")
    assert result.exit_code == 1
    assert json.loads(result.output) == {
        "ok": False,
        "workflows": 2,
        "activities": 0,
        "diagnostics": [
            {
                "file": "<stdin>",
                "line": 4,
                "column": 1,
                "endLine": 4,
                "endColumn": 11,
                "severity": "error",
                "code": "TWF310",
                "message": "duplicate workflow W, first at <stdin>:1:1",
                "hint": None,
                "extension": None,
                "related": [{"file": "<stdin>", "line": 1, "column": 1, "message": "first workflow W"}],
            }
        ],
    }


def test_check_lets_warnings_pass_unless_asked_not_to() -> None:
    text = "workflow W():\n    close nope\n"
    assert run("check", "-", text=text).exit_code == 0
    assert run("check", "--warnings-as-errors", "-", text=text).exit_code == 1
    assert run("check", "--warnings-as-errors", "--ignore", "TWF403", "-", text=text).exit_code == 0


def test_only_warnings_can_be_ignored() -> None:
    result = run("check", "--ignore", "TWF301", "-", text="")
    assert result.exit_code == 2
    assert "only warnings" in result.output


def test_strict_reports_extensions() -> None:
    result = run("check", "--strict", "--json", "-", text="workflow W():\n    x = [1]\n    close x\n")
    assert result.exit_code == 1
    assert [found["extension"] for found in json.loads(result.output)["diagnostics"]] == ["list"]


def test_a_missing_path_is_wrong_usage(folder: Path) -> None:
    result = run("check", "nowhere.twf")
    assert (result.exit_code, result.output) == (2, "Error: nowhere.twf: no such file or directory\n")


def test_bytes_that_are_no_text_are_a_finding(folder: Path) -> None:
    (folder / "bad.twf").write_bytes(b"workflow W():\n    x = \xff\n")
    result = run("check", "bad.twf")
    assert result.exit_code == 1
    assert "bad.twf:2:9: error TWF100: byte 0xFF is not UTF-8" in result.output


def test_bindings_are_checked(folder: Path) -> None:
    (folder / "bound.py").write_text(
        "from tenuto.twf.checks import Bound\nbindings = Bound(functions={'bank.charge': False})\nother = 1\n"
    )
    try:
        assert run("check", "--bindings", "bound", ".").exit_code == 0
        result = run("check", "--bindings", "bound:other", ".")
        assert (result.exit_code, "--bindings bound:other" in result.output) == (2, True)
        result = run("check", "--bindings", "nowhere_at_all", ".")
        assert (result.exit_code, "ModuleNotFoundError" in result.output) == (2, True)
    finally:
        sys.modules.pop("bound", None)


def test_what_a_bindings_module_binds_in_vain_is_told(folder: Path) -> None:
    (folder / "vain.py").write_text(
        "from tenuto.twf import Bindings\nbindings = Bindings()\n"
        "bindings.activity('Ship')(print)\nbindings.activity('Chrage')(print)\n"
    )
    (folder / "w.twf").write_text(
        "workflow W():\n    activity Charge()\n\nactivity Charge():\n    f()\n".replace("    f()", "    x = 1")
    )
    try:
        result = run("check", "--bindings", "vain", "w.twf")
        assert result.exit_code == 1
        assert "TWF330" in result.output
        assert "Chrage" in result.output
        assert "no activity Ship" in result.output
        found = json.loads(run("check", "--json", "--bindings", "vain", "w.twf").stdout)
        assert found["unused"] == ["Chrage", "Ship"]
    finally:
        sys.modules.pop("vain", None)


# --- parse, symbols, deps


def test_parse_prints_the_tree_also_after_errors() -> None:
    result = run("parse", "--json", "-", text="workflow W(x):\n    close\n")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert found["twf"] == 1
    assert found["files"][0]["definitions"][0]["name"] == {"name": "W", "span": [1, 10, 1, 11]}
    assert [one["code"] for one in found["diagnostics"]] == ["TWF127"]


def test_parse_links_targets_to_their_definitions(folder: Path) -> None:
    found = json.loads(run("parse", ".").output)
    order = next(file for file in found["files"] if file["path"] == "order.twf")
    charge = order["definitions"][0]["body"][0]["target"]
    assert charge["resolved"] == {"path": "lib/bank.twf", "span": [1, 10, 1, 16]}
    assert order["definitions"][0]["body"][1]["target"]["resolved"] is None


def test_symbols_are_listed_with_handlers_indented(folder: Path) -> None:
    result = run("symbols", ".")
    assert result.exit_code == 0
    assert result.output == (
        "lib/bank.twf\n"
        "  activity Charge(order: Order) -> (Receipt)  :1\n"
        "order.twf\n"
        "  workflow Order(order: Order) -> (Receipt)  :2\n"
        "    signal Cancel(reason: string)  :3\n"
    )
    found = json.loads(run("symbols", "--json", "order.twf").output)
    assert [(one["kind"], one["name"], one["members"][0]["signature"]) for one in found] == [
        ("workflow", "Order", "signal Cancel(reason: string)")
    ]


def test_deps_show_who_calls_whom(folder: Path) -> None:
    assert run("deps", ".").output == (
        "activity Charge  lib/bank.twf:1\n"
        "workflow Order  order.twf:2\n"
        "  -> activity Charge  :6\n"
        "not in this program\n"
        '  workflow Letter (nexus "mail"), from workflow Order  order.twf:7:27\n'
    )
    found = json.loads(run("deps", "--json", ".").output)
    assert [(edge["from"], edge["to"]) for edge in found["edges"]] == [("workflow:Order", "activity:Charge")]
    assert run("deps", "--mermaid", ".").output.startswith("flowchart LR\n")


# --- fmt


def test_fmt_rewrites_files_and_says_which(folder: Path) -> None:
    (folder / "order.twf").write_text("workflow W( ):\n  close\n")
    assert run("fmt", ".").output == "formatted order.twf\n"
    assert (folder / "order.twf").read_text() == "workflow W():\n    close\n"
    assert run("fmt", ".").output == ""


def test_fmt_check_and_diff_change_nothing(folder: Path) -> None:
    (folder / "order.twf").write_text("workflow W( ):\n  close\n")
    result = run("fmt", "--check", ".")
    assert (result.exit_code, result.output) == (1, "would change order.twf\n")
    result = run("fmt", "--diff", ".")
    assert result.exit_code == 0
    assert "-workflow W( ):\n" in result.output
    assert "+workflow W():\n" in result.output
    assert (folder / "order.twf").read_text() == "workflow W( ):\n  close\n"


def test_fmt_as_json_tells_what_changed(folder: Path) -> None:
    found = json.loads(run("fmt", "--check", "--json", ".").output)
    assert [(one["file"], one["changed"]) for one in found["files"]] == [("lib/bank.twf", False), ("order.twf", False)]


def test_fmt_writes_standard_input_to_standard_output() -> None:
    result = run("fmt", "-", text="workflow W( ):\n  close\n")
    assert (result.exit_code, result.output) == (0, "workflow W():\n    close\n")


def test_fmt_leaves_a_file_with_a_syntax_error_alone(folder: Path) -> None:
    (folder / "order.twf").write_text("workflow W(:\n  close\n")
    result = run("fmt", "order.twf")
    assert result.exit_code == 1
    assert "TWF107" in result.output
    assert (folder / "order.twf").read_text() == "workflow W(:\n  close\n"


def test_fmt_counts_a_byte_order_mark_as_a_change(folder: Path) -> None:
    (folder / "order.twf").write_bytes(b"\xef\xbb\xbfworkflow W():\r\n    close\r\n")
    assert run("fmt", "order.twf").exit_code == 0
    assert (folder / "order.twf").read_bytes() == b"workflow W():\n    close\n"


# --- graph


@pytest.mark.parametrize(
    ("form", "begin"), [("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<svg "), ("json", "{")]
)
def test_graph_draws_in_every_form(folder: Path, form: str, begin: str) -> None:
    result = run("graph", ".", "--format", form)
    assert result.exit_code == 0
    assert result.output.startswith(begin)


def test_graph_writes_a_file(folder: Path) -> None:
    assert run("graph", ".", "--format", "svg", "-o", "order.svg").exit_code == 0
    assert (folder / "order.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_graph_refuses_a_program_with_errors_and_unknown_names(folder: Path) -> None:
    assert run("graph", "-", text="workflow W():\n    activity A()\n").exit_code == 1
    result = run("graph", ".", "--workflow", "Nope")
    assert (result.exit_code, "there is: Order" in result.output) == (2, True)


# --- lsp


def test_lsp_can_be_asked_what_it_does() -> None:
    found = json.loads(run("lsp", "--json").output)
    assert found["transport"] == "stdio"
    assert {"completion", "rename", "code actions"} <= set(found["features"])


def test_without_the_extra_lsp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tenuto.twf.lsp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    result = run("lsp")
    assert result.exit_code == 2
    assert "pip install 'pygls'" in result.output


def test_colours_are_for_terminals_only(folder: Path) -> None:
    (folder / "order.twf").write_text(ORDER.replace("Charge", "Chrage"))
    assert "\x1b[" not in run("check", ".").output
