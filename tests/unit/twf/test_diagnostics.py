"""One snapshot per diagnostic code: a source, and what people read about it.

A snapshot is a file `diagnostics/TWFnnn.txt`: the source, a line of `=`, the rendered diagnostics. Set
`TENUTO_UPDATE_SNAPSHOTS=1` to write the lower half anew after reading the change it makes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenuto.twf.checks import Bound
from tenuto.twf.diagnostics import CODES, Diagnostic, arrange, diagnose, nearest
from tenuto.twf.program import NotText, Program, decode, load
from tenuto.twf.render import render
from tenuto.twf.source import Source

FOLDER = Path(__file__).parent / "diagnostics"
SEPARATOR = "=" * 40 + "\n"


def check(code: str, text: str) -> tuple[Program, Source | NotText]:
    data = text.replace("\\xff", "\xff").encode("latin-1") if code == "TWF100" else text.encode()
    source = decode("example.twf", data)
    bound = Bound(functions={"db.get": True}) if code in ("TWF330", "TWF331") else None
    return load([source], strict=code == "TWF190", bound=bound), source


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_readable_message(code: str) -> None:
    path = FOLDER / f"{code}.txt"
    text, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
    program, source = check(code, text)
    assert code in {found.code for found in program.diagnostics}
    shown = source if isinstance(source, Source) else None
    rendered = "".join(render(found, shown) + "\n" for found in program.diagnostics)
    if os.environ.get("TENUTO_UPDATE_SNAPSHOTS"):
        path.write_text(text + SEPARATOR + rendered, encoding="utf-8")
    else:
        assert rendered == expected


def test_there_is_no_snapshot_of_a_code_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CODES)


# --- the rules about all diagnostics


def found_at(offset: int, code: str) -> Diagnostic:
    return diagnose(Source("a.twf", "x" * 50), offset, offset + 1, code, "message")


def test_there_is_one_diagnostic_per_position_and_an_error_wins() -> None:
    kept = arrange([found_at(3, "TWF404"), found_at(3, "TWF301"), found_at(3, "TWF125"), found_at(1, "TWF190")])
    assert [(found.start, found.code) for found in kept] == [(1, "TWF190"), (3, "TWF125")]


def test_the_hundredth_error_ends_a_file_but_not_the_others() -> None:
    bad = "workflow W():\n" + "    x = = 1\n" * 150
    program = load([Source("a.twf", bad), Source("b.twf", "workflow V(x):\n    close\n")])
    first = [found for found in program.diagnostics if found.path == "a.twf"]
    assert [found.code for found in first] == ["TWF120"] * 100 + ["TWF199"]
    assert first[-1].span == first[-2].span
    assert [found.code for found in program.diagnostics if found.path == "b.twf"] == ["TWF127"]


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("Chrage", ["Charge", "Change"], "Charge"),
        ("abc", ["abd"], "abd"),
        ("ab", ["ac"], None),  # one of two letters is not below half
        ("Ship", ["Shop", "Skip"], "Shop"),
        ("Deliver", ["Delivery", "Receive"], "Delivery"),
        ("same", ["same"], None),
        ("Pack", [], None),
    ],
)
def test_the_nearest_name_is_within_two_edits_and_half_the_length(
    word: str, names: list[str], expected: str | None
) -> None:
    assert nearest(word, names) == expected


def test_a_caret_stands_under_its_word_behind_tabs() -> None:
    source = Source("a.twf", "workflow W():\n\tactivity Nope()\n\tclose\n")
    (found,) = load([source]).diagnostics
    assert render(found, source).split("\n")[1:] == ["  2 | \tactivity Nope()", "    | \t         ^^^^"]
