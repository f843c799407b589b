"""Looks that many ask for at the same moment, made once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["SharedLook"]


class SharedLook:
    """Lets the first who asks look, and the others wait for that: a thousand starts must not be a thousand reads."""

    def __init__(self) -> None:
        self._looking: asyncio.Future[None] | None = None

    async def until(self, is_known: Callable[[], bool], look: Callable[[], Awaitable[None]]) -> None:
        """Returns once it is known, or was looked for by this very call; what the look raises is raised here."""
        while not is_known():
            if self._looking is not None:
                await asyncio.wait((self._looking,))  # not awaited itself: who gives up must not end it for all
                continue
            done = self._looking = asyncio.get_running_loop().create_future()
            try:
                await look()
                return
            finally:
                self._looking = None
                done.set_result(None)
