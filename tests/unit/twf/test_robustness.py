"""No input makes the language raise; what cannot be read is reported, and the rest is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.twf.format import format_source
from tenuto.twf.jsonform import program_json
from tenuto.twf.parser import parse
from tenuto.twf.program import Program, decode, load
from tenuto.twf.source import Source

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.name for path in CASES.glob("*.twf"))
READABLE = [
    name
    for name, case in json.loads((CASES / "cases.json").read_text(encoding="utf-8")).items()
    if not any(one["code"] < "TWF200" for one in case["diagnostics"])
]


def read(text: str) -> Program:
    source = Source("a.twf", text)
    format_source(source)
    return load([source], strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_and_every_deletion_of_a_case_gives_diagnostics(name: str, cases: dict[str, str]) -> None:
    text = cases[name]
    for i in range(len(text)):
        for changed in (text[:i], text[:i] + text[i + 1 :]):
            for found in read(changed).diagnostics:
                assert 1 <= found.span.line <= changed.count("\n") + 1
                assert found.span[:2] <= found.span[2:]


@pytest.mark.parametrize("name", READABLE)
def test_comments_and_blank_lines_change_no_tree(name: str, cases: dict[str, str], tree: Callable[[str], Any]) -> None:
    text = cases[name]
    lines = text.removeprefix("\ufeff").split("\n")
    plain = tree(text)
    for number in range(len(lines) + 1):
        for inserted in ("", "   ", "# c", "          # deep"):
            changed = "\n".join([*lines[:number], inserted, *lines[number:]])
            assert tree(changed) == plain
    for number, line in enumerate(lines):
        if line.strip() and "#" not in line:
            changed = "\n".join([*lines[:number], f"{line.rstrip()}  # c", *lines[number + 1 :]])
            assert tree(changed) == plain


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from('workflow activity signal ():\n\t ->={}[],.#"0159mshx+-*/%<>!&|é\r')))
def test_any_text_gives_diagnostics(text: str) -> None:
    program_json(read(text))


TEXT = (
    "workflow activity signal query update timer spawn detach nexus await all one switch case if else for in return "
    "close continue_as_new break continue heartbeat options and or not true false null elif x W ( ) [ ] { } , : . -> "
    '= == + - 5 5m 5w 1. "s" " # ! @ \n \n \n \n\t \n\n'
)
WORDS = st.sampled_from(TEXT.split(" "))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(WORDS, st.sampled_from(["", " ", "    ", "        "])), max_size=60))
def test_any_order_of_words_gives_diagnostics(words: list[tuple[str, str]]) -> None:
    text = "workflow W():\n    " + "".join(word + blank for word, blank in words)
    program_json(read(text))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_give_diagnostics(data: bytes) -> None:
    load([decode("a.twf", data)])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), cut=st.floats(0, 1))
def test_a_generated_program_cut_anywhere_gives_diagnostics(
    seed: int, cut: float, make_program: Callable[[Random], str]
) -> None:
    text = make_program(Random(seed))
    at = int(cut * len(text))
    read(text[:at])
    read(text[:at] + text[at + 1 :])


@pytest.mark.slow
def test_generated_programs_have_no_syntax_errors(make_program: Callable[[Random], str]) -> None:
    for seed in range(200):
        text = make_program(Random(seed))
        assert parse(Source("a.twf", text)).diagnostics == (), text


NESTED = {
    "groups": "workflow W():\n    x = " + "(" * 5000 + "1" + ")" * 5000 + "\n",
    "open groups": "workflow W():\n    x = " + "(" * 5000 + "\n",
    "lists": "workflow W():\n    x = " + "[" * 5000 + "]" * 5000 + "\n",
    "maps": "workflow W():\n    x = " + "{a: " * 5000 + "1" + "}" * 5000 + "\n",
    "calls": "workflow W():\n    x = " + "f(" * 5000 + ")" * 5000 + "\n",
    "minus": "workflow W():\n    x = " + "-" * 5000 + "1\n",
    "not": "workflow W():\n    x = " + "not " * 5000 + "1\n",
    "indices": "workflow W():\n    x = " + "a[" * 5000 + "0" + "]" * 5000 + "\n",
    "a long sum": "workflow W():\n    x = 1" + " + 1" * 5000 + "\n",
    "a long path": "workflow W():\n    x = a" + ".b" * 5000 + "\n",
    "a long chain of calls": "workflow W():\n    x = a" + "()" * 5000 + "\n",
    "types": "workflow W(x: " + "T[" * 5000 + "U" + "]" * 5000 + "):\n    close\n",
    "blocks": "workflow W():\n" + "".join(" " * n + "if (true):\n" for n in range(1, 1500)) + " " * 1500 + "close\n",
    "else if": "workflow W():\n    if (a):\n        x = 1\n" + "    else if (a):\n        x = 1\n" * 1500,
    "await all": "workflow W():\n" + "".join(" " * n + "await all:\n" for n in range(1, 1500)) + " " * 1500 + "close\n",
    "await one": "workflow W():\n await one:\n"
    + "".join(" " * (2 * n) + "timer(1s):\n" + " " * (2 * n + 1) + "await one:\n" for n in range(1, 700)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NESTED)
def test_deep_nesting_is_a_diagnostic(what: str) -> None:
    program = read(NESTED[what])
    program_json(program)
    codes = {found.code for found in program.diagnostics}
    assert codes & {"TWF160", "TWF107"}
    assert what == "open groups" or "TWF160" in codes


def test_a_hundred_levels_are_allowed() -> None:
    program = load([Source("a.twf", "workflow W():\n    x = " + "(" * 99 + "1" + ")" * 99 + "\n    close x\n")])
    assert program.diagnostics == ()


def test_a_very_long_number_is_a_diagnostic() -> None:
    (found,) = load([Source("a.twf", f"workflow W():\n    x = {'9' * 5000}\n    close x\n")]).diagnostics
    assert found.code == "TWF109"


def test_one_mistake_costs_one_line() -> None:
    text = """\
workflow W(a: bool):
    if (a b):
        x = 1
    else:
        x = 2
    switch (x x):
        case 1:
            activity Nope()
    await one x:
        timer(5m):
            close
    close
"""
    codes = [(found.span.line, found.code) for found in load([Source("a.twf", text)]).diagnostics]
    assert codes == [(2, "TWF120"), (6, "TWF120"), (8, "TWF301"), (9, "TWF120")]
