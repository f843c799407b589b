"""The public surface changes on purpose: `python scripts/describe_surface.py --write` makes it a visible diff."""

from __future__ import annotations

import runpy
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_public_surface_is_the_one_in_the_golden_file() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "describe_surface.py"))
    surface = script["describe_surface"](*script["MODULES"])
    assert surface == (ROOT / "tests" / "golden" / "api.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("module_name", ["tenuto", "tenuto.errors", "tenuto.testing"])
def test_every_public_name_has_a_docstring(module_name: str) -> None:
    module = import_module(module_name)
    documented = (type, type(lambda: None))
    bare = [
        name
        for name in module.__all__
        if isinstance(getattr(module, name), documented) and not getattr(module, name).__doc__
    ]
    assert bare == []


def test_error_codes_are_stable_and_never_shared() -> None:
    errors = import_module("tenuto.errors")
    codes: dict[str, str] = {}
    for name in errors.__all__:
        code = vars(getattr(errors, name)).get("code")
        if isinstance(code, str) and name != "TenutoError":
            assert code not in codes, f"{name} and {codes[code]} share {code}"
            codes[code] = name
    assert codes["TN104"] == "HistoryDivergedError"
    assert codes["TN901"] == "InternalError"
