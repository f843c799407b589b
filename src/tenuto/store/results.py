"""Which result an encrypted store may hand to a run: only that of what the run itself asked for.

Rules:

1. The result of a task, or of a run, travels: the store brings it, sealed, to whoever waits for it. It states where it
   comes from and is bound to that, so it can be opened; whether it belongs here only the receiver's history says.
2. A task of the run's own is called `run:generation:location`. A run that was followed is named by the entry at that
   location. What has a key may be shared: then what the run asked for, and what answered, were noted under equal keys.
3. What comes late, from an earlier run of the chain, is nobody's: it is told to a place that does not exist.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

import cbor2

from tenuto.codec.records import decode_counters
from tenuto.codec.rows import COUNTERS_KEY, ERROR_KEY, OUTPUT_KEY, decode_rows
from tenuto.codec.sealing import Place
from tenuto.errors import DecodingError
from tenuto.kernel.location import text
from tenuto.kernel.records import Child, Counters

__all__ = ["NOWHERE", "Belonging", "keyed", "note_of"]

log = logging.getLogger("tenuto.store")

NOWHERE: Final = "?a result of an earlier run of the chain"  # a location at which nothing is ever awaited
_KEYS: Final = {
    "task": {"value": b"value", "error": b"error"},
    "row": {"value": OUTPUT_KEY, "error": ERROR_KEY},
}


class _Readable(Protocol):
    """As much of a store as has to be asked."""

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]: ...

    async def details(self, key: str) -> bytes | None: ...


def note_of(execution_id: str) -> str:
    """Where it is noted under which key something was asked for."""
    return f"key:{execution_id}"


def keyed(queue: str, key: str) -> bytes:
    """What such a note says."""
    return cbor2.dumps([queue, key])


class Belonging:
    """Judges origins of results by the history of the run that they were brought to."""

    def __init__(self, store: _Readable) -> None:
        self._store = store

    async def place_of(self, run_id: str, location: str, origin: Place, part: str) -> str:
        """The location that a result is for: the one it was brought to, or `NOWHERE`. `DecodingError` if it is not
        what the run asked for there."""
        if origin.key == _KEYS.get(origin.kind, {}).get(part):
            counters = decode_counters(dict(await self._store.rows(run_id, COUNTERS_KEY)).get(COUNTERS_KEY, b""))
            generation = _generation(run_id, location, origin.owner, counters) if origin.kind == "task" else None
            if generation == counters.generation:
                return location
            if generation is not None:
                log.warning("run %s: the result at %s is of an earlier run of its chain", run_id, location)
                return NOWHERE
            if await self._followed(run_id, location, origin, counters):
                return location
        raise DecodingError(
            "$",
            "encrypted",
            f"run {run_id} was given a result at {location} that belongs elsewhere: to {origin.kind} {origin.owner}",
        )

    async def _followed(self, run_id: str, location: str, origin: Place, counters: Counters) -> bool:
        if origin.kind == "row":
            rows, _ = decode_rows(run_id, await self._store.rows(run_id))
            entry = next((entry for at, entry in rows.history if text(at) == location), None)
            if entry is not None and isinstance(entry.kind, Child):
                return entry.kind.run == origin.owner
        return await self._shares_key(f"{run_id}:{counters.generation}:{location}", origin.owner, counters.rewinds)

    async def _shares_key(self, own: str, other: str, rewinds: int) -> bool:
        theirs = await self._store.details(note_of(other))
        names = [own, *(f"{own}~{number}" for number in range(rewinds, 0, -1))]
        for name in names if theirs is not None else ():
            if await self._store.details(note_of(name)) == theirs:
                return True
        return False


def _generation(run_id: str, location: str, task_id: str, counters: Counters) -> int | None:
    """Which run of the chain queued a task at this location; None if none did."""
    of_run = task_id.removeprefix(f"{run_id}:")
    written, colon, place = of_run.partition(":")
    if of_run == task_id or not colon or not (written.isascii() and written.isdigit()):
        return None
    rewound = place.removeprefix(f"{location}~")
    if place != location and (rewound == place or not (rewound.isascii() and rewound.isdigit())):
        return None
    generation = int(written)
    if generation == counters.generation and place != location and int(rewound) > counters.rewinds:
        return None
    return generation if generation <= counters.generation else None
