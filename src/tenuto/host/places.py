"""Why an item of a queue has not begun, in words."""

from __future__ import annotations

from tenuto.store.queues import QueuePlace

__all__ = ["held_back"]


def held_back(place: QueuePlace) -> str | None:
    """What of its queue keeps an item from beginning; None: nothing, or only those before it."""
    queue = f"queue {place.queue!r}"
    if place.state is None:
        return None
    limits, state = place.state.limits, place.state
    if limits.paused:
        return f"{queue} is paused"
    if limits.concurrency is not None and state.slots >= limits.concurrency:
        return f"{queue} has {state.slots} of {limits.concurrency} at once" + _ahead(place)
    if (
        limits.partition_concurrency is not None
        and place.partition is not None
        and place.partition_slots >= limits.partition_concurrency
    ):
        taken = f"{place.partition_slots} of {limits.partition_concurrency} at once"
        return f"partition {place.partition!r} of {queue} has {taken}"
    if limits.rate is not None and state.starts >= limits.rate[0]:
        return f"{queue} began {state.starts} in the last {limits.rate[1]} ms, its rate" + _ahead(place)
    if limits.worker_concurrency is not None:
        return f"{queue} lets a process have {limits.worker_concurrency} at once" + _ahead(place)
    return None


def _ahead(place: QueuePlace) -> str:
    return f"; {place.ahead} come first" if place.ahead else ""
