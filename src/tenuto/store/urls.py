"""Which store a URL means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tenuto.errors import ConfigError
from tenuto.store.clock import system_clock
from tenuto.store.memory import MemoryStore
from tenuto.store.port import Store
from tenuto.store.sqlite import SqliteStore

__all__ = ["DEFAULT_URL", "open_store", "store_of"]

DEFAULT_URL: Final = "sqlite:///.tenuto/tenuto.db"
_SYNC: Final[dict[str, Literal["full", "normal"]]] = {"full": "full", "normal": "normal"}


async def open_store(url: str = DEFAULT_URL, *, clock: Callable[[], int] = system_clock) -> Store:
    """The store of a URL, open. `ConfigError` for one that means none; else as `Store.open`."""
    store = store_of(url, clock)
    await store.open()
    return store


def store_of(url: str, clock: Callable[[], int] = system_clock) -> Store:
    """The store of a URL, not open yet."""
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            _refuse_rest(url, parts.netloc + parts.path, parts.query, parts.fragment)
            return MemoryStore(clock)
        case "sqlite":
            return _sqlite(url, parts.netloc, parts.path, parts.query, parts.fragment, clock)
        case "postgresql" | "postgres":
            # Only here: psycopg is an extra, and takes long to import.
            from tenuto.store.postgres import PostgresStore

            return PostgresStore(url, clock=None if clock is system_clock else clock)
        case scheme:
            raise ConfigError(f"{_shown(url)}: unknown scheme {scheme!r}; known are memory, sqlite and postgresql")


def _sqlite(url: str, host: str, path: str, query: str, fragment: str, clock: Callable[[], int]) -> Store:
    if host or not path.startswith("/") or fragment:
        raise ConfigError(f"{_shown(url)}: write sqlite:///relative/path or sqlite:////absolute/path")
    file = unquote(path[1:])
    if not file or file.endswith("/") or "\0" in file:
        raise ConfigError(f"{_shown(url)} names no file")
    options = dict(parse_qsl(query, keep_blank_values=True))
    asked = options.pop("sync", "full")
    if options:
        raise ConfigError(f"{_shown(url)}: unknown option {min(options)!r}; known is sync")
    sync = _SYNC.get(asked)
    if sync is None:
        raise ConfigError(f"{_shown(url)}: sync is full or normal, not {asked!r}")
    return SqliteStore(Path(file), sync=sync, clock=clock)


def _refuse_rest(url: str, *rest: str) -> None:
    if any(rest):
        raise ConfigError(f"{_shown(url)}: memory:// takes nothing more")


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else url
