"""Suspended runs kept in memory, to be spared a replay: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["RunCache"]

RUNS: Final = 1_000  # a parked run is a row; more of them in memory would cost more than they spare


class Cached(Protocol):
    """A run in memory."""

    @property
    def bytes(self) -> int:
        """About how much of it that is."""
        ...

    def drop(self) -> None: ...


R = TypeVar("R", bound=Cached)


class RunCache(Generic[R]):
    """At most so many bytes, and so many runs. What is put in belongs to the cache until it is taken out."""

    def __init__(self, limit_bytes: int, limit_runs: int = RUNS) -> None:
        self._limit_bytes = limit_bytes
        self._limit_runs = limit_runs
        self._runs: OrderedDict[str, tuple[R, int]] = OrderedDict()
        self._bytes = 0

    def put(self, run_id: str, run: R) -> None:
        """Keeps a run, in place of an older copy; drops the least recently used ones beyond the limits."""
        older = self.pop(run_id)
        if older is not None and older is not run:
            older.drop()
        size = run.bytes
        self._runs[run_id] = (run, size)
        self._bytes += size
        while self._runs and (self._bytes > self._limit_bytes or len(self._runs) > self._limit_runs):
            _, (oldest, freed) = self._runs.popitem(last=False)
            self._bytes -= freed
            oldest.drop()

    def pop(self, run_id: str) -> R | None:
        """Takes a run out, if it is there."""
        found = self._runs.pop(run_id, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def get(self, run_id: str) -> R | None:
        """A run that stays where it is."""
        found = self._runs.get(run_id)
        return None if found is None else found[0]

    def clear(self) -> None:
        """Drops all."""
        while self._runs:
            self._runs.popitem()[1][0].drop()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[R]:
        return (run for run, _ in self._runs.values())
