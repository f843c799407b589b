"""Each promise names tests that hold it, and those tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (P\d) [^\n]*\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
NAMED = re.findall(r"`(tests/[\w/.]+)::(\w+)`", PAGE)


def test_the_promises_are_p1_to_p9() -> None:
    assert list(SECTIONS) == [f"P{n}" for n in range(1, 10)]


@pytest.mark.parametrize("promise", SECTIONS)
def test_a_promise_is_held_by_tests(promise: str) -> None:
    assert re.search(r"^- `tests/[\w/.]+::test_\w+`", SECTIONS[promise], re.MULTILINE)


@pytest.mark.parametrize(("file", "function"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_a_test_named_on_the_page_exists(file: str, function: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {function}\(", source, re.MULTILINE)
