"""Which store a URL means."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tenuto.errors import ConfigError
from tenuto.store.clock import system_clock
from tenuto.store.full import widened
from tenuto.store.port import Store
from tenuto.system.switches import switches

__all__ = ["DEFAULT_URL", "NOT_SHOWN", "open_store", "shown_url", "store_of"]

DEFAULT_URL: Final = "sqlite:///.tenuto/tenuto.db"
NOT_SHOWN: Final = "(not shown)"
KNOWN: Final = "sqlite:///path, postgresql://…, memory:// and temporal://…"
# Hosts with their ports, as Postgres takes several.
_HOST: Final = r"(?:\[[0-9A-Fa-f:.%]+\]|[\w.%-]*)(?::\d+)?"
_HOSTS: Final = re.compile(rf"{_HOST}(?:,{_HOST})*")
_SEPARATORS: Final = re.compile(r"[/?#]")  # in a user or a password they are written %2F, %3F, %23
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SYNC: Final[dict[str, Literal["full", "normal"]]] = {"full": "full", "normal": "normal"}


async def open_store(url: str = DEFAULT_URL, *, clock: Callable[[], int] = system_clock) -> Store:
    """The store of a URL, open. `ConfigError` for one that means none; else as `Store.open`."""
    store = store_of(url, clock)
    await store.open()
    return store


def store_of(url: str, clock: Callable[[], int] = system_clock, *, read_only: bool = False) -> Store:
    """The store of a URL, not open yet. `read_only`: it creates, migrates and changes nothing."""
    store = _store_of(url, clock, read_only)
    return widened(store) if switches().commits else store


def _store_of(url: str, clock: Callable[[], int], read_only: bool) -> Store:
    """Make the store of a URL.

    Stores are imported where they are asked for: their drivers are extras, or take long to import.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may have a password in it
        raise ConfigError(f"{NOT_SHOWN}: the URL of the store cannot be split; known are {KNOWN}") from None
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
            found = f"unknown scheme {scheme!r}" if "://" in url else "a store's URL has a scheme"
            raise ConfigError(f"{shown_url(url)}: {found}; known are {KNOWN}")


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
        raise ConfigError(f"{shown_url(url)}: sync is full or normal")
    from tenuto.store.sqlite import SqliteStore

    return SqliteStore(Path(file), sync=sync, clock=clock, read_only=read_only)


def _refuse_rest(url: str, *rest: str) -> None:
    if any(rest):
        raise ConfigError(f"{shown_url(url)}: memory:// takes nothing more")


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: scheme, host, path and the names of its parameters.

    One that does not split cleanly is not shown at all: nobody knows where its password ends.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return NOT_SHOWN
    if not url.lower().startswith(f"{parts.scheme}://") or not parts.scheme:
        return NOT_SHOWN
    user, _, host = parts.netloc.rpartition("@")
    names = [name.partition("=")[0] for name in parts.query.split("&")] if parts.query else []
    clean = _HOSTS.fullmatch(host) and not _SEPARATORS.search(user) and all(map(_NAME.fullmatch, names))
    if not clean or (parts.netloc and ("@" in parts.path or parts.fragment)):
        return NOT_SHOWN
    query = "?" + "&".join(f"{name}=…" for name in names) if names else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"
