"""What tests of the command line share: running one, and snapshots of what it prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenuto.cli import main

SNAPSHOTS = Path(__file__).parents[2] / "golden" / "cli"
UPDATE = "TENUTO_UPDATE_GOLDEN"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Holds a text against tests/golden/cli; TENUTO_UPDATE_GOLDEN=1 writes it there instead."""

    def compare(name: str, text: str) -> None:
        file = SNAPSHOTS / f"{name}.txt"
        if os.environ.get(UPDATE):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"there is no snapshot {file.name}: {UPDATE}=1 makes it"
        assert text == file.read_text(encoding="utf-8"), f"{file.name} differs; {UPDATE}=1 takes the new text"

    return compare


@pytest.fixture
def tenuto() -> Callable[..., Result]:
    """Runs a command line, 100 columns wide and without colours."""

    def run(*arguments: str, **settings: Any) -> Result:
        env = {"COLUMNS": "100", "TENUTO_URL": None, "TENUTO_APP": None, **settings.pop("env", {})}
        return CliRunner().invoke(main, list(arguments), env=env, terminal_width=100, **settings)

    return run
