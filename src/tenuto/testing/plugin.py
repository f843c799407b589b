"""The pytest plugin: fixtures `engine` and `crashing_engine`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this module for every project that has tenuto installed: keep it light
    from tenuto.testing.engine import Engine

__all__ = ["crashing_engine", "engine"]


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine on virtual time."""
    from tenuto.testing.engine import Engine

    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def crashing_engine() -> Iterator[Engine]:
    """An engine that rebuilds every run from its committed rows after every turn."""
    from tenuto.testing.engine import Engine

    engine = Engine(crash_everywhere=True)
    yield engine
    engine.close()
