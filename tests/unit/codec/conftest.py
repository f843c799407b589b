"""Settings of the property tests, and the module the stored classes come from."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tenuto.codec import classes

# No time limit per example (machines are shared), no files left behind.
settings.register_profile("codec", deadline=None, database=None)
settings.load_profile("codec")


def load_shop() -> Any:
    """The module `shop`, newly made and loaded."""
    spec = importlib.util.spec_from_file_location("shop", Path(__file__).with_name("shop.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shop"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def loaded_shop() -> Iterator[Any]:
    yield load_shop()
    del sys.modules["shop"]


@pytest.fixture
def shop(loaded_shop: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `shop`, with `Span` registered."""
    monkeypatch.setitem(sys.modules, "shop", loaded_shop)
    classes.register_class("class//m.py//Span", loaded_shop.Span)
    yield loaded_shop
    classes.unregister_class("class//m.py//Span")
