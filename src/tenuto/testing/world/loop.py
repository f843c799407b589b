"""asyncio's own event loop on a clock that is moved by hand.

Rules:

1. `time()` is the world's. `call_at` gives the world a deadline; one at infinity never comes.
2. The selector never waits. A pass that finds nothing ready is the last one, so idle is exact.
3. The loop runs in a callback of another loop, never in a task of it: the running loop, and the current task where a
   thread has only one, are put aside before and back after it.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVarTuple

__all__ = ["Time", "WorldLoop"]

Ts = TypeVarTuple("Ts")

PASSES_TO_END: Final = 1000

# Since 3.14 a thread has one current task, whatever its loop.
_swap_current_task: Final[Callable[[Any, Any], asyncio.Task[Any] | None] | None] = (
    getattr(asyncio.tasks, "_swap_current_task", None) if sys.version_info >= (3, 14) else None
)


class Time(Protocol):
    """What the loop needs of its world."""

    def seconds(self) -> float:
        """Return how long the world has existed."""
        ...

    def expect(self, handle: asyncio.TimerHandle, due: Callable[[], None]) -> None:
        """Call `due` at the time of the handle, unless that is infinitely far."""
        ...

    def poke(self) -> None:
        """Run the loop soon. Callable from any thread."""
        ...


class WorldLoop(asyncio.BaseEventLoop):
    """See the rules above. It has no sockets, signals, or processes: the host needs none."""

    if TYPE_CHECKING:
        _ready: deque[asyncio.Handle]

    def __init__(self, time: Time) -> None:
        super().__init__()
        self._time = time
        self._selector = _Never(self)
        self._passes_left = 0

    def time(self) -> float:
        return self._time.seconds()

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]  # asyncio's own: a closed loop takes nothing
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._time.expect(handle, lambda: self._ready.append(handle))
        return handle

    def is_idle(self) -> bool:
        """True if nothing is ready to run."""
        return not self._ready

    def run(self, passes: int) -> None:
        """Run what is ready until nothing is, for so many passes at most."""
        self._passes_left = passes
        outer = asyncio._get_running_loop()
        task = _swap_current_task(outer, None) if _swap_current_task is not None and outer is not None else None
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            if task is not None and _swap_current_task is not None:
                _swap_current_task(outer, task)

    def end(self) -> None:
        """Cancel all tasks, and close; whoever goes on nevertheless is left where it is."""
        if self.is_closed():
            return
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.run(PASSES_TO_END)
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_closed():  # nobody is to blame for what a closed world has left
            super().call_exception_handler(context)

    # --- what asyncio's loop asks of those built on it

    def may_go_on(self) -> bool:
        """True if another pass is to follow the one that begins."""
        self._passes_left -= 1
        return bool(self._ready) and self._passes_left > 0

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no files that anything could happen to."""

    def _write_to_self(self) -> None:
        """Another thread, or the caller's loop, has called something here."""
        self._time.poke()

    def __del__(self, _warn: Any = None) -> None:
        """An engine that nobody closed leaves nothing open."""


class _Never:
    """A selector without files, which never waits."""

    def __init__(self, loop: WorldLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if not self._loop.may_go_on():
            self._loop.stop()
        return []

    def close(self) -> None:
        """Nothing is open."""
