"""A worker's quarantine: suspects it holds, and whether it may hold anything else.

Suspects lost their workers again and again (`store.quarantine`). A worker that has nothing takes them, in groups that
the store makes, and claims nothing else until each of them has committed something or has outlived what the worker
before did not. Where every worker is busy for one lease, a busy one takes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenuto.store.port import Store
from tenuto.store.quarantine import Suspects, quarantine_ms
from tenuto.system import REAL, System

__all__ = ["Quarantine"]


class Quarantine:
    """The suspects of one worker."""

    def __init__(self, store: Store, lease_ms: int, system: System = REAL) -> None:
        self._store = store
        self._lease_ms = lease_ms
        self._monotonic = system.clock.monotonic
        self._every = system.pace.reclaim
        self._held: dict[str, float] = {}  # suspects, and until when they are not trusted
        self._claiming = False
        self._next_look = 0.0

    @property
    def closed(self) -> bool:
        """Whether nothing else may be claimed or begun here."""
        return self._claiming or bool(self._held)

    def __contains__(self, execution: str) -> bool:
        return execution in self._held

    def clear(self) -> None:
        """The leases are lost, and the suspects with them."""
        self._held.clear()

    async def is_called_for(self, *, busy: bool) -> bool:
        """Whether suspects wait for this worker. Asked for often, and seldom looked up."""
        now = self._monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + self._every
        return await self._store.has_suspects(self._waited(busy))

    async def claim(
        self,
        worker_id: str,
        known: tuple[Sequence[str], Sequence[str]],
        queues: Sequence[str] | None,
        group: tuple[int, int],
        *,
        busy: bool,
    ) -> Suspects:
        """Takes suspects. Nothing begins here from before it is asked for; busy or not is what the caller is then."""
        self._claiming = True
        try:
            found = await self._store.claim_suspects(worker_id, known, queues, group, self._waited(busy))
            until = self._monotonic() + quarantine_ms(found.survived_ms) / 1000
            self._held = dict.fromkeys([claim.lease.run_id for claim in found.runs], until)
            self._held |= dict.fromkeys([task.id for task in found.tasks], until)
            return found
        finally:
            self._claiming = False

    async def review(self, worker_id: str) -> None:
        """Trusts those that have come further or have lived long enough."""
        left = set(await self._store.still_suspect(worker_id))
        now = self._monotonic()
        self._held = {key: until for key, until in self._held.items() if key in left and now < until}
        if not self._held:
            self._next_look = 0.0

    def _waited(self, busy: bool) -> int:
        return self._lease_ms if busy else 0
