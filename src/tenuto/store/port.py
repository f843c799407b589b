"""What a store must do.

Rules:

1. Rows belong to one run; keys carry no run id; runs never see each other's rows.
2. Listing a prefix gives exactly the keys that start with its bytes, in byte order.
3. A commit (rows, timers, tasks, runs, messages, answers, status) is all or nothing, under the epoch the run was
   claimed with; a stale epoch is refused and changes nothing. In a group a refused member takes no other with it.
4. Inside a commit: range deletes (half-open), then deletes, then puts.
5. Outside turns only senders, `create`, `rewind` and `recover` write rows.
6. Mail gets its number in the transaction that stores it, so numbers are in commit order.
7. A wake-up is a row (`builtin.resume_workflow`, at most one pending per run), inserted in the transaction of its cause
   by a locking upsert. Work under way never suppresses a new one.
8. Time is the store's own clock, in milliseconds; a worker's clock decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from tenuto.kernel.records import Mail
from tenuto.store.commits import CLOSED, Commit, End, Full, Lease, NewRun, NewTimer, Outgoing, Own, Park, Rows, Start
from tenuto.store.housekeeping import Housekeeping
from tenuto.store.programs import Programs
from tenuto.store.quarantine import Suspects
from tenuto.store.queues import Queueing

__all__ = [
    "CLOSED",
    "NEVER",
    "OPEN",
    "SCHEDULE",
    "STATUSES",
    "STUCK",
    "Claim",
    "ClaimedTask",
    "Commit",
    "Cursor",
    "End",
    "Full",
    "Lease",
    "Listing",
    "NewRun",
    "NewTimer",
    "OpenTask",
    "Outgoing",
    "Own",
    "Park",
    "Rows",
    "RunFilter",
    "RunRecord",
    "RunningStep",
    "Start",
    "Store",
    "TaskEnd",
    "TurnResult",
    "UnreadableRun",
    "WorkerRecord",
]

OPEN: Final = frozenset({"scheduled", "pending", "running", "suspended", "paused", "parked"})
NEVER: Final = -1  # an epoch no run has had: nothing in memory is as old as that
SCHEDULE: Final = "schedule:"  # what who started a run begins with, where that was a schedule


class RunRecord(NamedTuple):
    """A run as the store sees it. A named tuple, because every claim makes one."""

    id: str
    target: str
    status: str  # one of OPEN or CLOSED
    epoch: int
    alarm: int | None  # its earliest timer
    reason: str | None  # why it is parked
    parent: tuple[str, str] | None  # who started it and where: a run, or a schedule
    detached: bool
    definition: str = ""
    queue: str = "default"
    run_no: int = 1
    created_at: int = 0
    started_at: int | None = None
    completed_at: int | None = None
    attributes: Mapping[str, str | int | float | bool] = {}  # never mutated

    @property
    def parent_id(self) -> str | None:
        """The run that started it, if one did: a schedule is none."""
        if self.parent is None or self.parent[0].startswith(SCHEDULE):
            return None
        return self.parent[0]


# Where a list goes on: behind this run, as its store orders runs. Two numbers that mean nothing elsewhere.
Cursor: TypeAlias = tuple[int, int]
# What else may stand for a status: several of them, or the parked ones that lost too many workers.
STUCK: Final = "stuck"
STATUSES: Final = frozenset({*OPEN, *CLOSED, "open", "closed", STUCK})


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; newest first. A status nobody has is a `ValueError`: it would silently fit none."""

    status: str | None = None  # one of STATUSES
    target: str | None = None  # a definition's id
    since: int | None = None
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, "str | int | float | bool"])
    limit: int = 100
    name: str | None = None  # a definition's id, or its last part: whatever ends so fits
    after: Cursor | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in STATUSES:
            raise ValueError(f"status={self.status!r}: no run is ever that; it is one of {', '.join(sorted(STATUSES))}")

    @property
    def statuses(self) -> tuple[str, ...] | None:
        """The statuses that fit; None: all."""
        if self.status is None:
            return None
        several = {"open": OPEN, "closed": CLOSED, STUCK: ("parked",)}.get(self.status, (self.status,))
        return tuple(sorted(several))


class Listing(NamedTuple):
    """A page of runs, and where the next one begins; None: there is no more."""

    records: list[RunRecord]
    after: Cursor | None


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """What a look at several runs has for one whose rows or mail cannot be opened: raised when that run is taken up."""

    error: Exception


class Claim(NamedTuple):
    """A run to be advanced by the worker that claimed it."""

    lease: Lease
    record: RunRecord
    epoch_before: int  # a cached run is valid only if this is the epoch of its own last commit


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task to be run by the worker that claimed it. `epoch` fences its end."""

    id: str
    target: str
    input: bytes
    epoch: int
    attempt: int
    max_attempts: int
    backoff_ms: float
    backoff_max_ms: float
    timeout_ms: int | None
    heartbeat_ms: int | None
    run_id: str | None  # its parent, None for a task without a workflow
    location: str
    queue: str = "default"


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How an attempt of a task ended. `retry_at`: it is tried again then; None: this is final.

    `cancelled`: it was asked to stop and did.
    """

    id: str
    epoch: int
    output: bytes | None
    error: bytes | None
    attempts: int
    retry_at: int | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class OpenTask:
    """An open task as somebody who looks sees it."""

    id: str
    target: str
    queue: str
    status: str  # scheduled, pending, running
    attempt: int  # begun so far
    max_attempts: int
    ready_at: int
    location: str
    worker: str | None
    started_at: int | None = None  # of the attempt under way


class RunningStep(NamedTuple):
    """An attempt of an inline step that a worker has under way."""

    run_id: str
    location: str
    attempt: int
    since: int | None  # by the store's clock
    worker: str


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker that is alive. `queues`: those it serves, None: all."""

    id: str
    host: str
    pid: int
    release: str
    queues: tuple[str, ...] | None
    started_at: int
    lease_until: int
    machine: str = ""  # `store.machine`; empty: nobody can look whether its process is there
    pid_began: int = 0


class TurnResult(NamedTuple):
    """What became of one member of a group.

    stale: another worker has the run. cancel_first: an acknowledged cancel is unapplied and the turn had an outcome;
    nothing was written and the run is to be reloaded. taken: the id or key of a new run is another's, nothing was
    written. kept: whether this worker still holds the lease.
    """

    verdict: Literal["committed", "stale", "cancel_first", "taken"]
    kept: bool = False
    undelivered: tuple[Outgoing, ...] = ()


class Store(Housekeeping, Programs, Queueing, Protocol):
    """Memory, SQLite, Postgres: one conformance suite holds them all."""

    @property
    def commits_at_once(self) -> int:
        """How many groups of turns it is worth to have under way at the same time."""
        ...

    def clock(self) -> int | None:
        """The store's clock as far as it is known without asking; never ahead of it. None: ask `now`."""
        ...

    async def open(self) -> None:
        """Connects, checks and migrates. `StoreUnavailableError`, `StoreRefusedError`, `StoreTooNewError`."""
        ...

    async def close(self) -> None: ...

    async def now(self) -> int:
        """The store's clock."""
        ...

    async def schema(self) -> tuple[int, int]:
        """The version its tables are at, and the one this release makes; equal once it was opened to be written."""
        ...

    # --- clients

    async def create(self, run: NewRun) -> bool:
        """Stores a new run; False when its id, or its key in its queue, is taken, and nothing is changed."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """The run, if there is one."""
        ...

    async def runs(self, which: RunFilter | None = None) -> list[RunRecord]:
        """All runs, oldest first; with a filter those that fit, newest first."""
        ...

    async def listing(self, which: RunFilter) -> Listing:
        """A page of the runs that fit, newest first. What is there from the first page to the last comes once."""
        ...

    async def count(self, which: RunFilter) -> dict[str, int]:
        """How many runs fit, by status."""
        ...

    async def rows_at(self, run_ids: Sequence[str], key: bytes) -> dict[str, bytes]:
        """The row under one key of several runs, in one look; those without it are left out."""
        ...

    async def rows(self, run_id: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The rows whose key starts with a prefix, in byte order."""
        ...

    async def send(self, run_id: str, mail: Mail, message_id: str | None = None) -> int | None:
        """Stores mail for an open run and wakes it; its number, None if that message id is stored already.

        Signals are rows `(3, n)` of the run, the rest is kept in the inbox; one numbering for both. A cancel of a run
        that has not begun (`pending`, `scheduled`) closes it as `cancelled` at once.
        """
        ...

    async def signal_and_claim(
        self, worker_id: str, run_id: str, mail: Mail, message_id: str | None
    ) -> tuple[int | None, Claim | None]:
        """Sends a signal; a run that is suspended becomes the worker's in the same commit, in place of the wake-up."""
        ...

    async def answer(self, run_id: str, update_id: str) -> bytes | None:
        """The rejection of an update, dumped, while it is kept: until the same update is sent again (P8)."""
        ...

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Removes runs with everything that belongs to them."""
        ...

    async def terminate(self, run_id: str, reason: str | None) -> bool:
        """Closes an open run at once, raises its epoch, tells its parent; False if it was closed."""
        ...

    async def release(self, run_id: str) -> bool:
        """Lets a paused or parked run go on; False if it was neither."""
        ...

    async def wake(self, run_id: str) -> None:
        """Gives a suspended or running run a turn; nothing fires early."""
        ...

    async def reopen(self, back: Full) -> bool:
        """Takes a run back, from any status (`recover`, `rewind`): writes what `back` says, whoever has the lease.

        Its epoch rises, so a worker that has it can no longer write; it is suspended, open again, and woken. False, and
        nothing is changed, if its epoch is not the one that `back` was made of.
        """
        ...

    async def pause(self, run_id: str) -> bool:
        """Pauses an open run: at once, or after the work under way; False if it is closed or parked."""
        ...

    async def changed(self, since: int, timeout: float) -> int:
        """Waits until something was committed (by any process) after `since`, at most so long; the new mark."""
        ...

    async def open_tasks(self, run_id: str) -> list[OpenTask]:
        """The tasks a run has queued that have not ended, oldest first."""
        ...

    async def holder(self, run_id: str) -> str | None:
        """The worker that has the lease of a run, alive or not."""
        ...

    async def steps_under_way(self, run_id: str) -> list[RunningStep]:
        """The steps of a run that were noted as under way. A worker that was lost takes back none of its notes."""
        ...

    async def note_under_way(self, begun: Sequence[RunningStep], ended: Sequence[RunningStep]) -> None:
        """Notes steps that have been under way for a while, for those who look, and takes back those that ended."""
        ...

    async def live_workers(self) -> list[WorkerRecord]:
        """Workers whose lease is not over, oldest first."""
        ...

    async def open_hook(self, run_id: str, key: str, token_hash: str) -> bool:
        """Gives a hook's token to a run (again, under the same key); False: another open run has it."""
        ...

    async def hook_owner(self, token_hash: str) -> str | None:
        """The open run that has a token."""
        ...

    # --- workers

    async def register(
        self,
        worker_id: str,
        lease_ms: int,
        capability: str,
        definitions: Mapping[str, str],
        queues: Sequence[str] | None = None,
    ) -> None:
        """Makes a worker known, with the definitions (id -> hash) it has; resumes runs another capability parked.

        `queues`: those it serves (None: all), for those who ask why something waits.
        """
        ...

    async def heartbeat(self, worker_id: str, lease_ms: int) -> bool:
        """Renews all leases of a worker by one row; False: it is lost, and not revived."""
        ...

    async def deregister(self, worker_id: str, begun: Sequence[str] = ()) -> None:
        """Gives back what the worker holds: runs suspended and woken, tasks pending; neither counts as reclaim.

        `begun`: tasks whose step it had begun. Their attempt counts (P2): they are tried again, or have failed with
        kind `interrupted`, as if the worker had been lost.
        """
        ...

    async def claim(self, run_id: str) -> Lease:
        """A lease on one run with a new epoch; every older one can no longer write."""
        ...

    async def claim_runs(
        self, worker_id: str, known: Sequence[str], limit: int, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        """Resumed runs first, then first starts in these queues (None: all), of the definitions this worker knows.

        Suspects are left out, here and among tasks.
        """
        ...

    async def claim_tasks(
        self, worker_id: str, known: Sequence[str], queues: Sequence[str] | None, limit: int
    ) -> list[ClaimedTask]:
        """Tasks of these queues (None: all), larger priority first, then older. Queues with limits are left out."""
        ...

    async def declare_lost(self, worker_ids: Sequence[str]) -> None:
        """Ends the leases of workers whose processes are gone, as if their time were over: the next sweep finds them.
        Their background leases are free."""
        ...

    async def has_suspects(self, waited_ms: int) -> bool:
        """Whether suspects (`store.quarantine`) have been waiting for so long. Costs next to nothing without any."""
        ...

    async def claim_suspects(
        self,
        worker_id: str,
        known: tuple[Sequence[str], Sequence[str]],
        queues: Sequence[str] | None,
        group: tuple[int, int],
        waited_ms: int,
    ) -> Suspects:
        """Suspects to be held together: of these workflows and steps, and for tasks of these queues (None: all).

        `group`: the worker's concurrency, and how much room it has. `waited_ms`: only what has been ready for so long.
        Tasks of queues with limits are not among them; `claim_limited` gives them like any others.
        """
        ...

    async def still_suspect(self, worker_id: str) -> list[str]:
        """Of what this worker has the lease of: the suspects, which have committed nothing yet."""
        ...

    async def note_place(self, lease: Lease, location: str) -> None:
        """What the holder of a suspect is about to perform, so that it can be named if the worker does not survive."""
        ...

    async def give_back_tasks(self, worker_id: str, kept: Sequence[str], begun: Sequence[str] = ()) -> None:
        """Tasks leased by this worker that it does not have, because the answer to its claim was lost, are claimable
        again; the attempt does not count, but for those it had begun (`deregister`)."""
        ...

    async def leased(self, worker_id: str) -> list[Claim]:
        """The runs this worker has the lease of; nothing it has of them in memory counts."""
        ...

    async def absorb(self, worker_id: str, run_ids: Sequence[str]) -> list[str]:
        """Takes the wake-ups of runs whose lease this worker has; before it reads their mail."""
        ...

    async def mail(self, run_id: str, above: int) -> list[tuple[int, Mail]]:
        """All unconsumed mail of a run numbered above, signals and the rest together, in number order."""
        ...

    async def rows_of(self, run_ids: Sequence[str]) -> Mapping[str, list[tuple[bytes, bytes]] | UnreadableRun]:
        """All rows of several runs, in one look; what cannot be opened spoils its own run only."""
        ...

    async def mail_of(self, above: Mapping[str, int]) -> Mapping[str, list[tuple[int, bytes]] | UnreadableRun]:
        """The encoded mail of several runs, each above its own number, in one look; those without any are left out.

        As bytes: whoever takes up a run decodes its mail, so that a damaged row spoils no other run.
        """
        ...

    async def timers(self, run_id: str) -> list[str]:
        """The locations of a run's timers that are there: one deleted by hand is not (P4)."""
        ...

    async def commit(self, commit: Commit) -> list[Outgoing]:
        """Commits one turn, or raises `LeaseLostError` and changes nothing. What could not be delivered."""
        ...

    async def commit_group(self, commits: Sequence[Commit]) -> list[TurnResult]:
        """Commits turns together in one transaction, each on its own merits."""
        ...

    async def end_task(self, end: TaskEnd) -> bool:
        """Ends an attempt of a task with its result mail and wake-up; False: the worker had lost it."""
        ...

    async def keep_details(self, key: str, run_id: str, details: bytes) -> None:
        """What the last heartbeat of a step said, for its next attempt, wherever that runs."""
        ...

    async def details(self, key: str) -> bytes | None:
        """What was kept under this idempotency key."""
        ...

    async def fire_timers(self, limit: int) -> int | None:
        """Removes due timers and wakes their runs; makes due delayed starts and retries pending. The next deadline."""
        ...

    async def sweep(self, max_reclaims: int, limit: int) -> int:
        """Takes runs and tasks from workers that are gone; how many.

        A run that was all that so many of them had, without a commit in between, is parked as stuck.
        """
        ...
