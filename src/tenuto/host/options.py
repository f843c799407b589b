"""What a start and a worker can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from tenuto.kernel.location import check_name
from tenuto.model.durations import milliseconds
from tenuto.model.options import QueueOptions, whole

__all__ = ["Attributes", "IfExists", "StartOptions", "WorkerOptions", "place_in_queue"]

Attributes: TypeAlias = Mapping[str, str | int | float | bool]
IfExists: TypeAlias = Literal["same", "attach", "error", "restart_failed", "restart_closed"]


class StartOptions(QueueOptions, total=False):
    """Options of `app.start`: `if_exists` says what becomes of an id that is in use, `attributes` are for search."""

    id: str | None  # without one, a new id is made
    if_exists: IfExists  # "same", "attach": that run whatever its input, "error", "restart_failed", "restart_closed"
    attributes: Attributes | None


class WorkerOptions(TypedDict):
    """What `Tenuto(...)` says about the worker of this process."""

    queues: Sequence[str] | None
    concurrency: int
    lease_ms: int
    block_limit: float  # seconds
    grace: float  # seconds
    max_reclaims: int
    retention_ms: int | None  # None: what is closed is kept for ever
    cache_bytes: int  # of suspended runs in memory


def place_in_queue(options: StartOptions, queue: str) -> dict[str, Any]:
    """The fields of a new run that its queue options fill. `queue`: where its workflow goes unless told otherwise."""
    if not options:  # as for most starts
        return {"queue": check_name(queue), "priority": 0, "delay_ms": 0, "key": None, "partition": None}
    key, partition = options.get("key"), options.get("partition")
    return {
        "queue": check_name(options.get("queue") or queue),
        "priority": whole("priority", options.get("priority", 0)),
        "delay_ms": milliseconds(options.get("delay", 0)),
        "key": None if key is None else check_name(key),
        "partition": None if partition is None else check_name(partition),
    }
