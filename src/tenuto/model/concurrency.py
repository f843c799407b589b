"""parallel, join, race and shield. Structured: what they start has ended when they return."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Task
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from tenuto.errors import JoinError, RaceError
from tenuto.kernel.location import Segment, branch, check_name
from tenuto.kernel.operations import JoinMark, RaceMark
from tenuto.kernel.records import Branch as BranchRecord
from tenuto.kernel.records import BranchStatus, Join, JoinMode, Race
from tenuto.model.branches import Branch, Branches, check_branches, discard
from tenuto.model.options import whole
from tenuto.model.place import Place, current
from tenuto.model.scopes import opened

__all__ = ["Branch", "Failed", "Winner", "join", "parallel", "race", "shield"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """In the place of a `parallel` branch's value: what it raised."""

    error: Exception


class Winner(NamedTuple, Generic[T]):
    """The branch of a `race` that returned first, and what it returned."""

    winner: str
    value: T


# --- parallel and join


def parallel(
    branches: Iterable[Branch[T]], /, *, limit: int | None = None, name: str = "parallel"
) -> Coroutine[Any, Any, list[T | Failed]]:
    """The values of all branches, in their order; a branch that raised gives `Failed(error)`.

    pages = await parallel([partial(fetch, url) for url in urls], limit=10)
    good = [page for page in pages if not isinstance(page, Failed)]
    """
    items: list[Any] = list(branches)
    try:
        current("parallel()")
        check_branches("parallel()", items)
        if limit is not None:
            whole("limit", limit, at_least=1)
        return _parallel(items, limit, check_name(name))
    except BaseException:
        discard(items)
        raise


async def _parallel(branches: list[Any], limit: int | None, name: str) -> list[Any]:
    place = _begin("parallel()", branches)
    if not branches:
        return []
    placed = [(branch(name, n), str(n), item) for n, item in enumerate(branches)]
    tasks = await _all_ended(place, JoinMode.PARALLEL, name, placed, limit)
    return [_value_or_failed(task) for task in tasks]


def join(branches: Mapping[str, Branch[T]], /, *, name: str = "join") -> Coroutine[Any, Any, dict[str, T]]:
    """The values of all branches by name. All run to their end; then, if any failed, `JoinError` names each.

    parts = await join({"stock": check_stock, "credit": partial(check_credit, customer)})
    """
    items = _by_name("join()", branches)
    try:
        current("join()")
        _check_named("join()", items)
        return _join(items, check_name(name))
    except BaseException:
        discard(items.values())
        raise


def _by_name(construct: str, branches: Any) -> dict[str, Any]:
    if not isinstance(branches, Mapping):
        if isinstance(branches, Iterable):
            discard(cast("Iterable[Any]", branches))  # type: ignore[redundant-cast]  # not to pyright
        raise TypeError(
            f"{construct} takes a mapping of names to branches, not {branches!r}; for a list: parallel([...])"
        )
    return dict(cast("Mapping[str, Any]", branches))


async def _join(branches: dict[str, Any], name: str) -> dict[str, Any]:
    place = _begin("join()", branches.values())
    if not branches:
        return {}
    placed: list[tuple[Segment, str, Any]] = [(key, key, item) for key, item in branches.items()]
    tasks = await _all_ended(place, JoinMode.JOIN, name, placed, None)
    results = {key: _value_or_failed(task) for key, task in zip(branches, tasks, strict=True)}
    errors = {key: result.error for key, result in results.items() if isinstance(result, Failed)}
    if errors:
        raise JoinError(errors)
    return results


async def _all_ended(
    place: Place, mode: JoinMode, name: str, placed: Sequence[tuple[Segment, str, Any]], limit: int | None
) -> list[Task[Any]]:
    port = place.port
    running = tuple(BranchRecord(key, BranchStatus.RUNNING) for _, key, _ in placed)
    segment = cast("JoinMark", port.observe(JoinMark(name, Join(mode, running)))).segment
    assert segment is not None  # noqa: S101  # an observed start has a place
    branches = Branches(place, placed)
    try:
        async with opened(place, segment):
            branches.start(limit)
            while await branches.next_ended() is not None:
                branches.start(limit)
    except CancelledError:
        port.observe(JoinMark(name, Join(mode, branches.statuses()), segment))
        raise
    finally:
        discard(item for _, _, item in placed)
    port.observe(JoinMark(name, Join(mode, branches.statuses()), segment))
    return branches.tasks


def _value_or_failed(task: Task[Any]) -> Any:
    """What a branch returned, or `Failed`; anything but an `Exception` (a cancellation) is raised."""
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, Exception):
        raise error
    return Failed(error)


# --- race


def race(branches: Mapping[str, Branch[T]], /, *, name: str = "race") -> Coroutine[Any, Any, Winner[T]]:
    """The name and value of the branch that returned first. The others are cancelled and their clean-up awaited.

    A branch that raises drops out; if all do, `RaceError` names each.

        winner, answer = await race({"bank": partial(ask_bank, order), "late": partial(sleep, "1h")})
    """
    items = _by_name("race()", branches)
    try:
        current("race()")
        if not items:
            raise ValueError("race() needs at least one branch")
        _check_named("race()", items)
        return _race(items, check_name(name))
    except BaseException:
        discard(items.values())
        raise


async def _race(items: dict[str, Any], name: str) -> Winner[Any]:
    place = _begin("race()", items.values())
    port = place.port
    running = tuple(BranchRecord(key, BranchStatus.RUNNING) for key in items)
    segment = cast("RaceMark", port.observe(RaceMark(name, Race(None, running)))).segment
    assert segment is not None  # noqa: S101  # an observed start has a place
    branches = Branches(place, [(key, key, item) for key, item in items.items()])
    try:
        async with opened(place, segment):
            branches.start()
            first = await _first_returned(branches)
            beaten = [task for task in branches.tasks if not task.done()]
            await branches.stop()
    except CancelledError:
        port.observe(_race_mark(name, segment, items, branches, None, branches.tasks))
        raise
    finally:
        discard(items.values())
    port.observe(_race_mark(name, segment, items, branches, first, beaten))
    if first is None:
        raise _lost(items, branches.tasks)
    return Winner(list(items)[branches.tasks.index(first)], first.result())


async def _first_returned(branches: Branches) -> Task[Any] | None:
    while (task := await branches.next_ended()) is not None:
        if not task.cancelled() and task.exception() is None:
            return task
    return None


def _race_mark(
    name: str,
    segment: Segment,
    items: Mapping[str, Any],
    branches: Branches,
    first: Task[Any] | None,
    beaten: Iterable[Task[Any]],
) -> RaceMark:
    winner = None if first is None else list(items)[branches.tasks.index(first)]
    return RaceMark(name, Race(winner, branches.statuses(beaten)), segment)


def _lost(items: Iterable[str], tasks: Sequence[Task[Any]]) -> BaseException:
    """What a race without a winner raises."""
    errors: dict[str, Exception] = {}
    for key, task in zip(items, tasks, strict=True):
        if task.cancelled():
            return CancelledError()
        error = task.exception()
        if not isinstance(error, Exception):
            return cast("BaseException", error)
        errors[key] = error
    return RaceError(errors)


# --- both


def _check_named(construct: str, branches: Mapping[str, Any]) -> None:
    check_branches(construct, list(branches.values()))
    for key in branches:
        check_name(key)


def _begin(construct: str, branches: Iterable[Any]) -> Place:
    try:
        return current(construct)
    except BaseException:
        discard(branches)
        raise


# --- shield


def shield() -> AbstractAsyncContextManager[None]:
    """Holds back any cancellation of this task until the block ends, and delivers it there.

    async with shield():
        await book(order)
        await confirm(order)
    """
    current("shield()")
    return _Shield()


_inside: ContextVar[_Shield | None] = ContextVar("tenuto_shield", default=None)  # whose block this code belongs to


class _Shield:
    """While entered, `cancel()` of its task only notes the request, unless it comes from within the block.

    A timeout or a task group inside the block cancels the task too, and must reach it. Its callback runs in a context
    that was copied in the block: that tells it from what comes from outside.
    """

    __slots__ = ("_held", "_outer", "_task", "_token")

    async def __aenter__(self) -> None:
        current("shield()")
        self._task: Any = asyncio.current_task()
        self._held: list[tuple[Any, _Shield | None]] = []
        self._outer: _Shield | None = getattr(self._task, "tenuto_shield", None)
        self._cover(self)
        self._token = _inside.set(self)

    def _cover(self, shield: _Shield | None) -> None:
        self._task.tenuto_shield = shield
        if shield is None:
            del self._task.cancel  # the class's own again
        else:
            self._task.cancel = shield._cancel

    def _cancel(self, msg: Any | None = None) -> bool:
        self._take(msg, _inside.get())
        return True

    def _take(self, message: Any, origin: _Shield | None) -> None:
        block = origin
        while block is not None and block is not self:
            block = block._outer
        if block is self:
            cast("Any", Task).cancel(self._task, message)
        else:
            self._held.append((message, origin))

    async def __aexit__(self, sort: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        _inside.reset(self._token)
        self._cover(self._outer)
        if not self._held or (error is not None and not isinstance(error, Exception | CancelledError)):
            return  # nothing to deliver, or the run is being closed
        for message, origin in self._held:
            if self._outer is None:
                self._task.cancel(message)
            else:
                self._outer._take(message, origin)
        await asyncio.sleep(0)  # where what was held is raised
