"""What a run's rows say, as values.

Rules:

1. These are the records of the storage format, field for field; `codec.records` writes and reads them.
2. They are named tuples, not dataclasses, because replay builds one or two of them per recorded step and a named
   tuple costs a fifth of a frozen dataclass.
3. Fields called output, error, state, payload, args, input or result hold encoded user values: opaque bytes here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from tenuto.kernel.location import Location

__all__ = [
    "Branch",
    "BranchStatus",
    "Cancel",
    "Checkpoint",
    "Child",
    "ChildMode",
    "Counters",
    "Entry",
    "Flag",
    "Join",
    "JoinMode",
    "Kind",
    "Loop",
    "Mail",
    "MailKind",
    "Message",
    "Metadata",
    "Patch",
    "PatchMark",
    "Race",
    "Removed",
    "Rollback",
    "Rows",
    "SideEffect",
    "Sleep",
    "Step",
    "StepStatus",
    "Taken",
    "Update",
    "UpdateStatus",
]


class Flag:
    """What else is true of an entry. Plain integers: an `IntFlag` costs a microsecond per use."""

    NONE: Final = 0
    INSERTED: Final = 1
    CANCELLED: Final = 2
    RECEIVE: Final = 4
    SUPPLIED: Final = 8
    ALL: Final = 15


class StepStatus(IntEnum):
    STARTED = 0
    WAITING = 1
    QUEUED = 2
    COMPLETED = 3
    FAILED = 4


class JoinMode(IntEnum):
    JOIN = 0
    PARALLEL = 1


class BranchStatus(IntEnum):
    RUNNING = 0
    COMPLETED = 1
    FAILED = 2
    CANCELLED = 3


class PatchMark(IntEnum):
    REFUSED = 0
    TAKEN = 1
    DEPRECATED = 2


class ChildMode(IntEnum):
    SPAWN = 0
    DETACH = 1
    SEND = 2
    HOOK = 3


class MailKind(IntEnum):
    SIGNAL = 0
    UPDATE = 1
    CANCEL = 2
    RESULT = 3


class UpdateStatus(IntEnum):
    ACCEPTED = 1
    COMPLETED = 2
    FAILED = 3


class Step(NamedTuple):
    status: StepStatus
    output: bytes | None = None
    error: bytes | None = None
    undo: str | None = None  # the rollback handler's name, "" for a closure
    input: bytes | None = None  # encoded [args, kwargs], for people only


class Loop(NamedTuple):
    iteration: int
    state: bytes
    trimmed: int  # first iteration still kept
    since: int  # last seq when the loop was issued
    output: bytes | None = None  # set once the loop has broken


class Sleep(NamedTuple):
    deadline: int


class Taken(NamedTuple):
    id: str  # the mail's number as in its key: 16 hex digits
    name: str
    payload: bytes
    sent_at: int


class Message(NamedTuple):
    names: tuple[str, ...]
    deadline: int | None = None
    taken: Taken | None = None  # settled without one: timed out


class Branch(NamedTuple):
    name: str
    status: BranchStatus


class Join(NamedTuple):
    mode: JoinMode
    branches: tuple[Branch, ...]


class Race(NamedTuple):
    winner: str | None
    branches: tuple[Branch, ...]


class Removed(NamedTuple):
    kind: str


class SideEffect(NamedTuple):
    output: bytes | None = None
    error: bytes | None = None


class Patch(NamedTuple):
    mark: PatchMark


class Child(NamedTuple):
    mode: ChildMode
    accepted: int  # seq of the acceptance; 0 before it
    run: str  # run id or token
    target: str  # definition id, or signal name
    output: bytes | None = None
    error: bytes | None = None


class Checkpoint(NamedTuple):
    pass


Kind: TypeAlias = (
    Step | Loop | Sleep | Message | Join | Race | Removed | SideEffect | Patch | Child | Checkpoint
)  # in the order of their tags, 0 to 10


class Entry(NamedTuple):
    """One recorded operation. `seq` 0: not settled. `began`: now of the turn that issued it."""

    seq: int
    at: int
    began: int
    flags: int
    kind: Kind


class Rollback(NamedTuple):
    attempts: int
    retry_at: int | None = None
    done_at: int | None = None
    error: bytes | None = None


class Metadata(NamedTuple):
    """What a step's entry does not say: attempts, the next retry, its undoing."""

    attempts: int
    last_at: int
    retry_at: int | None = None
    error: bytes | None = None
    rollback: Rollback | None = None


class Mail(NamedTuple):
    """A row `(3, n)`. `name`: signal, update, or (RESULT) a location's text. `ref`: id, or "supplied"."""

    kind: MailKind
    name: str
    ref: str | None
    payload: bytes | None
    error: bytes | None
    attempts: int
    sent_at: int


class Update(NamedTuple):
    """A row `(6, id)`. `seq` 0: not replayed."""

    seq: int
    at: int
    name: str
    args: bytes
    status: UpdateStatus
    result: bytes | None = None
    error: bytes | None = None


class Cancel(NamedTuple):
    seq: int
    at: int
    reason: str | None
    deadline: int | None


class Counters(NamedTuple):
    """The row `(4, 7)`. `logic`: the kernel behaviour this run was started under."""

    started_at: int
    generation: int = 0
    rewinds: int = 0
    logic: int = 1
    cancel: Cancel | None = None


class Rows(NamedTuple):
    """All rows of one run, decoded."""

    run_id: str
    state: str
    version: str
    input: bytes
    counters: Counters
    history: tuple[tuple[Location, Entry], ...] = ()  # in key order
    metadata: dict[Location, Metadata] = {}  # noqa: RUF012  # never mutated
    mail: tuple[tuple[int, Mail], ...] = ()  # in number order
    updates: dict[str, Update] = {}  # noqa: RUF012
    output: bytes | None = None
    error: bytes | None = None
    published: bytes | None = None
    first_input: bytes | None = None  # digest of the input of the chain's first run, once that has been continued
