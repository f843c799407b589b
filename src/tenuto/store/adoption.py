"""Taking a run over from another store, as it is. Only a local file does that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tenuto.kernel.records import Mail
from tenuto.store.port import NewTimer, RunRecord

__all__ = ["AdoptedRun", "Adopts"]


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """A run of another store: its record there, the status it is to have here, its rows and its mail."""

    id: str
    record: RunRecord
    status: str  # scheduled and paused when its time comes, paused, or closed
    rows: tuple[tuple[bytes, bytes], ...]
    mail: tuple[tuple[int, Mail], ...]  # without signals, which are rows
    timers: tuple[NewTimer, ...] = ()  # what it waits for, by its rows: one that is not there would count as fired (P4)
    starts_at: int | None = None  # when one that is scheduled may begin


@runtime_checkable
class Adopts(Protocol):
    """A store that takes runs of others."""

    async def adopt(self, run: AdoptedRun) -> bool:
        """Stores it; False when its id is taken, and nothing is changed."""
        ...
