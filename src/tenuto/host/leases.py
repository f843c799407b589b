"""Keeping a worker's leases: renewal in a thread of its own, so that user code cannot cost them.

A loop that user code blocks is reported with its stack; after `block_limit` renewal stops, so that others take over.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from tenuto.errors import EnvironmentFault
from tenuto.store.port import Store

__all__ = ["Renewal"]

log = logging.getLogger("tenuto.host")

REPORT_AFTER: Final = 2.0  # seconds a blocked loop goes unreported


class Renewal:
    """Heartbeats of one worker, and an eye on the loop its user code runs on."""

    def __init__(
        self, store: Store, worker_id: str, lease_ms: int, block_limit: float, on_lost: Callable[[], None]
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self._block_limit = block_limit
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._answered = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenuto-leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        interval = self._lease_ms / 3000
        reported = False
        next_beat = time.monotonic() + interval
        while not await asyncio.to_thread(self._stop.wait, min(0.5, interval)):
            self._loop.call_soon_threadsafe(self._answer)
            blocked = time.monotonic() - self._answered
            if blocked > REPORT_AFTER and not reported:
                log.warning("the event loop has been blocked for %.1f s, by:\n%s", blocked, self._stack())
            reported = blocked > REPORT_AFTER
            if time.monotonic() >= next_beat and blocked <= self._block_limit:
                next_beat = time.monotonic() + interval
                if not await self._renew():
                    self._loop.call_soon_threadsafe(self._on_lost)
                    return

    async def _renew(self) -> bool:
        try:
            return await self._store.heartbeat(self._worker_id, self._lease_ms)
        except EnvironmentFault as error:
            log.warning("leases could not be renewed: %s", error)
            return True  # whether they are lost shows when the store is back

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]  # documented
        return "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"
