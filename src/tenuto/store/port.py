"""What a store must do.

Rules:

1. Rows belong to one run; keys carry no run id; runs never see each other's rows.
2. Listing a prefix gives exactly the keys that start with its bytes, in byte order.
3. A commit (rows, alarm, tasks, runs, messages, answers) is all or nothing, under the epoch the run was claimed with; a
   stale epoch is refused and changes nothing.
4. Inside a commit: range deletes (half-open), then deletes, then puts.
5. Outside turns only senders, `create`, `rewind` and `recover` write rows.
6. Mail gets its number in the transaction that stores it, so numbers are in commit order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenuto.codec.rows import EncodedBatch
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail

__all__ = ["Lease", "NewRun", "Outgoing", "RunRecord", "Store", "TurnCommit"]

NOTHING = EncodedBatch((), (), ())


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be: its first rows and who started it."""

    id: str
    target: str  # the definition's id
    rows: tuple[tuple[bytes, bytes], ...]
    parent: tuple[str, str] | None = None  # run id and location of the operation to tell about its end
    detached: bool = False


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the store sees it."""

    id: str
    target: str
    status: str  # pending, running, suspended, parked, completed, failed, cancelled, terminated
    epoch: int
    alarm: int | None
    reason: str | None
    parent: tuple[str, str] | None
    detached: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a run, until somebody else claims it."""

    run_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Mail to another run. `id`: the same message is stored once."""

    run_id: str
    mail: Mail
    id: str


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """Everything one turn decided."""

    lease: Lease
    status: str
    rows: EncodedBatch = NOTHING
    alarm: int | None = None
    reason: str | None = None
    runs: tuple[NewRun, ...] = ()
    tasks: tuple[EnqueueTask, ...] = ()
    cancelled_tasks: tuple[str, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    answers: tuple[tuple[str, bytes], ...] = ()  # rejected updates: their id and a dumped error


class Store(Protocol):
    """Memory, SQLite, Postgres: one conformance suite holds them all."""

    async def create(self, run: NewRun) -> bool:
        """Stores a new run; False when the id is taken, and nothing is changed."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """The run, if there is one."""
        ...

    async def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        ...

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The rows whose key starts with a prefix, in byte order."""
        ...

    async def claim(self, run_id: str) -> Lease:
        """A lease with a new epoch; every older one can no longer write."""
        ...

    async def commit(self, commit: TurnCommit) -> list[Outgoing]:
        """Commits a turn, or raises `LeaseLostError` and changes nothing. What could not be delivered, to be noted."""
        ...

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        """Stores mail for an open run; its number, None if that message id is stored already."""
        ...

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        """The rejection of an update, dumped."""
        ...

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Removes runs with everything that belongs to them."""
        ...
