"""Opening a scope, and calling from inside one as if from its outside."""

from __future__ import annotations

from contextvars import Context, copy_context
from types import TracebackType

from tenuto.kernel.location import Segment
from tenuto.model.place import Place

__all__ = ["opened", "outside"]


class opened:  # reads as a verb: `async with opened(place, segment)`
    """A scope of the run; its random numbers go with it."""

    __slots__ = ("_place", "_scope")

    def __init__(self, place: Place, segment: Segment) -> None:
        self._place = place
        self._scope = place.port.scope(segment)

    async def __aenter__(self) -> None:
        await self._scope.__aenter__()

    async def __aexit__(
        self, sort: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        place = self._place
        if place.run.randoms and not place.port.inert:
            place.run.randoms.pop(place.port.entropy("random"), None)
        await self._scope.__aexit__(sort, error, trace)


def outside() -> Context:
    """The scope as it is now, to call the port in it after another one was opened."""
    return copy_context()
