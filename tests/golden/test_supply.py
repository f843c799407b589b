"""What an installation consists of is written down: `python scripts/describe_supply.py --write` renews it."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "describe_supply.py"))


def test_every_dependency_is_pinned_with_hashes_at_the_version_that_is_tested(script: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [project["optional-dependencies"][extra] for extra in script["EXTRAS"]]
    wanted = {_name(item) for group in (project["dependencies"], *extras) for item in group}
    pinned = {_name(name): found for name, found in script["pins"](script["PINS"].read_text()).items()}
    tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    tested = {_name(name): version for name, version in tested.items()}
    assert wanted <= pinned.keys()
    for name, (version, hashes) in pinned.items():
        assert hashes, name
        assert version == tested[name], f"{name}: run python scripts/describe_supply.py --write"


def test_the_bill_of_materials_is_that_of_the_pins(script: dict[str, Any]) -> None:
    assert json.loads(script["BILL"].read_text()) == script["bill_of"](script["PINS"].read_text())


def test_every_extra_that_users_install_is_described(script: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(script["EXTRAS"]) == project["optional-dependencies"].keys() - {"bench", "dev"}


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")
