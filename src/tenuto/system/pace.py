"""How often a worker looks when nothing tells it to."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits that are no deadlines, in seconds. With longer ones a worker notices later, and nothing goes wrong."""

    poll: float = 1.0  # the net under notifications that were lost
    others: float = 3.0  # the same for work that another worker does for all: it may be dead
    listen: float = 0.02  # between two looks that news caused
    listen_longest: float = 0.1  # the same after looks that found nothing
    beat: float = 0.5  # between two looks at the event loop, and at whether a lease is to be renewed
    sweep: float = 1 / 3  # of a lease, between two looks for lost workers
    orphans: float = 1.0  # before leased runs are looked for that nobody holds
    statistics: float = 2.0  # between two updates of the store's statistics
    retry: float = 1.0  # between two tries of what has to be done
    ends: float = 0.5  # between two looks for all ends that callers wait for

    @classmethod
    def quiet(cls) -> Pace:
        """Return a pace at which nothing recurs: whatever happens was caused by something."""
        return cls(**dict.fromkeys((field.name for field in fields(cls)), math.inf))
