"""The pages about directives say what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenuto.directives.errors import CODES
from tenuto.directives.transform import transform

DOCS = Path(__file__).parents[3] / "docs"
HOWTO = (DOCS / "howto" / "directives.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "directives.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", HOWTO, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_compiles_marks_something_and_has_no_finding(number: int) -> None:
    result = transform(BLOCKS[number], "shop.py", "step", strict=number != 5)
    assert result.manifest
    assert [f for f in result.findings if f.code not in ("DIR301", "DIR303")] == []


async def test_every_example_can_be_imported(load: object) -> None:
    assert callable(load)
    for block in BLOCKS[:3]:
        load(block)


def test_every_code_is_in_the_reference() -> None:
    listed = set(re.findall(r"^\| (DIR\d+) \|", REFERENCE, re.MULTILINE))
    assert listed == {*CODES, "DIR501", "DIR502"}
