"""The pytest plugin: directives in test modules, and fixtures.

Those are `tenuto_engine` and `tenuto_crashing_engine`, or `engine` and `crashing_engine` for short.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this module for every project that has tenuto installed: keep it light
    from tenuto.testing.engine import Engine

__all__ = ["crashing_engine", "engine", "tenuto_crashing_engine", "tenuto_engine"]


def pytest_configure() -> None:
    """Lets `"use step"` and `"use workflow"` work in test modules too, before assertions are rewritten."""
    from tenuto.directives.pytest_rewrite import install_rewrite

    install_rewrite()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Notices test modules whose directives nobody compiled: they must fail, not silently stop being durable."""
    _collected.append(module_path)


def pytest_collection_finish(session: pytest.Session) -> None:
    from tenuto.directives.pytest_rewrite import check_collected

    # Anything may stand in `sys.modules`; what has a file is a module.
    loaded = {module.__file__: vars(module) for module in list(sys.modules.values()) if hasattr(module, "__file__")}
    for path in _collected:
        namespace = loaded.get(str(path))
        finding = None if namespace is None else check_collected(str(path), path.read_bytes(), namespace)
        if finding is not None:
            raise pytest.UsageError(finding)


_collected: list[Path] = []


@pytest.fixture
def tenuto_engine() -> Iterator[Engine]:
    """An engine on virtual time."""
    from tenuto.testing.engine import Engine

    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def tenuto_crashing_engine() -> Iterator[Engine]:
    """An engine that rebuilds every run from its committed rows after every turn."""
    from tenuto.testing.engine import Engine

    engine = Engine(crash_everywhere=True)
    yield engine
    engine.close()


@pytest.fixture
def engine(tenuto_engine: Engine) -> Engine:
    """The same by a short name, for projects that have none of that name."""
    return tenuto_engine


@pytest.fixture
def crashing_engine(tenuto_crashing_engine: Engine) -> Engine:
    """The same by a short name."""
    return tenuto_crashing_engine
