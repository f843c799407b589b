"""Rooms stay small: what is too large today is listed, and the list only shrinks."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "describe_rooms.py"))


def test_no_folder_module_class_or_function_grows_beyond_its_limit(script: dict[str, Any]) -> None:
    known = script["read"]()
    larger = {what: size for what, size in script["rooms"]() if size > known.get(what, 0)}
    assert not larger, "split it; the limits are those of scripts/describe_rooms.py"


def test_what_has_become_smaller_is_taken_off_the_list(script: dict[str, Any]) -> None:
    found = dict(script["rooms"]())
    smaller = {what: size for what, size in script["read"]().items() if found.get(what, 0) < size}
    assert not smaller, "run python scripts/describe_rooms.py --write"


def test_a_class_is_measured_by_what_its_methods_set(script: dict[str, Any]) -> None:
    import ast

    made = ast.parse(
        "class A:\n    def f(self):\n        self.x = self.y = 1\n        self.z.w += 2\n        self.v: int = 3"
    )
    assert script["_attributes"](made.body[0]) == {"x", "y", "v"}
