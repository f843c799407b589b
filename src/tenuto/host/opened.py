"""The verbs of an app are there while it is open, and on the event loop that opened it."""

from __future__ import annotations

import asyncio
from typing import Any

from tenuto.errors import ConfigError

__all__ = ["Opened"]


class Opened:
    """What an engine can do, while its app is open. Everything else is refused at the call, before it does anything.

    What an app waits for belongs to one event loop: woken from another it would fail later, and elsewhere.
    """

    __slots__ = ("_engine", "_loop")

    def __init__(self) -> None:
        self._engine: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __bool__(self) -> bool:
        return self._engine is not None

    def __getattr__(self, name: str) -> Any:
        if self._engine is None:
            raise ConfigError("this app is not open: use it inside `async with Tenuto(...) as app:`")
        try:
            elsewhere = asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            elsewhere = False  # a plain call, which awaits nothing
        if elsewhere:
            raise ConfigError("this app belongs to another event loop; give each its own, or use Tenuto.sync()")
        return getattr(self._engine, name)

    def begin(self, engine: Any) -> None:
        """From here on it is open, on this event loop."""
        if self._engine is not None:
            raise ConfigError("this app is open already; make another Tenuto(...), or use the one there is")
        self._engine, self._loop = engine, asyncio.get_running_loop()

    def end(self) -> None:
        self._engine = self._loop = None
