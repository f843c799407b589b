"""Arguments and results are inferred by both type checkers, without plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SURFACE = Path(__file__).with_name("typed_surface.py")
PROJECT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=lambda command: command[0])
def test_the_model_is_inferred_as_it_is_documented(checker: list[str]) -> None:
    command = [sys.executable, "-m", *checker, str(SURFACE)]
    checked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
