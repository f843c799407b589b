"""What a store must do about schedules, about work that one worker does for all, and about what is old.

Rules:

1. A schedule fires in one transaction: its runs are there and its next time is set, or neither (R049).
2. Whoever fires has seen the schedule at some revision; every change of it raises that, so of two who saw the same
   times one fires and the other finds nothing to do (R050).
3. A background lease only saves polling: everything stays correct with two holders (Q12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from tenuto.store.port import NewRun, Outgoing

__all__ = ["CatchUp", "DueSchedule", "Fired", "Firing", "Housekeeping", "Overlap", "ScheduleRecord"]

Overlap: TypeAlias = Literal["skip", "queue_one", "allow", "cancel"]
CatchUp: TypeAlias = Literal["none", "one", "all"]


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as the store keeps it. Times in milliseconds since 1970 UTC."""

    name: str
    target: str  # the workflow's id
    input: bytes  # the encoded call of its runs
    queue: str
    cron: str | None
    every_ms: int | None
    tz: str
    overlap: Overlap
    catch_up: CatchUp
    start_at: int | None
    end_at: int | None
    anchor: int  # `every_ms` counts from here
    next_at: int | None  # None: no time is left
    waiting_at: int | None = None  # nominal time of the run that begins when the last one ends
    last_id: str | None = None
    paused: bool = False
    revision: int = 0


class DueSchedule(NamedTuple):
    """A schedule with something to do: a time has come, or the run that another waits for has ended."""

    record: ScheduleRecord
    last_open: bool  # whether the run it started last is still open


@dataclass(frozen=True, slots=True)
class Firing:
    """What becomes of a schedule that was seen at `revision`."""

    name: str
    revision: int
    next_at: int | None
    waiting_at: int | None
    runs: tuple[NewRun, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()  # a cancel of the run before


class Fired(NamedTuple):
    """The answer to one firing."""

    moved: bool  # False: another loop fired it, or the schedule has changed; nothing was stored
    taken: tuple[str, ...] = ()  # ids that runs of others have already: no run was started for those times


class Housekeeping(Protocol):
    """The part of a store that works by the clock."""

    async def put_schedule(self, record: ScheduleRecord) -> None:
        """Stores a schedule. The same rule (cron, every, tz, start, end) again keeps its times; another re-arms it."""
        ...

    async def schedules(self) -> list[ScheduleRecord]:
        """All of them, by name."""
        ...

    async def get_schedule(self, name: str) -> ScheduleRecord | None: ...

    async def set_schedule(self, name: str, revision: int, paused: bool, next_at: int | None) -> bool:
        """Pauses or re-arms a schedule that was seen at a revision; False: it is another one by now."""
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Whether there was one. Its runs stay."""
        ...

    async def due_schedules(self, limit: int, after: str = "") -> tuple[list[DueSchedule], int | None]:
        """Schedules with something to do now, by name and beyond `after`; and the next time that is not due yet."""
        ...

    async def fire_schedules(self, firings: Sequence[Firing]) -> list[Fired]:
        """Start the runs and move the schedules, all in one transaction.

        The last run of a schedule is the latest that it started itself: a run that somebody else stored under the id
        of one of its times is not its own.
        """
        ...

    async def take_background(self, names: Sequence[str], owner: str, ttl_ms: int) -> list[str]:
        """Takes or renews the background leases that nobody else has: those that `owner` holds now (Q12)."""
        ...

    async def delete_expired(self, retention_ms: int, limit: int) -> int:
        """Deletes runs, and tasks without a run, that were closed so long ago; how many.

        Not while a spawned child is open; closed children are unlinked first and keep their own time.
        """
        ...

    async def update_statistics(self) -> int:
        """Tells whoever plans our statements how large tables have become; of how many it did not know.

        Asked for every few seconds: it costs next to nothing where nothing has grown, and changes no answer.
        """
        ...

    async def recreate(self, run: NewRun, statuses: Sequence[str]) -> bool:
        """Deletes the run that has the id, if its status is one of these, and stores the new one: one transaction.

        False when the id is taken all the same, and then nothing is changed.
        """
        ...

    async def identity(self) -> str:
        """What tells this store from every other one, for as long as it is there."""
        ...

    async def defined(self) -> list[str]:
        """The ids of the definitions that workers have registered, in order."""
        ...
