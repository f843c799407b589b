"""The kinds of commit: what one turn decided, as a store takes it.

Rules:

1. A commit is classified once, by the host (`host.classify`); a store maps kinds to statements and asks no more.
2. The short kinds concern their own run only. They have no range deletes, and never put and delete the same row.
3. Every kind is a `Full` (or a `Park`) that says less: `full` says it at length. A store that takes `full` of each
   commit answers as one that has a way for each kind; memory does, and is the reference.

The table of the ways is in `docs/internals/commits.md`. Named tuples, because every turn makes one and a frozen
dataclass costs four times as much; built by keyword.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from tenuto.codec.rows import EncodedBatch
from tenuto.kernel.commands import EnqueueTask
from tenuto.kernel.records import Mail

__all__ = [
    "CLOSED",
    "NOTHING",
    "Commit",
    "End",
    "Full",
    "Lease",
    "NewRun",
    "NewTimer",
    "Outgoing",
    "Own",
    "Park",
    "Puts",
    "Rows",
    "Start",
    "begun_by",
    "full",
    "puts_of",
]

CLOSED: Final = frozenset({"completed", "failed", "cancelled", "terminated"})
NOTHING: Final = EncodedBatch((), (), ())
Puts: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Lease(NamedTuple):
    """The right to write a run, until somebody else claims it."""

    run_id: str
    epoch: int


class NewRun(NamedTuple):
    """A run to be: its first rows and who started it. A named tuple, as everything a commit carries, for speed."""

    id: str
    target: str  # the definition's id
    rows: tuple[tuple[bytes, bytes], ...]
    parent: tuple[str, str] | None = None  # run id and location of the operation to tell about its end
    detached: bool = False  # the parent is only who started it: it is not told
    definition: str = ""  # its hash
    queue: str = "default"
    priority: int = 0
    delay_ms: int = 0  # starts `scheduled`
    key: str | None = None
    partition: str | None = None
    attributes: Mapping[str, str | int | float | bool] = {}  # never mutated
    worker: str | None = None  # whose it is from the start: it is born running, under epoch 1
    begun_at: int | None = None  # the time of its first turn, where that was taken before it is stored


class NewTimer(NamedTuple):
    """A row of `timer_tasks`: wakes its run when it is due."""

    location: str
    deadline: int
    sort: Literal["delay", "timeout", "retry"]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Mail to another run. `id`: the same message is stored once."""

    run_id: str
    mail: Mail
    id: str


class Rows(NamedTuple):
    """A turn that puts rows of a run that continues as it is: the turn of most steps. `seen`: the last mail read."""

    lease: Lease
    puts: Puts
    alarm: int | None
    seen: int


class Start(NamedTuple):
    """A new run with its first turn, after which it runs or is suspended; `pending`: without a turn, for any worker.

    It has no parent and no delay, and no alarm that needs a row of its own.
    """

    new: NewRun
    status: str
    puts: Puts = ()
    alarm: int | None = None
    timers: tuple[NewTimer, ...] = ()
    definition: str | None = None  # a hash other than the new run's

    @property
    def lease(self) -> Lease:
        """The lease under which it begins; epoch 0: nobody's."""
        return Lease(run_id=self.new.id, epoch=0 if self.new.worker is None else 1)


class End(NamedTuple):
    """A turn that puts rows and closes its run, which nothing else of the turn concerns."""

    lease: Lease
    status: str
    puts: Puts
    seen: int
    definition: str | None = None
    notify: bool = False  # an update is answered: its caller waits


class Own(NamedTuple):
    """A turn that changes what belongs to its run, whatever that is, and concerns no other run."""

    lease: Lease
    status: str
    rows: EncodedBatch
    alarm: int | None = None
    seen: int = 0
    mail_done: tuple[int, ...] = ()
    timers: tuple[NewTimer, ...] = ()
    stopped_timers: tuple[str, ...] = ()
    definition: str | None = None
    notify: bool = False


class Park(NamedTuple):
    """A run that the engine cannot continue. `capability`: of the worker that parked it; another kind may resume it."""

    lease: Lease
    reason: str
    capability: str | None = None
    seen: int = 0
    new: NewRun | None = None  # it is stored in this very commit


class Full(NamedTuple):
    """Everything one turn decided. `status` is what the run is in afterwards.

    running: inline work is under way, the lease is kept. suspended: the lease is released, unless mail arrived above
    `seen`, then it stays running and leased. A closed status: timers, resume and lease go.
    """

    lease: Lease
    status: str
    rows: EncodedBatch = NOTHING
    alarm: int | None = None
    runs: tuple[NewRun, ...] = ()
    tasks: tuple[EnqueueTask, ...] = ()
    cancelled_tasks: tuple[str, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    followed: tuple[tuple[str, str], ...] = ()  # runs that are there already: their id, and where its own operation is
    closed_hooks: tuple[str, ...] = ()  # hashes of tokens that are free again
    answers: tuple[tuple[str, bytes], ...] = ()  # rejected updates: their id and a dumped error
    seen: int = 0  # the last mail number this run has been given
    mail_done: tuple[int, ...] = ()  # mail other than signals that this turn decided
    timers: tuple[NewTimer, ...] = ()
    stopped_timers: tuple[str, ...] = ()  # their locations
    definition: str | None = None  # a new hash
    continued: bool = False  # the next run of the chain begins: run_no + 1
    notify: bool = False  # an update is answered: its caller waits
    new: NewRun | None = None  # the run is stored in this very commit; without a worker of its own there is no turn yet


Commit: TypeAlias = Rows | Start | End | Own | Park | Full


def full(commit: Commit) -> Full | Park:
    """Return the same commit at length. What parks a run has nothing else."""
    match commit:
        case Full() | Park():
            return commit
        case Rows(lease=lease, puts=puts, alarm=alarm, seen=seen):
            return Full(
                lease=lease,
                status="running",
                rows=EncodedBatch(range_deletes=(), deletes=(), puts=puts),
                alarm=alarm,
                seen=seen,
            )
        case Start():
            return Full(
                lease=commit.lease,
                status=commit.status,
                rows=EncodedBatch(range_deletes=(), deletes=(), puts=commit.puts),
                alarm=commit.alarm,
                timers=commit.timers,
                definition=commit.definition,
                new=commit.new,
            )
        case End():
            return Full(
                lease=commit.lease,
                status=commit.status,
                rows=EncodedBatch(range_deletes=(), deletes=(), puts=commit.puts),
                seen=commit.seen,
                definition=commit.definition,
                notify=commit.notify,
            )
        case Own():
            return Full(
                lease=commit.lease,
                status=commit.status,
                rows=commit.rows,
                alarm=commit.alarm,
                seen=commit.seen,
                mail_done=commit.mail_done,
                timers=commit.timers,
                stopped_timers=commit.stopped_timers,
                definition=commit.definition,
                notify=commit.notify,
            )
        case _:
            assert_never(commit)


def begun_by(commit: Commit) -> NewRun | None:
    """Return the run that a commit stores first, if it is new."""
    return commit.new if isinstance(commit, Start | Park | Full) else None


def puts_of(commit: Commit) -> Puts:
    """Return the rows that a turn puts, without those that a new run begins with."""
    if isinstance(commit, Rows | End | Start):
        return commit.puts
    return () if isinstance(commit, Park) else commit.rows.puts
