"""Keeping a worker's leases: renewal on a control plane of its own, so that user code cannot cost them.

A loop that user code blocks is reported with its stack; after `block_limit` renewal stops, so that others take over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tenuto.errors import EnvironmentFault
from tenuto.store.port import Store
from tenuto.system import REAL, System

__all__ = ["Renewal"]

log = logging.getLogger("tenuto.host")

REPORT_AFTER: Final = 2.0  # seconds a blocked loop goes unreported


class Renewal:
    """Heartbeats of one worker, and an eye on the loop its user code runs on."""

    def __init__(
        self,
        store: Store,
        worker_id: str,
        lease_ms: int,
        block_limit: float,
        on_lost: Callable[[], None],
        system: System = REAL,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self._block_limit = block_limit
        self._on_lost = on_lost
        self._pace = system.pace
        self._monotonic = system.clock.monotonic
        self._control = system.control()
        self._answered = self._monotonic()

    def start(self) -> None:
        self._control.start(self._beat)

    async def stop(self) -> None:
        await self._control.stop()

    async def _beat(self) -> None:
        interval = self._lease_ms / 1000 * self._pace.renew
        reported = False
        next_beat = self._monotonic() + interval
        while True:
            await asyncio.sleep(min(self._pace.beat, interval))
            self._control.post(self._answer)
            blocked = self._monotonic() - self._answered
            if blocked > REPORT_AFTER and not reported:
                stack = self._control.main_stack()
                log.warning("the event loop has been blocked for %.1f s, by:\n%s", blocked, stack)
            reported = blocked > REPORT_AFTER
            if self._monotonic() >= next_beat and blocked <= self._block_limit:
                next_beat = self._monotonic() + interval
                if not await self._renew():
                    self._control.post(self._on_lost)
                    return

    async def _renew(self) -> bool:
        try:
            return await self._store.heartbeat(self._worker_id, self._lease_ms)
        except EnvironmentFault as error:
            log.warning("leases could not be renewed: %s", error)
            return True  # whether they are lost shows when the store is back

    def _answer(self) -> None:
        self._answered = self._monotonic()
