"""Which store a URL means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenuto.errors import ConfigError
from tenuto.store.memory import MemoryStore
from tenuto.store.sqlite import SqliteStore
from tenuto.store.urls import open_store, shown_url, store_of


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


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s3cret@h:5432/db", "postgresql://h:5432/db"),
        ("postgresql://u:s%40cret@h/db", "postgresql://h/db"),
        ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db?user=…&password=…"),
        ("postgresql://a:5432,b:5433/db", "postgresql://a:5432,b:5433/db"),
        ("postgresql:///db?host=/run/pg", "postgresql:///db?host=…"),
        ("mysql://h/db?password=s3cret", "mysql://h/db?password=…"),
        ("temporal://u:s3cret@h:7233/ns", "temporal://h:7233/ns"),
        ("https://s3cret@h/x", "https://h/x"),
        ("sqlite:////home/me@work/app.db?sync=normal", "sqlite:////home/me@work/app.db?sync=…"),
        ("memory://", "memory://"),
        ("host=h password=s3cret", "(not shown)"),
        ("postgresql:host=h password=s3cret", "(not shown)"),
        ("postgresql://u:s3c/ret@h", "(not shown)"),
        ("postgresql://u:12/ret@h", "(not shown)"),
        ("postgresql://u:12?ret@h/db", "(not shown)"),
        ("postgresql://u:12#ret@h/db", "(not shown)"),
        ("postgresql://u:s3cret@[::1/db", "(not shown)"),
        ("postgresql://u:s3cret@h\u2100/db", "(not shown)"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    said = ""
    try:
        store_of(url)
    except ConfigError as error:
        said = str(error)
    assert "s3c" not in said
    assert "ret@" not in said


def test_an_unknown_scheme_is_told_all_known_ones() -> None:
    with pytest.raises(ConfigError, match="temporal://"):
        store_of("mysql://host/db")
