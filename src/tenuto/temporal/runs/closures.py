"""What only this process has: functions that runs in its memory made, and attempts that are under way here.

A function named in place, a side effect, an undo handler that is a closure cannot be found by another process. The
local activity that calls one runs in the process that has the run in memory, and finds it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

from tenuto.kernel.operations import Err, Ok, TimedOut
from tenuto.model.steps import Attempt

__all__ = ["Closure", "forget", "forget_all", "keep", "kept", "stop", "under_way"]

Key: TypeAlias = tuple[str, str]  # Temporal's id of the run, id of the activity


@dataclass(slots=True)
class Closure:
    """Makes one attempt; `details` are those of the last heartbeat of an earlier one."""

    attempt: Callable[[Attempt], Coroutine[Any, Any, Ok | Err | TimedOut]]
    details: bytes | None = None


_kept: dict[Key, Closure] = {}
_running: dict[Key, tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = {}
_lock = Lock()  # runs are activated by several threads


def keep(key: Key, closure: Closure) -> None:
    """From now on the local activity with this id finds its function."""
    with _lock:
        _kept[key] = closure


def kept(key: Key) -> Closure | None:
    return _kept.get(key)


def forget(key: Key) -> None:
    with _lock:
        _kept.pop(key, None)


def forget_all(run: str) -> None:
    """The run has left memory."""
    with _lock:
        for key in [key for key in _kept if key[0] == run]:
            del _kept[key]


class under_way:  # used as a statement
    """While in the block, `stop` reaches this attempt."""

    def __init__(self, key: Key, work: asyncio.Task[Any]) -> None:
        self._key = key
        self._work = work

    def __enter__(self) -> None:
        with _lock:
            _running[self._key] = asyncio.get_running_loop(), self._work

    def __exit__(self, *_: object) -> None:
        with _lock:
            if _running.get(self._key, (None, None))[1] is self._work:
                del _running[self._key]


def stop(key: Key) -> None:
    """Stops an attempt at once if it is here; elsewhere it hears of it with its next heartbeat."""
    with _lock:
        loop, work = _running.get(key, (None, None))
    if loop is not None and work is not None and not loop.is_closed():
        loop.call_soon_threadsafe(work.cancel)
