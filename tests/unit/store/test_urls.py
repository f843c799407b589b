"""Which store a URL means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenuto.errors import ConfigError
from tenuto.store.memory import MemoryStore
from tenuto.store.sqlite import SqliteStore
from tenuto.store.urls import open_store, store_of


@pytest.mark.parametrize(
    ("url", "path", "sync"),
    [
        ("sqlite:///app.db", "app.db", "full"),
        ("sqlite:///.tenuto/tenuto.db", ".tenuto/tenuto.db", "full"),
        ("sqlite:////var/app.db", "/var/app.db", "full"),
        ("sqlite:///with%20space.db?sync=normal", "with space.db", "normal"),
        ("sqlite:///app.db?sync=full", "app.db", "full"),
    ],
)
def test_a_sqlite_url_names_a_file_and_how_it_is_synced(url: str, path: str, sync: str) -> None:
    store = store_of(url)
    assert isinstance(store, SqliteStore)
    assert (store.path, store.sync) == (Path(path), sync)


def test_memory_is_a_store_of_its_own_each_time() -> None:
    assert isinstance(store_of("memory://"), MemoryStore)
    assert store_of("memory://") is not store_of("memory://")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "app.db",
        "mysql://host/db",
        "memory://x",
        "memory:///?sync=normal",
        "sqlite://app.db",
        "sqlite:///",
        "sqlite:///dir/",
        "sqlite:///a%00b",
        "sqlite:///app.db#x",
        "sqlite:///app.db?sync=off",
        "sqlite:///app.db?sync",
        "sqlite:///app.db?cache=big",
    ],
)
def test_a_url_that_means_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        store_of(url)


async def test_a_url_opens_its_store(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/x.db", clock=lambda: 7)
    assert await store.now() == 7
    await store.close()
