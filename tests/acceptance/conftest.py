"""An app on each store, as a user has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenuto import Tenuto


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'app.db'}"


@pytest.fixture
async def app(url: str) -> AsyncIterator[Tenuto]:
    async with Tenuto(url, grace=1) as app:
        yield app
