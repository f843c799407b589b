"""The workflows of mixed shape that crash tests run: the same module that their worker processes execute."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("mixed.py")


@pytest.fixture
def mixed() -> Any:
    if "tenuto_mixed" not in sys.modules:
        spec = importlib.util.spec_from_file_location("tenuto_mixed", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["tenuto_mixed"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["tenuto_mixed"]
