"""What queues may be told, how much room that leaves, and which of them have limits at all.

Rules:

1. An item of a queue with limits holds a slot from its claim to its end. A suspended run keeps its slot; a paused or
   parked one gives it up and later goes on without; a task that waits for its next attempt has none either.
2. A rate allows so many starts in any window of its length, retries included: a start is allowed when fewer than that
   many lie in the window that ends now.
3. A queue without limits is claimed as if this module did not exist. Claims look at the table of limits themselves, so
   a new limit holds from its commit on; what is cached here only says whether it is worth looking for limited work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tenuto.store.sharing import SharedLook
from tenuto.system import REAL, Clock

if TYPE_CHECKING:
    from tenuto.kernel.commands import EnqueueTask
    from tenuto.store.port import Claim, ClaimedTask, RunFilter

__all__ = [
    "LimitedClaims",
    "LimitedNames",
    "QueueLimits",
    "QueuePlace",
    "QueueRecord",
    "QueueState",
    "Queueing",
    "Ready",
    "TaskState",
    "choose",
    "columns_of_limits",
    "limits_of_row",
]

CACHED: Final = 1.0  # seconds: the poll within which every worker has heard of a limit


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What a queue was told. None: no such limit."""

    name: str
    concurrency: int | None = None  # items at once, over all workers
    worker_concurrency: int | None = None  # in one process
    partition_concurrency: int | None = None  # of one partition key, over all workers
    rate: tuple[int, int] | None = None  # starts, and the milliseconds of the window they are counted in
    paused: bool = False

    @property
    def limited(self) -> bool:
        """Whether claims have to look at anything."""
        limits = (self.concurrency, self.worker_concurrency, self.partition_concurrency, self.rate)
        return self.paused or any(limit is not None for limit in limits)


def columns_of_limits(limits: QueueLimits) -> dict[str, str | int | None]:
    """A row of `queues`, as it is written."""
    count, period = limits.rate if limits.rate is not None else (None, None)
    return {
        "name": limits.name,
        "concurrency": limits.concurrency,
        "worker_concurrency": limits.worker_concurrency,
        "partition_concurrency": limits.partition_concurrency,
        "rate_limit": count,
        "rate_period": period,
        "paused": limits.paused,
    }


def limits_of_row(row: Sequence[Any]) -> QueueLimits:
    """Out of the columns name, three concurrencies, rate_limit, rate_period, paused."""
    name, concurrency, worker, partition, starts, period, paused = row[:7]
    rate = None if starts is None else (int(starts), int(period))
    return QueueLimits(name, concurrency, worker, partition, rate, bool(paused))


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue as the store sees it."""

    limits: QueueLimits
    waiting: int  # ready to begin
    running: int  # a worker has them now
    slots: int  # places taken; none in a queue without limits


@dataclass(frozen=True, slots=True)
class QueueState:
    """How far a queue with limits is used up now."""

    limits: QueueLimits
    slots: int
    starts: int  # in the window that ends now
    oldest: int | None  # of them: when it leaves the window, another may start

    def room(self, here: int) -> int | None:
        """How many may begin now in a process that has `here` of its items; None: as many as there are."""
        limits = self.limits
        if limits.paused:
            return 0
        rooms = [
            limit - used
            for limit, used in (
                (limits.concurrency, self.slots),
                (limits.worker_concurrency, here),
                (None if limits.rate is None else limits.rate[0], self.starts),
            )
            if limit is not None
        ]
        return max(0, min(rooms)) if rooms else None

    def again_at(self) -> int | None:
        """When its rate, if nothing else, lets more begin."""
        limits = self.limits
        if limits.rate is None or limits.paused or self.oldest is None or self.starts < limits.rate[0]:
            return None
        return self.oldest + limits.rate[1]


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where an item that has not begun stands: the limits of its queue, and what of them is used up."""

    queue: str
    status: str
    state: QueueState | None  # None: the queue has no limits
    partition: str | None = None
    partition_slots: int = 0
    ahead: int = 0  # items of its queue that come before it
    ready_at: int = 0  # when it may begin


class TaskState(NamedTuple):
    """How far a task has come, or how it ended."""

    status: str  # scheduled, pending, running, completed, failed, cancelled
    output: bytes | None
    error: bytes | None
    attempts: int
    target: str
    queue: str
    location: str


@dataclass(frozen=True, slots=True)
class LimitedClaims:
    """What queues with limits let begin. `again_at`: when a rate lets more begin, if one holds something back."""

    runs: Sequence[Claim] = ()
    tasks: Sequence[ClaimedTask] = ()
    again_at: int | None = None


class Queueing(Protocol):
    """The part of a store that knows queues, and tasks without a workflow."""

    def limit_messages(self, per_run: int) -> None:
        """How many messages that nobody has taken a run may have. Said before the store is opened."""
        ...

    async def set_queue(self, limits: QueueLimits) -> None:
        """Keeps what a queue was told, in place of what it was told before."""
        ...

    async def queues(self) -> list[QueueRecord]:
        """The queues that were told something, and those that have work, by name."""
        ...

    async def limited(self) -> frozenset[str]:
        """The names of the queues that have limits, as of a second ago at most."""
        ...

    async def place(self, item_id: str) -> QueuePlace | None:
        """Where an item stands in its queue; None for one that waits in none."""
        ...

    async def keyed(self, queue: str, key: str) -> str | None:
        """The open item, run or task, that has a key in a queue."""
        ...

    async def enqueue(self, task: EnqueueTask) -> str:
        """Stores a task without a workflow; its id, or that of the open item with its key."""
        ...

    async def task(self, task_id: str) -> TaskState | None:
        """A task, of a run or by itself."""
        ...

    async def cancel_task(self, task_id: str) -> bool:
        """Ends a task that has not begun, flags one that runs; False if it is closed or unknown."""
        ...

    async def flagged_tasks(self, worker_id: str) -> list[str]:
        """The tasks this worker has that were asked to stop."""
        ...

    async def claim_limited(
        self,
        worker_id: str,
        workflows: Sequence[str],
        steps: Sequence[str],
        queues: Sequence[str] | None,
        here: Mapping[str, int],
        room: tuple[int, int],
    ) -> LimitedClaims:
        """First starts and tasks of queues with limits, as far as those allow, together: they share the slots.

        `here`: how many items of each queue this process has; `room`: how many runs and tasks it can take.
        """
        ...

    async def page(self, which: RunFilter, after: str, until: int) -> list[tuple[str, str]]:
        """Ids and statuses of the runs that fit and were created by then, in id order, those after an id."""
        ...


class Ready(NamedTuple):
    """An item that could begin, in the order in which items do."""

    order: int  # less its priority
    ready_at: Any
    id: str
    is_run: bool


def choose(ready: Sequence[Ready], room: int | None, runs: int, tasks: int) -> list[Ready]:
    """Those that begin: larger priorities first, then older ones, as far as there is room for each sort."""
    chosen: list[Ready] = []
    for item in sorted(ready, key=lambda item: item[:3]):
        if room is not None and len(chosen) >= room:
            break
        if item.is_run and runs > 0:
            runs -= 1
            chosen.append(item)
        elif not item.is_run and tasks > 0:
            tasks -= 1
            chosen.append(item)
    return chosen


@dataclass(slots=True)
class LimitedNames:
    """The names of queues that have limits, read now and then; to be replaced when they are changed here."""

    read: Callable[[], Awaitable[frozenset[str]]]
    clock: Clock = REAL.clock
    names: frozenset[str] = field(default=frozenset())
    _read_at: float | None = None
    _look: SharedLook = field(default_factory=SharedLook)

    async def get(self) -> frozenset[str]:
        """Not older than the poll."""
        if not self._are_fresh():
            await self._look.until(self._are_fresh, self._read)
        return self.names

    def _are_fresh(self) -> bool:
        return self._read_at is not None and self.clock.monotonic() - self._read_at < CACHED

    async def _read(self) -> None:
        now = self.clock.monotonic()
        names = await self.read()
        self._read_at, self.names = now, names
