"""The generated pages of the reference say what the code says: `python scripts/describe_reference.py --write`."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tenuto import errors

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
CODES = re.compile(r"^### ((?:TN|DIR)\d{3}) (\w+)$", re.MULTILINE)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("describe_reference")


@pytest.mark.parametrize("page", ["python.md", "errors.md"])
def test_a_generated_page_is_up_to_date(script: Any, page: str) -> None:
    assert script.pages()[page] == (REFERENCE / page).read_text(encoding="utf-8")


def test_every_public_name_is_on_the_page_once(script: Any) -> None:
    listed = [name for names in script.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(import_module("tenuto").__all__)


def test_every_public_name_and_member_says_what_the_caller_gets(script: Any) -> None:
    assert script.undocumented() == []


def test_every_error_says_what_happened_what_the_engine_did_and_what_to_do(script: Any) -> None:
    assert import_module("describe_errors").incomplete() == []


def test_every_code_is_listed_with_its_class() -> None:
    listed = dict(CODES.findall((REFERENCE / "errors.md").read_text(encoding="utf-8")))
    known = {name: vars(getattr(errors, name)).get("code") for name in errors.__all__ if name != "TenutoError"}
    assert listed == {code: name for name, code in known.items() if isinstance(code, str)}


def test_every_function_and_class_people_call_appears_in_an_example_that_runs(script: Any) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    ]
    code = "\n".join(blocks)
    package = import_module("tenuto")
    shown_by_use = script.MADE_FOR_YOU  # a handle appears wherever something was started
    called = [name for name in package.__all__ if callable(getattr(package, name)) and name not in shown_by_use]
    options = [name for name in called if hasattr(getattr(package, name), "__total__") or _is_alias(package, name)]
    missing = [name for name in called if name not in options and not re.search(rf"\b{name}\b", code)]
    assert missing == []


def _is_alias(package: Any, name: str) -> bool:
    return not isinstance(getattr(package, name), type) and not hasattr(getattr(package, name), "__code__")
