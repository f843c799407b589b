"""What a start and a worker can be told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

from tenuto.kernel.location import check_name
from tenuto.model.durations import milliseconds
from tenuto.model.options import QueueOptions, whole

__all__ = ["Attributes", "IfExists", "StartOptions", "WorkerOptions", "check_start_options", "place_in_queue"]

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


_START: Final = StartOptions.__optional_keys__ | StartOptions.__required_keys__
_IF_EXISTS: Final = get_args(IfExists)


def check_start_options(options: Mapping[str, Any]) -> None:
    """`TypeError` for what `start` has no option for, `ValueError` for what an option cannot be."""
    if not options:  # as for most starts
        return
    unknown = min(options.keys() - _START, default=None)
    if unknown is not None:
        near = "".join(f"; is it {name}=?" for name in get_close_matches(unknown, _START, n=1))
        raise TypeError(
            f"start() has no option {unknown!r}{near}; arguments of the workflow are given by position, or by .bind()"
        )
    if options.get("id") is not None:
        check_name(options["id"])
    if options.get("if_exists", "same") not in _IF_EXISTS:
        raise ValueError(f"if_exists= is one of {', '.join(_IF_EXISTS)}, not {options['if_exists']!r}")
    if options.get("attributes") is not None:
        _check_attributes(options["attributes"])
    place_in_queue(cast("StartOptions", options), "default")


def _check_attributes(attributes: Any) -> None:
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes= is a mapping of names, not {attributes!r}")
    for name, value in cast("Mapping[Any, Any]", attributes).items():  # type: ignore[redundant-cast]  # not to pyright
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise TypeError(f"an attribute is a name with a text, number or bool, not {name!r}: {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"attribute {name!r} is {value!r}, which no store can search")


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
