"""What workflow code can ask an engine for: the values that cross the port (`model.port`).

Rules:

1. Plain data and opaque callables; no engine is named here, so that any engine can serve the same model.
2. User values are encoded bytes, times are integer milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from tenuto.kernel.location import Segment
from tenuto.kernel.records import ChildMode, Join, JoinMode, Race

__all__ = [
    "Call",
    "Cancelled",
    "CheckpointMark",
    "ChildOp",
    "Commit",
    "Committed",
    "Completed",
    "Continued",
    "Dispatch",
    "Err",
    "Failed",
    "Handlers",
    "JoinMark",
    "Observed",
    "Ok",
    "Operation",
    "Outcome",
    "Parked",
    "RaceMark",
    "RemovedMark",
    "SideEffectOp",
    "SleepOp",
    "StepOp",
    "StepSpec",
    "TimedOut",
    "WaitOp",
]


# --- outcomes of attempts and runs


class Ok(NamedTuple):
    value: bytes


class Err(NamedTuple):
    """A dumped exception. `unencodable`: the step returned, but its value could not be stored; never retried.

    `after_ms`: what a `RetryableError` asked for.
    """

    error: bytes
    unencodable: bool = False
    after_ms: int | None = None


class TimedOut(NamedTuple):
    """An attempt that was cancelled at its limit."""


class Completed(NamedTuple):
    value: bytes


class Failed(NamedTuple):
    error: bytes


class Cancelled(NamedTuple):
    pass


class Continued(NamedTuple):
    input: bytes  # encoded [args, kwargs] of the next run of the chain


class Parked(NamedTuple):
    error: Exception


Outcome: TypeAlias = Completed | Failed | Cancelled | Continued | Parked


# --- operations to issue


class Call(Protocol):
    """What the step runner gets: opaque to an engine, except for what it records and queues."""

    @property
    def input(self) -> bytes:
        """Encoded [args, kwargs]."""
        ...

    @property
    def target(self) -> str:
        """The definition's id; "" for an inline named function, which cannot be queued."""
        ...


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step's options, made once per definition."""

    name: str
    max_attempts: int = 3
    backoff_ms: float = 100
    backoff_max_ms: float = 30_000
    no_retry: tuple[type[Exception] | str, ...] = ()
    timeout_ms: int | None = None
    heartbeat_ms: int | None = None
    ephemeral: bool = False
    record_input: bool = True
    undo: str | None = None  # the rollback handler's name, "" for a closure, None without one
    rollback: Callable[[Any], object] | None = None
    queue: str | None = None
    priority: int = 0
    delay_ms: int = 0
    key: str | None = None
    partition: str | None = None


class StepOp(NamedTuple):
    """A step: inline, or a task when its spec names a queue."""

    spec: StepSpec
    call: Call


class SleepOp(NamedTuple):
    """Either a duration from run time, or a point in time; `poll`: until all that is stored now has been looked at."""

    name: str
    duration_ms: int | None = None
    until_ms: int | None = None
    poll: bool = False


class WaitOp(NamedTuple):
    """Take the oldest signal of one of these names. The future gives its payload; `TimeoutError` at the deadline."""

    name: str
    signals: tuple[str, ...]
    timeout_ms: int | None = None


class ChildOp(NamedTuple):
    """Spawn, detach, send, hook. Futures: see `Port.issue`."""

    name: str
    mode: ChildMode
    run: str | None  # child's id, receiver's id, token; None: the default
    target: str  # definition id, or signal name
    input: bytes | None = None  # encoded [args, kwargs]; of a signal, its encoded argument list
    queue: str | None = None
    if_exists: Literal["error", "attach"] = "error"
    priority: int = 0


class SideEffectOp(NamedTuple):
    """A closure, called in the drain unless recorded: gives its dumped value, or the dumped error."""

    name: str
    run: Callable[[], Ok | Err]


Operation: TypeAlias = StepOp | SleepOp | WaitOp | ChildOp | SideEffectOp


# --- constructs to observe


class JoinMark(NamedTuple):
    """A `join` or `parallel`. Observed without a segment when it starts, with the one it was given when it ends."""

    name: str
    record: Join
    segment: Segment | None = None

    @property
    def mode(self) -> JoinMode:
        return self.record.mode


class RaceMark(NamedTuple):
    name: str
    record: Race
    segment: Segment | None = None


class RemovedMark(NamedTuple):
    name: str
    kind: str  # as the user said it: may be "parallel" or "receive"


class CheckpointMark(NamedTuple):
    name: str


Observed: TypeAlias = JoinMark | RaceMark | RemovedMark | CheckpointMark


# --- messages


@dataclass(frozen=True, slots=True)
class Handlers:
    """Which messages `take` serves. A validator gets the encoded arguments and says why not, or None.

    `by_kind`: places are called `signal:NAME!n` and `update:NAME!n`, so that no message shares a name with a step.
    `otherwise`: how updates that nobody serves are rejected from now on, and with which reason.
    """

    signals: frozenset[str] = frozenset()
    updates: Mapping[str, Callable[[bytes], str | None]] = field(
        default_factory=dict[str, Callable[[bytes], str | None]]
    )
    by_kind: bool = False
    otherwise: tuple[str, str | None] = ("not_accepting", None)

    def place(self, kind: Literal["signal", "update"], name: str) -> str:
        """The name of the segments at which these messages are dispatched."""
        return f"{kind}:{name}" if self.by_kind else name


class Dispatch(NamedTuple):
    kind: Literal["signal", "update"]
    name: str
    segment: Segment  # NAME!n
    args: bytes  # encoded argument list
    update_id: str | None = None


# --- loops and receive checkpoints


@dataclass(frozen=True, slots=True)
class Commit:
    """A loop's or a receive's commit.

    `segment` is None at the first call, which takes the location and gives back what is stored (count 0 and `state`
    when nothing is); with `state` None it leaves no entry behind: a receive without checkpoints. Later calls name the
    segment the first one gave. `keep`: first iteration (or dispatch) to keep, None to trim nothing. `broken`: the
    loop ends with `output`.
    """

    name: str
    count: int
    state: bytes | None
    segment: Segment | None = None
    keep: int | None = None
    broken: bool = False
    output: bytes | None = None
    receive: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    segment: Segment
    count: int
    state: bytes | None
    broken: bool = False
    output: bytes | None = None
