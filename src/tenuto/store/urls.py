"""Which store a URL means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tenuto.errors import ConfigError
from tenuto.store.clock import system_clock
from tenuto.store.port import Store

__all__ = ["DEFAULT_URL", "open_store", "shown_url", "store_of"]

DEFAULT_URL: Final = "sqlite:///.tenuto/tenuto.db"
_SYNC: Final[dict[str, Literal["full", "normal"]]] = {"full": "full", "normal": "normal"}


async def open_store(url: str = DEFAULT_URL, *, clock: Callable[[], int] = system_clock) -> Store:
    """The store of a URL, open. `ConfigError` for one that means none; else as `Store.open`."""
    store = store_of(url, clock)
    await store.open()
    return store


def store_of(url: str, clock: Callable[[], int] = system_clock, *, read_only: bool = False) -> Store:
    """The store of a URL, not open yet. `read_only`: it creates, migrates and changes nothing.

    Stores are imported where they are asked for: their drivers are extras, or take long to import.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            _refuse_rest(url, parts.netloc + parts.path, parts.query, parts.fragment)
            from tenuto.store.memory import MemoryStore

            return MemoryStore(clock)
        case "sqlite":
            return _sqlite(url, parts.netloc, parts.path, parts.query, parts.fragment, clock, read_only)
        case "postgresql" | "postgres":
            from tenuto.store.postgres import PostgresStore

            return PostgresStore(url, clock=None if clock is system_clock else clock, read_only=read_only)
        case scheme:
            raise ConfigError(f"{shown_url(url)}: unknown scheme {scheme!r}; known are memory, sqlite and postgresql")


def _sqlite(
    url: str, host: str, path: str, query: str, fragment: str, clock: Callable[[], int], read_only: bool
) -> Store:
    if host or not path.startswith("/") or fragment:
        raise ConfigError(f"{shown_url(url)}: write sqlite:///relative/path or sqlite:////absolute/path")
    file = unquote(path[1:])
    if not file or file.endswith("/") or "\0" in file:
        raise ConfigError(f"{shown_url(url)} names no file")
    options = dict(parse_qsl(query, keep_blank_values=True))
    asked = options.pop("sync", "full")
    if options:
        raise ConfigError(f"{shown_url(url)}: unknown option {min(options)!r}; known is sync")
    sync = _SYNC.get(asked)
    if sync is None:
        raise ConfigError(f"{shown_url(url)}: sync is full or normal, not {asked!r}")
    from tenuto.store.sqlite import SqliteStore

    return SqliteStore(Path(file), sync=sync, clock=clock, read_only=read_only)


def _refuse_rest(url: str, *rest: str) -> None:
    if any(rest):
        raise ConfigError(f"{shown_url(url)}: memory:// takes nothing more")


def shown_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else url
