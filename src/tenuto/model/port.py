"""The port: everything workflow code's constructs need of an engine.

`model/` and the TWF interpreter are written over this and know nothing else of an engine. One port per run, found
through a context variable that the engine's root task sets by calling `run_main`.
"""

from __future__ import annotations

from asyncio import Future
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, Protocol

from tenuto.kernel.location import Segment
from tenuto.kernel.operations import Commit, Committed, Dispatch, Err, Handlers, Observed, Ok, Operation, StepOp

__all__ = ["Port", "RunInfo", "current_port"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run knows about itself."""

    id: str
    workflow: str  # its definition's id
    run_no: int  # 1, then +1 per continue-as-new
    started_at: datetime
    parent_id: str | None
    replaying: bool


class Port(Protocol):
    """An engine, as one run sees it. Values are encoded bytes, times integer milliseconds."""

    @property
    def run_id(self) -> str: ...

    @property
    def generation(self) -> int:
        """0, then +1 per continue-as-new."""
        ...

    @property
    def started_at(self) -> int: ...

    @property
    def replaying(self) -> bool: ...

    @property
    def inert(self) -> bool:
        """Whether the run is being closed."""
        ...

    def evict(self) -> None:
        """Raise `Evicted` in a run being closed; from a task's third call on return: what it awaits never settles."""
        ...

    def now(self) -> int:
        """Run time."""
        ...

    def entropy(self, purpose: str) -> bytes:
        """16 bytes of the current scope: `random`, or `uuid` (another each time)."""
        ...

    def scope(self, segment: Segment) -> AbstractAsyncContextManager[None]:
        """Opens a scope without an entry. Leaving it cancels and awaits the asyncio tasks created in it (G6)."""
        ...

    def issue(self, operation: Operation) -> Future[bytes]:
        """Begins an operation in the current scope and takes its location. Cancelling the future withdraws it.

        A step gives its value, a sleep b"", a wait the signal's payload. An operation that failed raises its
        recorded error. A spawn's future settles when the start is recorded, with the child's run id in UTF-8, and
        `ended` gives its end; a detach gives the id; a send gives b""; a hook gives its token.
        """
        ...

    def perform(self, step: StepOp) -> Future[bytes] | bytes:
        """As `issue`, of an inline step that is awaited at once; its value, or its error raised, if replay has it."""
        ...

    def ended(self, spawned: Future[bytes]) -> Future[bytes]:
        """The child's own outcome, of a future that `issue` gave for a spawn; awaited or not."""
        ...

    def operation_key(self, issued: Future[bytes]) -> str:
        """The idempotency key of an operation, of a future that `issue` gave."""
        ...

    def observe(self, mark: Observed) -> Observed:
        """The construct as recorded at this place, else `mark`, which is then recorded.

        A join or race is observed when it starts (no segment: it takes a location) and when it ends (with the
        segment it got and its statuses). A checkpoint, a removed mark: once.
        """
        ...

    def listen(self, name: str | None, handlers: Handlers, why: str = "not_accepting") -> None:
        """From now on `take` serves these messages; updates that are not served are rejected with `why`.

        Called inside the receive's scope. Empty handlers stop the listening.
        """
        ...

    def take(self) -> Future[Dispatch]:
        """The next message, an update after it was validated and admitted. Cancelling it takes nothing."""
        ...

    def reply(self, update_id: str, result: Ok | Err) -> None:
        """The answer to an admitted update. Err holds a dumped `UpdateFailedError`."""
        ...

    def commit(self, commit: Commit) -> Future[Committed]:
        """Commits a loop or a receive; see `Commit`."""
        ...

    def publish(self, value: bytes) -> None:
        """Replaces the published state when this turn is committed."""
        ...

    def close_hook(self, token: str) -> None:
        """Frees a hook's token when this turn is committed."""
        ...

    def patch(self, patch_id: str, *, deprecate: bool = False) -> bool:
        """The run's one decision about a patch."""
        ...

    def log(self, message: str) -> None:
        """A warning for the operator, said once: not again on replay."""
        ...

    def park(self, error: Exception) -> NoReturn:
        """Stops here for a cause that is not the run's: the turn is dropped and the run parked with this reason."""
        ...

    def decode(self, value: bytes) -> Any:
        """The value; parks the run when it cannot be read."""
        ...


current_port: ContextVar[Port] = ContextVar("tenuto_port")
