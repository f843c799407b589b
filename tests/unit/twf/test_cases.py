"""Every case of the specification: its exact diagnostics, definitions and extensions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenuto.twf.jsonform import program_json
from tenuto.twf.program import decode, load
from tenuto.twf.source import Source

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.name for path in CASES.glob("*.twf"))


def test_every_case_is_listed_and_every_listed_case_exists(expectations: dict[str, Any]) -> None:
    assert sorted(expectations) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_case_gives_exactly_what_is_stated(name: str, expectations: dict[str, Any]) -> None:
    expected = expectations[name]
    program = load([decode(name, (CASES / name).read_bytes())])
    found = [{"line": one.span.line, "column": one.span.column, "code": one.code} for one in program.diagnostics]
    wanted = [{key: one[key] for key in ("line", "column", "code")} for one in expected["diagnostics"]]
    assert found == wanted
    assert program.ok == expected["ok"]
    (file,) = program_json(program)["files"]
    assert [f"{one['kind']} {one['name']['name']}" for one in file["definitions"]] == expected["definitions"]
    if expected["ok"]:
        assert sorted({one["tag"] for one in file["extensions"]}) == expected["extensions"]


def test_124_a_definition_in_two_files_is_reported_in_the_second(cases: dict[str, str]) -> None:
    text = cases["124_dup_across_files_note.twf"]
    (found,) = load([Source("b.twf", text), Source("a.twf", text)]).diagnostics
    assert (found.path, found.code, found.related[0].path) == ("b.twf", "TWF310", "a.twf")


def shown(node: dict[str, Any]) -> str:
    """An expression with every pair of parentheses written out."""
    match node["kind"]:
        case "binary":
            return f"({shown(node['left'])} {node['op']} {shown(node['right'])})"
        case "unary":
            return f"({node['op']} {shown(node['operand'])})"
        case "number":
            return str(node["text"])
        case _:
            return str(node["name"])


def test_137_operators_bind_as_stated(cases: dict[str, str], tree: Callable[[str], Any]) -> None:
    value = tree(cases["137_precedence.twf"])[0]["body"][0]["value"]
    assert shown(value) == "((((a + (b * c)) == ((- a) % 2)) and (not p)) or q)"


def test_086_the_assignment_form_is_the_arrow_form_but_for_its_name(
    cases: dict[str, str], tree: Callable[[str], Any]
) -> None:
    text = cases["086_assign_activity.twf"]
    arrow = text.replace("r = activity A(x)", "activity A(x) -> r")
    assigned = tree(text)[0]["body"][0]
    assert assigned.pop("form") == "assign"
    written = tree(arrow)[0]["body"][0]
    assert written.pop("form") == "arrow"
    assert assigned == written


def test_044_milliseconds_are_fractions_of_a_second(cases: dict[str, str], tree: Callable[[str], Any]) -> None:
    target = tree(cases["044_duration_ms.twf"])[0]["body"][0]["target"]
    assert target["duration"] == {"kind": "duration", "seconds": 0.5, "text": "500ms"}


def test_118_a_soft_word_before_a_dot_is_a_value(cases: dict[str, str], tree: Callable[[str], Any]) -> None:
    close = tree(cases["118_close_failed_ident.twf"])[0]["body"][1]
    assert (close["reason"], close["value"]["kind"]) == ("completed", "field")


def test_131_and_132_lines_at_the_wrong_depth_stay_in_their_workflow(
    cases: dict[str, str], tree: Callable[[str], Any]
) -> None:
    assert len(tree(cases["131_inconsistent_dedent.twf"])[0]["body"]) == 2
    assert len(tree(cases["132_over_indent.twf"])[0]["body"]) == 3


def test_041_the_line_after_an_unterminated_string_is_still_read(
    cases: dict[str, str], tree: Callable[[str], Any]
) -> None:
    assert [one["kind"] for one in tree(cases["041_unterminated_string.twf"])[0]["body"]] == ["assign", "close"]


def test_003_a_comment_is_kept_beside_the_tree(cases: dict[str, str]) -> None:
    program = load([Source("a.twf", cases["003_comment_only_no_newline.twf"])])
    assert program_json(program)["files"][0]["comments"] == [{"span": [1, 1, 1, 5], "text": "# hi", "own": True}]
