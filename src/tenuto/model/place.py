"""Where code is: in a run, a branch, a handler, a validator, a step's body, or outside.

A context variable holds the place, so a task created somewhere belongs there. Every call of the model asks for its
place first, when it is called and again when it is first awaited, and is refused with an error that names the way
out; a refused call records nothing and takes no location.
"""

from __future__ import annotations

import asyncio
from asyncio import Task
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import ref

from tenuto.errors import Evicted, NestingError, NotInWorkflowError, ReadOnlyError
from tenuto.kernel.interrupts import is_imposed

if TYPE_CHECKING:
    from collections.abc import Generator
    from random import Random

    from tenuto.model.port import Port

__all__ = [
    "OUTSIDE",
    "Kind",
    "Place",
    "Receiving",
    "RunContext",
    "current",
    "entered",
    "here",
    "in_main_task",
    "is_control",
    "reading",
    "refuse",
]

Kind: TypeAlias = Literal[
    "run", "branch", "handler", "async handler", "closure", "validator", "query", "side effect", "step"
]
_OPEN: Final[frozenset[Kind]] = frozenset({"run", "branch", "handler", "async handler"})


class RunContext:
    """What all places of one run share."""

    __slots__ = ("_main", "parent_id", "randoms", "settled", "workflow_id")

    def __init__(self, workflow_id: str, parent_id: str | None, main: Task[Any] | None) -> None:
        self.workflow_id = workflow_id
        self.parent_id = parent_id
        self._main = None if main is None else ref(main)  # the task's context leads here: not in a circle
        self.randoms: dict[bytes, Random] = {}  # by the seed of their scope
        self.settled = 0  # handles that have an outcome, to tell which had it first

    @property
    def main(self) -> Task[Any] | None:
        """The run's own task, as long as it is there."""
        return None if self._main is None else self._main()


class Receiving:
    """What a place inside a `receive` knows of it."""

    __slots__ = ("names", "update_state")

    def __init__(self, names: frozenset[str], update_state: Any) -> None:
        self.names = names
        self.update_state = update_state


class Place:
    """Immutable by convention: entering another place makes another object."""

    __slots__ = ("kind", "open", "port", "published", "receiving", "run")

    def __init__(
        self,
        kind: Kind,
        port: Port,
        run: RunContext,
        receiving: Receiving | None = None,
        published: list[bytes] | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.open = kind in _OPEN  # whether operations may be issued here
        self.port = port
        self.run = run
        self.receiving = receiving
        self.published = published  # in a closure: what it published so far

    def inside(self, kind: Kind, receiving: Receiving | None = None, published: list[bytes] | None = None) -> Place:
        """A place of another kind within this one."""
        return Place(kind, self.port, self.run, receiving or self.receiving, published)


OUTSIDE: Final = None
here: ContextVar[Place | None] = ContextVar("tenuto_place", default=OUTSIDE)


def current(call: str) -> Place:
    """The place, if operations may be issued there."""
    place = here.get()
    if place is None or not place.open:
        raise refuse(call, place)
    if place.port.inert:
        place.port.evict()
    return place


def reading(call: str) -> Place:
    """The place, if the run may be looked at from there (validators and closures included)."""
    place = here.get()
    if place is None or not (place.open or place.kind in ("validator", "closure")):
        raise refuse(call, place)
    if place.port.inert:
        place.port.evict()
    return place


def refuse(call: str, place: Place | None) -> Exception:
    """The error for a call that its place forbids."""
    kind = None if place is None else place.kind
    match kind:
        case "validator" | "query":
            return ReadOnlyError(f"{call} was called in a {kind}")
        case "closure":
            return NestingError(f"{call} was called in the function given to update_state; do it before or after")
        case "side effect":
            return NestingError(
                f"{call} was called in the function given to side_effect; use a step, or call it outside"
            )
        case "step":
            return NotInWorkflowError(f"{call} was called in the body of a step")
        case _:
            return NotInWorkflowError(f"{call} was called outside a run")


def is_control(error: BaseException, port: Port) -> bool:
    """True if an exception passes the edges of user code: the run is being closed, or it is not the code's at all."""
    return (isinstance(error, Evicted) and port.inert) or is_imposed(error)


def in_main_task(place: Place) -> bool:
    """Whether this code is the run's own, not a task or branch of it. (`wait_for` may make a task that only stands for
    the one that called it.)"""
    task = asyncio.current_task()
    while task is not None and task is not place.run.main:
        task = getattr(task, "stands_for", None)
    return place.kind == "run" and task is not None


@contextmanager
def entered(place: Place | None) -> Generator[None]:
    """Code in the block is at that place."""
    token = here.set(place)
    try:
        yield
    finally:
        here.reset(token)
