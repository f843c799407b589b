"""What may leave a turn: things the host does for a run."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from tenuto.kernel.location import Location, text
from tenuto.kernel.operations import Call, Err, Ok, StepOp, StepSpec

__all__ = [
    "CancelChild",
    "CancelStep",
    "CancelTask",
    "CancelTimer",
    "CloseHook",
    "Command",
    "EnqueueTask",
    "Origin",
    "RegisterHook",
    "ReplyUpdate",
    "RunRollback",
    "RunStep",
    "SendSignal",
    "StartChild",
    "StartTimer",
    "is_durable",
]


class Origin(NamedTuple):
    """The run that operations come from, as their keys name it."""

    run_id: str
    generation: int
    rewinds: int

    def key(self, location: Location) -> str:
        """The idempotency key of what is at a place; also a task's id and a child's default id."""
        rewound = f"~{self.rewinds}" if self.rewinds else ""
        return f"{self.run_id}:{self.generation}:{text(location)}{rewound}"


class RunStep(NamedTuple):
    location: Location
    attempt: int
    call: Call
    spec: StepSpec
    origin: Origin | str  # of a task, which may have no run: its id

    @property
    def key(self) -> str:
        """The idempotency key; made when it is asked for, since most steps never do."""
        return self.origin if isinstance(self.origin, str) else self.origin.key(self.location)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def timeout_ms(self) -> int | None:
        return self.spec.timeout_ms

    @property
    def heartbeat_ms(self) -> int | None:
        return self.spec.heartbeat_ms


class RunRollback(NamedTuple):
    """Call `handler(value of result)`."""

    location: Location
    attempt: int
    handler: object
    result: bytes
    timeout_ms: int | None
    key: str
    name: str


class RegisterHook(NamedTuple):
    location: Location
    key: str
    token: str | None


class CloseHook(NamedTuple):
    """The token is free again. Done twice it is done once."""

    token: str


class CancelStep(NamedTuple):
    location: Location


class EnqueueTask(NamedTuple):
    location: Location
    id: str
    target: str
    input: bytes
    queue: str
    priority: int
    delay_ms: int
    key: str | None
    partition: str | None
    max_attempts: int
    backoff_ms: float
    backoff_max_ms: float
    timeout_ms: int | None
    heartbeat_ms: int | None

    @classmethod
    def of(cls, step: StepOp, location: Location, task_id: str) -> EnqueueTask:
        """The task that a step with a queue is."""
        spec, call = step.spec, step.call
        return cls(
            location=location,
            id=task_id,
            target=call.target,
            input=call.input,
            queue=spec.queue or "default",
            priority=spec.priority,
            delay_ms=spec.delay_ms,
            key=spec.key,
            partition=spec.partition,
            max_attempts=spec.max_attempts,
            backoff_ms=spec.backoff_ms,
            backoff_max_ms=spec.backoff_max_ms,
            timeout_ms=spec.timeout_ms,
            heartbeat_ms=spec.heartbeat_ms,
        )


class StartTimer(NamedTuple):
    location: Location
    deadline: int
    sort: Literal["delay", "timeout", "retry"]


class CancelTimer(NamedTuple):
    location: Location


class StartChild(NamedTuple):
    location: Location
    run: str
    target: str
    input: bytes
    queue: str | None
    if_exists: Literal["error", "attach"]
    detached: bool
    priority: int = 0


class SendSignal(NamedTuple):
    location: Location
    id: str  # the same on every delivery of it
    run: str
    name: str
    payload: bytes


class CancelTask(NamedTuple):
    location: Location
    id: str


class CancelChild(NamedTuple):
    location: Location
    run: str


class ReplyUpdate(NamedTuple):
    """The answer to an update. `rejected`: (why, reason) and nothing recorded; else its recorded outcome."""

    id: str
    outcome: Ok | Err | None
    rejected: tuple[str, str | None] | None = None


Command: TypeAlias = (
    RunStep
    | RunRollback
    | RegisterHook
    | CloseHook
    | CancelStep
    | EnqueueTask
    | StartTimer
    | CancelTimer
    | StartChild
    | SendSignal
    | CancelTask
    | CancelChild
    | ReplyUpdate
)


_INLINE: Final = (RunStep, RunRollback, RegisterHook, CancelStep)


def is_durable(command: Command) -> bool:
    """Whether a command is carried out inside the commit, rather than after it."""
    return not isinstance(command, _INLINE)
