"""How often a worker looks when nothing tells it to."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits that are no deadlines, in seconds. With longer ones a worker notices later, and nothing goes wrong."""

    # These recur.
    poll: float = 1.0  # the net under notifications that were lost
    others: float = 3.0  # the same for work that another worker does for all: it may be dead, its lease not over yet
    beat: float = 0.5  # between two looks at the event loop, and at whether a lease is to be renewed
    renew: float = 1 / 3  # of a lease, until it is renewed
    sweep: float = 1 / 3  # of a lease, between two looks for lost workers
    reclaim: float = 1.0  # between two looks for runs that were lost again and again
    notes: float = 1.0  # between two looks for steps that have been under way for so long
    statistics: float = 2.0  # between two updates of the store's statistics
    ends: float = 0.5  # between two looks for all ends that callers wait for, also those they will be told of

    # These follow something that happened.
    listen: float = 0.02  # between two looks that news caused
    listen_longest: float = 0.1  # the same after looks that found nothing: the news was of our own commits
    rest: float = 0.002  # between two looks for ends that callers wait for
    rest_longest: float = 0.05  # the same after looks that took long
    rest_told: float = 0.005  # the same where all who wait will be told: they may be let go of any time
    retry: float = 1.0  # between two tries of what has to be done
    orphans: float = 1.0  # before leased runs are looked for that nobody holds
    review: float = 0.1  # between two looks at runs that are held alone, because they were lost again and again

    @classmethod
    def quiet(cls) -> Pace:
        """Return a pace at which nothing recurs, and nothing that was caused waits for more of the kind."""
        never = math.inf
        return cls(
            poll=never,
            others=never,
            beat=never,
            renew=never,
            sweep=never,
            reclaim=never,
            notes=never,
            statistics=never,
            ends=never,
            listen=0.0,
            listen_longest=0.0,
            rest=0.0,
            rest_longest=0.0,
            rest_told=0.0,
        )
