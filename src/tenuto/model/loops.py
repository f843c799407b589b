"""Long loops with commits and pruned history."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from tenuto.codec.values import dump
from tenuto.kernel.location import check_name, iteration
from tenuto.kernel.operations import Commit, Committed
from tenuto.model.place import current
from tenuto.model.port import Port
from tenuto.model.scopes import opened, outside

__all__ = ["Break", "Continue", "loop"]

S = TypeVar("S")
T = TypeVar("T")
S_co = TypeVar("S_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Continue(Generic[S_co]):
    """Of a loop's body: another iteration, with this state."""

    state: S_co


class Break(Generic[T_co]):
    """Of a loop's body: the loop ends and gives this value."""

    __slots__ = ("value",)
    value: T_co

    @overload
    def __init__(self: Break[None]) -> None: ...
    @overload
    def __init__(self, value: T_co) -> None: ...
    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Break({self.value!r})"


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    commit_interval: int
    history_every: int
    history_keep: int

    def keep(self, count: int, *, broken: bool) -> int | None:
        """The first iteration to keep at this commit; None: nothing is trimmed."""
        multiple = count // self.history_every > (count - self.commit_interval) // self.history_every
        return max(0, count - self.history_keep) if broken or multiple else None


def loop(
    name: str,
    state: S,
    body: Callable[[S], Coroutine[Any, Any, Continue[S] | Break[T] | None]],
    /,
    *,
    commit_interval: int = 20,
    history_every: int | None = None,
    history_keep: int | None = None,
) -> Coroutine[Any, Any, T]:
    """What the body broke with, after any number of iterations in bounded history.

    Every `commit_interval` iterations the state is stored and replay starts from there, so only the state may carry
    anything from one iteration to later ones; what a body changes elsewhere is lost at a commit. So is what a task
    beside the loop was fed by it: a producer in the body with a consumer outside it parks at the first restart.

        async def poll(seen: int) -> Continue[int] | Break[str]:
            page = await fetch_page(seen)
            return Break(page.summary) if page.last else Continue(seen + len(page.rows))

        summary = await loop("poll", 0, poll)
    """
    current("loop()")
    for option, value in (
        ("commit_interval", commit_interval),
        ("history_every", history_every),
        ("history_keep", history_keep),
    ):
        _check_count(option, value)
    if not callable(body):  # pyright: ignore[reportUnnecessaryComparison]  # callers without a type checker
        raise TypeError(f"the body of loop {name!r} is an async function of its state, not {body!r}")
    plan = _Plan(check_name(name), commit_interval, history_every or commit_interval, history_keep or commit_interval)
    return _loop(plan, dump(state), body)


def _check_count(option: str, value: Any) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"{option}= is a whole number of at least 1, not {value!r}")


async def _loop(plan: _Plan, initial: bytes, body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    place = current("loop()")
    port = place.port
    stored = await port.commit(Commit(plan.name, 0, initial))
    if stored.broken:
        return _output(port, stored)
    count, state = stored.count, port.decode(stored.state or b"")
    above = outside()
    async with opened(place, stored.segment):
        while True:
            async with opened(place, iteration(plan.name, count)):
                result = await body(state)
            count += 1
            broken = type(result) is Break
            state = state if broken else _next_state(plan.name, state, result)
            if not broken and count % plan.commit_interval:
                continue
            commit = Commit(
                plan.name,
                count,
                dump(state),
                stored.segment,
                keep=plan.keep(count, broken=broken),
                broken=broken,
                output=dump(result.value) if broken else None,  # pyright: ignore[reportUnknownMemberType]  # the user's own
            )
            committed = await above.run(port.commit, commit)
            if broken:
                break
            state = port.decode(committed.state or b"")
    return _output(port, committed)


def _output(port: Port, committed: Committed) -> Any:
    return None if committed.output is None else port.decode(committed.output)


def _next_state(name: str, before: Any, result: Any) -> Any:
    if isinstance(result, Continue):
        return result.state  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # the user's own
    if result is None and before is None:
        return None
    raise TypeError(
        f"the body of loop {name!r} returned {result!r}; it returns Continue(state) or Break(value)"
        " (None only where the state is None)"
    )
