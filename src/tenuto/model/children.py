"""Other runs: spawned ones, which this run's end cancels, and detached ones, which it does not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, TypedDict, TypeVar, TypeVarTuple, Unpack, cast, overload

from tenuto.kernel.location import check_name
from tenuto.kernel.operations import ChildOp
from tenuto.kernel.records import ChildMode
from tenuto.model.definitions import Bound, encode_call
from tenuto.model.handles import ChildHandle, ChildWork
from tenuto.model.marking import startable
from tenuto.model.messages import signal
from tenuto.model.options import whole
from tenuto.model.place import current

__all__ = ["ChildHandle", "ChildOptions", "detach", "spawn"]

R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")


class ChildOptions(TypedDict, total=False):
    """Options of `spawn` and `detach`."""

    id: str  # of the child; without it one is made of this run's id and the place
    queue: str
    priority: int  # in its queue: larger goes first
    name: str  # of the entry in this run's history
    if_exists: Literal["error", "attach"]  # an id that is in use: `ChildStartError`, or follow that run


@overload
def spawn(workflow: Bound[R], /, **options: Unpack[ChildOptions]) -> Coroutine[Any, Any, ChildHandle[R]]: ...
@overload
def spawn(
    workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts, **options: Unpack[ChildOptions]
) -> Coroutine[Any, Any, ChildHandle[R]]: ...
def spawn(  # type: ignore[misc]  # mypy cannot match an implementation with *Ts
    workflow: Any, /, *args: Any, **options: Any
) -> Coroutine[Any, Any, ChildHandle[Any]]:
    """A handle on another run, once its start is recorded. Awaiting the handle gives its result, or a `ChildError`.

    Children that are still open when this run ends get a cancel request.

        child = await spawn(ship, order)
        tracking = await child
    """
    current("spawn()")
    return _spawn(_operation("spawn", ChildMode.SPAWN, workflow, args, options))


async def _spawn(operation: ChildOp) -> ChildHandle[Any]:
    place = current("spawn()")
    spawned = place.port.issue(operation)
    run_id = (await spawned).decode()
    return _Child[Any](place, operation.name, run_id, place.port.ended(spawned))


class _Child(ChildWork[T_co]):
    def signal(self, name: str, /, *args: object) -> Coroutine[Any, Any, None]:
        """Sends the child a signal."""
        return signal(self.id, name, *args)


@overload
def detach(workflow: Bound[Any], /, **options: Unpack[ChildOptions]) -> Coroutine[Any, Any, str]: ...
@overload
def detach(
    workflow: Callable[[*Ts], Coroutine[Any, Any, Any]], /, *args: *Ts, **options: Unpack[ChildOptions]
) -> Coroutine[Any, Any, str]: ...
def detach(  # type: ignore[misc]  # mypy cannot match an implementation with *Ts
    workflow: Any, /, *args: Any, **options: Any
) -> Coroutine[Any, Any, str]:
    """The id of another run, once its start is committed. It goes on whatever becomes of this one.

    run_id = await detach(send_newsletter, month, id=f"newsletter-{month}")
    """
    current("detach()")
    return _detach(_operation("detach", ChildMode.DETACH, workflow, args, options))


async def _detach(operation: ChildOp) -> str:
    return (await current("detach()").port.issue(operation)).decode()


def _operation(call: str, mode: ChildMode, workflow: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> ChildOp:
    unknown = options.keys() - {"id", "queue", "priority", "name", "if_exists"}
    if unknown:
        raise TypeError(f"{call}() has no option {min(unknown)!r}")
    kwargs: Mapping[str, Any] = {}
    if isinstance(workflow, Bound):
        if args:
            raise TypeError(f"{call}(): a bound workflow has its arguments already")
        bound = cast("Bound[Any]", workflow)  # type: ignore[redundant-cast]  # not to pyright
        workflow, args, kwargs = bound.definition, bound.args, bound.kwargs
    known, args = startable(workflow, args)
    known.bind(*args, **kwargs)  # a call that does not fit is Python's own TypeError, here
    if_exists = options.get("if_exists", "error")
    if if_exists not in ("error", "attach"):
        raise ValueError(f"if_exists= is 'error' or 'attach', not {if_exists!r}")
    return ChildOp(
        check_name(options.get("name") or f"child:{known.name}"),
        mode,
        None if options.get("id") is None else check_name(options["id"]),
        known.id,
        encode_call(args, kwargs),
        check_name(options.get("queue") or known.queue),
        if_exists,
        whole("priority", options.get("priority", 0)),
    )
