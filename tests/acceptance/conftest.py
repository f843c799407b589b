"""An app on each store, as a user has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenuto import Tenuto


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'app.db'}"
        case _:
            found: str = request.getfixturevalue("postgres_url")
            return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _url(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several apps can open, one after another or together."""
    return _url(request, tmp_path)


@pytest.fixture
async def app(url: str) -> AsyncIterator[Tenuto]:
    async with Tenuto(url, grace=1) as app:
        yield app
