"""The pages and editor files about TWF say what the language is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tenuto.twf.builtins import BUILTINS
from tenuto.twf.diagnostics import CODES
from tenuto.twf.format import format_source
from tenuto.twf.program import load
from tenuto.twf.source import Source
from tenuto.twf.tokens import KEYWORDS

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs/reference/twf.md").read_text(encoding="utf-8")
EXTENSION = ROOT / "editors/vscode"
EXAMPLES = re.findall(r"```twf\n(.*?)```", REFERENCE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_reference_has_no_errors_and_is_formatted(number: int) -> None:
    source = Source("reference.twf", EXAMPLES[number])
    assert load([source]).diagnostics == ()
    assert format_source(source) == source.text


def test_the_reference_lists_every_code_as_the_program_has_it() -> None:
    assert dict(re.findall(r"^\| (TWF\d+) \| (.*) \|$", REFERENCE, re.MULTILINE)) == CODES


def test_the_reference_names_every_keyword_and_every_function() -> None:
    words = set(re.findall(r"\w+", REFERENCE))
    assert words >= KEYWORDS
    assert words >= set(BUILTINS)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXTENSION / name).read_text(encoding="utf-8"))
    return found


def patterns(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value[key] for key in ("match", "begin", "end") if key in value]
        return own + [found for item in value.values() for found in patterns(item)]
    if isinstance(value, list):
        return [found for item in value for found in patterns(item)]
    return []


def test_the_grammar_knows_exactly_the_keywords_of_the_language() -> None:
    grammar = read("syntaxes/twf.tmLanguage.json")
    entries = grammar["repository"]["keyword"]["patterns"]
    words = {word for entry in entries for word in re.findall(r"[a-z_]{2,}", entry["match"].replace("\\b", " "))}
    assert words - {"completed", "failed"} == KEYWORDS


def test_every_pattern_of_the_grammar_compiles_and_every_include_exists() -> None:
    grammar = read("syntaxes/twf.tmLanguage.json")
    for pattern in patterns(grammar):
        re.compile(pattern)
    text = json.dumps(grammar)
    assert set(re.findall(r'"#(\w+)"', text)) <= set(grammar["repository"])


def test_the_extension_contributes_files_that_exist() -> None:
    package = read("package.json")
    contributed = package["contributes"]
    named = [
        package["main"],
        contributed["languages"][0]["configuration"],
        contributed["grammars"][0]["path"],
        contributed["snippets"][0]["path"],
    ]
    assert all((EXTENSION / name).is_file() for name in named)
    assert contributed["languages"][0]["extensions"] == [".twf"]
    commands = {command["command"] for command in contributed["commands"]}
    script = (EXTENSION / "extension.js").read_text(encoding="utf-8")
    assert commands == set(re.findall(r'registerCommand\("([\w.]+)"', script))


def test_snippets_are_programs_once_their_places_are_filled() -> None:
    for snippet in read("snippets/twf.json").values():
        text = "\n".join(snippet["body"])
        filled = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", text)
        filled = re.sub(r"\$\d+", "", filled).rstrip()
        if not filled.startswith(("workflow", "activity Name(input")):
            filled = "workflow W():\n" + "\n".join(f"    {line}" for line in filled.split("\n"))
        codes = {found.code for found in load([Source("a.twf", filled)]).diagnostics}
        assert not codes & {"TWF120", "TWF121", "TWF125", "TWF133"}, filled


HEADER = "workflow W(order: Order, xs: list[Item]) -> (Receipt, int):"


def test_the_grammar_colours_parameters_and_types_of_a_header_apart() -> None:
    grammar = read("syntaxes/twf.tmLanguage.json")["repository"]
    definition = grammar["definition"]
    begun = re.match(definition["begin"], HEADER)
    assert begun is not None
    parameter, kind = (entry for entry in grammar["signature"]["patterns"] if "match" in entry)
    found: list[tuple[str, str]] = []
    at = begun.end()
    while re.compile(definition["end"]).match(HEADER, at) is None:
        named = re.compile(parameter["match"]).match(HEADER, at)
        typed = re.compile(kind["match"]).match(HEADER, at)
        if named is not None:
            found.append((named[1], parameter["captures"]["1"]["name"]))
        elif typed is not None:
            found.append((typed[0], kind["name"]))
        at = max(at + 1, *(match.end() for match in (named or typed,) if match is not None), at + 1)
    assert [word for word, scope in found if scope == "variable.parameter.twf"] == ["order", "xs"]
    assert [word for word, scope in found if scope == "entity.name.type.twf"] == [
        *("Order", "list", "Item", "Receipt", "int")
    ]


def test_the_extension_is_packaged_with_its_licence_and_picture_and_as_one_file() -> None:
    package = read("package.json")
    assert (EXTENSION / "LICENSE").read_text(encoding="utf-8") == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (EXTENSION / package["icon"]).read_bytes().startswith(b"\x89PNG")
    assert "--bundle" in package["scripts"]["vscode:prepublish"]
    ignored = (EXTENSION / ".vscodeignore").read_text(encoding="utf-8").split()
    assert "node_modules/" in ignored
    assert "dist/" not in ignored
