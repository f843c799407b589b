"""What a run publishes, and the queries that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tenuto.codec.values import dump, load
from tenuto.errors import NestingError, QueryFailedError, QueryNotFoundError
from tenuto.kernel.interrupts import is_imposed
from tenuto.model.place import Place, current, entered, reading, refuse

if TYPE_CHECKING:
    from tenuto.model.definitions import Workflow

__all__ = ["answer_query", "publish_state", "update_state"]

S = TypeVar("S")
T = TypeVar("T")

_QUERY: Final = Place("query", cast("Any", None), cast("Any", None))


def publish_state(value: object, /) -> None:
    """Replaces what queries see: a copy made now, visible when this turn is committed.

    publish_state({"status": "packing", "parcels": len(parcels)})
    """
    place = reading("publish_state()")
    if place.kind == "validator":
        raise refuse("publish_state()", place)
    encoded = dump(value)
    if place.published is not None:  # in a closure: counts only if it returns
        place.published.append(encoded)
    else:
        place.port.publish(encoded)


def update_state(fn: Callable[[S], tuple[T, S]], /) -> T:
    """Changes the state of the enclosing `receive` from an async handler function.

    `fn` gets a copy of the present state and returns a result and the new state; nothing can happen in between.

        def take(stock: Stock) -> tuple[int, Stock]:
            return stock.count, replace(stock, count=0)

        taken = update_state(take)
    """
    place = current("update_state()")
    receiving = place.receiving
    if receiving is None or receiving.update_state is None:
        raise NestingError(
            "update_state() was called outside an async handler function; a handler returns its new state, a run has"
            " variables"
        )
    result: T = receiving.update_state(fn)
    return result


def answer_query(
    workflow: Workflow[..., Any],
    snapshot: bytes | None,
    query: str | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """What a query says about a published state, decoded from the store; `None` before the first one.

    Needs no worker and no run. `QueryNotFoundError` lists the names there are; what the function raises is the cause of
    a `QueryFailedError`.
    """
    if isinstance(query, str):
        function = workflow.queries.get(query)
        if function is None:
            known = ", ".join(sorted(workflow.queries)) or "none"
            raise QueryNotFoundError(f"workflow {workflow.id} has no query {query!r}; it has: {known}")
    else:
        function = query
    state = None if snapshot is None else load(snapshot)
    try:
        with entered(_QUERY):
            return function(state, *args, **kwargs or {})
    except BaseException as error:  # part of the model's contract: a query may raise anything, the run is untouched
        if is_imposed(error):
            raise
        name = query if isinstance(query, str) else getattr(query, "__name__", "query")
        raise QueryFailedError(f"query {name!r} of {workflow.id} raised {type(error).__name__}: {error}") from error
